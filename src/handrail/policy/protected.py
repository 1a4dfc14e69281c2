"""Protected paths: files that other programs load by themselves. `protected.toml` has the names.

Beside the names there is one rule: a new file or directory at the top of the workspace whose name begins with a dot is
protected, unless it runs nothing (a table of caches and plain data) or git ignored it when the session began.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from handrail.policy.paths import PathPattern, PathSet, is_within
from handrail.search.ignores import IgnoreFile, read_lines

_IGNORE_FILES = (".gitignore", ".git/info/exclude")
_STEERING = frozenset({"config", "config.worktree", "commondir", "hooks", "info"})
_REPOSITORY_PARTS = _STEERING | {"HEAD", "objects", "refs"}


def _is_repository(names: set[str]) -> bool:
    return {"objects", "refs"} <= names or {"HEAD", "commondir"} <= names


@lru_cache(1)
def _load_tables() -> dict[str, dict[str, list[str]]]:
    import tomllib

    with open(os.path.join(os.path.dirname(__file__), "protected.toml"), "rb") as file:
        tables: dict[str, Any] = tomllib.load(file)
    return tables


def _list_names(*tables: str) -> list[str]:
    return [name for table in tables for names in _load_tables()[table].values() for name in names]


def list_protected_names() -> list[str]:
    """The names of protected files and directories, in the syntax of rules."""
    return _list_names("anywhere", "project")


class FirstIgnores:
    """Names at the top of each root that git ignored when the session began."""

    def __init__(self, roots: Sequence[str]) -> None:
        self._lines = {
            root: [line for name in _IGNORE_FILES for line in read_lines(os.path.join(root, name))] for root in roots
        }
        self._files: dict[str, IgnoreFile] = {}

    def has(self, root: str, name: str) -> bool:
        """Whether a file or a directory of this name is ignored."""
        if root not in self._files:
            self._files[root] = IgnoreFile(self._lines.get(root, ()))
        return any(self._files[root].is_ignored(one) for one in (name, f"{name}/"))


class ProtectedPaths:
    """Tells which paths are protected beyond a match with their names."""

    def __init__(self, roots: Sequence[str], home: str, ignores: FirstIgnores | None = None) -> None:
        self._roots = roots
        self._home = home
        self._ignores = ignores or FirstIgnores(roots)

    def is_new_entry(self, path: str, *, created: bool = False) -> bool:
        """Whether a path is a new dot file at the top of a root, or lies in a new dot directory there.

        ``created``: it exists, but only since a job created it.
        """
        for root in self._roots:
            if is_within(root, path) and path != root:
                name = path[len(root.rstrip("/")) + 1 :].partition("/")[0]
                if name.startswith(".") and (created or not os.path.lexists(os.path.join(root, name))):
                    return not self.is_plain(root, name)
        return False

    def steers_git(self, path: str) -> bool:
        """Whether a file belongs to a directory that is a repository by what is in it, and steers git there."""
        root = next((root for root in self._roots if is_within(root, path)), "")
        parts = path[len(root.rstrip("/")) + 1 :].split("/") if root else []
        for at in (number for number, part in enumerate(parts) if part in _REPOSITORY_PARTS):
            above, name = os.path.join(root, *parts[:at]), parts[at]
            there = {
                one for one in ("HEAD", "objects", "refs", "commondir") if os.path.lexists(os.path.join(above, one))
            }
            if (name in _STEERING and _is_repository(there)) or _is_repository(there | {name}) != _is_repository(there):
                return True
        return False

    def is_plain(self, root: str, name: str) -> bool:
        """Whether a new entry with this name at the top of a root runs nothing."""
        return bool(self._plain.find(f"/{name}")) or self._ignores.has(root, name)

    def is_dependency(self, path: str) -> bool:
        """Whether a path lies inside dependencies, and is not protected there."""
        below = next((path[len(root.rstrip("/")) :] for root in self._roots if is_within(root, path)), "")
        inside = any(part in self._dependencies for part in below.split("/")[:-1])
        return inside and not self._anywhere.find(path)

    @cached_property
    def _dependencies(self) -> frozenset[str]:
        return frozenset(_list_names("dependencies"))

    @cached_property
    def _anywhere(self) -> PathSet:
        return self._compile(_list_names("anywhere"))

    @cached_property
    def _plain(self) -> PathSet:
        return self._compile(_list_names("plain"))

    def _compile(self, names: Sequence[str]) -> PathSet:
        patterns = [PathPattern(name) for name in names]
        return PathSet([patterns], self._roots, self._home, deep=True, fold=True, anew=True)
