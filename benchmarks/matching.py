"""Where an edit applies: forgiving matching on small and big files, against a plain `str.find` of the same text; and a
whole edit by the letter, against the plain way to make the same change: read, replace, write beside it, sync, rename.
The worst cases have a limit in seconds, which is the budget of work that matching has.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.editing import bare_write
from benchmarks.measure import Line, Scale, contest, slower, within
from handrail import Session, Settings
from handrail.errors import ToolError
from handrail.text.matching.find import plan_edit

SIZES = (1_000, 10_000, 50_000)
MOST = 0.2
"""The seconds that matching may take on the biggest file, whatever comes out."""
LOOSE = 5
"""How many times an edit by the letter one that matches loosely, or nowhere, may take."""
BUDGET = 2
"""The seconds that a whole call may take, whatever its arguments are."""
PLAIN = 1.2
"""How many times the plain way a whole edit by the letter may take."""


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


def worst_cases() -> dict[str, tuple[str, str, str]]:
    """Texts for which a plain comparison takes a time that grows with the square or the cube of their length."""
    rows = contents(2_000)
    shifted = [f"  {row}" for row in rows[500:1_000]]
    line = "word " * 3_300
    return {
        "500 shifted lines with one added after each": (
            "\n".join(rows) + "\n",
            "\n".join(shifted),
            "\n".join(f"{row}\n  added()" for row in shifted),
        ),
        "2,000 lines that repeat each other, refused": (
            "  x = 1\n  y = 2\n" * 1_000 + "z\n",
            "x = 1 \ny = 2\n" * 1_000 + "z\n",
            "y = 2\nx = 1\n" * 1_000 + "z\n",
        ),
        "a line of 16 KB with other quotes": (f"{line}'a'\n", f"{line}’a’", f"{line}’b’"),
        "1 MB of escapes, refused": ("a\n" * 1_000, "\\u00e9\\n" * 125_000, "b"),
        "1 MB of short lines, refused": ("a\n" * 1_000, "b\n" * 500_000, "c"),
    }


def _numbered(rows: list[str], first: int) -> str:
    return "\n".join(f"{number:6}\t{row}" for number, row in enumerate(rows, first + 1))


def match(text: str, old: str, new: str) -> Callable[[], object]:
    def run() -> object:
        try:
            return plan_edit(text, old, new)
        except ToolError as error:
            return error

    return run


def exact_edit(session: Session, name: str, row: str) -> Callable[[], None]:
    """A whole call: the line ``row`` changed to and fro."""
    turns = cycle([(row, f"{row}  # seen"), (f"{row}  # seen\n", f"{row}\n")])

    def edit() -> None:
        old, new = next(turns)
        result = session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})
        assert result.status == "ok", result.text

    return edit


def plain_edit(path: Path, row: str, durable: bool) -> Callable[[], None]:
    """The same change without any of our promises but one: that the file is the old one or the new one."""
    turns = cycle([(row.encode(), f"{row}  # seen".encode()), (f"{row}  # seen\n".encode(), f"{row}\n".encode())])

    def edit() -> None:
        old, new = next(turns)
        data = path.read_bytes()
        assert data.count(old) == 1
        bare_write(path, data.replace(old, new), durable)

    return edit


def exact_lines(folder: Path, scale: Scale) -> Iterator[Line]:
    """A whole edit by the letter in a file that was read before."""
    for durable in (True, False):
        for count in SIZES:
            rows = contents(count)
            for name in ("ours.py", "plain.py"):
                (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
            with Session(folder, settings=Settings(state=str(folder / "state"), durable=durable)) as session:
                session.call("Read", {"file_path": "ours.py", "limit": 5})
                ours = exact_edit(session, "ours.py", rows[count // 2])
                plain = plain_edit(folder / "plain.py", rows[count // 2], durable)
                times = contest(scale.rounds * 5, {"ours": ours, "plain": plain})
            assert (folder / "ours.py").read_bytes() == (folder / "plain.py").read_bytes()
            kind = "" if durable else " without syncing"
            what = f"Edit by the letter in {count:,} lines{kind}, against plain read, replace and atomic write"
            yield slower(what, times["ours"], times["plain"], PLAIN if durable else None)
            for name in ("ours.py", "plain.py"):
                (folder / name).unlink()


def call_lines(folder: Path, scale: Scale) -> Iterator[Line]:
    """Whole calls on a file of 1 MB: edits that match loosely or nowhere, and a patch, against an exact edit."""
    rows = contents(min(22_000, scale.lines))
    middle = rows[len(rows) // 2 :][:10]
    shifted = "\n".join(f"  {row}" for row in middle)
    hunk = f"@@\n {middle[0]}\n-{middle[1]}\n+{middle[1]}  # seen\n"
    calls: dict[str, tuple[str, dict[str, str]]] = {
        "an edit by the letter": ("Edit", {"old_string": middle[1], "new_string": f"{middle[1]}  # seen"}),
        "an edit that matches loosely": ("Edit", {"old_string": shifted, "new_string": shifted.replace("row", "line")}),
        "an edit that matches nowhere": ("Edit", {"old_string": shifted.replace("row", "line"), "new_string": "x"}),
        "a patch by the letter": (
            "ApplyPatch",
            {"patch": f"*** Begin Patch\n*** Update File: a.py\n{hunk}*** End Patch"},
        ),
    }
    path = folder / "a.py"
    with Session(folder, settings=Settings(state=str(folder / "state"))) as session:

        def make(tool: str, arguments: dict[str, str]) -> Callable[[], object]:
            def call() -> object:
                path.write_text("\n".join(rows) + "\n", encoding="utf-8")
                session.call("Read", {"file_path": "a.py", "limit": 5})
                return session.call(tool, arguments if "patch" in arguments else {"file_path": "a.py", **arguments})

            return call

        first, *others = calls
        times = contest(scale.rounds, {name: make(*call) for name, call in calls.items()})
        for name in others:
            most = PLAIN if "patch" in name else LOOSE
            what = f"{name[0].upper()}{name[1:]} in 1 MB, against {first}"
            yield slower(what, times[name], times[first], most, by_cpu=True)
    path.unlink()


def extreme_lines(folder: Path, scale: Scale) -> Iterator[Line]:
    """Calls whose arguments or files are far larger than any that are meant."""
    count = min(100_000, scale.lines)
    cell: dict[str, object] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": f"c{number}", "source": [f"x = {number}"]} for number in range(count)]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    path = folder / "n.ipynb"
    path.write_text(text, encoding="utf-8")
    with Session(folder, settings=Settings(state=str(folder / "state"))) as session:
        turns = cycle(["y = 1", "y = 2"])
        contestants: dict[str, Callable[[], object]] = {
            "json": partial(json.loads, text),
            "read": lambda: session.call("Read", {"file_path": "n.ipynb"}),
            "edit": lambda: session.call(
                "NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": f"c{count // 2}", "new_source": next(turns)}
            ),
            "path": lambda: session.call("Edit", {"file_path": "d/" * 10_000, "old_string": "a", "new_string": "b"}),
        }
        times = contest(scale.rounds, contestants)
    names = {
        "read": f"Read a notebook of {count:,} cells, against `json.loads`",
        "edit": f"NotebookEdit in a notebook of {count:,} cells, against `json.loads`",
        "path": "Edit with a path of 10,000 parts, refused",
    }
    for key, name in names.items():
        yield within(BUDGET, name, times[key], times["json"])
    path.unlink()


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    yield from exact_lines(folder, scale)
    yield from call_lines(folder, scale)
    yield from extreme_lines(folder, scale)
    for name, (text, old, new) in worst_cases().items():
        times = contest(scale.rounds, {"ours": match(text, old, new), "find": partial(text.find, old)})
        most = BUDGET if name.startswith("1 MB") else MOST
        yield within(most, f"Match {name}, against str.find", times["ours"], times["find"])
    for count in SIZES:
        for name, (text, old, new) in cases(count).items():
            contestants: dict[str, Callable[[], object]] = {
                "ours": match(text, old, new),
                "find": partial(text.find, old),
            }
            times = contest(scale.rounds, contestants)
            what = f"Match {name}, in {count:,} lines, against str.find"
            if count == SIZES[-1]:
                yield within(MOST, what, times["ours"], times["find"])
            else:
                yield slower(what, times["ours"], times["find"])
