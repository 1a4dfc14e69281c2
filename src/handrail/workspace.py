"""The workspace boundary: resolve a raw path to a `WorkPath` below one of the roots, or refuse it.

There are two steps, and only the second one is trusted. `resolve` follows links to the real path, so that policy, locks
and tracker mean the same file. The `open_*` methods then open exactly that path below the root's descriptor without
following any link: if a directory was swapped for a link in the meantime, the open fails.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice

from handrail import system_calls
from handrail.errors import (
    BadPath,
    IsDirectory,
    NotFound,
    NotRegular,
    OutsideWorkspace,
    PermissionDenied,
    ReadOnlyRoot,
    RootMissing,
    TildePath,
    ToolError,
    from_os,
)
from handrail.frozen import frozen
from handrail.programs import distrust
from handrail.system_calls import closing_fd
from handrail.text.display import unescape

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LISTED = 5_000
_MOST_BYTES = 8192
"""The kernel opens at most 4096 bytes below a root, whose own path may be as long again."""
_SHOWN = 60

_TEMPORARY = ".handrail-"
_TEMPORARY_DIGITS = 16


def make_temporary_name() -> str:
    """The name of an entry that is being written or deleted, beside the one whose name it gets or had."""
    return _TEMPORARY + os.urandom(_TEMPORARY_DIGITS // 2).hex()


def is_temporary_name(name: str) -> bool:
    """Whether an entry has a name of `make_temporary_name`."""
    digits = name.removeprefix(_TEMPORARY)
    return len(name) - len(digits) == len(_TEMPORARY) and len(digits) == _TEMPORARY_DIGITS and digits.isalnum()


@frozen
class Root:
    """A directory that tools may reach."""

    path: str
    writable: bool = True
    alias: str = ""
    """An absolute path that it is called by instead of its own; it need not exist until it is asked for."""


@frozen
class WorkPath:
    """A path that the workspace resolved. Tools get no other kind."""

    named: str
    """As the caller wrote it."""
    real: str
    """Absolute, links followed."""
    inner: str
    """`real`, relative to its root; `.` for the root itself."""
    root: Root = field(repr=False)


class Workspace:
    """A few roots, the first of which is where relative paths begin. Owns one descriptor a root."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self.roots = tuple(replace(root, path=os.path.abspath(root.path)) for root in roots)
        distrust(*(root.path for root in self.roots))
        self._several = any(not root.alias for root in self.roots[1:])
        """Whether a root of the host's may lie inside the first one, with rights of its own."""
        self._fds: dict[str, tuple[int, str]] = {}
        """The descriptor of each root and its real path, by the path of the root."""
        self._standing: dict[int, tuple[int, int]] = {}
        """Which directory each descriptor is: that cannot change as long as it is open."""
        self._gone: list[int] = []
        self._lock = threading.Lock()
        self._before_close: set[Callable[[], None]] = set()
        # A host that forgets to close its sessions must not run out of descriptors.
        weakref.finalize(self, _release, self._fds, self._gone).atexit = False

    @property
    def home(self) -> str:
        """The directory that relative paths start from."""
        return self.roots[0].path

    def call_before_close(self, function: Callable[[], None]) -> None:
        """Have a function called once, at the end of this workspace."""
        self._before_close.add(function)

    def close(self) -> None:
        while self._before_close:
            self._before_close.pop()()
        with self._lock:
            _release(self._fds, self._gone)
            self._standing.clear()

    def resolve(self, named: str) -> WorkPath:
        """Resolve ``named`` to its real path, or return the reason why it is refused."""
        if not named or "\0" in named:
            raise BadPath(path=named, why="it is empty" if not named else "it contains a NUL character")
        try:
            length = len(os.fsencode(named))
        except UnicodeEncodeError:
            raise BadPath(path=named, why="it is not valid Unicode") from None
        if length > _MOST_BYTES:
            raise BadPath(
                path=f"{named[:_SHOWN]}...", why=f"it has {length} bytes, and at most {_MOST_BYTES} are allowed"
            )
        spelled = self.expand_alias(named)
        if spelled != named:
            return _resolve_as(spelled, named, self.resolve)
        relative = not named.startswith("/")
        home = self._open_root(self.roots[0], check=True)[1] if relative else ""
        if home and named.startswith("~") and not os.path.lexists(os.path.join(home, named.split("/", 1)[0])):
            raise TildePath(path=named)
        alone = relative and not self._several
        resolved = self._resolve_plain(named) if alone else None
        if resolved is None:  # it may lie below any of the roots
            for root in self.roots:
                with contextlib.suppress(ToolError):
                    self._open_root(root, check=True)
            resolved = self._resolve_plain(named) if not alone else None
            resolved = resolved or self._as_shown(named) or self._as_absolute(named, home)
            resolved = resolved or self._resolve_links(named, os.path.join(home, named))
        if named.endswith("/"):
            standing = self.stat(resolved)
            if standing is None:
                raise NotFound(path=named, nearest=self.nearest(resolved))
            if not stat.S_ISDIR(standing.st_mode):
                raise BadPath(path=named, why="it ends with a slash, but is not a directory")
        return resolved

    def resolve_below_slash(self, named: str, *, itself: bool = False) -> WorkPath:
        """Resolve a path where `/` stands for the workspace, and `/src` for a directory in it.

        A path below a root means itself. A path that leaves the workspace is refused, and so is one that begins like a
        place of this machine, such as `/etc`, unless the workspace has something of that name.
        ``itself``: the path is to be deleted, as in `resolve_itself`.
        """
        resolve = self.resolve_itself if itself else self.resolve
        home = self.roots[0].path
        plain, inside = os.path.normpath(named), os.path.normpath(home + named)
        is_below_root = any(plain == root.path or plain.startswith(root.path + "/") for root in self.roots)
        if not named.startswith("/") or is_below_root or self.expand_alias(named) != named:
            return resolve(named)
        leaves = inside != home and not inside.startswith(home + "/")
        first = named.strip("/").partition("/")[0]
        is_elsewhere = first and os.path.lexists("/" + first) and not os.path.lexists(os.path.join(home, first))
        return resolve(named) if leaves or is_elsewhere else _resolve_as(inside, named, resolve)

    def resolve_itself(self, named: str) -> WorkPath:
        """Resolve a path to delete: if its last name is a link, that link, wherever it leads."""
        above, _, name = named.rpartition("/")
        if name in ("", ".", ".."):
            return self.resolve(named)
        try:
            parent = self.resolve(above or ("/" if named.startswith("/") else "."))
        except ToolError:
            return self.resolve(named)
        real = f"{parent.real.rstrip('/')}/{name}"
        if not os.path.islink(real):
            return self.resolve(named)
        return WorkPath(named, real, name if parent.inner == "." else f"{parent.inner}/{name}", parent.root)

    def expand_alias(self, named: str) -> str:
        """Replace the alias of a root at the beginning of a path by the path of the root."""
        for root in self.roots:
            if root.alias and (named == root.alias or named.startswith(root.alias + "/")):
                return root.path + named[len(root.alias) :]
        return named

    def to_display_path(self, real: str) -> str:
        """Return a real path as answers show it: below the alias of its root, if it has one."""
        for root in self.roots:
            if root.alias and (real == root.path or real.startswith(root.path + "/")):
                return root.alias + real[len(root.path) :]
        return real

    def _resolve_plain(self, named: str) -> WorkPath | None:
        """The usual case in one system call: an existing path below a root, no links, no detours."""
        parts = [part for part in named.split("/") if part not in ("", ".")]
        if ".." in parts:
            return None
        root = self.roots[0]
        inner = "/".join(parts)
        relative = not named.startswith("/")
        if not relative or self._several:
            above = self._open_root(root)[1].rstrip("/") if relative else ""
            whole = f"{above}/{inner}" if inner else above or "/"
            containing = self._find_root_above(whole)
            if containing is None:
                return None
            root, real_root = containing
            inner = whole[len(real_root.rstrip("/")) + 1 :]
        fd, real_root = self._open_root(root)
        try:
            os.close(system_calls.open_beneath(fd, inner or ".", system_calls.O_PATH | os.O_CLOEXEC))
        except OSError:
            return None
        return WorkPath(named, f"{real_root.rstrip('/')}/{inner}" if inner else real_root, inner or ".", root)

    def _as_shown(self, named: str) -> WorkPath | None:
        """Find a file by its name with escapes, as results show it."""
        other = unescape(named)
        if other == named or "\0" in other:
            return None
        try:
            resolved = self._resolve_plain(other)
        except UnicodeEncodeError:  # escapes that no name of a file is shown with
            return None
        return replace(resolved, named=named) if resolved else None

    def _as_absolute(self, named: str, home: str) -> WorkPath | None:
        """Take a relative path for an absolute one below a root that lost its slash, or has git's `a/` before it.

        Only where nothing begins so in the directory that relative paths start from.
        """
        first = named.partition("/")[0]
        if not first or os.path.lexists(os.path.join(home, first)):
            return None
        for spelled in ("/" + named, named[1:] if first in ("a", "b") else ""):
            if any(spelled.startswith(root.path + "/") for root in self.roots if not root.alias):
                return replace(self.resolve(os.path.normpath(spelled)), named=named)
        return None

    def _resolve_links(self, named: str, path: str) -> WorkPath:
        real = os.path.realpath(path)
        above = self._find_root_above(real)
        if above is None:
            for root in self.roots:
                below = os.path.normpath(path) + "/"
                if not os.path.isdir(root.path) and below.startswith(root.path + "/"):
                    raise NotFound(path=named, nearest=[]) if root.alias else RootMissing(root=root.path)
            lexical = self._find_root_above(os.path.normpath(path))
            link = lexical is not None and os.path.normpath(path) != real
            raise OutsideWorkspace(path=named, roots=[root.path for root in self.roots if not root.alias], link=link)
        root, real_root = above
        return WorkPath(named, real, os.path.relpath(real, real_root), root)

    def _find_root_above(self, path: str) -> tuple[Root, str] | None:
        """The innermost root that holds ``path``, and its real path."""
        best: tuple[Root, str] | None = None
        for root in self.roots:
            with contextlib.suppress(ToolError):  # a root that is not there holds nothing
                real = self._open_root(root)[1]
                inside = path == real or path.startswith(real.rstrip("/") + "/")
                if inside and (best is None or len(real) > len(best[1])):
                    best = (root, real)
        return best

    def _open_root(self, root: Root, check: bool = False) -> tuple[int, str]:
        """Return the descriptor of a root and its real path; ``check``: make sure that the path still leads to it."""
        with self._lock:
            known = self._fds.get(root.path)
            if known and (not check or _get_identity(root.path) == self._standing[known[0]]):
                return known
            if known:  # moved or removed, perhaps made anew; another thread may still be using the descriptor
                self._gone.append(self._fds.pop(root.path)[0])
            try:
                os.stat(root.path)  # one that is not there, as often, costs no more than this
                real = os.path.realpath(root.path, strict=True)
                fd = os.open(real, system_calls.DIRECTORY)
            except FileNotFoundError:
                raise RootMissing(root=root.path) from None
            except NotADirectoryError:
                raise BadPath(path=root.path, why="it is not a directory") from None
            except OSError as error:
                raise from_os(error, path=root.path) from None
            status = os.fstat(fd)
            self._standing[fd] = (status.st_dev, status.st_ino)
            self._fds[root.path] = (fd, real)
            return fd, real

    # Opening. Every descriptor below comes from here.

    def _open(self, path: WorkPath, flags: int) -> int:
        try:
            return system_calls.open_beneath(self._open_root(path.root)[0], path.inner, flags)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise BadPath(path=path.named, why="symbolic links form a loop, or just changed") from None
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise NotFound(path=path.named, nearest=self.nearest(path)) from None
            raise from_os(error, path=path.named) from None

    def stat(self, path: WorkPath) -> os.stat_result | None:
        """Return the status of ``path``, or None."""
        try:
            fd = self._open(path, system_calls.O_PATH | os.O_CLOEXEC)
        except NotFound:
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def beneath(self, path: WorkPath) -> int:
        """The descriptor of the root that ``path`` lies below, to walk from; it stays the workspace's."""
        return self._open_root(path.root)[0]

    def open_directory(self, path: WorkPath) -> int:
        """A directory, for listing."""
        return self._open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def open_file(self, path: WorkPath) -> int:
        """A regular file, for reading. Anything else is refused before it is opened."""
        if not _is_regular(path, self.beneath(path)):
            with closing_fd(self._open(path, system_calls.O_PATH | os.O_CLOEXEC)) as fd:
                _require_regular(path, os.fstat(fd))
        fd = self._open(path, _READ)  # O_NONBLOCK: harmless even if something else stands there by now
        try:
            _require_regular(path, os.fstat(fd))
        except BaseException:
            os.close(fd)
            raise
        return fd

    @contextlib.contextmanager
    def parent(self, path: WorkPath, create: bool = False, durable: bool = True) -> Iterator[tuple[int, str]]:
        """The directory that holds ``path``, as a descriptor, and the name in it. For writing."""
        if not path.root.writable:
            raise ReadOnlyRoot(path=path.named, root=path.root.path)
        if path.inner == ".":
            raise IsDirectory(path=path.named)
        above, _, name = path.inner.rpartition("/")
        created: list[tuple[int, str]] = []
        fd = self._make(path, above, created, durable) if create else self._open_listed(path, above)
        try:
            yield fd, name
        except BaseException:
            for directory, child in reversed(created):  # what we made for nothing goes again, if it is still empty
                with contextlib.suppress(OSError):
                    os.rmdir(child, dir_fd=directory)
            raise
        finally:
            for directory in (fd, *(above for above, _ in created)):
                with contextlib.suppress(OSError):  # only looked through: a failing close takes nothing back
                    os.close(directory)

    def is_parent(self, directory: int, path: WorkPath) -> bool:
        """Whether a descriptor of `parent` is of the directory that holds ``path`` now: another may be in its place."""
        above = path.inner.rpartition("/")[0] or "."
        status = self.stat(WorkPath(path.named, os.path.dirname(path.real), above, path.root))
        return status is not None and os.path.samestat(status, os.fstat(directory))

    def _open_listed(self, path: WorkPath, inner: str) -> int:
        """A directory descriptor that can be synced; one that cannot, where the directory may not be listed."""
        place = WorkPath(path.named, path.real, inner or ".", path.root)
        try:
            return self._open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except NotFound:
            raise NotFound(path=path.named, nearest=self.nearest(path)) from None
        except PermissionDenied:
            return self._open(place, system_calls.DIRECTORY)

    def _make(self, path: WorkPath, inner: str, created: list[tuple[int, str]], durable: bool) -> int:
        here = self._open_listed(path, ".")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            for part in inner.split("/") if inner else ():
                try:
                    deeper = os.open(part, flags, dir_fd=here)
                except FileNotFoundError:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                        created.append((os.dup(here), part))
                        if durable:
                            system_calls.sync_directory(here)
                    deeper = os.open(part, flags, dir_fd=here)
                os.close(here)
                here = deeper
        except OSError as error:
            os.close(here)
            for directory, child in reversed(created):
                with contextlib.suppress(OSError):
                    os.rmdir(child, dir_fd=directory)
                os.close(directory)
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise BadPath(path=path.named, why="a part of it is not a directory") from None
            raise from_os(error, path=path.named) from None
        return here

    def nearest(self, path: WorkPath, most: int = 3) -> list[str]:
        """List existing paths with names similar to a missing one: at first the same path without its first part."""
        parts = path.inner.split("/")
        rest = path.named.partition("/")[2]
        if rest and path.inner == path.named:
            with contextlib.suppress(ToolError, OSError):
                shorter = self.resolve(rest)
                if shorter.root == path.root and self.stat(shorter) is not None:
                    return [rest]
        fd = -1
        for depth in range(len(parts) - 1, -1, -1):
            above = "/".join(parts[:depth])
            with contextlib.suppress(OSError, RootMissing):
                fd = system_calls.open_beneath(
                    self._open_root(path.root)[0], above or ".", os.O_RDONLY | os.O_DIRECTORY
                )
                break
        if fd < 0:
            return []
        try:
            with os.scandir(fd) as entries:
                names = {entry.name.casefold(): entry.name for entry in islice(entries, _LISTED)}
        finally:
            os.close(fd)
        import difflib  # slow to import, and only needed for what is missing

        close = difflib.get_close_matches(parts[depth].casefold(), sorted(names), n=most, cutoff=0.6)
        prefix = path.named[: len(path.named) - len("/".join(parts[depth:]))]
        if not path.named.endswith("/".join(parts[depth:])):  # reached through a link or `..`
            prefix = above + "/" if above else ""
        return [prefix + names[name] for name in close]


def _resolve_as(spelled: str, named: str, resolve: Callable[[str], WorkPath]) -> WorkPath:
    """Resolve another spelling of a path that is shown as ``named``."""
    try:
        return replace(resolve(spelled), named=named)
    except ToolError as error:
        error.path = named
        raise


def _is_regular(path: WorkPath, root: int) -> bool:
    """Whether there is a file, by its name alone: a hint, since links above it are followed."""
    try:
        status = os.stat(path.inner, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode)


def _release(fds: dict[str, tuple[int, str]], gone: list[int]) -> None:
    """Close the descriptors of a workspace, once."""
    for fd in (*(fd for fd, _ in fds.values()), *gone):
        os.close(fd)
    fds.clear()
    gone.clear()


def _get_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _require_regular(path: WorkPath, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsDirectory(path=path.named)
    if not stat.S_ISREG(status.st_mode):
        kinds = {
            stat.S_IFIFO: "a named pipe",
            stat.S_IFSOCK: "a socket",
            stat.S_IFCHR: "a device",
            stat.S_IFBLK: "a device",
        }
        raise NotRegular(path=path.named, kind=kinds.get(stat.S_IFMT(status.st_mode), "not a file"))


def resolve_parent(path: str) -> str:
    """Return the real path of a name without following it, if it is a link."""
    above, name = os.path.split(path.rstrip("/"))
    return os.path.realpath(path) if name in ("", ".", "..") else os.path.join(os.path.realpath(above), name)
