"""Files that another program has open for writing: a command in a draft does not replace them, and nothing is lost."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from handrail import Session, Settings
from tests.command import TIMEOUT
from tests.drafts.machine import require_drafts
from tests.pipeline.opaque_commands import opaque

pytestmark = pytest.mark.slow  # starts many processes

SERVER = """
import sqlite3, sys
db = sqlite3.connect("data.db", isolation_level=None)
db.execute("PRAGMA journal_mode = {mode}")
db.execute("CREATE TABLE IF NOT EXISTS rows (name TEXT)")
db.execute("INSERT INTO rows VALUES ('first')")
print("ready", flush=True)
for line in sys.stdin:
    db.execute("INSERT INTO rows VALUES (?)", [line.strip()])
    print("done", flush=True)
"""
INSERT = (
    "import sqlite3; db = sqlite3.connect('data.db'); db.execute('INSERT INTO rows VALUES (?)', ['{}']); db.commit()"
)


class Server:
    """A program that has a database open."""

    def __init__(self, root: Path, mode: str) -> None:
        words = [sys.executable, "-c", SERVER.format(mode=mode)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(words, cwd=root, encoding="utf-8", stdin=pipe, stdout=pipe)
        self._read()

    def _read(self) -> None:
        assert self.process.stdout
        assert self.process.stdout.readline()

    def insert(self, name: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{name}\n")
        self.process.stdin.flush()
        self._read()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=TIMEOUT)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    require_drafts()
    root = tmp_path / "work"
    root.mkdir()
    return root


@pytest.fixture
def session(work: Path) -> Iterator[Session]:
    settings = Settings(durable=False, state=str(work.parent / "state"), raise_bugs=True)
    with Session(work, settings=settings, mode="full") as session:
        yield session


def list_rows(work: Path) -> list[str]:
    with closing(sqlite3.connect(work / "data.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [name for (name,) in db.execute("SELECT name FROM rows ORDER BY rowid")]


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_database_that_a_server_holds_stays_whole(session: Session, work: Path, mode: str) -> None:
    with Server(work, mode) as server:
        result = session.call("Bash", {"command": opaque(INSERT.format("lost") + "; open('other', 'w').write('x')")})
        assert "data.db" in result.text and "run the command in the background" in result.text
        assert result.data["kept"] is True and (work / "other").read_text(encoding="utf-8") == "x"
        server.insert("second")
        job = session.call("Bash", {"command": opaque(INSERT.format("job")), "background": True})
        session.services.command_host().jobs.get(job.data["job"]).run.wait(TIMEOUT)
        server.insert("third")
    assert list_rows(work) == ["first", "second", "job", "third"]


def test_a_query_beside_a_server_sees_the_rows_and_leaves_the_database(session: Session, work: Path) -> None:
    query = "import sqlite3; print(sqlite3.connect('data.db').execute('SELECT name FROM rows').fetchall())"
    with Server(work, "WAL") as server:
        result = session.call("Bash", {"command": opaque(query)})
        assert "first" in result.text
        server.insert("second")
    assert list_rows(work) == ["first", "second"]


@pytest.mark.parametrize("how", ["write", "delete", "replace", "mode", "delete its directory"])
def test_a_held_file_is_left_and_the_rest_is_kept(session: Session, work: Path, how: str) -> None:
    (work / "logs").mkdir()
    path = work / "logs" / "server.log"
    commands = {
        "write": "open('logs/server.log', 'w').write('gone')",
        "delete": "os.unlink('logs/server.log')",
        "replace": "open('new', 'w').write('x'); os.rename('new', 'logs/server.log')",
        "mode": "os.chmod('logs/server.log', 0o700)",
        "delete its directory": "shutil.rmtree('logs')",
    }
    with path.open("w", encoding="utf-8") as log:
        log.write("one\n")
        log.flush()
        command = opaque(f"import os, shutil; {commands[how]}; open('other', 'w').write('x')")
        result = session.call("Bash", {"command": command}, id="one")
        assert [note.code for note in result.notes if note.code == "held_open"] == ["held_open"], result.text
        log.write("two\n")
    assert path.read_text(encoding="utf-8") == "one\ntwo\n"
    assert (work / "other").exists()
    session.undo(call="one")
    assert not (work / "other").exists() and path.read_text(encoding="utf-8") == "one\ntwo\n"


def test_three_programs_write_at_the_same_time_and_nothing_is_lost(session: Session, work: Path) -> None:
    """A server with its database, a job that appends to a file, and commands that write their own."""
    append = "import time\nfor n in range(60):\n open('job.log', 'a').write(f'{n} '); time.sleep(0.02)"
    names = [f"row{number}" for number in range(30)]
    with Server(work, "WAL") as server:
        job = session.call("Bash", {"command": opaque(append), "background": True})
        inserting = threading.Thread(target=lambda: [server.insert(name) for name in names])
        inserting.start()
        for number in range(5):
            result = session.call("Bash", {"command": opaque(f"open('mine{number}', 'w').write('{number}')")})
            assert result.data["kept"] is True, result.text
        inserting.join(TIMEOUT)
    session.services.command_host().jobs.get(job.data["job"]).run.wait(TIMEOUT)
    assert list_rows(work) == ["first", *names]
    assert (work / "job.log").read_text(encoding="utf-8").split() == [str(n) for n in range(60)]
    assert [(work / f"mine{n}").read_text(encoding="utf-8") for n in range(5)] == [str(n) for n in range(5)]
