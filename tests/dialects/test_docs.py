"""The page on dialects is true: its example runs, and its tables name the dialects and tools that there are."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, dialects
from handrail.dialects import DialectError, Rules, ToolEntry
from handrail.dialects.check import KEYS, check
from handrail.dialects.templates import DialectTemplates

ROOT = Path(__file__).parents[2]
OF_DOCUMENTS = {"claw", "hello", "envelope"}
"""Made for one document each; lists leave them out."""
PAGE = (ROOT / "docs" / "dialects.md").read_text(encoding="utf-8")


def block(title: str) -> str:
    (actual,) = re.findall(rf"^```{re.escape(title)}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(actual)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The folder of the example, and a project for it to work on."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "tools.toml").write_text(block("toml tools.toml"), encoding="utf-8")
    (mine / "messages.toml").write_text(block("toml messages.toml"), encoding="utf-8")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "poem.txt").write_text("roses\nviolets\nviolets\n", encoding="utf-8")
    return tmp_path


def test_the_example_dialect_speaks_as_the_page_says(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(example)
    code = block("python example")
    assert code.count("assert ") >= 6
    scope: dict[str, Any] = {}
    try:
        exec(compile(code, "docs/dialects.md", "exec"), scope)
    finally:
        if "session" in scope:
            scope["session"].close()
    assert (example / "project" / "poem.txt").read_bytes() == b"tulips\nviolets\nviolets\n"


def test_a_dialect_is_chosen_by_name_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "path" / "to" / "project").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    exec(compile(block("python"), "docs/dialects.md", "exec"), scope)
    with scope["session"] as session:
        assert session.dialect.name == "deepagents"


def test_the_example_shows_every_key_of_a_tools_file() -> None:
    table = tomllib.loads(block("toml tools.toml"))
    assert {*table, "extends"} == set(KEYS)
    assert {key for entry in table["tools"].values() for key in entry} == set(ToolEntry.__dataclass_fields__) - {"name"}
    assert set(table["rules"]) == set(Rules.__dataclass_fields__)


def test_the_short_recipe_extends_a_dialect_and_passes_the_check(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "tools.toml").write_text(block("toml extends.toml"), encoding="utf-8")
    assert check(folder) == []
    mine, claude = dialects.load(str(folder)), dialects.load("claude")
    assert list(mine.entries) == [*claude.entries, "Replace"]
    assert (mine.limits("Read").lines, mine.limits("Read").line_chars) == (500, claude.limits("Read").line_chars)
    assert (mine.spec("Edit"), mine.rules) == (claude.spec("Edit"), claude.rules)


def test_the_example_describes_its_tools_with_its_own_limits(example: Path) -> None:
    with Session(example / "project", dialect=str(example / "mine")) as session:
        show, swap, find = session.specs()
    assert "up to 2 lines" in show.description
    assert set(show.schema["properties"]) == {"path", "from", "count", "column", "pages", "outline"}
    assert {"text", "below", "exact"} <= set(find.schema["properties"])
    assert set(swap.schema["properties"]) == {"path", "old", "new", "all"}


def test_the_table_names_every_dialect_with_its_tools_in_order() -> None:
    rows = re.findall(r"^\| `([\w-]+)` \| ([\w, ]+) \| .+ \|$", PAGE, re.MULTILINE)
    assert {name: listed.split(", ") for name, listed in rows} == {
        name: list(dialects.load(name).entries) for name in dialects.names() if name not in OF_DOCUMENTS
    }
    assert all(f"`{name}`" in PAGE for name in OF_DOCUMENTS)


def test_every_limit_of_the_table_is_the_one_in_force() -> None:
    read = {name: dialects.load(name).limits(shown) for name, shown in _readers().items()}
    rows = {cells[0]: cells[1:] for cells in _comparison()}
    order = rows[""]
    for name, cell in zip(order, rows["lines of a read"], strict=True):
        assert cell == str(read[name.strip("`")].lines)
    assert (
        "80000 characters" in rows["too much"][order.index("`deepagents`")]
        and read["deepagents"].answer_chars == 80_000
    )
    assert "of 5000" in rows["a long line"][order.index("`deepagents`")] and read["deepagents"].split_chars == 5000


def _readers() -> dict[str, str]:
    """The name under which each dialect reads, if it does."""
    return {
        name: shown
        for name in dialects.names()
        for shown, entry in dialects.load(name).entries.items()
        if entry.id == "read"
    }


def _comparison() -> list[list[str]]:
    lines = PAGE.split("| | `native`", 1)[1].split("\n\n", 1)[0].split("\n")
    return [
        [cell.strip() for cell in ("| | `native`" + line if not number else line).split("|")[1:-1]]
        for number, line in enumerate(lines)
    ]


def test_every_file_that_the_page_names_is_there() -> None:
    for path in re.findall(r"`(src/[\w/.]+)`", PAGE):
        assert os.path.exists(ROOT / path), path


@pytest.mark.parametrize(("facts", "expected"), [({}, "none"), ({"count": 0}, "none"), ({"count": 2}, "some: 2")])
def test_a_passage_may_be_said_for_want_of_a_fact(facts: dict[str, int], expected: str) -> None:
    words = DialectTemplates({"key": "[[!count?none]][[some: {count}]]"}, "")
    assert words.fill("key", **facts) == expected


def test_a_number_below_zero_counts_from_the_end_in_any_dialect(example: Path) -> None:
    with Session(example / "project", dialect=str(example / "mine")) as session:
        assert session.call("show", {"path": "poem.txt", "from": -1}).text == "   3 | violets"
        for first in (0, "0", 0.0, None):
            assert session.call("show", {"path": "poem.txt", "from": first, "count": 1}).text == "   1 | roses"
        for wrong in ("soon", [1], 1.5, "9" * 30):
            assert session.call("show", {"path": "poem.txt", "from": wrong}).status == "error"


def test_a_dialect_that_adds_to_an_argument_that_is_not_there_is_refused(example: Path) -> None:
    path = example / "mine" / "tools.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("add = { from", "add = { form"), encoding="utf-8")
    with (
        Session(example / "project", dialect=str(example / "mine")) as session,
        pytest.raises(DialectError, match="form"),
    ):
        session.specs()
