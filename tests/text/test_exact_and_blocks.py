"""What is there by the letter and once is meant so; and a block's own indentation counts, not that of the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.errors import InsideWord
from handrail.text.document import apply_splices
from handrail.text.matching.find import plan_edit


def edited(text: str, old: str, new: str, prose: bool = False) -> str:
    return apply_splices(text, plan_edit(text, old, new, prose=prose).splices)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("and ends.", "and ends.\n* three"),
        ("and ends.", "and ends.\n\nA paragraph:"),
        ("* one that goes on", "1. one\n   that goes on"),
        ("goes on\n  and ends.", "goes on\n* and ends"),
    ],
)
def test_an_exact_edit_of_markdown_is_literal(
    old: str, new: str, make_session: Callable[..., Session], tmp_path: Path
) -> None:
    text = "# List\n\n* one that goes on\n  and ends.\n* two\n"
    path = tmp_path / "notes.md"
    path.write_text(text, encoding="utf-8")
    session = make_session(tmp_path, durable=False)
    session.call("Read", {"file_path": "notes.md"})
    result = session.call("Edit", {"file_path": "notes.md", "old_string": old, "new_string": new})
    assert (result.ok, path.read_text(encoding="utf-8")) == (True, text.replace(old, new)), result.text


@pytest.mark.parametrize(("old", "longer"), [("limit = 5", "limit = 50"), ("item", "items"), ("size", "resize")])
def test_a_text_inside_a_longer_word_is_another_text(old: str, longer: str) -> None:
    for text in (f"{longer}\n{old}\n", f"{old}\n{longer}\n"):
        rows = [old.upper() if row == old else row for row in text.split("\n")]
        assert edited(text, old, old.upper()) == "\n".join(rows)
    with pytest.raises(InsideWord):
        plan_edit(f"{longer}\n", old, old.upper())


TABS, SPACES = "def a():\n\tx = 1\n\ty = 2\n", "def b():\n    z = 3\n    w = 4\n"


@pytest.mark.parametrize("text", [f"{TABS}\n\n{SPACES}", f"{SPACES}\n\n{TABS}", f"{SPACES}\n\n{TABS}\n\n{SPACES * 9}"])
def test_tabs_and_spaces_are_judged_by_the_block(text: str) -> None:
    nested = edited(text, "    x = 1\n    y = 2", "    x = 1\n    if x:\n        y = 2")
    assert nested == text.replace("\ty = 2", "\tif x:\n\t\ty = 2")
    if text.count("z = 3") == 1:
        nested = edited(text, "\tz = 3\n\tw = 4", "\tz = 3\n\tif z:\n\t\tw = 4")
        assert nested == text.replace("    w = 4", "    if z:\n        w = 4")
