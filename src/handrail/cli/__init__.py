"""The `handrail` command: picks the verb, and turns whatever ends it into an exit code.

Each verb is a module with `parser()` and `run(options) -> exit code`, imported only when it is the one that was typed.
What is heavy (the engine, pydantic, rich) is imported inside `run`, so that help is there at once.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from handrail.cli.minimal import Stop

VERBS = {
    "chat": ("chat.command", "talk to a model that works in the project with these tools"),
    "run": ("run", "give a model one task, and tell by the exit status how it ended"),
    "call": ("call", "make one tool call, and print what a model would read"),
    "batch": ("batch", "one session over JSON lines: the contract for scripts in any language"),
    "tools": ("tools", "show what a model is told of the tools, for people or as JSON"),
    "dialects": ("dialects", "list the dialects with their weight, or check one of your own"),
    "mcp": ("mcp", "serve the tools over MCP, or write a client's entry for that"),
    "acp": ("acp", "serve the agent to an editor, over the Agent Client Protocol"),
    "approve": ("approve", "be asked in this terminal what other handrail processes need a person for"),
    "policy": ("policy", "say what the rules allow and why, test them, or trust a project's"),
    "log": ("log", "show the calls that were made, or verify that nobody has changed the journal"),
    "show": ("show", "show one call: arguments, verdict, files, diff and answer"),
    "stats": ("stats", "count calls, failures, refusals and tokens for each tool"),
    "undo": ("undo", "take back what a call, or several, have changed"),
    "doctor": ("doctor", "say what is found on this machine, and the mend for what is missing"),
    "demo": ("demo", "play a short true story on a throwaway project"),
}

_HELP = """\
usage: handrail VERB ...

Handrail is the hands of a coding agent: Read, Write, Edit and more, as separate tools that never lose a byte.

verbs:
{verbs}

options:
  -h, --help     show this help; `handrail VERB --help` shows that of a verb
  --version      show the version

examples:
  handrail demo                                            see an agent at work, on files made for it
  handrail call Read file_path=README.md                   read a file as a model does
  handrail call Edit --read-first --diff file_path=a.py old_string=foo new_string=bar
  handrail tools --dialect claude --format anthropic       the tool definitions for an API
  handrail batch -w path/to/project < calls.jsonl          many calls in one session

exit codes: 0 done, 1 a tool said no, 2 wrong usage, 3 not allowed here, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    from handrail.cli.signals import repair_signals

    words = list(sys.argv[1:] if argv is None else argv)
    repair_signals()
    try:
        if words[:1] == ["mcp"]:  # whose clients do not wait: what the other verbs share is not imported first
            from handrail.cli import mcp

            return mcp.main(words[1:])
        return _verb(words)
    except SystemExit:  # argparse ends so when it has shown its help
        return 0
    except KeyboardInterrupt:
        return 130
    except _stop() as stop:
        from handrail.cli.output import warn

        warn(f"{' '.join(['handrail', *words[:1]]) if words and words[0] in VERBS else 'handrail'}: {stop}")
        return stop.code


def _stop() -> type[Stop]:
    """What ends a verb early; asked for only when something has ended it."""
    from handrail.cli.minimal import Stop

    return Stop


def _verb(words: list[str]) -> int:
    from handrail.cli.minimal import UsageError, write

    if not words:
        from handrail.cli.output import warn

        warn(_help().rstrip())
        return 2
    first, rest = words[0], words[1:]
    if first in ("-h", "--help", "help"):
        if rest and rest[0] in VERBS:
            return _verb([rest[0], "--help"])
        write(_help())
        return 0
    if first == "--version":
        from handrail import __version__

        write(f"handrail {__version__}\n")
        return 0
    if first not in VERBS:
        raise UsageError(_unknown(first))
    if first == "mcp":
        return main([first, *rest])
    from importlib import import_module

    module = import_module(f"handrail.cli.{VERBS[first][0]}")
    options = module.parser().parse_intermixed_args(rest)
    code: int = module.run(options)
    return code


def _help() -> str:
    return _HELP.format(verbs="\n".join(f"  {name:<13}  {about}" for name, (_, about) in VERBS.items()))


def _unknown(word: str) -> str:
    from difflib import get_close_matches

    from handrail.text.display import escape

    if word.startswith("-"):
        return f"the verb comes first, then its options, not {escape(word)}; the verbs are {', '.join(VERBS)}"
    near = get_close_matches(word, VERBS, n=1)
    mend = f"did you mean {near[0]}?" if near else f"the verbs are {', '.join(VERBS)}"
    return f"there is no verb {escape(word)}; {mend}"
