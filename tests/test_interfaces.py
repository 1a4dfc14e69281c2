"""Every interface opens its sessions with the same rules, secrets and journal: see docs/policy-reference.md."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agents import FunctionTool

from handrail import Session
from handrail.aio import AsyncSession
from handrail.integrations import anthropic, deepagents, langchain, openai, openai_agents, pydantic_ai, smolagents
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.command import surroundings
from tests.integrations.acp_editor import ScriptedEditor, calls, connected, prompted
from tests.mcp.http_server import TOKEN, call, envelope, serving
from tests.mcp.stdio_client import RawClient

SECRET = "hunter2-is-the-password"
Call = tuple[str, Mapping[str, Any]]
CALLS: Sequence[Call] = [
    ("Read", {"file_path": ".env"}),
    ("Write", {"file_path": "locked.txt", "content": "x\n"}),
    ("Write", {"file_path": "frozen.txt", "content": "x\n"}),
    ("Write", {"file_path": "new.txt", "content": "hello\n"}),
]
Drive = Callable[[Path], str]
"""Makes the calls in a project through one interface, and returns all that the model reads."""


def library(project: Path) -> str:
    with Session(project) as session:
        return "".join(session.call(tool, arguments).text for tool, arguments in CALLS)


def async_library(project: Path) -> str:
    async def main() -> str:
        async with AsyncSession.open(project) as session:
            return "".join([(await session.call(tool, arguments)).text for tool, arguments in CALLS])

    return asyncio.run(main())


def command(project: Path, *words: str, stdin: str = "") -> str:
    environ = surroundings({"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]})
    run = [sys.executable, "-m", "handrail", *words]
    return subprocess.run(run, cwd=project, input=stdin, capture_output=True, text=True, env=environ).stdout


def cli_call(project: Path) -> str:
    return "".join(command(project, "call", tool, json.dumps(arguments)) for tool, arguments in CALLS)


def cli_batch(project: Path) -> str:
    lines = [json.dumps({"tool": tool, "arguments": arguments}) for tool, arguments in CALLS]
    return command(project, "batch", stdin="\n".join(lines) + "\n")


def mcp_stdio(project: Path) -> str:
    own = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"]}
    with RawClient(str(project), cwd=project, variables=own) as client:
        client.shake()
        return "".join(json.dumps(client.call(tool, **arguments)) for tool, arguments in CALLS)


def mcp_http(project: Path) -> str:
    token = project.parent / "token"
    token.write_text(TOKEN, encoding="utf-8")
    token.chmod(0o600)
    with serving(str(project), "--token-file", str(token), cwd=project) as served:
        return "".join(served.post(call(tool, **arguments), **envelope(tool)).text for tool, arguments in CALLS)


def agent(project: Path) -> str:
    from handrail.agent.history import History
    from handrail.agent.loop import Agent
    from handrail.agent.prompt import system_prompt
    from handrail.agent.providers import open_model
    from handrail_demo.scripted_server import Line, ScriptedServer, in_order

    lines = [Line("", [(tool, arguments)]) for tool, arguments in CALLS] + [Line("done")]
    with ScriptedServer(in_order(lines)) as server, Session(project) as session:
        model = open_model("scripted", {"OPENAI_BASE_URL": server.url}, "chat", 100_000)
        Agent(session, model, History(system_prompt(session))).run("go")
        return json.dumps(server.requests[-1].body)


def agent_command(project: Path) -> str:
    from handrail_demo.scripted_server import Line, ScriptedServer, in_order

    lines = [Line("", [(tool, arguments)]) for tool, arguments in CALLS] + [Line("done")]
    with ScriptedServer(in_order(lines)) as server:
        own = {"XDG_CONFIG_HOME": os.environ["XDG_CONFIG_HOME"], "OPENAI_BASE_URL": server.url}
        run = [sys.executable, "-m", "handrail", "run", "--mode", "accept-edits", "--model", "scripted", "go"]
        subprocess.run(run, cwd=project, env=surroundings(own), stdin=subprocess.DEVNULL, check=True)
        return json.dumps(server.requests[-1].body)


def acp(project: Path) -> str:
    collected: list[Any] = []

    async def main() -> None:
        async with connected(calls(*CALLS, into=collected), ScriptedEditor(), settings=None) as connection:  # type: ignore[arg-type]
            await prompted(connection, project)

    asyncio.run(main())
    return "".join(result.text for result in collected)


def openai_chat(project: Path) -> str:
    with Session(project) as session:
        wanted = [
            SimpleNamespace(
                id=str(n), type="function", function=SimpleNamespace(name=tool, arguments=json.dumps(arguments))
            )
            for n, (tool, arguments) in enumerate(CALLS)
        ]
        return json.dumps(openai.chat_reply(session, wanted))  # type: ignore[arg-type]


def anthropic_messages(project: Path) -> str:
    with Session(project) as session:
        wanted = [
            SimpleNamespace(type="tool_use", id=str(n), name=tool, input=arguments)
            for n, (tool, arguments) in enumerate(CALLS)
        ]
        return json.dumps(anthropic.reply(session, wanted))  # type: ignore[arg-type]


def langchain_tools(project: Path) -> str:
    with Session(project) as session:
        known = {tool.name: tool for tool in langchain.tools(session)}
        wanted = [{"type": "tool_call", "id": "1", "name": tool, "args": arguments} for tool, arguments in CALLS]
        return "".join(str(known[one["name"]].invoke(one).content) for one in wanted)  # type: ignore[index]


def deepagents_backend(project: Path) -> str:
    with deepagents.open_session(project) as session:
        backend = deepagents.HandrailBackend(session)
        read = str(backend.read("/.env"))
        return read + "".join(str(backend.write(f"/{one['file_path']}", one["content"])) for _, one in CALLS[1:])


def openai_agents_tools(project: Path) -> str:
    from agents.tool_context import ToolContext

    async def main(session: Session) -> str:
        known = {tool.name: tool for tool in openai_agents.tools(session) if isinstance(tool, FunctionTool)}
        parts = []
        for tool, arguments in CALLS:
            raw = json.dumps(arguments)
            context = ToolContext(None, tool_name=tool, tool_call_id="1", tool_arguments=raw)
            parts.append(str(await known[tool].on_invoke_tool(context, raw)))
        return "".join(parts)

    with Session(project) as session:
        return asyncio.run(main(session))


def pydantic_ai_toolset(project: Path) -> str:
    from pydantic_ai import ModelRetry

    async def main(session: Session) -> str:
        toolset = pydantic_ai.HandrailToolset(session)
        known = await toolset.get_tools(None)  # type: ignore[arg-type]
        parts = []
        for tool, arguments in CALLS:
            try:
                context = SimpleNamespace(tool_call_id="1")
                parts.append(str(await toolset.call_tool(tool, dict(arguments), context, known[tool])))  # type: ignore[arg-type]
            except ModelRetry as error:
                parts.append(str(error))
        return "".join(parts)

    with Session(project) as session:
        return asyncio.run(main(session))


def smolagents_tools(project: Path) -> str:
    with Session(project) as session:
        known = {tool.name: tool for tool in smolagents.tools(session)}
        return "".join(known[tool].forward(**arguments) for tool, arguments in CALLS)


INTERFACES: Mapping[str, Drive] = {
    "`Session`": library,
    "`AsyncSession`": async_library,
    "`handrail call`": cli_call,
    "`handrail batch`": cli_batch,
    "`handrail mcp`": mcp_stdio,
    "`handrail mcp --http`": mcp_http,
    "`Agent`": agent,
    "`handrail run`": agent_command,
    "Agent Client Protocol": acp,
    "OpenAI": openai_chat,
    "OpenAI Agents SDK": openai_agents_tools,
    "Anthropic": anthropic_messages,
    "LangChain": langchain_tools,
    "deepagents": deepagents_backend,
    "Pydantic AI": pydantic_ai_toolset,
    "smolagents": smolagents_tools,
}
PAGE = (Path(__file__).parents[1] / "docs" / "policy-reference.md").read_text(encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / ".env").write_text(f"PASSWORD={SECRET}\n", encoding="utf-8")
    (root / "handrail.toml").write_text('rules = ["deny Edit(frozen.txt)"]\n', encoding="utf-8")
    user = Path(os.environ["XDG_CONFIG_HOME"], "handrail", "policy.toml")
    user.parent.mkdir(parents=True)
    user.write_text('rules = ["deny Edit(locked.txt)"]\n', encoding="utf-8")
    return root


def test_the_page_names_every_interface() -> None:
    names = ", ".join(INTERFACES)
    assert names in " ".join(PAGE.split())


@pytest.mark.parametrize("interface", INTERFACES)
def test_an_interface_has_rules_secrets_journal_and_undo(interface: str, project: Path) -> None:
    text = INTERFACES[interface](project)
    rules = not (project / "locked.txt").exists() and not (project / "frozen.txt").exists()
    secrets = bool(text) and SECRET not in text
    written = (project / "new.txt").exists()
    with JournalReader(get_default_path(os.environ["HANDRAIL_STATE"])) as reader:
        rows = reader.read_calls(workspace=os.path.realpath(project))
    journal = len([row for row in rows if row.decision == "deny"]) == 3 and len(rows) >= len(CALLS)
    command(project, "undo")
    undo = written and not (project / "new.txt").exists()
    actual = {"rules": rules, "secrets": secrets, "journal": journal, "undo": undo}
    assert all(actual.values()), (actual, re.sub(r"\s+", " ", text)[:2000])
