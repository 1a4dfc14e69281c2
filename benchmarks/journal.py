"""What the journal costs a call: the same session with one and without."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.editing import contents
from benchmarks.measure import Line, Scale, Times, contest, cpu_time, seconds
from handrail import Session, Settings
from handrail.journal import Origin, PendingRecord, Record, Token
from handrail.journal.browse import CallFilter, read_page
from handrail.journal.logs import LogWriter
from handrail.journal.queries import JournalReader
from handrail.journal.records import begin_row, end_row
from handrail.journal.store import SqliteJournal
from handrail.model import Call, Result

MOST = 0.002


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    data = contents(10_000)
    (folder / "small.txt").write_bytes(data)
    journal = SqliteJournal(str(folder / "journal" / "journal.db"))
    settings = Settings(state=str(folder / "state"), durable=False)
    with (
        Session(folder, settings=settings, journal=None) as plain,
        Session(folder, settings=settings, journal=journal) as kept,
    ):
        times = contest(
            scale.rounds,
            {
                "read": reads(kept),
                "bare read": reads(plain),
                "write": writes(kept, folder / "kept.txt"),
                "bare write": writes(plain, folder / "bare.txt"),
            },
            each=scale.calls,
        )
        yield added("Journal: added to a Read of 10 KB", times["read"], times["bare read"])
        yield added("Journal: added to a Write of 10 KB", times["write"], times["bare write"])
    yield from records(folder, journal, settings, scale)
    with JournalReader(journal.path) as reader:
        calls, started = len(reader.read_calls()), time.perf_counter()
        assert reader.verify() is None
        yield Line(f"Journal: verify {calls} calls", seconds(time.perf_counter() - started))
    journal.close()
    yield from large_lines(folder, scale.lines // 10 if scale.lines >= 10_000_000 else scale.lines // 100)


def large_lines(folder: Path, rows: int) -> Iterator[Line]:
    """What readers take in a journal with many calls, a tenth of which changed a file."""
    project = folder / "large"
    project.mkdir()
    path = str(project / "journal" / "journal.db")
    fill(path, rows, str(project))
    (project / "f").write_text("b", encoding="utf-8")
    settings = Settings(state=str(folder / "state"), durable=False)
    started, begun = time.perf_counter(), cpu_time()
    with JournalReader(path) as reader:
        yield timed(f"Journal of {rows:,} calls: make the index", started, begun, 60.0)
        for what, run, most in (
            ("a page of `log`", lambda: list(reader.iterate_calls(limit=20, project=str(project))), 0.05),
            ("`show`", lambda: (reader.find_call(rows // 2), reader.read_files(rows // 2)), 0.05),
            ("a page of the browser", lambda: read_page(reader, CallFilter()), 0.05),
            ("`stats`", reader.compute_stats, 2.0),
            ("`verify`", reader.verify, None),
        ):
            started, begun = time.perf_counter(), cpu_time()
            run()
            yield timed(f"Journal of {rows:,} calls: {what}", started, begun, most)
    with Session(project, settings=settings, journal=SqliteJournal(path)) as session:
        session.call("Write", {"file_path": "new", "content": "new"})
        session.undo()
        session.redo()
        for what, undo in (("`undo`", session.undo), ("`redo`", session.redo)):
            started, begun = time.perf_counter(), cpu_time()
            assert undo().restored
            yield timed(f"Journal of {rows:,} calls: {what}", started, begun, 0.05)


def timed(what: str, started: float, begun: float, most: float | None) -> Line:
    """A line about what ran since ``started``; its processor time counts."""
    taken, used = time.perf_counter() - started, cpu_time() - begun
    target = f"at most {seconds(most)} of CPU" if most else ""
    return Line(what, f"{seconds(taken)} (CPU {seconds(used)})", "", "", target, used <= most if most else None)


def fill(path: str, rows: int, workspace: str) -> None:
    """Write so many calls: reads, and a change at every tenth."""
    origin = Origin("bench", "native", workspace)
    result = Result("Read", "ok", "     1\tline\n" * 60)
    writer = LogWriter(path)
    for number in range(rows):
        record = Record(Call("Read", {"file_path": f"f{number}"}), (), None, result=result, origin=origin)
        row = (*begin_row(record, number, writer.mask), *end_row(record, number, writer.mask))
        files = (
            [(0, os.fsencode(f"{workspace}/f"), 0, "a", 0o644, "b", None, "[]", "b", 0o644)] if number % 10 == 9 else []
        )
        writer.append("whole 0", (row, files))
    writer.close()


def reads(session: Session) -> Callable[[], None]:
    def run() -> None:
        assert session.call("Read", {"file_path": "small.txt"}).status == "ok"

    run()
    return run


def writes(session: Session, path: Path) -> Callable[[], None]:
    numbers = count()
    text = contents(10_000).decode("ascii")

    def run() -> None:
        content = f"{next(numbers)}\n{text}"
        assert session.call("Write", {"file_path": path.name, "content": content}).status == "ok"

    run()
    return run


def added(what: str, with_journal: Times, without: Times) -> Line:
    cost = with_journal.cpu - without.cpu
    shown = f"+{seconds(with_journal.median - without.median)}, CPU +{seconds(cost)}"
    return Line(what, str(with_journal), str(without), shown, f"at most {seconds(MOST)} of CPU", cost <= MOST)


class Timed:
    """A journal that takes the processor time of each record."""

    def __init__(self, journal: SqliteJournal) -> None:
        self._journal = journal
        self.used = 0.0

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        begun = time.process_time()
        token = self._journal.begin(pending, token)
        self.used += time.process_time() - begun
        return token

    def record(self, record: Record) -> str:
        begun = time.process_time()
        failed = self._journal.record(record)
        self.used += time.process_time() - begun
        assert not failed
        return failed

    def close(self) -> None:
        pass


def records(folder: Path, journal: SqliteJournal, settings: Settings, scale: Scale) -> Iterator[Line]:
    """The records of real calls on a file of 20 lines; an Edit has two, and its old contents."""
    timed = Timed(journal)
    rows = [f"value {number} = {number}" for number in range(20)]
    (folder / "twenty.txt").write_text("\n".join(rows), encoding="utf-8")
    used: dict[str, list[float]] = {"Read": [], "Edit": []}
    with Session(folder, settings=settings, journal=timed) as session:
        for number in range(20 * scale.calls):
            timed.used = 0.0
            session.call("Read", {"file_path": "twenty.txt"})
            used["Read"].append(timed.used)
            old, rows[7] = rows[7], f"value 7 = {number} again"
            timed.used = 0.0
            result = session.call("Edit", {"file_path": "twenty.txt", "old_string": old, "new_string": rows[7]})
            assert result.ok, result.text
            used["Edit"].append(timed.used)
    for tool, most in (("Read", 60e-6), ("Edit", 200e-6)):
        each = sorted(used[tool])
        median, tenth = each[len(each) // 2], each[len(each) // 10]
        text = f"CPU {seconds(median)} (a tenth within {seconds(tenth)})"
        yield Line(
            f"Journal: the record of a small {tool}", text, "", "", f"at most {seconds(most)} of CPU", median <= most
        )
