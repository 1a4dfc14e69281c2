"""Globs: `*` and `?` inside one name, `[...]` one character, `{a,b}` either, `**` across directories.

A pattern is matched name by name on the way down a tree: `begin` holds the positions in the pattern where the walk
starts, `enter` returns those that remain below a directory, `last` the expression that a final name must match. A
directory without positions need not be walked. A leading dot is matched only by a pattern with that dot, unless hidden
names are wanted. Expressions are compiled when they are first matched: of many rules a session matches few.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

_MOST = 1000
_LONGEST_CLASS = 256
_MAGIC = re.compile(r"[*?\[{\\]")

Places = frozenset[tuple[int, int]]
"""Positions in the alternatives of a pattern: which alternative, and which of its names comes next."""


_NOWHERE: Places = frozenset()


class BadGlob(ValueError):
    """A pattern that cannot be understood, and why."""


class Glob:
    """A pattern for paths below one directory."""

    def __init__(self, pattern: str, *, hidden: bool = False, ignore_case: bool = False) -> None:
        self.pattern = pattern
        self.ignore_case = ignore_case
        alternatives = [_split_names(alternative) for alternative in expand_braces(pattern)]
        self._names = [
            [_ANY if name == "**" else translate_name(name, hidden) for name in names] for names in alternatives
        ]
        self.says_hidden = any(name.startswith(".") for names in alternatives for name in names)
        """Whether a name in the pattern begins with a dot: hidden directories are to be entered."""
        self.hidden = hidden
        self._compiled: dict[str, re.Pattern[str]] = {}
        self._anywhere: dict[Places, Places] = {}
        """The places below any directory whose name has no leading dot, where no name is spelled; else empty."""
        self._finals: dict[Places, re.Pattern[str] | None] = {}
        self.begin: Places = self._skip_any((number, 0) for number in range(len(self._names)))

    def _skip_any(self, places: Iterable[tuple[int, int]]) -> Places:
        """With the places behind a `**`, which may stand for nothing."""
        states: set[tuple[int, int]] = set()
        for number, at in places:
            states.add((number, at))
            while at < len(self._names[number]) and self._names[number][at] == _ANY:
                at += 1
                states.add((number, at))
        return frozenset(states)

    def enter(self, places: Places, name: str) -> Places:
        """The places below the directory ``name``; none: nothing down there can match."""
        anywhere = self._anywhere.get(places)
        if anywhere is None:
            spelled = any(at + 1 < len(names := self._names[number]) and names[at] != _ANY for number, at in places)
            anywhere = self._anywhere[places] = _NOWHERE if spelled else self._enter(places, "a")
        if anywhere and not name.startswith("."):
            return anywhere
        return self._enter(places, name)

    def _enter(self, places: Places, name: str) -> Places:
        following: list[tuple[int, int]] = []
        for number, at in places:
            names = self._names[number]
            if at >= len(names):
                continue
            if names[at] == _ANY:
                if self.hidden or not name.startswith("."):
                    following.append((number, at))
            elif at + 1 < len(names) and self._compile(names[at]).match(name):
                following.append((number, at + 1))
        return self._skip_any(following)

    def directory_expressions(self, places: Places) -> list[str]:
        """Match the name of every directory that the pattern spells here.

        Below a directory that none of them matches, only the places of `**` remain.
        """
        names = (self._names[number][at : at + 2] for number, at in sorted(places))
        return list(dict.fromkeys(pair[0] for pair in names if len(pair) == 2 and pair[0] != _ANY))

    def _compile(self, expression: str) -> re.Pattern[str]:
        try:
            return self._compiled[expression]
        except KeyError:
            compiled = self._compiled[expression] = re.compile(expression, re.IGNORECASE if self.ignore_case else 0)
            return compiled

    def last(self, places: Places) -> re.Pattern[str] | None:
        """What a name here must match to be what the pattern asks for; None: none is."""
        try:
            return self._finals[places]
        except KeyError:
            expression = self.last_expression(places)
            final = self._finals[places] = None if expression is None else self._compile(expression)
            return final

    def last_expression(self, places: Places) -> str | None:
        """The text of `last`, which is not compiled for it."""
        return "|".join(self.last_expressions(places)) or None

    def last_expressions(self, places: Places) -> list[str]:
        """The alternatives of `last_expression`."""
        last: list[str] = []
        for number, at in sorted(places):
            names = self._names[number]
            if at == len(names) - 1 and names[at] != _ANY:
                last.append(names[at])
            elif at < len(names) and all(name == _ANY for name in names[at:]):
                last.append(translate_name("*", self.hidden))
        return list(dict.fromkeys(last))

    def match(self, path: str) -> bool:
        """Whether a whole path, names parted by slashes, is matched."""
        *above, name = path.split("/")
        places = self.begin
        for directory in above:
            places = self.enter(places, directory)
        last = self.last(places)
        return last is not None and last.match(name) is not None


_ANY = ""
"""Stands for `**`, any number of directories."""


@lru_cache(256)
def compile_glob(pattern: str, hidden: bool = False, ignore_case: bool = False) -> Glob:
    """Compile a pattern that somebody has written, and check it; results are cached."""
    check_glob(pattern)
    return Glob(pattern, hidden=hidden, ignore_case=ignore_case)


def compile_filter(pattern: str) -> tuple[Glob, bool]:
    """Compile a filter of a search, and return whether it excludes (a leading `!`).

    A pattern without a slash matches names at any depth.
    """
    out = pattern.startswith("!")
    pattern = pattern[1:] if out else pattern
    has_directory = "/" in pattern.rstrip("/")
    pattern = pattern.strip("/")
    return compile_glob(pattern if has_directory else "**/" + pattern, hidden=True), out


def get_fixed_part(pattern: str) -> str:
    """The directories at the beginning of a pattern that are spelled out."""
    fixed: list[str] = []
    for name in pattern.split("/")[:-1]:
        if _MAGIC.search(name) or name in ("", ".", ".."):
            break
        fixed.append(name)
    return "/".join(fixed)


def expand_braces(pattern: str) -> list[str]:
    """The alternatives of a pattern: `{a,b}` spelled out, inner ones too. A brace without a partner is a brace."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(waiting) + len(done) > _MOST:
            raise BadGlob(f"it expands to more than {_MOST} patterns")
        current = waiting.pop()
        brace = _find_brace(current)
        if brace is None:
            done.append(current)
            continue
        start, end, commas = brace
        cuts = [start, *commas, end]
        parts = [current[a + 1 : b] for a, b in pairwise(cuts)]
        waiting += [current[:start] + part + current[end + 1 :] for part in reversed(parts)]
    return list(dict.fromkeys(done))


def _find_brace(pattern: str) -> tuple[int, int, list[int]] | None:
    """The first `{...}`: where it begins and ends, and its own commas."""
    opened: list[tuple[int, list[int]]] = []
    open_braces: list[tuple[int, int, list[int]]] = []
    for at, char, _ in _scan(pattern) if "{" in pattern else ():
        if char == "{":
            opened.append((at, []))
        elif char == "," and opened:
            opened[-1][1].append(at)
        elif char == "}" and opened:
            start, commas = opened.pop()
            open_braces.append((start, at, commas))
    return min(open_braces) if open_braces else None


def _scan(pattern: str) -> Iterator[tuple[int, str, CharacterClass | None]]:
    """The signs of a pattern with their places, each class as one; what a backslash escapes goes with that."""
    at = 0
    while at < len(pattern):
        char = pattern[at]
        parsed = parse_class(pattern, at) if char == "[" else None
        yield at, char, parsed
        at = parsed.end + 1 if parsed else at + 1 + (char == "\\")


def _split_names(pattern: str) -> list[str]:
    if "\0" in pattern:
        raise BadGlob("it contains a NUL character")
    names = [name for name in pattern.split("/") if name not in ("", ".")]
    if ".." in names:
        raise BadGlob("`..` leaves the searched directory; set path to the other directory")
    if not names:
        raise BadGlob("it is empty")
    return names


@lru_cache(1024)
def translate_name(name: str, hidden: bool) -> str:
    """One name of a pattern as an expression.

    What stands between two stars is taken where it comes first, and never elsewhere: that finds all there is to find,
    and a name of many stars costs no more than its length.
    """
    parts: list[list[str]] = [[]]
    for at, char, parsed in _scan(name):
        if char == "*":
            if len(parts) == 1 or parts[-1]:
                parts.append([])
        elif char == "?":
            parts[-1].append(".")
        elif parsed:
            parts[-1].append(parsed.expression)
        else:
            escaped = name[at + 1 : at + 2] if char == "\\" else ""
            parts[-1].append(re.escape(escaped or char))
    first, *middle = ["".join(part) for part in parts]
    last = ".*" + middle.pop() if middle else ""
    body = first + "".join(f"(?>.*?{part})" for part in middle) + last
    wild = name[:1] in ("*", "?", "[")
    return rf"(?s:(?!\.){body})\Z" if wild and not hidden else rf"(?s:{body})\Z"


_NAMED = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class CharacterClass(NamedTuple):
    """A `[...]` of a pattern."""

    end: int
    """Where its `]` stands."""
    expression: str
    problem: str
    """What is wrong with it, if anything is."""


def parse_class(text: str, start: int) -> CharacterClass | None:
    """Parse the class whose `[` stands at ``start``, as git does; None if it is not closed.

    A `]` right behind the `[` belongs to it, a backslash escapes, `[:alpha:]` stands for letters.
    """
    at = start + 1
    negated = text[at : at + 1] in ("!", "^")
    first = at = at + negated
    parts: list[str] = []
    previous = problem = ""
    most = min(len(text), start + _LONGEST_CLASS)
    while at < most and text[at] != "/":
        if text[at] == "]" and at > first:
            known = "" if "(?!)" in parts else "".join(parts)
            expression = f"[{'^' if negated else ''}{known}]" if known else "(?!)"
            return CharacterClass(at, expression, problem)
        name_end = text.find("]", at + 2) if text.startswith("[:", at) else -1
        if name_end > at + 2 and text[name_end - 1] == ":":
            name = text[at + 2 : name_end - 1]
            if name not in _NAMED:
                problem = f"[:{name}:] is not known"
            parts.append(_NAMED.get(name, "(?!)"))
            previous, at = "", name_end + 1
            continue
        is_range = text[at] == "-" and previous and text[at + 1 : at + 2] not in ("]", "")
        at += bool(is_range)
        at += text[at] == "\\"
        char = text[at : at + 1]
        at += 1
        if is_range:
            if previous <= char:
                parts.append(f"{re.escape(previous)}-{re.escape(char)}")
            else:
                problem = f"the range {previous}-{char} is the wrong way round"
            previous = ""
        else:
            parts.append(re.escape(char))
            previous = char
    return None


def check_glob(pattern: str) -> None:
    """Raise `BadGlob` for a pattern that is not well-formed, which would match nothing or something unexpected."""
    depth = 0
    for at, char, parsed in _scan(pattern):
        if char == "\\" and at + 1 == len(pattern):
            raise BadGlob("it ends in a backslash, which escapes nothing")
        if char == "[" and parsed is None:
            raise BadGlob("a `[` is not closed; write `\\[` for the character")
        if parsed and parsed.problem:
            raise BadGlob(parsed.problem)
        depth += (char == "{") - (char == "}")
        if depth < 0:
            raise BadGlob("a `}` closes nothing; write `\\}` for the character")
    if depth:
        raise BadGlob("a `{` is not closed; write `\\{` for the character")
