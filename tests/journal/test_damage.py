"""A damaged journal is set aside and said so; a damaged row stops nothing but itself."""

from __future__ import annotations

import json
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
from handrail.journal.database import list_set_aside
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.command import handrail
from tests.sizes import pick, spread

CALLS = 24
TEXTS = ("session", "dialect", "tool", "call_id", "arguments", "touches", "decision", "status", "output", "notes")


def open_session(project: Path) -> Session:
    return Session(project, policy=AllowAll(), settings=Settings(durable=False, sandbox="off", raise_bugs=True))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def path(project: Path) -> Path:
    """A journal with some calls, which nobody has open."""
    with open_session(project) as session:
        for number in range(CALLS):
            session.call("Write", {"file_path": f"f{number}", "content": f"{number}\n" * 200}, id=f"call {number + 1}")
    return Path(get_default_path(state_directory()))


def check_that_it_works_again(project: Path, path: Path) -> bool:
    """Make calls: each is answered and recorded, and can be undone. Whether the journal was said to be set aside."""
    codes = set()
    before = list_set_aside(str(path))
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
    assert ("journal_set_aside" in codes) == (list_set_aside(str(path)) != before)
    return "journal_set_aside" in codes


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
    "no salt": run_sql("DELETE FROM meta"),
    "no head": run_sql("DELETE FROM head"),
    "wrong head": run_sql("UPDATE head SET n = 'many'"),
    "head without end": run_sql("UPDATE head SET n = 9223372036854775807"),
    "head from before": run_sql("UPDATE head SET n = 2, seq = 1"),
    "strange format": run_sql("PRAGMA user_version = 16777217"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_journal_is_set_aside_and_the_answer_and_doctor_say_so(
    project: Path, path: Path, damage: str
) -> None:
    DAMAGE[damage](path)
    spoiled = path.read_bytes()
    assert check_that_it_works_again(project, path)
    (aside,) = list_set_aside(str(path))
    assert len(Path(aside).read_bytes()) >= len(spoiled)
    with JournalReader(str(path)) as reader:
        assert reader.verify() is None
    assert not check_that_it_works_again(project, path)  # the next session has a whole one
    run = handrail("doctor", "--json", cwd=project)
    (check,) = [one for one in json.loads(run.stdout)["checks"] if one["name"] == "journal"]
    assert run.returncode == 1
    assert aside in check["detail"] and not check["ok"]


@pytest.mark.parametrize("column", TEXTS)
def test_a_flipped_byte_in_a_text_spoils_one_row_alone(project: Path, path: Path, column: str) -> None:
    number = 7
    db = sqlite3.connect(path, isolation_level=None)
    text = db.execute(f"SELECT CAST({column} AS BLOB) FROM calls WHERE seq = ?", (number,)).fetchone()[0] or b"x"
    spoiled = [text[:place] + bytes([text[place] ^ 0x80]) + text[place + 1 :] for place in range(len(text))]
    for value in spread(spoiled, 2):
        db.execute(f"UPDATE calls SET {column} = CAST(? AS TEXT) WHERE seq = ?", (value, number))
        log = handrail("log", "--all", "--limit", "0", "--json", cwd=project)
        assert [json.loads(line)["seq"] for line in log.stdout.splitlines()] == list(range(1, CALLS + 1)), log.stderr
        assert handrail("log", cwd=project).returncode == 0
        with JournalReader(str(path)) as reader:
            assert [broken.seq for broken in reader.list_broken()] == [number]
            assert len(read_page(reader, CallFilter()).rows) == CALLS
    db.close()
    assert handrail("log", "verify", cwd=project).returncode == 1
    assert handrail("doctor", cwd=project).returncode == 1
    with open_session(project) as session:
        for other in (number + 1, number - 1):
            assert session.undo(call=other).restored
            assert not (project / f"f{other - 1}").exists()
    assert not check_that_it_works_again(project, path)


def test_flipped_bytes_anywhere_stop_no_call_and_hide_no_other_row(project: Path, path: Path, tmp_path: Path) -> None:
    """Wherever the byte is, the journal is read as far as it can be, or is set aside."""
    whole, choose = tmp_path / "whole", random.Random(5)
    shutil.copytree(path.parent, whole)
    size = path.stat().st_size
    hidden = 0
    for _ in range(pick(40, 600)):
        shutil.rmtree(path.parent)
        shutil.copytree(whole, path.parent)
        raw = bytearray(path.read_bytes())
        place = choose.randrange(size)
        raw[place] ^= 1 << choose.randrange(8)
        path.write_bytes(raw)
        try:
            with JournalReader(str(path)) as reader:
                rows = reader.read_calls()
                hidden += len(rows) < CALLS - 8  # a page has only so many rows
                reader.list_broken()
                read_page(reader, CallFilter())
        except JournalFailed:
            hidden += 1
        check_that_it_works_again(project, path)
    assert hidden <= pick(40, 600) // 10


def test_a_damaged_page_hides_the_rows_on_it_and_no_others(project: Path, path: Path) -> None:
    db = sqlite3.connect(path, isolation_level=None)
    size = db.execute("PRAGMA page_size").fetchone()[0]
    db.close()
    pages = path.stat().st_size // size
    raw = path.read_bytes()
    readable = 0
    for page in spread(range(1, pages), pick(12, pages)):
        path.write_bytes(raw[: page * size] + bytes(size) + raw[(page + 1) * size :])
        try:
            with JournalReader(str(path)) as reader:
                readable += len(reader.read_calls()) >= CALLS // 2
        except JournalFailed:
            pass
    assert readable >= len(spread(range(1, pages), pick(12, pages))) * 2 // 3
