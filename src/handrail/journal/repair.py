"""Repair a journal: damaged logs are set aside, and their good lines are written to another log.

A line that was changed is not: nothing may be undone by it. It stays in the log that was set aside.
"""

from __future__ import annotations

import fcntl
import glob
import os
import time
from collections.abc import Iterator

from handrail.frozen import frozen
from handrail.journal.index import CHANGED, ChainWalk, check_lines, set_aside
from handrail.journal.log_lines import (
    GENESIS,
    ChainEntry,
    Head,
    LogLine,
    get_logs_path,
    list_logs,
    read_heads,
)
from handrail.journal.logs import LogWriter

DAMAGED = ".damaged-"
"""Behind the name of a log that was set aside; the time follows."""


@frozen
class RepairedLog:
    """A damaged log."""

    log: str
    set_aside: str
    """Where it lies now; empty if somebody writes to it, so that it was left alone."""
    saved: int
    """How many of its entries are in another log now."""


def list_damaged(path: str) -> list[str]:
    """The damaged logs of the journal at ``path`` that were set aside, the oldest first."""
    return sorted(glob.glob(os.path.join(glob.escape(get_logs_path(path)), f"*{DAMAGED}*")))


def repair_logs(path: str) -> Iterator[RepairedLog]:
    """Repair the damaged logs of the journal at ``path``. Raises `OSError`."""
    heads = read_heads(get_logs_path(path))
    repaired = False
    for number, log in list_logs(get_logs_path(path)).items():
        with open(log, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                in_use = False
            except BlockingIOError:
                in_use = True
            walk = ChainWalk(ChainEntry(0, GENESIS))
            entries = list(check_lines(log, walk))
            damaged = walk.n < heads.get(number, Head()).n or any(broken for _, broken, _ in entries)
            lines = [line for line, broken, _ in entries if line and not (broken and broken.why == CHANGED)]
            if damaged and in_use:
                yield RepairedLog(log, "", 0)
            elif damaged:
                _copy(path, number, lines)
                name = f"{log}{DAMAGED}{time.time_ns()}"
                os.rename(log, name)
                repaired = True
                yield RepairedLog(log, name, len(lines))
    if repaired:
        set_aside(path, keep=False)  # the next reader makes a new index


def _copy(path: str, number: int, lines: list[LogLine]) -> None:
    """Write these entries to another log, with the numbers of their calls, and that their own log is gone."""
    writer = LogWriter(path)
    try:
        for line in lines:
            if line.stage != "start":
                writer.append(line.stage, line.content, line.seq)
        head = writer.numbers.read_head(number)
        writer.append("removed", ([writer.counters.removed, 0], [(number, head.n, head.hash)]))
        with writer.numbers.locked():
            writer.numbers.write_head(number, Head())
    finally:
        writer.close()
