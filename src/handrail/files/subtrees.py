"""Move or remove a file or a directory as a whole.

A move is one rename that never replaces anything, so modes, times, links and empty directories survive. A removal first
renames the directory to a temporary name, compares it with the scanned subtree and puts it back if it differs; only
scanned entries are deleted. If the process is killed, the next call finishes the work (`recovery.py`).
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

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
from handrail.files.locks import Held, make_intents, make_part
from handrail.files.overlay_renames import rename_entry
from handrail.files.versions import (
    READ,
    Change,
    Saving,
    Subtree,
    SubtreeEntry,
    Version,
    keep_version,
    make_version,
    put_back,
    read_all,
)
from handrail.system_calls import closing_fd, stat_at
from handrail.text.display import escape
from handrail.workspace import WorkPath, Workspace, make_temporary_name

MOST_ENTRIES = 2_000
_SHOWN = 100


@dataclass(slots=True)
class _SubtreeScan:
    """Reads a subtree, within a limit of bytes."""

    named: str
    most_bytes: int
    split: bool
    """Whether files with several hard links are allowed."""
    size: int = 0

    def at(self, directory: int, name: str, inner: str = "") -> Iterator[SubtreeEntry]:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        mode, called = stat.S_IMODE(status.st_mode), f"{self.named}/{inner}" if inner else self.named
        if stat.S_ISLNK(status.st_mode):
            yield SubtreeEntry(inner, "link", mode, os.fsencode(os.readlink(name, dir_fd=directory)))
        elif stat.S_ISREG(status.st_mode):
            if status.st_nlink > 1 and not self.split:
                raise HardLinked(path=called, links=status.st_nlink)
            yield SubtreeEntry(inner, "file", mode, self._read(directory, name, called))
        elif stat.S_ISDIR(status.st_mode):
            yield SubtreeEntry(inner, "directory", mode)
            with closing_fd(os.open(name, system_calls.READABLE_DIRECTORY, dir_fd=directory)) as fd:
                for child in sorted(os.listdir(fd)):
                    yield from self.at(fd, child, f"{inner}/{child}" if inner else child)
        else:
            raise NotRegular(path=called, kind="neither a file nor a directory")

    def _read(self, directory: int, name: str, called: str) -> bytes:
        with closing_fd(os.open(name, READ, dir_fd=directory)) as fd:
            raw = read_all(fd, self.most_bytes - self.size)
        if raw is None:
            raise TooLargeToChange(path=called, size=self.most_bytes, most=self.most_bytes)
        self.size += len(raw)
        return raw

    def all(self, directory: int, name: str) -> tuple[SubtreeEntry, ...]:
        entries: list[SubtreeEntry] = []
        for entry in self.at(directory, name):
            entries.append(entry)
            if len(entries) > MOST_ENTRIES:
                raise TooLargeToChange(
                    path=self.named,
                    size=self.size,
                    most=self.most_bytes,
                    entries=len(entries),
                    most_entries=MOST_ENTRIES,
                )
        return tuple(entries)


def scan_subtree(workspace: Workspace, path: WorkPath, most_bytes: int, *, split: bool) -> Subtree:
    """Read the subtree at a path; raises if it cannot be moved or removed exactly."""
    try:
        with workspace.parent(path) as (directory, name):
            entries = _SubtreeScan(path.named, most_bytes, split).all(directory, name)
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(path=path.named, nearest=workspace.nearest(path)) from None
    except OSError as error:
        raise from_os(error, path=path.named) from None
    return Subtree(path, entries, make_version(status))


def require_movable(workspace: Workspace, path: WorkPath) -> None:
    """Raise `BadPath` for a root of the workspace and for a directory above one."""
    roots = [os.path.realpath(root.path) for root in workspace.roots]
    if any(root == path.real or root.startswith(path.real + "/") for root in roots):
        raise BadPath(path=path.named, why="it is a workspace, or contains one")


def require_free(workspace: Workspace, subtree: Subtree, target: WorkPath) -> None:
    """Raise unless the target is free. A dangling link counts as taken; another spelling of the same name does not."""
    real, source = target.real, subtree.path.real
    named = os.path.basename(target.named.rstrip("/"))
    if real == source:
        raise SameFile(path=subtree.path.named, other=target.named)
    if subtree.is_directory and real.startswith(source + "/"):
        raise BadPath(path=target.named, why="it is inside the directory to move")
    if named not in ("", ".", "..") and named != os.path.basename(real):
        raise WouldOverwrite(path=target.named, kind="a link")
    status = workspace.stat(target)
    if status is None:
        return
    same_name = real.casefold() == source.casefold() and (status.st_dev, status.st_ino) == (
        subtree.version.dev,
        subtree.version.ino,
    )
    if not same_name:
        is_directory = stat.S_ISDIR(status.st_mode)
        inside = f"{target.named.rstrip('/')}/{os.path.basename(source)}" if is_directory else None
        raise WouldOverwrite(path=target.named, kind="a directory" if is_directory else "a file", inside=inside)


def is_same_disk(subtree: Subtree, target: WorkPath) -> bool:
    """Whether a rename can move the subtree; raises `BadPath` for a directory on another file system."""
    above = os.path.dirname(target.real)
    while above != "/" and not os.path.lexists(above):
        above = os.path.dirname(above)
    same = os.stat(above).st_dev == subtree.version.dev
    if not same and subtree.is_directory:
        raise BadPath(path=target.named, why="it is on another file system; only single files can be moved there")
    return same


def describe_subtree(subtree: Subtree, named: str, to: str | None = None) -> str:
    """Describe a move or a removal to a person."""
    head = f"rename from {escape(named)}\nrename to {escape(to)}\n" if to is not None else f"delete {escape(named)}\n"
    if subtree.is_link:
        return f"{head}(a link to {escape(os.fsdecode(subtree.entries[0].raw))})\n"
    if not subtree.is_directory:
        return head
    counts = [
        (subtree.count("file"), "files"),
        (subtree.count("directory"), "directories"),
        (subtree.count("link"), "links"),
    ]
    sums = ", ".join(f"{count} {what}" for count, what in counts if count)
    inside = [escape(one.inner) + ("/" if one.kind == "directory" else "") for one in subtree.entries if one.inner]
    rows = [*inside[:_SHOWN], *([f"... and {len(inside) - _SHOWN} more"] if len(inside) > _SHOWN else [])]
    return f"{head}({sums}; {subtree.size} bytes)\n" + "".join(f"  {row}\n" for row in rows)


def commit_subtree(workspace: Workspace, change: Change, held: Held, saving: Saving) -> list[Version]:
    """Move or remove one subtree and return its version, like `commit`."""
    try:
        if change.moved_from:
            return [_move(workspace, change, saving)]
        return [_remove(workspace, change, held, saving)]
    except FileExistsError:
        raise AlreadyExists(path=change.path.named) from None
    except OSError as error:
        raise from_os(error, path=change.path.named) from None


def _move(workspace: Workspace, change: Change, saving: Saving) -> Version:
    assert change.moved_from
    assert change.subtree
    source, version = change.moved_from.path, change.moved_from.version
    with (
        workspace.parent(source) as (here, old),
        workspace.parent(change.path, True, saving.durable) as (there, new),
    ):
        status = stat_at(old, here)
        if status is None or (status.st_dev, status.st_ino) != (version.dev, version.ino):
            raise ChangedSince(path=source.named, moment="commit")
        standing = stat_at(new, there)
        if standing and os.path.samestat(standing, status) and old.casefold() == new.casefold() and old != new:
            os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)  # one name in two spellings, where case is ignored
        else:
            is_directory = change.subtree.is_directory
            rename_entry(lambda: _rename(here, old, there, new, is_directory), here, old)
        left = stat_at(old, here) if old != new or not os.path.samestat(os.fstat(here), os.fstat(there)) else None
        if (
            left
            and os.path.samestat(left, status)
            and not stat.S_ISDIR(left.st_mode)
            and left.st_nlink > status.st_nlink
        ):
            os.unlink(old, dir_fd=here)  # a file system that had to make a second name
        if not workspace.is_parent(there, change.path):  # a command has replaced it, and was kept
            _rename(there, new, here, old, change.subtree.is_directory)
            raise ChangedSince(path=change.path.named, moment="commit")
        if saving.durable:
            system_calls.sync_directory(there)
            system_calls.sync_directory(here)
        return make_version(os.stat(new, dir_fd=there, follow_symlinks=False))


def _rename(here: int, old: str, there: int, new: str, is_directory: bool) -> None:
    try:
        system_calls.rename_new(old, new, here, there)
    except PermissionError:
        # A file system that cannot rename to a free name only, and makes no second names of directories.
        if not is_directory or stat_at(new, there) is not None or not os.access(".", os.W_OK, dir_fd=there):
            raise
        os.rename(old, new, src_dir_fd=here, dst_dir_fd=there)


def _remove(workspace: Workspace, change: Change, held: Held, saving: Saving) -> Version:
    assert change.subtree
    subtree, temp = change.subtree, make_temporary_name()
    with workspace.parent(change.path) as (directory, name):
        _require_writable(directory, name, change.path)
        doing = make_part(directory, change.path.real, "tree", temp, name, 0, None, None)
        held.intend(make_intents("swaps", [doing]))
        try:
            rename = partial(os.rename, name, temp, src_dir_fd=directory, dst_dir_fd=directory)
            rename_entry(rename, directory, name)
            try:
                most = subtree.size
                same = _SubtreeScan(change.path.named, most, split=True).all(directory, temp) == subtree.entries
            except (TooLargeToChange, NotRegular):
                same = False
            if not same:
                raise ChangedSince(path=change.path.named, moment="commit")
            if saving.durable:
                system_calls.sync_directory(directory)
        except BaseException:
            kept = put_back(temp, name, directory)
            if kept:
                why = f"another program created a file with its name; it is saved as {kept}"
                raise Busy(path=change.path.named, why=why) from None
            held.done()
            raise
        held.intend(make_intents("ready", [doing]))
        retained = saving.retain is not None and saving.retain(directory, temp, subtree)
        leftover = "" if retained else _delete(directory, temp, name, subtree)
        held.done()
        if leftover:
            raise Busy(
                path=change.path.named, why=f"another program wrote to it; the new version is saved as {leftover}"
            )
        return subtree.version


def _delete(directory: int, temp: str, name: str, subtree: Subtree) -> str:
    """Delete the scanned entries and nothing else. Rename the rest to a visible name and return that name."""
    for entry in reversed(subtree.entries):
        at = f"{temp}/{entry.inner}" if entry.inner else temp
        with contextlib.suppress(FileNotFoundError):
            try:
                (os.rmdir if entry.kind == "directory" else os.unlink)(at, dir_fd=directory)
            except OSError:
                if entry.kind != "directory":
                    raise IoError(path=subtree.path.named, why=f"a part of it could not be deleted: {at}") from None
    return keep_version(temp, name, directory) if stat_at(temp, directory) else ""


def _require_writable(directory: int, name: str, path: WorkPath) -> None:
    status = stat_at(name, directory)
    if status is None:
        raise ChangedSince(path=path.named, moment="commit")
    if not stat.S_ISLNK(status.st_mode) and not os.access(name, os.W_OK, dir_fd=directory, effective_ids=True):
        raise PermissionDenied(path=path.named, why="it is not writable")
