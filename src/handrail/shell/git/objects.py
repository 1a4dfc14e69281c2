"""Read objects of git repositories, and believe none whose contents do not have its name."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence

from handrail.programs import get_program
from handrail.shell.git.settings import SAFE, make_git_environment

_MOST_TREES = 20_000
_MOST_ASKED = 400
"""Objects that git is asked for at once: their names fit into a pipe."""

Tree = dict[str, tuple[bool, str]]
"""By name: whether the entry is a tree, and its object id."""


def hash_blob(raw: bytes, length: int) -> str:
    """The name that git gives to contents, in a repository whose names have this length."""
    return hash_object(b"blob", raw, length)


def hash_object(kind: bytes, raw: bytes, length: int) -> str:
    maker = hashlib.sha1(usedforsecurity=False) if length == 40 else hashlib.sha256()
    maker.update(b"%s %d\0" % (kind, len(raw)) + raw)
    return maker.hexdigest()


class GitObjects:
    """Reads objects of a repository, and believes none whose contents do not have its name."""

    def __init__(self, top: str) -> None:
        self._top = top
        self._process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()

    def read_root(self, commit: str) -> str:
        """The id of a commit's tree; empty if there is none."""
        raw = self.read(commit, b"commit")
        match = re.match(rb"tree ([0-9a-f]{40,64})\n", raw or b"")
        return match[1].decode("ascii") if match else ""

    def read(self, name: str, kind: bytes) -> bytes | None:
        """The contents of one object; None if it is not there."""
        return next(self.read_many([name], kind), None)

    def read_many(self, names: Sequence[str], kind: bytes) -> Iterator[bytes | None]:
        """The contents of several objects; it ends early if git does."""
        with contextlib.suppress(OSError, ValueError):
            for start in range(0, len(names), _MOST_ASKED):
                asked = names[start : start + _MOST_ASKED]
                process = self._start()
                assert process.stdin
                assert process.stdout
                process.stdin.write("".join(f"{name}\n" for name in asked).encode("ascii"))
                process.stdin.flush()
                for name in asked:
                    head = process.stdout.readline().split()
                    raw = process.stdout.read(int(head[2]) + 1)[:-1] if len(head) == 3 else b""
                    is_so = len(head) == 3 and head[1] == kind and hash_object(kind, raw, len(name)) == name
                    yield raw if is_so else None

    def _start(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            from handrail.shell.sandbox.landlock_process import start_helper  # slow to import

            self._process = start_helper(
                [get_program("git"), *SAFE, "cat-file", "--batch"],
                cwd=self._top,
                env=make_git_environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        return self._process


class CommitTrees:
    """The directories of commits, read once. Whoever calls sees to it that only one thread does."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._roots: dict[str, str] = {}
        self.readers: dict[str, GitObjects] = {}
        """By repository, what reads its objects until `close`."""

    def close(self) -> None:
        """End the processes that read objects; the next question starts them again."""
        while self.readers:
            self.readers.popitem()[1].close()

    def look_up(self, top: str, commit: str, name: str, *, tree: bool) -> str:
        """The id of a file or directory in a commit of a repository; empty if it is not there."""
        if not commit:
            return ""
        parts = name.split("/")
        here = self.get_root(top, commit)
        for number, part in enumerate(parts, 1):
            is_tree, here = self.get(top, here).get(part, (False, ""))
            if not here or is_tree != (tree or number < len(parts)):
                return ""
        return here

    def get_root(self, top: str, commit: str) -> str:
        """The id of a commit's tree; empty if there is none."""
        if commit and not self._roots.get(commit):
            self._roots[commit] = self._get_objects(top).read_root(commit)
        return self._roots.get(commit, "")

    def get(self, top: str, name: str) -> Tree:
        """The entries of a tree, by its id; none if it is not there."""
        if name and name not in self._trees:
            if len(self._trees) >= _MOST_TREES:
                self._trees = {}
            self._read(top, [name])
        return self._trees.get(name, {})

    def load(self, top: str, name: str) -> None:
        """Read a tree and all trees below it at once."""
        waiting = [name]
        while waiting and len(self._trees) < _MOST_TREES:
            self._read(top, [name for name in dict.fromkeys(waiting) if name and name not in self._trees])
            trees = (self._trees.get(name, {}) for name in waiting)
            waiting = [inner for tree in trees for is_tree, inner in tree.values() if is_tree]

    def _read(self, top: str, names: Sequence[str]) -> None:
        for name, raw in zip(names, self._get_objects(top).read_many(names, b"tree"), strict=False):
            if raw is not None:
                self._trees[name] = _parse_tree(raw, len(name) // 2)

    def _get_objects(self, top: str) -> GitObjects:
        return self.readers.setdefault(top, GitObjects(top))


def _parse_tree(raw: bytes, size: int) -> Tree:
    entries: Tree = {}
    at = 0
    while at < len(raw):
        end = raw.index(b"\0", at)
        mode, _, name = raw[at:end].partition(b" ")
        at = end + 1 + size
        if mode != b"160000":  # a submodule is a repository of its own
            entries[os.fsdecode(name)] = mode == b"40000", raw[end + 1 : at].hex()
    return entries
