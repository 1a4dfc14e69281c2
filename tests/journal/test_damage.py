"""Damage is contained and reported: the index is made again, a bad log keeps its readable lines, all else goes on."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import AllowAll, Session, Settings
from handrail.files.locks import state_directory
from handrail.journal import JournalFailed
from handrail.journal.browse import CallFilter, read_page
from handrail.journal.log_lines import get_logs_path
from handrail.journal.queries import JournalReader
from handrail.journal.repair import list_damaged
from handrail.journal.store import get_default_path
from tests.command import handrail
from tests.journal.lines import find_line, find_logs
from tests.sizes import pick, spread

CALLS = 24


def open_session(project: Path) -> Session:
    return Session(project, policy=AllowAll(), settings=Settings(durable=False, sandbox="off", raise_bugs=True))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def path(project: Path) -> Path:
    """A journal with some calls, which nobody has open, and its index."""
    with open_session(project) as session:
        for number in range(CALLS):
            session.call("Write", {"file_path": f"f{number}", "content": f"{number}\n" * 200}, id=f"call {number + 1}")
    path = Path(get_default_path(state_directory()))
    with JournalReader(str(path)) as reader:
        assert reader.verify() is None
    return path


def check_that_it_works_again(project: Path, path: Path) -> bool:
    """Make calls: each is answered and recorded, and can be undone. Whether an answer said that a log is damaged."""
    codes = set()
    for number in range(3):
        (project / f"new{number}").unlink(missing_ok=True)
    with open_session(project) as session:
        for number in range(3):
            result = session.call("Write", {"file_path": f"new{number}", "content": "x\n"}, id=f"new {number}")
            assert result.ok, result.text
            codes |= {note.code for note in result.notes}
        session.call("Read", {"file_path": "new0"}, id="read")
        assert session.undo().restored[0].path.endswith("new2")
        assert not (project / "new2").exists()
    assert "journal" not in codes
    with JournalReader(str(path)) as reader:
        assert [row.call_id for row in reader.read_calls(limit=5)] == ["new 0", "new 1", "new 2", "read", ""]
    return "journal_damaged" in codes


def run_sql(*statements: str) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        db = sqlite3.connect(path, isolation_level=None)
        for statement in statements:
            db.execute(statement)
        db.close()

    return spoil


def truncate(share: float) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        with path.open("r+b") as file:
            file.truncate(int(path.stat().st_size * share))

    return spoil


def overwrite(start: float, end: float, byte: bytes | None = None) -> Callable[[Path], None]:
    """Replace a part of the file by a byte, or by garbage."""

    def spoil(path: Path) -> None:
        size = path.stat().st_size
        length = int(size * end) - int(size * start)
        with path.open("r+b") as file:
            file.seek(int(size * start))
            file.write(byte * length if byte else random.Random(length).randbytes(length))

    return spoil


def write_text(path: Path) -> None:
    path.write_text("not a database\n" * 500, encoding="ascii")


DAMAGE: dict[str, Callable[[Path], None]] = {
    **{f"cut at {share}": truncate(share) for share in (0.0, 0.0005, 0.02, 0.2, 0.5)},
    "zeroed": overwrite(0, 1, b"\0"),
    "zeroed header": overwrite(0, 0.001, b"\0"),
    "garbage": overwrite(0, 1),
    "garbage in the first pages": overwrite(0, 0.1),
    "text": write_text,
    "no tables": run_sql("DROP TABLE calls", "DROP TABLE files"),
    "other format": run_sql("PRAGMA user_version = 99"),
    "strange format": run_sql("PRAGMA user_version = 16777217"),
    "a size of another type": run_sql("UPDATE logs SET size = 'x'"),
    "a place of another type": run_sql("UPDATE calls SET entry = 'x' WHERE seq = 3"),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_index_is_made_again_and_nothing_is_lost(project: Path, path: Path, damage: str) -> None:
    DAMAGE[damage](path)
    assert not check_that_it_works_again(project, path)
    with JournalReader(str(path)) as reader:
        assert reader.verify() is None
        assert [row.seq for row in reader.read_calls()] == list(range(1, CALLS + 6))
    with open_session(project) as session:
        assert session.undo(call=3).restored
    assert not (project / "f2").exists()
    assert handrail("doctor", cwd=project).returncode == 0


def test_flipped_bytes_anywhere_in_the_index_stop_no_call_and_lose_none(
    project: Path, path: Path, tmp_path: Path
) -> None:
    whole, choose = tmp_path / "whole", random.Random(5)
    shutil.copytree(path.parent, whole)
    for _ in range(pick(30, 600)):
        shutil.rmtree(path.parent)
        shutil.copytree(whole, path.parent)
        raw = bytearray(path.read_bytes())
        raw[choose.randrange(len(raw))] ^= 1 << choose.randrange(8)
        path.write_bytes(raw)
        with JournalReader(str(path)) as reader:
            try:
                reader.read_calls()
                read_page(reader, CallFilter())
                reader.list_broken()
            except JournalFailed:  # found on the way: the index is made again
                pass
        with JournalReader(str(path)) as reader:
            reader.list_broken()
            assert reader.list_broken() == []
            assert len(reader.read_calls()) == CALLS
    check_that_it_works_again(project, path)


def change_line(log: Path) -> None:
    """The beginning of call 7 is of another tool."""
    lines = log.read_bytes().splitlines(keepends=True)
    place = find_line(log, 7, "begin")
    lines[place] = lines[place].replace(b'"Write"', b'"Wrote"')
    log.write_bytes(b"".join(lines))


def garble_line(log: Path) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    place = find_line(log, 7, "end")
    lines[place] = b"\xff" * 40 + b"\n"
    log.write_bytes(b"".join(lines))


LOGS = {
    "changed line": change_line,
    "garbled line": garble_line,
    "cut end": truncate(0.8),
    "garbage inside": overwrite(0.5, 0.6),
    "zeroed beginning": overwrite(0, 0.1, b"\0"),
    "zeroed": overwrite(0, 1, b"\0"),
}


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("damage", LOGS)
def test_damage_of_a_log_is_reported_and_repaired_and_stops_nothing(
    project: Path, path: Path, damage: str, indexed: bool
) -> None:
    (log,) = find_logs(str(path))
    LOGS[damage](log)
    if not indexed:
        path.unlink()
    check_that_it_works_again(project, path)
    assert handrail("log", "verify", cwd=project).returncode == 1
    assert b"handrail journal repair" in handrail("log", cwd=project).stderr or indexed
    run = handrail("doctor", "--json", cwd=project)
    (check,) = [one for one in json.loads(run.stdout)["checks"] if one["name"] == "journal"]
    assert run.returncode == 1 and not check["ok"]
    with JournalReader(str(path)) as reader:
        before = {row.call_id for row in reader.read_calls()} if not indexed else set()
    run = handrail("journal", "repair", cwd=project)
    assert run.returncode == 0 and b"entries kept" in run.stdout, run.stderr
    (aside,) = list_damaged(str(path))
    with JournalReader(str(path)) as reader:
        assert reader.list_broken() == []
        after = {row.call_id for row in reader.read_calls()}
        assert "Wrote" not in {row.tool for row in reader.read_calls()}  # a changed line does not become a good one
        assert after >= before and {"new 0", "new 1", "new 2", "read"} <= after
        missing = CALLS - sum(name.startswith("call") for name in after)
        assert missing <= {"changed line": 1, "garbled line": 0, "zeroed": CALLS}.get(damage, CALLS // 3)
    assert aside.encode() in handrail("doctor", "--json", cwd=project).stdout
    os.unlink(aside)
    assert handrail("doctor", cwd=project).returncode == 0
    assert not check_that_it_works_again(project, path)


@pytest.mark.parametrize("damage", ["cut end", "zeroed"])
def test_an_answer_says_that_a_log_lost_its_end(project: Path, path: Path, damage: str) -> None:
    (log,) = find_logs(str(path))
    LOGS[damage](log)
    assert check_that_it_works_again(project, path) == (damage == "cut end")


@pytest.mark.parametrize("damage", ["cut at 0.0", "zeroed", "garbage", "text", "deleted"])
def test_a_damaged_number_file_is_made_again(project: Path, path: Path, damage: str) -> None:
    DAMAGE[damage](Path(get_logs_path(str(path)), "numbers"))
    check_that_it_works_again(project, path)
    with JournalReader(str(path)) as reader:
        assert [row.seq for row in reader.read_calls()] == list(range(1, CALLS + 6))
        assert reader.list_broken() == []


def test_a_damaged_log_of_one_session_hides_no_call_of_another(project: Path, path: Path) -> None:
    with open_session(project) as one:
        one.call("Write", {"file_path": "one", "content": "x\n"}, id="one")
        pid = os.fork()
        if pid == 0:
            try:
                with open_session(project) as other:
                    other.call("Write", {"file_path": "two", "content": "x\n"}, id="two")
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
    first, second = find_logs(str(path))
    overwrite(0, 1, b"\0")(first)
    path.unlink()
    with JournalReader(str(path)) as reader:
        assert [row.call_id for row in reader.read_calls()] == ["two"]
        assert reader.list_broken()
    for number in spread(range(second.stat().st_size), 5):
        raw = second.read_bytes()
        second.write_bytes(raw[:number] + b"\0" + raw[number + 1 :])
        with JournalReader(str(path)) as reader:
            assert reader.list_broken()
        second.write_bytes(raw)
