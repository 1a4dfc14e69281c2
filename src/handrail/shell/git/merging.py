"""Merge files with git: its attributes and ignore rules, merges by lines, and the person's merge tool.

The merge tool runs in a temporary repository that holds only the files with overlaps.
"""

from __future__ import annotations

import errno
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from handrail.frozen import frozen
from handrail.programs import get_program, make_search_path
from handrail.shell.git.settings import ask_git
from handrail.shell.sandbox.confinement import find_repository

_MADE_BY_PROGRAMS = re.compile(r"(?:.*[.-]lock(?:\.\w+|b)?|npm-shrinkwrap\.json|go\.sum)", re.IGNORECASE)
"""Lock files of package managers, which have to be generated again rather than merged by lines."""
_BY_LINES = ("unspecified", "set", "text", "union")
"""Values of the `merge` attribute that mean a merge by lines. Others name a merge driver, or mean a binary file."""
_LIST_IGNORED = ("--literal-pathspecs", "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--")
_MARKER_LIKE = re.compile(rb"^(?:<+|\|+|=+|>+)", re.MULTILINE)
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_FAILED = 128
"""Exit codes from here up mean that git could not merge."""


class MergeRule(NamedTuple):
    """How to merge one file, by git's attributes and our rule for lock files."""

    by_lines: bool = True
    union: bool = False
    ignored: bool = False


@frozen
class OverlapSides:
    """Lines that both sides have changed: ``ours`` in the draft, ``theirs`` in the workspace."""

    ours: bytes
    base: bytes
    theirs: bytes

    @property
    def both(self) -> bytes:
        """The lines of both sides, ours first."""
        if not self.ours or not self.theirs or self.ours.endswith(b"\n"):
            return self.ours + self.theirs
        end = b"\r\n" if b"\r\n" in self.theirs else b"\n"
        return self.ours.removesuffix(b"\r") + end + self.theirs


Parts = Sequence[bytes | OverlapSides]
"""A merged file: plain lines, and overlaps between them."""


@frozen
class MergedText:
    """A merge by lines, with conflict markers where the sides overlap."""

    raw: bytes
    overlaps: bool


def find_rules(workspace: str, paths: Sequence[str]) -> dict[str, MergeRule]:
    """How to merge files of a workspace: by lines, but for lock files and where git's attributes say otherwise.

    Raises `OSError` if git fails.
    """
    repositories: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        place = os.path.join(workspace, os.path.dirname(path))
        while not os.path.isdir(place):
            place = os.path.dirname(place)
        repositories[find_repository(place)].append(os.path.join(workspace, path))
    rules: dict[str, MergeRule] = {}
    for top, absolute in repositories.items():
        names = [os.path.relpath(path, top) for path in absolute]
        in_git = os.path.lexists(f"{top}/.git")
        fields = _list(["check-attr", "-z", "merge", "--", *names], top) if in_git else []
        values = dict(zip(fields[::3], fields[2::3], strict=False))
        there = [name for name in names if os.path.lexists(os.path.join(top, name))]
        ignored = _list([*_LIST_IGNORED, *there], top) if in_git and there else []
        if in_git:  # `ls-files` leaves out files that are gone
            gone = [name for name in names if name not in there]
            ignored += (name for name in gone if ask_git(["check-ignore", "-q", "--", name], top)[0] == 0)
        for path, name in zip(absolute, names, strict=True):
            value = values.get(name, "unspecified")
            by_lines = value in _BY_LINES and not _MADE_BY_PROGRAMS.fullmatch(os.path.basename(name))
            rules[os.path.relpath(path, workspace)] = MergeRule(by_lines, value == "union", name in ignored)
    return rules


def _list(words: Sequence[str], top: str) -> list[str]:
    code, listed = ask_git(words, top)
    if code:
        raise OSError(errno.EIO, "git cannot say how these files are merged", top)
    return os.fsdecode(listed).split("\0")


def merge_text(base: bytes, ours: bytes, theirs: bytes, *options: str) -> MergedText | None:
    """Merge with `git merge-file`; None for binary files, with 127 overlaps or more, and if git fails."""
    sides = {"draft": ours, "base": base, "workspace": theirs}
    with tempfile.TemporaryDirectory(prefix="handrail-merge-") as place:
        for name, raw in sides.items():
            with open(os.path.join(place, name), "xb") as file:
                file.write(raw)
        words = ["-c", "merge.conflictStyle=merge", "merge-file", "-p", "-q", *options, *sides]
        code, merged = ask_git(words, place)
    # 127: there is no git, or so many overlaps that git does not count on
    return MergedText(merged, code > 0) if 0 <= code < _FAILED and code != 127 else None


def split_merge(base: bytes, ours: bytes, theirs: bytes) -> Parts:
    """Split git's merge into plain lines and overlaps, even if lines look like markers; empty if git cannot merge."""
    runs = (len(run[0]) for side in (base, ours, theirs) for run in _MARKER_LIKE.finditer(side))
    size = max([6, *runs]) + 1  # longer than anything in the files that looks like a marker
    merged = merge_text(base, ours, theirs, "--diff3", f"--marker-size={size}")
    if merged is None:
        return ()
    pattern = rb"^<{%d} draft\r?\n(.*?)^\|{%d} base\r?\n(.*?)^={%d}\r?\n(.*?)^>{%d} workspace\r?\n" % ((size,) * 4)
    pieces = re.split(pattern, merged.raw, flags=re.MULTILINE | re.DOTALL)
    parts: list[bytes | OverlapSides] = [pieces[0]]
    for at in range(1, len(pieces), 4):
        sides, after = pieces[at : at + 3], pieces[at + 3]
        if not after and at + 4 == len(pieces):
            sides = [_end_as(raw, side) for raw, side in zip((ours, base, theirs), sides, strict=True)]
        parts += [*_trim(*sides), after]
    return [part for part in parts if part]


def _end_as(raw: bytes, side: bytes) -> bytes:
    """The end of a file without the newline that git adds where the last line has none."""
    return next((cut for end in (b"", b"\r\n", b"\n") if raw.endswith(cut := side.removesuffix(end))), side)


def _trim(ours: bytes, base: bytes, theirs: bytes) -> Parts:
    """Split off the lines at the edges of an overlap on which both sides agree."""
    one, other = _LINE.findall(ours), _LINE.findall(theirs)
    start = _count_same(one, other)
    stop = _count_same(one[start:][::-1], other[start:][::-1])
    before, mine, after = (
        b"".join(lines) for lines in (one[:start], one[start : len(one) - stop], one[len(one) - stop :])
    )
    yours = b"".join(other[start : len(other) - stop])
    return [before, *([OverlapSides(mine, base, yours)] if mine or yours else []), after]


def _count_same(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (mine, yours) in pairs if mine != yours), min(len(one), len(other)))


@frozen
class Unmerged:
    """A file for the merge tool."""

    base: bytes | None
    ours: bytes
    theirs: bytes
    marked: bytes
    """The merge, with conflict markers around its overlaps."""


def run_merge_tool(files: Mapping[str, Unmerged]) -> dict[str, bytes]:
    """Run `git mergetool` on these files, in this terminal; returns the contents of those the person has merged.

    Raises `OSError` if git cannot prepare the files.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env["PATH"] = make_search_path()
    git = [get_program("git"), "-c", "mergetool.keepBackup=false", "-c", "core.autocrlf=false"]

    with tempfile.TemporaryDirectory(prefix="handrail-merge-") as place:

        def ask(*words: str, given: bytes = b"") -> bytes:
            done = subprocess.run([*git, *words], cwd=place, env=env, input=given, stdout=subprocess.PIPE, check=False)  # noqa: S603
            if done.returncode:
                raise OSError(errno.EIO, f"git {words[0]} failed")
            return done.stdout

        ask("init", "--quiet", "--template=")
        entries = b""
        for path, file in files.items():
            target = os.path.join(place, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as out:
                out.write(file.marked)
            for stage, raw in enumerate((file.base, file.ours, file.theirs), 1):
                if raw is not None:
                    name = ask("hash-object", "-w", "--stdin", given=raw).strip()
                    entries += b"100644 %s %d\t%s\0" % (name, stage, os.fsencode(path))
        ask("update-index", "-z", "--index-info", given=entries)
        subprocess.run([*git, "mergetool"], cwd=place, env=env, check=False)  # noqa: S603 - the person's own tool
        left = ask("ls-files", "-z", "--unmerged").split(b"\0")
        open_paths = {os.fsdecode(row.partition(b"\t")[2]) for row in left}
        return {path: _read(place, path) for path in files if path not in open_paths}


def _read(place: str, path: str) -> bytes:
    with open(os.path.join(place, path), "rb") as file:
        return file.read()
