"""The `handrail` program: choose the command, run it and return its exit code.

Each command is a module with `parser()` and `run(options) -> exit code`, and only the chosen one is imported. Heavy
modules (the engine, pydantic, rich) are imported inside `run`, so that help is fast.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handrail.cli.minimal import Stop

COMMANDS = {
    "chat": ("chat.command", "chat with a model that uses these tools in your project"),
    "run": ("run", "give a model one task; the exit code reports the outcome"),
    "call": ("call", "make one tool call and print its result"),
    "try": ("try_command", "run a command in a draft of the project, see what it changed, and keep or drop that"),
    "draft": ("draft", "named drafts of the project for whole sessions: compare them, keep one"),
    "batch": ("batch", "make many calls in one session, as JSON lines, for scripts in any language"),
    "tools": ("tools", "show the tool definitions for a model, as a list or as JSON"),
    "dialects": ("dialects", "list the dialects with their size in tokens, or check your own"),
    "attach": ("attach", "connect the agents you use: undo for their own commands and edits"),
    "detach": ("detach", "disconnect an agent, and restore its configuration"),
    "service": ("service", "the resident helper of attached agents"),
    "mcp": ("mcp", "serve the tools over MCP, or install the server in an MCP client"),
    "serve": ("serve", "serve the tools of a workspace to a client on another machine"),
    "fleet": ("fleet", "make calls in many workspaces, on Ray"),
    "acp": ("acp", "serve the agent to an editor, over the Agent Client Protocol"),
    "approve": ("approve", "answer the questions of other handrail processes in this terminal"),
    "web": ("web", "show activity, approvals and undo on a page in your browser"),
    "policy": ("policy", "explain what the rules allow, test them, or trust a project's"),
    "log": ("log", "show the recorded calls, or verify that the journal was not changed"),
    "show": ("show", "show one call: arguments, verdict, files, diff and answer; or a file as it was then"),
    "diff": ("diff", "show what changed between two calls"),
    "journal": ("journal", "show how far the journal was sent to the shared one, or send it now"),
    "stats": ("stats", "count calls, failures, refusals and tokens for each tool"),
    "undo": ("undo", "undo the changes of one call or several"),
    "redo": ("redo", "redo what the newest undo took back"),
    "init": ("init", "propose rules for a project and clients to connect; write what you say yes to"),
    "config": ("config", "show every setting with its origin and meaning, or change one"),
    "index": ("index", "show, build or drop the index that searches of a large workspace use"),
    "doctor": ("doctor", "check this machine and report how to fix problems"),
    "completion": ("completion", "print a completion script for bash, zsh or fish"),
    "demo": ("demo", "show an agent at work on a temporary project"),
}

_FIRST = {
    "see and undo what agents did": ("undo", "log", "web"),
    "work": ("try", "chat", "run"),
    "set up": ("attach", "doctor"),
}
"""The commands in the first help, by task."""

_HELP = """\
usage: handrail COMMAND ...

File and command tools for coding agents: Read, Write, Edit, Bash and more. No byte is lost, every call is recorded.
Without a command: what changed in this project today.

{commands}

`handrail COMMAND --help` explains a command, and `handrail help all` lists all of them.
"""

_HELP_ALL = """\
usage: handrail COMMAND ...

commands:
{commands}

options:
  -h, --help     show the first help; `handrail COMMAND --help` explains a command
  --at URL       before call, chat, web, undo and some others: work on another machine, such as ssh://host/path/to/project
  --version      show the version

examples:
  handrail demo                                            see an agent at work on a temporary project
  handrail call Read file_path=README.md                   read a file as a model does
  handrail call Edit --read-first --diff file_path=a.py old_string=foo new_string=bar
  handrail tools --dialect claude --format anthropic       the tool definitions for an API
  handrail batch -w path/to/project < calls.jsonl          many calls in one session

exit codes: 0 done, 1 the tool failed, 2 wrong usage, 3 not allowed, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    from handrail.cli.signals import repair_signals

    words = list(sys.argv[1:] if argv is None else argv)
    repair_signals()
    try:
        if words[:1] == ["mcp"]:  # clients do not wait: import nothing that the other commands share
            from handrail.cli import mcp

            return mcp.main(words[1:])
        return _run_command(words)
    except SystemExit:  # argparse ends so when it has shown its help
        return 0
    except KeyboardInterrupt:
        return 130
    except _stop() as stop:
        from handrail.cli.output import warn

        warn(f"{' '.join(['handrail', *words[:1]]) if words and words[0] in COMMANDS else 'handrail'}: {stop}")
        return stop.code


def _stop() -> type[Stop]:
    """The exception that ends a command early; imported only when one was raised."""
    from handrail.cli.minimal import Stop

    return Stop


def _run_command(words: list[str], at: str = "") -> int:
    """Run a command; ``at``: the URL of the workspace, if it is on another machine."""
    from handrail.cli.minimal import UsageError, is_in_draft, write

    if not words:
        from handrail.cli.status import show_status

        return show_status()
    first, rest = words[0], words[1:]
    if first.partition("=")[0] == "--at":
        from handrail.cli.remote import take_address

        at, rest = take_address(words)
        return _run_command(rest, at)
    if first in ("-h", "--help", "help"):
        if rest and rest[0] in COMMANDS:
            return _run_command([rest[0], "--help"])
        write(_format_all_help() if rest == ["all"] else _format_first_help())
        return 0
    if first == "--version":
        from handrail.version import __version__

        write(f"handrail {__version__}\n")
        return 0
    if first not in COMMANDS:
        raise UsageError(_report_unknown(first))
    if first == "mcp":
        from handrail.cli import mcp

        return mcp.main(rest, at)
    from importlib import import_module

    module = import_module(f"handrail.cli.{COMMANDS[first][0]}")
    options = module.parser().parse_intermixed_args(rest)
    if at:
        from handrail.cli.remote import refuse_local_options

        refuse_local_options(options)
        options.at = at
    if getattr(options, "draft", "") and not is_in_draft():
        from handrail.cli.draft import run_again

        return run_again(options.draft, options.workspace, words, serves=first == "serve")
    code: int = module.run(options)
    return code


def _format_first_help() -> str:
    groups = [f"{task}:\n{_list_commands(names)}" for task, names in _FIRST.items()]
    return _HELP.format(commands="\n\n".join(groups))


def _format_all_help() -> str:
    return _HELP_ALL.format(commands=_list_commands(COMMANDS))


def _list_commands(names: Iterable[str]) -> str:
    return "\n".join(f"  {name:<13}  {COMMANDS[name][1]}" for name in names)


def _report_unknown(word: str) -> str:
    from difflib import get_close_matches

    from handrail.text.display import escape

    if word.startswith("-"):
        return f"the command comes first, then its options, not {escape(word)}; the commands are {', '.join(COMMANDS)}"
    near = get_close_matches(word, COMMANDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the commands are {', '.join(COMMANDS)}"
    return f"unknown command {escape(word)}; {hint}"
