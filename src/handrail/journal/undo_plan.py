"""Plan an undo: compute the state that each file gets, newest call first. No I/O: hashes in, hashes out.

A file is restored only if it is as the call left it. If it already has its old state, nothing is done; if it has any
other state, somebody has changed it since, and it stays. Both ends of a move are undone together or not at all.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from handrail.frozen import frozen
from handrail.journal.queries import FileRow
from handrail.journal.records import ABSENT, DIRECTORY, LINK
from handrail.policy.paths import is_within


@frozen
class State:
    """The state of a path: the hash of its contents (or its substitute), and its mode."""

    digest: str
    mode: int | None = None

    @property
    def is_file(self) -> bool:
        return self.digest not in (ABSENT, DIRECTORY) and not self.is_link

    @property
    def is_link(self) -> bool:
        return self.digest.startswith(LINK)


@dataclass(slots=True)
class UndoPlan:
    """The planned state of each path."""

    target: dict[str, State]
    blocked: dict[str, int] = field(default_factory=dict)
    """Paths that somebody else has changed, and the call that could not be undone there."""
    origin: dict[str, str] = field(default_factory=dict)
    """Where the file lies that is to get its old name again."""
    created: set[str] = field(default_factory=set)
    """Directories that go, if nothing is left in them."""
    drifted: set[int] = field(default_factory=set)
    """Calls with a file that they left as it was, and that is another one after them."""
    whole: list[int] = field(default_factory=list)
    """Calls that are undone completely."""


def plan_undo(
    calls: Sequence[tuple[int, Sequence[FileRow]]], now: Mapping[str, State], half_undone: Container[int] = ()
) -> UndoPlan:
    """The plan for taking back ``calls``, given the latest first.

    ``half_undone``: calls whose files may be restored, and not yet the directories around them.
    """
    plan = UndoPlan(dict(now))
    for seq, files in calls:
        blocked = False
        if any(row.after == row.before and plan.target[row.path].digest != row.after for row in files):
            plan.drifted.add(seq)
        begun = seq in half_undone
        for group in _group_files(files):
            if not begun and all(is_undone(row, plan.target[row.path]) for row in group):
                continue
            # What was moved must lie where the call left it: it may have gone on to another place.
            moved_on = any(row.moved_from and plan.target[row.path].digest != row.after for row in group)
            if (moved_on and not begun) or any(row.path in plan.blocked or not _can_undo(row, plan) for row in group):
                blocked = True
                for row in group:
                    plan.blocked.setdefault(row.path, seq)
                continue
            for row in group:
                _take_back(row, plan)
        if not blocked:
            plan.whole.append(seq)
    return plan


def _group_files(files: Sequence[FileRow]) -> list[list[FileRow]]:
    """Files that must be undone together, without those that the call did not change."""
    changed = [row for row in files if has_changed(row)]
    by_path = {row.path: row for row in changed}
    sources = {row.moved_from for row in changed if row.moved_from in by_path}
    groups: list[list[FileRow]] = []
    repositories: dict[str, list[FileRow]] = {}
    for row in changed:
        above, inside, _ = row.path.partition("/.git/")
        if inside:  # objects, references and the index of a repository belong together
            if above not in repositories:
                groups.append(repositories.setdefault(above, []))
            repositories[above].append(row)
        elif row.path not in sources:
            groups.append([row, by_path[row.moved_from]] if row.moved_from in by_path else [row])
    return groups


def select_files(files: Sequence[FileRow], file: str) -> list[FileRow]:
    """The files that a call changed and that are undone together with ``file``, or what is below it; all if empty."""
    if not file:
        return list(files)
    groups = [group for group in _group_files(files) if any(is_within(file, row.path) for row in group)]
    return [row for group in groups for row in group]


def has_changed(row: FileRow) -> bool:
    """Whether a call has changed the contents or the mode of a file."""
    return row.after != row.before or _has_other_mode(row)


def _has_other_mode(row: FileRow) -> bool:
    return None not in (row.before_mode, row.after_mode) and row.before_mode != row.after_mode


def restore_mode(row: FileRow, mode: int | None) -> int | None:
    """The mode of a file whose change is taken back: the old one, unless somebody else has set it since."""
    return row.before_mode if _has_other_mode(row) and mode == row.after_mode else mode


def is_undone(row: FileRow, state: State) -> bool:
    """Whether a file is as it was before the call."""
    return state.digest == row.before and not (_has_other_mode(row) and state.mode == row.after_mode)


def _can_undo(row: FileRow, plan: UndoPlan) -> bool:
    digest = plan.target[row.path].digest
    if digest == DIRECTORY and DIRECTORY not in (row.before, row.after):
        # It goes, as far as we know: then the name is free again.
        return row.path in plan.created and row.after == ABSENT
    if row.after is None:  # not known, since the process was killed: what is not there cannot be overwritten
        return digest in (ABSENT, row.before)
    return digest in (row.after, row.before)


def _take_back(row: FileRow, plan: UndoPlan) -> None:
    state = plan.target[row.path]
    mode = state.mode
    if row.before == ABSENT:
        mode = None
        created = {*row.created_directories, row.path} if row.after == DIRECTORY else set(row.created_directories)
        plan.created |= created
        for path in created & plan.target.keys():  # before this call there was none
            if plan.target[path].digest == DIRECTORY:
                plan.target[path] = State(ABSENT)
    elif state.digest in (ABSENT, DIRECTORY):
        mode = row.before_mode
    else:
        mode = restore_mode(row, mode)
    if row.before == DIRECTORY:
        plan.created.discard(row.path)
    if row.moved_from:
        plan.origin[row.moved_from] = plan.origin.get(row.path, row.path)
    plan.target[row.path] = State(row.before, mode)
