"""Add an entry to a YAML file of block mappings or remove it, and keep every other byte.

Only the layout that programs write is understood: keys at the start of their lines, nested by blanks. Anything else
(tabs, anchors, mappings in braces around the entry) is refused, so that no file is changed by guess.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.files.configuration import BadConfiguration
from handrail.frozen import frozen
from handrail.text.document import Splice

_KEY = re.compile(r"""( *)("(?:[^"\\]|\\.)*"\s*|'[^']*'\s*|[^\s#:'"\-][^:#]*):(?:[ ]+(.*))?$""")
"""A key and its value, in a row without blanks at its end; no part of the pattern takes what the next one may take."""
_PLAIN = {"true": True, "false": False, "null": None, "~": None, "": None}


@frozen
class _Member:
    """A key with its value: the lines from ``first`` up to, not including, ``end``."""

    key: str
    indent: int
    value: str
    first: int
    end: int


def parse(text: str) -> dict[str, Any]:
    """The mappings of a file, with what else stands in it as plain text."""
    rows = _split_rows(text)
    return _read(rows, _find_members(rows, 0, len(rows)))


def put(text: str, keys: Sequence[str], value: object) -> list[Splice]:
    """Return splices that set ``value`` at ``keys``; none if it is already there."""
    rows, newline = _split_rows(text), "\r\n" if "\r\n" in text else "\n"
    place = [0, *_find_offsets(text)]
    first, end, indent = 0, len(rows), 0
    for depth, key in enumerate(keys):
        members = _find_members(rows, first, end)
        indent = members[0].indent if members else indent
        there = next((member for member in members if member.key == key), None)
        last = depth == len(keys) - 1
        if there is None or last:
            nested = value if last else _nest(keys[depth + 1 :], value)
            block = newline.join(_write(key, nested, indent)) + newline
            if there:
                return [Splice(place[there.first], place[there.end], block)]
            at = place[members[-1].end if members else first]
            gap = newline if at and text[at - 1 : at] != "\n" else ""
            return [Splice(at, at, gap + block)]
        if there.value and there.value not in ("{}", "null", "~"):
            raise BadConfiguration(f"{'.'.join(keys[: depth + 1])} is not written as a block: edit the file yourself")
        if there.value:  # an empty mapping becomes a block
            block = newline.join(_write(key, _nest(keys[depth + 1 :], value), indent)) + newline
            return [Splice(place[there.first], place[there.end], block)]
        first, end, indent = there.first + 1, there.end, indent + 2
    raise AssertionError("unreachable")


def take(text: str, keys: Sequence[str], empty_too: int) -> list[Splice]:
    """Return splices that remove ``keys``, and up to ``empty_too`` parents that become empty."""
    rows, place = _split_rows(text), [0, *_find_offsets(text)]
    first, end, path = 0, len(rows), list[tuple[_Member, int]]()
    for key in keys:
        members = _find_members(rows, first, end)
        there = next((member for member in members if member.key == key), None)
        if there is None:
            return []
        path.append((there, len(members)))
        first, end = there.first + 1, there.end
    while empty_too and len(path) > 1 and path[-1][1] == 1:
        path.pop()
        empty_too -= 1
    gone = path[-1][0]
    return [Splice(place[gone.first], place[gone.end], "")]


def _split_rows(text: str) -> list[str]:
    rows = [row.rstrip("\r\n") for row in text.removeprefix("\ufeff").splitlines(keepends=True)]
    for number, row in enumerate(rows, start=1):
        if "\t" in row[: len(row) - len(row.lstrip())]:
            raise BadConfiguration(f"line {number}: it is indented with tabs")
        if row.startswith(("---", "%", "...")) and any(one.strip() for one in rows[: number - 1]):
            raise BadConfiguration(f"line {number}: it holds more than one document")
    return rows


def _find_offsets(text: str) -> list[int]:
    at, ends = 0, []
    for row in text.splitlines(keepends=True):
        at += len(row)
        ends.append(at)
    return ends


def _find_members(rows: Sequence[str], first: int, end: int) -> list[_Member]:
    """The keys of the mapping in these lines; deeper lines belong to the key before them."""
    members: list[_Member] = []
    indent: int | None = None
    for number in range(first, end):
        row = rows[number]
        match = _KEY.match(row.rstrip(" "))
        if not row.strip() or row.lstrip().startswith("#") or row.startswith("---") or not match:
            continue
        indent = len(match[1]) if indent is None else indent
        if len(match[1]) == indent:
            key = match[2].rstrip()
            key = json.loads(key) if key.startswith('"') else key.strip("'")
            members.append(_Member(key, indent, _strip_comment(match[3] or ""), number, end))
        elif len(match[1]) < indent:
            raise BadConfiguration(f"line {number + 1}: its indentation is not understood")
    ends = [*(member.first for member in members[1:]), end]
    return [_close(rows, member, last) for member, last in zip(members, ends, strict=False)]


def _close(rows: Sequence[str], member: _Member, end: int) -> _Member:
    """The member without the blank lines and comments after it, which belong to the next one."""
    while end > member.first + 1 and (not rows[end - 1].strip() or rows[end - 1].lstrip().startswith("#")):
        end -= 1
    return _Member(member.key, member.indent, member.value, member.first, end)


def _strip_comment(value: str) -> str:
    return value if value.startswith(('"', "'", "[", "{")) else re.split(r"(?:^|\s)#", value)[0].rstrip()


def _read(rows: Sequence[str], members: Sequence[_Member]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for member in members:
        inner = _find_members(rows, member.first + 1, member.end) if not member.value else []
        below = [row.strip() for row in rows[member.first + 1 : member.end] if row.strip()]
        items = [row for row in below if row.startswith("- ")] if below and below[0].startswith("- ") else []
        if inner and not items:
            data[member.key] = _read(rows, inner)
        else:
            data[member.key] = (
                [_parse_scalar(item[2:].strip()) for item in items] if items else _parse_scalar(member.value)
            )
    return data


def _parse_scalar(text: str) -> object:
    if text in _PLAIN:
        return _PLAIN[text]
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'")


def _nest(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


def _write(key: str, value: object, indent: int) -> list[str]:
    head = " " * indent + key + ":"
    if isinstance(value, Mapping) and value:
        return [head, *(row for name, one in value.items() for row in _write(name, one, indent + 2))]
    return [f"{head} {json.dumps(value, ensure_ascii=False)}"]
