"""Every way in which a command sets a variable: one list, which all checks go by.

`name=value` is only one of them. `read`, `printf -v`, `for`, `{name}<file`, `wait -p`, `unset` and others set variables
too; whatever may be a name among their words counts as one. What `${name:=x}` sets is noted where it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from handrail.shell.parser.expansions import COUNT, ELEMENT, EVALUATES, INTEGER, NUMERIC
from handrail.shell.parser.script import DECLARES, Command, Word

_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[0-9]+\])?\+?=")
_NAMES_VARIABLES = ("read", "mapfile", "readarray", "getopts", "unset", "wait")
_FORMAT_SETS = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
_UNSETS = re.compile(r"(?:-[i0v]*u|--unset=?)(.*)", re.DOTALL)


class Assignments(NamedTuple):
    """The variables that a command sets, and doubts."""

    direct: tuple[str, ...]
    """By `name=value`."""
    indirect: tuple[str, ...]
    doubts: tuple[str, ...]
    arrays: frozenset[str]
    lists: frozenset[str]
    """Declared with a computed value, which bash expands if the variable is an array."""


def find_assignments(run: Command) -> Assignments:
    """All that a command sets."""
    named = _Words(run.base or "")
    named.arrays.update(item.name for item in run.assignments if item.array and run.within[-1:] != ("for",))
    held = [item.descriptor.strip("{}") for item in run.redirections if item.descriptor.startswith("{")]
    indirect = (*held, *named.find(run.words[1:], wrapped=bool(run.via)))
    texts = [(item.name, value.fixed) for item in run.assignments for value in item.values]
    if any(NUMERIC.fullmatch(name) for name in indirect) or any(
        NUMERIC.fullmatch(name) and (text is None or not INTEGER.fullmatch(text)) for name, text in texts
    ):
        named.doubts.append(EVALUATES)
    direct = tuple(item.name for item in run.assignments)
    return Assignments(direct, indirect, tuple(named.doubts), frozenset(named.arrays), frozenset(named.lists))


class _Words:
    """Looks for variables in the words of one command."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.doubts: list[str] = []
        self.arrays: set[str] = set()
        self.lists: set[str] = set()

    def find(self, words: Sequence[Word], *, wrapped: bool) -> Iterator[str]:
        if self.base in DECLARES:
            yield from self._list_declared(words, wrapped)
        elif self.base in _NAMES_VARIABLES:
            yield from self._list_named(words)
        elif self.base == "printf":
            yield from self._list_printed(words)
        elif self.base == "env":
            for word, after in pairwise((*words, None)):
                if word and (match := _UNSETS.fullmatch(word.fixed or "")):
                    yield match[1] or (after.fixed if after else "") or "PATH"
        elif self.base == "let":
            self.doubts.append(EVALUATES)
        elif self.base in ("test", "[", "[["):
            self._check_test(words)

    def _list_named(self, words: Sequence[Word]) -> Iterator[str]:
        """Every word that may be the name of a variable, and what stands right behind the letters of an option."""
        for word in words:
            text = word.fixed
            if text is None and not COUNT.fullmatch(word.source.strip('"')):
                self.doubts.append(f"the name of a variable that {self.base} sets is computed")
            elif text and "[" in text and not ELEMENT.fullmatch(text):
                self.doubts.append(EVALUATES)
            elif text and text[0] == "-":
                yield from (text[at:] for at in range(2, len(text)))
            elif text and (element := ELEMENT.fullmatch(text)):
                yield element[1]

    def _list_declared(self, words: Sequence[Word], wrapped: bool) -> Iterator[str]:
        """`declare` and its like; only where the shell sees `name=` by itself, the value is not split into words."""
        letters = "".join(word.fixed[1:] for word in words if word.fixed and word.fixed[0] in "-+")
        if "n" in letters and self.base != "export":
            self.doubts.append(f"{self.base} gives a variable another name")
        if "i" in letters:
            self.doubts.append(EVALUATES)
        for word in words:
            if word.fixed is not None and word.fixed[:1] in ("-", "+"):
                continue
            if word.splits and (wrapped or word.parts[0].quoted or any(p.quoted and "@" in p.text for p in word.parts)):
                self.doubts.append(f"{self.base} may set more variables than are named")
            named = _DECLARED.match(_get_leading_text(word))
            if named is None:
                yield from self._list_named([word])
                continue
            if "a" in letters or "A" in letters:
                self.arrays.add(named[1])
            if word.fixed is None:
                self.lists.add(named[1])
            elif word.fixed[named.end() :].lstrip().startswith("("):
                self.doubts.append(f"{self.base} expands a list that is quoted")
            yield named[1]

    def _list_printed(self, words: Sequence[Word]) -> Iterator[str]:
        """`printf -v name`; `%n` sets the variable that an argument names."""
        first = words[0].fixed or "" if words else ""
        at = 1 if first == "--" or first[2:] else 2
        if first.startswith("-v"):
            yield from self._list_named(words[:at])
        elif first != "--":
            at = 0
        for word in words[at : at + 1]:
            several = word.splits or len(words) > at + 1 or not _get_leading_text(word).strip("-")
            text = word.fixed or ""
            sets = _FORMAT_SETS.search(text.replace("%%", "")) or (first != "--" and text[:1] == "-")
            if sets or (word.fixed is None and several):
                self.doubts.append("the name of a variable that printf sets is computed")

    def _check_test(self, words: Sequence[Word]) -> None:
        """`-v` and `-R` evaluate a subscript in their operand; an operator may be computed, but not in `[[`."""
        for word, after in pairwise((*words, None)):
            operator = word and (word.bare if self.base == "[[" else word.fixed)
            if operator in ("-v", "-R") and after and not ELEMENT.fullmatch(after.fixed or "?"):
                self.doubts.append(EVALUATES)
            elif self.base == "[[" or word is None or word.fixed is not None:
                continue
            elif (word.splits and not COUNT.fullmatch(word.source)) or (
                after and (after.fixed is None or "[" in after.fixed)
            ):
                self.doubts.append(f"an operator of {self.base} is computed")


def _get_leading_text(word: Word) -> str:
    """The fixed text that a word begins with."""
    if word.fixed is not None:
        return word.fixed
    return word.parts[0].text if word.parts and word.parts[0].kind == "text" else ""
