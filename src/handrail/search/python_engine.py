"""Searching without ripgrep: the same answers in the same order, a file and a block at a time, within the budget."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator

import regex  # type: ignore[import-untyped]

from handrail import system_calls
from handrail.search.query import FileMatches, Hit, Mode, NameFilter, Query
from handrail.search.receipt import Budget, Receipt
from handrail.search.regex import bad_pattern
from handrail.search.ripgrep_output import KEPT
from handrail.search.tree import SearchTree
from handrail.search.walk import Walk
from handrail.text.document import Codec, detect_bom

_BLOCK = 1 << 16
_LONG = 8 << 20
"""Lines longer than this are searched up to here."""
_WHOLE = 64 << 20
"""Files larger than this are not searched across lines."""
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_STRAY = re.compile("[\udc80-\udcff]")


class _Binary(Exception):
    """A NUL byte: this is no text."""


class PythonSearch:
    """One query, asked of one file after the other."""

    def __init__(self, query: Query, tree: SearchTree, names: NameFilter, budget: Budget, receipt: Receipt) -> None:
        self._query = query
        self._tree = tree
        self._names = names
        self._budget = budget
        self.receipt = receipt
        self._expression = _compile_pattern(query)
        self._literal = query.pattern.encode("utf-8", "replace") if query.literal and not query.ignore_case else b""

    def everywhere(self, mode: Mode) -> Iterator[FileMatches]:
        """The files below the directory in the order of their paths; it stops when time is up."""
        walk = self._tree.walk(self._budget)
        for _, path in self._order_files(walk, False):
            if matches := self._search_file(path, mode):
                yield matches
            if self._is_over():
                return

    def newest(self, mode: Mode) -> Iterator[FileMatches]:
        """The newest files first."""
        walk = self._tree.walk(self._budget.allot(self._budget.left / 2))
        files = sorted(self._order_files(walk, True), key=lambda file: (-file[0], path_order(file[1])))
        for _, path in files:
            if matches := self._search_file(path, mode):
                yield matches
            if self._is_over():
                return

    def _is_over(self) -> bool:
        self.receipt.stopped = self.receipt.stopped or self._budget.spent(0)
        return bool(self.receipt.stopped)

    def _order_files(self, walk: Walk, timed: bool) -> Iterator[tuple[int, str]]:
        """The files that are asked for, by path: those of a directory between the directories in it."""
        look = self._tree.look(hidden=self._query.hidden, ignored=self._query.ignored, skip=self._query.skip)
        waiting: list[tuple[str, deque[tuple[int, str]]]] = []
        try:
            for directory in walk.directories(look):
                prefix = directory.prefix
                while waiting and not prefix.startswith(waiting[-1][0]):
                    above, files = waiting.pop()
                    yield from ((mtime, above + name) for mtime, name in files)
                for above, files in waiting:
                    entered = prefix[len(above) :].split("/", 1)[0]
                    while files and files[0][1] < entered:
                        mtime, name = files.popleft()
                        yield mtime, above + name
                names = [name for name in directory.files if self._names.all or self._names.wanted(prefix + name)]
                times = directory.mtimes(names) if timed else [0] * len(names)
                waiting.append((prefix, deque(zip(times, names, strict=True))))
                self.receipt.links += self._tree.count_links(directory)
            while waiting:
                above, files = waiting.pop()
                yield from ((mtime, above + name) for mtime, name in files)
        finally:
            for name in ("ignored", "hidden", "withheld", "unreadable"):
                setattr(self.receipt, name, getattr(self.receipt, name) + getattr(walk.receipt, name))
            self.receipt.stopped = self.receipt.stopped or walk.receipt.stopped

    def _search_file(self, path: str, mode: Mode) -> FileMatches | None:
        inner = path if self._tree.path.inner == "." else f"{self._tree.path.inner}/{path}"
        try:
            fd = system_calls.open_beneath(self._tree.workspace.beneath(self._tree.path), inner, _READ)
        except FileNotFoundError:  # gone since it was listed
            return None
        except OSError:
            self.receipt.unreadable += 1
            return None
        try:
            return self.file(fd, path, mode)
        except OSError:
            self.receipt.unreadable += 1
            return None
        finally:
            os.close(fd)

    def file(self, fd: int, path: str, mode: Mode, codec: Codec | None = None) -> FileMatches | None:
        """Search one open file."""
        status, size = os.fstat(fd), self._query.file_bytes
        if not stat.S_ISREG(status.st_mode):
            return None
        is_other_name = self._tree.sight.is_other_name
        if status.st_nlink > 1 and is_other_name and is_other_name(self._tree.real(path)):
            self.receipt.withheld += 1
            return None
        if (size is not None and status.st_size > size) or (self._query.multiline and status.st_size > _WHOLE):
            self.receipt.large += 1
            return None
        search = _Across if self._query.multiline else _Lines
        state = search(self._query, mode, self._expression, self._budget)
        self.receipt.searched += 1
        try:
            for text in self._texts(fd, codec):
                if state.take(text) or self._is_over():
                    break
        except _Binary:
            self.receipt.binary += 1
            if mode == "count":
                return None
        except TimeoutError:
            self.receipt.stopped = "time_limit"
        return state.result(path)

    def _texts(self, fd: int, codec: Codec | None) -> Iterator[str]:
        """The text of a file, in blocks of whole lines, or (to be searched across lines) as a whole."""
        block = _read_block(fd)
        if codec is None:
            codec = detect_bom(block)
            codec = codec if codec and codec.unit < 4 else None
        if codec and codec.unit > 1:
            raw = block + b"".join(iter(lambda: os.read(fd, 1 << 20), b"")) if len(block) == _BLOCK else block
            yield raw[len(codec.bom) :].decode(codec.name, "replace")
            return
        block = block[len(codec.bom) :] if codec else block
        name = codec.name if codec else "utf-8"
        around = self._query.before or self._query.after
        literal = b"" if around or name != "utf-8" else self._literal
        rest = b""
        whole: list[bytes] = []
        while block:
            if b"\0" in block:
                raise _Binary
            if self._query.multiline:
                whole.append(block)
            else:
                lines, end, rest = (rest + block).rpartition(b"\n")
                if end and (not literal or literal in lines):
                    yield (lines + end).decode(name, "surrogateescape")
                elif end:
                    yield "\n" * (lines.count(b"\n") + 1) if self._query.mode == "content" else ""
                if len(rest) > _LONG:
                    rest = rest[:_LONG]
                    self.receipt.large += 1
                    while (block := os.read(fd, _BLOCK)) and b"\n" not in block:
                        pass
                    rest += block[block.find(b"\n") :] if block else b""
            block = os.read(fd, _BLOCK)
        if whole or rest:
            yield (b"".join(whole) or rest).decode(name, "surrogateescape")


class _Lines:
    """Searches line by line."""

    def __init__(self, query: Query, mode: Mode, expression: regex.Pattern[str], budget: Budget) -> None:
        self._query = query
        self._mode = mode
        self._expression = expression
        self._budget = budget
        self._hits: list[Hit] = []
        self._count = 0
        self._number = 1
        """Of the line that the next block begins with."""
        self._last = 0
        """The last line that was put down."""
        self._follow = 0
        """Lines after a match that are still to be put down."""
        self._tail: deque[str] = deque(maxlen=query.before)

    def take(self, text: str) -> bool:
        """Search a block of whole lines; True if no more is needed."""
        if not text:
            return False
        body = text.removesuffix("\n")
        if self._query.crlf:
            body = body.replace("\r\n", "\n").removesuffix("\r")
        matches: dict[int, int] = {}
        for start, column in self._starts(body):
            if self._mode == "files_with_matches":
                self._count = 1
                return True
            matches[start] = column
            if self._mode == "content" and self._count + len(matches) >= self._query.need:
                break
        if self._mode == "content" and (matches or self._query.before or self._query.after):
            self._add_lines(body, matches)
        else:
            self._number += body.count("\n") + 1
        self._count += len(matches)
        return self._mode == "content" and self._count >= self._query.need

    def _starts(self, body: str) -> Iterator[tuple[int, int]]:
        """Where lines begin that match, and the column of the match."""
        at = 0
        while first := self._next(body, at):
            start = body.rfind("\n", 0, first.start()) + 1
            end = body.find("\n", first.start())
            end = len(body) if end < 0 else end
            if first.end() <= end:
                yield start, first.start() - start
            elif hit := self._next(body[start:end]):  # across lines: what about this line alone?
                yield start, hit.start()
            at = end + 1

    def _next(self, text: str, at: int = 0) -> regex.Match[str] | None:
        """The next match from ``at`` on. A byte that is no character is matched by nothing, not even by a dot."""
        while at <= len(text) and (match := self._expression.search(text, at, timeout=self._left)):
            if not _STRAY.search(text, match.start(), match.end()):
                return match
            at = match.start() + 1
        return None

    @property
    def _left(self) -> float:
        return max(self._budget.left, 0.001)

    def _add_lines(self, body: str, matches: dict[int, int]) -> None:
        """Put down the lines that match, and those around them."""
        before, after = self._query.before, self._query.after
        lines = body.split("\n")
        at, columns = 0, {}
        for number, line in enumerate(lines):
            if at in matches:
                columns[number] = matches[at]
            at += len(line) + 1
        held = [*self._tail, *lines]
        first = self._number - len(self._tail)
        for index in range(len(self._tail), len(held)):
            number, column = first + index, columns.get(index - len(self._tail))
            if column is not None:
                for early in range(max(self._last + 1, number - before, first), number):
                    self._hits.append(_context(early, held[early - first]))
                self._hits.append(_hit(number, column, held[index]))
                self._last, self._follow = number, after
            elif self._follow:
                self._hits.append(_context(number, held[index]))
                self._last, self._follow = number, self._follow - 1
        self._number += len(lines)
        self._tail.extend(lines[-before:] if before else ())

    def result(self, path: str) -> FileMatches | None:
        if not self._count:
            return None
        if self._mode == "content":
            return FileMatches(path, self._hits, self._count)
        return FileMatches(path, number=self._count)


class _Across(_Lines):
    """Searches a whole text, so that a match may span lines."""

    def take(self, text: str) -> bool:
        starts = [0]
        while (end := text.find("\n", starts[-1])) >= 0 and end + 1 < len(text):
            starts.append(end + 1)
        body = text.removesuffix("\n")
        matched: dict[int, int] = {}
        number = at = 0
        while hit := self._next(text, at):
            at = hit.end() + (hit.end() == hit.start())
            if text and hit.start() == len(text) and text.endswith("\n"):
                break  # behind the last line there is none
            self._count += 1
            if self._mode == "files_with_matches":
                return True
            while number + 1 < len(starts) and starts[number + 1] <= hit.start():
                number += 1
            column = hit.start() - starts[number]
            last = max(hit.end() - 1, hit.start())
            line = number
            while line < len(starts) and starts[line] <= last:
                matched.setdefault(line, column)
                line += 1
            if self._mode == "content" and len(matched) >= self._query.need:
                break
        if self._mode == "content":
            self._count = len(matched)
            if matched:
                self._add_lines(body, {starts[line]: column for line, column in matched.items()})
        return True


def _hit(number: int, column: int, line: str) -> Hit:
    if len(line) <= KEPT // 4:
        return Hit(number, len(_raw(line[:column])), _raw(line))
    column = min(column, len(line))
    first, last = max(0, column - KEPT // 4), column + KEPT // 4
    return Hit(number, len(_raw(line[first:column])), _raw(line[first:last]), first > 0, last < len(line))


def _context(number: int, line: str) -> Hit:
    return Hit(number, -1, _raw(line[: KEPT // 4]), after=len(line) > KEPT // 4)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _read_block(fd: int) -> bytes:
    """The first block, as much as there is of it."""
    parts, length = [], 0
    while length < _BLOCK and (part := os.read(fd, _BLOCK - length)):
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def path_order(path: str) -> list[bytes]:
    """Sort key of a path: name by name, as bytes."""
    return [os.fsencode(name) for name in path.split("/")]


def _compile_pattern(query: Query) -> regex.Pattern[str]:
    checked = query.regex()
    flags = regex.V1 | regex.MULTILINE | (regex.IGNORECASE if query.ignore_case else 0)
    flags |= regex.DOTALL if query.multiline else 0
    if checked is None:
        return regex.compile(regex.escape(query.pattern), flags)
    if checked.lacking:
        raise bad_pattern(query.pattern, f"{checked.lacking} need ripgrep, which is not installed")
    try:
        return regex.compile("(?-f)" + checked.text, flags)
    except (regex.error, OverflowError, RecursionError) as error:
        raise bad_pattern(query.pattern, str(error)) from None
