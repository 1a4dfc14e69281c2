"""Set or remove one key of the configuration file and keep every other byte.

The new text is parsed again and must hold exactly what was meant; otherwise it is refused and the person is asked to
edit the file.
"""

from __future__ import annotations

import re
import tomllib

from handrail.json_types import JsonObject
from handrail.settings.config_file import ConfigError
from handrail.text.toml_lines import find_lines, write_value

_MOST_LINES = 1000
"""A value that goes on over more lines than this is not replaced."""


def set_key(text: str, table: str, key: str, value: object) -> str:
    """The text with ``key`` of ``[table]`` set to ``value``; raises `ConfigError`."""
    wanted = _parse(text)
    wanted[table] = {**wanted.get(table, {}), key: value}
    newline = "\r\n" if "\r\n" in text else "\n"
    entry = f"{key} = {write_value(value)}"
    lines, places = _split(text), find_lines(text)
    if (table, key) in places:
        first = places[table, key] - 1
        return _replace(lines, first, entry, newline, wanted)
    if (table,) in places and re.match(r"\s*\[", lines[places[(table,)] - 1]):
        header = places[(table,)]
        head = lines[header - 1]
        lines[header - 1] = head if head.endswith("\n") else head + newline
        return _check("".join([*lines[:header], entry + newline, *lines[header:]]), wanted)
    gap = "" if not text.strip() else newline if text.endswith("\n") else newline * 2
    return _check(f"{text}{gap}[{table}]{newline}{entry}{newline}", wanted)


def unset_key(text: str, table: str, key: str) -> str:
    """The text without ``key`` of ``[table]``; the same text if it is not there. Raises `ConfigError`."""
    wanted = _parse(text)
    if key not in wanted.get(table, {}):
        return text
    del wanted[table][key]
    places = find_lines(text)
    return _replace(_split(text), places[table, key] - 1, "", "", wanted)


def _split(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends a line in TOML."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _replace(lines: list[str], first: int, entry: str, newline: str, wanted: JsonObject) -> str:
    """Replace the entry that begins in this line: one line, or as many as it takes until the rest is as it was."""
    for last in range(first, min(len(lines), first + _MOST_LINES)):
        comment = _get_comment(lines[first : last + 1]) if entry else ""
        fresh = f"{entry}{comment}{newline}" if entry else ""
        text = "".join([*lines[:first], fresh, *lines[last + 1 :]])
        try:
            return _check(text, wanted)
        except ConfigError:
            continue
    raise ConfigError("the entry is not on lines of its own, so it cannot be changed from here; edit the file")


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
    if _parse(text) != wanted:
        raise ConfigError("the entry is written in a form that cannot be changed from here; edit the file")
    return text


def _parse(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"not valid TOML: {error}") from None
