"""NotebookEdit: mistakes are said before anything is written, and what is said leads out."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.notebooks import Bench, Make, book, code, prose


@pytest.fixture
def bench(make_session: Make, tmp_path: Path) -> Callable[..., Bench]:
    return lambda content, dialect="native": Bench(make_session, tmp_path, content, dialect)


def test_all_mistakes_in_the_arguments_are_named_at_once(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"])))
    message = it.refused("bad_arguments")
    assert "cell_id: missing" in message and "new_source: missing" in message
    message = it.refused("bad_arguments", edit_mode="insert", sourc="x")
    assert "new_source: missing" in message and "cell_type: missing" in message and "sourc: unknown argument" in message
    message = it.refused("bad_arguments", edit_mode="delete", new_source="x", cell_type="graph")
    assert (
        "cell_id: missing" in message
        and "delete takes no source" in message
        and "cell_type: input should be" in message
    )
    message = it.refused("bad_arguments", edit_mode="move", cell_id=["a1"])
    assert "edit_mode: input should be" in message and "cell_id: input should be" in message


def test_an_unknown_cell_is_answered_with_the_cells_that_there_are(bench: Callable[..., Bench]) -> None:
    it = bench(book(*(code(["a"], f"id{n}") for n in range(40)), prose(["z"])))
    message = it.refused("no_such_cell", cell_id="nope", new_source="x")
    assert "no cell nope" in message and "0: id0 (code), 1: id1 (code)" in message and "and 31 more" in message
    assert len(message) < 400
    for name in ("cell-41", "41", "-1", "cell-", "cell-1x", "١"):
        it.refused("no_such_cell", cell_id=name, new_source="x")


def test_a_notebook_without_cells_says_how_to_insert_the_first(bench: Callable[..., Bench]) -> None:
    it = bench(book())
    assert "insert the first one" in it.refused("no_such_cell", cell_id="0", new_source="x")
    assert it.edit(edit_mode="insert", cell_type="markdown", new_source="# T").status == "ok"
    nbformat.validate(it.now)


def test_an_id_that_two_cells_have_names_neither_and_an_index_leads_out(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"], "twin"), code(["b"], "twin")))
    assert "2 cells have the id twin" in it.refused("no_such_cell", cell_id="twin", new_source="x")
    result = it.edit(cell_id="cell-1", new_source="x")
    assert result.status == "partial" and result.notes[0].code == "invalid_notebook"
    assert [cell["source"] for cell in it.now["cells"]] == [["a"], ["x"]]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('{"cells": [', "not valid JSON"),
        ("", "not valid JSON"),
        ('{"cells": []} {}', "not valid JSON"),
        ('{"cells": [], "a" 1}', "not valid JSON"),
        ('{"cells": [], 1: 2}', "not valid JSON"),
        ('{"cells": [{}', "not valid JSON"),
        ('{"cells": [], "nbformat": 4, "nbformat_minor": ' + "[" * 100_000, "not valid JSON"),
        ("[1, 2]", "not a Jupyter notebook"),
        ('{"cells": []}', "not a Jupyter notebook"),
        ('{"nbformat": 4, "nbformat_minor": 5}', "not a Jupyter notebook"),
        ('{"nbformat": 4, "nbformat_minor": 5, "cells": {}}', "not a Jupyter notebook"),
        ('{"nbformat": "4", "nbformat_minor": 5, "cells": []}', "not a Jupyter notebook"),
        ('{"nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": []}]}', "format 3"),
        ('{"nbformat": 5, "nbformat_minor": 0, "cells": []}', "format 5"),
    ],
)
def test_what_is_not_a_notebook_of_format_4_is_refused(
    bench: Callable[..., Bench], content: str, expected: str
) -> None:
    it = bench(content)
    assert expected in it.refused("bad_notebook", edit_mode="insert", cell_type="code", new_source="x")


def test_a_notebook_that_was_not_read_is_not_changed(make_session: Make, tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps(book(code(["a"]))), encoding="utf-8")
    session = make_session()
    result = session.call("NotebookEdit", {"notebook_path": "n.ipynb", "cell_id": "a1", "new_source": "x"})
    assert result.error and result.error.code == "not_seen"
    assert json.loads(path.read_bytes()) == book(code(["a"]))


def test_a_missing_notebook_is_not_created(make_session: Make, tmp_path: Path) -> None:
    arguments = {"notebook_path": "n.ipynb", "edit_mode": "insert", "cell_type": "code", "new_source": "x"}
    result = make_session().call("NotebookEdit", arguments)
    assert result.error and result.error.code == "not_found"
    assert list(tmp_path.iterdir()) == []


def test_a_cell_of_a_notebook_that_changed_since_is_neither_replaced_nor_deleted(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"]), code(["b"], "a2")))
    it.path.write_text(json.dumps(book(code(["by hand"]), code(["b"], "a2")), indent=1) + "\n", encoding="utf-8")
    it.before = it.path.read_bytes()
    it.refused("changed_since", cell_id="a1", new_source="x")
    it.refused("changed_since", edit_mode="delete", cell_id="a1")
    it.refused("changed_since", edit_mode="insert", cell_id="0", cell_type="code", new_source="x")
    result = it.edit(edit_mode="insert", cell_id="a2", cell_type="code", new_source="x")
    assert [note.code for note in result.notes] == ["changed_elsewhere"]
    assert [cell["source"] for cell in it.now["cells"]] == [["by hand"], ["b"], ["x"]]


def test_half_a_character_is_refused_also_where_it_could_be_escaped(bench: Callable[..., Bench]) -> None:
    it = bench(json.dumps(book(code(["é"]))))
    it.refused("cannot_encode", cell_id="a1", new_source="\ud800")


def test_an_edit_that_would_make_a_valid_notebook_invalid_is_refused(bench: Callable[..., Bench]) -> None:
    it = bench(book(prose(["a"], metadata={"format": 3})))
    message = it.refused("bad_notebook", cell_id="m1", new_source="x", cell_type="raw")
    assert "3 is not of type 'string'" in message


def test_a_notebook_that_was_invalid_before_is_edited_and_that_is_noted(bench: Callable[..., Bench]) -> None:
    it = bench(book({"cell_type": "code", "id": "bad", "source": 5}, code(["a"])))
    result = it.edit(cell_id="a1", new_source="x")
    assert result.status == "partial" and result.notes[0].code == "invalid_notebook"
    assert "cells[0]" in result.notes[0].text and result.notes[0].text in result.text
    assert it.now["cells"] == [{"cell_type": "code", "id": "bad", "source": 5}, code(["x"])]
    assert it.edit(edit_mode="delete", cell_id="bad").status == "ok"


def test_of_a_long_notebook_only_the_edited_cell_is_checked(bench: Callable[..., Bench]) -> None:
    bad = {"cell_type": "code", "id": "bad", "source": 5}
    odd = prose(["a"], "odd", metadata={"format": 3})
    it = bench(book(bad, odd, *(code(["a"], f"id{n}") for n in range(1200))))
    message = it.refused("bad_notebook", cell_id="odd", new_source="x", cell_type="raw")
    assert "cells[1]" in message and "3 is not of type 'string'" in message
    assert it.edit(cell_id="id1100", new_source="x").status == "ok"
    assert it.edit(edit_mode="delete", cell_id="id1101").status == "ok"
    assert it.edit(edit_mode="insert", cell_id="id1102", cell_type="code", new_source="y").status == "ok"
    assert len(it.now["cells"]) == 1202 and it.now["cells"][0] == bad


@pytest.mark.parametrize("broken", [5, {}, {"cell_type": 3}, None, []])
def test_a_thing_that_is_no_cell_can_only_be_deleted(bench: Callable[..., Bench], broken: Any) -> None:
    it = bench(book(code(["a"]), broken))
    assert "no cell_type" in it.refused("bad_notebook", cell_id="cell-1", new_source="x")
    assert it.edit(edit_mode="insert", cell_id="cell-1", cell_type="code", new_source="y").status == "partial"
    assert it.edit(edit_mode="delete", cell_id="cell-1").status == "ok"
    assert [cell["source"] for cell in it.now["cells"]] == [["a"], ["y"]]


def test_an_id_with_control_characters_is_shown_escaped(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(["a"], "x\n## forged")))
    assert "\n" not in it.refused("no_such_cell", cell_id="b\nad", new_source="x")
    result = it.edit(cell_id="x\n## forged", new_source="b")
    assert "cell x\\n## forged" in result.text and result.data["cell_id"] == "x\n## forged"


def test_a_notebook_with_a_second_name_is_refused_and_left_alone(bench: Callable[..., Bench], tmp_path: Path) -> None:
    it = bench(book(code(["a"])))
    os.link(it.path, tmp_path / "other.ipynb")
    it.refused("hard_linked", cell_id="a1", new_source="x")
    assert (tmp_path / "other.ipynb").read_bytes() == it.before
