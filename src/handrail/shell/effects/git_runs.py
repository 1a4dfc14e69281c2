"""The git commands of a script: where each runs, and whether it only looks.

Git finds its settings through its directory and its environment. A looking command counts as one only where the script
leaves both as they were given to it, so that the settings can be inspected before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.frozen import frozen
from handrail.shell.effects.arguments import Arg, Places, join_path
from handrail.shell.effects.git import QUIET_GLOBALS
from handrail.shell.parser.script import Command
from handrail.shell.parser.wrappers import SHELLS

_SAME_PLACE = frozenset(
    (
        "command",
        "builtin",
        "exec",
        "nice",
        "ionice",
        "timeout",
        "stdbuf",
        "eval",
        "xargs",
        "time",
        "env",
        "find",
        *SHELLS,
    )
)
"""Wrappers that leave the directory and the variables alone, unless an option says otherwise."""
_VARIABLE = re.compile(r"GIT_[A-Z]|XDG_CONFIG_HOME")
_QUOTING = re.compile(r"[\\'\"\n]")
_DECLARES = ("declare", "typeset", "local")
_SETS = frozenset(
    ("read", "mapfile", "readarray", "getopts", "printf", "export", "readonly", "let", "unset", *_DECLARES)
)
_SHOWS_TEXT = ("echo", "grep", "egrep", "fgrep", "rg", "ag", "cat", "ls", "head", "tail", "wc", "git")
_PLAIN = ("GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT")
"""Variables that may be set in front of git: which values, `_PLAIN_BEFORE` of the effects says."""


@frozen
class GitRun:
    """One git command of a script."""

    text: str
    verb: str
    """Empty where it is computed."""
    places: Places
    """The directories that it may run in, seen from where the script starts."""
    looks: bool


def follow_directory_option(args: list[Arg], places: Places) -> tuple[list[Arg], Places]:
    """The arguments without `-C directory`, and the directories that git goes to."""
    out: list[Arg] = []
    at = 0
    while at < len(args):
        text = args[at].text
        if text == "-C" and at + 1 < len(args) and (to := args[at + 1].text) is not None:
            places = frozenset(join_path(place, to) for place in places) if places is not None and to else places
            at += 2
        elif text in QUIET_GLOBALS:
            out.append(args[at])
            at += 1
        else:
            break
    return [*out, *args[at:]], places


def find_unsteadiness(run: Command, source: str, runs: Sequence[Command]) -> str:
    """Why git may get another directory or other variables than the script was given; empty if it does not."""
    if not _SAME_PLACE.issuperset(run.via):
        return f"{run.via[-1]} may change where git runs"
    for other in runs:
        base, words = other.base, [word.fixed for word in other.words[1:]]
        if (base in ("env", "exec") and _has_option(words)) or (
            base == "find" and ("-execdir" in words or "-okdir" in words)
        ):
            return f"{base} changes where git runs, or its variables"
        if (base == "cd" and any(re.match(r"-\w*P", word or "") for word in words)) or (
            base == "set" and any(word is None or "P" in word or word == "physical" for word in words)
        ):
            return f"{base} changes how directories are found"
        if base == "shopt" and any(word is None or word.startswith(("cd", "autocd")) for word in words):
            return "shopt changes how directories are found"
        if base in _DECLARES and any(re.match(r"[-+]\w*n", word or "") for word in words):
            return "a variable refers to another one"
        if base in _SETS and any(word is not None and _VARIABLE.search(word) for word in words):
            return f"{base} changes variables of git"
    return "" if _count_variables(source) <= _count_harmless(runs) else "variables of git are named"


def _has_option(words: Sequence[str | None]) -> bool:
    """Whether an option precedes the command that is run."""
    for word in words:
        if word is None or word.startswith("-"):
            return True
        if "=" not in word:
            return False
    return False


def _count_variables(source: str) -> int:
    """How often variables of git are named, quotes taken off."""
    return len(_VARIABLE.findall(_QUOTING.sub("", source)))


def _count_harmless(runs: Sequence[Command]) -> int:
    """How often they are named where that changes nothing: as text for a program that evaluates none."""
    count = 0
    for run in runs:
        count += sum(1 for item in run.assignments if item.name in _PLAIN and run.words)
        if run.base not in _SHOWS_TEXT:
            continue
        count += sum(len(_VARIABLE.findall(word.fixed)) for word in run.words if word.fixed is not None)
    return count
