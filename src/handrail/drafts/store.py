"""The directory in which the drafts of a user lie, one directory each, on the mount of their workspace.

Changes are kept by renaming them into the workspace, and a rename does not leave a mount. So the state directory is
used if it lies on the same mount, else a hidden directory beside the workspace or further up. Of a workspace on an
overlay, as in containers, the layers of drafts lie elsewhere (`places.py`).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile

from handrail.drafts import WORKERS
from handrail.drafts.foreign_files import copy_foreign_files, find_foreign_files
from handrail.drafts.keep import DraftConflict, recover
from handrail.drafts.late_writes import save_late_writes
from handrail.drafts.layout import (
    SHARED_INDEX,
    DraftDirectory,
    append_row,
    is_interrupted,
    read_clock,
    remove_tree,
)
from handrail.drafts.neighbours import list_places
from handrail.drafts.places import OVERLAY, find_layers_place, get_mount, make_private, read_mounts
from handrail.drafts.three_way import save_bases
from handrail.drafts.view import end_view, share_view
from handrail.programs import distrust
from handrail.system_calls import READABLE_DIRECTORY, closing_fd

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


def check_name(name: str) -> None:
    """Raise `ValueError` if a draft cannot have this name."""
    if not _NAME.fullmatch(name):
        raise ValueError("a name has letters, digits, dots, dashes and underscores, and starts with a letter or digit")


class NoDraft(OSError):
    """A workspace of which there can be no draft; the text says why."""


@dataclass(slots=True)
class OpenDraft:
    """A draft that this process works on. Nobody else touches it meanwhile, unless it is shared."""

    directory: DraftDirectory
    lock: int
    hidden: tuple[str, ...] | None = None
    """The paths of the workspace that its command does not see; None before a command has started in it."""
    is_shared: bool = False
    """Whether other processes may work in it at the same time, and nobody keeps, merges or drops it meanwhile."""
    _view: int = -1
    _work: tuple[str, int, int] | None = None
    """The program that works in the view, the process that started it, and when."""

    @property
    def name(self) -> str:
        return os.path.basename(self.directory.path)

    @property
    def is_open(self) -> bool:
        """Whether it was neither dropped nor retained."""
        return self.lock >= 0

    def drop(self) -> None:
        """Delete the draft."""
        try:
            _save_late_writes(self.directory.path)
            self.directory.drop()
        finally:
            self.close()

    def retain(self, size: int) -> None:
        """Leave a kept draft where it is, so that it can be taken back. ``size``: the bytes of what it replaced."""
        with contextlib.suppress(OSError):  # a full disk: its size counts as a megabyte then
            self.directory.write(_SIZE, size)
        with contextlib.suppress(OSError):  # nothing merges with it any more
            remove_tree(self.directory.bases)
        self.close()

    def leave(self) -> str:
        """Leave a draft that could not be kept where it is, with a name for the user; returns that name."""
        self.directory = self.directory.mark_left()
        save_bases(self.directory)
        with contextlib.suppress(OSError):  # a full disk; without it no other command can work in the draft
            self.directory.allow_mounts()
        self.close()
        return self.directory.info.name

    def begin_view(self, worker: str) -> None:
        """Let a program of this process see the draft by `enter_view`, until it leaves the view."""
        self._view = share_view(self.directory)
        if self.is_shared:
            self._work = worker, os.getpid(), read_clock(self.directory.path)
            append_row(self.directory.path + WORKERS, (*self._work, 0))

    def leave_view(self) -> None:
        """Nothing of this process works in the draft any more. May be called again."""
        if self._view >= 0:
            os.close(self._view)
            self._view = -1
            if self._work:
                with contextlib.suppress(OSError):  # a full disk
                    append_row(self.directory.path + WORKERS, (*self._work, read_clock(self.directory.path)))
            if not self.is_shared:
                end_view(self.directory)

    def close(self) -> None:
        """Leave the draft as it is."""
        self.leave_view()
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


@dataclass(slots=True)
class DraftStore:
    """The drafts of one workspace and others of the same mount."""

    path: str
    workspace: str
    budget: int = 1 << 30
    """How many bytes kept drafts may take, which are there to be taken back; less if less is free on the disk."""
    layers: str = ""
    """The directory in which the layers of drafts lie, if not in the drafts themselves."""
    _created: int = field(default=0)
    _foreign: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, state: str, workspace: str, budget: int = 1 << 30) -> DraftStore:
        """The store for a workspace; raises `NoDraft` if there can be none."""
        workspace = os.path.realpath(workspace)
        distrust(workspace)
        on_overlay = _check_mounts(workspace)
        wanted = get_mount(workspace)
        places = list_places(state, workspace)
        beside = takewhile(lambda place: get_mount(os.path.dirname(place)) == wanted, places[1:])
        for place in (places[0], *beside):
            if f"{place}/".startswith(f"{workspace.rstrip('/')}/"):
                continue  # a layer cannot lie inside of the one below it
            with contextlib.suppress(OSError):
                make_private(place)
                if get_mount(place) == wanted:
                    if place != places[0]:
                        _hide_from_git(place)
                    break
                os.rmdir(place)
        else:
            raise NoDraft(
                errno.EXDEV, "no directory beside the workspace can be written that is on the same mount", workspace
            )
        try:
            layers = find_layers_place(state, place, workspace) if on_overlay else ""
        except OSError as error:
            raise NoDraft(error.errno, error.strerror, workspace) from None
        return cls(place, workspace, budget, layers)

    @property
    def layers_directory(self) -> str:
        """The directory with a directory of layers for each draft."""
        return self.layers or self.path

    def look_at_owners(self) -> None:
        """Find the files of other users and groups, of which drafts need copies; raises `NoDraft` if that is too much.

        This takes a look at all files, and need not be done for each draft.
        """
        if os.geteuid() != 0:
            try:
                self._foreign = find_foreign_files(self.workspace)
            except OSError as error:
                raise NoDraft(error.errno, error.strerror, self.workspace) from None

    def create(self, name: str = "", *, copies_foreign: bool = True) -> OpenDraft:
        """A new draft of the workspace; raises `OSError`, and `FileExistsError` if there is one of that name.

        ``copies_foreign``: with copies of the files of other users, which a command needs.
        """
        with self._alone():
            if self._created % _SWEPT_EVERY == 0 or self._get_free_bytes() < _LITTLE_SPACE:
                self._sweep()
            self._created += 1
            if name and any(one.info.name == name for one in self.list_named()):
                raise FileExistsError(errno.EEXIST, "there is a draft of this name", name)
            key = secrets.token_hex(8)
            layers = os.path.join(self.layers, key) if self.layers else ""
            directory = DraftDirectory.create(os.path.join(self.path, key), self.workspace, name, layers)
            try:
                if self._foreign and copies_foreign:
                    copy_foreign_files(directory, self._foreign)
                return OpenDraft(directory, _lock(directory.path))
            except BaseException:
                directory.drop()
                raise

    def list_named(self) -> list[DraftDirectory]:
        """The open drafts of this workspace that have a name, the oldest first."""
        drafts: list[DraftDirectory] = []
        for entry in os.listdir(self.path):
            with contextlib.suppress(OSError, ValueError, TypeError):
                draft = DraftDirectory.open(os.path.join(self.path, entry))
                is_mine = draft.info.workspace == self.workspace and draft.state == "open"
                if draft.info.name and is_mine and os.path.isdir(draft.upper):  # layers in memory end with the system
                    drafts.append(draft)
        return sorted(drafts, key=lambda draft: draft.info.start)

    def open_named(self, name: str, *, shared: bool = False) -> OpenDraft:
        """The draft of a name, for this process alone, or ``shared`` with others that work in it.

        Raises `FileNotFoundError` if there is none, and `BlockingIOError` if somebody else has it.
        """
        for draft in self.list_named():
            if draft.info.name == name:
                opened = OpenDraft(draft, _lock(draft.path, name, shared=shared), is_shared=shared)
                if not shared:
                    end_view(draft)
                return opened
        raise FileNotFoundError(errno.ENOENT, "there is no draft of this name", name)

    def _sweep(self) -> None:
        """Finish the drafts that a killed process has left, and delete those that nobody can use any more."""
        kept: list[tuple[int, str]] = []
        left: list[tuple[int, str]] = []
        for name in os.listdir(self.path):
            path = os.path.join(self.path, name)
            is_without_draft = name.endswith(WORKERS) and not os.path.lexists(path.removesuffix(WORKERS))
            if is_without_draft or name.startswith(SHARED_INDEX):
                os.unlink(path)
            if name == _LOCK or not os.path.isdir(path):
                continue
            with contextlib.suppress(BlockingIOError), lock_draft(path):
                draft = _recover(path)
                if draft and draft.state == "kept":
                    kept.append((draft.info.start, path))
                elif draft and draft.info.left:
                    left.append((draft.info.start, path))
                elif not is_interrupted(path) and not (draft and draft.info.name and draft.state == "open"):
                    remove_tree(path)
        for name in os.listdir(self.layers) if self.layers else ():
            if not os.path.lexists(os.path.join(self.path, name)):
                remove_tree(os.path.join(self.layers, name))
        room = min(self.budget, self._get_free_bytes())
        for number, (_, path) in enumerate(sorted(kept, reverse=True)):
            room -= _read_size(path)
            if room < 0 or number >= _MOST_KEPT:
                with contextlib.suppress(BlockingIOError), lock_draft(path):
                    _save_late_writes(path)
                    remove_tree(path)
        for _, path in sorted(left, reverse=True)[_MOST_LEFT:]:
            with contextlib.suppress(BlockingIOError), lock_draft(path):
                remove_tree(path)

    def _get_free_bytes(self) -> int:
        """How much can be written to the disk of the workspace."""
        status = os.statvfs(self.path)
        return status.f_bavail * status.f_frsize

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with closing_fd(os.open(os.path.join(self.path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield


_LOCK = "lock"
_SIZE = "size.json"
_SWEPT_EVERY = 50
_LITTLE_SPACE = 64 << 20
"""Free bytes below which kept drafts are looked at before each new one: they may hold what was deleted to make room."""
_MOST_KEPT = 500
_MOST_LEFT = 20


@contextlib.contextmanager
def lock_draft(path: str) -> Iterator[None]:
    """Keep others off a draft; raises `BlockingIOError` if somebody works on it."""
    with closing_fd(_lock(path)):
        yield


def _recover(path: str) -> DraftDirectory | None:
    """The draft at ``path``, finished if it was interrupted; None if it cannot be used."""
    try:
        draft = DraftDirectory.open(path)
        recover(draft)
    except (OSError, ValueError, TypeError, DraftConflict):
        return None
    return draft


def _save_late_writes(path: str) -> None:
    """Bring what others wrote into a kept draft to the workspace, if that is still there."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        draft = DraftDirectory.open(path)
        if draft.state == "kept":
            save_late_writes(draft)


def _read_size(path: str) -> int:
    """Size of a kept draft; one that was finished after a kill counts as a whole megabyte."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(path, _SIZE), "rb") as file:
        return int(file.read(64))
    return 1 << 20


def _lock(path: str, name: str = "", *, shared: bool = False) -> int:
    """A descriptor that keeps others off a draft; raises `BlockingIOError` if somebody works on it.

    ``shared``: other processes may have it in the same way.
    """
    fd = os.open(path, READABLE_DIRECTORY)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise BlockingIOError(errno.EWOULDBLOCK, "another process works in this draft", name or path) from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _hide_from_git(path: str) -> None:
    """Have git ignore the directory, which may lie in the repository of a larger project."""
    with contextlib.suppress(FileExistsError), open(os.path.join(path, ".gitignore"), "x", encoding="ascii") as file:
        file.write("*\n")


def _check_mounts(workspace: str) -> bool:
    """Whether a workspace lies on an overlay; raises `NoDraft` for one with mounts inside it."""
    if workspace == "/":
        raise NoDraft(errno.EINVAL, "the workspace is the root directory", workspace)
    try:
        mount = get_mount(workspace)
        mounts = read_mounts()
    except OSError as error:
        raise NoDraft(error.errno, f"the mounts of this machine cannot be read: {error.strerror}", workspace) from None
    for one in mounts:
        if one.point.startswith(workspace + "/"):
            raise NoDraft(errno.EBUSY, f"there is a mount inside the workspace: {one.point}", workspace)
    return any(one.number == mount and one.kind == OVERLAY for one in mounts)
