"""Notebooks for a reader: names that NotebookEdit takes, outputs in bounds, and nothing that makes it fail."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.text.notebooks.view import NotebookLimits, NotebookView, iterate_rows, view
from tests.notebooks import RAN, Bench, Make, book, code, prose

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def seen(content: Any, **limits: int) -> NotebookView:
    actual = view(json.dumps(content), NotebookLimits(**limits))
    assert actual
    return actual


def output(*outputs: Any, **limits: int) -> Any:
    return seen(book(code("x", outputs=list(outputs))), **limits).cells[0].outputs


def displayed(**data: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "metadata": {}, "data": data}


def test_cells_are_numbered_and_named_with_their_sources_and_outputs() -> None:
    actual = seen(book(prose(["# Title\n", "more"]), RAN))
    assert actual.language == "python"
    assert list(iterate_rows(actual)) == [
        ("[0]", "m1 (markdown)"),
        ("1", "# Title"),
        ("2", "more"),
        ("[1]", "ran (code, run 7)"),
        ("1", "x = 1"),
        ("2", "x"),
        ("result", "1"),
        ("stdout", "hello"),
    ]


def test_a_source_cannot_pass_for_the_head_of_a_cell() -> None:
    forged = seen(book(code("[7] evil (code)\n[8] more", id="a\n[9] b")))
    assert [label for label, _ in iterate_rows(forged)] == ["[0]", "1", "2"]
    assert next(iterate_rows(forged))[1] == "a\\n[9] b (code)"


@pytest.mark.parametrize(
    "cells",
    [
        [code("a", None), code("b", None), prose("c", None)],
        [code("a", "one"), code("b", None), code("c", "")],
        [code("a", "twin"), code("b", "twin"), code("c", "other")],
        [code("a", "ü b"), code("b", "x" * 64), prose("c", "m")],
    ],
)
def test_each_name_is_one_that_an_edit_finds(make_session: Make, tmp_path: Any, cells: list[Any]) -> None:
    content = book(*cells, minor=4)
    names = [cell.id for cell in seen(content).cells]
    for index, name in enumerate(names):
        bench = Bench(make_session, tmp_path, copy.deepcopy(content))
        result = bench.edit(cell_id=name, new_source="changed")
        assert result.error is None, result.text
        assert [cell["source"] for cell in bench.now["cells"]].index("changed") == index


def test_a_traceback_comes_without_colours_and_a_bare_error_by_its_name() -> None:
    trace = ["\x1b[0;31m----\x1b[0m", "\x1b]8;;http://x\x07link\x1b]8;;\x07", "\x1b[1;31mValueError\x1b[0m: no\x1b"]
    first, second = output(
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": trace},
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []},
    )
    assert (first.kind, first.text) == ("error", "----\nlink\nValueError: no")
    assert second.text == "ValueError: no"


def test_an_escape_without_an_end_hides_nothing() -> None:
    (actual,) = output({"output_type": "stream", "name": "stdout", "text": "a\x1b]8;;b c"})
    assert "b c" in actual.text


def test_a_picture_is_mentioned_with_its_size_and_handed_on() -> None:
    packed = base64.encodebytes(PNG).decode("ascii").splitlines(keepends=True)
    (actual,) = output(displayed(**{"image/png": packed, "text/plain": "<Figure>", "text/html": "<b>"}))
    assert actual.text == f"<Figure>\n[image/png, {len(PNG)} bytes]"
    assert actual.pictures == (("image/png", PNG),)


def test_pictures_beyond_the_limits_or_broken_are_mentioned_only() -> None:
    packed = base64.b64encode(PNG).decode("ascii")
    actual = seen(book(code("x", outputs=[displayed(**{"image/png": packed})] * 3)), pictures=2)
    assert len(actual.pictures) == 2
    assert actual.cells[0].outputs[2].text == f"[image/png, {len(PNG)} bytes, not shown]"
    assert output(displayed(**{"image/png": packed}), picture_bytes=10)[0].pictures == ()
    assert output(displayed(**{"image/png": "***"}))[0].text == "[image/png, broken]"


def test_other_types_are_mentioned() -> None:
    (actual,) = output(displayed(**{"image/svg+xml": "<svg/>", "application/vnd.plotly.v1+json": {"a": 1}}))
    assert actual.text == "[image/svg+xml, 6 bytes]\n[application/vnd.plotly.v1+json, 8 bytes]"


def test_a_long_output_keeps_its_head_and_tail_and_says_what_is_left_out() -> None:
    (actual,) = output({"output_type": "stream", "name": "stdout", "text": "a" * 60 + "b" * 60}, output_chars=100)
    assert actual.left == 20
    assert actual.text == "a" * 50 + "\n[20 characters left out]\n" + "b" * 50


def test_what_was_printed_in_pieces_is_one_output_and_many_outputs_are_counted() -> None:
    piece = {"output_type": "stream", "name": "stdout", "text": ["x"]}
    (actual,) = output(*[piece] * 1000)
    assert actual.text == "x" * 1000
    errors = {**piece, "name": "stderr"}
    content = book(code("", outputs=[piece, errors] * 30))
    cell = seen(content).cells[0]
    assert (len(cell.outputs), cell.more) == (50, 10)
    assert list(iterate_rows(seen(content)))[-1] == ("...", "[10 more outputs left out]")


def test_a_progress_bar_is_shown_as_it_ended() -> None:
    (actual,) = output({"output_type": "stream", "name": "stderr", "text": "0%\r50%\r100%\ndone\r\n"})
    assert (actual.kind, actual.text) == ("stderr", "100%\ndone\n")


@pytest.mark.parametrize(
    "broken", [None, 7, [], "text", {}, {"cell_type": "code"}, {"cell_type": 5, "source": ""}, {"source": [1]}]
)
def test_a_broken_cell_is_shown_as_it_stands_beside_the_others(broken: Any) -> None:
    actual = seen(book(broken, code("fine")))
    assert [cell.kind for cell in actual.cells] == ["broken", "code"]
    assert json.loads(actual.cells[0].source) == broken


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '"cells"',
        "{}",
        '{"cells": []}',
        '{"nbformat": "4", "cells": []}',
        '{"nbformat": 4}',
        '{"nbformat": 3, "worksheets": []}',
    ],
)
def test_what_is_no_notebook_is_none(text: str) -> None:
    assert view(text) is None
    assert view("[" * 200_000) is None


def test_numbers_without_end_and_half_characters_do_no_harm() -> None:
    actual = view('{"nbformat": 4, "cells": [{"cell_type": "code", "source": "\\ud800", "n": ' + "9" * 10_000 + "}]}")
    assert actual
    assert actual.cells[0].source == "\ufffd"


_KEYS = ["cell_type", "source", "input", "outputs", "output_type", "data", "text", "name", "id", "execution_count"]
_KEYS += ["text/plain", "image/png", "traceback", "ename", "png", "x"]
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(_KEYS),
            inner | st.sampled_from(["code", "markdown", "stream", "error", "execute_result", "display_data"]),
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(st.lists(_JSON, max_size=4))
def test_any_cells_at_all_can_be_viewed(cells: list[Any]) -> None:
    actual = seen({"nbformat": 4, "cells": cells})
    assert len(actual.cells) == len(cells)
    for label, line in iterate_rows(actual):
        assert label and "\n" not in line and "\x1b" not in label
        line.encode("utf-8")
