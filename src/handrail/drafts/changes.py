"""The changes of a draft, one for each file, link and directory, with their contents and the lines that differ."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from handrail.drafts.compare import ChangedOutside, Comparison, Entry, Step, compare, is_whiteout, walk_tree
from handrail.drafts.layout import DraftDirectory
from handrail.system_calls import DIRECTORY, READABLE_DIRECTORY, opened_beneath, stat_at
from handrail.text.diff import Hunk, compute_hunks
from handrail.text.display import escape
from handrail.text.document import Splice

How = Literal["created", "changed", "deleted"]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SAMPLE = 8192
MOST_COMPARED_BYTES = 4 << 20
"""Larger files are not compared line by line."""


@dataclass(frozen=True, slots=True)
class DraftChange:
    """The change of one path, relative to the workspace."""

    path: str
    before: Entry | None
    """None: it is created."""
    after: Entry | None
    """None: it is deleted."""

    @property
    def how(self) -> How:
        if self.before is None:
            return "created"
        return "changed" if self.after else "deleted"

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory before and after, as far as it exists."""
        return all(entry is None or entry.is_directory for entry in (self.before, self.after))


@dataclass(frozen=True, slots=True)
class LineDiff:
    """The difference of a file before and after."""

    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    description: str = ""
    """Instead of lines, where there are none to compare."""


@dataclass(frozen=True, slots=True)
class FileSummary:
    """The change of one path in numbers."""

    path: str
    how: How
    added: int = 0
    removed: int = 0
    description: str = ""
    """Where there are no lines to count."""

    def __str__(self) -> str:
        counts = " ".join(f"{sign}{count}" for sign, count in (("+", self.added), ("-", self.removed)) if count)
        more = counts or self.description
        return f"{self.how} {escape(self.path)}" + (f" ({more})" if more else "")


class ChangeReader:
    """Reads the changes of a draft that is not kept yet."""

    def __init__(self, draft: DraftDirectory, conflicts: Sequence[ChangedOutside] = ()) -> None:
        """``conflicts``: files that are compared with their base, as far as it is known, and not with the workspace."""
        self.draft = draft
        self._based = {conflict.path for conflict in conflicts}
        self._bases = draft.bases
        with contextlib.ExitStack() as stack:
            self.root = draft.open_workspace()
            stack.callback(os.close, self.root)
            self.upper = os.open(draft.upper, READABLE_DIRECTORY)
            stack.callback(os.close, self.upper)
            self._stack = stack.pop_all()

    def __enter__(self) -> ChangeReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def list(self, comparison: Comparison) -> list[DraftChange]:
        """All changes in the order of their paths. A directory in which names changed is not one of them."""
        changes: dict[str, DraftChange] = {}
        for step in comparison.steps:
            for change in self._expand(step):
                first = changes.get(change.path)  # a directory that is deleted for something else of its name
                changes[change.path] = DraftChange(change.path, first.before, change.after) if first else change
        return [changes[path] for path in sorted(changes)]

    def _expand(self, step: Step) -> Iterator[DraftChange]:
        if step.action == "set":
            if step.changes_mode:
                yield DraftChange(step.path, step.before, step.after)
            return
        if not step.whole:
            yield DraftChange(step.path, step.before, None)
            return
        before = dict(self._walk(self.root, step.path, step.before))
        after = dict(self._walk(self.upper, step.path, step.after))
        for path in before.keys() | after.keys():
            old, new = before.get(path), after.get(path)
            change = DraftChange(path, old, new)
            if not self._is_same(change):
                yield change

    def _is_same(self, change: DraftChange) -> bool:
        """Whether an entry was replaced by an equal one, as in a directory that was moved away and back."""
        old, new = change.before, change.after
        if not old or not new or (old.mode, old.owner) != (new.mode, new.owner):
            return False
        if old.is_directory:
            return True
        raw = self.read_before(change, MOST_COMPARED_BYTES) if old.size == new.size else None
        return raw is not None and raw == self.read_after(change, MOST_COMPARED_BYTES)

    def _walk(self, tree: int, path: str, entry: Entry | None) -> Iterator[tuple[str, Entry]]:
        if entry is None:
            return
        yield path, entry
        if entry.is_directory:
            with _parent(tree, path) as (directory, name):
                for inner, status, _, _ in walk_tree(directory, name, path):
                    if status is not None and not is_whiteout(status):
                        yield inner, Entry.of(status)

    def read_before(self, change: DraftChange, most: int) -> bytes | None:
        """The old contents of a file, or the target of a link; None if it is larger, or of another kind."""
        return read_entry(self.root, change.path, change.before, most)

    def read_base(self, change: DraftChange, most: int) -> bytes | None:
        """What the draft has changed: the old contents, and of a file with a conflict those of its base."""
        if change.path in self._based:
            with contextlib.suppress(OSError), open(os.path.join(self._bases, change.path), "rb") as file:
                return file.read(most)
        return self.read_before(change, most)

    def read_after(self, change: DraftChange, most: int) -> bytes | None:
        """The new contents of a file, or the target of a link; None if it is larger, or of another kind."""
        return read_entry(self.upper, change.path, change.after, most)

    def diff(self, change: DraftChange, most_rows: int = 2_000) -> LineDiff:
        """The lines in which a file differs."""
        if change.is_directory:
            mode = f", mode {stat.S_IMODE(change.after.mode):04o}" if change.before and change.after else ""
            return LineDiff(description=f"directory {change.how}{mode}")
        old, new = self.read_base(change, MOST_COMPARED_BYTES), self.read_after(change, MOST_COMPARED_BYTES)
        if (old is None and change.before) or (new is None and change.after):
            return LineDiff(description=_describe_sizes(change))
        if change.before and change.after and old == new and change.before.type == change.after.type:
            modes = [f"{entry.mode & 0o7777:04o}" for entry in (change.before, change.after)]
            return LineDiff(description="another owner" if modes[0] == modes[1] else "mode " + " -> ".join(modes))
        line = _diff_texts(old or b"", new or b"", most_rows)
        if line is None:
            return LineDiff(description=_describe_sizes(change))
        return line if line.hunks else LineDiff(description=f"empty file {change.how}")


def diff_drafts(first: DraftDirectory, second: DraftDirectory) -> Iterator[tuple[DraftChange, LineDiff]]:
    """The files that two drafts of a workspace show with other contents, as changes from the first to the second."""
    with ChangeReader(first) as one, ChangeReader(second) as other:
        mine, theirs = ({each.path: each for each in reader.list(compare(reader.draft))} for reader in (one, other))
        for path in sorted(mine.keys() | theirs.keys()):
            left, right = mine.get(path), theirs.get(path)
            lower = next(each.before for each in (left, right) if each)
            before, after = left.after if left else lower, right.after if right else lower
            change = DraftChange(path, before, after)
            if change.is_directory:
                continue
            old = read_entry(one.upper if left else one.root, path, before, MOST_COMPARED_BYTES)
            new = read_entry(other.upper if right else other.root, path, after, MOST_COMPARED_BYTES)
            if old == new and (old is not None or (before is None and after is None)):
                continue
            yield change, _diff_texts(old or b"", new or b"", 2_000) or LineDiff(description=_describe_sizes(change))


def _diff_texts(old: bytes, new: bytes, most_rows: int) -> LineDiff | None:
    """The lines in which two texts differ; None if one is no text."""
    try:
        texts = [raw.decode("utf-8") for raw in (old, new)]
    except UnicodeDecodeError:
        return None
    if any("\0" in text[:_SAMPLE] for text in texts):
        return None
    hunks = compute_hunks(texts[0], [Splice(0, len(texts[0]), texts[1])], most_rows) if any(texts) else []
    return LineDiff(tuple(hunks), *_count(hunks))


def describe_failure(error: OSError) -> str:
    """Why a draft could not be read or kept, with the file that it is about."""
    reason = error.strerror or str(error)
    return f"{reason}: {escape(os.fsdecode(error.filename))}" if isinstance(error.filename, str | bytes) else reason


def count_changes(changes: Sequence[DraftChange]) -> dict[How, int]:
    """How many files, links and directories were created, changed and deleted."""
    counts: dict[How, int] = {"created": 0, "changed": 0, "deleted": 0}
    for change in changes:
        counts[change.how] += 1
    return counts


def _count(hunks: Sequence[Hunk]) -> tuple[int, int]:
    added = removed = 0
    for hunk in hunks:
        if hunk.left_out:
            added += hunk.left_out.new_count
            removed += hunk.left_out.old_count
        for sign, _ in hunk.rows:
            added += sign == "+"
            removed += sign == "-"
    return added, removed


def _describe_sizes(change: DraftChange) -> str:
    old, new = change.before, change.after
    kinds = sorted({entry.type for entry in (old, new) if entry})
    sizes = " -> ".join(f"{entry.size}" for entry in (old, new) if entry)
    return f"{' and '.join(kinds)} {change.how}, {sizes} bytes"


@contextlib.contextmanager
def _parent(tree: int, path: str) -> Iterator[tuple[int, str]]:
    above, _, name = path.rpartition("/")
    with opened_beneath(tree, above, DIRECTORY) as fd:
        yield fd, name


def read_entry(tree: int, path: str, entry: Entry | None, most: int) -> bytes | None:
    """The contents of a file below an open directory, or the target of a link; None if it is larger than ``most``."""
    if entry is None or entry.type not in ("file", "link") or entry.size > most:
        return None
    try:
        with _parent(tree, path) as (directory, name):
            if entry.type == "link":
                return os.fsencode(os.readlink(name, dir_fd=directory))
            status = stat_at(name, directory)
            if status is None or not stat.S_ISREG(status.st_mode):
                return None
            with open(os.open(name, _READ, dir_fd=directory), "rb") as file:
                raw = file.read(most + 1)
    except OSError:
        return None
    return raw if len(raw) <= most else None
