"""Judge a tool's changes of git's own files by their contents, as the changes of a command in a draft are judged."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence

from handrail.drafts.changes import DraftChange
from handrail.drafts.compare import Entry
from handrail.files.versions import Change
from handrail.model import Access, FileAccess, Verdict
from handrail.pipeline.approve import Approvals
from handrail.pipeline.call_state import FOR_SESSION
from handrail.shell.git.internals import judge_repositories
from handrail.text.display import escape

_TYPES = {"file": stat.S_IFREG, "directory": stat.S_IFDIR, "link": stat.S_IFLNK}


class _StagedContents:
    """The staged changes of a call below the workspace, by their paths in it."""

    def __init__(self, changes: Iterable[Change], workspace: str) -> None:
        self._top = workspace.rstrip("/") + "/"
        self._before: dict[str, tuple[Entry, bytes]] = {}
        self._after: dict[str, tuple[Entry, bytes]] = {}
        for change in changes:
            real = change.path.real
            if change.subtree:
                entries = [(one.inner, _make_entry(_TYPES[one.kind]), one.raw) for one in change.subtree.entries]
                self._add(self._before, change.subtree.path.real, entries)
                self._add(self._after, real, entries if change.moved_from else [])
            else:
                file = _make_entry(stat.S_IFREG)
                self._add(self._before, real, [("", file, change.before.raw)] if change.before else [])
                self._add(self._after, real, [("", file, change.after)] if change.after is not None else [])

    def _add(
        self, side: dict[str, tuple[Entry, bytes]], real: str, entries: Sequence[tuple[str, Entry, bytes]]
    ) -> None:
        for inner, entry, raw in entries:
            path = os.path.join(real, inner) if inner else real
            if path.startswith(self._top):
                side[path.removeprefix(self._top)] = entry, raw
        above = os.path.dirname(real)
        while entries and side is self._after and above.startswith(self._top) and not os.path.lexists(above):
            side[above.removeprefix(self._top)] = _make_entry(stat.S_IFDIR), b""
            above = os.path.dirname(above)

    def list(self) -> Iterator[DraftChange]:
        nothing = None, b""
        for path in sorted(self._before.keys() | self._after.keys()):
            yield DraftChange(path, self._before.get(path, nothing)[0], self._after.get(path, nothing)[0])

    def read_before(self, change: DraftChange, most: int) -> bytes | None:
        return _read(self._before, change, most)

    def read_after(self, change: DraftChange, most: int) -> bytes | None:
        return _read(self._after, change, most)


def _make_entry(mode: int) -> Entry:
    return Entry(0, mode, 0, 0, 0, (0, 0))


def _read(side: dict[str, tuple[Entry, bytes]], change: DraftChange, most: int) -> bytes | None:
    raw = side[change.path][1] if change.path in side else None
    return raw if raw is None or len(raw) <= most else None


def judge_git_files(
    accesses: Sequence[Access], changes: Sequence[Change], approvals: Approvals, workspace: str
) -> Verdict:
    """The verdict on a call that would make these ``changes``.

    Git's everyday work counts as a change of the directory around the repository, and other changes are asked about.
    """
    verdict = approvals.verdict(accesses)
    contents = _StagedContents(changes, workspace)
    in_git = judge_repositories(contents.list(), contents, workspace)
    if verdict.decision == "ask":
        everyday = {os.path.join(workspace, path): top for path, top in in_git.everyday.items()}
        plain = [one for one in accesses if isinstance(one, FileAccess) and one.path in everyday]
        passed = [one for one in plain if _is_asked_as_protected(one, approvals)]
        tops = {everyday[one.path] for one in passed}
        around = [_make_access(top, workspace) for top in sorted(tops)]
        left = approvals.verdict([*(one for one in accesses if one not in passed), *around])
        return left if left.decision == "allow" else verdict
    if verdict.decision == "allow" and verdict.rule != FOR_SESSION and in_git.unusual:
        path = escape(next(iter(in_git.unusual)))
        why = f"{path} may decide which programs git runs, so it is asked about every time"
        return Verdict("ask", "protected", why)
    return verdict


def _make_access(top: str, workspace: str) -> FileAccess:
    """The change of the directory around a repository."""
    return FileAccess("write", top, os.path.normpath(os.path.join(workspace, top)), by_command=True, observed=True)


def _is_asked_as_protected(access: FileAccess, approvals: Approvals) -> bool:
    """Whether nothing but its name is why a person would be asked about a change."""
    verdict = approvals.verdict([access])
    return verdict.decision == "ask" and verdict.rule == "protected" and not verdict.source
