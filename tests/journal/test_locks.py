"""Nothing but SQLite opens the index of the journal: each open reader keeps its locks, whatever its process does.

Where a process closes any descriptor of a file, the system drops all its locks on that file. Whoever closes the index
next then takes itself for the last one, and deletes the WAL to which the others still write.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail.journal.queries import JournalReader
from handrail.journal.shipping import LocalJournal
from handrail.settings.journal_address import JournalAddress
from tests.command import handrail
from tests.journal.mixed_calls import OPERATIONS, MixedCalls
from tests.sizes import spread


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[MixedCalls]:
    calls = MixedCalls(tmp_path, "p", 1)
    calls.write()
    with JournalReader(calls.path):
        yield calls
    calls.session.close()


@pytest.fixture
def locks_can_be_seen(tmp_path: Path) -> None:
    """The kernel must show locks, by the numbers that `stat` gives: not every container and file system does."""
    with open(tmp_path / "probe", "w", encoding="ascii") as probe:
        fcntl.lockf(probe, fcntl.LOCK_EX)
        if not os.path.exists("/proc/locks") or not list_locks(find_files(str(tmp_path / "probe"))):
            pytest.skip("this system does not show the locks of a process in /proc/locks")


def find_files(path: str) -> dict[str, str]:
    """The database and its shared memory, by the numbers of their inodes."""
    return {str(os.stat(file).st_ino): file for file in (path, f"{path}-shm") if os.path.exists(file)}


def list_locks(files: dict[str, str]) -> set[tuple[str, ...]]:
    """The locks of this process on these files, also where others are at their paths by now."""
    locks = set()
    with open("/proc/locks", encoding="ascii") as lines:
        for line in lines:
            words = line.split()
            if words[1] == "POSIX" and words[4] == str(os.getpid()):
                inode = words[5].rpartition(":")[2]
                locks.add((files.get(inode, ""), *words[3:4], *words[6:]))
    return {lock for lock in locks if lock[0]}


def inspect(mixed: MixedCalls) -> None:
    handrail("doctor", cwd=mixed.root)


def show_numbers(mixed: MixedCalls) -> None:
    handrail("stats", cwd=mixed.root)


def undo_outside(mixed: MixedCalls) -> None:
    handrail("undo", "--yes", cwd=mixed.root)


def look_at_what_is_shipped(mixed: MixedCalls) -> None:
    local = LocalJournal(mixed.path, JournalAddress.parse("postgresql://localhost/none"))
    local.count_outstanding()
    local.read_state()


USES = [*OPERATIONS, inspect, show_numbers, undo_outside, look_at_what_is_shipped]


@pytest.mark.usefixtures("locks_can_be_seen")
@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_no_use_of_a_journal_drops_the_locks_of_its_process(
    mixed: MixedCalls, use: Callable[[MixedCalls], None]
) -> None:
    files = find_files(mixed.path)
    held = list_locks(files)
    assert {Path(path).name for path, *_ in held} == {"journal.db", "journal.db-shm"}
    for _ in range(2):
        mixed.read()  # whoever looks at the journal brings its index up to date
        use(mixed)
        assert list_locks(files) == held  # an index that was made again is another file


def test_a_database_is_private_from_the_start(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        mixed = MixedCalls(tmp_path, "p", 1)
        mixed.write()
        with JournalReader(mixed.path):
            files = [file for file in Path(mixed.path).parent.rglob("*") if file.is_file()]
            modes = {file.name: file.stat().st_mode & 0o777 for file in files}
    finally:
        os.umask(umask)
    mixed.session.close()
    assert {"journal.db", "journal.db-wal", "journal.db-shm", "numbers", "000001.log"} < modes.keys()
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("use", spread(USES, 6), ids=lambda use: use.__name__)
def test_records_behind_any_use_survive_another_process_and_a_kill(
    tmp_path: Path, use: Callable[[MixedCalls], None]
) -> None:
    """One session goes on after another process had the journal open, and is killed."""
    ready, go = tmp_path / "ready", tmp_path / "go"
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            mixed = MixedCalls(tmp_path, "p", 1)
            mixed.write()
            mixed.read()
            use(mixed)
            ready.touch()
            while not go.exists():
                time.sleep(0.01)
            mixed.session.call("Write", {"file_path": "precious", "content": "x\n"}, id="precious")
            mixed.session.call("Bash", {"command": "rm precious"}, id="rm")
            ready.unlink()
            signal.pause()
        finally:
            os._exit(1)
    wait_until(ready.exists, child)
    other = MixedCalls(tmp_path, "q", 2)
    other.session.call("Write", {"file_path": "other", "content": "x\n"}, id="other")
    other.session.close()
    go.touch()
    wait_until(lambda: not ready.exists(), child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with JournalReader(other.path) as reader:
        assert [row.call_id for row in reader.read_calls()][-3:] == ["other", "precious", "rm"]
        assert reader.verify() is None


def test_a_child_without_a_program_of_its_own_keeps_what_it_records_after_its_parent_closed(tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    mixed = MixedCalls(tmp_path, "p", 1)
    mixed.write()
    child = os.fork()
    if child == 0:
        try:
            mixed.session.call("Write", {"file_path": "one", "content": "x\n"}, id="one")
            ready.touch()
            while not go.exists():
                time.sleep(0.01)
            mixed.session.call("Write", {"file_path": "two", "content": "x\n"}, id="two")
            ready.unlink()
            signal.pause()
        finally:
            os._exit(1)
    wait_until(ready.exists, child)
    mixed.session.close()
    go.touch()
    wait_until(lambda: not ready.exists(), child)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with JournalReader(mixed.path) as reader:
        assert [row.call_id for row in reader.read_calls()][-2:] == ["one", "two"]
        assert reader.verify() is None


def wait_until(condition: Callable[[], bool], child: int) -> None:
    """Wait for something that a child does."""
    while not condition():
        ended = os.waitpid(child, os.WNOHANG)
        assert ended == (0, 0), f"the child ended: {ended}, {sys.platform}"
        time.sleep(0.01)
