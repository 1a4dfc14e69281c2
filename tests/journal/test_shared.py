"""Sessions of one process share one connection to a journal, and a journal that cannot be opened stops none of them."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handrail import Session, Settings
from handrail.files import locks
from handrail.journal import JournalFailed, PendingRecord, Record, logs, store
from handrail.journal import store as writing
from handrail.journal.log_lines import get_logs_path, list_logs
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal, Writer
from handrail.journal.undo import CannotUndo, UnknownCall
from handrail.model import Call, Result

BUDGET = 1 << 20
PENDING = PendingRecord(Call("Write", {}), (), None, [])
RECORD = Record(Call("Read", {}), (), None, result=Result("Read", "ok", ""))


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Any:
    before = count_users()
    yield
    assert count_users() == before


def count_users() -> int:
    return sum(writer.users for writer in store._writers.values())


def find_logs(path: str) -> int:
    return len(list_logs(get_logs_path(path)))


def test_a_thousand_journals_are_one_writer_and_lose_no_row(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    descriptors = len(os.listdir("/dev/fd"))
    journals = [SqliteJournal(path, required=False, budget=BUDGET, most_calls=1_000_000) for _ in range(1000)]
    threads = [
        threading.Thread(target=lambda part: [one.record(RECORD) for one in part], args=(journals[n::8],))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert find_logs(path) == 1
    assert len(os.listdir("/dev/fd")) < descriptors + 10
    for one in journals:
        one.close()
        one.close()  # a second time does nothing
    assert len(os.listdir("/dev/fd")) == descriptors
    with JournalReader(path) as reader:
        assert [row.seq for row in reader.read_calls()] == list(range(1, 1001))
        assert reader.verify() is None


def test_the_last_user_closes_and_not_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    one, other = (SqliteJournal(path, required=False, budget=BUDGET, most_calls=1_000_000) for _ in range(2))
    assert one.record(RECORD) == other.record(RECORD) == ""
    one.close()
    assert other.record(RECORD) == ""
    other.close()
    assert find_logs(path) == 1


def test_two_names_of_one_file_are_one_journal(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    names = [tmp_path / "real" / "j.db", tmp_path / "link" / "j.db", tmp_path / "real" / ".." / "link" / "j.db"]
    journals = [SqliteJournal(str(name), required=False, budget=BUDGET, most_calls=1_000_000) for name in names]
    assert [one.record(RECORD) for one in journals] == ["", "", ""]
    assert find_logs(str(names[0])) == 1
    for one in journals:
        one.close()


def test_each_user_has_limits_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "journal.db.logs").write_bytes(b"")
    warns = SqliteJournal(str(tmp_path / "journal.db"), required=False, budget=10, most_calls=1_000_000)
    requires = SqliteJournal(str(tmp_path / "journal.db"), required=True, budget=20, most_calls=1_000_000)
    assert (warns.budget, requires.budget) == (10, 20)
    assert warns.begin(PENDING).warning
    with pytest.raises(JournalFailed):
        requires.begin(PENDING)
    warns.close()
    requires.close()


def test_a_call_that_ends_after_its_session_was_closed_is_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "journal.db")
    journal = SqliteJournal(path, required=False, budget=BUDGET, most_calls=1_000_000)
    token = journal.begin(PENDING)
    journal.close()
    assert journal.record(Record(PENDING.call, (), None, result=RECORD.result, token=token)) == ""
    with JournalReader(path) as reader:
        assert [row.status for row in reader.read_calls()] == ["ok"]


def test_a_child_of_a_fork_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path) -> None:
    journal = SqliteJournal(str(tmp_path / "journal.db"), required=False, budget=BUDGET, most_calls=1_000_000)
    assert journal.record(RECORD) == ""
    holds, leave = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        holds.set()
        leave.wait()

    def hold() -> None:
        journal._writer.use(wait)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if journal.record(RECORD) == "" else 1)
    assert os.waitpid(child, 0)[1] == 0
    leave.set()
    thread.join()
    assert journal.record(RECORD) == ""
    journal.close()
    with JournalReader(journal.path) as reader:
        assert len(reader.read_calls()) == 3
        assert reader.verify() is None


def a_file_for_the_logs(path: Path) -> None:
    Path(get_logs_path(str(path))).write_bytes(b"")


def below_a_file(path: Path) -> None:
    path.parent.rmdir()
    path.parent.write_bytes(b"")


def a_link_to_itself(path: Path) -> None:
    logs = Path(get_logs_path(str(path)))
    logs.symlink_to(logs)


def below_a_directory_without_rights(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write into any directory")
    path.parent.chmod(0o500)


SPOILED = [
    a_file_for_the_logs,
    below_a_file,
    a_link_to_itself,
    below_a_directory_without_rights,
]


def refusing(error: Exception) -> Callable[[pytest.MonkeyPatch], None]:
    """A file system on which the logs cannot be locked."""

    def refuse(*_: Any) -> Any:
        raise error

    return lambda monkeypatch: monkeypatch.setattr(logs, "lock_file", refuse)


ERRORS = [
    OSError(5, "Input/output error"),
    OSError(30, "Read-only file system"),
    OSError(37, "No locks available"),
    OSError(116, "Stale file handle"),
]


@pytest.fixture(params=[*SPOILED, *ERRORS], ids=lambda one: getattr(one, "__name__", None) or str(one))
def unusable(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The path of a journal that cannot be opened, for one of many reasons."""
    folder = tmp_path / "state"
    folder.mkdir()
    path = folder / "journal.db"
    if callable(request.param):
        request.param(path)
    else:
        refusing(request.param)(monkeypatch)
    yield str(path)
    if folder.is_dir():
        folder.chmod(0o700)


@contextlib.contextmanager
def session_on(project: Path, path: str, required: bool) -> Iterator[tuple[Session, SqliteJournal]]:
    journal = SqliteJournal(path, required=required, budget=BUDGET, most_calls=1_000_000)
    settings = Settings(durable=False, raise_bugs=True)
    with contextlib.closing(journal), Session(project, journal=journal, settings=settings) as session:
        yield session, journal


def test_a_journal_that_cannot_be_opened_is_noted_on_each_result_and_stops_none(project: Path, unusable: str) -> None:
    with session_on(project, unusable, required=False) as (session, journal):
        results = [
            session.call("Write", {"file_path": "f", "content": "one\n"}),
            session.call("Read", {"file_path": "f"}),
            session.call("Edit", {"file_path": "f", "old_string": "one", "new_string": "two"}),
            session.call("Read", {"file_path": "missing"}),
            session.call("Bash", {"command": "true"}),
        ]
        assert [result.status for result in results] == ["partial", "partial", "partial", "error", "partial"]
        for result in results:
            assert [note.code for note in result.notes if note.code == "journal"] == ["journal"]
            assert journal.failure in "".join(note.text for note in result.notes)
        assert (project / "f").read_bytes() == b"two\n"
        with pytest.raises((CannotUndo, UnknownCall, JournalFailed)) as raised:
            session.undo()
        if isinstance(raised.value, CannotUndo):
            message = f"the journal cannot be opened: {journal.failure}; nothing can be undone"
            assert str(raised.value) == message


def test_a_journal_that_cannot_be_opened_stops_every_change_where_it_is_required(project: Path, unusable: str) -> None:
    (project / "f").write_bytes(b"one\n")
    with session_on(project, unusable, required=True) as (session, _):
        assert session.call("Read", {"file_path": "f"}).ok  # nothing is changed by it
        for tool, arguments in (
            ("Write", {"file_path": "g", "content": "one\n"}),
            ("Edit", {"file_path": "f", "old_string": "one", "new_string": "two"}),
            ("Bash", {"command": "echo two > f"}),
            ("Bash", {"command": 'python3 -c \'open("f", "w")\''}),
            ("Bash", {"command": "touch g"}),
            ("Bash", {"command": "make all; touch h"}),
        ):
            result = session.call(tool, arguments)
            assert result.error and result.error.code == "journal_failed", result.text
        assert session.call("Bash", {"command": "ls"}).ok
    assert {path.name: path.read_bytes() for path in project.iterdir()} == {"f": b"one\n"}


@pytest.mark.parametrize("path", ["no\0file.db", "half \ud800.db"])
def test_a_name_that_no_file_can_have_is_a_failure_of_the_journal(project: Path, tmp_path: Path, path: str) -> None:
    with session_on(project, str(tmp_path / path), required=False) as (session, journal):
        result = session.call("Write", {"file_path": "f", "content": "one\n"})
        assert (result.status, journal.failure) == ("partial", "Invalid argument")


def test_the_reason_is_named_by_undo_where_there_is_no_file_at_all(project: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    with session_on(project, str(tmp_path / "state" / "journal.db"), required=False) as (session, _):
        session.call("Write", {"file_path": "f", "content": "one\n"})
        with pytest.raises(CannotUndo) as raised:
            session.undo()
    wanted = "the journal cannot be opened: Not a directory; nothing can be undone"
    assert str(raised.value) in (wanted, wanted.replace("Not a directory", "File exists"))


def test_a_journal_is_used_again_as_soon_as_it_can_be(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    a_file_for_the_logs(path)
    with session_on(project, str(path), required=False) as (session, journal):
        assert session.call("Write", {"file_path": "f", "content": "one\n"}).status == "partial"
        os.unlink(get_logs_path(str(path)))
        assert session.call("Write", {"file_path": "g", "content": "one\n"}).status == "ok"
        assert journal.failure == ""
        assert [one.path for one in session.undo().restored] == [str(project / "g")]


def test_a_failure_that_takes_long_is_not_waited_for_by_every_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    opened: list[str] = []

    def slow(path: str, *_: int) -> Any:
        opened.append(path)
        clock[0] += 12.0
        raise TimeoutError(110, "it is locked")

    monkeypatch.setattr(writing, "LogWriter", slow)
    monkeypatch.setattr(writing, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    writer = Writer(str(tmp_path / "journal.db"))
    for _ in range(100):
        with pytest.raises(OSError, match="it is locked"):
            writer.use(lambda _: None)
        clock[0] += 0.1
    assert len(opened) == 1
    clock[0] += 30.0
    with pytest.raises(OSError, match="it is locked"):
        writer.use(lambda _: None)
    assert len(opened) == 2


@pytest.mark.parametrize("home", [None, "home", ".", "~"])
@pytest.mark.parametrize("state", [None, "state", "~/state"])
def test_without_a_home_directory_nothing_is_kept_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None, state: str | None
) -> None:
    work, temp = tmp_path / "work", tmp_path / "temp"
    work.mkdir()
    temp.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("HANDRAIL_STATE")
    monkeypatch.setattr(tempfile, "tempdir", str(temp))
    monkeypatch.setattr("pwd.getpwuid", lambda _: dict[str, str]()["no entry"])
    for name, value in (("HOME", home), ("XDG_STATE_HOME", state)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    directory = Path(locks.state_directory())
    assert directory.parent == temp and directory.is_dir()
    assert list(work.iterdir()) == []
