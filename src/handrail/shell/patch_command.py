"""Recognise the virtual command `apply_patch`: is this command line one patch and nothing else?

A script counts as a patch only if a shell would run it as one call of `apply_patch` with one fixed text: an argument or
a here-document, alone or behind `cd DIR &&`. Any other command around it, and anything that a shell would still
expand, makes it an ordinary command (None).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from handrail.shell.parser.parse import parse_script
from handrail.shell.parser.script import HEREDOCS, Command

NAMES = ("apply_patch", "applypatch")
SHELLS = ("bash", "sh", "zsh")
"""Programs that may stand before `-c` and a script, where a command comes as a list of words."""
_FLAGS = ("-lc", "-c")


class PatchCall(NamedTuple):
    """A patch, and the directory that its paths start from: empty, or as it was given to `cd`."""

    patch: str
    directory: str


def as_patch(argv: Sequence[str]) -> PatchCall | None:
    """Return the patch that a command line hands to `apply_patch`; None for any other command."""
    if any("\0" in part for part in argv):  # no command line holds one
        return None
    if len(argv) == 2 and argv[0] in NAMES:
        return PatchCall(argv[1], "")
    if len(argv) == 3 and argv[0].rpartition("/")[2] in SHELLS and argv[1] in _FLAGS:
        return _find_patch(argv[2])
    return None


def _find_patch(source: str) -> PatchCall | None:
    script = parse_script(source)
    *before, call = script.commands or [Command(())]
    first = before[0] if before else call
    if not script.proven or script.functions or len(before) > 1 or source[: first.where.start].strip():
        return None
    directory = _read_directory(before[0], source[before[0].where.end : call.where.start]) if before else ""
    patch = _read_text(call, source[call.where.end :])
    return None if directory is None or patch is None else PatchCall(patch, directory)


def _read_directory(cd: Command, joint: str) -> str | None:
    """The directory of a plain `cd DIR` with `&&` behind it."""
    if (
        cd.name != "cd"
        or len(cd.words) != 2
        or cd.assignments
        or cd.redirections
        or joint.replace("\\\n", "").strip() != "&&"
    ):
        return None
    directory = cd.words[1].fixed
    return None if directory is None or directory.startswith("-") else directory or None


def _read_text(call: Command, rest: str) -> str | None:
    """The text that a call of `apply_patch` gets, if nothing else is in it. ``rest``: of the script, with its text."""
    texts = [*call.words[1:], *(one.target for one in call.redirections)]
    plain = all(one.operator in HEREDOCS and not one.descriptor for one in call.redirections)
    if not call.words or call.words[0].bare not in NAMES or call.within or call.assignments or not plain:
        return None
    text = texts[0].fixed if len(texts) == 1 else None
    source = rest if call.redirections else texts[0].source if texts else ""
    # A shell joins two lines at a backslash, which is surely not what a patch means.
    return None if text is None or text.count("\\\n") != source.count("\\\n") else text
