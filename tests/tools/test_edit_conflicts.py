"""An edit of lines that changed since they were read is a conflict; an edit of other lines is made, with a note."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests import sizes

Make = Callable[..., Session]
LINES = [f"line {number}\n" for number in range(1, 13)]
WAYS = ("replace", "insert before", "insert after", "delete before", "append")


def change(lines: list[str], way: str, at: int) -> tuple[list[str], set[int]]:
    """The file as another program leaves it, and the indexes of the lines that are new in it."""
    if way == "replace":
        return [*lines[:at], "other\n", *lines[at + 1 :]], {at}
    if way == "insert before":
        return [*lines[:at], "other\n", *lines[at:]], {at}
    if way == "insert after":
        return [*lines[: at + 1], "other\n", *lines[at + 1 :]], {at + 1}
    if way == "delete before":
        return lines[:at] + lines[at + 1 :], set()
    return [*lines, "other\n"], {len(lines)}


def cases() -> list[tuple[str, int, int, str]]:
    return list(product(WAYS, range(0, 12, 2), range(12), ("Edit", "MultiEdit")))


def test_there_are_enough_cases() -> None:
    assert len(cases()) >= 200


@pytest.mark.parametrize(("way", "at", "edited", "tool"), sizes.spread(cases(), 60))
def test_only_lines_that_are_as_they_were_read_are_edited(
    make_session: Make, tmp_path: Path, way: str, at: int, edited: int, tool: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("".join(LINES), encoding="utf-8")
    session = make_session(durable=False)
    assert session.call("Read", {"file_path": "a.txt"}).ok
    now, new = change(LINES, way, at)
    file.write_text("".join(now), encoding="utf-8")
    if edited >= len(now):
        return
    text = now[edited].rstrip("\n")
    edit: dict[str, Any] = {"old_string": text + "\n", "new_string": "mine\n"}
    arguments = {"file_path": "a.txt", **edit} if tool == "Edit" else {"file_path": "a.txt", "edits": [edit]}
    result = session.call(tool, arguments)
    after = file.read_text(encoding="utf-8")
    if edited in new:
        assert result.error is not None and result.error.code == "changed_since"
        assert text in result.text and after == "".join(now)
    else:
        assert result.ok and "mine\n" in after, result.text
