"""Commit changes to files: each file is either old or new, whatever happens.

Each file is written beside its target under a temporary name, gets the mode, owner and attributes of the old file, is
synced and read back; then one atomic rename puts it in place. A new name must be free (`RENAME_NOREPLACE`). An existing
file is *exchanged* with the temporary file (`RENAME_EXCHANGE`), and exchanged back if the change was computed from
another file. A file to be deleted first gets a temporary name. Several files are committed all or none: if one fails
the others are restored, and if the process dies, the next call restores them (`recovery.py`).

Two leases protect the exchange from programs that ignore our locks, so none of their writes is lost. The lease on the
old file lets its writers finish, and makes new writers wait. The lease on the new file makes programs wait that open
the name before the exchange is confirmed. If the exchange fails its check (the name belongs to another file now, or a
program waits for the old file), it is undone, and a program that waits for the new file gets the current contents.

A program can also be paused between looking up a name and opening the file. No lease detects this: it opens the old
file after the exchange, and its writes would vanish with that file. So `_Watched` keeps a replaced file open for a
moment. If data is appended to it, the same data is appended to the current file; any other version is saved beside it.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import hashlib
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from handrail import system_calls
from handrail.errors import AlreadyExists, Busy, ChangedSince, HardLinked, IoError, PermissionDenied, from_os
from handrail.files.locks import Doing, Held, IntentPart, Kind, make_intents, make_part
from handrail.files.subtrees import commit_subtree
from handrail.files.versions import (
    BLOCK,
    READ,
    Change,
    Saving,
    Stored,
    Subtree,
    SubtreeEntry,
    Version,
    hash_bytes,
    keep_version,
    make_version,
    put_back,
    read_all,
)
from handrail.frozen import frozen
from handrail.system_calls import closing_fd
from handrail.text.display import escape
from handrail.workspace import Workspace, make_temporary_name

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_WATCHED_FOR = 1.0
_MOST_FILES = 64
_MOST_BYTES = 64 << 20
"""A replaced file takes space on the disk for as long as it is open."""


def commit(workspace: Workspace, changes: Sequence[Change], held: Held, saving: Saving) -> list[Version]:
    """Apply all changes or none. Return the new versions, and the last version of a deleted file."""
    _watched.check()
    if changes[0].subtree:
        return commit_subtree(workspace, changes[0], held, saving)
    with contextlib.ExitStack() as stack:
        slots: list[_Slot] = []
        for change in changes:
            directory, name = stack.enter_context(workspace.parent(change.path, change.before is None, saving.durable))
            slot = (_Removal if change.after is None else _Slot)(change, saving, directory, name)
            if change.moved_from:
                slot.origin = stack.enter_context(_close_after(workspace.open_file(change.moved_from.path)))
            slots.append(slot)
        try:
            for doing, step in _STEPS:
                slot = slots[0]
                try:
                    held.intend(make_intents(doing, [slot.describe() for slot in slots]))
                    for slot in slots:
                        step(slot)
                except FileExistsError:
                    raise AlreadyExists(path=slot.named) from None
                except OSError as error:
                    raise from_os(error, path=slot.named) from None
            for slot in slots:
                if not workspace.is_parent(slot.directory, slot.change.path):  # replaced by a kept draft
                    raise ChangedSince(path=slot.named, moment="commit")
            return [slot.version() for slot in slots]
        except BaseException:
            with contextlib.suppress(OSError):  # if we die now, `recover` restores the rest
                held.intend(make_intents("swaps", [slot.describe() for slot in slots]))
            for slot in reversed(slots):
                slot.back_out()
            for slot in slots:
                if slot.kept:
                    why = f"another program wrote to it at the same time; {slot.whose} is saved as {escape(slot.kept)}"
                    raise Busy(path=slot.named, why=why) from None
            raise
        finally:
            cleaned = [slot.clean() for slot in slots]
            if all(cleaned):
                with contextlib.suppress(OSError):
                    held.done()


@contextlib.contextmanager
def _close_after(fd: int) -> Iterator[int]:
    try:
        yield fd
    finally:
        with contextlib.suppress(OSError):  # read-only: a failed close loses nothing
            os.close(fd)


class _Slot:
    """One file of a commit: a temporary name beside the real one."""

    whose = "its version"

    def __init__(self, change: Change, saving: Saving, directory: int, name: str) -> None:
        self.change = change
        self.saving = saving
        self.directory = directory
        self.name = name
        self.temp = make_temporary_name()
        self.new = change.after or b""
        self.digest = change.digest
        self.fd = -1
        self.old = -1
        self.origin = -1
        """The descriptor of the file to move here."""
        self.pair: Exchange | None = None
        self.kept = ""
        self.new_ino = 0
        self.swapped = False
        self.replaced = False
        self.in_place = False
        self.stuck = False

    @property
    def named(self) -> str:
        return self.change.path.named

    @property
    def kind(self) -> Kind:
        return "through" if self.in_place else "exchange" if self.change.before else "new"

    def describe(self) -> IntentPart:
        """Describe this file for `recover`, in case this process dies."""
        before = self.change.before
        old = before.version.digest if before else None
        real = self.change.path.real
        return make_part(self.directory, real, self.kind, self.temp, self.name, self.new_ino, old, self.digest)

    def write(self) -> None:
        """Write the new contents under the temporary name, sync them and read them back."""
        before = self.change.before
        if before:
            self._open_old(before)
            self._check_links(self.old, self.named)
        if self.in_place:
            return
        if self.origin >= 0 and self.change.moved_from:
            self._check_links(self.origin, self.change.moved_from.path.named, move=True)
        like = self.origin if self.origin >= 0 else self.old
        private = like >= 0 or self.change.mode is not None
        # A new file gets its mode from the umask; a replacement stays private until it has the old mode.
        self.fd = os.open(self.temp, _CREATE, 0o600 if private else 0o666, dir_fd=self.directory)
        self.new_ino = os.fstat(self.fd).st_ino
        self._fill(self.fd, self.new, like)
        if self.change.mode is not None:
            os.fchmod(self.fd, self.change.mode)
        if self.origin >= 0 and self.change.moved_from and self.new and self.new == self.change.moved_from.raw:
            keep_times(self.origin, self.fd)
        if self.saving.durable:
            os.fsync(self.fd)
        if not holds(self.fd, self.new):
            raise IoError(path=self.named, why="the written file does not read back the same")

    def _fill(self, fd: int, data: bytes, like: int) -> None:
        write_all(fd, data)
        if like >= 0:
            origin = self.change.moved_from
            changed = like == self.old or (origin is not None and origin.raw not in (b"", data))
            keep_metadata(like, fd, self.named, changed=changed)

    def _open_old(self, before: Stored) -> None:
        """Open the file to be replaced, and check that it is unchanged and writable."""
        self.old = os.open(self.name, READ, dir_fd=self.directory)
        status = os.fstat(self.old)
        if not stat.S_ISREG(status.st_mode) or (
            make_version(status).stamp != before.version.stamp and not holds(self.old, before.raw)
        ):
            raise ChangedSince(path=self.named, moment="commit")
        if not os.access(self.name, os.W_OK, dir_fd=self.directory, effective_ids=True):
            raise PermissionDenied(path=self.named, why="the file is not writable")

    def _check_links(self, fd: int, named: str, move: bool = False) -> None:
        links = os.fstat(fd).st_nlink
        if links > 1 and self.saving.hard_links == "refuse":
            raise HardLinked(path=named, links=links)
        self.in_place = links > 1 and self.saving.hard_links == "through" and not move

    def swap(self) -> None:
        """Put the new file in place; no other step changes the target."""
        before = self.change.before
        if self.in_place:
            self._write_through()
        elif before is None:
            system_calls.rename_new(self.temp, self.name, self.directory)
            self.swapped = True
        else:
            self._exchange(before)

    def _exchange(self, before: Stored) -> None:
        self.pair = Exchange(self.directory, self.temp, self.name, self.fd, self.old, self.new)
        if not self.pair.hold_writers_off():
            raise Busy(path=self.named, why="another program has it open for writing")
        try:
            done = self.pair.exchange_names(before.raw)
        except FileNotFoundError:
            raise ChangedSince(path=self.named, moment="commit") from None
        finally:
            self.swapped = self.pair.exchanged
        if done is False:
            raise ChangedSince(path=self.named, moment="commit")
        if done is None:  # no `RENAME_EXCHANGE` here: check and rename are separate steps
            os.rename(self.temp, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            self.replaced = True

    def _write_through(self) -> None:
        """Write a hard-linked file in place, so that all its names stay linked. A crash can leave it half written."""
        self.fd = os.open(self.name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)
        write_all(self.fd, self.new)
        os.ftruncate(self.fd, len(self.new))
        if self.saving.durable:
            os.fsync(self.fd)
        if not holds(self.fd, self.new):
            raise IoError(path=self.named, why="the written file does not read back the same")

    def settle(self) -> None:
        """Make the new name survive a power cut."""
        if self.saving.durable and not self.in_place:
            system_calls.sync_directory(self.directory)
        if self.pair and self.pair.wanted():
            raise ChangedSince(path=self.named, moment="commit")

    def back_out(self) -> None:
        """Restore the old state after a failure anywhere in the set."""
        if self.in_place and self.fd >= 0 and self.change.before:
            with contextlib.suppress(OSError):
                write_all(self.fd, self.change.before.raw)
                os.ftruncate(self.fd, len(self.change.before.raw))
        if self.replaced and self.change.before:
            with contextlib.suppress(OSError):
                self._write_again(self.change.before.raw)
        if not self.swapped:
            return
        for _ in range(2):
            try:
                if self.pair:
                    self.kept = self.pair.exchange_back()
                else:
                    self._remove_created()
            except OSError:
                continue
            self.swapped = False
            return
        self.stuck = True  # the replaced file lies under the temporary name: it must not be removed

    def _write_again(self, raw: bytes) -> None:
        """Write the old contents again: without an exchange, the old file is gone."""
        if os.stat(self.name, dir_fd=self.directory, follow_symlinks=False).st_ino != self.new_ino:
            return
        with closing_fd(os.open(self.temp, _CREATE, 0o600, dir_fd=self.directory)) as fd:
            self._fill(fd, raw, self.old)
            os.rename(self.temp, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)

    def _remove_created(self) -> None:
        """Remove a new file again, unless another program has changed it."""
        new = Exchange(self.directory, self.temp, self.name, self.fd, -1, self.new)
        if new.is_untouched(self.name):
            os.unlink(self.name, dir_fd=self.directory)
        self.fd = new.new

    def clean(self) -> bool:
        """Close and remove the temporary file; False if that is left to the next call."""
        for fd in (self.pair.new if self.pair else self.fd, self.old):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.fd = self.old = -1
        if self.in_place or self.stuck:
            return self.in_place
        if self.pair and self.pair.exchanged:
            self._watch_removed(self.pair)
        for _ in range(2):
            try:
                os.unlink(self.temp, dir_fd=self.directory)
            except FileNotFoundError:
                return True
            except OSError:
                continue
            return True
        return False

    def _watch_removed(self, pair: Exchange) -> None:
        """Watch the file left under the temporary name: the old file, or ours if the exchange was undone.

        It can also be a file that another program put under the name and has since replaced. Late writes to that file
        do not matter.
        """
        before = self.change.before
        if self.swapped and before:  # it may have grown while we read it, after its size was taken
            expected = replace(before.version, size=len(before.raw))
        else:
            removed = system_calls.stat_at(self.temp, self.directory)
            if removed is None or removed.st_ino != self.new_ino:
                return
            expected = Version(0, 0, len(pair.contents), 0, 0, hash_bytes(pair.contents))
        _watch_replaced(self.temp, self.name, self.directory, expected)

    def version(self) -> Version:
        return make_version(os.fstat(self.fd), self.digest)


class _Removal(_Slot):
    """One file to delete, under a temporary name until the commit is done."""

    whose = "the version that was to be deleted"
    watch: Exchange | None = None

    @property
    def kind(self) -> Kind:
        return "delete"

    def write(self) -> None:
        assert self.change.before
        self._open_old(self.change.before)

    def swap(self) -> None:
        before = self.change.before
        assert before
        self.watch = Exchange(self.directory, self.temp, self.name, self.old, self.old, b"")
        if not self.watch.hold_writers_off():
            raise Busy(path=self.named, why="another program has it open for writing")
        if not holds(self.old, before.raw) or not self._is_present(self.name):
            raise ChangedSince(path=self.named, moment="commit")
        self.swapped = True  # set early: the file under the temporary name is not ours to remove
        system_calls.rename_new(self.name, self.temp, self.directory)
        if not self._is_present(self.temp) or self.watch.wanted() or not holds(self.old, before.raw):
            raise ChangedSince(path=self.named, moment="commit")
        if self._is_present(self.name):  # the file system made a hard link instead
            os.unlink(self.name, dir_fd=self.directory)

    def _is_present(self, name: str) -> bool:
        """Whether ``name`` is the file to be deleted."""
        status = system_calls.stat_at(name, self.directory)
        return status is not None and os.path.samestat(status, os.fstat(self.old))

    def settle(self) -> None:
        if self.saving.durable:
            system_calls.sync_directory(self.directory)
        if self.watch and self.watch.wanted():
            raise ChangedSince(path=self.named, moment="commit")

    def back_out(self) -> None:
        for _ in range(2):
            if self.swapped:
                with contextlib.suppress(OSError):
                    self.kept = put_back(self.temp, self.name, self.directory)
                    self.swapped = False
        self.stuck = self.swapped

    def clean(self) -> bool:
        before = self.change.before
        if before and self.swapped and not self.stuck and self.change.keep and self.saving.retain:
            entry = SubtreeEntry("", "file", stat.S_IMODE(os.fstat(self.old).st_mode), before.raw)
            self.saving.retain(self.directory, self.temp, Subtree(self.change.path, (entry,), before.version))
        return super().clean()

    def version(self) -> Version:
        assert self.change.before
        return self.change.before.version


_STEPS: tuple[tuple[Doing, Callable[[_Slot], None]], ...] = (
    ("write", lambda slot: slot.write()),
    ("swaps", lambda slot: slot.swap()),
    ("ready", lambda slot: slot.settle()),
)


_WRITERS_WAIT = 2.0
_COMPARED = 1 << 17


class Exchange:
    """Exchanges a new file under a temporary name (open for writing) with the old file (open for reading)."""

    def __init__(self, directory: int, temp: str, name: str, new: int, old: int, contents: bytes) -> None:
        self._directory = directory
        self._temp = temp
        self._name = name
        self._old = old
        self.new = new
        self.contents = contents
        """The contents of the new file."""
        self.exchanged = False
        """Whether the new file has the name."""
        self._expected: tuple[int, int] | None = _number(os.fstat(new))
        self._leased = False
        self._unseen = False

    def hold_writers_off(self) -> bool:
        """Wait for writers of the old file to finish, and hold off new ones; False if that takes too long."""
        answer = _lease(self._old)
        self._leased = answer is True
        return answer is not False

    def exchange_names(self, before: bytes) -> bool | None:
        """Exchange the names. False: undo it with `exchange_back`. None: this file system cannot exchange.

        Raises `FileNotFoundError` and does nothing if the old file is gone, or does not hold ``before``.
        """
        if not holds(self._old, before) or self._identify(self._name) != _number(os.fstat(self._old)):
            raise FileNotFoundError(self._name)
        self._unseen = system_calls.lease(self.new, alone=True) is True
        if not system_calls.exchange(self._temp, self._name, self._directory):
            return None
        self.exchanged = True
        good = self._identify(self._temp) == _number(os.fstat(self._old)) and not self.wanted()
        if good and not self._leased:
            good = holds(self._old, before)
        if good and self._unseen:
            self._unseen = False
            system_calls.release(self.new)
        return good

    def wanted(self) -> bool:
        """Whether a program that looked up the old file before the exchange waits to write to it."""
        return self._leased and system_calls.lease_wanted(self._old)

    def exchange_back(self) -> str:
        """Exchange the names again. Returns the name of a saved version, if another program has changed our file."""
        for _ in range(100):
            mine = self._identify(self._temp)
            system_calls.exchange(self._temp, self._name, self._directory)
            identity = self._identify(self._temp)
            if identity == self._expected:
                break
            self._expected = mine  # another program has put its own file there: the newest, which goes back
        if self._unseen and not system_calls.lease_wanted(self.new, alone=True):
            return ""
        if self._unseen:
            self._copy_current()
        if identity != _number(os.fstat(self.new)) or self.is_untouched(self._temp):
            return ""
        return keep_version(self._temp, self._name, self._directory)

    def _copy_current(self) -> None:
        """Copy the current contents into the new file, then let the programs that wait for it open it."""
        with contextlib.suppress(OSError), closing_fd(os.open(self._name, READ, dir_fd=self._directory)) as fd:
            size = os.fstat(fd).st_size
            contents = read_all(fd, size, size)
            if contents is not None:
                write_all(self.new, contents)
                os.ftruncate(self.new, len(contents))
                self.contents = contents
        self._unseen = False
        system_calls.release(self.new)

    def is_untouched(self, name: str) -> bool:
        """Whether ``name`` is the new file with our contents: nobody replaced it, wrote to it or is about to."""
        if self._identify(name) != _number(os.fstat(self.new)):
            return False
        fd = os.open(name, READ, dir_fd=self._directory)
        os.close(self.new)  # open for writing, it would count as a writer
        self.new = fd
        return _lease(fd) is not False and holds(fd, self.contents)

    def _identify(self, name: str) -> tuple[int, int] | None:
        status = system_calls.stat_at(name, self._directory)
        return _number(status) if status else None


def _lease(fd: int) -> bool | None:
    deadline = time.monotonic() + _WRITERS_WAIT
    while (answer := system_calls.lease(fd)) is False and time.monotonic() < deadline:
        time.sleep(0.002)
    return answer


def _number(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def write_all(fd: int, data: bytes) -> None:
    view, offset = memoryview(data), 0
    while offset < len(view):
        offset += os.pwrite(fd, view[offset : offset + (BLOCK << 4)], offset)


def holds(fd: int, data: bytes) -> bool:
    """Whether the file holds exactly ``data``; read in pieces."""
    if os.fstat(fd).st_size != len(data):
        return False
    offset = 0
    while block := os.pread(fd, _COMPARED, offset):
        if not data.startswith(block, offset):  # no copy; small blocks stay in the CPU cache
            return False
        offset += len(block)
    return offset == len(data)


def keep_metadata(old: int, new: int, named: str, *, changed: bool = False) -> None:
    """Copy the owner where permitted, extended attributes and ACLs, then the mode (chown clears bits of it).

    ``changed``: the contents differ. Then set-uid and set-gid are dropped: they were granted to the old contents.
    """
    status, fresh = os.fstat(old), os.fstat(new)
    if (status.st_uid, status.st_gid) != (fresh.st_uid, fresh.st_gid):
        try:
            os.fchown(new, status.st_uid, status.st_gid)
        except PermissionError:
            with contextlib.suppress(PermissionError):
                os.fchown(new, -1, status.st_gid)
    _keep_attributes(old, new, named)
    dropped = stat.S_ISUID | stat.S_ISGID if changed else 0
    os.fchmod(new, stat.S_IMODE(status.st_mode) & ~dropped)


def keep_times(old: int, new: int) -> None:
    """Copy the access and modification times, for a move."""
    status = os.fstat(old)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))


def _keep_attributes(old: int, new: int, named: str) -> None:
    if not hasattr(os, "listxattr"):
        return
    try:
        wanted, have = os.listxattr(old), os.listxattr(new)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
            return
        raise
    for attribute in have:
        if attribute not in wanted:  # an ACL inherited from the directory
            with contextlib.suppress(OSError):
                os.removexattr(new, attribute)
    for attribute in wanted:
        try:
            os.setxattr(new, attribute, os.getxattr(old, attribute))
        except PermissionError:
            # Labels and capabilities belong to the system. A user's attribute must not be lost silently.
            if not attribute.startswith(("security.", "trusted.")):
                raise PermissionDenied(path=named, why=f"the attribute {attribute} cannot be preserved") from None


@frozen
class _Replaced:
    fd: int
    directory: int
    name: str
    version: Version
    """Its version when it was replaced."""
    replaced_at: float


class _Watched:
    """The replaced files of this process that are still open."""

    def __init__(self) -> None:
        self._files: deque[_Replaced] = deque()
        self._bytes = 0
        self._guard = threading.Lock()
        self._registered = False

    def add(self, file: _Replaced) -> None:
        with self._guard:
            self._files.append(file)
            self._bytes += file.version.size
            if not self._registered:
                self._registered = True
                atexit.register(self.check, 0.0)

    def check(self, watched_for: float = _WATCHED_FOR) -> None:
        """Rescue late writes to files replaced more than ``watched_for`` seconds ago, and close these files."""
        before = time.monotonic() - watched_for
        while file := self._take(before):
            try:
                _rescue(file)
            except OSError as error:
                _log("warning", "a late write to %s could not be rescued: %s", file.name, error)
            finally:
                os.close(file.fd)
                os.close(file.directory)

    def _take(self, before: float) -> _Replaced | None:
        with self._guard:
            if not self._files:
                return None
            crowded = len(self._files) > _MOST_FILES or self._bytes > _MOST_BYTES
            if not crowded and self._files[0].replaced_at > before:
                return None
            file = self._files.popleft()
            self._bytes -= file.version.size
            return file

    def forget(self) -> None:
        """Close the files without a check: after a fork, the parent rescues them."""
        for file in self._files:
            os.close(file.fd)
            os.close(file.directory)
        self._files, self._bytes, self._guard = deque(), 0, threading.Lock()


_watched = _Watched()
os.register_at_fork(after_in_child=_watched.forget)


def check_replaced() -> None:
    """Rescue late writes to all files this process has replaced, and stop watching them."""
    _watched.check(0.0)


def _watch_replaced(temp: str, name: str, directory: int, version: Version) -> None:
    """Watch the file under ``temp``, which is about to be removed. ``version``: its expected version."""
    with contextlib.suppress(OSError):
        fd = os.open(temp, READ, dir_fd=directory)
        try:
            file = _Replaced(fd, os.dup(directory), name, version, time.monotonic())
        except OSError:
            os.close(fd)
            raise
        _watched.add(file)


def _rescue(file: _Replaced) -> None:
    status, old = os.fstat(file.fd), file.version
    if (status.st_size, status.st_mtime_ns) == (old.size, old.mtime_ns):
        return
    if status.st_size >= old.size and _hash_start(file.fd, old.size) == old.digest:
        if status.st_size > old.size:
            _append(file, status.st_size)
        return
    _save_beside(file, status.st_size)


def _hash_start(fd: int, size: int) -> str:
    digest, offset = hashlib.sha256(), 0
    while offset < size and (block := os.pread(fd, min(BLOCK, size - offset), offset)):
        digest.update(block)
        offset += len(block)
    return digest.hexdigest()


def _append(file: _Replaced, size: int) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        target = os.open(file.name, flags, dir_fd=file.directory)
    except OSError:  # it is gone, or a link now
        _save_beside(file, size)
        return
    with closing_fd(target):
        _copy(file.fd, file.version.size, size, target)
    _log("info", "what another program appended to the old %s was appended to the new one", file.name)


def _save_beside(file: _Replaced, size: int) -> None:
    temp = make_temporary_name()
    with closing_fd(os.open(temp, _CREATE, 0o600, dir_fd=file.directory)) as target:
        _copy(file.fd, 0, size, target)
    kept = keep_version(temp, file.name, file.directory)
    _log("warning", "another program wrote to %s as it was replaced; its version is saved as %s", file.name, kept)


def _copy(source: int, start: int, end: int, target: int) -> None:
    while start < end and (block := os.pread(source, min(BLOCK, end - start), start)):
        view = memoryview(block)
        start += len(block)
        while view:
            view = view[os.write(target, view) :]


def _log(level: Literal["info", "warning"], message: str, *values: object) -> None:
    import logging  # slow to import, and rarely needed

    getattr(logging.getLogger(__name__), level)(message, *values)
