"""Figures over the newest calls, as plots over time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from markupsafe import Markup

from handrail.journal import browse
from handrail.journal.browse import Bucket
from handrail.journal.queries import JournalReader
from handrail.web.plots import plot_bars

_PERIODS = (60, 300, 900, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
_MOST_BARS = 48
_MOST_TOOLS = 6

Measure = Callable[[Bucket], float]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot with its figures, which are also in a table."""

    title: str
    labels: list[str]
    series: dict[str, list[float]]
    svg: Markup = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "svg", plot_bars(self.title, self.labels, self.series))


def make_plots(reader: JournalReader) -> list[Plot]:
    """The plots of the page; none if there are no calls."""
    first, last = browse.read_time_span(reader)
    seconds = next((one for one in _PERIODS if (last - first) / one < _MOST_BARS), _PERIODS[-1])
    buckets = browse.count_by_period(reader, seconds)
    if not buckets:
        return []
    starts = list(range(first // seconds * seconds, last + 1, seconds))[-_MOST_BARS:]
    labels = [_label(start, seconds) for start in starts]

    def sums(measure: Measure) -> list[float]:
        by_start: dict[int, float] = {}
        for bucket in buckets:
            by_start[bucket.start] = by_start.get(bucket.start, 0.0) + measure(bucket)
        return [by_start.get(start, 0.0) for start in starts]

    counts: dict[str, int] = {}
    for bucket in buckets:
        counts[bucket.tool] = counts.get(bucket.tool, 0) + bucket.calls
    tools = sorted(counts, key=lambda tool: (-counts[tool], tool))[:_MOST_TOOLS]
    by_tool = {tool: sums(_count_tools({tool})) for tool in tools}
    if len(counts) > len(tools):
        by_tool["other"] = sums(_count_tools(counts.keys() - set(tools)))
    calls, took = sums(lambda one: one.calls), sums(lambda one: one.milliseconds)
    means = [total / count if count else 0.0 for total, count in zip(took, calls, strict=True)]
    ended = {"failed": sums(lambda one: one.failures), "refused": sums(lambda one: one.refusals)}
    asked = {
        "answered yes": sums(lambda one: one.answered),
        "refused or not answered": sums(lambda one: one.asked - one.answered),
    }
    return [
        Plot("Calls per tool", labels, by_tool),
        Plot("Failures and refusals", labels, ended),
        Plot("Calls that needed approval", labels, asked),
        Plot("Tokens, estimated", labels, {"in and out": sums(lambda one: one.chars / 4)}),
        Plot("Mean time per call in milliseconds", labels, {"mean": means}),
    ]


def _count_tools(tools: Collection[str]) -> Measure:
    return lambda one: one.calls if one.tool in tools else 0


def _label(start: int, seconds: int) -> str:
    form = "%H:%M" if seconds < 6 * 3_600 else "%m-%d %Hh" if seconds < 86_400 else "%Y-%m-%d"
    return time.strftime(form, time.localtime(start))
