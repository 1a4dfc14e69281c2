"""The rows that the entries of logs stand for: both databases are filled with these."""

# ruff: noqa: S608 - what is put into a query are names of columns, all constants of `records.py`
from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from handrail.journal.log_lines import LogLine
from handrail.journal.records import BEGIN, CALL_COLUMNS, FILE, FILE_COLUMNS

_INTEGERS = frozenset(
    [
        *("seq", "number", "time", "pid", "given", "ended", "exit_code", "said", "answer_bytes", "left_out"),
        *("place", "kept", "before_mode", "after_mode"),
    ]
)
_BYTES = ("workspace", "path", "moved_from")


def _get_kind(name: str) -> type | tuple[type, ...]:
    """The type of the values of a column, as they are in a log."""
    return int if name in _INTEGERS else (int, float) if name == "duration" else str


def fits(name: str, value: object) -> bool:
    """Whether a value that was read from a database can stand in this column."""
    return value is None or isinstance(value, bytes if name in _BYTES else _get_kind(name))


def make_upsert(table: str, keys: Sequence[str], names: Sequence[str], mark: str) -> str:
    """A statement that adds a row, or fills in what it has not None of; ``mark`` stands for a value."""
    columns = [*keys, *names]
    marks, fill = (
        ", ".join([mark] * len(columns)),
        [f"{name} = coalesce(excluded.{name}, {table}.{name})" for name in names],
    )
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) "
        f"ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {', '.join(fill)}"
    )


class _RowKind:
    """Some columns, and the types of their values. A row of an older version has fewer columns: the rest is None."""

    def __init__(self, names: Sequence[str]) -> None:
        self.length = len(names)
        self._kinds = list(map(_get_kind, names))
        self._integers = [place for place, name in enumerate(names) if name in _INTEGERS]
        self._bytes = [place for place, name in enumerate(names) if name in _BYTES]
        self._fits = lru_cache(64)(self._compare)

    def _compare(self, kinds: tuple[type, ...]) -> bool:
        """Whether values of these types can stand in the columns."""
        if len(kinds) != self.length or bool in kinds:
            return False
        return all(
            kind is type(None) or issubclass(kind, known) for kind, known in zip(kinds, self._kinds, strict=True)
        )

    def read(self, row: Sequence[Any]) -> list[Any]:
        """The values of these columns; bytes are written as hexadecimal digits. Raises `ValueError` for any others."""
        values = [*row, *[None] * (self.length - len(row))]
        if not self._fits(tuple(map(type, values))):
            raise ValueError(row)
        for place in self._integers:
            if (values[place] or 0).bit_length() > 63:
                raise ValueError(values[place])
        for place in self._bytes:
            if values[place] is not None:
                values[place] = bytes.fromhex(values[place])
        return values


_CALL, _FILE = _RowKind(CALL_COLUMNS[1:]), _RowKind(FILE_COLUMNS)
_BEGIN_ONLY, _FILE_ONLY = [None] * len(BEGIN.split(", ")), [None] * (len(FILE.split(", ")) - 1)


_LENGTHS = {
    "begin": (len(_BEGIN_ONLY), 1 + len(_FILE_ONLY)),
    "end": (_CALL.length - len(_BEGIN_ONLY), _FILE.length - len(_FILE_ONLY)),
    "whole": (_CALL.length, _FILE.length),
}


def is_complete(line: LogLine) -> bool:
    """Whether the entry of a call has all columns: those of older versions have fewer."""
    row, files = line.content
    length, length_of_file = _LENGTHS[line.stage.partition(" ")[0]]
    return len(row) == length and all(len(one) == length_of_file for one in files)


class LogRows:
    """The rows of some entries of a log that follow each other.

    A call has two entries if it changed something, and each fills its part of the row: a database keeps what it has
    where a row has None.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[int, bool, list[Any]]] = []
        """The number of a call, whether it is over, and its columns."""
        self.files: list[tuple[int, int, list[Any]]] = []
        """The number of the call, the attempt, and the columns of a file."""

    def take(self, line: LogLine) -> None:
        """Add an entry. Raises `ValueError`, or another error, if it is not of the kind that Handrail writes."""
        stage, _, attempt = line.stage.partition(" ")
        if stage in ("begin", "end", "whole"):
            row, files = line.content
            if stage == "end":
                row, files = [*_BEGIN_ONLY, *row], [[place, *_FILE_ONLY, *after] for place, *after in files]
            call, changed = _CALL.read(row), [(line.seq, int(attempt), _FILE.read(one)) for one in files]
            if stage != "end" and any(None in (one[1], one[3]) for _, _, one in changed):  # no path, or nothing before
                raise ValueError(files)
            self.calls.append((line.seq, stage != "begin", call))
            self.files += changed
