"""One entry into a JSON file, or out of it, and every other byte stays: comments, commas and spaces too.

Reads JSON with comments and trailing commas, as editors and several agents write it. Nothing is dumped anew: where the
members begin and end is found, and text is put in between or taken out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handrail.text.document import Splice

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_MOST_DIGITS = 4000
_REST_OF_LINE = re.compile(r"[ \t]*(?:/\*[^\r\n]*?\*/[ \t]*)*(?://[^\r\n]*)?(?=\r|\n|$)")
_STRINGS = json.JSONDecoder()
_DEEPEST = 200


class Broken(ValueError):
    """A configuration that cannot be read, and why."""


@dataclass(slots=True)
class Node:
    """A value, and where it stands."""

    start: int
    end: int = 0
    value: Any = None
    members: list[Member] | None = None
    """Of an object: what it holds, in order."""


@dataclass(slots=True)
class Member:
    key: str
    start: int
    node: Node
    comma: int = -1
    """Where the comma behind it stands, if there is one."""


def parse(text: str) -> Node | None:
    """The value of a file; None if it holds nothing at all."""
    scan = _Scan(text)
    if scan.skip() == len(text):
        return None
    node = scan.value(0)
    if scan.skip() != len(text):
        raise scan.broken("there is more after the end")
    if node.members is None:
        raise Broken("it is not an object")
    return node


@dataclass(slots=True)
class _Scan:
    text: str
    at: int = 0

    def broken(self, why: str) -> Broken:
        return Broken(f"line {self.text.count(chr(10), 0, self.at) + 1}: {why}")

    def skip(self) -> int:
        found = _SPACE.match(self.text, self.at)
        assert found
        self.at = found.end()
        return self.at

    def value(self, depth: int) -> Node:
        self.skip()
        node = Node(self.at)
        first = self.text[self.at : self.at + 1]
        if depth > _DEEPEST:
            raise self.broken("it is nested too deeply")
        if first == "{":
            self._object(node, depth)
        elif first == "[":
            node.value = []
            self._items("]", lambda: node.value.append(self.value(depth + 1).value))
        elif first == '"':
            node.value = self._string()
        elif (found := _SCALAR.match(self.text, self.at)) and found.end() - self.at <= _MOST_DIGITS:
            node.value, self.at = json.loads(found[0]), found.end()
        else:
            raise self.broken(f"{first!r} is no value" if first else "it ends too early")
        node.end = self.at
        return node

    def _object(self, node: Node, depth: int) -> None:
        members: list[Member] = []

        def member() -> None:
            start = self.at
            if self.text[start : start + 1] != '"':
                raise self.broken("a name in double quotes is expected")
            key = self._string()
            self.skip()
            self._take(":")
            members.append(Member(key, start, self.value(depth + 1)))

        commas = self._items("}", member)
        for one, comma in zip(members, commas, strict=False):
            one.comma = comma
        node.members = members
        node.value = {one.key: one.node.value for one in members}

    def _items(self, close: str, item: Any) -> list[int]:
        """What stands between two brackets; returns where the commas are."""
        commas = []
        self.at += 1
        self.skip()
        while self.text[self.at : self.at + 1] != close:
            item()
            self.skip()
            if self.text[self.at : self.at + 1] == ",":
                commas.append(self.at)
                self.at += 1
                self.skip()
            elif self.text[self.at : self.at + 1] != close:
                raise self.broken(f"a comma or {close!r} is expected")
        self.at += 1
        return commas

    def _string(self) -> str:
        try:
            found, self.at = _STRINGS.raw_decode(self.text, self.at)
        except json.JSONDecodeError as error:
            raise self.broken(error.msg) from None
        return str(found)

    def _take(self, wanted: str) -> None:
        if self.text[self.at : self.at + 1] != wanted:
            raise self.broken(f"{wanted!r} is expected")
        self.at += 1


def find(root: Node | None, keys: Sequence[str]) -> Member | None:
    """The member at the end of these keys."""
    node, found = root, None
    for key in keys:
        named = [one for one in (node.members or ()) if one.key == key] if node else []
        if not named:
            return None
        found = named[-1]  # of two with one name the last one counts, in every reader
        node = found.node
    return found


def put(text: str, keys: Sequence[str], value: Mapping[str, Any]) -> list[Splice]:
    """What to change so that ``value`` stands at ``keys``; nothing if it does already."""
    root = parse(text)
    style = _Style.of(text, root)
    if root is None:
        whole = _nested(keys, value)
        at = len(text) if text.startswith("\ufeff") else 0
        return [Splice(at, at, style.dumped(whole, "") + style.newline)]
    there = find(root, keys)
    if there:
        if there.node.value == value:
            return []
        own = style.indent_at(text, there.start)
        return [Splice(there.node.start, there.node.end, style.dumped(value, own))]
    node = root
    for depth, key in enumerate(keys):
        if node.members is None:
            raise Broken(f"{'.'.join(keys[:depth])} is not an object")
        inner = find(node, [key])
        if inner is None:
            return _added(text, node, style, key, _nested(keys[depth + 1 :], value))
        node = inner.node
    raise AssertionError("unreachable")


def take(text: str, keys: Sequence[str], empty_too: int) -> list[Splice]:
    """What to change so that nothing stands at ``keys``; up to ``empty_too`` objects around it go if it was all."""
    root = parse(text)
    if find(root, keys) is None:
        return []
    while empty_too and len(keys) > 1:
        around = find(root, keys[:-1])
        if around is None or len(around.node.members or ()) > 1 or "/" in _between(text, around.node):
            break
        keys, empty_too = keys[:-1], empty_too - 1
    above, there = find(root, keys[:-1]), find(root, keys)
    holder = above.node if above else root
    return _removed(text, holder, there) if holder and there else []


def _between(text: str, node: Node) -> str:
    """What stands in an object besides its members."""
    left, at = "", node.start + 1
    for one in node.members or ():
        left += text[at : one.start]
        at = one.node.end
    return left + text[at : node.end - 1]


def _nested(keys: Sequence[str], value: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return value


@dataclass(frozen=True, slots=True)
class _Style:
    """How a file is laid out."""

    newline: str = "\n"
    unit: str = "  "
    lines: bool = field(default=True)

    @classmethod
    def of(cls, text: str, root: Node | None) -> _Style:
        newline = "\r\n" if "\r\n" in text else "\n"
        if root is None or not root.members:
            return cls(newline)
        lead = cls().indent_at(text, root.members[0].start)
        return cls(newline, lead or "  ", "\n" in text[root.start : root.end])

    def indent_at(self, text: str, at: int) -> str:
        """The spaces before something that begins its line, or those of the line it stands on."""
        line = text[text.rfind("\n", 0, at) + 1 : at]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def dumped(self, value: Any, indent: str) -> str:
        if not self.lines:
            return json.dumps(value, ensure_ascii=False)
        made = json.dumps(value, ensure_ascii=False, indent=self.unit)
        return made.replace("\n", self.newline + indent)


def _added(text: str, holder: Node, style: _Style, key: str, value: Mapping[str, Any]) -> list[Splice]:
    assert holder.members is not None
    name = json.dumps(key, ensure_ascii=False) + ": "
    if not holder.members:
        outer = style.indent_at(text, holder.start)
        inner = text[holder.start + 1 : holder.end - 1]
        at = holder.start + 1 + len(inner.rstrip())
        if not style.lines:
            return [Splice(holder.start + 1, holder.start + 1, name + style.dumped(value, ""))]
        made = style.newline + outer + style.unit + name + style.dumped(value, outer + style.unit)
        closed = "" if "\n" in inner[len(inner.rstrip()) :] else style.newline + outer
        return [Splice(at, at, made + closed)]
    last = holder.members[-1]
    behind = last.comma + 1 if last.comma >= 0 else last.node.end
    comma = [] if last.comma >= 0 else [Splice(behind, behind, ",")]
    trailing = "," if last.comma >= 0 else ""
    if "\n" not in text[holder.start : last.start]:
        one_line = _Style(style.newline, style.unit, lines=False)
        made = f"{trailing and ' '}{name}{one_line.dumped(value, '')}{trailing}"
        return [Splice(behind, behind, made if trailing else ", " + made)]
    rest = _REST_OF_LINE.match(text, behind)  # a comment on the last member's line stays with it
    at = rest.end() if rest else behind
    indent = style.indent_at(text, last.start)
    made = style.newline + indent + name + style.dumped(value, indent) + trailing
    if at == behind:
        return [Splice(behind, behind, ("" if trailing else ",") + made)]
    return [*comma, Splice(at, at, made)]


def _removed(text: str, holder: Node, there: Member) -> list[Splice]:
    assert holder.members is not None
    number = holder.members.index(there)
    before = text[: there.start]
    start = len(before.rstrip(" \t"))
    if before[:start].endswith("\n"):
        start -= 2 if before[:start].endswith("\r\n") else 1
    end = there.comma + 1 if there.comma >= 0 else there.node.end
    if len(holder.members) == 1:
        if not (text[holder.start + 1 : start] + text[end : holder.end - 1]).strip():
            return [Splice(holder.start + 1, holder.end - 1, "")]
        return [Splice(start, end, "")]
    previous = holder.members[number - 1] if number else None
    if there.comma < 0 and previous:  # the last one: the comma before it goes with it
        if previous.comma + 1 >= start:
            return [Splice(previous.comma, end, "")]
        return [Splice(previous.comma, previous.comma + 1, ""), Splice(start, end, "")]
    return [Splice(start, end, "")]
