"""An edit "was applied before" only if the place is known where its old text would be.

Files, old and new texts are generated. The new text stands in the file; the lines around it decide.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.sizes import pick

CASES = pick(25, 1000)
SAID = ("applied before", "already are as the patch makes them")
KINDS = ["nothing shared", "shared elsewhere", "shared twice", "new text twice", "known above", "known below", "known"]
TOOLS = ["Edit", "MultiEdit", "ApplyPatch"]


def make_lines(chance: random.Random, name: str, count: int) -> list[str]:
    return [f"{'    ' * chance.randint(0, 2)}{name}_{number} = {chance.randint(0, 99)}" for number in range(count)]


def make_case(chance: random.Random, kind: str) -> tuple[list[str], list[str], list[str]]:
    """The lines of a file, of the old text, which the file never had, and of the new text, which it has."""
    above, below = make_lines(chance, "above", chance.randint(1, 2)), make_lines(chance, "below", chance.randint(1, 2))
    old, new = make_lines(chance, "old", chance.randint(1, 3)), make_lines(chance, "new", chance.randint(1, 3))
    head, tail = make_lines(chance, "head", chance.randint(1, 5)), make_lines(chance, "tail", chance.randint(1, 5))
    if kind == "nothing shared":
        return [*head, *new, *tail], old, new
    if kind == "shared elsewhere":  # each part is there, and not as the edit would leave them
        return [*head, *above, "", *tail, *new], [*above, *old], [*above, *new]
    if kind == "shared twice":
        return [*head, *above, *new, *tail, *above], [*above, *old], [*above, *new]
    if kind == "new text twice":
        block = [*above, *new, *below]
        return [*head, *block, *tail, *block], [*above, *old, *below], block
    start = [] if kind == "known below" else above
    end = [] if kind == "known above" else below
    return [*head, *start, *new, *end, *tail], [*start, *old, *end], [*start, *new, *end]


def make_call(tool: str, old: list[str], new: list[str], end: str) -> dict[str, Any]:
    texts = {"old_string": "\n".join(old) + end, "new_string": "\n".join(new) + end}
    if tool == "Edit":
        return {"file_path": "a.py", **texts}
    if tool == "MultiEdit":
        return {"file_path": "a.py", "edits": [texts]}
    rows = [f" {row}" if row in old and row in new else f"-{row}" for row in old]
    after = max((number for number, row in enumerate(rows) if row[0] == "-"), default=0) + 1
    rows[after:after] = [f"+{row}" for row in new if row not in old]
    return {"patch": "\n".join(["*** Begin Patch", "*** Update File: a.py", "@@", *rows, "*** End Patch", ""])}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_said_only_where_the_place_is_known(
    make_session: Callable[..., Session], tmp_path: Path, tool: str, kind: str
) -> None:
    session = make_session(durable=False)
    path = tmp_path / "a.py"
    for seed in range(CASES):
        chance = random.Random(f"{kind} {seed}")
        lines, old, new = make_case(chance, kind)
        text = "".join(f"{line}\n" for line in lines)
        path.write_text(text, encoding="utf-8")
        session.call("Read", {"file_path": "a.py"})
        result = session.call(tool, make_call(tool, old, new, chance.choice(["", "\n"])))
        assert path.read_text(encoding="utf-8") == text
        if kind.startswith("known"):
            assert result.ok and any(words in result.text for words in SAID), (old, new, text, result.text)
        else:
            assert not result.ok, (old, new, text, result.text)


@pytest.mark.parametrize("tool", TOOLS)
def test_one_line_that_is_there_proves_nothing(make_session: Callable[..., Session], tmp_path: Path, tool: str) -> None:
    """The old text of one line never was in the file: that its new text is there may be by chance."""
    session = make_session(durable=False)
    path = tmp_path / "a.py"
    for seed in range(CASES):
        chance = random.Random(seed)
        lines = make_lines(chance, "value", chance.randint(2, 9))
        new = chance.choice(lines)
        old = new.rpartition(" ")[0] + chance.choice([" 100", " None", " [value]"])
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        session.call("Read", {"file_path": "a.py"})
        assert not session.call(tool, make_call(tool, [old], [new], "")).ok, (old, new, lines)
