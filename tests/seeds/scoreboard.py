"""The scoreboard of the mission: how many of the 161 items of the five source documents have passing golden tests.

    python -m tests.seeds.scoreboard

An item passes if it has at least one test and all its tests pass; a skipped test is not a pass. The id of an item is in
the names of its tests: `test_s2_19_...` belongs to S2-19.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

HERE = Path(__file__).parent
COUNTS = {"S0": 53, "S1": 29, "S2": 30, "S3": 23, "S4": 26}
ITEMS = tuple((document, number) for document, count in COUNTS.items() for number in range(1, count + 1))
_NAME = re.compile(r"test_s(\d+)_(\d+)_[a-z0-9_]*[a-z]")

Item = tuple[str, int]


def item_of(test: str) -> Item | None:
    """The item that a test is named after, or None if there is no such item. Takes node ids too."""
    match = _NAME.fullmatch(test.split("[")[0].split("::")[-1])
    item = (f"S{match[1]}", int(match[2])) if match else None
    return item if item in ITEMS else None


def tally(outcomes: Mapping[str, bool]) -> dict[Item, bool]:
    """Which items have tests, and whether all of them passed; from node ids and whether each passed."""
    collected: dict[Item, bool] = {}
    for test, passed in outcomes.items():
        item = item_of(test)
        if item:
            collected[item] = collected.get(item, True) and passed
    return collected


def report(scores: Mapping[Item, bool]) -> str:
    """The board: one row a document, then what fails and what has no test; the last line is the sum."""
    rows = []
    for document, count in COUNTS.items():
        passed = sum(ok for (name, _), ok in scores.items() if name == document)
        rows.append(f"{document}  {passed:>3} / {count:>3}")
    failing = ranges(item for item, ok in scores.items() if not ok)
    untested = ranges(item for item in ITEMS if item not in scores)
    rows += ["", f"failing: {failing or 'none'}", f"without a test: {untested or 'none'}", ""]
    return "\n".join([*rows, f"{sum(scores.values())} / {len(ITEMS)} items passed"])


def ranges(items: Iterable[Item]) -> str:
    """Items in short: `S0-1 to 49, S2-3, S2-7 to 9`."""
    runs: list[tuple[str, int, int]] = []
    for document, number in sorted(items):
        if runs and runs[-1][0] == document and runs[-1][2] == number - 1:
            runs[-1] = (document, runs[-1][1], number)
        else:
            runs.append((document, number, number))
    return ", ".join(
        f"{document}-{first}" if first == last else f"{document}-{first} to {last}" for document, first, last in runs
    )


@dataclass
class Outcomes:
    """A pytest plugin that notes which tests passed. A test that fails on its way in or out has not."""

    passed: dict[str, bool] = field(default_factory=dict)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ok = report.passed and not hasattr(report, "wasxfail")
        self.passed[report.nodeid] = self.passed.get(report.nodeid, True) and ok


def main() -> int:
    outcomes = Outcomes()
    status = pytest.main([str(HERE), "--no-header"], plugins=[outcomes])
    print()
    print(report(tally(outcomes.passed)))
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
