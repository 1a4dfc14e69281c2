"""Find the line of each value in a TOML text, which the standard reader does not tell, and write a value in TOML.

Lines are found only in texts that `tomllib` has taken: nothing is checked, and what is not understood has no line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping

Key = tuple[str | int, ...]

_TOKEN = re.compile(
    r'(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)|(?P<end>\n)|(?P<mark>[\[\]{},=.])|(?P<bare>[^\s\[\]{},=.#\"']+)",
    re.DOTALL,
)


def find_lines(text: str) -> dict[Key, int]:
    """The line of every table, key and element, by its way down: `("rules", 0, "path")`."""
    return _TomlReader(text).lines


def write_value(value: object) -> str:
    """A string, number, truth value, or list or table of them in TOML, on one line."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(key)} = {write_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(write_value, value)) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    # A basic string of TOML takes the escapes of JSON, but for a delete character, which it wants escaped too.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


class _TomlReader:
    def __init__(self, text: str) -> None:
        self.lines: dict[Key, int] = {}
        self._tokens: list[tuple[str, str, int]] = []
        line = 1
        for match in _TOKEN.finditer(text):
            kind = match.lastgroup or ""
            if kind != "comment":
                self._tokens.append((kind, match[0], line))
            line += match[0].count("\n")
        self._at = 0
        self._counts: dict[Key, int] = {}
        self._read_document()

    def _peek(self) -> tuple[str, str, int]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("", "", 0)

    def _read_next(self) -> tuple[str, str, int]:
        token = self._peek()
        self._at += 1
        return token

    def _read_document(self) -> None:
        table: Key = ()
        while self._peek()[0]:
            kind, word, line = self._peek()
            if kind == "end":
                self._at += 1
            elif word == "[":
                table = self._read_header(line)
            else:
                self._pair(table)

    def _read_header(self, line: int) -> Key:
        self._at += 1
        many = self._peek()[1] == "["
        self._at += many
        table = self._number_table(self._name(), many)
        self._at += 1 + many
        self.lines.setdefault(table, line)
        return table

    def _number_table(self, name: Key, many: bool) -> Key:
        """The way to a table, with the number of the last one wherever there is a list of tables."""
        way: Key = ()
        for part in name[:-1]:
            way = (*way, part)
            if way in self._counts:
                way = (*way, self._counts[way])
        way = (*way, *name[-1:])
        if many:
            self._counts[way] = self._counts.get(way, -1) + 1
            way = (*way, self._counts[way])
        return way

    def _name(self) -> Key:
        parts: list[str] = []
        while self._peek()[0] in ("bare", "text") or self._peek()[1] == ".":
            kind, word, _ = self._read_next()
            if word != ".":
                parts.append(_read_key(word) if kind == "text" else word)
        return tuple(parts)

    def _pair(self, table: Key) -> None:
        line, before = self._peek()[2], self._at
        key = (*table, *self._name())
        self.lines.setdefault(key, line)
        if self._peek()[1] == "=":
            self._at += 1
            self._read_value(key)
        self._at += self._at == before  # never stand still

    def _read_value(self, key: Key) -> None:
        _, word, _ = self._peek()
        if word == "[":
            self._read_elements(key)
        elif word == "{":
            self._at += 1
            while self._peek()[0] and self._peek()[1] != "}":
                if self._peek()[1] == "," or self._peek()[0] == "end":
                    self._at += 1
                else:
                    self._pair(key)
            self._at += 1
        else:
            while self._peek()[0] in ("text", "bare") or self._peek()[1] == ".":  # 1.5, or a date
                self._at += 1

    def _read_elements(self, key: Key) -> None:
        self._at += 1
        number = 0
        while self._peek()[0] and self._peek()[1] != "]":
            kind, word, line = self._peek()
            if word == "," or kind == "end":
                self._at += 1
                continue
            self.lines[(*key, number)] = line
            before = self._at
            self._read_value((*key, number))
            self._at += self._at == before
            number += 1
        self._at += 1


def _read_key(text: str) -> str:
    try:
        return str(tomllib.loads(f"x = {text}")["x"])
    except tomllib.TOMLDecodeError:
        return text
