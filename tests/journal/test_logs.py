"""Each record is one line of a log before its call is answered: in the order of all calls, once, whatever happens."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail.journal import Record, logs
from handrail.journal.browse import CallFilter, read_ended
from handrail.journal.log_lines import get_logs_path, read_heads
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from handrail.model import Call, Result
from tests.journal.lines import find_logs
from tests.journal.wired import Wired, open_like_another_process
from tests.sizes import pick, spread

Make = Callable[..., Wired]


def read(session: Wired, *names: str) -> None:
    for name in names:
        session.call("Read", {"file_path": name})


def recorded(path: str) -> list[str]:
    with JournalReader(path) as reader:
        assert reader.list_broken() == []
        return [row.arguments["file_path"] for row in reader.read_calls()]


def make_record(name: str) -> Record:
    return Record(Call("Read", {"file_path": name}), (), None, result=Result("Read", "ok", ""))


def test_a_reader_that_stays_open_sees_each_new_call(wired: Make, journal: SqliteJournal) -> None:
    session = wired()
    read(session, "a")
    with JournalReader(journal.path) as reader:
        since = reader.read_newest_entry()
        for name in ("b", "c"):
            read(session, name)
            ended, since = read_ended(reader, CallFilter(), since)
            rows = map(reader.find_call, ended)
            assert [row.arguments["file_path"] for row in rows if row] == [name]
        assert [tool.calls for tool in reader.compute_stats()[0]] == [3]


def test_a_session_that_ends_leaves_its_log_to_the_next_and_two_at_once_have_one_each(
    wired: Make, tmp_path: Path
) -> None:
    path = str(tmp_path / "kept" / "journal.db")
    for name in ("a", "b"):
        journal = open_like_another_process(path)
        assert journal.record(make_record(name)) == ""
        journal.close()
    assert len(find_logs(path)) == 1
    first, second = open_like_another_process(path), open_like_another_process(path)
    for one, name in ((first, "c"), (second, "d"), (first, "e")):
        assert one.record(make_record(name)) == ""
    first.close()
    second.close()
    assert len(find_logs(path)) == 2
    assert recorded(path) == ["a", "b", "c", "d", "e"]


def test_a_log_that_is_large_is_followed_by_another(
    wired: Make, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "SEGMENT", 3_000)
    session = wired()
    for number in range(12):
        session.call("Write", {"file_path": f"f{number}", "content": "x\n"})
    assert len(find_logs(journal.path)) > 2
    assert recorded(journal.path) == [f"f{number}" for number in range(12)]


def test_an_index_that_is_deleted_under_a_reader_is_made_again(wired: Make, journal: SqliteJournal) -> None:
    session = wired()
    read(session, "a", "b")
    with JournalReader(journal.path) as reader:
        before = reader.read_calls()
        for file in Path(journal.path).parent.glob("journal.db*"):
            if file.is_file():
                file.unlink()
        assert reader.read_calls() == before
        read(session, "c")
        assert [row.seq for row in reader.read_calls()] == [1, 2, 3]


@pytest.mark.parametrize("spoil", [Path.mkdir, lambda path: path.symlink_to(path)], ids=["directory", "loop"])
def test_where_there_can_be_no_index_the_logs_are_read(
    wired: Make, journal: SqliteJournal, spoil: Callable[[Path], None]
) -> None:
    Path(journal.path).parent.mkdir(parents=True)
    spoil(Path(journal.path))
    session = wired()
    session.call("Write", {"file_path": "a", "content": "x\n"})
    with JournalReader(journal.path) as reader:
        read(session, "b")
        assert [row.seq for row in reader.read_calls()] == [1, 2]
    assert session.undo().restored


def test_a_log_that_is_cut_at_any_byte_has_every_call_before_or_says_what_is_lost(
    wired: Make, journal: SqliteJournal
) -> None:
    session = wired()
    read(session, "a")
    session.call("Write", {"file_path": "b", "content": "x\n"})
    read(session, "c")
    journal.close()
    (log,) = find_logs(journal.path)
    raw = log.read_bytes()
    ends = [place + 1 for place, byte in enumerate(raw) if byte == 10]
    heads = read_heads(get_logs_path(journal.path))
    assert heads[1].size == len(raw)
    whole = [row.seq for row in session.rows()]
    with JournalReader(journal.path) as reader:
        for size in spread(range(len(raw)), 60):
            log.write_bytes(raw[:size])
            assert reader.list_broken(), size
            os.unlink(journal.path)  # what it knows of damage
            numbers = [row.seq for row in reader.read_calls()]
            assert numbers == whole[: len(numbers)]
            left = sum(end <= size for end in ends)
            assert len(numbers) == [0, 0, 1, 2, 2, 3][left]
        log.write_bytes(raw)
        os.unlink(journal.path)
        assert reader.list_broken() == []


@pytest.mark.parametrize("torn", [False, True])
def test_a_disk_that_is_full_at_any_byte_of_a_record_fails_the_call_and_harms_no_other(
    wired: Make, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch, project: Path, torn: bool
) -> None:
    session = wired()
    read(session, "a")
    real = os.write
    room = -1

    class Calls:
        """The functions of `os`, on a disk that takes so many more bytes."""

        def __getattr__(self, name: str) -> Any:
            replaced = {"write": write, "ftruncate": truncate if torn else os.ftruncate}
            return replaced.get(name) or getattr(os, name)

    def truncate(fd: int, size: int) -> None:
        """A part of a line stays."""
        if room >= 0 and size < os.fstat(fd).st_size:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.ftruncate(fd, size)

    def write(fd: int, data: bytes) -> int:
        if room < 0:
            return real(fd, data)
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[:room])

    monkeypatch.setattr(logs, "os", Calls())
    size = find_logs(journal.path)[0].stat().st_size
    for room in spread(range(size // 2), 25):
        result = session.call("Write", {"file_path": "f", "content": "x\n"})
        assert result.error and result.error.code == "journal_failed", room
        assert not (project / "f").exists()
    room = -1
    read(session, "b")
    assert recorded(journal.path) == ["a", "b"]
    with JournalReader(journal.path) as reader:
        assert reader.list_broken() == []


OPERATIONS = ("write", "pwrite", "ftruncate", "open", "flock")


def _run_and_die(session: Wired, at: int, answered: int) -> None:
    """In a child: calls, each of which is reported when it is answered, until the operation of that number."""
    left = at

    class Calls:
        """The functions of a module that the journal uses, some of which may be the last."""

        def __init__(self, module: Any) -> None:
            self._module = module

        def __getattr__(self, name: str) -> Any:
            real = getattr(self._module, name)
            if name not in OPERATIONS:
                return real

            def call(*words: Any) -> Any:
                nonlocal left
                left -= 1
                if left < 0:
                    if name == "write":
                        real(words[0], words[1][: len(words[1]) // 2])  # torn
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*words)

            return call

    logs.os = Calls(os)  # type: ignore[assignment,attr-defined]
    logs.fcntl = Calls(logs.fcntl)  # type: ignore[assignment,attr-defined]
    for number, tool in enumerate(("Read", "Read", "Write", "Read", "Read", "Write", "Read")):
        more = {"content": "x\n"} if tool == "Write" else {}
        session.call(tool, {"file_path": f"f{number}", **more})
        os.write(answered, b".")
    os._exit(0)


@pytest.mark.parametrize("at", spread(range(80), 24))
def test_a_kill_at_any_point_loses_and_doubles_no_answered_call(wired: Make, journal: SqliteJournal, at: int) -> None:
    session = wired()
    read(session, "first")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _run_and_die(session, at, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with open(reading, "rb") as file:
        answered = len(file.read())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) in (0, -signal.SIGKILL)
    names = recorded(journal.path)
    assert names[0] == "first"
    assert names[1:] in (
        [f"f{number}" for number in range(answered)],
        [f"f{number}" for number in range(answered + 1)],  # killed between record and answer
    )
    read(session, "last")
    assert recorded(journal.path)[-1] == "last"


def test_a_rebuilt_index_is_the_same_whatever_came_meanwhile(wired: Make, journal: SqliteJournal) -> None:
    session = wired()
    for number in range(pick(10, 100)):
        session.call("Write", {"file_path": f"f{number % 3}", "content": f"{number}\n"})
        session.rows()  # the index is brought up to date in many steps
        if number % 4 == 0:
            session.undo()
    with JournalReader(journal.path) as reader:
        before = [(row, reader.read_files(row.seq)) for row in reader.read_calls()]
        reader._index.rebuild()
        assert [(row, reader.read_files(row.seq)) for row in reader.read_calls()] == before
        assert reader.list_broken() == []


def test_numbers_are_used_once_by_threads_and_journals_at_once(tmp_path: Path) -> None:
    path = str(tmp_path / "kept" / "journal.db")
    journals = [open_like_another_process(path) for _ in range(4)]
    threads = [
        threading.Thread(target=lambda one: [one.record(make_record("x")) for _ in range(50)], args=(one,))
        for one in journals
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in journals:
        one.close()
    with JournalReader(path) as reader:
        assert [row.seq for row in reader.read_calls()] == list(range(1, 401))
        assert reader.list_broken() == []
    shutil.rmtree(tmp_path / "kept")
