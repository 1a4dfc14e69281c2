"""A journal that cannot be written stops changes, or is told of, as configured; the project is never harmed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal import JournalFailed, PendingRecord
from handrail.journal.log_lines import get_logs_path
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from handrail.model import Call
from tests.command import TIMEOUT
from tests.journal.wired import Wired, tree

ROOT = Path(__file__).resolve().parents[2]


def file_for_logs(path: Path) -> None:
    Path(get_logs_path(str(path))).write_bytes(b"no directory")


def folder_for_numbers(path: Path) -> None:
    Path(get_logs_path(str(path)), "numbers").mkdir(parents=True)


SPOILED = [file_for_logs, folder_for_numbers]


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unusable_journal_is_told_of_and_calls_go_on(
    wired: Callable[..., Wired], project: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "bad.db")
    session = wired(journal=SqliteJournal(str(tmp_path / "bad.db")))
    result = session.call("Write", {"file_path": "f", "content": "x"})
    assert result.status == "partial" and "journal" in {note.code for note in result.notes}
    assert session.both.warning
    assert (project / "f").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unusable_journal_stops_changes_where_it_is_required(
    wired: Callable[..., Wired], project: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "bad.db")
    (project / "g").write_text("x\n", encoding="utf-8")
    session = wired(journal=SqliteJournal(str(tmp_path / "bad.db"), required=True))
    result = session.call("Write", {"file_path": "f", "content": "x"})
    assert result.error
    assert result.error.code == "journal_failed"
    assert not (project / "f").exists()
    assert session.call("Read", {"file_path": "g"}).ok


@pytest.mark.parametrize("spoil", SPOILED)
def test_an_unusable_journal_cannot_be_read_and_is_left_as_it_is(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    bad = tmp_path / "bad.db"
    spoil(bad)
    was = tree(tmp_path)
    SqliteJournal(str(bad)).begin(PendingRecord(Call("Write", {}), (), None, []))
    with pytest.raises(JournalFailed) as raised:
        JournalReader(str(bad)).read_calls()
    assert raised.value.facts["journal"] == str(bad)
    assert tree(tmp_path) == was


def test_a_journal_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    journal = SqliteJournal(str(tmp_path / "file" / "journal.db"), required=True)
    with pytest.raises(JournalFailed, match=r"the journal .*/file/journal\.db cannot be used: ."):
        journal.begin(PendingRecord(Call("Write", {}), (), None, []))


def test_a_journal_that_is_removed_under_a_running_session_is_begun_anew(
    wired: Callable[..., Wired], journal: SqliteJournal, project: Path
) -> None:
    session = wired()
    session.call("Write", {"file_path": "a", "content": "x"})
    shutil.rmtree(Path(journal.path).parent)
    session.call("Write", {"file_path": "b", "content": "x"})
    assert session.both.warning == ""
    assert [row.arguments["file_path"] for row in session.rows()] == ["b"]


def test_a_forked_child_opens_the_journal_for_itself(journal: SqliteJournal, wired: Callable[..., Wired]) -> None:
    session = wired()
    session.call("Read", {"file_path": "a"})
    child = os.fork()
    if child == 0:
        session.call("Read", {"file_path": "b"})
        os._exit(0 if not session.both.warning else 1)
    assert os.waitpid(child, 0)[1] == 0
    session.call("Read", {"file_path": "c"})
    assert [row.arguments["file_path"] for row in session.rows()] == ["a", "b", "c"]
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None


@pytest.mark.parametrize("how", ["warn", "required"])
def test_a_full_disk_stops_files_and_commands_and_harms_neither_project_nor_journal(
    project: Path, journal: SqliteJournal, how: str, wired: Callable[..., Wired]
) -> None:
    command = [sys.executable, "-m", "tests.journal.full_driver", str(project), journal.path, how]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=TIMEOUT)
    assert run.returncode == 0, run.stderr
    ends = json.loads(run.stdout)
    full = next(number for number, (_, warning, _) in enumerate(ends) if warning)
    assert full > 0
    for code, warning, stands in ends:
        assert (code == "ok") == stands
        assert stands or code in ("journal_failed", "disk_full"), warning
    assert {code for code, _, _ in ends[-2:]} <= {"journal_failed", "disk_full"}
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
        rows = len(reader.read_calls())
    wired().call("Read", {"file_path": "f"})  # there is room again
    with JournalReader(journal.path) as reader:
        assert reader.verify() is None
        assert len(reader.read_calls()) == rows + 1
