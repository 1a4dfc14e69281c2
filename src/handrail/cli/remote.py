"""`handrail --at URL COMMAND`: run a command here, with its tools on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from handrail.cli.output import Stop, UsageError
from handrail.text.display import escape

if TYPE_CHECKING:
    import argparse

    from handrail.model import Approve
    from handrail.pipeline.events import OnEvent
    from handrail.pipeline.session import Session

_COMMANDS = ("call", "batch", "mcp", "chat", "run")


def take_address(words: list[str]) -> tuple[str, list[str]]:
    """The URL of a command line that starts with `--at`, and the words after it; raises `UsageError`."""
    _, equals, at = words[0].partition("=")
    rest = words[1:]
    if not equals and rest:
        at = rest.pop(0)
    if not at or not rest:
        raise UsageError("--at needs a URL and a command: handrail --at ssh://host/path call Read file_path=a.py")
    if rest[0] not in _COMMANDS:
        raise UsageError(f"--at does not work with {escape(rest[0])}; it works with {', '.join(_COMMANDS)}")
    check_address(at)
    return at, rest


def check_address(at: str) -> None:
    """Raise `UsageError` if this is not the address of a remote workspace."""
    from handrail.remote.address import parse_address

    try:
        parse_address(at, "ask")
    except ValueError as error:
        raise UsageError(f"--at: {escape(str(error))}") from None


def refuse_local_options(options: Any) -> None:
    """Raise `UsageError` for options that name directories of this machine."""
    for option, value, usual in (
        ("-w", options.workspace, "."),
        ("--root", options.root, []),
        ("--read-root", options.read_root, []),
        ("--draft", options.draft, ""),
    ):
        if value != usual:
            raise UsageError(f"{option} is for this machine, and --at for another one: the URL has the path there")


def connect(
    options: argparse.Namespace, dialect: str, matching: Any, approve: Approve | None, on_event: OnEvent | None
) -> Session:
    """The session of a command on another machine; raises `Stop`."""
    from handrail.errors import ToolError
    from handrail.pipeline.session import Session

    mode = getattr(options, "mode", None)
    try:
        return Session.connect(
            options.at, dialect=dialect, mode=mode, matching=matching, approve=approve, on_event=on_event
        )
    except ToolError as error:
        why = error.facts.get("why") or error
        raise Stop(f"cannot connect to {escape(options.at)}: {escape(str(why))}") from None
    except (ValueError, OSError, RuntimeError) as error:
        raise Stop(f"cannot open a session at {escape(options.at)}: {escape(str(error))}") from None
