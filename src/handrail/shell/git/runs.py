"""The git commands of a script: where each runs, and whether it only looks.

Git finds its settings through its directory and its environment. A looking command counts as one only where the script
leaves both as they were given to it, so that the settings can be inspected before it runs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.frozen import frozen
from handrail.shell.effects.arguments import Arg, Places, join_path
from handrail.shell.git.verbs import QUIET_GLOBALS
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
_VARIABLE = re.compile(r"GIT_(?!(?:PAGER=cat|OPTIONAL_LOCKS=0|TERMINAL_PROMPT=0)(?=[\s;&|]|$))[A-Z]|XDG_CONFIG_HOME")
_QUOTING = re.compile(r"[\\'\"\n]")
_CHANGES_PLACE = re.compile(
    r"(?:env|exec) (?:[^ ]*=[^ ]* )*(?:-|\0).*|find .*-(?:exec|ok)dir.*|cd .*-\w*P.*|set .*(?:P|physical|\0).*"
    r"|shopt .*(?:cd|\0).*|(?:declare|typeset|local) .*[-+]\w*n.*",
    re.DOTALL,
)
"""Commands that change where git runs, how directories are found, or its variables; a computed word is `\\0`."""


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
        words = " ".join(word.fixed if word.fixed is not None else "\0" for word in other.words[1:])
        if _CHANGES_PLACE.fullmatch(f"{other.base} {words}"):
            return f"{other.base} may change where git runs, or its variables"
    return "variables of git are named" if _VARIABLE.search(_QUOTING.sub("", source)) else ""
