"""The options of `Session` and `Session.undo`: their types, their checks, and the files that they name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

from handrail.dialects import Dialect, names
from handrail.frozen import frozen
from handrail.policy.files import PolicyFile, load
from handrail.secrets import redaction
from handrail.settings import Settings
from handrail.settings.journal_address import hide_password, is_database_url
from handrail.tools.functions import as_tool
from handrail.workspace import Root

if TYPE_CHECKING:
    from handrail.journal import Journal
    from handrail.model import Approve
    from handrail.pipeline.events import OnEvent
    from handrail.policy import Policy
    from handrail.policy.modes import Mode
    from handrail.secrets.redaction import Redaction
    from handrail.tools.tool import AnyTool

_JOURNALS = '"auto", "require", the URL of a shared journal, None or a Journal'
Matching = Literal["dialect", "ladder"]
"""How edits are matched: as the dialect's document says, or forgiving in every dialect."""


@frozen
class Setup:
    """What a session has besides its usual options: `Session(".", setup=Setup(draft="way"))`."""

    roots: Sequence[Root] = ()
    """Further directories that its tools may use."""
    rules: Sequence[PolicyFile] = ()
    """Rules besides those of the files; see `parse_rules`."""
    offer: Sequence[str] = ()
    """The tools that `specs` returns, `["all"]` for every tool. By default rarely used ones are left out."""
    draft: str | None = None
    """The name of a draft that all tools see in the place of the workspace. It is created if there is none."""
    on_event: OnEvent | None = None
    """Gets the start and the end of each call, its progress, and the live output of commands."""


def check_options(
    root: object,
    dialect: object,
    policy: object,
    mode: object,
    approve: object,
    journal: object,
    settings: object,
    setup: object,
) -> None:
    """Check the options of `Session` before anything is opened; raises `ValueError` with the valid values.

    A wrong type is found here and not in the first call: there it would look like a fault of Handrail's.
    """
    if not isinstance(setup, Setup):
        raise _reject_value("setup", "a Setup object", setup)
    if policy is not None and (mode is not None or setup.rules):
        raise ValueError("give either a policy, or a mode and rules")
    if policy is not None and (isinstance(policy, type) or not callable(getattr(policy, "judge", None))):
        raise _reject_value(
            "policy", "an object with a method judge(accesses) that returns a Verdict, such as AllowAll()", policy
        )
    if approve is not None and not callable(approve):
        raise _reject_value("approve", "a function that takes a Question and returns True, False or an Answer", approve)
    if settings is not None and not isinstance(settings, Settings):
        raise _reject_value("settings", "a Settings object", settings)
    if isinstance(journal, str) and journal not in ("auto", "require"):
        if not is_database_url(journal):
            raise _reject_value("journal", _JOURNALS, hide_password(journal))
    elif not (journal is None or isinstance(journal, str) or callable(getattr(journal, "record", None))):
        raise _reject_value("journal", _JOURNALS, journal)
    if not isinstance(dialect, str | Dialect):
        raise _reject_value("dialect", f"a Dialect, the path of a folder, or one of {', '.join(names())}", dialect)
    if not isinstance(root, str | os.PathLike) or not os.path.isdir(root):
        raise _reject_value("root", "the path of an existing directory", root)
    _check_setup(setup)


def _check_setup(setup: Setup) -> None:
    if setup.on_event is not None and not callable(setup.on_event):
        raise _reject_value("on_event", "a function", setup.on_event)
    for one in _check_items("roots", setup.roots, "Root objects, such as Root('path', writable=False)"):
        if not isinstance(one, Root):
            raise _reject_value("roots", "Root objects, such as Root('path', writable=False)", one)
    for one in _check_items("rules", setup.rules, "PolicyFile objects, as parse_rules(text) returns them"):
        if not isinstance(one, PolicyFile):
            raise _reject_value("rules", "PolicyFile objects, as parse_rules(text) returns them", one)


def check_draft_options(draft: object, **others: object) -> None:
    """Check the options of a session that works in a draft; raises `ValueError` for what cannot go together."""
    if draft is None:
        return
    from handrail.drafts.store import check_name

    if not isinstance(draft, str):
        raise ValueError(f"draft must be the name of a draft, not {repr(draft)[:80]}")
    check_name(draft)
    for name, value in others.items():
        if value and value not in ("auto", "require"):
            raise ValueError(f"a session in a draft takes no {name}: its calls are made in another process")


def load_tools(tools: object) -> list[AnyTool]:
    """The tools of a host; raises `ValueError` for what cannot be one."""
    items = _check_items("tools", tools, "functions or Tool objects")
    return [as_tool(one) for one in items]  # type: ignore[arg-type] # whatever it is: it is checked there


def _check_items(name: str, value: object, what: str) -> Iterable[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _reject_value(name, f"a list of {what}", value)
    return value


def _reject_value(name: str, valid: str, value: object) -> ValueError:
    shown = repr(value)
    return ValueError(f"{name} must be {valid}, not {shown if len(shown) <= 300 else shown[:300] + '...'}")


class SessionOptions(TypedDict, total=False):
    """The options of `Session` except ``approve``."""

    dialect: str | Dialect
    policy: Policy | None
    mode: Mode | None
    journal: Journal | str | None
    settings: Settings | None
    tools: Sequence[AnyTool | Callable[..., object]]
    setup: Setup


class ConnectOptions(TypedDict, total=False):
    """The options of `connect`: those of `Session` that hold for another machine, and ``name``."""

    dialect: str
    mode: Mode | None
    rules: Sequence[PolicyFile]
    approve: Approve | None
    matching: Matching | None
    on_event: OnEvent | None
    offer: Sequence[str]
    name: str
    """With the same name, another process that makes the same calls gets the answers of the first."""


class UndoOptions(TypedDict, total=False):
    """The arguments of `Session.undo`: at most one of the first seven."""

    call: str | int | None
    """The number of one call in the journal, or the id that the model's framework gave it."""
    calls: Sequence[int]
    """The numbers of several."""
    since: str | int | None
    """This call and all later ones in the same workspace."""
    session: str | None
    """All calls of the session with this name (`Session.origin.session`)."""
    turn: bool
    """All changes since the prompt that led to the newest one."""
    file: str
    """The newest change of this file, or below this directory; nothing else that the call did."""
    redo: bool
    """The newest undo, as `Session.redo` does it."""
    any_session: bool
    """The newest change or undo in the workspace, also of another session."""
    dry_run: bool
    """Report what would be done, and change nothing."""


def load_redaction(settings: Settings) -> Redaction | None:
    """The secrets that the settings hide; None if there are none."""
    if not (settings.redact_values_from_env or settings.redact_files or settings.redact_patterns):
        return None
    return redaction.load(settings, os.environ) or None


def load_rules(root: str | os.PathLike[str], state: str) -> tuple[PolicyFile, ...]:
    """The rules of the system, of the user and of the project; raises `PolicyError` for a mistake in one."""
    return load(os.path.realpath(root), os.environ, state)
