"""Find the occurrences of a literal text or a regular expression, each with its replacement.

Every line ending counts as ``\\n`` in the pattern and in the replacement, and new lines take the ending of their
surroundings. A pattern with ``\\r`` means the endings literally. An occurrence is a span of the text as it is.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from handrail.errors import BadPattern, BadReplacement, EmptyMatch
from handrail.text import lines
from handrail.text.document import keep_endings

_RETURN = re.compile(r"\r|(?<!\\)(?:\\\\)*\\(?:r|x0[dD]|u000[dD])")
_REPEAT = re.compile(r"(\)?)\{(\d+)")
_VERBOSE = re.compile(r"\(\?[A-Za-z]*x")
"""A comment may part a repeat from its group."""
_MOST_STEPS = 50_000
"""Counted repeats are written out when a pattern is compiled, which cannot be stopped: more steps are refused."""
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Replace the characters ``start:end`` of a text by ``new``."""

    start: int
    end: int
    new: str
    line: int
    """The line it begins in, from 1."""


Spans = Iterator[tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class OccurrenceSearch:
    """A compiled pattern with its replacement."""

    spans: Callable[[str, float], Spans]
    """Where it is in a text, until a moment of the monotonic clock; raises `TimeoutError`."""
    as_they_are: bool
    """Whether line endings are meant literally."""

    def find(self, text: str, seconds: float) -> Iterator[Occurrence]:
        """The occurrences, in order and apart; raises `EmptyMatch`, and `TimeoutError` when the time is up."""
        deadline = time.monotonic() + seconds
        plain = self.as_they_are or "\r" not in text
        pairs = [] if plain else lines.find_pairs(text)
        ending = "\r\n" if len(pairs) == text.count("\r") == text.count("\n") else None  # None: several kinds
        line, counted = 1, 0
        for begin, stop, new in self.spans(text if plain else lines.to_feeds(text), deadline):
            start, end = begin + bisect_left(pairs, begin), stop + bisect_left(pairs, stop)
            here = start - 1 if text[start - 1 : start + 1] == "\r\n" and start else start  # count no half endings
            line += lines.count_ends(text[counted:here])
            counted = here
            if begin >= stop:
                raise EmptyMatch(line=line)
            if "\n" in new and not plain:
                new = keep_endings(text, start, end, new) if ending is None else new.replace("\n", ending)
            if time.monotonic() > deadline:
                raise TimeoutError
            yield Occurrence(start, end, new, line)


def compile_search(
    pattern: str, replacement: str, *, regex: bool = False, ignore_case: bool = False, whole_words: bool = False
) -> OccurrenceSearch:
    """Compile a pattern; raises `BadPattern` and `BadReplacement`."""
    if not regex:
        as_they_are = "\r" in pattern or "\r" in replacement
        if not (ignore_case or whole_words):
            size = len(pattern)
            return OccurrenceSearch(
                lambda text, _: ((at, at + size, replacement) for at in lines.find_all(text, pattern)), as_they_are
            )
        compiled = _compile(re.escape(pattern), ignore_case, whole_words)
        return OccurrenceSearch(
            lambda text, until: _find_matches(compiled, lambda _: replacement, text, until), as_they_are
        )
    as_they_are = bool(_RETURN.search(pattern) or _RETURN.search(replacement))
    if _count_steps(pattern) > _MOST_STEPS:
        raise BadPattern(pattern=pattern[:_SHOWN], why="its counted repetitions take too many steps")
    compiled = _compile(pattern, ignore_case, whole_words)
    new = _make_expander(compiled, replacement)
    return OccurrenceSearch(lambda text, until: _find_matches(compiled, new, text, until), as_they_are)


def _find_matches(compiled: Any, new: Callable[[Any], str], text: str, until: float) -> Spans:
    position = 0
    # One search at a time: the timeout of an iterator begins anew with every match.
    while match := compiled.search(text, position, timeout=max(0.0, until - time.monotonic())):
        start, position = match.span()
        yield start, position, new(match)


def _compile(pattern: str, ignore_case: bool, whole_words: bool) -> object:
    import regex  # type: ignore[import-untyped]  # slow to import, and most searches are for plain text

    flags = regex.MULTILINE | (regex.IGNORECASE if ignore_case else 0)
    try:
        compiled = regex.compile(pattern, flags)
        if whole_words:  # a comment at the end of a verbose pattern must not swallow the bracket
            end = "\n)" if compiled.flags & regex.VERBOSE else ")"
            compiled = regex.compile(rf"(?<!\w)(?:{pattern}{end}(?!\w)", flags)
    except regex.error as error:
        raise BadPattern(pattern=pattern[:_SHOWN], why=error.msg, position=error.pos) from None
    except RecursionError:
        raise BadPattern(pattern=pattern[:_SHOWN], why="it is nested too deeply") from None
    except (ValueError, IndexError, OverflowError) as error:  # what the library does not call an error of its own
        raise BadPattern(pattern=pattern[:_SHOWN], why=str(error)) from None
    if compiled.flags & regex.REVERSE:
        raise BadPattern(pattern=pattern[:_SHOWN], why="reverse search (?r) is not supported")
    return compiled


def _make_expander(compiled: Any, replacement: str) -> Callable[[Any], str]:
    """The replacement for a match, its groups filled in; raises `BadReplacement`, here or when a match is there."""
    import regex

    def expand(fill: Callable[[], str]) -> str:
        try:
            return fill()
        except regex.error as error:
            raise BadReplacement(replacement=replacement[:_SHOWN], why=error.msg, position=error.pos) from None
        except (ValueError, IndexError, OverflowError) as error:  # such as a group that the pattern does not have
            raise BadReplacement(replacement=replacement[:_SHOWN], why=str(error)) from None

    expand(lambda: str(compiled.sub(replacement, "")))
    return lambda match: expand(lambda: str(match.expand(replacement)))


def _count_steps(pattern: str) -> int:
    """At most so many steps has a pattern once its counted repeats are written out: those of groups multiply all."""
    repeats = [(group, int(count[:9])) for group, count in _REPEAT.findall(pattern)]
    multiplied = repeats if _VERBOSE.search(pattern) else [repeat for repeat in repeats if repeat[0]]
    return (len(pattern) + sum(count for _, count in repeats)) * prod(max(1, count) for _, count in multiplied)


def show_window(text: str, occurrence: Occurrence, width: int) -> tuple[str, str]:
    """The line around an occurrence before and after, one line each, with no more than about ``width`` on each side."""
    near = text[max(0, occurrence.start - width - 1) : occurrence.start]  # never the whole line: it may be endless
    left = near[lines.start_of_line(near, len(near)) :]
    left = "…" + left[-width:] if len(left) > width else left
    near = text[occurrence.end : occurrence.end + width + 1]
    if text[occurrence.end - 1] in "\r\n":
        near = ""  # its ending belongs to it: the line does not go on
    right = lines.strip_ending(near[: lines.end_of_line(near, 0)])
    right = right[:width] + "…" if len(right) > width else right
    before, after = (
        left + shorten(part, 2 * width) + right for part in (text[occurrence.start : occurrence.end], occurrence.new)
    )
    return mark_line_ends(before), mark_line_ends(after)


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]}…{text[len(text) - half :]}"


def mark_line_ends(text: str) -> str:
    """Replace the line endings of a text by visible signs."""
    return lines.to_feeds(text).replace("\n", "⏎")
