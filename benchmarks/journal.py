"""What the journal costs a call: the same session with one and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from benchmarks.editing import contents
from benchmarks.measure import Line, Scale, Times, contest, cpu_time, seconds
from handrail import Session, Settings
from handrail.journal import Origin, PendingRecord, Record
from handrail.journal.browse import CallFilter, read_page
from handrail.journal.logs import LogWriter
from handrail.journal.queries import JournalReader
from handrail.journal.records import begin_row, end_row
from handrail.journal.store import SqliteJournal
from handrail.journal.undo_selection import iterate_changes
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
    yield both_steps(journal, data, scale.calls)
    with JournalReader(journal.path) as reader:
        calls, started = len(reader.read_calls()), time.perf_counter()
        assert reader.verify() is None
        yield Line(f"Journal: verify {calls} calls", seconds(time.perf_counter() - started))
    journal.close()
    yield from large_lines(folder, scale.lines // 10 if scale.lines >= 10_000_000 else scale.lines // 100)


def large_lines(folder: Path, rows: int) -> Iterator[Line]:
    """What readers take in a journal with many calls, a tenth of which changed a file."""
    path = str(folder / "large" / "journal.db")
    fill(path, rows)
    with JournalReader(path) as reader:
        for what, run, most in (
            ("a page of `log`", lambda: reader.read_calls(limit=50), 0.02),
            ("a page of the browser", lambda: read_page(reader, CallFilter()), 0.02),
            ("find the change to undo", lambda: next(iterate_changes(reader, workspace="/bench"), None), 0.02),
            ("`stats`", reader.compute_stats, 2.0),
            ("`verify`", reader.verify, None),
        ):
            started, begun = time.perf_counter(), cpu_time()
            run()
            taken = time.perf_counter() - started
            text = f"{seconds(taken)} (CPU {seconds(cpu_time() - begun)})"
            target = f"at most {seconds(most)}" if most else ""
            yield Line(f"Journal of {rows:,} calls: {what}", text, "", "", target, taken <= most if most else None)


def fill(path: str, rows: int) -> None:
    """Write so many calls: reads, and a change at every tenth."""
    origin = Origin("bench", "native", "/bench")
    result = Result("Read", "ok", "     1\tline\n" * 60)
    writer = LogWriter(path)
    for number in range(rows):
        record = Record(Call("Read", {"file_path": f"f{number}"}), (), None, result=result, origin=origin)
        row = (*begin_row(record, number, writer.mask), *end_row(record, number, writer.mask))
        files = [(0, b"/bench/f", 0, "a", 0o644, "b", None, "[]", "b", 0o644)] if number % 10 == 9 else []
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


def both_steps(journal: SqliteJournal, data: bytes, calls: int) -> Line:
    """`begin` with a before-image of 10 KB that is new, and `record`: the two hooks by themselves."""
    from handrail.journal import BeforeImage

    taken = []
    origin = Origin("bench", "native", "/")
    for number in range(calls):
        call = Call("Write", {"file_path": "x", "content": data.decode("ascii")})
        item = BeforeImage("/nowhere/x", f"{number}".encode("ascii") + data, 0o644)
        result = Result("Write", "ok", "done", data={"diff": "-a\n+b\n" * 50})
        started = time.perf_counter()
        token = journal.begin(PendingRecord(call, (), None, [item], origin))
        failed = journal.record(Record(call, (), None, result=result, origin=origin, token=token))
        taken.append(time.perf_counter() - started)
        assert not failed
    taken.sort()
    median, worst = taken[len(taken) // 2], taken[len(taken) * 99 // 100]
    text = f"{seconds(median)} (99th of 100: {seconds(worst)})"
    return Line("Journal: both steps of a change of 10 KB", text, "", "", f"at most {seconds(MOST)}", median <= MOST)
