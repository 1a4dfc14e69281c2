"""The index files of a user: where they are, how one is built, how much room they may take.

An index is built by a process of its own at low priority, one at a time for each tree, and put in place by a rename:
sessions and other processes share it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

from handrail import system_calls
from handrail.errors import IoError
from handrail.errors.extras import missing_extra
from handrail.json_types import JsonObject
from handrail.search.index.layout import Task, order_of_paths
from handrail.search.index.limits import MOST_INDEX_BYTES, SUFFIX, list_indexes
from handrail.search.index.read import BadIndex, IndexFile
from handrail.search.listing import CHANGING
from handrail.search.receipt import Budget
from handrail.search.ripgrep import Ripgrep
from handrail.search.tree import SearchTree
from handrail.search.walk import Listings

_LIST_SECONDS = 60.0
_TRIES = 5
_FAILURES = {2: "the files cannot be read", 4: "the index would be too large"}


class IndexStore:
    """The folder with the index files."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def in_state(cls, state: str) -> IndexStore:
        """The one in a state directory."""
        return cls(os.path.join(state, "index"))

    def path(self, root: str, base: Ripgrep) -> str:
        """Where the index of a tree is: other rules for what may be read have another one."""
        identity = json.dumps([root, base.scope.words, base.scope.above])
        return os.path.join(self._folder, hashlib.sha256(identity.encode()).hexdigest()[:32] + SUFFIX)

    @property
    def is_empty(self) -> bool:
        """Whether no index was ever built."""
        return not os.path.isdir(self._folder)

    def paths(self) -> list[str]:
        """All indexes."""
        return list_indexes(self._folder)

    def drop(self, path: str) -> bool:
        """Delete an index; False if there is none."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            return False
        return True

    def build(
        self,
        tree: SearchTree,
        base: Ripgrep,
        report: Callable[[int, int], None] | None = None,
        begun: Callable[[], None] = lambda: None,
    ) -> bool:
        """Build the index of a whole tree and wait for it; False if another process is at it.

        ``report`` gets the number of files that are indexed, and of all; ``begun`` is called once the index would be
        completed even if this process ended. Raises `IoError` and `MissingExtra`.
        """
        require_numpy()
        path = self.path(tree.path.real, base)
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with self._lock(path) as lock:
            if lock is None:
                return False
            task, names = _prepare(tree, base, path)
            code = _run_builder(task, names, report, begun, lock)
            if code:
                raise IoError(path=tree.path.named, why=_FAILURES.get(code, f"the builder ended with code {code}"))
        return True

    @contextlib.contextmanager
    def _lock(self, path: str) -> Iterator[int | None]:
        """The descriptor of a lock, which the builder inherits; None if another process has it."""
        fd = os.open(path.removesuffix(SUFFIX) + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock: int | None = fd
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock = None
            yield lock
        finally:
            os.close(fd)


def has_numpy() -> bool:
    """Whether an index can be built."""
    return importlib.util.find_spec("numpy") is not None


def require_numpy() -> None:
    """Raise `MissingExtra` where no index can be built."""
    if not has_numpy():
        raise missing_extra("index", "numpy is not installed")


def describe(path: str) -> JsonObject | None:
    """What is known of an index: root, files, bytes of their contents, size, time; None if it cannot be read."""
    try:
        index = IndexFile(path)
        status = os.stat(path)
    except (OSError, BadIndex, ValueError, KeyError):
        return None
    known = {name: index.description[name] for name in ("root", "files", "bytes", "built")}
    return {**known, "size": status.st_size, "path": path}


def _prepare(tree: SearchTree, base: Ripgrep, path: str) -> tuple[Task, list[bytes]]:
    """List the files to index, and the directories, when nothing has just changed."""
    tree = SearchTree(tree.workspace, tree.path, Listings(sys.maxsize), tree.sight)
    names: list[bytes] = []
    links: list[str] = []
    for _ in range(_TRIES):
        walk = tree.walk(Budget(_LIST_SECONDS))
        names, links = [], []
        for here in walk.directories(base.look):
            names += [os.fsencode(here.prefix + name) for name in here.files]
            links += [here.prefix + name for name in here.links]
        if walk.receipt.stopped:
            raise IoError(path=tree.path.named, why="it has too many files")
        marks = tree.listing.list_marks(walk.paths)
        if all(mark[1:] != CHANGING for entries in marks for mark in entries):
            break
        time.sleep(2 * system_calls.TICK / 1e9)
    status = os.fstat(tree.listing.root)
    shown = _leave_out_other_names(tree, names)
    shown.sort(key=order_of_paths)
    walk.receipt.searched = len(names)
    description = {
        "built": time.time(),
        "complete": len(shown) == len(names) and not walk.receipt.unreadable,
        "receipt": asdict(walk.receipt),
        "links": links,
    }
    task = Task(
        root=tree.path.real,
        identity=(status.st_dev, status.st_ino),
        path=path,
        most_bytes=MOST_INDEX_BYTES,
        directories=marks[0],
        rules=marks[1],
        description=description,
    )
    return task, shown


def _leave_out_other_names(tree: SearchTree, names: list[bytes]) -> list[bytes]:
    """Without the files that are secrets by another name on the disk."""
    is_other_name, root = tree.sight.is_other_name, tree.listing.root
    if is_other_name is None:
        return names
    linked = set[bytes]()
    for name in names:
        with contextlib.suppress(OSError):
            if os.stat(name, dir_fd=root, follow_symlinks=False).st_nlink > 1:
                linked.add(name)
    return [name for name in names if name not in linked or not is_other_name(tree.real(os.fsdecode(name)))]


def _run_builder(
    task: Task, names: list[bytes], report: Callable[[int, int], None] | None, begun: Callable[[], None], lock: int
) -> int:
    command = [sys.executable, "-m", "handrail.search.index.write"]
    with open(os.memfd_create("handrail", os.MFD_CLOEXEC), "w+b") as given:
        given.write(json.dumps(task).encode() + b"\n" + b"".join(name + b"\0" for name in names))
        given.seek(0)
        output = subprocess.PIPE if report else subprocess.DEVNULL
        with subprocess.Popen(  # noqa: S603 - a list of words, no shell
            command,
            stdin=given,
            stdout=output,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=not report,
            pass_fds=(lock,),
        ) as child:
            begun()
            for line in child.stdout or ():
                assert report
                report(int(line), len(names))
    return child.returncode
