"""What git says about merging files: their attributes, whether it ignores them, and the merge itself."""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from handrail.frozen import frozen
from handrail.shell.git.settings import ask_git
from handrail.shell.sandbox.confinement import find_above

_MADE_BY_PROGRAMS = re.compile(r"(?:.*[.-]lock(?:\.\w+|b)?|npm-shrinkwrap\.json|go\.sum)", re.IGNORECASE)
"""Names of lock files: a package manager has to write them as a whole."""
_BY_LINES = ("unspecified", "set", "text", "union")
"""Values of the attribute `merge` with which lines are merged; any other names a program, or says that it is binary."""
_LIST_IGNORED = ("--literal-pathspecs", "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--")
_FAILED = 128
"""From this exit code, git could not merge."""


class MergeRule(NamedTuple):
    """How git treats one file."""

    by_lines: bool = True
    union: bool = False
    ignored: bool = False


@frozen
class MergedText:
    """A merge; where the sides overlap, with markers around both."""

    raw: bytes
    overlaps: bool


def find_rules(workspace: str, paths: Sequence[str]) -> dict[str, MergeRule]:
    """How git treats files of a workspace. Outside of repositories all but lock files are merged.

    Raises `OSError` if git does not tell.
    """
    repositories: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        place = os.path.join(workspace, os.path.dirname(path))
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        repositories[find_above(place, ".git")].append(os.path.join(workspace, path))
    rules: dict[str, MergeRule] = {}
    for top, absolute in repositories.items():
        names = [os.path.relpath(path, top) for path in absolute]
        in_git = os.path.lexists(f"{top}/.git")
        fields = _list(["check-attr", "-z", "merge", "--", *names], top) if in_git else []
        values = dict(zip(fields[::3], fields[2::3], strict=False))
        ignored = _list([*_LIST_IGNORED, *names], top) if in_git else []
        for path, name in zip(absolute, names, strict=True):
            value = values.get(name, "unspecified")
            by_lines = value in _BY_LINES and not _MADE_BY_PROGRAMS.fullmatch(os.path.basename(name))
            rules[os.path.relpath(path, workspace)] = MergeRule(by_lines, value == "union", name in ignored)
    return rules


def _list(words: Sequence[str], top: str) -> list[str]:
    code, listed = ask_git(words, top)
    if code:
        raise OSError(errno.EIO, "git does not tell how files are merged", top)
    return os.fsdecode(listed).split("\0")


def merge_text(base: bytes, ours: bytes, theirs: bytes, *, union: bool = False) -> MergedText | None:
    """Merge line by line as `git merge-file` does; None if a side is no text, or there is no git."""
    sides = {"draft": ours, "base": base, "workspace": theirs}
    with tempfile.TemporaryDirectory(prefix="handrail-merge-") as place:
        for name, raw in sides.items():
            with open(os.path.join(place, name), "xb") as file:
                file.write(raw)
        words = ["-c", "merge.conflictStyle=merge", "merge-file", "-p", "-q", *(["--union"] if union else []), *sides]
        code, merged = ask_git(words, place)
    return MergedText(merged, code > 0) if 0 <= code < _FAILED and code != 127 else None
