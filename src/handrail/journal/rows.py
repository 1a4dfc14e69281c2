"""The rows that the entries of logs stand for: both databases are filled with these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from handrail.journal.log_lines import LogLine
from handrail.journal.records import BEGIN, CALL_COLUMNS, END, FILE, FILE_COLUMNS

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


def fits(name: str, value: Any) -> bool:
    """Whether a value that was read from a database can stand in this column."""
    return value is None or isinstance(value, bytes if name in _BYTES else _get_kind(name))


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


_BEGIN, _END, _FILE = (_RowKind(names.split(", ")) for names in (BEGIN, END, FILE))
_CALL, _WHOLE_FILE = _RowKind(CALL_COLUMNS[1:]), _RowKind(FILE_COLUMNS)


class LogRows:
    """The rows of some entries of a log that follow each other."""

    def __init__(self) -> None:
        self.calls: dict[int, list[Any]] = {}
        """The columns of calls that begin here, by their numbers; those of the end are None if it comes later."""
        self.files: dict[tuple[int, int, int], list[Any]] = {}
        """The columns of their files, by the number of the call, attempt and place."""
        self.ends: dict[int, list[Any]] = {}
        """The columns of the ends of calls that began before."""
        self.afters: list[tuple[Any, ...]] = []
        """Hash and mode of their files, with number, attempt and place."""
        self.ended: dict[int, None] = {}
        """The calls that end here, in this order."""
        self.sources: dict[str, str] = {}
        """The client and the model of sessions, as the keys and values of `meta`."""

    def take(self, line: LogLine) -> None:
        """Add an entry. Raises `ValueError`, or another error, if it is not of the kind that Handrail writes."""
        stage, _, number = line.stage.partition(" ")
        if stage == "source":
            session, client, model = line.content[0]
            named = {f"client:{session}": client, f"model:{session}": model}
            self.sources |= {key: str(name) for key, name in named.items() if name}
        elif stage in ("begin", "end", "whole"):
            self._take_call(stage, line.seq, int(number or 0), *line.content)

    def _take_call(self, stage: str, seq: int, attempt: int, row: list[Any], files: list[Any]) -> None:
        if stage == "end":
            end = _END.read(row)
            if seq in self.calls:
                self.calls[seq][_BEGIN.length :] = end
            else:
                self.ends[seq] = end
            for place, after, mode in files:
                if known := self.files.get((seq, attempt, place)):
                    known[-2:] = after, mode
                else:
                    self.afters.append((after, mode, seq, attempt, place))
        else:
            whole = stage == "whole"
            read = list(map((_WHOLE_FILE if whole else _FILE).read, files))
            columns = (_CALL if whole else _BEGIN).read(row)
            if whole or attempt == 0:
                self.calls[seq] = columns if whole else [*columns, *[None] * _END.length]
            for one in read:
                self.files[seq, attempt, one[0]] = one if whole else [*one, None, None]
        if stage != "begin":
            self.ended[seq] = None
