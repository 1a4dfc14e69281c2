"""Writing so that nothing is lost: every file is the old one or the new one, whatever happens.

For each file: a temporary file beside it, written, given the old one's mode, owner and attributes, synced and read
back; then one atomic rename. A new name is taken only if it is free (`RENAME_NOREPLACE`). An existing file is
*exchanged* with the temporary one (`RENAME_EXCHANGE`, see `exchange.py`): what was replaced is then in our hands, and
is put back if it is not what the change was computed from. Several files are committed all or none.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from handrail import kernel
from handrail.errors import AlreadyExists, Busy, ChangedSince, HardLinked, IoError, PermissionDenied, from_os
from handrail.files.exchange import READ, Exchange, holds, keep, write_all
from handrail.files.locks import Held, Intent
from handrail.files.stored import BLOCK, Stored, Version, digest_of, version_of
from handrail.text.shown import shown
from handrail.workspace import WorkPath, Workspace

HardLinks = Literal["refuse", "split", "through"]
_TEMP = re.compile(r"\.handrail-[0-9a-f]{16}")
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Change:
    """New contents for one file, and what they were computed from (None: there must be no such file)."""

    path: WorkPath
    before: Stored | None
    after: bytes


@dataclass(frozen=True, slots=True)
class Saving:
    """How carefully to write."""

    durable: bool = True
    hard_links: HardLinks = "refuse"


def commit(workspace: Workspace, changes: Sequence[Change], held: Held, saving: Saving) -> list[Version]:
    """Put all the changes in place, or none; returns the new versions."""
    with contextlib.ExitStack() as stack:
        slots: list[_Slot] = []
        for change in changes:
            directory, name = stack.enter_context(workspace.parent(change.path, change.before is None, saving.durable))
            slots.append(_Slot(change, saving, directory, name))
        try:
            for step in (_Slot.write, _Slot.swap, _Slot.settle):
                with slots[0].errors():
                    held.intend([slot.intent() for slot in slots])
                for slot in slots:
                    with slot.errors():
                        step(slot)
            return [slot.version() for slot in slots]
        except BaseException:
            for slot in reversed(slots):
                slot.back_out()
            for slot in slots:
                if slot.kept:
                    why = f"another program wrote to it at the same moment; its version is kept as {shown(slot.kept)}"
                    raise Busy(path=slot.named, why=why) from None
            raise
        finally:
            cleaned = [slot.clean() for slot in slots]
            if all(cleaned):
                with contextlib.suppress(OSError):
                    held.done()


class _Slot:
    """One file on its way: a temporary name beside the real one."""

    def __init__(self, change: Change, saving: Saving, directory: int, name: str) -> None:
        self.change = change
        self.saving = saving
        self.directory = directory
        self.name = name
        self.temp = f".handrail-{secrets.token_hex(8)}"
        self.fd = -1
        self.old = -1
        self.pair: Exchange | None = None
        self.kept = ""
        self.new_ino = 0
        self.swapped = False
        self.in_place = False
        self.stuck = False

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """What the system refuses is a failure of this file."""
        try:
            yield
        except FileExistsError:
            raise AlreadyExists(path=self.named) from None
        except OSError as error:
            raise from_os(error, path=self.named) from None

    @property
    def named(self) -> str:
        return self.change.path.named

    def intent(self) -> Intent:
        """What `recover` needs to know if we die on the way."""
        place = os.fstat(self.directory)
        before = self.change.before
        return {
            "directory": os.path.dirname(self.change.path.real),
            "place": [place.st_dev, place.st_ino],
            "temp": self.temp,
            "name": self.name,
            "new_ino": self.new_ino,
            "old": before.version.digest if before else None,
        }

    def write(self) -> None:
        """The new contents under the temporary name: complete, synced and read back."""
        before = self.change.before
        if before:
            self._open_old(before)
        if self.in_place:
            return
        # A new file gets the mode that the user's umask leaves; a replacement stays private until it has the old mode.
        self.fd = os.open(self.temp, _CREATE, 0o600 if before else 0o666, dir_fd=self.directory)
        self.new_ino = os.fstat(self.fd).st_ino
        write_all(self.fd, self.change.after)
        if before:
            _keep_metadata(self.old, self.fd, self.named)
        if self.saving.durable:
            os.fsync(self.fd)
        if not holds(self.fd, self.change.after):
            raise IoError(path=self.named, why="what was written does not read back the same")

    def _open_old(self, before: Stored) -> None:
        """The file to be replaced, checked again: still the one that was loaded, and ours to replace."""
        self.old = os.open(self.name, READ, dir_fd=self.directory)
        found = os.fstat(self.old)
        if not stat.S_ISREG(found.st_mode) or (
            version_of(found).stamp != before.version.stamp and not holds(self.old, before.raw)
        ):
            raise ChangedSince(path=self.named, moment="commit")
        if not os.access(self.name, os.W_OK, dir_fd=self.directory, effective_ids=True):
            raise PermissionDenied(path=self.named, why="the file is not writable")
        if found.st_nlink > 1 and self.saving.hard_links != "split":
            if self.saving.hard_links == "refuse":
                raise HardLinked(path=self.named, links=found.st_nlink)
            self.in_place = True

    def swap(self) -> None:
        """The one moment in which the file changes."""
        before = self.change.before
        if self.in_place:
            self._write_through()
        elif before is None:
            kernel.rename_new(self.temp, self.name, self.directory)
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

    def _write_through(self) -> None:
        """All names of a hard-linked file keep one content: written in place, so not safe against a kill."""
        self.fd = os.open(self.name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)
        write_all(self.fd, self.change.after)
        os.ftruncate(self.fd, len(self.change.after))
        if self.saving.durable:
            os.fsync(self.fd)
        if not holds(self.fd, self.change.after):
            raise IoError(path=self.named, why="what was written does not read back the same")

    def settle(self) -> None:
        """Make the new name survive a power cut."""
        if self.saving.durable and not self.in_place:
            kernel.sync_directory(self.directory)
        if self.pair and self.pair.wanted():
            raise ChangedSince(path=self.named, moment="commit")

    def back_out(self) -> None:
        """The old state again, after a failure anywhere in the set."""
        if self.in_place and self.fd >= 0 and self.change.before:
            with contextlib.suppress(OSError):
                write_all(self.fd, self.change.before.raw)
                os.ftruncate(self.fd, len(self.change.before.raw))
        if not self.swapped:
            return
        for _ in range(2):
            try:
                if self.pair:
                    self.kept = self.pair.back(self.change.after)
                else:
                    self._uncreate()
            except OSError:
                continue
            self.swapped = False
            return
        self.stuck = True  # the replaced file lies under the temporary name: it must not be removed

    def _uncreate(self) -> None:
        """Take a new file away again, unless somebody has made it his own."""
        new = Exchange(self.directory, self.temp, self.name, self.fd, -1)
        if new.untouched(self.name, self.change.after):
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
        return version_of(os.fstat(self.fd), digest_of(self.change.after))


def recover(intent: Intent) -> None:
    """Finish what a killed process had begun: its temporary file goes, and no stranger's write is lost."""
    with contextlib.suppress(OSError, KeyError, TypeError):  # also a record that another version of this program left
        if not _TEMP.fullmatch(intent["temp"]) or "/" in intent["name"]:
            return
        directory = os.open(intent["directory"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            found = os.fstat(directory)
            if [found.st_dev, found.st_ino] != intent["place"]:
                return
            _recover_in(directory, intent)
        finally:
            os.close(directory)


def _recover_in(directory: int, intent: Intent) -> None:
    temp, name = intent["temp"], intent["name"]
    fd = os.open(temp, READ, dir_fd=directory)
    try:
        left = os.fstat(fd)
        ours = left.st_ino == intent["new_ino"] or not intent["new_ino"]
        if not ours and intent["old"] is not None and _digest(fd) != intent["old"]:
            # Killed right after the exchange: what lies under the temporary name is a stranger's write. Put it back,
            # or, if the stranger has replaced our file by now, keep both.
            if os.stat(name, dir_fd=directory, follow_symlinks=False).st_ino != intent["new_ino"]:
                keep(temp, name, directory)
                return
            kernel.exchange(temp, name, directory)
    finally:
        os.close(fd)
    os.unlink(temp, dir_fd=directory)


def _digest(fd: int) -> str:
    import hashlib

    total, offset = hashlib.sha256(), 0
    while block := os.pread(fd, BLOCK, offset):
        total.update(block)
        offset += len(block)
    return total.hexdigest()


def _keep_metadata(old: int, new: int, named: str) -> None:
    """Owner where permitted, extended attributes and ACLs, then the mode (changing the owner clears bits of it)."""
    found, fresh = os.fstat(old), os.fstat(new)
    if (found.st_uid, found.st_gid) != (fresh.st_uid, fresh.st_gid):
        try:
            os.fchown(new, found.st_uid, found.st_gid)
        except PermissionError:
            with contextlib.suppress(PermissionError):
                os.fchown(new, -1, found.st_gid)
    _keep_attributes(old, new, named)
    os.fchmod(new, stat.S_IMODE(found.st_mode))


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
        if attribute not in wanted:  # an ACL that the directory hands to new files
            with contextlib.suppress(OSError):
                os.removexattr(new, attribute)
    for attribute in wanted:
        try:
            os.setxattr(new, attribute, os.getxattr(old, attribute))
        except PermissionError:
            # Labels and capabilities belong to the system; losing an attribute of the user's would be a silent loss.
            if not attribute.startswith(("security.", "trusted.")):
                raise PermissionDenied(path=named, why=f"the attribute {attribute} cannot be kept") from None
