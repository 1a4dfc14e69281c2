"""Open the session, the model and the conversation when they are needed, and close them at the end.

The session is opened by a thread while the person types the first message; the model's SDK is imported when that
message is there; a conversation gets a file with its first message.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.agent.history import History
from handrail.agent.loop import Agent, AgentLimits, estimate_tools
from handrail.agent.messages import Event
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import open_model
from handrail.agent.store import Store
from handrail.cli.chat.approvals import Person, find_person
from handrail.cli.chat.interrupts import Interrupts, Watched
from handrail.cli.chat.status import Meter
from handrail.cli.common import open_session
from handrail.cli.output import Stop, escape_for_terminal
from handrail.pipeline.events import ToolFinished, ToolOutput
from handrail.pipeline.session import Session
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from handrail.agent.messages import Turn
    from handrail.agent.providers import Api, Model
    from handrail.agent.store import StoredConversation
    from handrail.cli.chat.plan import ChatPlan
    from handrail.cli.chat.screen import RunScreen
    from handrail.pipeline.any_session import AnySession
    from handrail.pipeline.events import SessionEvent
    from handrail.policy.modes import Mode

_MOST_LINES = 5


class CommandOutput:
    """The last lines that running commands have printed, with placeholders for secrets."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def notice(self, event: SessionEvent) -> None:
        """Take an event of the session. Output comes from other threads than the call's."""
        if isinstance(event, ToolOutput):
            lines = [
                escape_for_terminal(replace_surrogates(line)).expandtabs(4)
                for line in event.text.split("\n")
                if line.strip()
            ]
            self._lines[event.call.id] = [*self._lines.get(event.call.id, ()), *lines][-_MOST_LINES:]
        elif isinstance(event, ToolFinished):
            self._lines.pop(event.call.id, None)

    def last_lines(self) -> list[str]:
        return [line for lines in list(self._lines.values()) for line in lines]


class Work:
    """The session, model and conversation of a chat or a run."""

    def __init__(self, plan: ChatPlan, screen: RunScreen, notice: Callable[[Event], None] | None = None) -> None:
        self.plan = plan
        self.screen = screen
        self.meter = Meter(plan.model, plan.window, plan.price_in, plan.price_out)
        self.conversation: StoredConversation | None = plan.conversation
        self.person: Person | None = None
        self.interrupts = Interrupts(self.stop)
        self.stopping = threading.Event()
        """Set to cancel the current run; a new one for each message."""
        self._notice = notice or screen.notice
        self._turns: Sequence[Turn] = plan.turns
        self._agent: Agent | None = None
        self._output = CommandOutput()
        self._session: AnySession | None = None
        self._failed: Stop | None = None
        self._thread: threading.Thread | None = None

    # The session.

    def start(self, failed: Callable[[], None]) -> None:
        """Open the session meanwhile; ``failed`` is called, by another thread, if that cannot be."""
        if self._thread or self._session:
            return

        def open_it() -> None:
            try:
                self._open()
            except Stop as stop:
                self._failed = stop
                failed()

        self._thread = threading.Thread(target=open_it, name="handrail-opening", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> AnySession | None:
        """The session, if it is open already."""
        return self._session

    @property
    def session(self) -> AnySession:
        """The session; raises `Stop` if there is none."""
        if self._thread:
            self._thread.join()
        if self._failed:
            raise self._failed
        return self._session or self._open()

    def _open(self) -> AnySession:
        self.person = find_person(self.screen)
        if self.person:
            self.screen.shown = self.person.asked
        changes = {"dialect": self.plan.dialect, "mode": self.plan.mode}
        options = argparse.Namespace(**{**vars(self.plan.options), **changes})
        self._session = open_session(options, self.person, on_event=self._output.notice)

        if self.plan.session and isinstance(self._session, Session):
            self._session.resume(self.plan.session)
        return self._session

    def close(self) -> None:
        if self._thread:
            self._thread.join()
        if self._session:
            self._session.close()
        if self.person:
            self.person.tty.close()
        if self.conversation:
            self.conversation.close()

    # The agent.

    @property
    def opened(self) -> Agent | None:
        """The agent, after the first message."""
        return self._agent

    def agent(self) -> Agent:
        """The agent; raises `ModelError` if the model cannot be asked, `Stop` if there is no session."""
        if self._agent is None:
            session, model = self.session, self._open_model(self.plan.model, self.plan.api, self.plan.window)
            if self.conversation is None:
                store = Store(self.plan.state)
                self.conversation = store.new(self.plan.workspace, self.plan.model, self.plan.dialect)
            self.conversation.set_mode(self.plan.mode)
            if not self.plan.session and not self.plan.is_remote:
                self.conversation.set_session(session.origin.session)
                self.plan = self.plan._replace(session=session.origin.session)
            history = History(system_prompt(session), self._turns, self.conversation, estimate_tools(session))
            limits = AgentLimits(steps=self.plan.steps, tokens=self.plan.tokens)
            session.name_source("handrail chat", self.plan.model)
            self._agent = Agent(session, model, history, self._count_event, limits)
            self.meter.used = history.tokens
        return self._agent

    def change_model(self, name: str, api: Api, window: int) -> None:
        """Go on with another model; raises `ModelError`, and nothing is changed then."""
        model = self._open_model(name, api, window)
        same = name == self.plan.model
        prices = (self.plan.price_in, self.plan.price_out) if same else (None, None)
        self.plan = self.plan._replace(model=name, api=api, window=window, price_in=prices[0], price_out=prices[1])
        self.meter.model, self.meter.window = name, window
        self.meter.price_in, self.meter.price_out = prices
        if self.conversation:
            self.conversation.set_model(name)
        if self._agent:
            self.session.name_source("handrail chat", name)
            self._agent.model = model

    def remember_mode(self, mode: Mode) -> None:
        """The conversation goes on in this mode when it is continued."""
        self.plan = self.plan._replace(mode=mode)
        if self.conversation:
            self.conversation.set_mode(mode)

    def forget(self) -> None:
        """Begin a new conversation with the next message."""
        if self.conversation:
            self.conversation.close()
        self._agent, self._turns, self.conversation = None, (), None
        self.plan = self.plan._replace(session="")
        self.meter.used = 0

    def _open_model(self, name: str, api: Api, window: int) -> Model:
        return Watched(open_model(name, os.environ, api, window), self.screen.waiting)

    def _count_event(self, event: Event) -> None:
        self.meter.notice(event)
        self._notice(event)

    def stop(self) -> None:
        """Cancel the current run, including open questions."""
        self.stopping.set()
        if self.person:
            self.person.tty.stop()

    def restart(self) -> None:
        self.stopping = threading.Event()
        if self.person:
            self.person.tty.restart()

    def tail(self) -> list[str]:
        """Return the last output lines of running commands."""
        return self._output.last_lines()
