"""Types of the keyword arguments of `Session` and `Session.undo`, for functions that pass them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from handrail.dialects import Dialect
    from handrail.journal import Journal
    from handrail.pipeline.events import AfterCall, BeforeCall, OnEvent
    from handrail.policy import Policy
    from handrail.policy.files import PolicyFile
    from handrail.policy.modes import Mode
    from handrail.settings import Settings
    from handrail.tools.tool import AnyTool
    from handrail.workspace import Root


class SessionOptions(TypedDict, total=False):
    """The options of `Session` except ``approve``."""

    dialect: str | Dialect
    roots: Sequence[Root]
    policy: Policy | None
    mode: Mode | None
    rules: Sequence[PolicyFile]
    journal: Journal | Literal["auto", "require"] | None
    settings: Settings | None
    before_call: BeforeCall | None
    after_call: AfterCall | None
    on_event: OnEvent | None
    tools: Sequence[AnyTool | Callable[..., object]]


class UndoOptions(TypedDict, total=False):
    """The arguments of `Session.undo`."""

    call: str | int | None
    since: str | int | None
    session: str | None
    dry_run: bool
