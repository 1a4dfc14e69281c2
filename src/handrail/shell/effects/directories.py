"""Where commands run: `cd` followed through a script, as a set of the directories that are possible.

A `cd` may fail, and what follows then runs where it was before; only `&&`, `|| exit` and `set -e` rule that out. So a
command behind `cd a;` counts for both places. Subshells keep their `cd` to themselves.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from itertools import pairwise

from handrail.shell.effects.arguments import Arg
from handrail.shell.parser.script import Command

Places = frozenset[str] | None
"""Directories, relative to where the script starts; None if it cannot be told."""

_APART = ("subshell", "pipeline", "piped", "substitution", "process", "background", "coproc")
_LOOPS = ("for", "while")
_SAME_SHELL = ("builtin", "command", "eval")
_MOST = 8
_MOST_RUNS = 300
"""In longer scripts it is not looked at how commands are joined: every `cd` may have failed."""
_TOKENS = re.compile(r"&&|\|\||[^\s]")
_SURE = frozenset(("&&", "|", "(", ")", "{", "!"))
_STRUCTURE = _SURE | {"||", ";", "}", "&", "$", '"'}
_ENDS = {"pipeline": "|", "piped": "|", "background": "&"}
"""The token that ends each of these, other than a parenthesis."""
_START: Places = frozenset((".",))

Key = tuple[str, ...]


@dataclass(slots=True)
class _Shell:
    """One shell of a script: where it is, and where it is if its last `cd` failed."""

    places: Places
    else_places: Places = frozenset()
    last: Command | None = None
    sure: Places = frozenset()
    """Where it is if that `cd` went well."""


@dataclass(slots=True)
class Directories:
    """Follows the directory through the commands of a script, given one by one in their order."""

    source: str
    runs: tuple[Command, ...]
    shells: dict[Key, _Shell] = field(default_factory=dict)
    strict: bool = False
    """`set -e`: a `cd` that fails ends the script."""
    seen: Places = _START

    def of(self, index: int) -> Places:
        """Where the command of this number runs."""
        run = self.runs[index]
        shell = self._shell(run)
        if shell.else_places != frozenset() and not (self.strict or self._follows(shell.last, run)):
            shell.sure = shell.places
            shell.places, shell.else_places = _both(shell.places, shell.else_places), frozenset()
        if run.base in ("exit", "return") and shell.sure != frozenset() and self._if_failed(shell.last, run):
            shell.places, shell.sure = shell.sure, frozenset()
        if run.base == "set" and any(re.fullmatch(r"-\w*e\w*", word.fixed or "") for word in run.words):
            self.strict = True
        return shell.places

    def go(self, index: int, target: Arg | None) -> None:
        """A `cd` to this argument; None is one that leads to where the script has been before."""
        run = self.runs[index]
        shell = self._shell(run)
        before = _both(shell.places, shell.else_places)
        shell.places = self._move(shell.places, target)
        if any(kind in _LOOPS for kind in run.within) and target is not None:
            shell.places = shell.places if _all_fixed(target) else None
        shell.else_places, shell.last, shell.sure = before, run, frozenset()
        self.seen = _both(self.seen, shell.places)

    def _move(self, places: Places, target: Arg | None) -> Places:
        if target is None:
            return self.seen
        if target.values is None or places is None or any(value.glob or value.below for value in target.values):
            return None
        return frozenset(
            posixpath.normpath(join_path(place, value.file("read").path)) for place in places for value in target.values
        )

    def _shell(self, run: Command) -> _Shell:
        key = key_of(run)
        found = self.shells.get(key)
        if found is not None:
            same = not key or self._same(found.last, run, key[-1])
            if same:
                return found
            found = None if same is False or found.last is None else found
        parent: Places = _START
        outer: _Shell | None = None
        for length in range(len(key)):
            outer = self.shells.get(key[:length], outer)
        if outer is not None:
            sure = self.strict or self._follows(outer.last, run)
            parent = outer.places if sure else _both(outer.places, outer.else_places)
        if found is not None:
            # Another subshell, or the same one further on: both are possible.
            parent = _both(parent, _both(found.places, found.else_places))
        self.shells[key] = _Shell(parent, last=found.last if found is not None else None)
        return self.shells[key]

    def _between(self, last: Command | None, run: Command) -> list[str] | None:
        """The operators between two commands of the outer text, other commands left out; None if not known."""
        if last is None or last.via or run.via or not last.where.end <= run.where.start:
            return None
        if len(self.runs) > _MOST_RUNS:
            return None
        text = list(self.source[last.where.end : run.where.start])
        for other in self.runs:
            if not other.via and last.where.end <= other.where.start and other.where.end <= run.where.start:
                start, end = (edge - last.where.end for edge in (other.where.start, other.where.end))
                text[start:end] = " " * (end - start)
        return _TOKENS.findall("".join(text))

    def _same(self, last: Command | None, run: Command, kind: str) -> bool | None:
        """Whether two commands are in the same subshell, and not in two of the same kind; None if it is not known."""
        tokens = self._between(last, run)
        if tokens is None or not set(tokens) <= _STRUCTURE:
            return None
        depth = 0
        for token in tokens:
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth < 0 or (depth == 0 and token == _ENDS.get(kind)):
                return False
        return True

    def _if_failed(self, last: Command | None, run: Command) -> bool:
        """Whether the one runs if the other failed: `cd x || exit`, `cd x || { echo no; exit; }`."""
        tokens = self._between(last, run) or [""]
        return tokens == ["||"] or (tokens[:2] == ["||", "{"] and set(tokens[2:]) <= {";"})

    def _follows(self, last: Command | None, run: Command) -> bool:
        """Whether the one runs only if the other went well."""
        tokens = self._between(last, run)
        return tokens is not None and bool(tokens) and all(token in _SURE for token in tokens)


def key_of(run: Command) -> Key:
    """The key of the shell that a command runs in."""
    via = tuple(name for name in run.via if name not in _SAME_SHELL)
    kinds = [kind for kind in run.within if kind in _APART]
    # The first part of a pipeline and those behind it are side by side, not one in the other.
    return (*via, *(kind for kind, after in pairwise([*kinds, ""]) if after != "piped"))


def join_path(place: str, path: str) -> str:
    """A path as it is seen from where the script starts."""
    if path.startswith(("/", "~")) or place == ".":
        return path
    return place if path == "." else posixpath.join(place, path)


def _both(one: Places, other: Places) -> Places:
    if one is None or other is None or len(one | other) > _MOST:
        return None
    return one | other


def _all_fixed(target: Arg) -> bool:
    return all(value.text.startswith("/") or value.home for value in target.values or ())
