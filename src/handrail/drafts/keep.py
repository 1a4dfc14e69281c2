"""Keep a draft: rename its changes into the workspace, step by step, so that it happens whole or not at all.

The plan is on the disk before the first step. After a kill the remaining steps are carried out (`recover`); after a
conflict the finished ones are taken back. A replaced entry is exchanged with the new one and a deleted one is moved
aside, so that the draft then holds the old versions: `undo` carries the plan out backwards.

Where the layers of a draft lie on another file system, its changes are copied to the mount of the workspace first
(`staging.py`), and renamed from there.

A foreign writer is never overwritten, neither by a keep nor by an undo. Before a file is taken away, a lease makes
writers wait, and the file is looked at again; a directory is looked through again after it was taken away, and put back
if anything in it has changed.
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
"""In a plan: the old versions are copies, and other files than those that were in the workspace."""
_KEPT_AT = "kept-at.json"
"""The file system's time at which a keep was finished."""


class DraftConflict(Exception):
    """The workspace has changed where the draft did. Nothing was kept, and the draft is still there."""

    def __init__(self, conflicts: Sequence[ChangedOutside]) -> None:
        super().__init__("; ".join(f"{conflict.path}: {conflict.reason}" for conflict in conflicts[:5]))
        self.conflicts = tuple(conflicts)


def keep(draft: DraftDirectory, comparison: Comparison | None = None) -> list[Step]:
    """Carry the draft's changes over into the workspace; returns the steps.

    ``comparison``: the changes that were looked at, if somebody has; no others are carried over then. Raises
    `DraftConflict` if the workspace has changed at these places, and `OSError`; then nothing has changed.
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
    """The regular files that are carried over."""
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
    """Finish a keep or an undo that was interrupted; False if there was none. Raises as `keep` and `undo` do."""
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
    """The file system's time at which a keep was finished."""
    time: int = draft.read(_KEPT_AT)
    return time


def find_undo_conflicts(draft: DraftDirectory) -> list[ChangedOutside]:
    """The kept entries that something else has changed since: these keep a draft from being taken back."""
    with closing_fd(draft.open_workspace()) as root:
        return list(_find_changes_since(draft, root, read_kept(draft), read_kept_at(draft)))


def undo(draft: DraftDirectory) -> list[Step]:
    """Take back a kept draft; returns its steps.

    Raises `DraftConflict` if the workspace has changed there since, and `OSError`; then nothing has changed.
    """
    start = read_clock(draft.path)
    conflicts = find_undo_conflicts(draft)
    if conflicts:
        raise DraftConflict(conflicts)
    draft.rename("kept.json", "undoing.json")
    return _run_undo(draft, start)


def _run_undo(draft: DraftDirectory, start: int, *, recovering: bool = False) -> list[Step]:
    """Take the steps back. ``start``: just before all kept entries were looked at, unless this is done again here."""
    steps = _read_steps(draft, "undoing.json")
    own = [*draft.notes.read_own_periods(), (start, sys.maxsize)]  # the steps change times themselves
    with _Trees.open(draft) as trees:
        keeper = _Keeper(draft, trees, steps, _clock=start, _own=own)
        try:
            keeper.take_back_kept(recovering)
        except BaseException as error:
            draft.rename("undoing.json", "kept.json")
            if isinstance(error, OSError):  # nobody else has changed anything
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
    """The kept entries that something else has changed since. To take back a later draft is no such change."""
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
    """Whether a file is neither as before nor as after a step that sets modes and times."""
    known = [(entry.mtime, entry.size) for entry in (step.before, step.after) if entry]
    return stat.S_ISREG(status.st_mode) and (status.st_mtime_ns, status.st_size) not in known


def _is_kept(status: os.stat_result, after: Entry, own: Sequence[tuple[int, int]]) -> bool:
    """Whether an entry is the one that was kept, or a copy of it that the undo of a later draft has put back."""
    if status.st_ino == after.inode:
        return True
    size = after.size if not after.is_directory else status.st_size
    same = (status.st_mode, status.st_size, status.st_mtime_ns) == (after.mode, size, after.mtime)
    return same and any(first <= status.st_ctime_ns < last for first, last in own)


def _open_directory(tree: int, path: str) -> int:
    """Open a directory below another one; raises `NotADirectoryError` also if there is a link in its place."""
    try:
        return open_beneath(tree, path, DIRECTORY)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        raise


@dataclass(slots=True)
class _Trees:
    """Descriptors of directories in the workspace and in the draft; the ones used last stay open."""

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
        """Close the directory at a path, which is removed."""
        fd = self._open.pop((tree, path), None)
        if fd is not None:
            os.close(fd)

    def parent(self, tree: int, path: str) -> tuple[int, str]:
        """The directory of a path and the last part of it."""
        above, _, name = path.rpartition("/")
        if not above:
            return tree, name
        fd = self._open.get((tree, above))
        if fd is None:
            if len(self._open) >= _MOST_OPEN:
                os.close(self._open.pop(next(iter(self._open))))
            fd = self._open[tree, above] = _open_directory(tree, above)
        return fd, name

    def find(self, tree: int, path: str) -> tuple[str, int]:
        """The last part of a path and its directory, in the order in which system calls take them."""
        directory, name = self.parent(tree, path)
        return name, directory


class _Outside:
    """Tells changes from outside a draft from those of its own steps."""

    def __init__(self, draft: DraftDirectory) -> None:
        self._draft = draft
        self._resolved = draft.notes.read_resolved()
        self.moved = set[int]()
        """Files that a step has renamed, which gives them a new change time under all their names."""

    def is_foreign(self, step: Step, directory: int, name: str, status: os.stat_result) -> bool:
        """Whether an entry was replaced or changed outside the draft; a refreshed git index was not."""
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
        """Whether an entry of an overlay is a file with several names that nobody has changed.

        Overlays do not tell that names are of one file: a step with one of them changes the others' times and inodes.
        """
        now = status.st_mode, status.st_size, status.st_mtime_ns
        return self._draft.copies and before.links > 1 and now == (before.mode, before.size, before.mtime)

    def _is_late(self, step: Step, status: os.stat_result) -> bool:
        return status.st_ctime_ns >= self.get_start(step) and status.st_ino not in self.moved

    def get_start(self, step: Step) -> int:
        """From which time on a change outside the draft is a conflict."""
        return get_start(self._resolved, step.path, self._draft.info.start)


@dataclass(slots=True)
class _Keeper:
    draft: DraftDirectory
    trees: _Trees
    steps: Sequence[Step]
    begun: list[int] = field(default_factory=list)
    """The numbers of the steps that were begun by a keep."""
    _further: list[ChangedOutside] = field(default_factory=list)
    """Conflicts that were met while steps were taken back."""
    _clock: int = 0
    """When the steps began."""
    _taken: dict[int, list[str]] = field(default_factory=dict)
    """The directories in the directories that were taken away, by the number of the step."""
    _own: Sequence[tuple[int, int]] = ()
    """When other drafts were taken back."""
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
            # Nothing waits for the disk here: if this is lost with the power, the steps are found to be done already.
            self.draft.write(_KEPT_AT, read_clock(self.draft.path), sync=False)
            save_index(self.draft.info.workspace, self.draft.path)
            self.draft.rename("keeping.json", "kept.json", sync=False)
        except BaseException as error:
            self._take_back(self.begun)
            self.draft.rename("keeping.json", "given-up.json")
            with contextlib.suppress(OSError):  # a rename and a mode give files new times, which a later keep sees
                touched = (step for step in self.steps if step.before and not step.before.is_directory)
                self.draft.notes.accept(*((step.path, step.before.version) for step in touched if step.before))
            if self._further:
                raise DraftConflict([*getattr(error, "conflicts", ()), *self._further]) from error
            raise

    def _take_back(self, numbers: Sequence[int]) -> None:
        """Carry these steps out backwards. Entries that are not where the step put them are left as they are."""
        for number in reversed(numbers):
            step = self.steps[number]
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                if self._undo(number, step):
                    self._save_foreign_writes(number, step, step.after)
        self._restore_before()

    def take_back_kept(self, recovering: bool) -> None:
        """Carry out all steps backwards, some time after they were carried out.

        Raises `DraftConflict` if another program uses what was kept, and `OSError`; then all of it is kept again.
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
        """Raise `DraftConflict` if an entry was changed that an interrupted undo has not taken back yet."""
        left = [step for number, step in enumerate(self.steps) if not self._is_taken_back(number, step)]
        conflicts = [*_find_changes_since(self.draft, self.trees.root, left, read_kept_at(self.draft))]
        if conflicts:
            raise DraftConflict(conflicts)

    def _undo_kept(self, number: int, step: Step) -> None:
        """Take a step back, unless another program uses what it put into the workspace."""
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
        """Whether the draft no longer holds the old version of an entry, but the new one."""
        if not step.whole or step.action == "set":
            return True
        directory, name = self._find_taken(number, step)
        status = stat_at(name, directory)
        if step.action == "delete":
            return status is None
        return status is not None and step.after is not None and _is_kept(status, step.after, self._own)

    def _is_written(self, status: os.stat_result) -> bool:
        """Whether a kept entry was changed after the steps began; a step changes times under all names of a file."""
        time = status.st_mtime_ns if status.st_ino in self._outside.moved else status.st_ctime_ns
        return time >= self._clock

    def _restore_before(self) -> None:
        """Give directories their modes and times back."""
        for step in self.steps:
            if not step.whole:
                self._restore(step, step.before)
        for step in reversed(self.steps):  # the deepest come first in the plan, and are needed last here
            if step.action == "set":
                self._restore(step, step.before)

    def carry_out_again(self) -> None:
        """Carry out the steps that an undo has taken back before it failed."""
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
        """Put a new entry into the workspace and the old one aside, without a look at either."""
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
        """Set mode and times where that is allowed: all entries are in their places already."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            _set_attributes(self.trees, step, entry)

    def _is_done(self, number: int, step: Step) -> bool:
        """Whether a step was carried out already."""
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
        """Remove a directory that is empty now, if nobody else uses it."""
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
        """Look at an entry again and, if it is a file, make its writers wait; raises `DraftConflict` if it changed."""
        status = stat_at(name, directory)
        if status is None or is_foreign(status):
            raise DraftConflict([ChangedOutside(step.path, "changed outside the draft")])
        if not stat.S_ISREG(status.st_mode):
            yield
            return
        try:
            fd = os.open(name, _READ, dir_fd=directory)
        except PermissionError:  # then nobody of this user has it open either
            yield
            return
        with closing_fd(fd):
            leased = system_calls.lease(fd)
            if leased is False:
                raise DraftConflict([ChangedOutside(step.path, "another program is writing to it")])
            if is_foreign(os.fstat(fd)):
                raise DraftConflict([ChangedOutside(step.path, "changed outside the draft")])
            yield
            if leased and system_calls.lease_wanted(fd):  # a program found it just before, and waits to write to it
                raise DraftConflict([ChangedOutside(step.path, "another program is writing to it")])

    def _was_changed(self, number: int, step: Step) -> bool:
        """Whether what was just taken away is not what was looked at before."""
        directory, name = self._find_taken(number, step)
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        assert step.before
        if status.st_ino != step.before.inode and not self._outside.is_same_link(status, step.before):
            return True
        if not stat.S_ISDIR(status.st_mode):
            return _differs(step.before, status)
        return self._is_late_taken(number, step, self._outside.get_start(step))

    def _find_taken(self, number: int, step: Step) -> tuple[int, str]:
        """The directory in which an entry lies that a step has taken out of the workspace, and its name there."""
        if step.action == "delete":
            return self.trees.old, str(number)
        return self.trees.parent(self.trees.upper, step.path)

    def _is_late_taken(self, number: int, step: Step, start: int) -> bool:
        """Whether anything in a directory that was taken away was changed at ``start`` or later."""
        directory, name = self._find_taken(number, step)
        status = stat_at(name, directory)
        if status is None or not stat.S_ISDIR(status.st_mode):
            return False
        inner = self._taken.setdefault(number, [])
        return any(True for _ in find_late_in_moved(directory, name, step.path, start, self._outside.moved, inner))

    def _look_again(self, get_start: Callable[[Step], int]) -> None:
        """Look once more at the directories that were taken away; raises `DraftConflict` if there is anything new."""
        for number, inner in self._taken.items():
            step = self.steps[number]
            directory, name = self._find_taken(number, step)
            for path in find_created_in_moved(directory, name, step.path, get_start(step), self._outside.moved, inner):
                raise DraftConflict([ChangedOutside(path, "created while it was kept")])

    def _undo(self, number: int, step: Step) -> bool:
        """Take a step back, if it was carried out; returns whether it took a new entry out of the workspace."""
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
            return False  # taken back already, or somebody else's
        upper, _ = self.trees.parent(self.trees.upper, step.path)
        if step.action == "create":
            rename(name, workspace, name, upper)
        else:
            exchange(name, upper, workspace)
            restore_directory(name, workspace, step.before)
        return True

    def _save_foreign_writes(self, number: int, step: Step, entry: Entry | None) -> None:
        """Give files that another program wrote to while they were in the workspace a second name there.

        ``entry``: what a step put into the workspace, and what is taken out of it again.
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
        """Remove the marks of overlayfs from an entry that is in the workspace now, and from everything below it."""
        directory, name = self.trees.parent(self.trees.root, step.path)
        status = stat_at(name, directory)
        if status and step.after and status.st_ino == step.after.inode:
            if not self.draft.copies:
                remove_marks(f"/proc/self/fd/{directory}/{name}")
            restore_directory(name, directory, step.after)


def _differs(entry: Entry, status: os.stat_result) -> bool:
    """Whether an entry that is no directory was written to since it was ``entry``."""
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
        return  # its times tell others that it has changed
    if os.geteuid() not in (0, status.st_uid) and status.st_mode == entry.mode:
        return  # only its owner can set times; they are those of the steps in it
    if (status.st_uid, status.st_gid) != entry.owner:
        os.chown(name, *entry.owner, dir_fd=directory, follow_symlinks=False)
    if entry.is_directory:
        if not status.st_mode & stat.S_IWUSR:  # attributes need the right to write, even from the owner
            os.chmod(name, stat.S_IMODE(status.st_mode) | stat.S_IRWXU, dir_fd=directory)
        set_attributes(f"/proc/self/fd/{directory}/{name}", dict(entry.attributes))
    if not stat.S_ISLNK(entry.mode):
        os.chmod(name, stat.S_IMODE(entry.mode), dir_fd=directory)
    if step.times:
        os.utime(name, ns=(entry.atime, entry.mtime), dir_fd=directory, follow_symlinks=False)
