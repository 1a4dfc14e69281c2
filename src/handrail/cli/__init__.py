"""The `handrail` program: choose the command, run it and return its exit code.

Each command is a module with `parser()` and `run(options) -> exit code`, and only the chosen one is imported. So the
list of commands appears without the engine, pydantic or rich.
"""

from __future__ import annotations

import sys

from handrail.cli.minimal import UsageError, is_in_draft, write
from handrail.cli.signals import repair_signals
from handrail.version import __version__

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "undo": ("undo", "undo the newest change, a turn, a file or any call"),
    "redo": ("redo", "redo what the newest undo took back"),
    "log": ("log", "list the recorded calls of this project"),
    "log show": ("show", "show one call with its diff and answer; or a file as it was then"),
    "log diff": ("diff", "show what changed between two calls"),
    "log stats": ("stats", "count calls, failures, refusals and tokens for each tool"),
    "log verify": ("verify", "check that nobody changed the journal"),
    "web": ("web", "open a page in your browser: what agents did, their questions, undo"),
    "approve": ("approve", "answer the questions of other handrail processes in this terminal"),
    "try": ("try_command", "run a command in a draft, see what it changed, then keep or drop it"),
    "draft": ("draft", "drafts with a name, for whole sessions: compare them, keep one"),
    "chat": ("chat.command", "chat with a model that works in your project"),
    "run": ("run", "give a model one task; the exit code reports the outcome"),
    "demo": ("demo", "watch an agent at work on a temporary project"),
    "attach": ("attach", "connect Claude Code, Codex or opencode: undo for what it does"),
    "detach": ("detach", "disconnect an agent, and restore its configuration"),
    "attach service": ("service", "the resident helper of attached agents"),
    "init": ("init", "propose rules for a project and clients to connect; write what you say yes to"),
    "policy": ("policy", "explain what the rules allow, test them, or trust a project's"),
    "config": ("config", "show every setting with its origin and meaning, or change one"),
    "index": ("index", "show, build or drop the index that searches of a large workspace use"),
    "doctor": ("doctor", "check this machine, and say how to fix problems"),
    "completion": ("completion", "print a completion script for bash, zsh or fish"),
    "mcp": ("mcp", "serve the tools over MCP, or install the server in an MCP client"),
    "call": ("call", "make one tool call and print its result"),
    "script": ("script", "run a Python program in which every tool is a function, over one draft"),
    "batch": ("batch", "make many calls in one session, as JSON lines, for scripts in any language"),
    "tools": ("tools", "show the tool definitions for a model, as a list or as JSON"),
    "dialects": ("dialects", "list the dialects with their size in tokens, or check your own"),
    "eval": ("eval", "have a model do 20 small tasks, and compare tools, dialects and agents"),
    "serve": ("serve", "serve the tools of a workspace to a client on another machine"),
    "acp": ("acp", "serve the agent to an editor, over the Agent Client Protocol"),
    "fleet": ("fleet", "make calls in many workspaces, on Ray"),
    "journal": ("journal", "send the journal to the shared one, or show how far it was sent"),
}
"""The module and a sentence for each command."""

_OTHER_SPELLINGS = {
    "show": ["log", "show"],
    "diff": ["log", "diff"],
    "stats": ["log", "stats"],
    "service": ["attach", "service"],
    "draft try": ["try"],
}
"""Commands that are not listed, and the same in the words of the help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    repair_signals()
    try:
        return _run_command(words)
    except SystemExit:  # argparse ends so when it has shown its help
        return 0
    except KeyboardInterrupt:
        return 130
    except _failures() as error:
        from handrail.cli.failures import report

        return report(error, f"handrail {_split_command(words)[0]}".rstrip())


def _failures() -> tuple[type[Exception], ...]:
    """The exceptions that end a command early; imported only when one was raised."""
    from handrail.cli.failures import FAILURES

    return FAILURES


def _run_command(words: list[str], at: str = "") -> int:
    """Run a command; ``at``: the URL of the workspace, if it is on another machine."""
    if not words:
        from handrail.cli.status import show_status

        return show_status()
    first, rest = words[0], words[1:]
    if first.partition("=")[0] == "--at":
        from handrail.cli.remote import take_address

        at, rest = take_address(words)
        return _run_command(rest, at)
    if first in ("-h", "--help", "help"):
        if _split_command(rest)[0]:
            return _run_command([*rest, "--help"])
        from handrail.cli.help import format_help

        write(format_help(COMMANDS, everything=rest == ["all"]))
        return 0
    if first == "--version":
        write(f"handrail {__version__}\n")
        return 0
    name, rest = _split_command(words)
    if not name:
        from handrail.cli.help import describe_unknown

        raise UsageError(describe_unknown(first, COMMANDS))
    if name == "mcp":
        from handrail.cli import mcp

        return mcp.main(rest, at)
    from importlib import import_module

    module = import_module(f"handrail.cli.{COMMANDS[name][0]}")
    options = module.parser().parse_intermixed_args(rest)
    if at:
        from handrail.cli.remote import THERE, refuse_local_options, run_there

        refuse_local_options(options)
        if words[0] in THERE:
            return run_there(at, words)
        options.at = at
    if getattr(options, "draft", "") and not is_in_draft():
        from handrail.cli.draft import run_again

        return run_again(options.draft, options.workspace, words)
    code: int = module.run(options)
    return code


def _split_command(words: Sequence[str]) -> tuple[str, list[str]]:
    """The name of the command, which may be two words, and the words after it; the name is empty if there is none."""
    for count in (2, 1):
        name, rest = " ".join(words[:count]), list(words[count:])
        if len(words) >= count and name in _OTHER_SPELLINGS:
            return _split_command([*_OTHER_SPELLINGS[name], *rest])
        if len(words) >= count and name in COMMANDS:
            return name, rest
    return "", list(words)
