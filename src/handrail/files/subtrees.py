"""Files and directories that are moved or removed as they stand, with all that is in them.

A move is one rename that takes no name which is in use, so that modes, times, links and empty directories stay what
they are. A directory that is removed is renamed to a temporary name first, compared with what was kept of it, and put
back if it is not the same; only what was kept is deleted. What a kill leaves behind, the next call ends (`recover.py`).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from handrail import system_calls
from handrail.errors import (
    AlreadyExists,
    BadPath,
    Busy,
    ChangedSince,
    HardLinked,
    IoError,
    NotFound,
    NotRegular,
    PermissionDenied,
    SameFile,
    TooLargeToChange,
    WouldOverwrite,
    from_os,
)
from handrail.files.exchange import READ, keep
from handrail.files.locks import Held
from handrail.files.recovery import intents, part
from handrail.files.versions import Version, hash_bytes, read_all, version_of
from handrail.text.display import escape
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.files.commit import Change, Saving

Kind = Literal["file", "directory", "link"]
MOST_ENTRIES = 2_000
_SHOWN = 100
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a parcel."""

    inner: str
    """Its path below the parcel; empty for the parcel itself."""
    kind: Kind
    mode: int
    raw: bytes = b""
    """The contents of a file; what a link leads to."""


@dataclass(frozen=True, slots=True)
class Subtree:
    """A file, or a directory with all that is in it: each directory before what it holds."""

    path: WorkPath
    entries: tuple[Entry, ...]
    version: Version

    @property
    def is_directory(self) -> bool:
        return self.entries[0].kind == "directory"

    @property
    def size(self) -> int:
        return sum(len(entry.raw) for entry in self.entries)

    def count(self, kind: Kind) -> int:
        return sum(entry.kind == kind for entry in self.entries)

    def listing(self) -> bytes:
        """All of it by name, kind, mode and digest: two parcels with the same listing hold the same."""
        rows = (f"{one.kind} {one.mode:04o} {hash_bytes(one.raw)} {one.inner}\n" for one in self.entries)
        return os.fsencode("".join(rows))


@dataclass(slots=True)
class _Scan:
    """One look at all that a parcel holds."""

    named: str
    most_bytes: int
    split: bool
    """Whether files with several names may go."""
    size: int = 0

    def at(self, directory: int, name: str, inner: str = "") -> Iterator[Entry]:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        mode, called = stat.S_IMODE(found.st_mode), f"{self.named}/{inner}" if inner else self.named
        if stat.S_ISLNK(found.st_mode):
            yield Entry(inner, "link", mode, os.fsencode(os.readlink(name, dir_fd=directory)))
        elif stat.S_ISREG(found.st_mode):
            if found.st_nlink > 1 and not self.split:
                raise HardLinked(path=called, links=found.st_nlink)
            yield Entry(inner, "file", mode, self._read(directory, name, called))
        elif stat.S_ISDIR(found.st_mode):
            yield Entry(inner, "directory", mode)
            fd = os.open(name, _FOLDER, dir_fd=directory)
            try:
                for child in sorted(os.listdir(fd)):
                    yield from self.at(fd, child, f"{inner}/{child}" if inner else child)
            finally:
                os.close(fd)
        else:
            raise NotRegular(path=called, kind="neither a file nor a directory")

    def _read(self, directory: int, name: str, called: str) -> bytes:
        fd = os.open(name, READ, dir_fd=directory)
        try:
            raw = read_all(fd, self.most_bytes - self.size)
        finally:
            os.close(fd)
        if raw is None:
            raise TooLargeToChange(path=called, size=self.most_bytes, most=self.most_bytes)
        self.size += len(raw)
        return raw

    def all(self, directory: int, name: str) -> tuple[Entry, ...]:
        found: list[Entry] = []
        for entry in self.at(directory, name):
            found.append(entry)
            if len(found) > MOST_ENTRIES:
                facts = {"entries": len(found), "most_entries": MOST_ENTRIES}
                raise TooLargeToChange(path=self.named, size=self.size, most=self.most_bytes, **facts)
        return tuple(found)


def scan(workspace: Workspace, path: WorkPath, most_bytes: int, *, split: bool) -> Subtree:
    """All that stands at a path; raises what cannot be moved or removed exactly."""
    try:
        with workspace.parent(path) as (directory, name):
            entries = _Scan(path.named, most_bytes, split).all(directory, name)
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(path=path.named, nearest=workspace.nearest(path)) from None
    except OSError as error:
        raise from_os(error, path=path.named) from None
    return Subtree(path, entries, version_of(found))


def require_movable(workspace: Workspace, path: WorkPath) -> None:
    """A root stays where it is, and so does what holds one."""
    roots = [os.path.realpath(root.path) for root in workspace.roots]
    if any(root == path.real or root.startswith(path.real + "/") for root in roots):
        raise BadPath(path=path.named, why="it is a workspace, or holds one")


def require_free(workspace: Workspace, parcel: Subtree, target: WorkPath) -> None:
    """Nothing may stand at the target, not even a link that leads nowhere; one name in another spelling may."""
    real, source = target.real, parcel.path.real
    named = os.path.basename(target.named.rstrip("/"))
    if real == source:
        raise SameFile(path=parcel.path.named, other=target.named)
    if parcel.is_directory and real.startswith(source + "/"):
        raise BadPath(path=target.named, why="it lies inside of what is to be moved")
    if named not in ("", ".", "..") and named != os.path.basename(real):
        raise WouldOverwrite(path=target.named, kind="a link")
    found = workspace.stat(target)
    if found is None:
        return
    spelled = real.casefold() == source.casefold() and (found.st_dev, found.st_ino) == (
        parcel.version.dev,
        parcel.version.ino,
    )
    if not spelled:
        is_directory = stat.S_ISDIR(found.st_mode)
        inside = f"{target.named.rstrip('/')}/{os.path.basename(source)}" if is_directory else None
        raise WouldOverwrite(path=target.named, kind="a directory" if is_directory else "a file", inside=inside)


def same_disk(parcel: Subtree, target: WorkPath) -> bool:
    """Whether a rename can do it; raises if the parcel is a directory and none can."""
    above = os.path.dirname(target.real)
    while above != "/" and not os.path.lexists(above):
        above = os.path.dirname(above)
    same = os.stat(above).st_dev == parcel.version.dev
    if not same and parcel.is_directory:
        raise BadPath(path=target.named, why="it is on another file system, where only single files can be moved to")
    return same


def told(parcel: Subtree, named: str, to: str | None = None) -> str:
    """What a person is shown of a move or a removal."""
    head = f"rename from {escape(named)}\nrename to {escape(to)}\n" if to is not None else f"delete {escape(named)}\n"
    if not parcel.is_directory:
        return head
    counts = [
        (parcel.count("file"), "files"),
        (parcel.count("directory"), "directories"),
        (parcel.count("link"), "links"),
    ]
    sums = ", ".join(f"{count} {what}" for count, what in counts if count)
    inside = [escape(one.inner) + ("/" if one.kind == "directory" else "") for one in parcel.entries if one.inner]
    rows = [*inside[:_SHOWN], *([f"... and {len(inside) - _SHOWN} more"] if len(inside) > _SHOWN else [])]
    return f"{head}({sums}; {parcel.size} bytes)\n" + "".join(f"  {row}\n" for row in rows)


def commit_subtree(workspace: Workspace, change: Change, held: Held, saving: Saving) -> list[Version]:
    """Move or remove the one parcel; answers like `commit`."""
    try:
        if change.moved_from:
            return [_moved(workspace, change, saving)]
        return [_removed(workspace, change, held, saving)]
    except FileExistsError:
        raise AlreadyExists(path=change.path.named) from None
    except OSError as error:
        raise from_os(error, path=change.path.named) from None


def _moved(workspace: Workspace, change: Change, saving: Saving) -> Version:
    assert change.moved_from
    assert change.parcel
    source, version = change.moved_from.path, change.moved_from.version
    with (
        workspace.parent(source) as (here, old),
        workspace.parent(change.path, True, saving.durable) as (there, new),
    ):
        found = _stat(here, old)
        if found is None or (found.st_dev, found.st_ino) != (version.dev, version.ino):
            raise ChangedSince(path=source.named, moment="commit")
        standing = _stat(there, new)
        if standing and os.path.samestat(standing, found) and old.casefold() == new.casefold() and old != new:
            os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)  # one name in two spellings, where case is ignored
        else:
            _rename(here, old, there, new, change.parcel.is_directory)
        left = _stat(here, old) if old != new or not os.path.samestat(os.fstat(here), os.fstat(there)) else None
        if left and os.path.samestat(left, found) and not stat.S_ISDIR(left.st_mode) and left.st_nlink > found.st_nlink:
            os.unlink(old, dir_fd=here)  # a file system that had to make a second name
        if saving.durable:
            system_calls.sync_directory(there)
            system_calls.sync_directory(here)
        return version_of(os.stat(new, dir_fd=there, follow_symlinks=False))


def _rename(here: int, old: str, there: int, new: str, is_directory: bool) -> None:
    try:
        system_calls.rename_new(old, new, here, there)
    except PermissionError:
        # A file system that cannot rename to a free name only, and makes no second names of directories.
        if not is_directory or _stat(there, new) is not None or not os.access(".", os.W_OK, dir_fd=there):
            raise
        os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)


def _removed(workspace: Workspace, change: Change, held: Held, saving: Saving) -> Version:
    assert change.parcel
    parcel, temp = change.parcel, f".handrail-{secrets.token_hex(8)}"
    with workspace.parent(change.path) as (directory, name):
        _require_writable(directory, name, change.path)
        doing = part(directory, change.path.real, "tree", temp, name, 0, None, None)
        held.intend(intents("swaps", [doing]))
        try:
            os.rename(name, temp, src_dir_fd=directory, dst_dir_fd=directory)
            try:
                most = parcel.size
                same = _Scan(change.path.named, most, split=True).all(directory, temp) == parcel.entries
            except (TooLargeToChange, NotRegular):
                same = False
            if not same:
                raise ChangedSince(path=change.path.named, moment="commit")
            if saving.durable:
                system_calls.sync_directory(directory)
        except BaseException:
            _put_back(directory, temp, name, change.path)
            held.done()
            raise
        held.intend(intents("ready", [doing]))
        kept = _delete(directory, temp, name, parcel)
        held.done()
        if kept:
            raise Busy(path=change.path.named, why=f"another program wrote to it; what is new is kept as {kept}")
        return parcel.version


def _put_back(directory: int, temp: str, name: str, path: WorkPath) -> None:
    if _stat(directory, temp) is None:
        return
    try:
        system_calls.rename_new(temp, name, directory)
    except FileExistsError:
        kept = keep(temp, name, directory)
        raise Busy(path=path.named, why=f"another program took its name; it is kept as {kept}") from None


def _delete(directory: int, temp: str, name: str, parcel: Subtree) -> str:
    """Delete what was kept and nothing else; where something is left, it gets a name that people see."""
    for entry in reversed(parcel.entries):
        at = f"{temp}/{entry.inner}" if entry.inner else temp
        with contextlib.suppress(FileNotFoundError):
            try:
                (os.rmdir if entry.kind == "directory" else os.unlink)(at, dir_fd=directory)
            except OSError:
                if entry.kind != "directory":
                    raise IoError(path=parcel.path.named, why=f"a part of it could not be deleted: {at}") from None
    return keep(temp, name, directory) if _stat(directory, temp) else ""


def _require_writable(directory: int, name: str, path: WorkPath) -> None:
    found = _stat(directory, name)
    if found is None:
        raise ChangedSince(path=path.named, moment="commit")
    if not os.access(name, os.W_OK, dir_fd=directory, effective_ids=True):
        raise PermissionDenied(path=path.named, why="it is not writable")


def _stat(directory: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
