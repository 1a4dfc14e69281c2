"""Commit changes: every file is the old one or the new one, whatever happens.

Each file is written beside its target under a temporary name, gets the mode, owner and attributes of the old file, is
synced and read back; then one atomic rename puts it in place. A new name must be free (`RENAME_NOREPLACE`). An existing
file is *exchanged* with the temporary one (`RENAME_EXCHANGE`, see `exchange.py`) and put back if it is not the file
that the change was computed from. A file to be deleted first gets a temporary name. Several files are committed
all or none: if one fails the others are restored, and if the process dies, the next call restores them (`recovery.py`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence

from handrail import system_calls
from handrail.errors import AlreadyExists, Busy, ChangedSince, HardLinked, IoError, PermissionDenied, from_os
from handrail.files.exchange import READ, Exchange, holds, keep, keep_metadata, keep_times, write_all
from handrail.files.locks import Doing, Held, IntentPart, Kind, intents, part
from handrail.files.subtrees import commit_subtree
from handrail.files.versions import Change, Saving, Stored, Version, hash_bytes, version_of
from handrail.text.display import escape
from handrail.workspace import Workspace

_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def commit(workspace: Workspace, changes: Sequence[Change], held: Held, saving: Saving) -> list[Version]:
    """Apply all changes or none. Return the new versions, and the last version of a deleted file."""
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
                with slots[0].errors():
                    held.intend(intents(doing, [slot.part() for slot in slots]))
                for slot in slots:
                    with slot.errors():
                        step(slot)
            return [slot.version() for slot in slots]
        except BaseException:
            with contextlib.suppress(OSError):  # if we die now, what is left goes back as well
                held.intend(intents("swaps", [slot.part() for slot in slots]))
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
        with contextlib.suppress(OSError):  # only read from: a failing close takes nothing back
            os.close(fd)


class _Slot:
    """One file of a commit: a temporary name beside the real one."""

    whose = "its version"

    def __init__(self, change: Change, saving: Saving, directory: int, name: str) -> None:
        self.change = change
        self.saving = saving
        self.directory = directory
        self.name = name
        self.temp = f".handrail-{os.urandom(8).hex()}"
        self.new = change.after or b""
        self.digest = hash_bytes(self.new)
        self.fd = -1
        self.old = -1
        self.origin = -1
        """The file that is moved here."""
        self.pair: Exchange | None = None
        self.kept = ""
        self.new_ino = 0
        self.swapped = False
        self.replaced = False
        self.in_place = False
        self.stuck = False

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of the system into failures of this file."""
        try:
            yield
        except FileExistsError:
            raise AlreadyExists(path=self.named) from None
        except OSError as error:
            raise from_os(error, path=self.named) from None

    @property
    def named(self) -> str:
        return self.change.path.named

    @property
    def kind(self) -> Kind:
        return "through" if self.in_place else "exchange" if self.change.before else "new"

    def part(self) -> IntentPart:
        """Describe this file for `recover`, in case this process dies."""
        before = self.change.before
        old = before.version.digest if before else None
        real = self.change.path.real
        return part(self.directory, real, self.kind, self.temp, self.name, self.new_ino, old, self.digest)

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
        # A new file gets the mode that the user's umask leaves; a replacement stays private until it has the old mode.
        self.fd = os.open(self.temp, _CREATE, 0o600 if like >= 0 else 0o666, dir_fd=self.directory)
        self.new_ino = os.fstat(self.fd).st_ino
        self._fill(self.fd, self.new, like)
        if self.origin >= 0 and self.change.moved_from and self.new and self.new == self.change.moved_from.raw:
            keep_times(self.origin, self.fd)
        if self.saving.durable:
            os.fsync(self.fd)
        if not holds(self.fd, self.new):
            raise IoError(path=self.named, why="the written file does not read back the same")

    def _fill(self, fd: int, data: bytes, like: int) -> None:
        write_all(fd, data)
        if like >= 0:
            keep_metadata(like, fd, self.named)

    def _open_old(self, before: Stored) -> None:
        """Open the file to be replaced, and check that it is unchanged and writable."""
        self.old = os.open(self.name, READ, dir_fd=self.directory)
        status = os.fstat(self.old)
        if not stat.S_ISREG(status.st_mode) or (
            version_of(status).stamp != before.version.stamp and not holds(self.old, before.raw)
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
        """Put the new file in place: the only moment in which the file changes."""
        before = self.change.before
        if self.in_place:
            self._write_through()
        elif before is None:
            system_calls.rename_new(self.temp, self.name, self.directory)
            self.swapped = True
        else:
            self._exchange(before)

    def _exchange(self, before: Stored) -> None:
        self.pair = Exchange(self.directory, self.temp, self.name, self.fd, self.old)
        if not self.pair.hold_writers_off():
            raise Busy(path=self.named, why="another program has it open for writing")
        try:
            done = self.pair.forth(before.raw)
        except FileNotFoundError:
            raise ChangedSince(path=self.named, moment="commit") from None
        finally:
            self.swapped = self.pair.made
        if done is False:
            raise ChangedSince(path=self.named, moment="commit")
        if done is None:  # a file system without exchange: the check and the rename are two acts here
            os.rename(self.temp, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
            self.replaced = True

    def _write_through(self) -> None:
        """All names of a hard-linked file keep one content: written in place, so not safe against a kill."""
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
        """The old state again, after a failure anywhere in the set."""
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
                    self.kept = self.pair.back(self.new)
                else:
                    self._uncreate()
            except OSError:
                continue
            self.swapped = False
            return
        self.stuck = True  # the replaced file lies under the temporary name: it must not be removed

    def _write_again(self, raw: bytes) -> None:
        """The old contents, where the file system could not exchange and so the old file is gone."""
        if os.stat(self.name, dir_fd=self.directory, follow_symlinks=False).st_ino != self.new_ino:
            return
        fd = os.open(self.temp, _CREATE, 0o600, dir_fd=self.directory)
        try:
            self._fill(fd, raw, self.old)
            os.rename(self.temp, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        finally:
            os.close(fd)

    def _uncreate(self) -> None:
        """Take a new file away again, unless somebody has made it his own."""
        new = Exchange(self.directory, self.temp, self.name, self.fd, -1)
        if new.untouched(self.name, self.new):
            os.unlink(self.name, dir_fd=self.directory)
        self.fd = new.new

    def clean(self) -> bool:
        """Close and remove the temporary file; False if that must be left to the next call."""
        for fd in (self.pair.new if self.pair else self.fd, self.old):
            if fd >= 0:
                with contextlib.suppress(OSError):
                    os.close(fd)
        self.fd = self.old = -1
        if self.in_place or self.stuck:
            return self.in_place
        for _ in range(2):
            try:
                os.unlink(self.temp, dir_fd=self.directory)
            except FileNotFoundError:
                return True
            except OSError:
                continue
            return True
        return False

    def version(self) -> Version:
        return version_of(os.fstat(self.fd), self.digest)


class _Removal(_Slot):
    """One file on its way out: under a temporary name until all is done."""

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
        self.watch = Exchange(self.directory, self.temp, self.name, self.old, self.old)
        if not self.watch.hold_writers_off():
            raise Busy(path=self.named, why="another program has it open for writing")
        if not holds(self.old, before.raw) or not self._is_present(self.name):
            raise ChangedSince(path=self.named, moment="commit")
        self.swapped = True  # before it is: what lies under the temporary name must not be removed as ours
        system_calls.rename_new(self.name, self.temp, self.directory)
        if not self._is_present(self.temp) or self.watch.wanted() or not holds(self.old, before.raw):
            raise ChangedSince(path=self.named, moment="commit")
        if self._is_present(self.name):  # a file system that had to make a second name
            os.unlink(self.name, dir_fd=self.directory)

    def _is_present(self, name: str) -> bool:
        """Whether the file that is to be deleted is found under ``name``."""
        try:
            return os.path.samestat(os.stat(name, dir_fd=self.directory, follow_symlinks=False), os.fstat(self.old))
        except FileNotFoundError:
            return False

    def settle(self) -> None:
        if self.saving.durable:
            system_calls.sync_directory(self.directory)
        if self.watch and self.watch.wanted():
            raise ChangedSince(path=self.named, moment="commit")

    def back_out(self) -> None:
        for _ in range(2):
            if self.swapped:
                with contextlib.suppress(OSError):
                    self._put_back()
                    self.swapped = False
        self.stuck = self.swapped

    def _put_back(self) -> None:
        try:
            system_calls.rename_new(self.temp, self.name, self.directory)
        except FileNotFoundError:  # it had not gone yet
            return
        except FileExistsError:  # a second name of the same file, or a stranger's
            if not self._is_present(self.name):
                self.kept = keep(self.temp, self.name, self.directory)

    def version(self) -> Version:
        assert self.change.before
        return self.change.before.version


_STEPS: tuple[tuple[Doing, Callable[[_Slot], None]], ...] = (
    ("write", lambda slot: slot.write()),
    ("swaps", lambda slot: slot.swap()),
    ("ready", lambda slot: slot.settle()),
)
