"""NotebookEdit: what an edit does to its cell, and the words of the claude dialect."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

from handrail.dialects import load
from tests.command import TIMEOUT
from tests.notebooks import RAN, Bench, Make, book, code, prose


@pytest.fixture
def bench(make_session: Make, tmp_path: Path) -> Callable[..., Bench]:
    return lambda content, dialect="native": Bench(make_session, tmp_path, content, dialect)


def test_replacing_code_clears_what_the_old_source_printed_and_keeps_the_rest(bench: Callable[..., Bench]) -> None:
    it = bench(book(prose(["# T"]), RAN))
    result = it.edit(cell_id="ran", new_source="x = 2\nx")
    assert result.status == "ok"
    assert it.now["cells"][1] == {**RAN, "source": ["x = 2\n", "x"], "outputs": [], "execution_count": None}
    assert it.now["cells"][0] == prose(["# T"])
    assert "cell ran" in result.text and "outputs (2) were cleared" in result.text
    assert {key: result.data[key] for key in ("cell_id", "index", "mode")} == {
        "cell_id": "ran",
        "index": 1,
        "mode": "replace",
    }
    assert '-    "x = 1\\n",\n+    "x = 2\\n",\n' in result.data["diff"]


def test_a_replaced_line_is_the_only_changed_line_of_a_cell_that_never_ran(bench: Callable[..., Bench]) -> None:
    it = bench(book(code([f"line {n}\n" for n in range(30)])))
    it.edit(cell_id="a1", new_source="".join(f"line {n}\n" if n != 15 else "LINE\n" for n in range(30)))
    old, new = it.before.split(b"\n"), it.path.read_bytes().split(b"\n")
    assert [(a, b) for a, b in zip(old, new, strict=True) if a != b] == [(b'    "line 15\\n",', b'    "LINE\\n",')]


def test_a_source_that_is_one_string_stays_one_string(bench: Callable[..., Bench]) -> None:
    it = bench(book(code("a\nb"), code(["a\n", "b"], "a2")))
    it.edit(cell_id="a1", new_source="c\nd")
    it.edit(cell_id="a2", new_source="c\nd")
    assert [cell["source"] for cell in it.now["cells"]] == ["c\nd", ["c\n", "d"]]


def test_a_source_on_one_line_in_a_cell_of_many_stays_on_one_line(bench: Callable[..., Bench]) -> None:
    it = bench(
        json.dumps(book(code(["a\n", "b"])), indent=2).replace('\n        "a\\n",\n        "b"\n      ', '"a\\n", "b"')
    )
    assert b'"source": ["a\\n", "b"]' in it.before
    it.edit(cell_id="a1", new_source="a\nb\nc")
    assert it.path.read_bytes() == it.before.replace(b'"b"]', b'"b\\n", "c"]')


def test_an_empty_source_is_possible(bench: Callable[..., Bench]) -> None:
    it = bench(book(code("a"), prose(["a"])))
    it.edit(cell_id="a1", new_source="")
    it.edit(cell_id="m1", new_source="")
    assert [cell["source"] for cell in it.now["cells"]] == ["", []]


def test_the_same_source_again_writes_nothing_and_keeps_the_outputs(bench: Callable[..., Bench]) -> None:
    it = bench(book(RAN))
    result = it.edit(cell_id="ran", new_source="x = 1\nx")
    assert result.status == "ok" and "No change: cell" in result.text
    assert it.path.read_bytes() == it.before


def test_a_code_cell_made_markdown_loses_what_only_code_has(bench: Callable[..., Bench]) -> None:
    it = bench(book(RAN))
    result = it.edit(cell_id="ran", new_source="# now", cell_type="markdown")
    assert it.now["cells"] == [prose(["# now"], "ran", metadata=RAN["metadata"])]
    assert "was a code cell" in result.text and "outputs (2)" in result.text


def test_a_markdown_cell_made_code_gains_what_code_needs(bench: Callable[..., Bench]) -> None:
    it = bench(book(prose(["a"], attachments={"p.png": {"image/png": "AA=="}})))
    result = it.edit(cell_id="m1", new_source="1 + 1", cell_type="code")
    assert it.now["cells"] == [code(["1 + 1"], "m1")]
    assert list(it.now["cells"][0]) == sorted(it.now["cells"][0])
    assert "attachments were removed" in result.text


@pytest.mark.parametrize(
    "order",
    [
        ["cell_type", "source", "metadata", "attachments", "id"],
        ["attachments", "source", "id", "metadata", "cell_type"],
        ["source", "id", "metadata", "cell_type", "attachments"],
    ],
)
def test_members_in_any_order_can_be_dropped_and_added(bench: Callable[..., Bench], order: list[str]) -> None:
    cell = prose("a", attachments={"p.png": {"image/png": "AA=="}})
    it = bench(book({key: cell[key] for key in order}))
    assert it.edit(cell_id="m1", new_source="b", cell_type="code").status == "ok"
    assert it.now["cells"] == [code("b", "m1")]
    kept = [key for key in order if key != "attachments"]
    assert list(it.now["cells"][0]) == [*kept, "execution_count", "outputs"]
    assert it.edit(cell_id="m1", new_source="c", cell_type="raw").status == "ok"
    assert it.now["cells"] == [prose("c", "m1", "raw")]


def test_attachments_stay_when_markdown_is_replaced(bench: Callable[..., Bench]) -> None:
    cell = prose(["![p](attachment:p.png)"], attachments={"p.png": {"image/png": "AA=="}})
    it = bench(book(cell))
    it.edit(cell_id="m1", new_source="![q](attachment:p.png)")
    assert it.now["cells"] == [{**cell, "source": ["![q](attachment:p.png)"]}]


@pytest.mark.parametrize("kind", ["code", "markdown", "raw"])
def test_insert_puts_a_valid_cell_with_a_new_id_behind_the_named_one(bench: Callable[..., Bench], kind: str) -> None:
    it = bench(book(prose(["a"]), code(["b"])))
    result = it.edit(edit_mode="insert", cell_id="m1", cell_type=kind, new_source="n\n")
    cells = it.now["cells"]
    assert [cell["source"] for cell in cells] == [["a"], ["n\n"], ["b"]]
    assert cells[1]["cell_type"] == kind and cells[1]["id"] == result.data["cell_id"] in result.text
    assert len({cell["id"] for cell in cells}) == 3 and result.data["index"] == 1
    nbformat.validate(it.now)


def test_insert_without_a_cell_is_at_the_beginning_and_behind_the_last_at_the_end(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["b"])))
    it.edit(edit_mode="insert", cell_type="raw", new_source="first")
    it.edit(edit_mode="insert", cell_type="raw", new_source="last", cell_id="a1")
    assert [cell["source"] for cell in it.now["cells"]] == [["first"], ["b"], ["last"]]


def test_inserting_the_same_cell_twice_gives_two_ids(bench: Callable[..., Bench]) -> None:
    it = bench(book())
    for _ in range(5):
        assert it.edit(edit_mode="insert", cell_type="code", new_source="same").status == "ok"
    assert len({cell["id"] for cell in it.now["cells"]}) == 5


def test_the_preview_shows_the_id_that_will_be_written(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["b"])))
    arguments = {"notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "code", "new_source": "n"}
    preview = it.session.prepare("NotebookEdit", arguments).preview()
    assert it.path.read_bytes() == it.before
    assert it.session.call("NotebookEdit", arguments).data["diff"] == preview


def test_a_notebook_older_than_ids_gets_none_and_is_told_that_its_cells_moved(bench: Callable[..., Bench]) -> None:
    it = bench(book(prose(["a"], None), code(["b"], None), minor=4))
    result = it.edit(edit_mode="insert", cell_id="cell-0", cell_type="code", new_source="n")
    assert it.now["cells"] == [prose(["a"], None), code(["n"], None), code(["b"], None)]
    assert result.data["cell_id"] == "cell-1" and "one higher" in result.text
    result = it.edit(edit_mode="delete", cell_id="0")
    assert it.now["cells"] == [code(["n"], None), code(["b"], None)] and "one lower" in result.text


def test_an_inserted_source_is_one_string_only_where_all_others_are(bench: Callable[..., Bench]) -> None:
    it = bench(book(code("a"), code("b", "a2")))
    it.edit(edit_mode="insert", cell_type="raw", new_source="x\ny")
    it.edit(cell_id="a1", new_source="c")
    assert it.now["cells"][0]["source"] == "x\ny"
    it = bench(book(code("a"), code(["b"], "a2")))
    it.edit(edit_mode="insert", cell_type="raw", new_source="x\ny")
    assert it.now["cells"][0]["source"] == ["x\n", "y"]


def test_an_inserted_cell_has_its_keys_in_the_order_of_its_neighbour(bench: Callable[..., Bench]) -> None:
    colab = {"cell_type": "code", "source": ["a"], "metadata": {"id": "z"}, "execution_count": None, "outputs": []}
    it = bench(book(colab, minor=0))
    it.edit(edit_mode="insert", cell_id="0", cell_type="code", new_source="b")
    assert list(it.now["cells"][1]) == list(colab)


def test_delete_takes_one_cell_and_the_last_one_leaves_an_empty_list(bench: Callable[..., Bench]) -> None:
    it = bench(book(prose(["a"]), code(["b"]), code(["c"], "a2")))
    for cell_id, left in (("a1", ["m1", "a2"]), ("a2", ["m1"]), ("m1", [])):
        result = it.edit(edit_mode="delete", cell_id=cell_id)
        assert result.status == "ok" and cell_id in result.text
        assert [cell["id"] for cell in it.now["cells"]] == left
    assert b'"cells": []' in it.path.read_bytes()


def test_a_cell_is_named_by_index_as_word_digits_or_number(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"]), code(["b"], "a2")))
    for name in ("cell-1", "1", 1):
        assert it.edit(cell_id=name, new_source=f"by {name!r}").data["cell_id"] == "a2"
        assert it.now["cells"][1]["source"] == [f"by {name!r}"]


def test_an_id_comes_before_an_index(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"], "1"), code(["b"], "0")))
    it.edit(cell_id="1", new_source="c")
    assert [cell["source"] for cell in it.now["cells"]] == [["c"], ["b"]]


def test_where_ids_look_like_indexes_a_stale_one_hits_no_other_cell(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"], "cell-0"), code(["b"], "cell-1"), code(["c"], "cell-2")))
    it.edit(edit_mode="delete", cell_id="cell-1")
    it.before = it.path.read_bytes()
    it.refused("no_such_cell", edit_mode="delete", cell_id="cell-1")


# The claude dialect.


def test_claude_knows_the_same_tool_by_its_own_schema(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"]), prose(["b"])), "claude")
    path = str(it.path)
    assert it.edit(notebook_path=path, cell_id="a1", new_source="x").status == "ok"
    assert it.edit(notebook_path=path, cell_id="m1", new_source="", edit_mode="delete").status == "ok"
    assert it.now["cells"] == [code(["x"])]


def test_the_words_of_claude_are_complete_and_closed() -> None:
    dialect = load("claude")
    for name, needed in (("NotebookEdit", ["notebook_path", "new_source"]), ("Write", ["file_path", "content"])):
        spec = dialect.spec(name)
        assert spec.schema["required"] == needed
        assert spec.schema["additionalProperties"] is False
        assert all(argument["description"] for argument in spec.schema["properties"].values())
        assert "Read" in spec.description and spec.hints.destructive
    assert dialect.spec("NotebookEdit").schema["properties"]["cell_type"]["enum"] == ["code", "markdown"]
    assert "prefer Edit" in dialect.spec("Write").description


def test_nbformat_is_imported_only_to_edit_a_notebook(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(json.dumps(book(code(["a"]))), encoding="utf-8")
    program = """
import sys
from handrail import Session
session = Session(sys.argv[1])
session.specs()
assert session.call("Read", {"file_path": "n.ipynb"}).status == "ok"
print(sorted({"nbformat", "jsonschema", "fastjsonschema"} & set(sys.modules)))
arguments = {"notebook_path": "n.ipynb", "cell_id": "a1", "new_source": "b"}
assert session.call("NotebookEdit", arguments).status == "ok"
print("nbformat" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
        check=True,
    )
    assert done.stdout == "[]\nTrue\n"
