"""Removing the oldest records of a journal that has too many of them, and contents beyond the budget.

Whole logs are removed, the oldest first. An entry of the log in use first names the oldest one that is left, so that
`verify` tells a log that was removed here from one that somebody deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection
from dataclasses import field

from handrail.frozen import frozen
from handrail.journal.log_lines import Head, list_logs, read_start
from handrail.journal.logs import LogWriter

MOST_CALLS = 1_000_000
FEWEST_CALLS = 1_000
"""A journal is not made smaller than that: calls that are still running stay in it."""
MOST_UNSHIPPED = 2
"""What is not in the shared journal yet is removed when it exceeds the limits of the journal by this factor."""
SHIPPING = "ship-"
"""Before the name of a shared journal, in the name of the file that says how far the logs were sent there."""
_SPARE = 0.9
"""Contents are removed down to this part of their budget, so that not every call removes some."""


@frozen
class ShippingState:
    """How far the logs have been shipped to one shared journal, as the local one knows it."""

    logs: dict[str, int] = field(default_factory=dict)
    """The newest entry of each log that arrived, by the number of the log."""
    complete: float = 0.0
    """All contents that were used before this time have arrived; seconds since 1970."""
    shipped: float = 0.0
    """When entries arrived last."""
    failure: str = ""
    """Why the last attempt failed; empty if it did not."""
    failed: float = 0.0
    retry: float = 0.0
    """Not tried again before this time, by any process."""
    failures: int = 0
    """In a row."""
    renamed: str = ""
    """Behind the names of the logs, if this is a copy that goes on under names of its own."""

    @property
    def n(self) -> int:
        """How many entries arrived, of all logs."""
        return sum(self.logs.values())


def remove_oldest(writer: LogWriter, most_calls: int, most_bytes: int) -> None:
    """Remove the oldest logs while there are more than ``most_calls`` calls, or they take more than ``most_bytes``.

    What is to be shipped and was not is removed only beyond twice these limits. A process that still writes to such a
    log begins another one.
    """
    paths = list_logs(writer.directory)
    with writer.numbers.locked() as counters:
        sizes = {number: os.stat(path).st_size for number, path in paths.items()}
        total, removed = sum(sizes.values()), counters.removed
        shipped = read_shipped(writer.directory)
        gone: dict[int, Head] = {}
        for number, size in sizes.items():
            head = writer.numbers.read_head(number)
            factor = 1 if shipped is None or shipped.get(number, 0) >= head.n else MOST_UNSHIPPED
            calls = counters.calls - head.seq  # that would be left
            if number == writer.number or calls < FEWEST_CALLS:
                break
            if calls < factor * most_calls and total <= factor * most_bytes:
                break
            gone[number] = head
            total -= size
            removed = max(removed, head.seq)
        writer.numbers.write(counters._replace(log_bytes=total))
    if not gone:
        return
    writer.append("removed", ([removed, max(gone) + 1], []))
    with writer.numbers.locked() as counters:
        for number, head in gone.items():
            if writer.numbers.read_head(number) == head:  # not continued meanwhile
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(paths.pop(number))
                writer.numbers.write_head(number, Head())
        writer.numbers.write(counters._replace(removed=removed))
    if began := read_start(next(iter(paths.values())))[1]:  # what was last used before that belongs to no call
        _trim(writer, 0, since=min(began / 1e9, read_shipping_time(writer.directory)))


def trim_contents(writer: LogWriter, budget: int, needed: Collection[str]) -> None:
    """Remove the contents that were not used for longest, down to the budget."""
    left = _trim(writer, int(_SPARE * budget), needed, since=read_shipping_time(writer.directory))
    if left > MOST_UNSHIPPED * budget:  # the one who ships counts those that are gone
        _trim(writer, MOST_UNSHIPPED * budget, needed)


def _trim(writer: LogWriter, most: int, needed: Collection[str] = (), *, since: float = float("inf")) -> int:
    left = writer.contents.trim(most, needed, since=since)
    with writer.numbers.locked() as counters:
        writer.numbers.write(counters._replace(content_bytes=left))
    return left


def read_shipping_state(path: str) -> ShippingState:
    """The state in a file; none, or one of another version, says nothing: the shared journal knows the position."""
    try:
        with open(path, encoding="ascii") as file:
            return ShippingState(**json.load(file))
    except (OSError, ValueError, TypeError):
        return ShippingState()


def _list_shipping_states(directory: str) -> list[ShippingState]:
    """How far the logs were sent to each shared journal."""
    names = [name for name in os.listdir(directory) if name.startswith(SHIPPING)]
    return [read_shipping_state(os.path.join(directory, name)) for name in names]


def read_shipped(directory: str) -> dict[int, int] | None:
    """The newest entry of each log that is in every shared journal; None if there is no shared journal."""
    states = [state.logs for state in _list_shipping_states(directory)]
    if not states:
        return None
    return {int(number): min(one.get(number, 0) for one in states) for number in states[0]}


def read_shipping_time(directory: str) -> float:
    """Contents used before this time are in every shared journal; endless if there is none."""
    return min((state.complete for state in _list_shipping_states(directory)), default=float("inf"))
