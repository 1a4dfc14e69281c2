"""Random programs in drafts, run as a script so that another user can run them.

`scenarios.py NAME FOLDER FIRST COUNT [overlay]`; with the last word the workspaces lie on an overlay of their own. One
process runs all seeds, and forks the programs: to start Python for each of them takes longer than the programs.
"""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from handrail.drafts.foreign_files import copy_foreign_files, find_foreign_files
from handrail.drafts.keep import DraftConflict, keep, undo
from handrail.drafts.layout import DraftDirectory, remove_tree
from tests.drafts.enter import enter, enter_namespaces, mount_overlay, unmount
from tests.drafts.trees import OverlayRace, Program, describe, fill, make_searchable, run_program

ENTER = str(Path(__file__).with_name("enter.py"))
_RACED = 75
_ATTEMPTS = 3
"""For a seed whose programs meet a race of overlayfs; a fault of ours would be there again."""


def run_in_draft(draft: DraftDirectory, *command: str) -> None:
    words = [sys.executable, ENTER, draft.info.workspace, draft.upper, draft.work, *command]
    subprocess.run(words, check=True, timeout=600)


def fork(work: Callable[[], object]) -> int:
    """Do something in a child process; returns its number. What it raises is printed."""
    child = os.fork()
    if child:
        return child
    try:
        work()
        sys.stderr.flush()
        os._exit(0)
    except OverlayRace:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(_RACED)
    except BaseException:  # noqa: BLE001 - it must not go on as a second parent
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def wait_for(children: list[int]) -> None:
    """Wait until all children have ended; fails if one of them failed, with `OverlayRace` if that is why."""
    endings = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if _RACED in endings:
        raise OverlayRace(errno.EIO, "two programs met a race of overlayfs")
    assert not any(endings), f"a program failed: {endings}"


TOP = "top"
"""The directory of a folder on which an overlay is mounted, if it exists."""


def mount_top(folder: str) -> str:
    """Mount an overlay over `top`; returns that path. What is in `lower` is a lower layer, as in a container."""
    for name in ("lower/workspace", "upper", "work", TOP, "layers"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    top = os.path.join(folder, TOP)
    mount_overlay(top, *(os.path.join(folder, name) for name in ("lower", "upper", "work")))
    return top


def start_on_overlay(folder: str, seed: int) -> DraftDirectory:
    """A workspace on an overlay, with files of its lower and of its upper layer, and an open draft of it."""
    os.makedirs(os.path.join(folder, "lower", "workspace"))
    fill(os.path.join(folder, "lower", "workspace"), seed, 60)
    top = mount_top(folder)
    workspace = os.path.join(top, "workspace")
    Program(workspace, seed).run(20)
    return DraftDirectory.create(os.path.join(top, "draft"), workspace, layers=os.path.join(folder, "layers", "draft"))


def start(folder: str, seed: int) -> DraftDirectory:
    """A workspace of random files and an open draft of it, in an empty folder."""
    if os.path.basename(folder).startswith("overlay"):
        return start_on_overlay(folder, seed)
    workspace = os.path.join(folder, "workspace")
    os.mkdir(workspace)
    fill(workspace, seed, 60)
    if os.geteuid() != 0:
        change_groups(workspace, seed)
    draft = DraftDirectory.create(os.path.join(folder, "draft"), workspace)
    copy_foreign_files(draft, find_foreign_files(workspace) if os.geteuid() != 0 else [])
    return draft


def change_groups(workspace: str, seed: int) -> None:
    """Give some entries to another group of this user, if there is one, and let new ones inherit it."""
    choice = random.Random(seed)
    groups = sorted({*os.getgroups()} - {os.getegid()})
    tree = describe(workspace, times=False)
    for path in tree:
        if path and groups and choice.random() < 0.4:
            full = os.path.join(workspace, path)
            status = os.lstat(full)
            if not status.st_mode & stat.S_IRUSR:
                continue
            os.chown(full, -1, choice.choice(groups), follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and choice.random() < 0.5:
                os.chmod(full, 0o2775)


def hide_groups(tree: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """A tree as the user namespace of an ordinary user shows it: other groups have no number there."""
    if os.geteuid() == 0:
        return tree
    mine = os.geteuid(), os.getegid()
    return {path: (entry[0], mine if entry[1] == mine else "other", *entry[2:]) for path, entry in tree.items()}


def run_random_programs(draft: DraftDirectory, folder: str, seed: int) -> dict[str, tuple[object, ...]]:
    """Let two programs change the draft at the same time; returns the tree as it looks in there afterwards."""
    workspace, view = draft.info.workspace, os.path.join(folder, "view")
    count = random.Random(seed).randint(10, 100)

    def work() -> None:
        enter(workspace, draft.upper, draft.work)
        wait_for([fork(partial(run_program, workspace, one, count)) for one in (seed * 2 + 1, seed * 2 + 2)])
        make_searchable(workspace)
        with open(view, "wb") as file:
            pickle.dump(describe(workspace, times=True), file)

    wait_for([fork(work)])
    with open(view, "rb") as file:
        tree: dict[str, tuple[object, ...]] = pickle.load(file)
    return tree


def inodes(root: str) -> dict[str, int]:
    return {path: os.lstat(os.path.join(root, path)).st_ino for path in describe(root, times=False)}


def is_single_file(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 1


def require_same(now: dict[str, tuple[object, ...]], expected: dict[str, tuple[object, ...]]) -> None:
    """Fail with the entries that differ, the names of files aside."""
    trees = [{path: (*entry[:4], *entry[5:]) for path, entry in tree.items()} for tree in (now, expected)]
    paths = sorted(path for path in now.keys() | expected.keys() if trees[0].get(path) != trees[1].get(path))
    assert not paths, "".join(f"\n{path!r}: {now.get(path)} instead of {expected.get(path)}" for path in paths)


def keep_and_undo(folder: str, seed: int) -> None:
    """A kept draft looks as it did from inside; undo brings every file back, to the inode."""
    draft = start(folder, seed)
    workspace = draft.info.workspace
    before, numbers = describe(workspace, times=True), inodes(workspace)
    single = [path for path in before if is_single_file(os.path.join(workspace, path))]
    view = run_random_programs(draft, folder, seed)
    assert (describe(workspace, times=True), inodes(workspace)) == (before, numbers)
    # A view does not tell which names belong to one file: for an ordinary user overlayfs gives them several numbers.
    upper = describe(draft.upper, times=False)
    keep(draft)
    now, kept = describe(workspace, times=True), inodes(workspace)
    require_same(hide_groups(now), hide_groups(view))
    for path, entry in now.items():
        assert entry[1] == (upper[path] if path in upper else before[path])[1], path
    for path, entry in now.items():
        assert kept[path] == numbers.get(path) or entry[4] == upper[path][4], (path, entry[4], upper[path][4])
    is_copied = draft.copies
    undo(draft)
    if is_copied:  # removed directories are created anew, and an overlay splits the names of a file of a lower layer
        require_same(describe(workspace, times=True), before)
        again = inodes(workspace)
        assert {path: again[path] for path in single} == {path: numbers[path] for path in single}
    else:
        assert (describe(workspace, times=True), inodes(workspace)) == (before, numbers)
    draft.drop()
    assert set(os.listdir(os.path.dirname(workspace))) <= {"workspace", "view", "own-periods.jsonl", "reserve"}
    assert not is_copied or not os.listdir(os.path.join(folder, "layers"))


def drop(folder: str, seed: int) -> None:
    """A dropped draft leaves the workspace as it was, to the inode."""
    draft = start(folder, seed)
    workspace = draft.info.workspace
    before, numbers = describe(workspace, times=True), inodes(workspace)
    run_random_programs(draft, folder, seed)
    draft.drop()
    assert (describe(workspace, times=True), inodes(workspace)) == (before, numbers)


class ForeignWriter(threading.Thread):
    """Another program that appends to files of the workspace, creates some, and remembers what it wrote."""

    def __init__(self, workspace: str, seed: int) -> None:
        super().__init__()
        self.workspace = workspace
        self.random = random.Random(seed)
        tree = describe(workspace, times=False).items()
        self.paths = [path for path, entry in tree if str(entry[0])[0] == "-"]
        self.directories = [path for path, entry in tree if str(entry[0])[0] == "d"]
        self.written: list[tuple[str, bytes]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.is_set():
            token = self.random.randbytes(8).hex().encode() + b";"
            new = os.path.join(self.random.choice(self.directories), "foreign")
            path = self.random.choice(self.paths) if self.paths and self.random.random() < 0.8 else new
            # To read as well: a file may have become a FIFO, and to open that for writing waits for a reader.
            flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | (os.O_CREAT if path == new else 0)
            try:
                fd = os.open(os.path.join(self.workspace, path), flags, 0o644)
            except OSError:
                continue
            try:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    continue
                if self.random.random() < 0.3:
                    time.sleep(self.random.random() * 0.003)
                os.write(fd, token)
            finally:
                os.close(fd)
            self.written.append((path, token))
            time.sleep(self.random.random() * 0.02)


def foreign_writer(folder: str, seed: int) -> None:
    """While a draft is kept, another program writes to the workspace. None of its writes is lost.

    If the keep is given up, what was written to a kept file meanwhile has a name of its own.
    """
    draft = start(folder, seed)
    run_random_programs(draft, folder, seed)
    write_meanwhile(draft, seed, partial(keep, draft))


def foreign_writer_in_undo(folder: str, seed: int) -> None:
    """While a kept draft is taken back, another program writes to the workspace. None of its writes is lost."""
    draft = start(folder, seed)
    run_random_programs(draft, folder, seed)
    keep(draft)
    write_meanwhile(draft, seed, partial(undo, draft))


def write_meanwhile(draft: DraftDirectory, seed: int, work: Callable[[], object]) -> None:
    """Let another program write to the workspace while ``work`` is done, which may meet a conflict."""
    workspace = draft.info.workspace
    writer = ForeignWriter(workspace, seed)
    begin = threading.Timer(0 if seed % 2 else 0.001, writer.start)
    begin.start()
    if seed % 2:
        begin.join()
        time.sleep(0.005)
    with contextlib.suppress(DraftConflict):
        work()
    begin.join()
    time.sleep(0.01)
    writer.stopped.set()
    writer.join()
    saved = b"".join(path.read_bytes() for path in Path(workspace).rglob("*.kept-*"))
    lost = [(path, token) for path, token in writer.written if token not in saved + _read(workspace, path)]
    assert not lost, lost


def _read(workspace: str, path: str) -> bytes:
    try:
        return Path(workspace, path).read_bytes()
    except OSError:
        return b""


SCENARIOS: dict[str, Callable[[str, int], None]] = {
    "keep_and_undo": keep_and_undo,
    "drop": drop,
    "foreign_writer": foreign_writer,
    "foreign_writer_in_undo": foreign_writer_in_undo,
}


def main(name: str, folder: str, first: int, count: int, place: str = "plain") -> None:
    """Run a scenario with many seeds, each in a folder of its own."""
    if place == "overlay":
        enter_namespaces()
    for seed in range(first, first + count):
        for attempt in range(_ATTEMPTS):
            try:
                run_seed(name, folder, seed, place, attempt)
                break
            except OverlayRace:
                if attempt == _ATTEMPTS - 1:
                    raise


def run_seed(name: str, folder: str, seed: int, place: str, attempt: int) -> None:
    faulthandler.dump_traceback_later(300, exit=True)  # one that hangs says where
    inner = os.path.join(folder, f"{place}-{name}-{seed}-{attempt}")
    os.mkdir(inner)
    try:
        SCENARIOS[name](inner, seed)
    except BaseException:
        print(f"{name}, seed {seed}:", file=sys.stderr)
        raise
    if place == "overlay":
        unmount(os.path.join(inner, TOP))
    remove_tree(inner)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:])
