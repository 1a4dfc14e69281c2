"""Keep a draft: rename its changes into the workspace step by step, all or nothing.

The plan is on disk before the first step. After a crash, `recover` carries out the remaining steps; after a conflict,
the finished steps are undone. A replaced entry is exchanged with the new entry, and a deleted entry is moved aside.
The draft then holds the old versions, and `undo` runs the plan backwards.

If a draft's layers are on another file system, its changes are first copied to the workspace's mount (`staging.py`)
and renamed from there.

Neither keep nor undo overwrites another program's writes. Before a file is removed, a lease makes writers wait and the
file is checked again. A directory is checked again after it was removed, and restored if anything in it has changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from handrail import system_calls
from handrail.drafts.compare import (
    ChangedOutside,
    Comparison,
    Entry,
    Step,
    compare,
    find_created_in_moved,
    find_late,
    find_late_in_moved,
    is_being_written,
    walk_tree,
)
from handrail.drafts.layout import DraftDirectory, get_start, read_clock, save_index
from handrail.drafts.moves import exchange, make_writable, remove_marks, rename, restore_directory, set_attributes
from handrail.drafts.staging import stage_changes
from handrail.system_calls import DIRECTORY, READABLE_DIRECTORY, closing_fd, open_beneath, stat_at

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_OPEN = 32
"""The most directories kept open."""
_KEPT_AT = "kept-at.json"
"""Holds the file system's time when a keep finished."""


class DraftConflict(Exception):
    """The workspace has changed at the draft's paths. Nothing was kept, and the draft still exists."""

    def __init__(self, conflicts: Sequence[ChangedOutside]) -> None:
        super().__init__("; ".join(f"{conflict.path}: {conflict.reason}" for conflict in conflicts[:5]))
        self.conflicts = tuple(conflicts)


def keep(draft: DraftDirectory, comparison: Comparison | None = None) -> list[Step]:
    """Apply the draft's changes to the workspace; return the steps.

    ``comparison``: the reviewed changes, if there are any; no others are applied then. If it raises `DraftConflict`
    (the workspace has changed at these paths) or `OSError`, nothing has changed.
    """
    comparison = comparison or compare(draft)
    if comparison.conflicts:
        raise DraftConflict(comparison.conflicts)
    steps = stage_changes(draft, comparison.steps) if draft.copies else comparison.steps
    plan = {"steps": [asdict(step) for step in steps]}
    with _Trees.open(draft) as trees:
        keeper = _Keeper(draft, trees, steps)
        try:
            draft.write_plan("keeping.json", plan, _list_new_files(draft, steps))
            keeper.carry_out(recovering=False)
        except BaseException:
            if not keeper.begun and draft.state == "keeping":
                draft.rename("keeping.json", "given-up.json")
            raise
    _drop_layers(draft)
    return steps


def _drop_layers(draft: DraftDirectory) -> None:
    with contextlib.suppress(OSError):  # the next sweep of all drafts deletes the rest
        draft.drop_layers()


def _list_new_files(draft: DraftDirectory, steps: Sequence[Step]) -> Iterator[str]:
    """The regular files to be moved into the workspace."""
    with closing_fd(os.open(draft.stage, READABLE_DIRECTORY)) as upper:
        for step in steps:
            if step.action not in ("create", "replace") or step.after is None:
                continue
            if step.after.type == "file":
                yield step.path
            elif step.after.is_directory:
                for path, status, _, _ in walk_tree(upper, step.path, step.path):
                    if status is not None and stat.S_ISREG(status.st_mode):
                        yield path


def recover(draft: DraftDirectory) -> bool:
    """Finish an interrupted keep or undo; False if there was none. Raises like `keep` and `undo`."""
    if draft.state == "keeping":
        with _Trees.open(draft) as trees:
            _Keeper(draft, trees, _read_steps(draft, "keeping.json")).carry_out(recovering=True)
        _drop_layers(draft)
    elif draft.state == "undoing":
        _run_undo(draft, read_clock(draft.path), recovering=True)
    else:
        return False
    return True


def read_kept(draft: DraftDirectory) -> list[Step]:
    """The steps of a kept draft."""
    return _read_steps(draft, "kept.json")


def read_kept_at(draft: DraftDirectory) -> int:
    """The file system's time when a keep finished."""
    time: int = draft.read(_KEPT_AT)
    return time


def find_undo_conflicts(draft: DraftDirectory) -> list[ChangedOutside]:
    """The kept entries that something else has changed since, which prevent an undo."""
    with closing_fd(draft.open_workspace()) as root:
        return list(_find_changes_since(draft, root, read_kept(draft), read_kept_at(draft)))


def undo(draft: DraftDirectory) -> list[Step]:
    """Undo a kept draft; return its steps.

    If it raises `DraftConflict` (the workspace has changed there since) or `OSError`, nothing has changed.
    """
    start = read_clock(draft.path)
    conflicts = find_undo_conflicts(draft)
    if conflicts:
        raise DraftConflict(conflicts)
    draft.rename("kept.json", "undoing.json")
    return _run_undo(draft, start)


def _run_undo(draft: DraftDirectory, start: int, *, recovering: bool = False) -> list[Step]:
    """Undo the steps. ``start``: just before the kept entries were checked; a recovery checks them again."""
    steps = _read_steps(draft, "undoing.json")
    own = [*draft.notes.read_own_periods(), (start, sys.maxsize)]  # the steps change times themselves
    with _Trees.open(draft) as trees:
        keeper = _Keeper(draft, trees, steps, _clock=start, _own=own)
        try:
            keeper.take_back_kept(recovering)
        except BaseException as error:
            draft.rename("undoing.json", "kept.json")
            if isinstance(error, OSError):  # only our own steps have changed anything
                draft.notes.add_own_period(start, read_clock(draft.path))
            raise
    draft.rename("undoing.json", "undone.json", sync=False)
    draft.notes.add_own_period(start, read_clock(draft.path))
    return steps


def _read_steps(draft: DraftDirectory, name: str) -> list[Step]:
    def entry(fields: Any) -> Entry | None:
        if not fields:
            return None
        attributes = tuple((name, value) for name, value in fields["attributes"])
        return Entry(**{**fields, "owner": tuple(fields["owner"]), "attributes": attributes})

    return [
        Step(**{**step, "before": entry(step["before"]), "after": entry(step["after"])})
        for step in draft.read(name)["steps"]
    ]


def _find_changes_since(
    draft: DraftDirectory, root: int, steps: Sequence[Step], known: int
) -> Iterator[ChangedOutside]:
    """The kept entries that something else has changed since. The undo of a later draft does not count."""
    own = draft.notes.read_own_periods()
    created = {step.path for step in steps if step.action == "create"}
    for step in steps:
        parent, _, name = step.path.rpartition("/")
        status = None
        with (
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            closing_fd(_open_directory(root, parent) if parent else os.dup(root)) as directory,
        ):
            status = stat_at(name or ".", directory)
            if step.action == "set":
                if status and _was_written(status, step):
                    yield ChangedOutside(step.path, "changed since it was kept")
                continue
            if draft.is_refreshed_index(step.path, directory, name):
                continue
            if status and step.after and _is_kept(status, step.after, own):
                if any(
                    True for _ in find_late(directory, name, step.path, status, known, own, on_overlay=draft.copies)
                ):
                    yield ChangedOutside(step.path, "changed since it was kept")
                continue
        if step.action == "set" or (step.action == "delete" and (status is None or step.path in created)):
            continue
        yield ChangedOutside(step.path, "changed since it was kept")


def _was_written(status: os.stat_result, step: Step) -> bool:
    """Whether a file matches neither the old nor the new state of a `set` step."""
    known = [(entry.mtime, entry.size) for entry in (step.before, step.after) if entry]
    return stat.S_ISREG(status.st_mode) and (status.st_mtime_ns, status.st_size) not in known


def _is_kept(status: os.stat_result, after: Entry, own: Sequence[tuple[int, int]]) -> bool:
    """Whether this is the kept entry, or a copy that the undo of a later draft restored."""
    if status.st_ino == after.inode:
        return True
    size = after.size if not after.is_directory else status.st_size
    same = (status.st_mode, status.st_size, status.st_mtime_ns) == (after.mode, size, after.mtime)
    return same and any(first <= status.st_ctime_ns < last for first, last in own)


def _open_directory(tree: int, path: str) -> int:
    """Open a directory below ``tree``; a link in its place raises `NotADirectoryError` too."""
    try:
        return open_beneath(tree, path, DIRECTORY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        raise


@dataclass(slots=True)
class _Trees:
    """Descriptors of directories in the workspace and in the draft; those opened last stay open."""

    root: int
    upper: int
    old: int
    _open: dict[tuple[int, str], int] = field(default_factory=dict)

    @classmethod
    @contextlib.contextmanager
    def open(cls, draft: DraftDirectory) -> Iterator[_Trees]:
        with contextlib.ExitStack() as stack:
            root = draft.open_workspace()
            stack.callback(os.close, root)
            upper = os.open(draft.stage, READABLE_DIRECTORY)
            stack.callback(os.close, upper)
            old = os.open(draft.old, READABLE_DIRECTORY)
            stack.callback(os.close, old)
            trees = cls(root, upper, old)
            stack.callback(trees.close)
            yield trees

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def forget(self, tree: int, path: str) -> None:
        """Close the descriptor of a directory that is about to be removed."""
        fd = self._open.pop((tree, path), None)
        if fd is not None:
            os.close(fd)

    def parent(self, tree: int, path: str) -> tuple[int, str]:
        """The parent directory of a path, and the last name in it."""
        above, _, name = path.rpartition("/")
        if not above:
            return tree, name
        fd = self._open.pop((tree, above), None)
        if fd is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            fd = _open_directory(tree, above)
        self._open[tree, above] = fd  # the last one, so that the next call closes another
        return fd, name

    def find(self, tree: int, path: str) -> tuple[str, int]:
        """The last name in a path and its parent directory, in the order of a system call's arguments."""
        directory, name = self.parent(tree, path)
        return name, directory


class _Outside:
    """Distinguishes changes outside the draft from those made by its own steps."""

    def __init__(self, draft: DraftDirectory) -> None:
        self._draft = draft
        self._resolved = draft.notes.read_resolved()
        self.moved = set[int]()
        """Inodes of files that a step has renamed. A rename changes the ctime under all hard links."""

    def is_foreign(self, step: Step, directory: int, name: str, status: os.stat_result) -> bool:
        """Whether an entry was replaced or changed outside the draft; a refreshed git index does not count."""
        if step.before is None:
            return True
        if self.is_same_link(status, step.before):
            return False
        if status.st_ino != step.before.inode:
            return True
        return (
            self._is_late(step, status)
            and not self._draft.is_refreshed_index(step.path, directory, name)
            and not self._draft.notes.is_accepted(step.path, status)
        )

    def is_same_link(self, status: os.stat_result, before: Entry) -> bool:
        """Whether an entry on an overlay is an unchanged file with several hard links.

        Overlays show hard links as separate files, yet a step on one of them changes the others' times and inodes.
        """
        now = status.st_mode, status.st_size, status.st_mtime_ns
        return self._draft.copies and before.links > 1 and now == (before.mode, before.size, before.mtime)

    def _is_late(self, step: Step, status: os.stat_result) -> bool:
        return status.st_ctime_ns >= self.get_start(step) and status.st_ino not in self.moved

    def get_start(self, step: Step) -> int:
        """The time from which a change outside the draft is a conflict."""
        return get_start(self._resolved, step.path, self._draft.info.start)


@dataclass(slots=True)
class _Keeper:
    """Carries out the steps of a plan, forwards or backwards."""

    draft: DraftDirectory
    trees: _Trees
    steps: Sequence[Step]
    begun: list[int] = field(default_factory=list)
    """Numbers of the steps that a keep has begun."""
    _further: list[ChangedOutside] = field(default_factory=list)
    """Conflicts found while steps were undone."""
    _clock: int = 0
    """When the steps began."""
    _taken: dict[int, list[str]] = field(default_factory=dict)
    """By step number, the subdirectories of the directory it removed."""
    _own: Sequence[tuple[int, int]] = ()
    """Periods in which Handrail itself changed times."""
    _outside: _Outside = field(init=False)

    def __post_init__(self) -> None:
        self._outside = _Outside(self.draft)

    def carry_out(self, recovering: bool) -> None:
        try:
            self._clock = read_clock(self.draft.path)
            for number, step in enumerate(self.steps):
                if step.action != "set":
                    self.begun.append(number)
                    if not (recovering and self._is_done(number, step)):
                        self._do(number, step)
                    if step.before:
                        self._outside.moved.add(step.before.inode)
            self._look_again(self._outside.get_start)
            for step in self.steps:
                if step.action in ("create", "replace"):
                    self._clean(step)
            for step in self.steps:
                if step.action == "set":
                    _set_attributes(self.trees, step, step.after)
            # No sync here: if a power cut loses this, recovery finds the steps already done.
            self.draft.write(_KEPT_AT, read_clock(self.draft.path), sync=False)
            save_index(self.draft.info.workspace, self.draft.path)
            self.draft.rename("keeping.json", "kept.json", sync=False)
        except BaseException as error:
            self._take_back(self.begun)
            self.draft.rename("keeping.json", "given-up.json")
            with contextlib.suppress(OSError):  # renames and mode changes give files new times, which a later keep sees
                touched = (step for step in self.steps if step.before and not step.before.is_directory)
                self.draft.notes.accept(*((step.path, step.before.version) for step in touched if step.before))
            if self._further:
                raise DraftConflict([*getattr(error, "conflicts", ()), *self._further]) from error
            raise

    def _take_back(self, numbers: Sequence[int]) -> None:
        """Undo these steps in reverse order. Entries that are no longer where the step put them are left alone."""
        for number in reversed(numbers):
            step = self.steps[number]
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if self._undo(number, step):
                    self._save_foreign_writes(number, step, step.after)
        self._restore_before()

    def take_back_kept(self, recovering: bool) -> None:
        """Undo all steps of an earlier keep.

        If it raises `DraftConflict` (another program uses a kept entry) or `OSError`, everything is kept again.
        """
        try:
            if recovering:
                self._look_at_kept()
            for number, step in reversed([*enumerate(self.steps)]):
                if step.action != "set":
                    self._undo_kept(number, step)
            self._look_again(lambda _: self._clock)
        except BaseException as error:
            self.carry_out_again()
            if self._further:
                raise DraftConflict([*getattr(error, "conflicts", ()), *self._further]) from error
            raise
        self._restore_before()

    def _look_at_kept(self) -> None:
        """Raise `DraftConflict` if an entry that an interrupted undo has yet to restore was changed."""
        left = [step for number, step in enumerate(self.steps) if not self._is_taken_back(number, step)]
        conflicts = [*_find_changes_since(self.draft, self.trees.root, left, read_kept_at(self.draft))]
        if conflicts:
            raise DraftConflict(conflicts)

    def _undo_kept(self, number: int, step: Step) -> None:
        """Undo a step, unless another program uses the entry it put into the workspace."""
        try:
            workspace, name = self.trees.parent(self.trees.root, step.path)
            here = stat_at(name, workspace)
            with contextlib.ExitStack() as held:
                if step.after and here and _is_kept(here, step.after, self._own):
                    held.enter_context(self._held(workspace, name, step, self._is_written))
                if self._undo(number, step):
                    is_late = self._is_late_taken(number, step, self._clock)
                else:
                    is_late = not self._is_taken_back(number, step)
        except (FileNotFoundError, NotADirectoryError, FileExistsError):
            is_late = True
        if is_late:
            raise DraftConflict([ChangedOutside(step.path, "changed while it was taken back")])
        if here:
            self._outside.moved.add(here.st_ino)

    def _is_taken_back(self, number: int, step: Step) -> bool:
        """Whether a step is undone, so the draft no longer holds the old version."""
        if not step.whole or step.action == "set":
            return True
        directory, name = self._find_taken(number, step)
        status = stat_at(name, directory)
        if step.action == "delete":
            return status is None
        return status is not None and step.after is not None and _is_kept(status, step.after, self._own)

    def _is_written(self, status: os.stat_result) -> bool:
        """Whether a kept entry was changed after the steps began. A rename changes the ctime under all hard links."""
        time = status.st_mtime_ns if status.st_ino in self._outside.moved else status.st_ctime_ns
        return time >= self._clock

    def _restore_before(self) -> None:
        """Restore the modes and times of directories."""
        for step in self.steps:
            if not step.whole:
                self._restore(step, step.before)
        for step in reversed(self.steps):  # deepest first in the plan, deepest last here
            if step.action == "set":
                self._restore(step, step.before)

    def carry_out_again(self) -> None:
        """Redo the steps that a failed undo has undone."""
        for number, step in enumerate(self.steps):
            if step.action != "set" and not self._is_done(number, step):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self._carry_out_step_again(number, step)
        for step in self.steps:
            if step.action in ("create", "replace"):
                restore_directory(*self.trees.find(self.trees.root, step.path), step.after)
            elif step.action == "set":
                self._restore(step, step.after)

    def _carry_out_step_again(self, number: int, step: Step) -> None:
        try:
            self._move(number, step)
        except DraftConflict as error:
            self._further += error.conflicts
        except FileExistsError:  # another program has created an entry of this name
            self._further.append(ChangedOutside(step.path, "changed while it was taken back"))
            self._save_foreign_writes(number, step, step.after)
        else:
            self._save_foreign_writes(number, step, step.before)

    def _move(self, number: int, step: Step) -> None:
        """Move the new entry into the workspace and the old entry aside, without checks."""
        workspace, name = self.trees.parent(self.trees.root, step.path)
        if not step.whole:
            self._remove_directory(workspace, name, step)
        elif step.action == "delete":
            rename(name, workspace, str(number), self.trees.old)
        elif step.action == "create":
            rename(name, self.trees.parent(self.trees.upper, step.path)[0], name, workspace)
        else:
            exchange(name, self.trees.parent(self.trees.upper, step.path)[0], workspace)

    def _restore(self, step: Step, entry: Entry | None) -> None:
        """Set mode and times where permitted; all entries are in place by now."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            _set_attributes(self.trees, step, entry)

    def _is_done(self, number: int, step: Step) -> bool:
        """Whether a step is already done."""
        if not step.whole:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                here = stat_at(*self.trees.find(self.trees.root, step.path))
                return here is None or not stat.S_ISDIR(here.st_mode)
            return True
        if step.action == "delete":
            return stat_at(str(number), self.trees.old) is not None
        here = stat_at(*self.trees.find(self.trees.root, step.path))
        return here is not None and step.after is not None and _is_kept(here, step.after, self._own)

    def _do(self, number: int, step: Step) -> None:
        workspace, name = self.trees.parent(self.trees.root, step.path)
        if step.action == "create":
            upper, _ = self.trees.parent(self.trees.upper, step.path)
            try:
                rename(name, upper, name, workspace)
            except FileExistsError:
                raise DraftConflict([ChangedOutside(step.path, "created outside the draft")]) from None
            return
        assert step.before
        if not step.whole:
            self._remove_directory(workspace, name, step)
            return
        with self._held(workspace, name, step, partial(self._outside.is_foreign, step, workspace, name)):
            self._move(number, step)
            if self._was_changed(number, step):
                raise DraftConflict([ChangedOutside(step.path, "changed while it was kept")])

    def _remove_directory(self, workspace: int, name: str, step: Step) -> None:
        """Remove a directory that is empty by now; raise `DraftConflict` if another program uses it."""
        assert step.before
        status = stat_at(name, workspace)
        if status is None or (status.st_mode | stat.S_IRWXU) != (step.before.mode | stat.S_IRWXU):
            raise DraftConflict([ChangedOutside(step.path, "changed outside the draft")])
        self.trees.forget(self.trees.root, step.path)
        try:
            with make_writable((workspace, ".")):
                os.rmdir(name, dir_fd=workspace)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.EBUSY):
                raise
            raise DraftConflict([ChangedOutside(step.path, "changed while it was kept")]) from None

    @contextlib.contextmanager
    def _held(
        self, directory: int, name: str, step: Step, is_foreign: Callable[[os.stat_result], bool]
    ) -> Iterator[None]:
        """Check an entry again and, if it is a file, hold off writers; raise `DraftConflict` if it changed."""
        status = stat_at(name, directory)
        if status is None or is_foreign(status):
            raise DraftConflict([ChangedOutside(step.path, "changed outside the draft")])
        if not stat.S_ISREG(status.st_mode):
            yield
            return
        try:
            fd = os.open(name, _READ, dir_fd=directory)
        except PermissionError:  # no other process of this user has it open either
            yield
            return
        with closing_fd(fd):
            leased = system_calls.lease(fd)
            if leased is False:
                raise DraftConflict([ChangedOutside(step.path, "another program is writing to it")])
            if is_foreign(os.fstat(fd)):
                raise DraftConflict([ChangedOutside(step.path, "changed outside the draft")])
            yield
            if leased and system_calls.lease_wanted(fd):  # a program looked it up earlier, and waits to write
                raise DraftConflict([ChangedOutside(step.path, "another program is writing to it")])

    def _was_changed(self, number: int, step: Step) -> bool:
        """Whether the entry just removed is not the entry that was checked."""
        directory, name = self._find_taken(number, step)
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        assert step.before
        if status.st_ino != step.before.inode and not self._outside.is_same_link(status, step.before):
            return True
        if not stat.S_ISDIR(status.st_mode):
            return _differs(step.before, status)
        return self._is_late_taken(number, step, self._outside.get_start(step))

    def _find_taken(self, number: int, step: Step) -> tuple[int, str]:
        """The draft directory that now holds an entry removed from the workspace, and its name there."""
        if step.action == "delete":
            return self.trees.old, str(number)
        return self.trees.parent(self.trees.upper, step.path)

    def _is_late_taken(self, number: int, step: Step, start: int) -> bool:
        """Whether anything in a removed directory was changed at ``start`` or later."""
        directory, name = self._find_taken(number, step)
        status = stat_at(name, directory)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return False
        inner = self._taken.setdefault(number, [])
        return any(True for _ in find_late_in_moved(directory, name, step.path, start, self._outside.moved, inner))

    def _look_again(self, get_start: Callable[[Step], int]) -> None:
        """Check the removed directories once more; raise `DraftConflict` if they have new entries."""
        for number, inner in self._taken.items():
            step = self.steps[number]
            directory, name = self._find_taken(number, step)
            for path in find_created_in_moved(directory, name, step.path, get_start(step), self._outside.moved, inner):
                raise DraftConflict([ChangedOutside(path, "created while it was kept")])

    def _undo(self, number: int, step: Step) -> bool:
        """Undo a step if it was carried out; return whether this removed a new entry from the workspace."""
        workspace, name = self.trees.parent(self.trees.root, step.path)
        here = stat_at(name, workspace)
        if not step.whole:
            if here is None:
                with make_writable((workspace, ".")):
                    os.mkdir(name, 0o700, dir_fd=workspace)
            return False
        if step.action == "delete":
            if here is None and stat_at(str(number), self.trees.old) is not None:
                rename(str(number), self.trees.old, name, workspace)
                restore_directory(name, workspace, step.before)
            return False
        is_kept = here is not None and step.after is not None and _is_kept(here, step.after, self._own)
        if not is_kept and not self.draft.is_refreshed_index(step.path, workspace, name):
            return False  # undone already, or another program's entry
        upper, _ = self.trees.parent(self.trees.upper, step.path)
        if step.action == "create":
            rename(name, workspace, name, upper)
        else:
            exchange(name, upper, workspace)
            restore_directory(name, workspace, step.before)
        return True

    def _save_foreign_writes(self, number: int, step: Step, entry: Entry | None) -> None:
        """Save files that another program wrote to in the workspace, under a second name there.

        ``entry``: what a step put into the workspace before it was removed.
        """
        directory, name = self._find_taken(number, step)
        status = stat_at(name, directory)
        if status is None or entry is None:
            return
        workspace, _ = self.trees.parent(self.trees.root, step.path)
        if not stat.S_ISDIR(status.st_mode):
            if _differs(entry, status) or is_being_written(status, directory, name):
                self._save(step.path, directory, name, workspace)
            return
        for path, inner, above, last in walk_tree(directory, name, step.path):
            if inner is None or not stat.S_ISREG(inner.st_mode):
                continue
            if inner.st_mtime_ns >= self._clock or is_being_written(inner, above, last):
                self._save(path, above, last, workspace)

    def _save(self, path: str, directory: int, name: str, workspace: int) -> None:
        second = f"{name}.kept-{secrets.token_hex(4)}"
        os.link(name, second, src_dir_fd=directory, dst_dir_fd=workspace, follow_symlinks=False)
        self._further.append(ChangedOutside(path, f"another program wrote to it meanwhile; its version is {second}"))

    def _clean(self, step: Step) -> None:
        """Remove overlayfs attributes from a kept entry and everything below it."""
        directory, name = self.trees.parent(self.trees.root, step.path)
        status = stat_at(name, directory)
        if status and step.after and status.st_ino == step.after.inode:
            if not self.draft.copies:
                remove_marks(f"/proc/self/fd/{directory}/{name}")
            restore_directory(name, directory, step.after)


def _differs(entry: Entry, status: os.stat_result) -> bool:
    """Whether a file or link was written to since it matched ``entry``."""
    is_directory = stat.S_ISDIR(status.st_mode)
    return not is_directory and (status.st_mtime_ns, status.st_size) != (entry.mtime, entry.size)


def _set_attributes(trees: _Trees, step: Step, entry: Entry | None) -> None:
    """Give an entry of the workspace the mode, owner, attributes and times of ``entry``."""
    assert entry
    directory, name = trees.parent(trees.root, step.path) if step.path else (trees.root, ".")
    status = stat_at(name, directory)
    if status is None or stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.mode):
        return
    if step.action == "set" and _was_written(status, step):
        return  # its times show other programs that it has changed
    if os.geteuid() not in (0, status.st_uid) and status.st_mode == entry.mode:
        return  # only its owner can set times; the steps inside it set these
    if (status.st_uid, status.st_gid) != entry.owner:
        os.chown(name, *entry.owner, dir_fd=directory, follow_symlinks=False)
    if entry.is_directory:
        if not status.st_mode & stat.S_IWUSR:  # setting attributes needs write permission, even for the owner
            os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, dir_fd=directory)
        set_attributes(f"/proc/self/fd/{directory}/{name}", dict(entry.attributes))
    if not stat.S_ISLNK(entry.mode):
        os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=directory)
    if step.times:
        os.utime(name, ns=(entry.atime, entry.mtime), dir_fd=directory, follow_symlinks=False)
