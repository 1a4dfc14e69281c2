"""A shared journal: what it costs a call, how fast it is filled, and the database time of a page among many calls."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, LiteralString

from benchmarks.editing import contents
from benchmarks.journal import fill, reads, writes
from benchmarks.measure import Line, Scale, contest, seconds
from benchmarks.postgres_server import PostgresServer, find_programs
from handrail import Session, Settings
from handrail.errors import MissingExtra
from handrail.errors.extras import needs
from handrail.journal.browse import CallFilter, read_page
from handrail.journal.postgres import PostgresDatabase
from handrail.journal.postgres_reader import PostgresReader
from handrail.journal.records import Queries
from handrail.journal.shipping import LocalJournal, ship_all
from handrail.settings.journal_address import JournalAddress

MOST_ROWS = 1_000_000
MOST = 0.1

# Calls of 20 machines, 200 workspaces and many sessions, and a small workspace among them.
_FILL: tuple[LiteralString, ...] = (
    "INSERT INTO journals (id, host, hash) SELECT 'many' || i, 'node-' || i, '' FROM generate_series(1, 20) AS i",
    """
INSERT INTO calls (journal, number, time, session, workspace, dialect, tool, call_id, pid, arguments, given, touches,
    decision, rule, why, source, ended, status, error, duration, diff, output, said, answer_bytes, notes, traceback,
    accesses, action, target)
SELECT (SELECT min(journal) FROM journals WHERE id LIKE 'many%%') + i %% 20, i, 1790000000000000000 + i * 1000000,
    's' || i / 500, convert_to(CASE WHEN i %% 40000 = 1 THEN '/srv/small' ELSE '/srv/work/w' || i %% 200 END, 'UTF8'),
    'native', (ARRAY['Read', 'Edit', 'Bash', 'Grep', 'Write'])[1 + i %% 5], 'toolu_' || i, 1,
    '{"file_path": "src/module_' || i || '.py", "old_string": "' || repeat('x', 200) || '"}', 250,
    '[["read", "src/a.py", "/srv/a.py"]]', 'allow', 'mode', '', '', 1790000000000000000 + i * 1000000,
    CASE WHEN i %% 50 = 0 THEN 'error' ELSE 'ok' END, CASE WHEN i %% 50 = 0 THEN 'no_match' END, 1.5,
    repeat('d', 300), repeat('o', 800), 800, 800, '[]', '', 1, 'read', 'src/a.py'
FROM generate_series(1, %s::bigint) AS i
""",
)


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    try:
        with needs("postgres"):
            import psycopg  # noqa: F401 - the extra
    except MissingExtra:
        yield Line("A shared journal: left out, the extra `postgres` is not installed", "-")
        return
    if find_programs() is None:
        yield Line("A shared journal: left out, PostgreSQL is not installed", "-")
        return
    server = PostgresServer()
    try:
        yield from _measure_calls(folder, scale, server.url())
        yield _measure_shipping(folder, scale, server.url())
        yield from _measure_pages(scale, server.url())
    finally:
        server.remove()


def _measure_calls(folder: Path, scale: Scale, url: str) -> Iterator[Line]:
    """A call with and without a shared journal, and with one that is down; each with a local journal of its own."""
    (folder / "small.txt").write_bytes(contents(10_000))
    targets = {"up": url, "down": "postgresql://nobody@127.0.0.1:1/none", "none": None}
    with contextlib.ExitStack() as stack:
        sessions = {}
        for name, target in targets.items():
            settings = Settings(state=str(folder / f"state-{name}"), durable=False, journal=target)
            sessions[name] = stack.enter_context(Session(folder, settings=settings))
        contestants: dict[str, Callable[[], object]] = {}
        for name, session in sessions.items():
            contestants[f"read {name}"] = reads(session)
            contestants[f"write {name}"] = writes(session, folder / f"{name}.txt")
        times = contest(scale.rounds, contestants, each=scale.calls)
    for what in ("read", "write"):
        for name, words in (("up", "a shared journal"), ("down", "a shared journal that is down")):
            ours, plain = times[f"{what} {name}"], times[f"{what} none"]
            cost = f"{seconds(ours.median - plain.median)} more" if ours.median > plain.median else "no more"
            yield Line(f"{what.capitalize()} 10 KB with {words}, against none", str(ours), str(plain), cost)


def _measure_shipping(folder: Path, scale: Scale, url: str) -> Line:
    rows = min(100_000, scale.lines // 100)
    path = str(folder / "shipped" / "journal.db")
    fill(path, rows, "/project")
    address = JournalAddress.parse(url)
    local = LocalJournal(path, address)
    with contextlib.closing(PostgresDatabase(address)) as database:
        started = time.perf_counter()
        ship_all(local, database)
        taken = time.perf_counter() - started
    return Line(f"Ship {rows:,} calls to PostgreSQL", f"{seconds(taken)}, {rows / taken:,.0f} calls a second")


def _measure_pages(scale: Scale, url: str) -> Iterator[Line]:
    rows = min(MOST_ROWS, scale.lines)
    with contextlib.closing(PostgresDatabase(JournalAddress.parse(url))) as database:
        database.migrate()
        with database.transaction() as cursor:
            cursor.execute(_FILL[0])
            cursor.execute(_FILL[1], (rows,))
        database.connection.execute("VACUUM ANALYZE")
    with PostgresReader(url) as reader:
        explained = Explained(reader.db)
        reader.db = explained
        for what, run in (
            ("`log`", lambda: list(reader.iterate_calls(limit=20))),
            ("`log` of a workspace", lambda: list(reader.iterate_calls(limit=20, project="/srv/work/w7"))),
            ("`log` of a small workspace", lambda: list(reader.iterate_calls(limit=20, project="/srv/small"))),
            ("`log` of a session", lambda: list(reader.iterate_calls(limit=20, session="s1"))),
            ("a page of the browser", lambda: read_page(reader, CallFilter())),
            ("the page of one tool", lambda: read_page(reader, CallFilter(tool="Bash"))),
        ):
            taken = []
            for _ in range(scale.rounds + 1):
                explained.milliseconds = 0.0
                assert run()
                taken.append(explained.milliseconds / 1e3)
            first, median = taken[0], sorted(taken[1:])[scale.rounds // 2]
            text = f"{seconds(median)} (the first time {seconds(first)})"
            what = f"Database time among {rows:,} calls in PostgreSQL: {what}"
            yield Line(what, text, "", "", f"at most {seconds(MOST)}", max(first, median) <= MOST)


class Explained:
    """Executes queries, and adds up the time that PostgreSQL says they take (EXPLAIN ANALYZE)."""

    def __init__(self, db: Queries) -> None:
        self._db = db
        self.milliseconds = 0.0

    def execute(self, query: str, values: Sequence[Any] = (), /) -> Any:
        plan = self._db.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {query}", values).fetchone()[0]
        (plan,) = json.loads(plan) if isinstance(plan, str) else plan
        self.milliseconds += plan["Planning Time"] + plan["Execution Time"]
        return self._db.execute(query, values)
