"""The calls of a project, in journals of any order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail import Call, Result
from handrail.journal import Origin, Record
from handrail.journal.queries import JournalReader, is_of_project
from handrail.journal.store import SqliteJournal

PLACES = ["/", "/w", "/w/a", "/w/a/b", "/w/a/b/c", "/w/a-b", "/w/ab", "/w/a0", "/x", "/wé/a", "/w/a/é"]


@pytest.mark.parametrize("seed", range(3))
def test_the_newest_calls_of_a_project(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    where = [chance.choice(PLACES) for _ in range(120)]
    for place in where:
        record = Record(Call("Read", {}), (), None, (), Origin("s", "native", place), result=Result("Read", "ok", ""))
        assert journal.record(record) == ""
    journal.close()
    with JournalReader(journal.path) as reader:
        for project in [*PLACES, "/nowhere"]:
            expected = [seq for seq, place in enumerate(where, 1) if is_of_project(place, project)]
            for limit in (1, 7, 1000, -1):
                rows = [row.seq for row in reader.iterate_calls(limit=limit, project=project)]
                assert rows == (expected[-limit:] if limit > 0 else expected), (project, limit)


def test_the_calls_of_an_old_project_are_not_searched_among_all(tmp_path: Path) -> None:
    journal = SqliteJournal(str(tmp_path / "journal.db"))
    for place in ["/old", *["/new"] * 50]:
        record = Record(Call("Read", {}), (), None, (), Origin("s", "native", place), result=Result("Read", "ok", ""))
        journal.record(record)
    journal.close()
    with JournalReader(journal.path) as reader:
        plans: list[str] = []
        real, execute = reader.db, reader.db.execute

        class Explained:
            """A connection that also notes how each query is answered."""

            def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
                if query.startswith("SELECT seq FROM calls"):
                    plans.extend(row[3] for row in execute(f"EXPLAIN QUERY PLAN {query}", values))
                return execute(query, values)

        reader.db = Explained()
        assert [row.seq for row in reader.iterate_calls(limit=5, project="/old")] == [1]
        reader.db = real
        assert plans
        assert not [plan for plan in plans if plan.startswith("SCAN calls")], plans
