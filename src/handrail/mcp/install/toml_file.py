"""Add a table to a TOML file or remove it, and keep every other byte.

The table is found by its header line. The caller parses the result again and compares it, so a line inside a string
that looks like a header is noticed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.files.configuration import BadConfiguration
from handrail.text.document import Splice
from handrail.text.toml_lines import write_value

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def parse(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(str(error)) from None
    except RecursionError:
        raise BadConfiguration("it is nested too deeply") from None


def put(text: str, keys: Sequence[str], value: object) -> list[Splice]:
    """Return splices that set ``value`` at ``keys``; none if it is already there."""
    if not isinstance(value, Mapping):
        return _put_key(text, keys, value)
    newline = "\r\n" if "\r\n" in text else "\n"
    table = (
        newline.join([f"[{'.'.join(keys)}]", *(f"{key} = {write_value(one)}" for key, one in value.items())]) + newline
    )
    there = _look_up(parse(text), keys)
    if there == value:
        return []
    if there is not None:
        start, end = _find_span(text, keys)
        return [Splice(start, end, table if text[start:end].endswith("\n") else table.removesuffix(newline))]
    gap = "" if not text.strip("\ufeff") else newline if text.endswith("\n") else newline * 2
    if text.endswith(newline * 2):
        gap = ""
    return [Splice(len(text), len(text), gap + table)]


def _put_key(text: str, keys: Sequence[str], value: object) -> list[Splice]:
    """Set one key of a table, on a line of its own."""
    newline = "\r\n" if "\r\n" in text else "\n"
    there, table = _look_up(parse(text), keys), _look_up(parse(text), keys[:-1])
    if there is not None and there == value:
        return []
    if table is None:
        return put(text, keys[:-1], {keys[-1]: value})
    row = f"{keys[-1]} = {write_value(value)}"
    if there is not None:
        line = _find_line(text, keys)
        return [Splice(line.start(), line.end(), row)]
    header = _find_own_header(text, keys[:-1])
    return [Splice(header.end(), header.end(), newline + row)]


def _find_own_header(text: str, keys: Sequence[str]) -> re.Match[str]:
    parts = r"\s*\.\s*".join(rf"(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')" for key in keys)
    header = re.search(rf"^[ \t]*\[\s*{parts}\s*\][^\r\n]*", text, re.MULTILINE)
    if not header:
        raise BadConfiguration(f"{'.'.join(keys)} exists, but not as a separate table: change it yourself")
    return header


def _find_line(text: str, keys: Sequence[str]) -> re.Match[str]:
    """The line that sets this key in its table."""
    header = _find_own_header(text, keys[:-1])
    after = _HEADER.search(text, header.end())
    key = re.escape(keys[-1])
    row = re.compile(rf"^[ \t]*(?:{key}|\"{key}\"|'{key}')[ \t]*=[^\r\n]*", re.MULTILINE)
    line = row.search(text, header.end(), after.start() if after else len(text))
    if not line:
        raise BadConfiguration(f"{'.'.join(keys)} is not on a line of its own: change it yourself")
    return line


def take(text: str, keys: Sequence[str], empty_too: int = 0) -> list[Splice]:
    """Return splices that remove the table or key at ``keys``, and the table around a key if it is empty then."""
    there = _look_up(parse(text), keys)
    if there is None:
        return []
    if not isinstance(there, dict):
        if empty_too and list(_look_up(parse(text), keys[:-1])) == [keys[-1]]:
            return take(text, keys[:-1], empty_too - 1)
        line = _find_line(text, keys)
        line_feed = re.compile(r"\r?\n").match(text, line.end())
        return [Splice(line.start(), line_feed.end() if line_feed else line.end(), "")]
    start, end = _find_span(text, keys)
    before = text[:start]
    if not text[end:].strip() or text[end:].startswith(("\n", "\r\n")):  # with the empty line that parted it
        start -= 2 if before.endswith("\r\n\r\n") else 1 if before.endswith("\n\n") else 0
    return [Splice(start, end, "")]


def _look_up(data: object, keys: Sequence[str]) -> Any:
    for key in keys:
        if not isinstance(data, dict):
            raise BadConfiguration(f"{'.'.join(keys)} cannot be added, because its parent is not a table")
        data = data.get(key)
        if data is None:
            return None
    return data


def _find_span(text: str, keys: Sequence[str]) -> tuple[int, int]:
    """From the header to the last line of the table and of the tables below it."""
    parts = r"\s*\.\s*".join(rf"(?:{re.escape(key)}|\"{re.escape(key)}\"|'{re.escape(key)}')" for key in keys)
    own = re.compile(rf"^[ \t]*\[\s*{parts}\s*(?:\]|\.)", re.MULTILINE)
    first = own.search(text)
    if not first:
        raise BadConfiguration(f"{'.'.join(keys)} exists, but not as a separate table: remove it first")
    end = len(text)
    for header in _HEADER.finditer(text, first.end()):
        if not own.match(text, header.start()):
            end = header.start()
            break
    # Empty lines and comments before the next header belong to that one.
    last = first.start()
    at = first.start()
    for line in text[first.start() : end].splitlines(keepends=True):
        at += len(line)
        if line.strip() and not line.lstrip().startswith("#"):
            last = at
    return first.start(), last
