"""Removing the oldest records of a journal that has too many of them, and contents beyond the budget.

Whole logs are removed, and only those that nobody writes to. An entry of the log in use names their heads first, so
that `verify` tells a log that was removed here from one that somebody deleted.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Collection
from typing import Any

from handrail.journal.log_lines import get_log_path, list_logs, parse_line
from handrail.journal.logs import LogWriter

MOST_CALLS = 1_000_000
FEWEST_CALLS = 1_000
"""A journal is not made smaller than that: calls that are still running stay in it."""
MOST_UNSHIPPED = 2
"""What is not in the shared journal yet is removed when it exceeds the limits of the journal by this factor."""
_SPARE = 0.9
"""Contents are removed down to this part of their budget, so that not every call removes some."""


def remove_oldest(writer: LogWriter, most_calls: int, most_bytes: int) -> None:
    """Remove the oldest logs while there are more than ``most_calls`` calls, or they take more than ``most_bytes``.

    What is to be shipped and was not is removed only beyond twice these limits.
    """
    with writer.numbers.locked() as counters:
        sizes = {number: os.stat(path).st_size for number, path in list_logs(writer.directory).items()}
        total, removed = sum(sizes.values()), counters.removed
        shipped = read_shipped(writer.directory)
        gone: list[int] = []
        for number, size in sizes.items():
            head = writer.numbers.read_head(number)
            factor = 1 if shipped is None or shipped.get(number, 0) >= head.n else MOST_UNSHIPPED
            calls = counters.calls - head.seq  # that would be left
            if calls < FEWEST_CALLS or (calls < factor * most_calls and total <= factor * most_bytes):
                break
            if number == writer.number or _is_in_use(get_log_path(writer.directory, number)):
                continue
            gone.append(number)
            total -= size
            removed = max(removed, head.seq)
        heads = {number: writer.numbers.read_head(number) for number in gone}
        writer.numbers.write(counters._replace(log_bytes=total, removed=removed))
        first = min(sizes.keys() - gone, default=counters.logs)
        before = writer.numbers.list_removed(first, counters.logs)
    if not gone:
        return
    named = [*before, *((number, head.n, head.hash) for number, head in heads.items())]
    writer.append("removed", ([removed, first], named))
    with writer.numbers.locked():
        for number, head in heads.items():
            path = get_log_path(writer.directory, number)
            if writer.numbers.read_head(number) == head and not _is_in_use(path):  # not continued meanwhile
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                writer.numbers.mark_removed(number)
    _remove_unused_contents(writer)


def trim_contents(writer: LogWriter, budget: int, needed: Collection[str]) -> None:
    """Remove the contents that were not used for longest, down to the budget."""
    shipped = read_shipping_time(writer.directory)
    left = writer.contents.trim(int(_SPARE * budget), needed, since=shipped)
    if left > MOST_UNSHIPPED * budget:  # the one who ships counts those that are gone
        left = writer.contents.trim(MOST_UNSHIPPED * budget, needed)
    with writer.numbers.locked() as counters:
        writer.numbers.write(counters._replace(content_bytes=left))


def _remove_unused_contents(writer: LogWriter) -> None:
    """Remove the contents that no call uses any more: those that were last used before the oldest log began."""
    paths = list(list_logs(writer.directory).values())
    if not paths:
        return
    with open(paths[0], "rb") as file:
        line = parse_line(file.readline()[:-1])
    if line and line.stage == "start":
        left = writer.contents.trim(0, since=min(line.content[0][2] / 1e9, read_shipping_time(writer.directory)))
        with writer.numbers.locked() as counters:
            writer.numbers.write(counters._replace(content_bytes=left))


def _is_in_use(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def list_shipping_states(directory: str) -> list[dict[str, Any]]:
    """How far the logs were sent to each shared journal."""
    states = []
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith("ship-"):
                try:
                    with open(os.path.join(directory, name), encoding="ascii") as file:
                        state = json.load(file)
                except (OSError, ValueError):
                    state = {}
                states.append(state if isinstance(state, dict) else {})
    return states


def read_shipped(directory: str) -> dict[int, int] | None:
    """The newest entry of each log that is in every shared journal; None if there is no shared journal."""
    states = [state.get("logs") or {} for state in list_shipping_states(directory)]
    if not states:
        return None
    return {int(number): min(int(one.get(number, 0)) for one in states) for number in states[0]}


def read_shipping_time(directory: str) -> float:
    """Contents used before this time are in every shared journal; endless if there is none."""
    return min((float(state.get("complete") or 0) for state in list_shipping_states(directory)), default=float("inf"))
