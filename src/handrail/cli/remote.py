"""`handrail --at URL COMMAND`: run a command here, with its tools on another machine."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager

from handrail.cli.output import Stop, UsageError
from handrail.errors import ToolError
from handrail.pipeline.remote_session import connect as open_connection
from handrail.programs import resolve_words
from handrail.remote.address import make_command, parse_address
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from handrail.model import Approve
    from handrail.pipeline.events import OnEvent
    from handrail.pipeline.remote_session import RemoteSession

_HERE = ("call", "batch", "mcp", "chat", "run", "web", "undo", "redo")
"""Commands that run here, over a session on the other machine."""
THERE = ("log", "show", "diff", "stats", "draft", "try", "doctor")
"""Commands that run on the other machine, and show here what they print."""


def take_address(words: list[str]) -> tuple[str, list[str]]:
    """The URL of a command line that starts with `--at`, and the words after it; raises `UsageError`."""
    _, equals, at = words[0].partition("=")
    rest = words[1:]
    if not equals and rest:
        at = rest.pop(0)
    if not at or not rest:
        raise UsageError("--at needs a URL and a command: handrail --at ssh://host/path call Read file_path=a.py")
    if rest[0] not in (*_HERE, *THERE):
        raise UsageError(f"--at does not work with {escape(rest[0])}; it works with {', '.join((*_HERE, *THERE))}")
    check_address(at)
    return at, rest


def check_address(at: str) -> None:
    """Raise `UsageError` if this is not the address of a remote workspace."""
    try:
        parse_address(at, "ask")
    except ValueError as error:
        raise UsageError(f"--at: {escape(str(error))}") from None


def refuse_local_options(options: object) -> None:
    """Raise `UsageError` for options that name files and directories of this machine."""
    for option, name, usual in (
        ("-w", "workspace", "."),
        ("--root", "root", []),
        ("--read-root", "read_root", []),
        ("--draft", "draft", ""),
        ("--journal", "journal", None),
    ):
        if getattr(options, name, usual) != usual:
            raise UsageError(f"{option} is for this machine, and --at for another one: the URL has the path there")


def run_there(at: str, words: list[str]) -> int:
    """Run a command on the other machine, with the terminal of this one."""
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    try:
        command = resolve_words(make_command(at, words, terminal=terminal))
        code = subprocess.run(command, check=False).returncode  # noqa: S603 - ssh, docker or kubectl
    except OSError as error:
        raise Stop(f"cannot connect to {escape(at)}: {escape(str(error))}") from None
    if code == 127:
        raise Stop(f"Handrail is not installed at {escape(at)}; if it is, give its path with ?handrail=PROGRAM")
    return code


def connect(
    options: argparse.Namespace, dialect: str, offer: Sequence[str], approve: Approve | None, on_event: OnEvent | None
) -> RemoteSession:
    """The session of a command on another machine; raises `Stop`."""
    mode, matching = getattr(options, "mode", None), getattr(options, "matching", None)
    with _stopping(options.at):
        return open_connection(
            options.at, dialect=dialect, offer=offer, mode=mode, matching=matching, approve=approve, on_event=on_event
        )


def connect_for_pages(at: str) -> RemoteSession:
    """A session whose server answers requests for the pages of its machine; raises `Stop`."""
    with _stopping(at):
        session = open_connection(at, mode="full")
        try:
            session.request("pages")
        except BaseException:
            session.close()
            raise
        return session


@contextmanager
def _stopping(at: str) -> Iterator[None]:
    """Turn the reasons why there is no session into `Stop`."""
    try:
        yield
    except ToolError as error:
        why = error.facts.get("why") or error
        raise Stop(f"cannot connect to {escape(at)}: {escape(str(why))}") from None
    except (ValueError, OSError, RuntimeError) as error:
        raise Stop(f"cannot open a session at {escape(at)}: {escape(str(error))}") from None
