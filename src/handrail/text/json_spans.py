"""Read JSON with positions: where each member and element stands in the text, so that an edit is a splice.

Plain JSON is decoded by the standard library below the levels whose positions are asked for. JSON with comments and
trailing commas, as editors write it, is read here to its last level.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from handrail.frozen import frozen

_SPACE = re.compile(r"[ \t\n\r]*")
_SPACE_OR_COMMENTS = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_MOST_DIGITS = 4_000
_MOST_LEVELS = 200


class JsonItem(NamedTuple):
    """A value in the text: a whole document, a member of an object, or an element of an array."""

    start: int
    """Where its key begins; without a key, the same as `at`."""
    at: int
    """Where the value begins."""
    end: int
    value: Any
    key: str = ""
    key_end: int = 0
    comma: int = -1
    """Position of the comma after it, if there is one."""
    inside: tuple[JsonItem, ...] = ()
    """Its members or elements, if their positions were asked for."""


def read_document(text: str, levels: int) -> JsonItem:
    """Read a whole JSON text with the positions of its upper ``levels``; raises `json.JSONDecodeError`."""
    return _JsonReader(text, _SPACE).read_document(levels)


def read_value(text: str) -> Any:
    """The value of a whole JSON text, without positions; raises `json.JSONDecodeError`."""
    return _DECODER.decode(text)


def read_document_with_comments(text: str) -> JsonItem | None:
    """Read JSON with comments and trailing commas; None if the text holds no value at all."""
    reader = _JsonReader(text, _SPACE_OR_COMMENTS, lenient=True)
    if reader.skip_space(0) == len(text):
        return None
    return reader.read_document(_MOST_LEVELS)


def read_items(text: str, at: int) -> tuple[JsonItem, ...]:
    """The members or elements of the object or array that begins at ``at``."""
    return _JsonReader(text, _SPACE).read_value(at, 1).inside


@frozen
class _JsonReader:
    text: str
    space: re.Pattern[str]
    lenient: bool = False
    """Whether comments and trailing commas may stand anywhere, so that every level is read here."""

    def read_document(self, levels: int) -> JsonItem:
        item = self.read_value(self.skip_space(0), levels)
        if self.skip_space(item.end) != len(self.text):
            raise json.JSONDecodeError("Extra data", self.text, item.end)
        return item

    def read_value(self, at: int, levels: int) -> JsonItem:
        opening = self.text[at : at + 1]
        if not opening or opening not in "{[" or (levels == 0 and not self.lenient):
            value, end = _DECODER.raw_decode(self.text, at)
            return JsonItem(at, at, end, value)
        if levels == 0:
            raise json.JSONDecodeError("Nested too deeply", self.text, at)
        inside, end = self._read_inside(at, levels)
        if opening == "{":
            return JsonItem(at, at, end, {item.key: item.value for item in inside}, inside=inside)
        return JsonItem(at, at, end, [item.value for item in inside], inside=inside)

    def _read_inside(self, at: int, levels: int) -> tuple[tuple[JsonItem, ...], int]:
        text, closing = self.text, "}" if self.text[at] == "{" else "]"
        items: list[JsonItem] = []
        position = self.skip_space(at + 1)
        while not text.startswith(closing, position) or (items and not self.lenient):
            key, start, key_end = "", position, 0
            if closing == "}":
                if not text.startswith('"', position):
                    raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, position)
                key, key_end = _DECODER.raw_decode(text, position)
                position = self.skip_space(self._expect(":", self.skip_space(key_end)))
            value = self.read_value(position, levels - 1)
            position = self.skip_space(value.end)
            last = text.startswith(closing, position)
            comma = -1 if last else position
            items.append(JsonItem(start, value.at, value.end, value.value, key, key_end, comma, value.inside))
            if last:
                break
            position = self.skip_space(self._expect(",", position))
        return tuple(items), position + 1

    def _expect(self, sign: str, position: int) -> int:
        if not self.text.startswith(sign, position):
            raise json.JSONDecodeError(f"Expecting '{sign}' delimiter", self.text, position)
        return position + 1

    def skip_space(self, position: int) -> int:
        space = self.space.match(self.text, position)
        assert space
        return space.end()


def _parse_integer(digits: str) -> int:
    # Python refuses to read longer ones. They stay in the file as they are; only their type matters here.
    return int(digits[:_MOST_DIGITS])


_DECODER = json.JSONDecoder(parse_int=_parse_integer)
