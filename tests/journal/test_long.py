"""A long journal: only what a call, a page or an undo needs is read. Steps are counted, not seconds."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail.cli import log, show
from handrail.journal import Origin, Record, postgres_reader, queries, undo
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import Numbers
from handrail.journal.queries import JournalReader
from handrail.journal.records import BEGIN, END
from handrail.journal.store import SqliteJournal
from handrail.journal.undo_selection import iterate_changes
from handrail.model import Call, Result
from tests.journal.wired import Wired

_COLUMNS = f"seq, {BEGIN}, {END}"


class Counting(JournalReader):
    """Counts the steps of the database, in tens."""

    steps = 0

    def __init__(self, path: str) -> None:
        super().__init__(path)

        def step() -> int:
            Counting.steps += 1
            return 0

        self._index._sync()
        self._index.connection.set_progress_handler(step, 10)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(queries, "JournalReader", Counting)
    monkeypatch.setattr(postgres_reader, "JournalReader", Counting)
    monkeypatch.setattr(undo, "JournalReader", Counting)
    yield
    Counting.steps = 0


def fill(path: str, count: int, workspace: Path, files: bool) -> None:
    """Calls of another session, older than all that come later, and newer than all before."""
    journal = SqliteJournal(path)
    assert (
        journal.record(Record(Call("Read", {}), (), None, result=Result("Read", "ok", ""), origin=Origin("old"))) == ""
    )
    journal.close()
    with JournalReader(path) as reader:
        newest = reader.find_last_call()
    seqs = range(newest + 1, newest + count + 1)
    marks = ", ".join("?" * len(_COLUMNS.split(", ")))
    begin = ("old", os.fsencode(workspace), "native", "Read", "", 1, "{}", 0, "[]", "allow", "r", "w", "")
    end = (0, "ok", None, None, 1.0, None, None, "text " * 100, 500, 500, "[]", "", 0, "", "")
    with sqlite3.connect(path) as db:
        rows = ((files or None, seq, seq, *begin, *end) for seq in seqs)
        db.executemany(f"INSERT INTO calls (changing, {_COLUMNS}) VALUES (?, {marks})", rows)
        if files:
            columns = "seq, attempt, place, path, kept, before, made, after"
            db.executemany(
                f"INSERT INTO files ({columns}) VALUES (?, 0, ?, ?, 0, '', '[]', 'x')",
                ((seq, place, os.fsencode(workspace / str(seq))) for seq in seqs for place in range(3)),
            )
    db.close()
    numbers = Numbers(get_logs_path(path))
    with numbers.locked() as counters:
        numbers.write(counters._replace(calls=seqs[-1]))
    numbers.close()


def options(parser: argparse.ArgumentParser, journal: SqliteJournal, *words: str) -> argparse.Namespace:
    return parser.parse_args([*words, "--journal", journal.path])


def by_undo(session: Wired, journal: SqliteJournal) -> None:
    assert [one.how for one in session.undo(dry_run=True).restored] == ["changed"]


def by_undo_in_a_session(session: Wired, journal: SqliteJournal) -> None:
    assert [one.how for one in session.undo(only="s", dry_run=True).restored] == ["changed"]


def by_call(session: Wired, journal: SqliteJournal) -> None:
    newest = newest_of(journal)
    assert session.undo(call=newest, dry_run=True).calls == (newest,)


def by_since(session: Wired, journal: SqliteJournal) -> None:
    newest = newest_of(journal)
    assert session.undo(since=newest - 1, dry_run=True).calls == (newest,)


def by_session(session: Wired, journal: SqliteJournal) -> None:
    assert len(session.undo(session="s", dry_run=True).calls) == 2


def by_log(session: Wired, journal: SqliteJournal) -> None:
    assert log.run(options(log.parser(), journal, "-w", session.origin.workspace)) == 0


def by_log_of_a_session(session: Wired, journal: SqliteJournal) -> None:
    assert log.run(options(log.parser(), journal, "--session", "s")) == 0


def by_show(session: Wired, journal: SqliteJournal) -> None:
    assert show.run(options(show.parser(), journal, str(newest_of(journal)))) == 0


def by_last_change_of_a_session(session: Wired, journal: SqliteJournal) -> None:
    with Counting(journal.path) as reader:
        assert next(iterate_changes(reader, session="s"))


def newest_of(journal: SqliteJournal) -> int:
    with JournalReader(journal.path) as reader:
        return reader.read_calls(limit=1)[0].seq


WAYS = [
    by_undo,
    by_undo_in_a_session,
    by_call,
    by_since,
    by_session,
    by_log,
    by_log_of_a_session,
    by_show,
    by_last_change_of_a_session,
]


@pytest.mark.parametrize("files", [False, True], ids=["reads", "changes"])
@pytest.mark.parametrize("way", WAYS)
def test_the_work_does_not_grow_with_the_journal(
    way: Callable[[Wired, SqliteJournal], None], files: bool, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = []
    for count in (100, 4000):
        project = tmp_path / f"project{count}"
        project.mkdir()
        journal = SqliteJournal(str(tmp_path / f"{count}.db"))
        fill(journal.path, count, project, files)
        with contextlib.closing(journal), Wired(project, journal) as session:
            session.call("Write", {"file_path": "a", "content": "one\n"})
            session.call("Read", {"file_path": "a"})
            session.call("Edit", {"file_path": "a", "old_string": "one", "new_string": "two"})
            Counting.steps = 0
            way(session, journal)
            steps.append(Counting.steps)
    capfd.readouterr()
    assert 0 < steps[1] < steps[0] * 1.5 + 20, steps


@pytest.mark.parametrize("way", [by_undo, by_undo_in_a_session, by_session, by_last_change_of_a_session])
def test_the_work_does_not_grow_with_what_was_only_read_since(
    way: Callable[[Wired, SqliteJournal], None], tmp_path: Path
) -> None:
    steps = []
    for count in (100, 4000):
        project = tmp_path / f"project{count}"
        project.mkdir()
        journal = SqliteJournal(str(tmp_path / f"{count}.db"))
        with contextlib.closing(journal), Wired(project, journal) as session:
            session.call("Write", {"file_path": "a", "content": "one\n"})
            session.call("Edit", {"file_path": "a", "old_string": "one", "new_string": "two"})
            fill(journal.path, count, project, files=False)
            Counting.steps = 0
            way(session, journal)
            steps.append(Counting.steps)
    assert 0 < steps[1] < steps[0] * 1.5 + 20, steps


def test_a_log_of_everything_holds_one_page_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    fill(journal.path, 2000, tmp_path, files=False)
    pages: list[int] = []

    class Paged(JournalReader):
        def query(self, query: str, values: Sequence[object] = ()) -> list[Any]:
            rows = super().query(query, values)
            pages.append(len(rows))
            return rows

    monkeypatch.setattr(postgres_reader, "JournalReader", Paged)
    assert log.run(options(log.parser(), journal, "--all", "--limit", "0", "--json")) == 0
    assert [json.loads(line)["seq"] for line in capfd.readouterr().out.splitlines()] == list(range(1, 2002))
    assert max(pages) <= 256
    assert log.run(options(log.parser(), journal, "--limit", "700", "--json", "--session", "old")) == 0
    assert [json.loads(line)["seq"] for line in capfd.readouterr().out.splitlines()] == list(range(1302, 2002))


def test_what_another_undo_has_undone_is_not_the_last_change(wired: Callable[..., Wired], project: Path) -> None:
    """An undo from the command line is in the journal under a name of its own."""
    session, other = wired(), wired(name="undo")
    session.call("Write", {"file_path": "a", "content": "one\n"})
    session.call("Write", {"file_path": "b", "content": "one\n"})
    other.undo()
    assert not (project / "b").exists()
    with JournalReader(session.kept.path) as reader:
        last = next(iterate_changes(reader, session="s"), None)
        assert last and last.seq == 1
    again = session.rows()[-1].seq
    other.undo(call=again)  # the undo is undone: the file is there, and its call is the last change again
    with JournalReader(session.kept.path) as reader:
        last = next(iterate_changes(reader, session="s"), None)
        assert last and last.seq == 2
