"""Tell git's everyday work inside a repository from changes that make git run programs.

Objects, references, the index, logs and the notes that git leaves while it merges or rebases are everyday work. So are
settings by which git runs nothing, sample hooks, and the files of work trees and submodules. Everything else may decide
what git runs later: hooks, other settings, attributes, a `commondir` or `.git` file that leads elsewhere, a todo list
with commands. A directory becomes a repository by what is in it, whatever its name is: then all of it counts as new.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from handrail.drafts.changes import MOST_COMPARED_BYTES, DraftChange
from handrail.shell.git.settings import parse_settings

_EVERYDAY = re.compile(
    r"(?:objects|refs|logs|reftable|rr-cache|rebase-apply|rebase-merge|sequencer|branches|lost-found"
    r"|lfs/(?:objects|tmp|cache|incomplete|locks))(?:/.*)?"
    r"|(?:index(?:\.stash\.\d+)?|next-index-\d+|HEAD|[A-Z_]+_HEAD|packed-refs|shallow|config|gc\.pid)(?:\.lock|\.new)?"
    r"|sharedindex\..*|lfs|modules|worktrees"
    r"|(?:COMMIT_EDIT|TAG_EDIT|NOTES_EDIT|MERGE_|SQUASH_)MSG|MERGE_(?:MODE|RR|AUTOSTASH)(?:\.lock)?|AUTO_MERGE"
    r"|BISECT_\w+|NOTES_MERGE_\w+(?:/.*)?|(?:BRANCH|EDIT)_DESCRIPTION|ADD_EDIT\.patch|addp-hunk-edit\.diff|description"
    r"|info/(?:exclude|refs|sparse-checkout|packs|commit-graphs?/.*)(?:\.lock)?|gc\.log(?:\.lock)?|hooks/[^/]+\.sample"
    r"|fsmonitor--daemon(?:\..*|/.*)?|gitdir|locked",
    re.DOTALL,
)
_SETTINGS = ("config", "config.worktree")
_TODO = ("rebase-merge/git-rebase-todo", "sequencer/todo")
_PLAIN_STEP = re.compile(
    r"\s*(?:#.*|(?:p|pick|revert|r|reword|e|edit|s|squash|f|fixup|d|drop|l|label|t|reset|m|merge|u|update-ref|b|break"
    r"|noop)(?:\s.*)?)?"
)
_STRATEGIES = ("ort", "recursive", "resolve", "octopus", "ours", "subtree")
_STEERS = ("config", "config.worktree", "commondir", "info/attributes", "hooks")
"""Parts of a repository by which git runs programs."""
_MARKS = ("HEAD", "objects", "refs", *_STEERS)
"""Names at the top of a repository whose change may make a directory a repository, or steer git in it."""
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|sparsecheckout|sparsecheckoutcone)"
    r"|index\.sparse|remote\..*\.(?:url|pushurl|fetch|tagopt)|branch\..*\.(?:remote|merge|rebase|pushremote)"
    r"|user\.(?:name|email)|submodule\.(?:.*\.)?(?:url|active)|extensions\.(?:objectformat|refstorage|worktreeconfig)"
    r"|lfs\.repositoryformatversion|pull\.(?:rebase|ff)|push\.(?:default|autosetupremote)|remote\.pushdefault"
    r"|fetch\.prune|remote\..*\.(?:prune|promisor|partialclonefilter)|branch\..*\.description|init\.defaultbranch",
    re.DOTALL,
)
"""Settings of a repository by which git runs nothing."""
_HELPER = re.compile(r"[\w+.-]+::")
"""The beginning of an address for which git runs a program: `ext::sh`."""
_REMOVABLE = re.compile(r"(?:branch|remote|submodule)\..*\.", re.DOTALL)
"""Settings that go with a branch, a remote or a submodule. Others may be there to protect, such as `core.hooksPath`."""


class ChangedContents(Protocol):
    """Reads changed files before and after; None where the contents are too large or not known."""

    def read_before(self, change: DraftChange, most: int) -> bytes | None: ...
    def read_after(self, change: DraftChange, most: int) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class RepositoryChanges:
    """The changed paths of a draft or a job that belong to repositories, relative to the workspace."""

    everyday: Mapping[str, str]
    """Git's ordinary work, each with the directory around its repository."""
    unusual: Mapping[str, DraftChange]
    """Changes that a person has to approve."""


def judge_repositories(changes: Iterable[DraftChange], reader: ChangedContents, workspace: str) -> RepositoryChanges:
    """Sort the changes inside repositories, and inside directories that the draft makes repositories of."""
    return _DraftTree({change.path: change for change in changes}, reader, workspace).sort()


class _DraftTree:
    """A draft and its workspace, seen as one tree."""

    def __init__(self, changes: Mapping[str, DraftChange], reader: ChangedContents, workspace: str) -> None:
        self._changes = changes
        self._reader = reader
        self._workspace = workspace

    def sort(self) -> RepositoryChanges:
        everyday: dict[str, str] = {}
        unusual: dict[str, DraftChange] = {}
        for path, change in self._changes.items():
            place = self._find_repository(path)
            if place is None:
                continue
            if self._is_everyday(*place, change):
                everyday[path] = _find_top(path)
            else:
                unusual[path] = change
        for directory in self._find_bare():
            odd = self._judge_bare(directory)
            unusual |= odd
            inside = (os.path.join(directory, name) for name in (*_STEERS, "info"))
            below = {path for top in inside for path in self._changes if path == top or path.startswith(f"{top}/")}
            everyday |= dict.fromkeys(below - odd.keys(), directory or ".")
        return RepositoryChanges(everyday, unusual)

    def _find_repository(self, path: str) -> tuple[str, str] | None:
        """The directory of a repository around a path, and the path in it; None if there is none with git's name."""
        parts = path.split("/")
        at = next((number for number, part in enumerate(parts) if part.lower() == ".git"), None)
        if at is None:
            return None
        directory, names = "/".join(parts[: at + 1]), parts[at + 1 :]
        while names[:1] in (["modules"], ["worktrees"]):
            inner = next((end for end in range(2, len(names) + 1) if self._has_head(directory, names[:end])), None)
            if inner is None:
                break
            directory, names = "/".join([directory, *names[:inner]]), names[inner:]
        return directory, "/".join(names)

    def _has_head(self, directory: str, names: list[str]) -> bool:
        path = "/".join([directory, *names, "HEAD"])
        return self._exists(path) or path in self._changes

    def _exists(self, path: str, *, before: bool = False) -> bool:
        """Whether a path exists after the changes, or ``before`` them."""
        change = self._changes.get(path)
        if change:
            return (change.before if before else change.after) is not None
        above = os.path.dirname(path)
        if not before and above and not self._exists(above):
            return False
        return os.path.lexists(os.path.join(self._workspace, path))

    def _is_everyday(self, directory: str, name: str, change: DraftChange) -> bool:
        """Whether a change in a repository is what git writes in ordinary work."""
        new = change.after
        if new is None and self._is_gone(directory):
            return True
        if name == "":
            return new is not None and (new.is_directory or self._names_own_repository(change))
        if new is not None and new.type not in ("file", "directory"):
            return False
        if change.is_directory:
            return True
        if new is None:
            return name not in _SETTINGS and _EVERYDAY.fullmatch(name) is not None
        return self._has_everyday_contents(directory, name, change)

    def _is_gone(self, directory: str) -> bool:
        """Whether a repository was deleted with the directory around it, or as a part of another one."""
        top = os.path.dirname(directory)
        is_part = os.path.basename(directory).lower() != ".git" and ".git" in directory.lower().split("/")
        return not self._exists(directory) if is_part else bool(top) and not self._exists(top)

    def _names_own_repository(self, change: DraftChange) -> bool:
        """Whether a file `.git` leads into a repository of the workspace."""
        raw = self._reader.read_after(change, MOST_COMPARED_BYTES) if change.after else None
        if raw is None or change.after is None or change.after.type != "file":
            return False
        place = os.fsdecode(raw).removeprefix("gitdir:").strip()
        real = os.path.realpath(os.path.join(self._workspace, os.path.dirname(change.path), place))
        if not real.startswith(self._workspace.rstrip("/") + "/"):
            return False
        inner = os.path.relpath(real, self._workspace)
        common, kind = os.path.split(os.path.dirname(inner))
        return inner.startswith(".git/") or (kind == "worktrees" and self._is_repository(common))

    def _has_everyday_contents(self, directory: str, name: str, change: DraftChange) -> bool:
        if name not in (*_SETTINGS, *_TODO, "commondir", "rebase-merge/strategy", "sequencer/opts"):
            return _EVERYDAY.fullmatch(name) is not None
        raw = self._reader.read_after(change, MOST_COMPARED_BYTES)
        if raw is None:
            return False
        if name in _SETTINGS:
            return are_harmless_settings(self._reader.read_before(change, MOST_COMPARED_BYTES) or b"", raw)
        if name == "commondir":
            return "/worktrees/" in directory and raw.strip() == b"../.."
        text = os.fsdecode(raw)
        if name in _TODO:
            return all(_PLAIN_STEP.fullmatch(line) for line in text.splitlines())
        named = [text.strip()] if name == "rebase-merge/strategy" else list(_list_strategies(raw))
        return all(one in _STRATEGIES for one in named)

    def _find_bare(self) -> Iterator[str]:
        """Directories of another name that are repositories in the draft, and in which something steers git now."""
        directories = set[str]()
        for path in self._changes:
            above, _, name = path.rpartition("/")
            inner = f"{os.path.basename(above)}/{name}"
            if name in _MARKS:
                directories.add(above)
            if inner == "info/attributes" or inner.startswith("hooks/"):
                directories.add(os.path.dirname(above))
        for directory in sorted(directories):
            if self._find_repository(directory) is None and self._is_repository(directory):
                yield directory

    def _is_repository(self, directory: str, *, before: bool = False) -> bool:
        def has(name: str) -> bool:
            return self._exists(os.path.join(directory, name), before=before)

        # Without a HEAD it may still be the common part of a work tree elsewhere.
        return (has("objects") and has("refs")) or (has("HEAD") and has("commondir"))

    def _judge_bare(self, directory: str) -> dict[str, DraftChange]:
        """The unusual changes in a repository without a work tree.

        If the draft completes it, whatever steers git in it counts as new, and the question is about what completes it.
        """
        steering = {name for top in _STEERS for name in self._list_existing(directory, top)}
        changed = {
            name: self._changes[path] for name in _MARKS if (path := os.path.join(directory, name)) in self._changes
        }
        if not self._is_repository(directory, before=True) and not all(
            os.path.join(directory, name) in self._changes for name in steering
        ):
            return {change.path: change for change in changed.values()}
        parts = ((name, self._changes.get(os.path.join(directory, name))) for name in sorted(steering | changed.keys()))
        return {
            change.path: change for name, change in parts if change and not self._is_everyday(directory, name, change)
        }

    def _list_existing(self, directory: str, name: str) -> Iterator[str]:
        """A part of a repository in the draft, and the hooks in it."""
        path = os.path.join(directory, name)
        if not self._exists(path):
            return
        yield name
        if name == "hooks":
            real = os.path.join(self._workspace, path)
            inside = {os.path.join(path, one) for one in (os.listdir(real) if os.path.isdir(real) else [])}
            inside |= {one for one in self._changes if os.path.dirname(one) == path}
            yield from (os.path.relpath(one, directory or ".") for one in inside if self._exists(one))


def _find_top(path: str) -> str:
    """The directory around a repository."""
    parts = path.split("/")
    at = next(number for number, part in enumerate(parts) if part.lower() == ".git")
    return "/".join(parts[:at]) or "."


def are_harmless_settings(before: bytes, after: bytes) -> bool:
    """Whether a change of git's settings makes git run nothing, and takes no protection away."""
    old, new = set(parse_settings(before)), set(parse_settings(after))
    added = all(_HARMLESS.fullmatch(key) and not _HELPER.match(value) for key, value in new - old)
    return added and all(_HARMLESS.fullmatch(key) or _REMOVABLE.match(key) for key, _ in old - new)


def _list_strategies(raw: bytes) -> Iterator[str]:
    for key, value in parse_settings(raw):
        if key == "options.strategy" or not key.startswith("options."):
            yield value
