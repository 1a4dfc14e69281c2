"""The data types of a search: the query, the matches and the page of results."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from handrail.errors import BadGlobPattern, UnknownType
from handrail.search.receipt import Receipt
from handrail.search.regex import LINE_BREAK, MOST_CHARS, TranslatedPattern, bad_pattern, translate
from handrail.text.globs import BadGlob, Glob, compile_filter

Mode = Literal["files_with_matches", "content", "count"]
Order = Literal["newest", "path"]


@dataclass(frozen=True, slots=True)
class Query:
    """A search and the page of results that is wanted."""

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = False
    mode: Mode = "files_with_matches"
    before: int = 0
    after: int = 0
    glob: str = ""
    type: str = ""
    hidden: bool = False
    ignored: bool = False
    order: Order = "newest"
    offset: int = 0
    limit: int = 100
    file_bytes: int | None = None
    """Larger files are not searched."""
    skip: tuple[str, ...] = ()
    """Names that are passed over like ignored ones."""

    @property
    def need(self) -> int:
        """So many results make the page, and one more says that there are more."""
        return self.offset + self.limit + 1

    @property
    def crlf(self) -> bool:
        """Whether a carriage return at the end of a line is not part of it: unless it is asked for."""
        return not self.multiline and "\r" not in self.pattern and "\\r" not in self.pattern

    def regex(self) -> TranslatedPattern | None:
        """The pattern, checked; None if it is plain text. Raises `BadPattern`."""
        if "\0" in self.pattern:
            raise bad_pattern(self.pattern, "it contains a NUL character", self.pattern.index("\0") + 1)
        if len(self.pattern) > MOST_CHARS:
            raise bad_pattern(self.pattern, f"it has {len(self.pattern)} characters; at most {MOST_CHARS} are allowed")
        if not self.literal:
            return translate(self.pattern, self.multiline)
        if "\n" in self.pattern and not self.multiline:
            raise bad_pattern(self.pattern, LINE_BREAK, self.pattern.index("\n") + 1)
        return None


class Hit(NamedTuple):
    """A line that was found, or one around it."""

    line: int
    column: int
    """Bytes before the match in ``raw``; -1 for a line that only stands around."""
    raw: bytes
    """The line, without its end; of a very long one the part around the match."""
    before: bool = False
    """Whether the line begins further in front."""
    after: bool = False

    @property
    def matched(self) -> bool:
        return self.column >= 0


@dataclass(slots=True)
class FileMatches:
    """The matches in one file."""

    path: str
    """Below the directory that is searched; empty if that is the file itself."""
    hits: list[Hit] = field(default_factory=list)
    count: int = 1
    """Results for the page: lines that match, or 1 for the file."""
    number: int = 0
    """The result of the mode `count`."""


class ResultPage(NamedTuple):
    """The requested part of all matches."""

    files: Sequence[FileMatches]
    more: bool
    receipt: Receipt


class NameFilter:
    """Selects files by name: the glob and the type of a query."""

    def __init__(self, query: Query) -> None:
        self.globs = load_types()[query.type] if query.type else ()
        """Globs of the kind of file, each for a name without directories."""
        self._glob: Glob | None = None
        self._out = False
        try:
            self._type = [compile_filter(glob)[0] for glob in self.globs]
            if query.glob:
                self._glob, self._out = compile_filter(query.glob)
        except BadGlob as error:
            raise BadGlobPattern(pattern=query.glob, why=str(error)) from None
        self.all = not self._type and self._glob is None

    def wanted(self, path: str) -> bool:
        """Whether the file is one of those; what is left out takes with it what lies below."""
        if self._type and not any(glob.match(path) for glob in self._type):
            return False
        if self._glob is None:
            return True
        if not self._out:
            return self._glob.match(path)
        parts = path.split("/")
        return not any(self._glob.match("/".join(parts[: end + 1])) for end in range(len(parts)))


@cache
def _read_types() -> Mapping[str, Sequence[str]]:
    return tomllib.loads(Path(__file__).with_name("types.toml").read_text(encoding="utf-8"))


class _Types(dict[str, Sequence[str]]):
    def __missing__(self, name: str) -> Sequence[str]:
        raise UnknownType(type=name, types=sorted(self))


def load_types() -> Mapping[str, Sequence[str]]:
    """The kinds of files that have a name, and the globs for each."""
    return _Types(_read_types())
