"""NotebookEdit changes one cell: every byte outside it stays, in whatever layout the file is."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import sizes
from tests.notebooks import Bench, Make, book, code, prose


@pytest.fixture
def bench(make_session: Make, tmp_path: Path) -> Callable[..., Bench]:
    return lambda content, dialect="native": Bench(make_session, tmp_path, content, dialect)


CHARS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n"\\\t\r\u2028é漢😀'), max_size=12)
SOURCES = st.one_of(CHARS, st.lists(CHARS, max_size=4).map(lambda parts: "\n".join(parts)))
META = st.dictionaries(st.sampled_from(["m", "n\n", "ü"]), st.none() | st.integers() | CHARS, max_size=2)

HERE = "the place of the cells"  # longer than any text that is drawn


@st.composite
def any_cell(draw: st.DrawFn, id: str | None) -> dict[str, Any]:
    source: Any = draw(SOURCES)
    if draw(st.booleans()):
        source = source.splitlines(keepends=True)
    kind = draw(st.sampled_from(["code", "markdown", "raw"]))
    if kind != "code":
        return prose(source, id, kind, metadata=draw(META))
    text = draw(st.lists(CHARS, max_size=2))
    outputs = [{"name": "stdout", "output_type": "stream", "text": text}] * draw(st.integers(0, 2))
    return code(source, id, metadata=draw(META), outputs=outputs, execution_count=draw(st.none() | st.integers(0, 9)))


@st.composite
def any_book(draw: st.DrawFn) -> dict[str, Any]:
    minor = draw(st.sampled_from([2, 4, 5]))
    cells = [draw(any_cell(f"id-{n}" if minor == 5 else None)) for n in range(draw(st.integers(0, 4)))]
    whole = {**book(*cells, minor=minor), "metadata": draw(META)}
    return {key: whole[key] for key in draw(st.permutations(sorted(whole)))}


@st.composite
def any_layout(draw: st.DrawFn) -> dict[str, Any]:
    indent = draw(st.sampled_from([None, "", " ", "  ", "    ", "\t"]))
    comma = draw(st.sampled_from([",", ", "]))
    return {
        "indent": indent,
        "separators": (comma, draw(st.sampled_from([":", ": "]))),
        "ensure_ascii": draw(st.booleans()),
    }


class Written:
    """A notebook as text in a layout, and the text of each of its cells, found without the code under test."""

    def __init__(self, value: dict[str, Any], layout: dict[str, Any], eol: str, end: str) -> None:
        indent = layout["indent"]
        deep = "" if indent is None else "\n" + indent * 2
        self.elements = [
            json.dumps(cell, **layout).replace("\n", deep or "\n").replace("\n", eol) for cell in value["cells"]
        ]
        shell = json.dumps({**value, "cells": [HERE] if self.elements else []}, **layout).replace("\n", eol) + end
        self.head, self.tail = shell.split(f'"{HERE}"') if self.elements else (shell, "")
        self.between = layout["separators"][0] + deep.replace("\n", eol)
        self.text = self.head + self.between.join(self.elements) + self.tail
        assert json.loads(self.text) == value


@st.composite
def any_edit(draw: st.DrawFn, value: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    """A place and the arguments of an edit that fits this notebook."""
    cells = value["cells"]
    mode = draw(st.sampled_from(["replace", "insert", "delete"])) if cells else "insert"
    index = draw(st.integers(-1 if mode == "insert" else 0, len(cells) - 1))
    arguments: dict[str, Any] = {"notebook_path": "n.ipynb", "edit_mode": mode}
    if index >= 0:
        arguments["cell_id"] = cells[index].get("id", f"cell-{index}")
    if mode != "delete":
        arguments["new_source"] = draw(SOURCES)
    if mode == "insert" or (mode == "replace" and draw(st.booleans())):
        arguments["cell_type"] = draw(st.sampled_from(["code", "markdown", "raw"]))
    return index, arguments


def _after(make: Make, folder: Path, text: str, arguments: dict[str, Any]) -> tuple[str, str]:
    """The text after an edit, and the name of its cell."""
    path = folder / "n.ipynb"
    path.write_bytes(text.encode("utf-8"))
    session = make(folder, durable=False)
    session.call("Read", {"file_path": "n.ipynb"})
    result = session.call("NotebookEdit", arguments)
    assert result.status == "ok", result.text
    return path.read_bytes().decode("utf-8"), result.data["cell_id"]


@settings(max_examples=sizes.pick(50, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=any_book(),
    layout=any_layout(),
    eol=st.sampled_from(["\n", "\r\n", "\r"]),
    end=st.booleans(),
    data=st.data(),
)
def test_everything_outside_the_edited_cell_is_identical_in_any_layout(
    make_session: Make,
    tmp_path: Path,
    value: dict[str, Any],
    layout: dict[str, Any],
    eol: str,
    end: bool,
    data: st.DataObject,
) -> None:
    index, arguments = data.draw(any_edit(value))
    old = Written(value, layout, eol, eol if end else "")
    now, name = _after(make_session, tmp_path, old.text, arguments)
    wanted = _expected(value, index, arguments, name)
    assert json.loads(now) == wanted
    if old.elements:
        gaps = [old.between] * (len(old.elements) - 1)
        _outside_is_same(now, old.head, old.elements, gaps, old.tail, index, arguments["edit_mode"])
    # In a uniform layout the whole file is what a program that writes this layout would have written.
    if layout["ensure_ascii"] and json.dumps(value, ensure_ascii=False).isascii():
        layout = {**layout, "ensure_ascii": False}  # nothing in the file says that it escapes
    assert now == Written(wanted, layout, eol, eol if end else "").text


@settings(max_examples=sizes.pick(50, 200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=any_book(), seed=st.randoms(use_true_random=False), data=st.data())
def test_everything_outside_the_edited_cell_is_identical_where_spaces_are_anywhere(
    make_session: Make, tmp_path: Path, value: dict[str, Any], seed: Random, data: st.DataObject
) -> None:
    index, arguments = data.draw(any_edit(value))
    elements = [_scattered(cell, seed) for cell in value["cells"]]
    head, tail = _scattered({**value, "cells": [HERE]}, seed).split(f'"{HERE}"')
    gaps = [_blank(seed) + "," + _blank(seed) for _ in elements[1:]]
    text = head + _woven(elements, gaps) + tail
    assert json.loads(text) == value
    now, name = _after(make_session, tmp_path, text, arguments)
    assert json.loads(now) == _expected(value, index, arguments, name)
    _outside_is_same(now, head, elements, gaps, tail, index, arguments["edit_mode"])


def _woven(elements: list[str], gaps: list[str]) -> str:
    return "".join(part for pair in zip_longest(elements, gaps, fillvalue="") for part in pair)


def _outside_is_same(
    now: str, head: str, elements: list[str], gaps: list[str], tail: str, index: int, mode: str
) -> None:
    if not elements or (mode == "delete" and len(elements) == 1):  # the blanks inside the empty list belong to no cell
        head, tail = head.rstrip(" \t\r\n"), tail.lstrip(" \t\r\n")
    kept = index + 1 if mode == "insert" else index
    assert now.startswith(head + _woven(elements[:kept], gaps[: max(0, kept - 1)]))
    assert now.endswith(_woven(elements[index + 1 :], gaps[index + 1 :]) + tail)


def _blank(seed: Random) -> str:
    return seed.choice(["", "", " ", "\n", "\r\n  ", "\t", "\r"])


def _scattered(value: Any, seed: Random) -> str:
    """JSON with spaces at random, each string escaped or not."""
    if isinstance(value, list | dict):
        signs = "[]" if isinstance(value, list) else "{}"
        parts = [
            _blank(seed)
            + (_scattered(item, seed) if isinstance(value, list) else _scattered(item, seed) + _blank(seed) + ":")
            + ("" if isinstance(value, list) else _blank(seed) + _scattered(value[item], seed))
            + _blank(seed)
            for item in value
        ]
        return signs[0] + (",".join(parts) or _blank(seed)) + signs[1]
    return json.dumps(value, ensure_ascii=seed.random() < 0.5)


def _expected(value: dict[str, Any], index: int, arguments: dict[str, Any], name: str) -> dict[str, Any]:
    return {**value, "cells": _expected_cells(value["cells"], index, arguments, name, value["nbformat_minor"])}


def _expected_cells(cells: list[Any], index: int, arguments: dict[str, Any], name: str, minor: int) -> list[Any]:
    mode = arguments["edit_mode"]
    if mode == "delete":
        return cells[:index] + cells[index + 1 :]
    source = arguments["new_source"]
    as_lines = _after_endings(source)
    kind = arguments.get("cell_type")
    if mode == "insert":
        strings = bool(cells) and all(isinstance(cell["source"], str) for cell in cells)
        make = code if kind == "code" else prose
        new = make(source if strings else as_lines, name if minor == 5 else None)
        return [*cells[: index + 1], {**new, "cell_type": kind}, *cells[index + 1 :]]
    old = cells[index]
    kind = kind or old["cell_type"]
    text = old["source"] if isinstance(old["source"], str) else "".join(old["source"])
    if text == source and kind == old["cell_type"]:
        return cells
    new = {**old, "cell_type": kind, "source": source if isinstance(old["source"], str) else as_lines}
    new.pop("outputs", None)
    new.pop("execution_count", None)
    if kind == "code":
        new |= {"outputs": [], "execution_count": None}
    return [*cells[:index], dict(sorted(new.items())), *cells[index + 1 :]]


def _after_endings(text: str) -> list[str]:
    """Lines by the house's rule, in the plainest way: a line ends behind each of CR LF, LF and CR."""
    collected, line = [], ""
    for number, char in enumerate(text):
        line += char
        if char == "\n" or (char == "\r" and text[number + 1 : number + 2] != "\n"):
            collected.append(line)
            line = ""
    return [*collected, line] if line else collected


ODD = """\
 {"nbformat_minor" :5, "metadata" : {"x": 1.50e+03, "x": 12345678901234567890123}, "nbformat":3,
\t"cells":[ {"id":"odd","cell_type":"raw","metadata":{"n":NaN,"n":1E400,"h":HUGE},"source":"\\ud800 \\/ \\u00e9"} ,
    {"id": "a1",  "cell_type" : "code", "metadata": {"k": 1.0, "k": 2.00}, "source":
    ["\\u0061 = 1\\n"  ,"b"], "outputs": [
  ], "execution_count": 5}
,{"cell_type":"markdown","id":"m1","metadata":{},"source":[]}],
"metadata": {}, "nbformat": 4 }\r\n\r\n""".replace("HUGE", "9" * 6000)


def test_numbers_doubled_keys_and_escapes_keep_their_spelling_even_inside_the_edited_cell(
    bench: Callable[..., Bench],
) -> None:
    it = bench(ODD)
    assert it.edit(cell_id="a1", new_source="a = 1\nc").status == "ok"
    wanted = ODD.replace('"b"]', '"c"]').replace('"execution_count": 5', '"execution_count": null')
    wanted = wanted.replace("[\n  ]", "[]")
    assert it.path.read_bytes().decode() == wanted


def test_an_odd_layout_stays_around_what_is_inserted_and_deleted(bench: Callable[..., Bench]) -> None:
    it = bench(ODD)
    name = it.edit(edit_mode="insert", cell_id="odd", cell_type="raw", new_source="é").data["cell_id"]
    new = ' ,\n    {"id":"NAME","cell_type":"raw","metadata":{},"source":["\\u00e9"]}'.replace("NAME", name)
    place = ODD.index(' ,\n    {"id": "a1"')
    assert it.path.read_bytes().decode() == ODD[:place] + new + ODD[place:]
    assert it.edit(edit_mode="delete", cell_id=name).status == "ok"
    assert it.path.read_bytes() == it.before


@pytest.mark.parametrize("cells", [1, 2])
def test_spaces_behind_commas_at_the_end_of_lines_are_kept_up(bench: Callable[..., Bench], cells: int) -> None:
    layout: dict[str, Any] = {"indent": 1, "separators": (", ", ": ")}
    old = [code([f"{n}"], f"a{n}") for n in range(cells)]
    it = bench(json.dumps(book(*old), **layout))
    name = it.edit(edit_mode="insert", cell_type="raw", new_source="x\ny").data["cell_id"]
    assert it.path.read_bytes().decode() == json.dumps(book(prose(["x\n", "y"], name, "raw"), *old), **layout)


def test_new_text_is_escaped_where_the_file_escapes(bench: Callable[..., Bench]) -> None:
    it = bench(json.dumps(book(code(["é"]), prose(["x"]))))
    it.edit(cell_id="m1", new_source="ü😀")
    assert b'["\\u00fc\\ud83d\\ude00"]' in it.path.read_bytes()


def test_an_escaped_backslash_before_a_u_is_no_escape(bench: Callable[..., Bench]) -> None:
    it = bench(book(code(['"\\u00e9"']), prose(["x"])))
    it.edit(cell_id="m1", new_source="ü")
    assert '"ü"'.encode() in it.path.read_bytes()


def test_a_notebook_in_a_legacy_encoding_takes_any_character_as_an_escape(bench: Callable[..., Bench]) -> None:
    raw = json.dumps(book(code(["été à Paris, déjà vu\n"]), prose(["x"])), ensure_ascii=False, indent=1).encode(
        "cp1252"
    )
    it = bench(raw)
    assert it.edit(cell_id="m1", new_source="漢").status == "ok"
    assert it.path.read_bytes() == raw.replace(b'"x"', b'"\\u6f22"')


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_and_the_encoding_stay(bench: Callable[..., Bench], encoding: str) -> None:
    text = json.dumps(book(code(["é\n", "b"]), prose(["x"])), ensure_ascii=False, indent=1)
    it = bench(text.encode(encoding))
    assert it.edit(cell_id="m1", new_source="漢").status == "ok"
    assert it.path.read_bytes() == text.replace('"x"', '"漢"').encode(encoding)
