"""Where an edit applies: the whole ladder on small and big files, against a plain `str.find` of the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, seconds, slower
from handrail.errors import ToolError
from handrail.text.ladder import plan

SIZES = (1_000, 10_000, 50_000)
MOST = 0.2
"""The seconds that the ladder may take on the biggest file, whatever comes out."""


def contents(count: int) -> list[str]:
    """Lines of code, nested, no two blocks of them the same."""
    return [f"{'    ' * (row % 4)}value_{row} = compute(row={row % 97}, other={row % 13})" for row in range(count)]


def cases(count: int) -> dict[str, tuple[str, str, str]]:
    """A file, and old and new texts of up to 500 lines from its middle, written ever more loosely."""
    rows = contents(count)
    middle = rows[count // 2 : count // 2 + min(500, count // 4)]
    text, old = "\n".join(rows) + "\n", "\n".join(middle)
    new = "\n".join([*middle[:3], "    added = 1", *middle[3:]])
    bare = "\n".join(row.strip() for row in middle)
    return {
        "by the letter": (text, old, new),
        "shifted": (text, old.replace("value", "  value"), new.replace("value", "  value")),
        "without indentation, refused": (text, bare, bare.replace("\n", "\nadded = 1\n", 1)),
        "numbered": (text, _numbered(middle, count // 2), new),
        "not there": (text, old.replace("compute", "computed"), new),
        "nowhere near": (text, "\n".join(f"nothing like it {row} at all" for row in range(len(middle))), new),
    }


def _numbered(rows: list[str], first: int) -> str:
    return "\n".join(f"{number:6}\t{row}" for number, row in enumerate(rows, first + 1))


def ladder(text: str, old: str, new: str) -> Callable[[], object]:
    def run() -> object:
        try:
            return plan(text, old, new)
        except ToolError as error:
            return error

    return run


def lines(_folder: Path, scale: Scale) -> Iterator[Line]:
    for count in SIZES:
        for name, (text, old, new) in cases(count).items():
            contestants = {"ours": ladder(text, old, new), "find": lambda text=text, old=old: text.find(old)}
            times = contest(scale.rounds, contestants)
            line = slower(f"Match {name}, in {count:,} lines, against str.find", times["ours"], times["find"])
            if count == SIZES[-1]:
                met = times["ours"].median <= MOST
                line = Line(line.what, line.ours, line.baseline, line.ratio, f"at most {seconds(MOST)}", met)
            yield line
