"""`handrail acp`: the agent for editors that speak the Agent Client Protocol, over stdin and stdout."""

from __future__ import annotations

import argparse
import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as NotYet

from handrail.agent.history import History
from handrail.agent.loop import Agent, AgentLimits
from handrail.agent.messages import TextDelta
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import open_model
from handrail.agent.store import Store
from handrail.cli.chat.plan import ChatPlan, add_options, make_plan
from handrail.cli.common import CommandParser, open_config
from handrail.model import Failure, Result
from handrail.pipeline.options import Setup

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import Any

    from handrail.agent.acp import Conversation
    from handrail.agent.messages import Event

_ABOUT = """\
Serve the agent to an editor (Zed and others), which starts this command and talks to it over stdin and stdout.

The editor names the project, shows calls and diffs as they happen, and asks you where the rules do not decide. Files
with unsaved changes are read and edited in the editor."""

_EXAMPLES = """\
examples:
  handrail acp --model claude-sonnet-4-5
  handrail acp --model qwen3-coder --mode accept-edits

in Zed's settings:
  "agent_servers": {"Handrail": {"command": "handrail", "args": ["acp", "--model", "claude-sonnet-4-5"]}}"""

_STOPS = {"done": "end_turn", "failed": "end_turn", "steps": "max_turn_requests", "tokens": "max_tokens"}


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("acp", _ABOUT, _EXAMPLES)
    add_options(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    plan = make_plan(options)
    from handrail.agent.acp import HandrailAgent, serve  # an optional package: not for the help

    config = open_config()
    agent = HandrailAgent(
        Driver(plan),
        dialect=plan.dialect,
        mode=plan.mode,
        settings=config.settings,
        setup=Setup(roots=config.roots),
    )
    asyncio.run(serve(agent))
    return 0


class Driver:
    """Runs the turns of all conversations: the loop in a thread, its calls through the editor."""

    def __init__(self, plan: ChatPlan) -> None:
        self._plan = plan
        self._agents: dict[str, Agent] = {}

    async def __call__(self, conversation: Conversation, prompt: Sequence[object]) -> Any:
        loop = asyncio.get_running_loop()
        agent = self._agents.get(conversation.id)
        if agent is None:
            agent = await asyncio.to_thread(self._open_agent, conversation, loop)
            self._agents[conversation.id] = agent
        cancel = threading.Event()
        work = asyncio.ensure_future(asyncio.to_thread(agent.run, join_prompt(prompt), cancel))
        try:
            ending = await asyncio.shield(work)
        except asyncio.CancelledError:
            cancel.set()
            await work  # every call has its result then, and the conversation can go on
            raise
        if ending.how != "done":
            await conversation.say(ending.text)
        return _STOPS.get(ending.how)

    def _open_agent(self, conversation: Conversation, loop: asyncio.AbstractEventLoop) -> Agent:
        plan, session = self._plan, conversation.session.session

        def notice(event: Event) -> None:
            if isinstance(event, TextDelta):
                asyncio.run_coroutine_threadsafe(conversation.say(event.text), loop).result()

        def call(tool: str, arguments: str, /, *, id: str, cancel: threading.Event) -> Result:
            return _make_call(conversation.call(tool, arguments, id=id), loop, tool, cancel)

        model = open_model(plan.model, os.environ, plan.api, plan.window)
        conversation_file = Store(plan.state).new(session.origin.workspace, plan.model, plan.dialect)
        history = History(system_prompt(session), keeper=conversation_file)
        return Agent(session, model, history, notice, AgentLimits(plan.steps, plan.tokens), call=call)


def _make_call(
    call: Coroutine[object, object, Result], loop: asyncio.AbstractEventLoop, tool: str, cancel: threading.Event
) -> Result:
    """A call made by the loop of the editor's connection, for the thread of the agent."""
    future = asyncio.run_coroutine_threadsafe(call, loop)
    while True:
        try:
            return future.result(0.05)
        except NotYet:
            if cancel.is_set():
                future.cancel()
        except CancelledError:
            text = "The user stopped this call."
            return Result(tool, "error", text, error=Failure("cancelled", text))


def join_prompt(prompt: Sequence[Any]) -> str:
    """A prompt of the editor's as text: files that were put into it are quoted, files that were named are named."""
    parts = []
    for block in prompt:
        if block.type == "text":
            parts.append(block.text)
        elif block.type == "resource" and hasattr(block.resource, "text"):
            parts.append(f"\n{block.resource.uri} holds:\n{block.resource.text}\n")
        elif block.type == "resource_link":
            parts.append(block.uri)
    return "".join(parts) or "(The prompt has no text.)"
