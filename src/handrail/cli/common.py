"""Shared by the commands: the argument parser, common options, and opening a session."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from glob import glob

import handrail
from handrail import dialects
from handrail.approval.ask_attached import Approvers
from handrail.approval.terminal import TerminalAsker
from handrail.approval.tty import Tty
from handrail.cli.help import measure_help, wrap_help
from handrail.cli.output import Stop, UsageError, write
from handrail.errors import ToolError
from handrail.files.locks import state_directory
from handrail.pipeline.options import Setup
from handrail.pipeline.session import Session
from handrail.policy.files import PolicyError
from handrail.policy.modes import DEFAULT_MODE, MODES
from handrail.settings import config_file as config
from handrail.text.display import escape
from handrail.workspace import Root

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from typing import NoReturn

    from handrail.dialects import Dialect
    from handrail.model import Approve
    from handrail.pipeline.any_session import AnySession
    from handrail.pipeline.events import OnEvent
    from handrail.settings import Settings
    from handrail.settings.config_file import Config

MOST_INPUT = 64 << 20


class CommandParser(argparse.ArgumentParser):
    """The argument parser of every command: help keeps its lines, and a mistake is a `UsageError` in one line."""

    def __init__(self, command: str, about: str, examples: str) -> None:
        super().__init__(
            prog=f"handrail {command}",
            description=about,
            epilog=examples,
            formatter_class=partial(argparse.RawDescriptionHelpFormatter, width=80),
            allow_abbrev=False,
        )

    def format_help(self) -> str:
        self.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=measure_help())
        self.description, self.epilog = wrap_help(self.description or ""), wrap_help(self.epilog or "")
        for action in self._actions:
            if values := list_values(action):
                action.help = f"{action.help}: {', '.join(values)}"
        return super().format_help()

    def print_help(self, file: object = None) -> None:  # noqa: ARG002 - the signature is argparse's
        write(self.format_help())

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{escape(message)}; see `{self.prog} --help`")


class ProgramParser(CommandParser):
    """Takes everything after `--` as `command`: the words of another program."""

    def parse_intermixed_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        words = list(args or ())
        at = words.index("--") if "--" in words else len(words)
        options = super().parse_intermixed_args(words[:at], namespace)
        options.command = words[at + 1 :]
        return options


def list_later(action: argparse.Action, find_values: Callable[[], Sequence[str]]) -> None:
    """Name the function that lists the values of an option: help and completion call it, parsing does not."""
    action.find_values = find_values  # type: ignore[attr-defined]


def list_values(action: argparse.Action) -> Sequence[str]:
    """The values of an option that `list_later` was called for; empty for any other."""
    find: Callable[[], Sequence[str]] | None = getattr(action, "find_values", None)
    return find() if find else ()


def list_modes() -> Sequence[str]:
    return MODES


def list_dialects() -> Sequence[str]:
    """The dialects to choose from, without importing the package that reads them: help is fast.

    Those made for one document say `unlisted`; they stay available by name.
    """
    names = []
    for path in glob(os.path.join(os.path.dirname(handrail.__file__), "dialects", "*", "tools.toml")):
        with open(path, encoding="utf-8") as file:
            if "\nunlisted = true\n" not in file.read(1000):
                names.append(os.path.basename(os.path.dirname(path)))
    return sorted(names)


def add_dialect(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument(
        "--dialect",
        metavar="D",
        default="native",
        help="names, schemas and wording of the tools, or the folder of a dialect",
    )
    list_later(option, list_dialects)


def add_tools(parser: argparse.ArgumentParser) -> None:
    about = "the tools to offer, separated by commas, or `all` (default: the core of the dialect)"
    parser.add_argument("--tools", metavar="NAMES", default="", help=about)


def add_matching(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--matching",
        choices=("dialect", "ladder"),
        default=None,
        help="how edits are matched: as the dialect's document says (default), or forgiving in every dialect",
    )


def add_workspace(parser: argparse.ArgumentParser, *, roots: bool = True) -> None:
    parser.add_argument(
        "-w",
        "--workspace",
        metavar="DIR",
        default=".",
        help="the workspace: relative paths start here, and no path leaves it (default: the current directory)",
    )
    if roots:
        add_roots(parser)
        add_draft(parser)


def add_roots(parser: argparse.ArgumentParser) -> None:
    for option, about in (("--root", "another directory to read and write"), ("--read-root", "another, read-only")):
        parser.add_argument(option, metavar="DIR", action="append", default=[], help=f"{about}; repeatable")


def add_draft(parser: argparse.ArgumentParser) -> None:
    about = "work in this draft, a new one if there is none: see `handrail draft --help`"
    parser.add_argument("--draft", metavar="NAME", default="", help=about)


def list_roots(options: argparse.Namespace) -> list[Root]:
    """The directories besides the workspace: those of the configuration and of the options."""
    given = [*(Root(place) for place in options.root), *(Root(place, writable=False) for place in options.read_root)]
    return [*open_config().roots, *given]


def parse_count(word: str) -> int:
    """A whole number above 0, for an option."""
    if not word.isdecimal() or not 0 < int(word) < 1 << 40:
        raise argparse.ArgumentTypeError(f"must be a whole number above 0, not {word}")
    return int(word)


def open_dialect(name: str) -> Dialect:
    try:
        return dialects.load(name)
    except dialects.DialectError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise UsageError(f"the dialect {escape(name)} cannot be read: {error.strerror}") from None


def open_config() -> Config:
    try:
        return config.load(os.environ)
    except config.ConfigError as error:
        raise UsageError(str(error)) from None


def find_state() -> str:
    """The state directory of the user's configuration: sessions keep trust, drafts and conversations there."""
    return state_directory(open_config().settings.state)


def open_session(
    options: argparse.Namespace,
    approve: Approve | None = None,
    *,
    on_event: OnEvent | None = None,
) -> AnySession:
    """A session as the options and the user's configuration ask for it, here or on another machine."""
    if not getattr(options, "at", ""):
        return open_local_session(options, approve, on_event=on_event)
    asked = approve or _ask_attached(options.workspace, open_config().settings)
    from handrail.cli.remote import connect  # a third of the start-up of a command here

    return connect(options, options.dialect, list_offered(options), asked, on_event)


def list_offered(options: argparse.Namespace) -> list[str]:
    """The tools that --tools names; none for those of daily use."""
    return [name.strip() for name in (getattr(options, "tools", "") or "").split(",") if name.strip()]


def open_local_session(
    options: argparse.Namespace,
    approve: Approve | None = None,
    *,
    draft: bool = False,
    on_event: OnEvent | None = None,
) -> Session:
    """A session on this machine; with ``draft`` there must be drafts."""
    config = open_config()
    settings = config.settings
    if draft:
        settings = replace(settings, drafts=True, sandbox="namespaces", sandbox_required=True)
    if getattr(options, "matching", None):
        settings = replace(settings, matching=options.matching)
    dialect = open_dialect(options.dialect)
    require_directories(options)
    try:
        return Session(
            options.workspace,
            dialect=dialect,
            setup=Setup(roots=list_roots(options), on_event=on_event, offer=list_offered(options)),
            settings=settings,
            mode=getattr(options, "mode", None),
            approve=approve or _ask_attached(options.workspace, config.settings),
        )
    except (PolicyError, ValueError) as error:
        raise UsageError(str(error)) from None
    except ToolError as error:
        raise Stop(f"cannot open a session: {dialect.render_error(error)}") from None
    except OSError as error:
        raise Stop(f"cannot open a session: {escape(error.filename or '')}: {error.strerror}") from None


def add_mode(parser: argparse.ArgumentParser) -> None:
    """The option that says how much may be done without asking."""
    about = f"the approval mode: what is allowed without asking (default: {DEFAULT_MODE})"
    parser.add_argument("--mode", choices=MODES, default=DEFAULT_MODE, help=about)


def find_person() -> Approve | None:
    """Somebody who can be asked: the person at the terminal, if there is one."""
    tty = Tty.open()
    return TerminalAsker(tty) if tty else None


def _ask_attached(workspace: str, settings: Settings) -> Approve:
    """Whoever has attached from another terminal, where nobody sits in front of this one."""
    return Approvers(state_directory(settings.state), workspace)


def require_directories(options: argparse.Namespace, workspace: str = "-w") -> None:
    """Raise `UsageError` if the workspace or a root is no directory. ``workspace``: the name of that argument."""
    require_directory(workspace, options.workspace)
    for option, places in (("--root", options.root), ("--read-root", options.read_root)):
        for place in places:
            require_directory(option, place)


def require_directory(option: str, place: str) -> None:
    if not os.path.isdir(place):
        what = "is not a directory" if os.path.lexists(place) else "does not exist"
        raise UsageError(f"{option} {escape(place) or repr(place)} {what}; give the path of an existing directory")
