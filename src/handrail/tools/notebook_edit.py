"""NotebookEdit: replace, insert or delete one cell of a Jupyter notebook."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from handrail.errors import BadNotebook, ChangedSince, NoSuchCell
from handrail.errors.extras import needs
from handrail.frozen import frozen
from handrail.json_types import JsonMapping, JsonObject
from handrail.text import lines
from handrail.text.display import escape
from handrail.text.document import UTF8, Splice, apply_splices
from handrail.text.json_spans import read_value
from handrail.text.notebooks import cells as notebook
from handrail.text.notebooks.cells import Notebook
from handrail.tools.arguments import AfterValidator, BeforeValidator, Field
from handrail.tools.notes import ChangedElsewhere, InvalidNotebook, NoteFacts
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool, Writes

_KINDS = {"replace": "replaced", "insert": "inserted", "delete": "deleted"}
_INDEX = re.compile(r"(?:cell-)?([0-9]{1,9})")
_MOST_CHECKED = 1000
"""Cells of a notebook that is compared with its schema as a whole."""


def _as_name(value: object) -> object:
    """Models also send an index as a number, and an empty string for no cell."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return None if value == "" else value


def _fits_the_mode(value: str | None, info: Any) -> str | None:
    from pydantic_core import PydanticCustomError, PydanticKnownError  # slow to import

    mode = info.data.get("edit_mode")
    needed = {
        "replace": ("cell_id", "new_source"),
        "insert": ("new_source", "cell_type"),
        "delete": ("cell_id",),
    }
    if mode and value is None and info.field_name in needed[mode]:
        raise PydanticKnownError("missing")
    if mode == "delete" and value and info.field_name == "new_source":
        raise PydanticCustomError("unused", "edit_mode delete takes no source; leave it out, or use another edit_mode")
    return value


_CHECK_MODE = AfterValidator(_fits_the_mode, with_info=True)


class Args(Arguments):
    # The mode stands before what depends on it: each argument is checked by those above it.
    notebook_path: Annotated[Writes, Field(description="The notebook (.ipynb) to change")]
    edit_mode: Annotated[
        Literal["replace", "insert", "delete"],
        Field(description="replace the source of the cell, insert a new cell after it, or delete it"),
    ] = "replace"
    cell_id: Annotated[
        str | None,
        BeforeValidator(_as_name),
        _CHECK_MODE,
        Field(
            validate_default=True,
            description="The id of the cell, or cell-N for the N-th cell, from 0; without it, insert at the beginning",
        ),
    ] = None
    new_source: Annotated[
        str | None,
        _CHECK_MODE,
        Field(validate_default=True, description="The whole new source of the cell; not for delete"),
    ] = None
    cell_type: Annotated[
        Literal["code", "markdown", "raw"] | None,
        _CHECK_MODE,
        Field(
            validate_default=True,
            description="The type of the cell: required for insert; with replace it changes the type",
        ),
    ] = None


@frozen
class Limits:
    cells_named: int = 10
    """How many cells an error names."""


@frozen
class Facts:
    path: str
    cell: str
    type: str
    index: int
    was: str | None = None
    """The type of the cell before, if it is another one now."""
    outputs: int = 0
    """How many outputs were cleared."""
    attachments: bool = False
    """Whether attachments were removed."""
    shifted: bool = False
    """Whether cells are known by their index, and those after this one have another index now."""


class Data(TypedDict):
    cell_id: str
    index: int
    mode: str


class _Change(NamedTuple):
    """The change of one edit."""

    facts: Facts
    splices: list[Splice]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    loaded = ctx.load(args.notebook_path)
    text = loaded.document.text
    book = notebook.parse(text)
    index, by_id = _find_cell(book, args.cell_id, ctx.limits.cells_named) if args.cell_id else (-1, True)
    if loaded.described_changes and not (args.edit_mode == "insert" and by_id):
        # A cell is named, not quoted: only an insertion cannot hit something that was never seen.
        raise ChangedSince(path=args.notebook_path, moved=loaded.described_changes)
    UTF8.encode(args.new_source or "")  # half a character would be an escape that no notebook program can save
    # A legacy encoding may lack a character, but JSON can always escape it.
    escaped = notebook.escapes(text) or not loaded.document.codec.name.startswith("utf-")
    if args.edit_mode == "insert":
        index += 1
        change = _insert(book, index, args, escaped)
    elif args.edit_mode == "delete":
        facts = Facts(args.notebook_path, _name(book, index), _type(book, index) or "broken", index)
        change = _Change(facts, notebook.delete_cell(book, index))
    else:
        change = _replace(book, index, args, escaped)
    facts, splices = change
    data = Data(cell_id=facts.cell, index=index, mode=args.edit_mode)
    behind = len(book.cells) - index - (args.edit_mode == "delete")
    notes: list[NoteFacts] = []
    if loaded.described_changes:
        notes.append(ChangedElsewhere(path=args.notebook_path, moved=loaded.described_changes))
    if splices:
        notes += _validate(book, splices, index, args.edit_mode)
    ctx.stage(args.notebook_path, loaded, splices)
    facts = replace(
        facts,
        cell=escape(facts.cell),  # a broken notebook may hold anything there
        type=escape(facts.type),
        shifted=args.edit_mode != "replace" and not book.has_ids and behind > 0,
    )
    return Outcome(_KINDS[args.edit_mode] if splices else "unchanged", facts, data, tuple(notes))


def _replace(book: Notebook, index: int, args: Args, escaped: bool) -> _Change:
    cell, was = book.cells[index].value, _type(book, index)
    if not was:
        raise BadNotebook(cell=_name(book, index))
    now = args.cell_type or was
    facts = Facts(args.notebook_path, _name(book, index), now, index, was=was if was != now else None)
    if now == was and args.new_source == _join_source(cell.get("source")):
        return _Change(facts, [])
    new: JsonObject = {
        "cell_type": now,
        "source": _build_source(args.new_source or "", isinstance(cell.get("source"), str)),
    }
    drop: frozenset[str] = frozenset()
    if now == "code":
        new |= {"execution_count": None, "outputs": []}
        drop = frozenset({"attachments"} if was != now else ())
    elif was == "code":
        drop = frozenset({"execution_count", "outputs"})
    outputs = cell.get("outputs")
    facts = replace(
        facts,
        outputs=len(outputs) if was == "code" and isinstance(outputs, list) else 0,
        attachments="attachments" in drop and "attachments" in cell,
    )
    return _Change(facts, notebook.change_cell(book, index, new, drop, escaped))


def _insert(book: Notebook, index: int, args: Args, escaped: bool) -> _Change:
    others = [cell.value.get("source") for cell in book.cells if isinstance(cell.value, dict)]
    cell: JsonObject = {"cell_type": args.cell_type, "metadata": {}}
    cell["source"] = _build_source(args.new_source or "", bool(others) and all(isinstance(one, str) for one in others))
    if args.cell_type == "code":
        cell |= {"execution_count": None, "outputs": []}
    if book.has_ids:
        cell["id"] = _create_id(book, index, args.new_source or "")
    facts = Facts(args.notebook_path, cell.get("id", f"cell-{index}"), args.cell_type or "", index)
    return _Change(facts, notebook.insert_cell(book, index, {key: cell[key] for key in sorted(cell)}, escaped))


def _build_source(text: str, as_string: bool) -> str | list[str]:
    return text if as_string else lines.split(text)


def _join_source(source: object) -> str | None:
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    return source if isinstance(source, str) else None


def _create_id(book: Notebook, index: int, source: str) -> str:
    """An id that no cell has. The same call gives the same one, so that a preview shows what will be written."""
    taken = _list_ids(book.value["cells"])
    for number in range(len(taken) + 1):
        seed = "\n".join([str(number), str(index), source, *(one or "" for one in taken)])
        candidate = "c" + hashlib.sha256(seed.encode("utf-8", "surrogatepass")).hexdigest()[:7]
        if candidate not in taken:
            return candidate
    raise AssertionError("one of n + 1 different ids is free")


def _list_ids(cells: Sequence[object]) -> list[str | None]:
    ids = (cell.get("id") if isinstance(cell, dict) else None for cell in cells)
    return [one if isinstance(one, str) else None for one in ids]


def _type(book: Notebook, index: int) -> str:
    """The kind of a cell; empty if it has none."""
    cell = book.cells[index].value
    kind = cell.get("cell_type") if isinstance(cell, dict) else None
    return kind if isinstance(kind, str) else ""


def _name(book: Notebook, index: int) -> str:
    """The name of a cell."""
    return _list_ids([book.value["cells"][index]])[0] or f"cell-{index}"


def _find_cell(book: Notebook, named: str, most: int) -> tuple[int, bool]:
    """The index of the named cell, and whether its own id named it."""
    ids = _list_ids(book.value["cells"])
    indexes = [index for index, one in enumerate(ids) if one == named]
    if len(indexes) == 1:
        return indexes[0], True
    number = _INDEX.fullmatch(named)
    # Ids that look like an index are none: after a deletion `cell-3` would be another cell than the one that was meant.
    if number and not any(one and _INDEX.fullmatch(one) for one in ids) and int(number[1]) < len(ids):
        return int(number[1]), False
    listed = indexes or range(len(ids))
    raise NoSuchCell(
        cell=escape(named[:80]),
        many=len(indexes),
        lost=not indexes,
        empty=not ids,
        cells=[
            f"{index}: {escape(_name(book, index)[:80])} ({escape(_type(book, index)[:20])})" for index in listed[:most]
        ],
        more=max(0, len(listed) - most),
    )


def _validate(book: Notebook, splices: Sequence[Splice], index: int, mode: str) -> list[NoteFacts]:
    """Refuse a result that is a worse notebook than before; a note if the notebook was invalid and still is.

    Of a long notebook only the cell ``index`` is checked: an edit does not change any other.
    """
    try:
        after = _read_changed(book, splices, index, mode)
    except ValueError as error:
        raise AssertionError(f"the edit broke the notebook: {error}") from error
    is_long = len(book.cells) > _MOST_CHECKED
    left = _list_faults(after, slice(index, index + (mode != "delete")) if is_long else slice(None))
    if not left:
        return []
    before = _list_faults(book.value, slice(index, index + (mode != "insert")) if is_long else slice(None))
    if len(left) > len(before):
        raise BadNotebook(fault=next((fault for fault in left if fault not in before), left[0]))
    return [InvalidNotebook(count=len(left), fault=left[0])]


def _read_changed(book: Notebook, splices: Sequence[Splice], index: int, mode: str) -> Any:
    """The value of the changed notebook; if only one cell changes, only that one is read again."""
    text = apply_splices(book.text, splices)
    if mode != "replace":
        return read_value(text)
    cell = book.cells[index]
    assert all(cell.at <= one.start and one.end <= cell.end for one in splices)
    cells = list(book.value["cells"])
    cells[index] = read_value(text[cell.at : cell.end + len(text) - len(book.text)])
    return {**book.value, "cells": cells}


def _list_faults(book: JsonMapping, checked: slice) -> list[str]:
    """List the errors against the schema of the notebook's version, of these cells and of all that is no cell."""
    with needs("media"):  # slow to import
        from jsonschema.exceptions import best_match  # type: ignore[import-untyped]
        from nbformat.validator import get_validator

    part = {**book, "cells": book["cells"][checked]}
    minor = book["nbformat_minor"]
    # Not nbformat.validate: it gives ids to cells that have none, and warns through process-wide filters.
    quick = get_validator(notebook.FORMAT, minor)  # type: ignore[no-untyped-call]
    faults: list[str] = []
    if any(True for _ in quick.iter_errors(part)):
        thorough = get_validator(notebook.FORMAT, minor, name="jsonschema")  # type: ignore[no-untyped-call]
        for error in thorough.iter_errors(part):
            best = best_match([error])
            place = best.json_path.removeprefix("$.")
            if checked.start is not None:
                place = place.replace("cells[0]", f"cells[{checked.start}]", 1)
            faults.append(escape(f"{place[:100]}: {best.message[-200:]}"))
    if minor >= notebook.IDS_SINCE:
        times = Counter(one for one in _list_ids(book["cells"]) if one)
        faults += [f"{number} cells have the id {escape(one[:80])}" for one, number in times.items() if number > 1]
    return faults


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    return templates.fill(f"notebook_edit.{outcome.kind}", outcome.facts)


TOOL = Tool(
    id="notebook_edit",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
)
