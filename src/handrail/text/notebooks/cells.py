"""Jupyter notebooks as text: where each cell stands in the JSON, and how to change one and no other character.

A notebook is never written anew. The text is scanned for the spans of its cells, and an edit is a few splices inside
one cell, or in front of it or behind it, written the way the cells around are written: whatever stands elsewhere
(other numbers' spelling, doubled keys, odd spaces) is not even looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from handrail.errors import BadNotebook
from handrail.frozen import frozen
from handrail.json_types import JsonMapping
from handrail.text.document import Splice, minimize
from handrail.text.json_spans import JsonItem, read_document, read_items
from handrail.text.lines import ANY_END

FORMAT = 4
IDS_SINCE = 5
"""The minor version of the format from which on cells have ids."""
_ESCAPE = re.compile(r"\\(?:\\|u(?!00[0-7])[0-9a-fA-F]{4})")


@frozen
class Notebook:
    """A notebook and the place of each cell in its text."""

    text: str
    document: JsonItem
    array: JsonItem
    """The member `cells`."""

    @property
    def value(self) -> JsonMapping:
        value: JsonMapping = self.document.value
        return value

    @property
    def cells(self) -> tuple[JsonItem, ...]:
        return self.array.inside

    @property
    def minor(self) -> int:
        minor: int = self.value["nbformat_minor"]
        return minor

    @property
    def has_ids(self) -> bool:
        """Whether new cells need an id."""
        return self.minor >= IDS_SINCE


@frozen
class Layout:
    """How an object of the file is written."""

    eol: str
    unit: str | None
    """Indentation of one level; None: all on one line."""
    inner: str
    """The indentation of its members."""
    outer: str
    """The indentation of its closing bracket."""
    comma: str
    colon: str
    escaped: bool

    @property
    def gap(self) -> str:
        """Text between two members."""
        return self.comma if self.unit is None else self.comma + self.eol + self.inner


def parse(text: str) -> Notebook:
    """The notebook that ``text`` is; raises `BadNotebook`."""
    try:
        document = read_document(text, levels=2)
    except (json.JSONDecodeError, RecursionError) as error:
        raise BadNotebook(broken=str(error)) from None
    value = document.value if isinstance(document.value, dict) else {}
    major, minor = value.get("nbformat"), value.get("nbformat_minor")
    if type(major) is int and major != FORMAT and major > 0:
        raise BadNotebook(major=major)
    array = next((item for item in reversed(document.inside) if item.key == "cells"), None)
    if major != FORMAT or type(minor) is not int or minor < 0 or not isinstance(value.get("cells"), list):
        raise BadNotebook(other=True)
    assert array is not None
    return Notebook(text, document, array)


def escapes(text: str) -> bool:
    """Whether the file writes characters beyond ASCII as escapes."""
    # A backslash that is itself escaped is consumed as a pair, so that what follows it is no escape.
    return text.isascii() and "\\u" in text and any(match[0] != "\\\\" for match in _ESCAPE.finditer(text))


def find_layout(text: str, item: JsonItem, inside: Sequence[JsonItem], escaped: bool) -> Layout:
    """How the object ``item``, which holds ``inside``, is written."""
    lead = text[item.at + 1 : inside[0].start]
    gap = text[inside[0].end : inside[1].start] if len(inside) > 1 else ""
    colon = text[inside[0].key_end : inside[0].at]
    eol = ANY_END.search(lead)
    if not eol:
        return Layout("", None, "", "", gap or _choose_comma(colon), colon, escaped)
    inner, outer = _find_indentation(lead), _find_indentation(text[inside[-1].end : item.end - 1])
    comma = ANY_END.split(gap)[0]
    return Layout(eol[0], inner.removeprefix(outer), inner, outer, comma if "," in comma else ",", colon, escaped)


def _choose_comma(colon: str) -> str:
    return ", " if colon.endswith(" ") else ","


def _find_indentation(space: str) -> str:
    return ANY_END.split(space)[-1]


def render(value: object, layout: Layout, indent: str, spelled: Mapping[str, str] | None = None) -> str:
    """``value`` as JSON at this indentation; strings that are in ``spelled`` already are written as they are there."""
    if spelled and isinstance(value, str) and value in spelled:
        return spelled[value]
    if not isinstance(value, list | dict) or not value:
        return json.dumps(value, ensure_ascii=layout.escaped)
    deeper = indent + (layout.unit or "")
    if isinstance(value, dict):
        opening, closing = "{", "}"
        parts = [
            render(key, layout, "") + layout.colon + render(item, layout, deeper, spelled)
            for key, item in value.items()
        ]
    else:
        opening, closing = "[", "]"
        parts = [render(item, layout, deeper, spelled) for item in value]
    if layout.unit is None:
        return opening + layout.comma.join(parts) + closing
    line = layout.eol + deeper
    return opening + line + (layout.comma + line).join(parts) + layout.eol + indent + closing


def change_cell(
    book: Notebook, index: int, new: Mapping[str, object], drop: frozenset[str], escaped: bool
) -> list[Splice]:
    """Give members of one cell new values, add those that are missing, and take away those to ``drop``."""
    text, cell = book.text, book.cells[index]
    members = read_items(text, cell.at)
    layout = find_layout(text, cell, members, escaped)
    splices: list[Splice | None] = []
    keeps_members = False
    for number, member in enumerate(members):
        if member.key not in drop:
            keeps_members = True
            if member.key in new:
                splices.append(minimize(text, member.at, member.end, _respell(text, member, new[member.key], layout)))
        elif keeps_members:
            splices.append(Splice(members[number - 1].end, member.end, ""))
        else:
            splices.append(Splice(member.start, members[number + 1].start, ""))
    keys = [member.key for member in members]
    for key in sorted(new.keys() - keys):
        # nbformat sorts the keys: where they are sorted they stay so.
        behind = next((member for member in members if member.key > key), None) if keys == sorted(keys) else None
        added = render(key, layout, "") + layout.colon + render(new[key], layout, layout.inner)
        place = behind.start if behind else members[-1].end
        splices.append(Splice(place, place, added + layout.gap if behind else layout.gap + added))
    return sorted((splice for splice in splices if splice), key=lambda splice: splice.start)


def _respell(text: str, member: JsonItem, value: object, layout: Layout) -> str:
    """A new value in place of an old one: lines that stay keep their spelling, a list on one line stays there."""
    spelled: dict[str, str] = {}
    if isinstance(member.value, list) and member.value:
        old = read_items(text, member.at)
        spelled = {item.value: text[item.at : item.end] for item in old if isinstance(item.value, str)}
        if not ANY_END.search(text[member.at : old[0].start]):
            usual = layout.comma if layout.unit is None else _choose_comma(layout.colon)
            comma = text[old[0].end : old[1].start] if len(old) > 1 else usual
            layout = Layout("", None, "", "", comma, layout.colon, layout.escaped)
    return render(value, layout, layout.inner, spelled)


def insert_cell(book: Notebook, index: int, cell: Mapping[str, object], escaped: bool) -> list[Splice]:
    """Put a new cell in front of the cell ``index``, or behind the last one."""
    text, array, cells = book.text, book.array, book.cells
    if not cells:
        top = find_layout(text, book.document, book.document.inside, escaped)
        return [Splice(array.at, array.end, render([dict(cell)], top, top.inner))]
    near = max(0, index - 1)
    model = cells[near]
    members = read_items(text, model.at) if isinstance(model.value, dict) else ()
    if members:
        layout = find_layout(text, model, members, escaped)
        keys = [member.key for member in members]
    else:
        layout, keys = Layout("", None, "", "", ", ", ": ", escaped), []
    if keys != sorted(keys):
        cell = {key: cell[key] for key in [*keys, *cell] if key in cell}
    body = render(dict(cell), layout, layout.outer)
    gap = _build_separator(text, array, near, layout)
    if index == 0:
        return [Splice(cells[0].start, cells[0].start, body + gap)]
    return [Splice(cells[near].end, cells[near].end, gap + body)]


def _build_separator(text: str, array: JsonItem, near: int, layout: Layout) -> str:
    """Text between two cells."""
    cells = array.inside
    if len(cells) > 1:
        first = min(near, len(cells) - 2)
        return text[cells[first].end : cells[first + 1].start]
    lead = text[array.at + 1 : cells[0].start]
    if ANY_END.search(lead):
        return (layout.comma if layout.unit is not None else ",") + lead
    return layout.comma if layout.unit is None else ", "


def delete_cell(book: Notebook, index: int) -> list[Splice]:
    """Take a cell away, and the comma that parts it from the others."""
    array, cells = book.array, book.cells
    if len(cells) == 1:
        return [Splice(array.at + 1, array.end - 1, "")]
    if index < len(cells) - 1:
        return [Splice(cells[index].start, cells[index + 1].start, "")]
    return [Splice(cells[index - 1].end, cells[index].end, "")]
