"""Protected files inside the workspace: find them, and put back what a command changed although nobody approved it.

A boundary that mounts makes the files that exist read-only. A name that does not exist cannot be mounted on without
creating it, and Landlock cannot take a part out of a writable tree at all. So protected files are compared after the
command: created ones are moved out of the tree, changed and deleted ones are restored.

This serves commands that work on the workspace itself: background jobs, and all commands where there are no drafts. In
repositories, settings that run no program and sample hooks pass.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from handrail.files.directory_index import DirectoryIndex, Entry
from handrail.shell.sandbox.confinement import Protection, is_git_settings, is_inside
from handrail.shell.sandbox.git_internals import are_harmless_settings
from handrail.shell.sandbox.installation import Installation, find_installation
from handrail.system_calls import DIRECTORY, copy_contents, open_beneath
from handrail.workspace import is_temporary_name

MOST_MOUNTED = 100
"""Protected paths that get a mount of their own, which costs time at every start; the others are compared."""
_MOST_FILES = 500
_MOST_BYTES = 1 << 20
_TICK = 100_000_000
_FRESH_SECONDS = 0.2
_PASSED_OVER = frozenset({"node_modules", "site-packages", "__pycache__", ".svn"})
_GIT_FILES = ("config", "config.worktree", "commondir", "info/attributes")
_HG_FILES = ("hgrc", "hgrc-not-shared")
_NOISE = frozenset({"workspace.xml", "shelf", "usage.statistics.xml", "tasks.xml"})
"""Files in `.idea` that an editor writes by itself all the time."""
Change = Literal["created", "changed", "deleted"]


@dataclass(frozen=True, slots=True)
class PutBack:
    """A protected file that a command changed, and that is as before now."""

    path: str
    change: Change
    kept: str = ""
    """Where the new contents are; empty if there are none."""
    failed: str = ""
    """Why it could not be put back."""


@dataclass(frozen=True, slots=True)
class _Saved:
    """A protected file or link as it was."""

    stamp: tuple[int, ...]
    mode: int
    raw: bytes | None
    """None if it is too large, or cannot be read."""


@dataclass(slots=True)
class Snapshot:
    """The protected files of a workspace at one moment."""

    files: dict[str, _Saved] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    """Directories that belong to what is protected."""
    mountable: dict[str, bool] = field(default_factory=dict)
    """Paths that a boundary can make read-only, and whether git runs programs by them."""
    own: bool = False
    """Whether Handrail's own installation is among them."""

    def mounted(self, protection: Protection) -> list[str]:
        """The paths that get a mount."""
        if protection == "nothing":
            return []
        chosen = [path for path, is_git in self.mountable.items() if is_git or protection == "everything"]
        if protection == "hooks":
            chosen = [path for path in chosen if not is_git_settings(path)]
        return sorted(chosen, key=lambda path: (not self.mountable[path], path.count("/")))[:MOST_MOUNTED]


@dataclass(frozen=True, slots=True)
class _Listing:
    protected: tuple[str, ...]
    git: bool
    """Whether this directory is itself a repository without a work tree."""


class ProtectedFiles:
    """Finds the protected files below the roots of a workspace."""

    def __init__(
        self,
        roots: Sequence[str],
        protects: Callable[[str], bool] | None,
        also: Sequence[str] = (),
    ) -> None:
        """``protects``: whether policy protects a path. ``also``: further paths, wherever they are."""
        self.installation = find_installation(tuple(roots)) if protects else Installation()
        self._roots = [os.path.realpath(root) for root in roots]
        self._protects = protects or (lambda _: False)
        self._also = [path.rstrip("/") for path in also]
        self._index = DirectoryIndex(self._roots, self._read)
        self._saved: dict[str, _Saved] = {}
        self._latest = Snapshot()
        self._looked = 0.0

    @property
    def searched_all(self) -> bool:
        """Whether the last search reached all directories."""
        return self._index.complete

    def existing(self, protection: Protection) -> list[str]:
        """The protected paths that exist, for a boundary to mount; those that were just found are not sought again."""
        own = protection == "everything"
        fresh = time.monotonic() - self._looked < _FRESH_SECONDS and self._latest.own >= own
        return (self._latest if fresh else self.find(own)).mounted(protection)

    def is_protected(self, path: str) -> bool:
        """Whether a path is protected, or lies below one that is."""
        return self._is_named(path) or any(is_inside(path, other) for other in self._also)

    def _is_named(self, path: str) -> bool:
        """Whether policy protects a path, and it is nothing that another session is just writing or deleting."""
        return self._protects(path) and not any(map(is_temporary_name, path.split("/")))

    def find(self, own: bool = False) -> Snapshot:
        """The protected files as they are now. ``own``: with Handrail's own installation, for work outside a draft."""
        snapshot = Snapshot(own=own)
        for here, listing in self._index.update().items():
            if listing.git:
                self._add_repository(here, snapshot)
            for name in listing.protected:
                self._add(os.path.join(here, name), snapshot)
        for path in self._also:
            if os.path.lexists(path) and any(is_inside(path, root) for root in self._roots):
                self._add(path, snapshot)
        for path in self.installation.list_existing() if own else ():
            self._add_own(path, snapshot)
        self._saved = snapshot.files  # nothing of directories that are gone
        self._latest, self._looked = snapshot, time.monotonic()
        return snapshot

    def _read(self, directory: str, entries: list[Entry]) -> tuple[_Listing | None, list[str]]:
        """The protected entries of a directory, and the directories to go on with."""
        protected = tuple(
            name for name, _, is_link in entries if self._is_protected(os.path.join(directory, name), is_link)
        )
        folders = [name for name, is_folder, _ in entries if is_folder and name not in (*_PASSED_OVER, *protected)]
        names = {name for name, _, _ in entries}
        # With `commondir`, objects and references are elsewhere.
        is_git = "HEAD" in names and ({"objects", "refs"} <= names or "commondir" in names)
        return _Listing(protected, is_git) if protected or is_git else None, folders

    def _is_protected(self, path: str, is_link: bool) -> bool:
        if self._is_named(path):
            return True
        if not is_link or not os.path.isdir(path):
            return False
        with contextlib.suppress(OSError), os.scandir(path) as below:  # a link that stands for such a directory
            return any(self._is_named(os.path.join(path, one.name)) for one, _ in zip(below, range(1000), strict=False))
        return False

    def _add(self, path: str, snapshot: Snapshot) -> None:
        name = os.path.basename(path).lower()
        try:
            mode = os.lstat(path).st_mode
        except OSError:
            return
        if not stat.S_ISDIR(mode):
            self._save(path, snapshot)
            if not stat.S_ISLNK(mode):
                snapshot.mountable.setdefault(path, name == ".git")
        elif name == ".git":
            self._add_repository(path, snapshot)
        elif name == ".hg":
            for inner in (os.path.join(path, one) for one in _HG_FILES):
                if os.path.lexists(inner):
                    self._add(inner, snapshot)
        elif name not in _PASSED_OVER:
            snapshot.mountable[path] = False
            self._add_tree(path, snapshot)

    def _add_own(self, top: str, snapshot: Snapshot) -> None:
        """A part of Handrail's installation. The contents of other packages are too much to be kept."""
        if os.path.islink(top) or not os.path.isdir(top):
            self._save(top, snapshot)
        for here, _, files in os.walk(top):
            for name in files:
                self._save(os.path.join(here, name), snapshot, contents=os.path.basename(top).startswith("handrail"))
        if not os.path.islink(top):
            snapshot.mountable.setdefault(top, False)

    def _add_tree(self, top: str, snapshot: Snapshot) -> None:
        count = 0
        for here, folders, files in os.walk(top):
            snapshot.folders.add(here)
            folders[:] = [name for name in folders if name not in _PASSED_OVER | _NOISE]
            links = [name for name in folders if os.path.islink(os.path.join(here, name))]
            for name in (*files, *links):
                count += 1
                if name not in _NOISE and count <= _MOST_FILES:
                    self._save(os.path.join(here, name), snapshot)

    def _add_repository(self, top: str, snapshot: Snapshot) -> None:
        """The files by which git runs programs, of a repository, its submodules and its further work trees."""
        snapshot.folders.add(top)
        for path in (os.path.join(top, name) for name in _GIT_FILES):
            if os.path.lexists(path):
                self._save(path, snapshot)
                snapshot.mountable[path] = True
        hooks = os.path.join(top, "hooks")
        if os.path.islink(hooks):
            self._save(hooks, snapshot)
        elif os.path.isdir(hooks):
            snapshot.mountable[hooks] = True
            self._add_tree(hooks, snapshot)
        for below in ("modules", "worktrees"):
            for inner in _find_repositories(os.path.join(top, below)):
                self._add_repository(inner, snapshot)

    def _save(self, path: str, snapshot: Snapshot, contents: bool = True) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        stamp = (status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        known = self._saved.get(path)
        if known and known.stamp == stamp and time.time_ns() - status.st_ctime_ns > _TICK:
            snapshot.files[path] = known
            return
        raw = _read_contents(path, status.st_mode, status.st_size) if contents else None
        snapshot.files[path] = _Saved(stamp, status.st_mode, raw)

    # After the command

    def renew(self, before: Snapshot, paths: Sequence[str]) -> None:
        """Take some files of a snapshot as they are now."""
        now = self.find(before.own)
        for path in paths:
            before.files.pop(path, None)
            if path in now.files:
                before.files[path] = now.files[path]
        before.folders |= {path for path in now.folders if any(is_inside(one, path) for one in paths)}

    def put_back(self, before: Snapshot, mounted: Sequence[str], keep: Callable[[str], str]) -> list[PutBack]:
        """Undo what a command did to protected files.

        ``mounted``: what was read-only for it, so that others have changed that. ``keep``: a place for a file that is
        taken out of the tree, by its name.
        """
        now = self.find(before.own)
        done: list[PutBack] = []
        created = sorted(now.files.keys() - before.files.keys(), reverse=True)
        done += [
            self._remove(path, before, keep)
            for path in created
            if not any(is_inside(path, top) for top in mounted) and not self._passes(path, None, now.files[path])
        ]
        folders = [path for path in now.folders - before.folders if not _find_repository(path)]
        done += [PutBack(path, "created") for path in sorted(folders, reverse=True) if _remove_empty(path)]
        for path, old in before.files.items():
            new = now.files.get(path)
            if new is not None and new.stamp == old.stamp:
                continue
            if new is not None and new.raw is not None and (new.raw, new.mode) == (old.raw, old.mode):
                continue
            if any(is_inside(path, top) for top in mounted) or self._passes(path, old, new):
                continue
            done.append(self._restore(path, old, new, keep))
        return done

    def _passes(self, path: str, old: _Saved | None, new: _Saved | None) -> bool:
        """Whether a change is git's ordinary work."""
        if new is None and not os.path.isdir(self._find_ordinary_parent(path)):
            return True  # the directory around it is gone as a whole
        repository = _find_repository(path)
        if not repository:
            return False
        # Git deletes such files only with the whole repository.
        return path.endswith(".sample") if new is None else self._is_harmless(path, repository, old, new)

    def _find_ordinary_parent(self, path: str) -> str:
        """The directory that contains a protected file, or the protected directory that the file is part of."""
        above = os.path.dirname(path)
        repository = _find_repository(path)
        if repository and os.path.basename(path).lower() != ".git":
            return repository
        while os.path.basename(above).startswith(".") or self.is_protected(above):
            above = os.path.dirname(above)
        return above

    def _is_harmless(self, path: str, repository: str, old: _Saved | None, new: _Saved) -> bool:
        name = os.path.relpath(path, repository)
        if new.raw is None or stat.S_ISLNK(new.mode):
            return False
        if name == ".":  # a file `.git`, which names the repository
            place = os.fsdecode(new.raw).removeprefix("gitdir:").strip()
            real = os.path.realpath(os.path.join(os.path.dirname(path), place))
            return any(is_inside(real, os.path.join(root, ".git")) for root in self._roots)
        if name.startswith("hooks/"):
            return name.endswith(".sample")
        if name == "commondir":
            return "/worktrees/" in repository and new.raw.strip() == b"../.."
        if name in ("config", "config.worktree"):
            return are_harmless_settings(old.raw if old and old.raw else b"", new.raw)
        return False

    def _remove(self, path: str, before: Snapshot, keep: Callable[[str], str]) -> PutBack:
        try:
            place = self._move_link_above(path, keep) or keep(os.path.basename(path))
            if os.path.lexists(path):
                with self._open_parent(path) as parent:
                    _move_out(path, parent, place)
            above = os.path.dirname(path)
            while above not in before.folders and above not in self._roots:
                if not (os.path.basename(above).startswith(".") or os.path.basename(above) == "hooks"):
                    break
                os.rmdir(above)
                above = os.path.dirname(above)
        except OSError as error:
            if os.path.lexists(path):
                return PutBack(path, "created", failed=error.strerror or str(error))
        return PutBack(path, "created", place)

    def _restore(self, path: str, old: _Saved, new: _Saved | None, keep: Callable[[str], str]) -> PutBack:
        change: Change = "deleted" if new is None else "changed"
        if old.raw is None:
            return PutBack(path, change, failed="it is too large to be kept")
        place = ""
        try:
            place = self._move_link_above(path, keep)
            if new is not None and not place:
                place = keep(os.path.basename(path))
                with self._open_parent(path) as parent:
                    _move_out(path, parent, place)
            with self._open_parent(path, make=True) as parent:
                _write(os.path.basename(path), parent, old)
        except OSError as error:
            return PutBack(path, change, place, failed=error.strerror or str(error))
        return PutBack(path, change, place)

    def _move_link_above(self, path: str, keep: Callable[[str], str]) -> str:
        """Move out a link that a command has put in place of a directory above; where it is now, or nothing."""
        root = max((root for root in self._roots if is_inside(path, root)), key=len)
        above = root
        for part in os.path.relpath(os.path.dirname(path), root).split("/"):
            above = os.path.normpath(os.path.join(above, part))
            if os.path.islink(above):
                place = keep(part)
                with self._open_parent(above) as parent:
                    _move_out(above, parent, place)
                return place
        return ""

    @contextlib.contextmanager
    def _open_parent(self, path: str, make: bool = False) -> Iterator[int]:
        """The directory of a path, opened below its root without following any link."""
        root = max((root for root in self._roots if is_inside(path, root)), key=len)
        name = os.path.relpath(os.path.dirname(path), root)
        top = os.open(root, DIRECTORY)
        try:
            if make:
                at = top
                for part in [] if name == "." else name.split("/"):
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=at)
                    deeper = os.open(part, DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                    if at != top:
                        os.close(at)
                    at = deeper
                fd = at if at != top else os.dup(top)
            else:
                fd = open_beneath(top, name, DIRECTORY)
            try:
                yield fd
            finally:
                os.close(fd)
        finally:
            os.close(top)


def _find_repositories(directory: str) -> Iterator[str]:
    """The repositories of submodules or work trees: directories with a `HEAD`."""
    for here, folders, files in os.walk(directory):
        if "HEAD" in files:
            folders.clear()
            yield here


def _find_repository(path: str) -> str:
    """The repository that a file belongs to whose settings or hooks it may be; empty if none."""
    if os.path.basename(path).lower() == ".git":
        return path
    for name in ("hooks", "info", ""):
        above = os.path.dirname(path)
        while name == "hooks" and os.path.basename(above) != "hooks" and above != "/":
            above = os.path.dirname(above)
        if name and os.path.basename(above) != name:
            continue
        place = os.path.dirname(above) if name else above
        parts = place.lower().split("/")
        if ".git" in parts or os.path.exists(os.path.join(place, "HEAD")):
            return place
    return ""


def _read_contents(path: str, mode: int, size: int) -> bytes | None:
    try:
        if stat.S_ISLNK(mode):
            return os.fsencode(os.readlink(path))
        if not stat.S_ISREG(mode) or size > _MOST_BYTES:
            return None
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(_MOST_BYTES + 1)
    except OSError:
        return None


def _move_out(path: str, parent: int, place: str) -> None:
    name = os.path.basename(path)
    try:
        os.rename(name, place, src_dir_fd=parent)
    except OSError:
        here = f"/proc/self/fd/{parent}/{name}"
        if os.path.isdir(here) and not os.path.islink(here):
            shutil.copytree(here, place, symlinks=True, copy_function=_copy)
            shutil.rmtree(name, dir_fd=parent)
        else:
            _copy(here, place)
            os.unlink(name, dir_fd=parent)
    if os.path.isfile(place) and not os.path.islink(place):
        os.chmod(place, 0o600)


def _copy(original: str, copy: str) -> None:
    if os.path.islink(original):
        os.symlink(os.readlink(original), copy)
        return
    fd = os.open(original, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with open(fd, "rb") as source, open(copy, "xb") as target:
        copy_contents(source.fileno(), target.fileno())


def _remove_empty(directory: str) -> bool:
    """Remove a directory that is empty; False if it is not, or is gone."""
    try:
        os.rmdir(directory)
    except OSError:
        return False
    return True


def _write(name: str, parent: int, old: _Saved) -> None:
    assert old.raw is not None
    fresh = f"{name}.{secrets.token_hex(4)}"
    if stat.S_ISLNK(old.mode):
        os.symlink(old.raw, os.fsencode(fresh), dir_fd=parent)
    else:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=parent)
        with open(fd, "wb") as file:
            file.write(old.raw)
            os.fchmod(fd, stat.S_IMODE(old.mode))
    os.replace(fresh, name, src_dir_fd=parent, dst_dir_fd=parent)
