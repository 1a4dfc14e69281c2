"""Fixtures for the journal: a project, a journal beside it, and sessions that write to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(str(tmp_path / "kept" / "journal.db"))
    yield opened
    opened.close()


@pytest.fixture
def wired(project: Path, journal: SqliteJournal) -> Iterator[Callable[..., Wired]]:
    collected: list[Wired] = []

    def make(journal: SqliteJournal = journal, **options: Any) -> Wired:
        collected.append(Wired(project, journal, **options))
        return collected[-1]

    yield make
    for session in collected:
        session.close()


@pytest.fixture
def reader(journal: SqliteJournal) -> Callable[[], JournalReader]:
    return lambda: JournalReader(journal.path)
