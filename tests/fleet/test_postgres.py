"""The shared journal on a real PostgreSQL: every record once, whatever is killed or restarted; and reading it."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.postgres_server import PostgresServer, wait_until
from handrail import AllowAll, Call, FileAccess, FleetWorkspace, Result, Session, Settings
from handrail.files.locks import state_directory
from handrail.files.versions import hash_bytes
from handrail.fleet.worker import work_in
from handrail.journal import JournalFailed, Origin, Record, browse, logs, retention, shipper
from handrail.journal import postgres as postgres_module
from handrail.journal.browse import CallFilter
from handrail.journal.log_lines import get_logs_path, list_logs, parse_line
from handrail.journal.postgres import VERSION, PostgresDatabase
from handrail.journal.postgres_reader import PostgresReader
from handrail.journal.queries import JournalReader
from handrail.journal.shipping import CopiedJournal, LocalJournal, Shipment, ship_all
from handrail.journal.store import SqliteJournal, get_default_path
from handrail.settings.journal_address import JournalAddress
from tests.command import handrail, surroundings
from tests.fleet.kill_test import (
    STEPS,
    WorkerDied,
    check_ledgers,
    check_records,
    die,
    make_steps,
    make_tree,
    read_ledgers,
)
from tests.sizes import pick

ROOT = Path(__file__).parents[2]
_databases = itertools.count()


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    """The URL of a new, empty database."""
    import psycopg

    name = f"records_{next(_databases)}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode("ascii"))
    return postgres_server.url(name)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def local_path() -> str:
    return get_default_path(state_directory(None))


@contextlib.contextmanager
def opened(url: str) -> Iterator[tuple[LocalJournal, PostgresDatabase]]:
    address = JournalAddress.parse(url)
    with contextlib.closing(PostgresDatabase(address)) as database:
        yield LocalJournal(local_path(), address), database


def ship(url: str) -> int:
    with opened(url) as (local, database):
        return ship_all(local, database)


def make_calls(project: Path, count: int, **options: Any) -> None:
    """Reads, writes and calls that fail."""
    with Session(project, policy=AllowAll(), **options) as session:
        for number in range(count):
            name = f"f{number % 3}.txt"
            session.call("Read", {"file_path": name})
            text = f"{number} \ue000 {'x' * (number % 7)}\n"
            assert session.call("Write", {"file_path": name, "content": text}).ok
            session.call("Read", {"file_path": f"missing-{number}"})


def run(*words: str, **more: str) -> subprocess.Popen[str]:
    """A process of `shipping_driver.py`."""
    program = [sys.executable, "-m", "tests.fleet.shipping_driver", *words]
    environment = surroundings({**more, "HANDRAIL_STATE": os.environ["HANDRAIL_STATE"]})
    return subprocess.Popen(program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def read_local(columns: str, table: str, order: str) -> list[Any]:
    with JournalReader(local_path()) as reader, reader.errors():  # brings the index up to date
        pass
    with contextlib.closing(sqlite3.connect(local_path())) as db:
        return db.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()


def read_entries(path: str) -> list[tuple[str, int, int, str]]:
    """The entries of all logs of a journal."""
    raw = b"".join(Path(log).read_bytes() for log in list_logs(get_logs_path(path)).values())
    lines = [line for line in map(parse_line, raw.splitlines()) if line]
    return sorted((line.hash, line.n, line.seq, line.stage) for line in lines)


def assert_exactly_once(url: str) -> None:
    """The ledger: every row of the local journal is in the database once, with the same values, and no other is."""
    with PostgresReader(url) as reader, reader.errors():

        def shared(query: str) -> list[Any]:
            return list(reader.db.execute(query).fetchall())

        calls = shared("SELECT number, call_id, tool, arguments, status, output, diff FROM calls ORDER BY number")
        assert calls == read_local("seq, call_id, tool, arguments, status, output, diff", "calls", "seq")
        entries = shared("SELECT hash, n, number, stage FROM chain ORDER BY hash")
        assert entries == read_entries(local_path())
        files = shared(
            "SELECT number, attempt, place, path, before, after FROM files JOIN calls USING (seq) ORDER BY 1, 2, 3"
        )
        assert files == read_local("seq, attempt, place, path, before, after", "files", "seq, attempt, place")
        images = shared("SELECT hash, size FROM images WHERE part = 0 ORDER BY hash")
        contents = Path(get_logs_path(local_path()), "contents").glob("*/*")
        stored = [(file.parent.name + file.name, file.read_bytes()) for file in contents]  # a kill leaves half a file
        assert images == sorted((digest, len(raw)) for digest, raw in stored if hash_bytes(raw) == digest)
    with PostgresReader(url) as reader:
        assert reader.verify() is None


def test_a_session_ships_in_the_background_and_everything_arrives_once(project: Path, database: str) -> None:
    make_calls(project, 20, journal=database)
    with opened(database) as (local, _):
        wait_until(lambda: local.count_outstanding() == 0)
    assert_exactly_once(database)


def test_the_setting_ships_too_and_a_later_process_ships_what_is_left(project: Path, database: str) -> None:
    make_calls(project, 5)  # before the setting: local only
    with Session(project, policy=AllowAll(), settings=Settings(journal=database)) as session:
        assert session.call("Write", {"file_path": "a.txt", "content": "a\n"}).ok
    with opened(database) as (local, _):
        wait_until(lambda: local.count_outstanding() == 0)
    assert_exactly_once(database)


@pytest.mark.parametrize("point", ["local", "rows", "insert"])
def test_a_writer_that_is_killed_loses_and_repeats_nothing(project: Path, database: str, point: str) -> None:
    make_calls(project, 3)
    assert ship(database) > 0  # the tables are there
    process = run("writer", str(project), database, "w", "400", HANDRAIL_DIE=point)
    answered = process.communicate(timeout=600)[0].split()
    assert process.returncode == -signal.SIGKILL
    assert answered
    ship(database)
    assert_exactly_once(database)
    calls = read_local("count(*)", "calls WHERE tool = 'Write'", "1")[0][0]
    assert calls >= 3 + len(answered)


def test_processes_that_ship_at_once_do_not_repeat_each_other(project: Path, database: str) -> None:
    make_calls(project, pick(100, 1000))
    processes = [run("ship", database) for _ in range(3)]
    writers = [run("writer", str(project), database, f"w{number}", "20") for number in range(2)]
    for process in (*processes, *writers):
        process.communicate(timeout=600)
        assert process.returncode == 0
    ship(database)
    assert_exactly_once(database)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_that_is_restarted_while_rows_are_shipped(
    project: Path, database: str, postgres_server: PostgresServer, mode: str
) -> None:
    writers = [run("writer", str(project), database, f"w{number}", str(pick(60, 600))) for number in range(2)]
    for _ in range(3):
        time.sleep(0.7)
        postgres_server.restart(mode)
    for process in writers:
        out, _ = process.communicate(timeout=600)
        assert process.returncode == 0  # no call failed
        assert len(out.split()) == pick(60, 600)
    ship(database)
    assert_exactly_once(database)


def test_a_database_that_is_down_fails_no_call_and_is_caught_up_with(
    project: Path, database: str, postgres_server: PostgresServer
) -> None:
    postgres_server.stop()
    try:
        make_calls(project, 10, journal=database)  # the first ones ever: not even the tables exist
        local = LocalJournal(local_path(), JournalAddress.parse(database))
        wait_until(lambda: local.read_state().failure)
        state = local.read_state()
        assert state.n == 0
        assert state.retry > state.failed
        with pytest.raises(JournalFailed, match="refused"):
            ship(database)
    finally:
        postgres_server.start()
    assert ship(database) > 0
    assert_exactly_once(database)


def test_an_hour_without_the_database_loses_nothing(
    project: Path, database: str, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many attempts as there are in an hour, by a clock that does not wait."""
    clock = SimpleNamespace(monotonic=time.monotonic, now=time.time())
    clock.time = lambda: clock.now
    monkeypatch.setattr(shipper, "time", clock)
    first, second = (shipper.Shipper(local_path(), JournalAddress.parse(database)) for _ in range(2))
    until, attempts, pauses = clock.now + 3600, 0, [0.0]
    postgres_server.stop()
    try:
        with Session(project, policy=AllowAll()) as session:
            while clock.now < until:
                name = f"f{attempts % 3}.txt"
                session.call("Read", {"file_path": name})
                assert session.call("Write", {"file_path": name, "content": f"{attempts}\n"}).ok
                pauses.append(first._try(False))
                attempts += 1
                assert second._try(False) == pytest.approx(pauses[-1])  # other processes wait as well
                clock.now += pauses[-1]
    finally:
        postgres_server.start()
    assert pauses == sorted(pauses) and pauses[-1] == pytest.approx(60)
    assert 60 <= attempts <= 70
    second._try(True)
    assert_exactly_once(database)
    with opened(database) as (local, _):
        assert local.read_state().failure == ""


def test_a_database_that_hangs_holds_up_neither_calls_nor_the_end_of_a_process(
    project: Path, database: str, postgres_server: PostgresServer
) -> None:
    make_calls(project, 3)
    ship(database)
    postgres_server.pause()
    try:
        process = run("writer", str(project), database, "w", "20")
        out, _ = process.communicate(timeout=300)  # would wait for ever
    finally:
        postgres_server.resume()
    assert (process.returncode, len(out.split())) == (0, 20)
    ship(database)
    assert_exactly_once(database)


def test_a_copied_journal_is_not_mixed_with_the_first(project: Path, database: str, tmp_path: Path) -> None:
    make_calls(project, 3)
    ship(database)
    copy = tmp_path / "copy.db"
    shutil.copytree(get_logs_path(local_path()), get_logs_path(str(copy)))
    make_calls(project, 2)
    ship(database)
    address = JournalAddress.parse(database)
    with contextlib.closing(SqliteJournal(str(copy))) as journal:
        assert journal.record(Record(Call("Read", {}), (), None, result=Result("Read", "ok", ""))) == ""
    local = LocalJournal(str(copy), address)
    with contextlib.closing(PostgresDatabase(address)) as opened_database:
        with pytest.raises(CopiedJournal, match="--as-new"):
            ship_all(local, opened_database)
        local.renew_id()
        assert ship_all(local, opened_database) > 0
    with PostgresReader(database) as reader, reader.errors():
        assert reader.db.execute("SELECT count(*) FROM journals").fetchone() == (2,)
    with PostgresReader(database) as reader:
        assert reader.verify() is None


def test_a_database_that_was_set_back_is_filled_again(project: Path, database: str) -> None:
    make_calls(project, 5)
    ship(database)
    with opened(database) as (_, shared), shared.transaction() as cursor:  # as from a backup
        cursor.execute("DELETE FROM chain WHERE n > 6")
        cursor.execute("DELETE FROM files WHERE seq NOT IN (SELECT seq FROM calls JOIN chain USING (journal, number))")
        cursor.execute("DELETE FROM calls WHERE number NOT IN (SELECT number FROM chain)")
        cursor.execute("UPDATE journals SET n = 6, hash = (SELECT hash FROM chain WHERE n = 6)")
    ship(database)
    assert_exactly_once(database)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_shorter_row_of_an_older_version_is_filled_up_and_checked(project: Path, database: str, missing: int) -> None:
    make_calls(project, 1)
    (log,) = list_logs(get_logs_path(local_path())).values()
    lines = filter(None, map(parse_line, Path(log).read_bytes().splitlines()))
    row, _ = next(line.content for line in lines if line.stage == "whole 0")
    file = [0, os.fsencode("/f"), 0, "", None, "a", None, "[]", "a", 0o644]
    with contextlib.closing(logs.LogWriter(local_path())) as writer:
        writer.append("whole 0", (row[: -2 - missing], [file[:-missing]]), 50)
    ship(database)
    with PostgresReader(database) as reader:
        assert reader.verify() is None
        call = reader.find_call(reader.find_last_call())
        assert call and call.number == 50
        assert [(one.path, one.after_mode) for one in reader.read_files(call.seq)] == [("/f", None)]
    for change in ("calls SET left_out = 1", "calls SET tool = 'Other'", "files SET after_mode = 1"):
        with opened(database) as (_, shared), shared.transaction() as cursor:
            cursor.execute(f"UPDATE {change} WHERE seq = {call.seq}".encode("ascii"))
        with PostgresReader(database) as reader:
            broken = reader.verify()
            assert broken and broken.seq == call.seq, change
        with opened(database) as (_, shared), shared.transaction() as cursor:
            cursor.execute(f"UPDATE calls SET left_out = NULL, tool = 'Read' WHERE seq = {call.seq}".encode("ascii"))
            cursor.execute(f"UPDATE files SET after_mode = NULL WHERE seq = {call.seq}".encode("ascii"))


def test_large_images_travel_in_parts(project: Path, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.journal.shipping._PART", 1000)
    raw = os.urandom(3500)
    (project / "big.bin").write_bytes(raw)
    with Session(project, policy=AllowAll()) as session:
        assert session.call("Trash", {"path": "big.bin"}).ok or session.call("Bash", {"command": "rm big.bin"}).ok
    ship(database)
    assert_exactly_once(database)
    with PostgresReader(database) as reader:
        with reader.errors():
            digest, parts = reader.db.execute("SELECT hash, count(*) FROM images GROUP BY hash").fetchone()
        assert parts == 4
        assert list(reader.read_images([digest]).values()) == [raw]


def test_log_show_stats_and_web_pages_are_those_of_the_local_journal(project: Path, database: str) -> None:
    make_calls(project, 8)
    ship(database)
    place = os.path.realpath(project)
    with JournalReader(local_path()) as local, PostgresReader(database) as shared:
        choices: list[dict[str, Any]] = [
            {},
            {"limit": 3},
            {"project": place},
            {"project": "/none"},
            {"session": "none"},
        ]
        for options in choices:
            rows = [_without_machine(row) for row in shared.iterate_calls(**options)]
            assert rows == [_without_machine(row) for row in local.iterate_calls(**options)]
        for ours, theirs in zip(shared.compute_stats()[0], local.compute_stats()[0], strict=True):
            assert replace(ours, milliseconds=0) == replace(theirs, milliseconds=0)
            assert ours.milliseconds == pytest.approx(theirs.milliseconds)
        assert shared.compute_stats()[1] == local.compute_stats()[1]
        assert shared.measure_use() == local.measure_use()
        assert shared.measure_journal() > 0
        last = shared.find_last_call()
        assert [one.path for one in shared.read_files(2)] == [one.path for one in local.read_files(2)]
        for wanted in (
            *(CallFilter(), CallFilter(tool="Write"), CallFilter(status="error"), CallFilter(workspace=place)),
            *(
                CallFilter(file="f0.txt", workspace=place),
                CallFilter(text="F0.TXT"),
                CallFilter(client="x"),
                CallFilter(since=1),
            ),
        ):
            page = browse.read_page(shared, wanted, limit=7)
            expected = browse.read_page(local, wanted, limit=7)
            assert page == expected
        assert browse.read_page(shared, CallFilter(), before=last, limit=2).calls
        assert browse.list_sources(shared) == browse.list_sources(local)
        path = os.path.join(place, "f0.txt")
        assert browse.read_file_history(shared, path) == browse.read_file_history(local, path)
        assert browse.list_edited_files(shared) == browse.list_edited_files(local)
        for one, other in zip(browse.count_by_period(shared, 60), browse.count_by_period(local, 60), strict=True):
            assert replace(one, milliseconds=0) == replace(other, milliseconds=0)
        assert browse.read_time_span(shared) == browse.read_time_span(local)


def _without_machine(row: Any) -> Any:
    return replace(row, host="", number=None)


def test_new_calls_are_followed_in_the_order_in_which_transactions_end(project: Path, database: str) -> None:
    make_calls(project, 2)
    ship(database)
    with PostgresReader(database) as reader:
        since = reader.read_newest_entry()
        assert browse.read_ended(reader, CallFilter(), since) == ([], since)
        make_calls(project, 2)
        with opened(database) as (_, other):
            with other.transaction() as cursor:  # an older transaction is still at work
                cursor.execute("UPDATE journals SET host = host")
                cursor.execute("SELECT pg_current_xact_id()")
                threading.Thread(target=ship, args=(database,)).start()
                time.sleep(0.2)
                assert browse.read_ended(reader, CallFilter(), since) == ([], since)
            wait_until(lambda: reader.find_last_call() > 6 and browse.read_ended(reader, CallFilter(), since)[0])
        ended, newest = browse.read_ended(reader, CallFilter(), since)
        assert len(ended) == 6
        assert newest > since
        assert browse.read_ended(reader, CallFilter(), newest) == ([], newest)


TAMPERINGS = {
    "UPDATE calls SET output = 'other' WHERE number = 2": "the row was changed",
    "UPDATE files SET before = 'other' WHERE seq = (SELECT seq FROM calls WHERE number = 5)": "the row was changed",
    "DELETE FROM chain WHERE n = 3": "missing",
    "DELETE FROM chain WHERE n = (SELECT max(n) FROM chain)": "missing at the end",
    "INSERT INTO calls (journal, number) VALUES (1, 1000)": "added by another program",
    "INSERT INTO files (seq, attempt, place) SELECT seq, 5, 0 FROM calls WHERE number = 2": "a file was added",
}


@pytest.mark.parametrize("statement", list(TAMPERINGS))
def test_changes_in_the_database_are_detected(project: Path, database: str, statement: str) -> None:
    make_calls(project, 4)
    ship(database)
    with PostgresReader(database) as reader:
        assert reader.verify() is None
    with opened(database) as (_, shared), shared.transaction() as cursor:
        cursor.execute(statement.encode())
    with PostgresReader(database) as reader:
        broken = reader.verify()
    assert broken is not None
    assert TAMPERINGS[statement] in broken.why
    assert "machine" in broken.why


def test_a_damaged_local_row_does_not_stop_those_behind_it(project: Path, database: str) -> None:
    make_calls(project, 4)
    (log,) = list_logs(get_logs_path(local_path())).values()
    lines = Path(log).read_bytes().splitlines(keepends=True)
    place = next(place for place, line in enumerate(lines) if b'"whole 0"' in line)
    time_of_call = lines[place].split(b",")[3].lstrip(b"[")
    lines[place] = lines[place].replace(time_of_call, b'"text"', 1)
    Path(log).write_bytes(b"".join(lines))
    ship(database)
    with PostgresReader(database) as reader, reader.errors():
        assert reader.db.execute("SELECT count(*) FROM calls").fetchone() == (11,)
    with PostgresReader(database) as reader:
        assert (reader.verify() or ("",))[-1].startswith("the row is missing")


@pytest.mark.slow
def test_the_kill_test_leaves_every_record_of_every_workspace_once(
    configured: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """Servers and workers are killed at random, and the database is restarted meanwhile."""
    count = pick(6, 40)
    tree = make_tree(tmp_path / "tree")
    (tmp_path / "marks").mkdir()
    data = {"seed": 5, "cuts": 2, "marks": str(tmp_path / "marks"), "die": die}
    workspaces = [FleetWorkspace(f"w{one}", folder=tree, data={**data, "dies": one % 5 == 0}) for one in range(count)]

    def work(workspace: FleetWorkspace) -> list[str]:
        for _ in range(2):
            with contextlib.suppress(WorkerDied):
                value = work_in(workspace, make_steps, "run", {"mode": "full"}).value
        assert isinstance(value, list)
        return value

    with ThreadPoolExecutor(4) as pool:
        ends = [pool.submit(work, workspace) for workspace in workspaces]
        while not all(end.done() for end in ends):
            time.sleep(1)
            postgres_server.restart("immediate")
    for workspace, end in zip(workspaces, ends, strict=True):
        check_ledgers(end.result(), *work_in(workspace, read_ledgers, "run", {"mode": "full"}).value)
    check_records(configured, tmp_path, {"HANDRAIL_CONFIG": os.environ["HANDRAIL_CONFIG"]}, edits=STEPS * count)


def shorten(most_calls: int) -> None:
    with contextlib.closing(SqliteJournal(local_path())) as journal:
        journal._use(lambda log: retention.remove_oldest(log, most_calls, 1 << 40))


def make_small_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "FEWEST_CALLS", 4)
    monkeypatch.setattr(logs, "SEGMENT", 1_500)


def test_calls_that_were_sent_are_removed_locally_and_stay_in_the_database(
    project: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small_logs(monkeypatch)
    make_calls(project, 6)
    ship(database)
    shorten(6)
    assert 6 <= read_local("count(*)", "calls", "1")[0][0] <= 9
    make_calls(project, 2)
    ship(database)
    with PostgresReader(database) as reader:
        assert reader.verify() is None
        assert [row.number for row in reader.iterate_calls()] == list(range(1, 25))


def test_calls_that_were_removed_before_they_were_sent_stop_no_others(
    project: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small_logs(monkeypatch)
    make_calls(project, 4)
    with opened(database) as (local, shared):
        monkeypatch.setattr("handrail.journal.shipping.MOST_ENTRIES", 3)
        assert Shipment(local, shared).ship_next() == 3
    make_calls(project, 10)
    shorten(6)
    kept = [row[0] for row in read_local("seq", "calls", "seq")]
    assert 12 <= len(kept) <= 15  # twice as many as allowed
    ship(database)
    with PostgresReader(database) as reader:
        assert reader.verify() is None
        numbers = [row.number for row in reader.iterate_calls()]
        assert numbers[-len(kept) :] == kept


def test_a_text_with_any_character_is_shipped_and_verified(database: str) -> None:
    with contextlib.closing(SqliteJournal(local_path())) as journal:
        for text in ("\0", "a\0b\ue000c", "\ue0000", "\x1f é \U0001f600"):
            call = Call("Read", {text: text}, text)
            record = Record(
                call, (FileAccess("read", text),), None, (), Origin("s\0"), result=Result("Read", "ok", text)
            )
            assert journal.record(record) == ""
    ship(database)
    assert_exactly_once(database)


# Tenants and versions


def run_as_owner(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


_roles = itertools.count()


def test_a_tenant_cannot_reach_another(project: Path, database: str, postgres_server: PostgresServer) -> None:
    number = next(_roles)
    teams = [f"team_{letter}_{number}" for letter in "ab"]
    name = database.rpartition("/")[2]
    for team in teams:
        run_as_owner(
            database, f"CREATE ROLE {team} LOGIN PASSWORD 'pw-{team}'", f"CREATE SCHEMA {team} AUTHORIZATION {team}"
        )
    first, second = (f"{postgres_server.url(name, team, f'pw-{team}')}?tenant={team}" for team in teams)
    make_calls(project, 3)
    ship(first)
    assert_exactly_once(first)
    with pytest.raises(JournalFailed, match="version 0"):
        PostgresReader(second)  # nothing is there
    crossed = first.replace(f"{teams[0]}:pw-{teams[0]}", f"{teams[1]}:pw-{teams[1]}")
    for attempt in (PostgresReader, ship):
        with pytest.raises(JournalFailed) as caught:
            attempt(crossed)
        assert f"this role may not use the schema {teams[0]}" in caught.value.why
    with opened(second) as (_, other):
        for table in ("calls", "images", "journals"):
            with pytest.raises(JournalFailed, match="permission denied"), other.transaction() as cursor:
                cursor.execute(f"SELECT * FROM {teams[0]}.{table}".encode())


def test_a_role_that_only_writes_and_one_that_only_reads(
    project: Path, database: str, postgres_server: PostgresServer
) -> None:
    number, name = next(_roles), database.rpartition("/")[2]
    node, viewer = f"node_{number}", f"viewer_{number}"
    for role in (node, viewer):
        run_as_owner(database, f"CREATE ROLE {role} LOGIN PASSWORD 'pw'")
    make_calls(project, 3)
    as_node = postgres_server.url(name, node, "pw")
    with pytest.raises(JournalFailed, match="handrail journal migrate"):
        ship(as_node)
    with opened(database) as (_, owner):
        owner.migrate()
    run_as_owner(database, *_documented_grants(node, viewer))
    ship(as_node)
    with PostgresReader(postgres_server.url(name, viewer, "pw")) as reader:
        assert reader.verify() is None
        with pytest.raises(JournalFailed, match="permission denied"), reader.errors():
            reader.db.execute("DELETE FROM calls")
    with (
        opened(as_node) as (_, shared),
        pytest.raises(JournalFailed, match="permission denied"),
        shared.transaction() as cursor,
    ):
        cursor.execute("DELETE FROM calls")


def _documented_grants(node: str, viewer: str) -> list[str]:
    """The statements of docs/fleet.md."""
    text = (ROOT / "docs" / "fleet.md").read_text(encoding="utf-8")
    lines = [line.strip() for line in text.splitlines() if line.strip().startswith("GRANT ")]
    assert lines
    return [
        line.replace("team_a_node", node).replace("team_a_viewer", viewer).replace("team_a", "handrail")
        for line in lines
    ]


def test_two_machines_that_start_at_once_create_the_tables_once(database: str) -> None:
    failures: list[BaseException] = []

    def migrate() -> None:
        try:
            with contextlib.closing(PostgresDatabase(JournalAddress.parse(database))) as opened_database:
                opened_database.migrate()
        except BaseException as error:  # noqa: BLE001 - shown below
            failures.append(error)

    threads = [threading.Thread(target=migrate) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with contextlib.closing(PostgresDatabase(JournalAddress.parse(database))) as opened_database:
        assert opened_database.read_version() == VERSION
        with opened_database.transaction() as cursor:
            versions = cursor.execute("SELECT version FROM schema_version ORDER BY version").fetchall()
            assert versions == [(number,) for number in range(1, VERSION + 1)]


def test_a_failed_migration_changes_nothing(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_module, "MIGRATIONS", (*postgres_module.MIGRATIONS, "CREATE TABLE a (b int); WRONG"))
    monkeypatch.setattr(postgres_module, "VERSION", VERSION + 1)
    with contextlib.closing(PostgresDatabase(JournalAddress.parse(database))) as opened_database:
        with pytest.raises(JournalFailed, match="syntax error"):
            opened_database.migrate()
        assert opened_database.read_version() == 0


def test_newer_tables_are_refused_and_said_so(project: Path, database: str) -> None:
    make_calls(project, 1)
    ship(database)
    with opened(database) as (_, shared), shared.transaction() as cursor:
        cursor.execute("INSERT INTO schema_version (version) VALUES (7)")
    for attempt in (ship, PostgresReader):
        with pytest.raises(JournalFailed, match=r"version 7.*upgrade Handrail"):
            attempt(database)


# The command line


@pytest.fixture
def configured(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A configuration file that names the database, password included."""
    file = tmp_path / "config.toml"
    file.write_text(f'[settings]\njournal = "{database}"\n', encoding="utf-8")
    monkeypatch.setenv("HANDRAIL_CONFIG", str(file))
    return database


def test_the_commands_read_the_shared_journal(project: Path, configured: str) -> None:
    make_calls(project, 3)
    env = {"HANDRAIL_CONFIG": os.environ["HANDRAIL_CONFIG"]}
    outputs = []
    for words in (
        ["journal", "status"],
        ["journal", "ship"],
        ["journal", "status", "--json"],
        ["log", "--shared"],
        ["log", "--shared", "--json", "--limit", "0"],
        ["log", "verify", "--shared"],
        ["show", "2", "--shared"],
        ["stats", "--shared"],
        ["config"],
        ["config", "get", "journal"],
        ["config", "--json"],
        ["doctor", "--details"],
        ["journal", "migrate"],
    ):
        done = handrail(*words, cwd=project, variables=env)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        outputs.append((done.stdout + done.stderr).decode())
    assert "owner-password" not in "".join(outputs)
    assert "9 entries outstanding" not in outputs[2]
    assert json.loads(outputs[2])["outstanding"] == 0
    assert len(outputs[3].splitlines()) == 9
    rows = [json.loads(line) for line in outputs[4].splitlines()]
    assert [row["number"] for row in rows] == list(range(1, 10))
    assert "every hash matches" in outputs[5]
    assert "where it is call 2" in outputs[6]
    undo = handrail("undo", "2", "--shared", cwd=project, variables=env)
    assert undo.returncode == 2
    assert b"it is call 2 on" in undo.stderr
    assert b"handrail.connect(" in undo.stderr


def test_errors_never_show_the_password(project: Path, postgres_server: PostgresServer) -> None:
    make_calls(project, 1)
    wrong = postgres_server.url(password="very-secret-word")
    with pytest.raises(JournalFailed) as caught:
        ship(wrong)
    assert "very-secret-word" not in str(caught.value) + repr(caught.value) + caught.value.why + caught.value.journal
    assert "authentication failed" in caught.value.why


def test_the_web_page_shows_the_shared_journal_and_explains_undo(project: Path, database: str) -> None:
    from starlette.testclient import TestClient

    from handrail.web.pages import make_app
    from handrail.web.site import Site

    make_calls(project, 3)
    ship(database)
    client = TestClient(make_app(Site(database, Settings())), base_url="http://127.0.0.1")
    for page in ("/", "/calls/2", "/calls/2/undo", "/statistics", "/files"):
        answer = client.get(page)
        assert answer.status_code == 200, (page, answer.text[-2000:])
        assert "owner-password" not in answer.text
    assert "a shared journal is only read" in client.get("/calls/2/undo").text


def test_a_shipment_continues_where_another_one_ended(project: Path, database: str) -> None:
    make_calls(project, 10)
    with opened(database) as (local, first), opened(database) as (other, second):
        one, two = Shipment(local, first), Shipment(other, second)
        send = two._send_images

        def overtake(digests: list[str]) -> None:
            assert one.ship_next() > 0
            send(digests)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(two, "_send_images", overtake)
            assert two.ship_next() > 0  # had read the same batch: nothing is added twice
        assert two.ship_next() == 0
    ship(database)
    assert_exactly_once(database)
