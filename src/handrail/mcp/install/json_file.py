"""One entry into a JSON file, or out of it, and every other byte stays: comments, commas and spaces too.

Reads JSON with comments and trailing commas, as editors and several agents write it. Nothing is dump anew: where the
members begin and end is found, and text is put in between or taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import field

from handrail.files.configuration import BadConfiguration
from handrail.frozen import frozen
from handrail.text.document import Splice
from handrail.text.json_spans import JsonItem, read_document_with_comments

_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?(?=\r|\n|$)")


def parse(text: str) -> JsonItem | None:
    """The object in a file; None if it holds nothing at all."""
    try:
        root = read_document_with_comments(text)
    except json.JSONDecodeError as error:
        raise BadConfiguration(f"line {error.lineno}: {error.msg}") from None
    if root and not isinstance(root.value, dict):
        raise BadConfiguration("it is not an object")
    return root


def find(root: JsonItem | None, keys: Sequence[str]) -> JsonItem | None:
    """The value at the end of these keys."""
    for key in keys:
        members = root.inside if root and isinstance(root.value, dict) else ()
        # Of two members with the same name the last one counts, in every reader.
        root = next((member for member in reversed(members) if member.key == key), None)
    return root


def put(text: str, keys: Sequence[str], value: object) -> list[Splice]:
    """Return splices that set ``value`` at ``keys``; none if it is already there."""
    root = parse(text)
    style = _Style.of(text, root)
    if root is None:
        whole = _nest(keys, value)
        at = len(text) if text.startswith("\ufeff") else 0
        return [Splice(at, at, style.dump(whole, "") + style.newline)]
    there = find(root, keys)
    if there:
        if there.value == value:
            return []
        own = style.indent_at(text, there.start)
        return [Splice(there.at, there.end, style.dump(value, own))]
    node = root
    for depth, key in enumerate(keys):
        if not isinstance(node.value, dict):
            raise BadConfiguration(f"{'.'.join(keys[:depth])} is not an object")
        inner = find(node, [key])
        if inner is None:
            return _add_member(text, node, style, key, _nest(keys[depth + 1 :], value))
        node = inner
    raise AssertionError("unreachable")


def extend(text: str, keys: Sequence[str], items: Sequence[object]) -> list[Splice]:
    """Return splices that add ``items`` at the end of the list at ``keys``, which is created if there is none."""
    root = parse(text)
    there = find(root, keys)
    if there is None:
        return put(text, keys, list(items))
    if not isinstance(there.value, list):
        raise BadConfiguration(f"{'.'.join(keys)} is not a list")
    style = _Style.of(text, root)
    if not there.inside:
        own = style.indent_at(text, there.start)
        return [Splice(there.at, there.end, style.dump(list(items), own))]
    last = there.inside[-1]
    behind = last.comma + 1 if last.comma >= 0 else last.end
    one_line = "\n" not in text[there.at : last.start]
    gap = " " if one_line else style.newline + style.indent_at(text, last.start)
    listed = ("," + gap).join(json.dumps(item, ensure_ascii=False) for item in items)
    return [Splice(behind, behind, f"{gap}{listed}," if last.comma >= 0 else f",{gap}{listed}")]


def take(text: str, keys: Sequence[str], empty_too: int) -> list[Splice]:
    """Return splices that remove ``keys``, and up to ``empty_too`` parent objects that become empty."""
    root = parse(text)
    if find(root, keys) is None:
        return []
    while empty_too and len(keys) > 1:
        around = find(root, keys[:-1])
        if around is None or len(around.inside) > 1 or "/" in _strip_members(text, around):
            break
        keys, empty_too = keys[:-1], empty_too - 1
    holder, there = find(root, keys[:-1]), find(root, keys)
    return _remove_member(text, holder, there) if holder and there else []


def _strip_members(text: str, node: JsonItem) -> str:
    """The text of an object without its members."""
    left, at = "", node.at + 1
    for member in node.inside:
        left += text[at : member.start]
        at = member.end
    return left + text[at : node.end - 1]


def _nest(keys: Sequence[str], value: object) -> object:
    for key in reversed(keys):
        value = {key: value}
    return value


@frozen
class _Style:
    """How a file is laid out."""

    newline: str = "\n"
    unit: str = "  "
    lines: bool = field(default=True)

    @classmethod
    def of(cls, text: str, root: JsonItem | None) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        if root is None or not root.inside:
            return cls(newline)
        lead = cls().indent_at(text, root.inside[0].start)
        return cls(newline, lead or "  ", "\n" in text[root.at : root.end])

    def indent_at(self, text: str, at: int) -> str:
        """Return the indentation of the line."""
        line = text[text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def dump(self, value: object, indent: str) -> str:
        if not self.lines:
            return json.dumps(value, ensure_ascii=False)
        text = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return text.replace("\n", self.newline + indent)


def _add_member(text: str, holder: JsonItem, style: _Style, key: str, value: object) -> list[Splice]:
    name = json.dumps(key, ensure_ascii=False) + ": "
    if not holder.inside:
        outer = style.indent_at(text, holder.at)
        inner = text[holder.at + 1 : holder.end - 1]
        at = holder.at + 1 + len(inner.rstrip())
        if not style.lines:
            return [Splice(holder.at + 1, holder.at + 1, name + style.dump(value, ""))]
        member = style.newline + outer + style.unit + name + style.dump(value, outer + style.unit)
        closed = "" if "\n" in inner[len(inner.rstrip()) :] else style.newline + outer
        return [Splice(at, at, member + closed)]
    last = holder.inside[-1]
    behind = last.comma + 1 if last.comma >= 0 else last.end
    comma = [] if last.comma >= 0 else [Splice(behind, behind, ",")]
    trailing = "," if last.comma >= 0 else ""
    if "\n" not in text[holder.at : last.start]:
        one_line = _Style(style.newline, style.unit, lines=False)
        member = f"{trailing and ' '}{name}{one_line.dump(value, '')}{trailing}"
        return [Splice(behind, behind, member if trailing else ", " + member)]
    rest = _REST_OF_LINE.match(text, behind)  # a comment on the last member's line stays with it
    at = rest.end() if rest else behind
    indent = style.indent_at(text, last.start)
    member = style.newline + indent + name + style.dump(value, indent) + trailing
    if at == behind:
        return [Splice(behind, behind, ("" if trailing else ",") + member)]
    return [*comma, Splice(at, at, member)]


def _remove_member(text: str, holder: JsonItem, there: JsonItem) -> list[Splice]:
    number = holder.inside.index(there)
    before = text[: there.start]
    start = len(before.rstrip(" \t"))
    if before[:start].endswith("\n"):
        start -= 2 if before[:start].endswith("\r\n") else 1
    end = there.comma + 1 if there.comma >= 0 else there.end
    if len(holder.inside) == 1:
        if not (text[holder.at + 1 : start] + text[end : holder.end - 1]).strip():
            return [Splice(holder.at + 1, holder.end - 1, "")]
        return [Splice(start, end, "")]
    previous = holder.inside[number - 1] if number else None
    if there.comma < 0 and previous:  # the last one: the comma before it goes with it
        if previous.comma + 1 >= start:
            return [Splice(previous.comma, end, "")]
        return [Splice(previous.comma, previous.comma + 1, ""), Splice(start, end, "")]
    return [Splice(start, end, "")]
