"""Measuring on a shared machine: contestants take turns, and what counts is a ratio within one run."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

COLUMNS = ("What", "Ours", "Baseline", "Ratio", "Target", "Met")


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to measure."""

    lines: int = 10_000_000
    edits: tuple[int, ...] = (1 << 10, 1 << 20, 100 << 20)
    rounds: int = 7
    calls: int = 300
    install: bool = False
    """Whether a competitor that is not here may be installed, into the temporary folder."""

    @property
    def few(self) -> int:
        """Rounds for what takes seconds."""
        return max(1, self.rounds // 2)


SMALL = Scale(lines=1_000_000, edits=(1 << 10, 1 << 20, 10 << 20), rounds=5, calls=100)
FULL = Scale(install=True)


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of several rounds."""

    median: float
    least: float
    cpu: float = 0.0
    """Processor time of this process and its children, where it was measured."""

    def __str__(self) -> str:
        cpu = f", CPU {seconds(self.cpu)}" if self.cpu else ""
        return f"{seconds(self.median)} (min {seconds(self.least)}{cpu})"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    what: str
    ours: str
    baseline: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None

    def cells(self) -> tuple[str, ...]:
        met = "" if self.met is None else "yes" if self.met else "**no**"
        return (self.what, self.ours, self.baseline, self.ratio, self.target, met)


def contest(rounds: int, contestants: Mapping[str, Callable[[], object]], each: int = 1) -> dict[str, Times]:
    """Every contestant in every round, after one round that does not count; the order turns from round to round."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    used: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            run = contestants[name]
            started, begun = time.perf_counter(), cpu_time()
            for _ in range(each):
                run()
            if number:
                taken[name].append((time.perf_counter() - started) / each)
                used[name].append((cpu_time() - begun) / each)
    return {
        name: Times(statistics.median(actual), min(actual), statistics.median(used[name]))
        for name, actual in taken.items()
    }


def cpu_time() -> float:
    """Seconds of processor time of this process and of the children that it has waited for."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def slower(what: str, ours: Times, baseline: Times, most: float | None = None, *, by_cpu: bool = False) -> Line:
    """How many times the baseline we take; ``by_cpu``: processor time decides, which counts all threads."""
    ratio = ours.median / baseline.median
    shown = f"{ratio:.2f}x"
    if ours.cpu and baseline.cpu:
        of_cpu = ours.cpu / baseline.cpu
        shown += f", CPU {of_cpu:.2f}x"
        ratio = of_cpu if by_cpu else ratio
    target = f"at most {most:g}x{' in CPU' if by_cpu else ''}" if most else ""
    return Line(what, str(ours), str(baseline), shown, target, ratio <= most if most else None)


def within(most: float, what: str, ours: Times, baseline: Times) -> Line:
    """A line whose target is a number of seconds of processor time."""
    line = slower(what, ours, baseline)
    return Line(line.what, line.ours, line.baseline, line.ratio, f"at most {seconds(most)} of CPU", ours.cpu <= most)


def faster(what: str, ours: Times, baseline: Times, least: float) -> Line:
    """How many times faster than the baseline we are."""
    ratio = baseline.median / ours.median
    return Line(what, str(ours), str(baseline), f"{ratio:.0f}x faster", f"at least {least:g}x faster", ratio >= least)


def share(what: str, part: Times, whole: Times) -> Line:
    """How much of a whole a part takes."""
    return Line(what, str(part), str(whole), f"{part.median / whole.median:.0%}")


def seconds(value: float) -> str:
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} µs"


def size(count: int) -> str:
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.3g} {unit}"
    return f"{count} bytes"


def table(actual: list[Line]) -> str:
    """The lines as Markdown."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *(line.cells() for line in actual)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)
