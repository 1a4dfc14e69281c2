"""An agent with real tools, and a scripted model behind a real HTTP server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings
from handrail.agent.compaction import Compaction
from handrail.agent.history import History, TurnWriter
from handrail.agent.loop import Agent, AgentLimits
from handrail.agent.messages import Event
from handrail.agent.prompt import system_prompt
from handrail.agent.providers import Api, open_model
from handrail_demo.scripted_server import Line, Protocol, Script, ScriptedServer, in_order


@dataclass
class Stage:
    """An agent, what it works in, and what was seen of it."""

    agent: Agent
    server: ScriptedServer
    project: Path
    events: list[Event] = field(default_factory=list)

    def saw(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


Setting = Callable[..., Stage]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Setting]:
    project = tmp_path / "project"
    project.mkdir()
    with ExitStack() as stack:

        def make(
            script: Script | Sequence[Line],
            *,
            api: Api = "chat",
            dialect: str = "native",
            window: int = 100_000,
            limits: AgentLimits | None = None,
            compaction: Compaction | None = None,
            keeper: TurnWriter | None = None,
            protocols: Mapping[str, Protocol] | None = None,
            key: str = "",
            **session: Any,
        ) -> Stage:
            made_script = script if callable(script) else in_order(script)
            server = stack.enter_context(ScriptedServer(made_script, protocols))
            settings = Settings(state=str(tmp_path / "state"), durable=False, raise_bugs=True)
            opened = stack.enter_context(Session(project, dialect=dialect, settings=settings, **session))
            environ = {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url}
            environ |= {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key} if key else {}
            model = open_model("scripted", environ, api, window)
            history = History(system_prompt(opened), keeper=keeper)
            events: list[Event] = []
            limits = limits or AgentLimits(wait=0.001)
            agent = Agent(opened, model, history, events.append, limits, compaction)
            return Stage(agent, server, project, events)

        yield make
