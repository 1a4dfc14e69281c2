"""Set or remove one value in a TOML file and keep every other byte.

An entry is found by its line. The new text is parsed again and must hold exactly what was meant; otherwise it is
refused, and the person is asked to edit the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress

from handrail.files.configuration import BadConfiguration
from handrail.json_types import JsonObject
from handrail.text.toml_lines import find_lines, write_value

_MOST_LINES = 1000
"""An entry that goes on over more lines than this is not replaced."""
_BYTE_ORDER_MARK = "\ufeff"


def parse(text: str) -> JsonObject:
    """The data in a file; raises `BadConfiguration`."""
    try:
        return tomllib.loads(text.removeprefix(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError) as error:
        raise BadConfiguration(f"not valid TOML: {error}") from None


def set_value(text: str, keys: Sequence[str], value: object) -> str:
    """The text with a value, or a table of values, at these keys; raises `BadConfiguration`."""
    wanted = parse(text)
    table = _open_table(wanted, keys[:-1])
    if table.get(keys[-1]) == value:
        return text
    table[keys[-1]] = value
    newline = "\r\n" if "\r\n" in text else "\n"
    entry = f"{keys[-1]} = {write_value(value)}"
    if isinstance(value, Mapping):
        rows = [f"{key} = {write_value(one)}" for key, one in value.items()]
        entry = newline.join([f"[{'.'.join(keys)}]", *rows])
    lines, places = _split(text), find_lines(text.removeprefix(_BYTE_ORDER_MARK))
    if tuple(keys) in places:
        return _replace(lines, places[tuple(keys)] - 1, entry + newline, wanted)
    header = places.get(tuple(keys[:-1]), 0)
    if header and not isinstance(value, Mapping) and re.match(r"\s*\[", lines[header - 1]):
        head = lines[header - 1]
        lines[header - 1] = head if head.endswith("\n") else head + newline
        return _check("".join([*lines[:header], entry + newline, *lines[header:]]), wanted)
    if not isinstance(value, Mapping):
        entry = f"[{'.'.join(keys[:-1])}]{newline}{entry}"
    gap = newline if text.endswith("\n") else newline * 2
    if not text.strip(_BYTE_ORDER_MARK) or text.endswith(newline * 2):
        gap = ""
    return _check(f"{text}{gap}{entry}{newline}", wanted)


def remove_value(text: str, keys: Sequence[str], empty_too: int = 0) -> str:
    """The text without a value or a table, and without up to ``empty_too`` enclosing tables that this leaves empty.

    The same text if it is not there; raises `BadConfiguration`.
    """
    wanted = parse(text)
    table = _open_table(wanted, keys[:-1])
    if keys[-1] not in table:
        return text
    places = find_lines(text.removeprefix(_BYTE_ORDER_MARK))
    if empty_too and list(table) == [keys[-1]] and tuple(keys[:-1]) in places:
        return remove_value(text, keys[:-1], empty_too - 1)
    if tuple(keys) not in places:
        raise BadConfiguration(f"{'.'.join(keys)} is not on lines of its own; edit the file yourself")
    old = table.pop(keys[-1])
    lines, first = _split(text), places[tuple(keys)] - 1
    short = _replace(lines, first, "", wanted)
    rest = short[len("".join(lines[:first])) :]
    parted = first and not lines[first - 1].strip() and (not rest.strip() or rest.startswith(("\n", "\r\n")))
    if isinstance(old, dict) and parted:  # along with the blank line that separated it from the previous table
        return "".join(lines[: first - 1]) + rest
    return short


def _open_table(data: JsonObject, keys: Sequence[str]) -> JsonObject:
    """The table at these keys, which is added if there is none."""
    for key in keys:
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise BadConfiguration(f"{key} is not a table; edit the file yourself")
    return data


def _split(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends a line in TOML."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _replace(lines: list[str], first: int, entry: str, wanted: JsonObject) -> str:
    """Replace the entry that begins in this line: one line, or as many as it takes until the rest is as it was."""
    for last in range(first, min(len(lines), first + _MOST_LINES)):
        comment = _get_comment(lines[first : last + 1]) if entry else ""
        fresh = entry.rstrip("\r\n") + comment + entry[len(entry.rstrip("\r\n")) :]
        try:
            return _check("".join([*lines[:first], fresh, *lines[last + 1 :]]), wanted)
        except BadConfiguration:
            continue
    raise BadConfiguration("the entry is not on lines of its own; edit the file yourself")


def _get_comment(lines: list[str]) -> str:
    """The comment behind an entry, with the blanks before it."""
    text = "".join(lines).rstrip("\r\n")
    try:
        value = tomllib.loads(text)
    except ValueError:
        return ""
    for mark in re.finditer("[ \t]*#", lines[-1]):
        at = len(text) - len(lines[-1].rstrip("\r\n")) + mark.start()
        try:
            if tomllib.loads(text[:at]) == value:
                return text[at:]
        except ValueError:
            continue
    return ""


def _check(text: str, wanted: JsonObject) -> str:
    with suppress(BadConfiguration):
        if _drop_empty(parse(text)) == _drop_empty(wanted):
            return text
    raise BadConfiguration("the entry is written in a form that cannot be changed; edit the file yourself")


def _drop_empty(data: object) -> object:
    """The data without empty tables: one that no header names goes with its last entry."""
    if not isinstance(data, dict):
        return data
    filled = {key: _drop_empty(one) for key, one in data.items()}
    return {key: one for key, one in filled.items() if one != {}}
