"""A session, whether its files are on this machine or on another."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, Self, Unpack

if TYPE_CHECKING:
    from handrail.dialects import Dialect, Spec
    from handrail.journal import Journal, Origin
    from handrail.journal.undo import UndoReport
    from handrail.json_types import JsonMapping
    from handrail.model import Result
    from handrail.pipeline.call_state import Judged, Received
    from handrail.pipeline.events import OnEvent
    from handrail.pipeline.options import UndoOptions
    from handrail.pipeline.project import ProjectFacts
    from handrail.pipeline.session_draft import SessionDraft
    from handrail.policy.modes import Mode
    from handrail.policy.stricter import Restriction
    from handrail.settings import Settings
    from handrail.workspace import Workspace


class AnySession(Protocol):
    """The methods of every session. `Session` runs calls here; `connect` opens a session on another machine."""

    @property
    def settings(self) -> Settings: ...

    @property
    def dialect(self) -> Dialect: ...

    @property
    def workspace(self) -> Workspace: ...

    @property
    def origin(self) -> Origin:
        """Names the session in the journal."""

    @property
    def journal(self) -> Journal:
        """Where calls are recorded."""

    @property
    def mode(self) -> Mode | None:
        """How much is allowed without asking; None for a session with its own policy."""

    def specs(self) -> list[Spec]:
        """Return the definitions of the tools that the model is offered."""

    def warm(self) -> None:
        """Load the first tool now, so that the first call does not wait for it."""

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | str | None = None,
        *,
        id: str = "",
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        """Make one tool call. Never raises for anything a model did."""

    def make_call(self, arguments: Mapping[str, object] | str | None, received: Received) -> Result:
        """Make one tool call, as `call` does; ``received`` holds all but its arguments."""

    def prepare(self, tool: str, arguments: Mapping[str, object] | str | None = None) -> Judged:
        """Take a call as far as it goes without changing anything; raises `ToolError`."""

    def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """Undo one call or several; by default the last change of this session."""

    def redo(self, *, any_session: bool = False, dry_run: bool = False) -> UndoReport:
        """Redo what the last undo reverted."""

    def draft(self, name: str = "") -> SessionDraft[AnySession]:
        """Open a draft of the workspace: a new one, or the one of this name."""

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; rules and answers for the session stay."""

    def restrict(self, restriction: Restriction) -> None:
        """Replace the restriction of this session."""

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]:
        """The calls, with their arguments, whose commands still run in the background."""

    def describe_project(self) -> ProjectFacts:
        """Return the facts about the project that a model starts with."""

    def name_source(self, client: str, model: str = "") -> None:
        """Name the program and the model that make the next calls, for the journal."""

    def record_prompt(self, text: str) -> None:
        """Record a message of the person."""

    def close(self) -> None:
        """End running commands. No call is possible afterwards."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...
