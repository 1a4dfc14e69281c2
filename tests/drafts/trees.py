"""Describe a tree completely, and programs of random file operations to run in one."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import stat
from pathlib import Path

SECONDS = 60
NAMES = ("a", "b", "c", "dir", "sub", "x.txt", "link", "\udcff odd")


class OverlayRace(OSError):
    """An operation failed as it does if another process has removed a file that overlayfs just copies.

    Two processes without Handrail meet it too: one changes the times of links, the other removes them and creates
    directories of their names (`EIO`), a few times in 10,000 on a plain overlay of Linux 6.18.
    """


def describe(root: str, *, times: bool) -> dict[str, tuple[object, ...]]:
    """Each entry's type, mode, owner, contents, attributes, names (of a file) and, if asked for, modification time."""
    tree: dict[str, tuple[object, ...]] = {}
    links: dict[int, set[str]] = {}
    stack = [""]
    while stack:
        path = stack.pop()
        full = os.path.join(root, path)
        status = os.lstat(full)
        contents: object = None
        if stat.S_ISDIR(status.st_mode):
            stack += sorted(os.path.join(path, name) for name in os.listdir(full))
        elif stat.S_ISLNK(status.st_mode):
            contents = os.readlink(full)
        elif stat.S_ISREG(status.st_mode):
            contents = _read(full)
        names = sorted(os.listxattr(full, follow_symlinks=False))
        attributes = [
            (name, os.getxattr(full, name, follow_symlinks=False) if _is_readable(full) else b"?") for name in names
        ]
        names_of_it = links.setdefault(status.st_ino, set()) if stat.S_ISREG(status.st_mode) else set()
        names_of_it.add(path)
        tree[path] = (
            stat.filemode(status.st_mode),
            (status.st_uid, status.st_gid),
            contents,
            attributes,
            names_of_it,
            status.st_mtime_ns if times else 0,
        )
    return tree


def _read(path: str) -> bytes:
    return Path(path).read_bytes() if _is_readable(path) else b"(unreadable)"


def _is_readable(path: str) -> bool:
    return os.path.islink(path) or os.access(path, os.R_OK)


def fill(root: str, seed: int, count: int) -> None:
    """Fill an empty directory with random files."""
    Program(root, seed).run(count)
    for path in describe(root, times=False):
        os.utime(os.path.join(root, path), ns=(10**18, 10**18 + seed), follow_symlinks=False)


class Program:
    """Random operations below a directory. What fails in a usual way is left out, as a script would."""

    def __init__(self, root: str, seed: int) -> None:
        self.root = root
        self.random = random.Random(seed)

    def run(self, count: int) -> None:
        operations = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]
        for _ in range(count):
            try:
                self.random.choice(operations)()
            except OSError as error:
                if error.errno in (errno.EIO, errno.ESTALE):
                    raise OverlayRace(error.errno, error.strerror, error.filename) from error
                if error.errno in (errno.EOVERFLOW, errno.EUCLEAN):
                    raise
            except (shutil.Error, RecursionError):  # the other program may make the target a part of the source
                pass

    def path(self) -> str:
        """A path up to three levels deep, of something that exists more often than not."""
        here = self.root
        for _ in range(self.random.randint(1, 3)):
            names = sorted(os.listdir(here)) if os.path.isdir(here) and not os.path.islink(here) else []
            known = [name for name in names if name != ".git"]
            here = os.path.join(here, self.random.choice(known if known and self.random.random() < 0.7 else NAMES))
        return here

    def file(self) -> str:
        """A path to open: a pipe would wait for its other end."""
        path = self.path()
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileExistsError(path)
        return path

    def bytes(self) -> bytes:
        return self.random.randbytes(self.random.choice((0, 1, 10, 5000)))

    def do_write(self) -> None:
        Path(self.file()).write_bytes(self.bytes())

    def do_append(self) -> None:
        with open(self.file(), "ab") as file:
            file.write(self.bytes())

    def do_open_only(self) -> None:
        with open(self.file(), "r+b"):
            pass

    def do_truncate(self) -> None:
        os.truncate(self.path(), self.random.randint(0, 20))

    def do_unlink(self) -> None:
        os.unlink(self.path())

    def do_mkdir(self) -> None:
        os.mkdir(self.path())

    def do_rmdir(self) -> None:
        os.rmdir(self.path())

    def do_remove_tree(self) -> None:
        path = self.path()
        if os.path.isdir(path) and (os.path.dirname(path) != self.root or self.random.random() < 0.3):
            shutil.rmtree(path)

    def do_rename(self) -> None:
        source, target = self.path(), self.path()
        try:
            os.rename(source, target)
        except OSError as error:
            # For an ordinary user overlayfs does not notice that two names are of one file, and then fails: for others
            # to rename one to the other does nothing.
            if error.errno != errno.ESTALE or min(os.lstat(path).st_nlink for path in (source, target)) < 2:
                raise

    def do_move(self) -> None:
        source, target = self.path(), self.path()
        if not (target + "/").startswith(source + "/"):
            shutil.move(source, target)

    def do_symlink(self) -> None:
        os.symlink(self.random.choice(NAMES), self.path())

    def do_link(self) -> None:
        os.link(self.path(), self.path(), follow_symlinks=False)

    def do_chmod(self) -> None:
        fd = os.open(self.path(), os.O_PATH | os.O_NOFOLLOW)  # the other program may replace what is looked at
        try:
            mode = os.fstat(fd).st_mode
            modes = (
                (0o755, 0o700, 0o555, 0o1777, 0o2755) if stat.S_ISDIR(mode) else (0o644, 0o600, 0o755, 0o444, 0, 0o700)
            )
            if not stat.S_ISLNK(mode):
                os.chmod(f"/proc/self/fd/{fd}", self.random.choice(modes))
        finally:
            os.close(fd)

    def do_utime(self) -> None:
        os.utime(self.path(), ns=(10**18, 10**18 + self.random.randint(0, 10**9)), follow_symlinks=False)

    def do_attribute(self) -> None:
        path = self.path()
        if not os.path.islink(path):
            os.setxattr(path, "user.note", self.bytes()[:100])

    def do_fifo(self) -> None:
        os.mkfifo(self.path())

    def do_swap_type(self) -> None:
        path = self.path()
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
            Path(path).write_bytes(self.bytes())
        else:
            os.unlink(path)
            os.mkdir(path)
            Path(path, "inside").write_bytes(self.bytes())


def interrupt(*_: object) -> None:
    """End an operation that waits: the other program may put a pipe in the place of a file that is just opened."""
    signal.alarm(SECONDS)
    raise InterruptedError(errno.EINTR, "an operation of a random program waited")


def make_searchable(root: str) -> None:
    """Give directories back to their owner.

    One program may take the mode of a file just when the other one puts a directory in its place. Of such a directory
    an ordinary user cannot keep changes.
    """
    for path, names, _ in os.walk(root):
        for name in names:
            inner = os.path.join(path, name)
            mode = os.lstat(inner).st_mode
            if stat.S_ISDIR(mode) and mode & stat.S_IRWXU not in (0o700, 0o500):
                os.chmod(inner, 0o755)


def run_program(root: str, seed: int, count: int) -> None:
    """Run a random program, in a process of its own."""
    signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(SECONDS)
    Program(root, seed).run(count)
