"""`.handrailignore` and `.aiignore` list files, in git's syntax, that must not be read.

They count in every directory below a root, and are searched for once per session. A listed directory is hidden with
its contents: a line with `!` overrides a line of the same file, and no line of another one. An ignore file that cannot
be read hides its whole directory.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence

from handrail.policy.paths import is_within
from handrail.search.ignores import IgnoreFile, read_lines

NAMES = (".handrailignore", ".aiignore")
_MOST_KEPT = 50_000
_SIMPLE = re.compile(r"/?[\w.*?-]+(?:/[\w.*?-]+)*/?")
_MOST_BYTES = 1 << 20
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_Chain = tuple[tuple[str, str, IgnoreFile], ...]
"""The nearest first: the directory with a slash behind it, the name of the file, its rules."""


class IgnoreFiles:
    """Asked for a path: which file says that it is not to be read?"""

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = roots
        self._chains: dict[str, tuple[_Chain, str]] = {}

    def find(self, path: str) -> str:
        """The ignore file that names the path, or a directory above it; empty if none does."""
        directory, _, name = path.rpartition("/")
        chain, why = self._chains.get(directory) or self._chain(directory)
        return why or (self._relative_name(chain, path) if chain and name else "")

    def _chain(self, directory: str) -> tuple[_Chain, str]:
        """The ignore files that hold in a directory, and the one that names the directory itself."""
        root = next((root for root in self._roots if is_within(root, directory)), None)
        if root is None:
            return (), ""
        names = [name for name in directory[len(root) :].split("/") if name]
        chain: _Chain = ()
        why = ""
        if len(self._chains) >= _MOST_KEPT:  # begun anew, and not emptied: another thread may be reading it
            self._chains = {}
        chains = self._chains
        for end in range(len(names) + 1):
            way = "/".join([root.rstrip("/"), *names[:end]])
            if way in chains:
                chain, why = chains[way]
                continue
            if end:
                why = why or self._relative_name(chain, way)
            if not why:
                own = ((f"{way}/", name, IgnoreFile(lines)) for name, lines in _files(way))
                chain = (*(entry for entry in own if entry[2]), *chain)
            chains[way] = chain, why
        return chain, why

    def _relative_name(self, chain: _Chain, path: str) -> str:
        for start, name, rules in chain:
            inner = path[len(start) :]
            as_file, as_directory = rules.is_ignored(inner), rules.is_ignored(inner + "/")
            if as_file if as_file == as_directory or not os.path.isdir(path) else as_directory:
                return start + name
        return ""

    def hides(self) -> list[str]:
        """Return equivalent globs for the files of one root, where possible."""
        if len(self._roots) != 1:
            return []
        globs: list[str] = []
        for _, lines in _files(self._roots[0]):
            rows = [line.rstrip() for line in lines if line.strip() and not line.startswith("#")]
            if any(row.startswith("!") for row in rows):
                return []
            globs += [row for row in rows if _SIMPLE.fullmatch(row)]
        return globs


def _files(directory: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(name, lines) for name in NAMES if (lines := _lines(os.path.join(directory, name)))]


def _lines(path: str) -> tuple[str, ...]:
    try:
        status = os.stat(path)
    except OSError as error:
        return () if error.errno in _ABSENT else ("*",)
    fits = stat.S_ISREG(status.st_mode) and status.st_size <= _MOST_BYTES and os.access(path, os.R_OK)
    return read_lines(path) if fits else ("*",)
