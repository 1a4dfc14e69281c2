"""The help texts: which commands are listed under which task, and text that follows the terminal's width."""

from __future__ import annotations

import os
import re
import sys
from difflib import get_close_matches
from textwrap import wrap

from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WIDEST = 110
"""Longer lines are hard to read, however wide the terminal is."""
_NARROWEST = 30
_LEAST_BESIDE = 24
"""Columns that the second part of a row needs; with fewer it goes below the first."""

_FIRST = {
    "see and undo what agents did": ("undo", "log", "web"),
    "work": ("try", "chat", "run"),
    "set up": ("attach", "doctor"),
}
"""The commands in the first help, by task."""

_ALL = {
    "see and undo what agents did": (
        *("undo", "redo", "log", "log show", "log diff", "log stats", "log verify", "web", "approve"),
    ),
    "work": ("try", "draft", "chat", "run", "demo"),
    "set up": (*("attach", "detach", "attach service", "init", "policy", "config", "index", "doctor", "completion"),),
    "give the tools to your own agent": ("mcp", "call", "script", "batch", "tools", "dialects", "eval"),
    "for programs and other machines": ("serve", "acp", "fleet", "journal"),
}
"""All commands, by task."""

_HELP = """\
usage: handrail COMMAND ...

See what your coding agents did, and undo it. Without a command: what changed in this project today.

{commands}

`handrail COMMAND --help` explains a command, and `handrail help all` lists all of them.
"""

_HELP_ALL = """\
usage: handrail COMMAND ...

{commands}

options:
  -h, --help     show the first help; `handrail COMMAND --help` explains a command
  --at URL       before call, chat, log, undo and most others: work on another machine, such as ssh://host/path/to/project
  --version      show the version

examples:
  handrail demo                                            see an agent at work on a temporary project
  handrail call Read file_path=README.md                   read a file as a model does
  handrail call Edit --read-first --diff file_path=a.py old_string=foo new_string=bar
  handrail tools --dialect claude --format anthropic       the tool definitions for an API
  handrail batch -w path/to/project < calls.jsonl          many calls in one session

exit codes: 0 done, 1 the tool failed, 2 wrong usage, 3 not allowed, 130 interrupted
"""


def format_help(about: Mapping[str, tuple[str, str]], *, everything: bool) -> str:
    """The help of the program; ``about`` has the sentence of each command in second place."""
    groups = _ALL if everything else _FIRST
    width = 14 if everything else 9
    texts = [f"{task}:\n" + _list_commands(names, about, width) for task, names in groups.items()]
    return wrap_help((_HELP_ALL if everything else _HELP).format(commands="\n\n".join(texts)))


def _list_commands(names: Iterable[str], about: Mapping[str, tuple[str, str]], width: int) -> str:
    return "\n".join(f"  {name:<{width}}  {about[name][1]}" for name in names)


def describe_unknown(word: str, known: Iterable[str]) -> str:
    """Why a word is no command, with the one that may be meant."""
    if word.startswith("-"):
        return f"the command comes first, then its options, not {escape(word)}; `handrail help all` lists the commands"
    near = get_close_matches(word, list(known), n=1)
    hint = f"did you mean {near[0]}?" if near else "`handrail help all` lists the commands"
    return f"unknown command {escape(word)}; {hint}"


def measure_terminal() -> int:
    """The columns of the terminal. `shutil`, which argparse asks, is slow to import."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (ValueError, OSError):  # closed, or no terminal
        return 80


def measure_help() -> int:
    """The columns that a help text takes."""
    return max(_NARROWEST, min(measure_terminal() - 1, _WIDEST))


def wrap_help(text: str) -> str:
    """Fill paragraphs to the terminal's width; rows of two columns keep them, as far as there is room."""
    width = measure_help()
    return "\n".join(line for block in _join_lines(text) for line in _wrap_line(block, width))


def _join_lines(text: str) -> Iterator[str]:
    """Paragraphs and rows as one line each; a line that is indented like the second column continues its row."""
    held, column = "", 0
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        continues = held and line.strip() and indent == column and not line.startswith(("exit codes:", "usage:"))
        if continues and not held.endswith(":") and (column or not held.startswith(" ")):
            held += " " + line.strip()
            continue
        if held:
            yield held
        held, column = line, _find_column(line)
        if not line.strip():
            yield ""
            held, column = "", 0
    if held:
        yield held


def _find_column(line: str) -> int:
    """Where the second column of a row begins; 0 for a line of a paragraph."""
    match = re.match(r" +\S.*?(?:  +)(?=\S)", line)
    return match.end() if match else 0 if not line.startswith(" ") else -1


def _wrap_line(line: str, width: int) -> list[str]:
    column = _find_column(line)
    if len(line) <= width or line.startswith("usage:") or column < 0:  # an example is there to be copied
        return [line]
    if not column:
        return wrap(line, width, break_long_words=False, break_on_hyphens=False)
    first, second = line[:column].rstrip(), line[column:]
    hanging = " " * (column if width - column >= _LEAST_BESIDE else 6)
    rest = wrap(second, width, initial_indent=hanging, subsequent_indent=hanging, break_on_hyphens=False)
    return [first + rest[0][len(first) :], *rest[1:]] if len(first) < column == len(hanging) else [first, *rest]
