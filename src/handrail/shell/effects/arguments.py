"""Types of effects, and what is known about a command before it runs: its arguments, and the directory it runs in.

Arguments are texts, patterns, homes and variables. `cd` is followed through a script as a set of possible directories:
it may fail, and what follows then runs where it was before; only `&&`, `|| exit` and `set -e` rule that out. So a
command behind `cd a;` counts for both places. Subshells keep their `cd` to themselves.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from handrail.frozen import frozen
from handrail.shell.parser.script import Assignment, Command, Script, Word

_VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_SPLITS = re.compile(r"[\s*?\[\\]")
_PATTERN = re.compile(r"[*?\[\\]")
_SETTERS = (
    *("read", "mapfile", "readarray", "getopts", "printf", "declare", "typeset", "local", "export", "readonly"),
    *("((", "let", "eval", "unset", "wait"),
)
_MOST_VALUES = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

CommandTier = Literal["read_only", "ordinary", "destructive"]
FileAction = Literal["read", "write", "delete"]
Visibility = Literal["contents", "names", "unhidden"]
"""How much a command shows of a file that it reads."""
Links = Literal["", "files", "all"]


@frozen
class FileEffect:
    """A file that a command would read, write or delete.

    The path is as bash sees it, relative to the directory that the whole command line starts in. One that begins with
    `~` is below a home directory; a file whose own name begins so is given as `./~name`.
    """

    action: FileAction
    path: str
    glob: bool = False
    """The path is a pattern of the shell; its fixed characters are escaped with a backslash where needed."""
    below: bool = False
    """If it is a directory, everything below it is meant too."""
    into: str = ""
    """If it is a directory, the file of this name in it is meant."""
    sees: Visibility = field(default="contents", compare=False)
    """How much of it is shown, if it is read."""
    how: Literal["", "moved"] = ""
    """`moved`: it is deleted here because it is moved to a place beside."""
    links: Links = field(default="", compare=False)
    """Which links below it are followed, if it is read: those to files, or those to directories as well."""
    """Names below it become arguments of the command, each as a whole, or in words as `xargs` splits them."""


@frozen
class Ruling:
    """The judgement of one simple command. Paths are relative to the directory that it runs in."""

    tier: CommandTier = "ordinary"
    why: str = ""
    doubt: str = ""
    files: tuple[FileEffect, ...] = ()


READ_ONLY = Ruling("read_only")


@frozen
class Value:
    """One text that an argument may be."""

    text: str
    glob: bool = False
    home: bool = False
    below: bool = False
    """Files below it are meant, which `find` or `xargs` names."""
    links: Links = ""

    def file(self, action: FileAction, *, below: bool = False, into: str = "") -> FileEffect:
        path = self.text if self.home or not self.text.startswith("~") else "./" + self.text
        links: Links = "all" if self.below and below else self.links
        return FileEffect(action, path, self.glob, below or self.below, into, links=links)


@frozen
class Arg:
    """One argument. `values` is None where only a running shell knows it."""

    source: str
    values: tuple[Value, ...] | None
    loose: bool = False
    """It may turn out to be an option, or several words."""

    @property
    def text(self) -> str | None:
        """The one fixed text that it is."""
        if self.values is not None and len(self.values) == 1 and not (self.values[0].glob or self.values[0].home):
            return self.values[0].text if not self.values[0].below else None
        return None

    def files(self, action: FileAction, *, below: bool = False, into: str = "") -> list[FileEffect]:
        return [value.file(action, below=below, into=into) for value in self.values or () if value.text]


def mark_moved(gone: Sequence[FileEffect], target: Arg | None) -> list[FileEffect]:
    """The sources of a move. They are not lost if the target is known, and below the directory of the command."""
    values = (target.values or ()) if target else ()
    beside = bool(values) and all(
        not value.glob and not value.text.startswith(("/", "~")) and ".." not in value.text.split("/")
        for value in values
    )
    return [replace(effect, how="moved") for effect in gone] if beside else list(gone)


Values = Mapping[str, tuple[Value, ...]]


def make_arguments(words: Sequence[Word], variables: Values, inputs: tuple[Value, ...] | None) -> list[Arg]:
    """The arguments that these words are. `inputs` are the words that `find` or `xargs` puts in, if they are known."""
    return [make_argument(word, variables, inputs) for word in words]


def make_argument(word: Word, variables: Values, inputs: tuple[Value, ...] | None = None) -> Arg:
    fixed = word.fixed
    if fixed is not None:
        return Arg(word.source, (Value(fixed),))
    if word.holds == ("process",) and len(word.parts) == 1:
        return Arg(word.source, ())  # a pipe, and no file
    if word.holds == ("input",):
        return Arg(word.source, inputs if len(word.parts) == 1 else None, loose=True)
    if word.holds == ("glob",):
        pattern = word.pattern or ""
        return Arg(word.source, (Value(pattern, glob=True),), loose=pattern[:1] in "*?[-")
    value = _put_in(word, variables)
    if value is not None:
        return value
    first = word.parts[0]
    begins = first.text if first.kind == "text" else ""
    return Arg(word.source, None, loose=word.splits or begins[:1] in ("", "-"))


def _put_in(word: Word, variables: Values) -> Arg | None:
    """A word with variables of known values, a home or a pattern in it; None if something else is."""
    rows = [Value("")]
    loose = patterns = False
    for part in word.parts:
        pieces: Sequence[Value]
        first = not any(row.text for row in rows)
        if part.kind == "text":
            pieces = (Value(part.text),)
        elif part.kind == "glob":
            pieces, patterns = (Value(part.text, glob=True),), True
        elif part.kind == "tilde" and first and part.text not in ("~+", "~-"):
            pieces = (Value(part.text, home=True),)
        elif part.kind == "variable" and (match := _VARIABLE.fullmatch(part.text)):
            name = match[1] or match[2]
            if name == "HOME" and name not in variables and first:
                pieces = (Value("~", home=True),)
            elif name == "PWD" and name not in variables and first:
                pieces = (Value("."),)
            elif name in variables:
                pieces = variables[name]
                if not part.quoted and any(value.glob or _SPLITS.search(value.text) for value in pieces):
                    if not all(value.glob for value in pieces):
                        return None
                    loose = True
            else:
                return None
        else:
            return None
        if len(rows) * len(pieces) > _MOST_VALUES:
            return None
        rows = [_join_values(left, right) for left in rows for right in pieces]
    if patterns and not all(row.glob for row in rows):
        return None
    loose = loose or any(row.text[:1] == "-" or (row.glob and row.text[:1] in "*?[-") for row in rows)
    return Arg(word.source, tuple(dict.fromkeys(rows)), loose)


def _join_values(left: Value, right: Value) -> Value:
    if not left.glob and not right.glob:
        return Value(left.text + right.text, home=left.home or right.home)
    texts = [side.text if side.glob else _PATTERN.sub(r"\\\g<0>", side.text) for side in (left, right)]
    return Value("".join(texts), glob=True, home=left.home or right.home)


@dataclass(slots=True)
class Variables:
    """The values that variables may hold. Every value that the script gives one anywhere counts, from the first on."""

    every: dict[str, tuple[Value, ...]]
    known: dict[str, tuple[Value, ...]] = field(default_factory=dict)
    """Values of variables that have been set so far."""

    @classmethod
    def of(cls, script: Script) -> Variables:
        lost = {"IFS", *script.elsewhere}
        every: dict[str, tuple[Value, ...]] = {}
        for run in script.runs:
            if run.base in _SETTERS:
                for word in run.words[1:]:
                    lost.update(_NAME.findall("".join(part.text for part in word.parts)))
            for item in run.assignments:
                values = _read_assigned(item, run)
                if values is None:
                    lost.add(item.name)
                else:
                    every[item.name] = tuple(dict.fromkeys((*every.get(item.name, ()), *values)))
        if _changes_splitting(script):
            return cls({})
        return cls({name: values for name, values in every.items() if name not in lost and len(values) <= _MOST_VALUES})

    def see(self, run: Command) -> None:
        """Take in the assignments of a command without words."""
        if not run.words:
            self.known.update((item.name, self.every[item.name]) for item in run.assignments if item.name in self.every)


def _changes_splitting(script: Script) -> bool:
    """Whether words are split in another way than usual, so that expansions without quotes are not known."""
    set_here = any(item.name == "IFS" for run in script.runs if not run.words for item in run.assignments)
    return set_here or "IFS" in script.elsewhere


def _read_assigned(item: Assignment, run: Command) -> list[Value] | None:
    if item.adds or (item.array and run.within[-1:] != ("for",)):
        return None
    out: list[Value] = []
    for word in item.values:
        values = make_argument(word, {}).values
        if values is None:
            return None
        out.extend(values)
    return out


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


@dataclass(slots=True)
class Directories:
    """Follows the directory through the commands of a script, given one by one in their order."""

    source: str
    runs: tuple[Command, ...]
    shells: dict[Key, _Shell] = field(default_factory=dict)
    seen: Places = _START

    def of(self, index: int) -> Places:
        """Where the command of this number runs."""
        run = self.runs[index]
        shell = self._get_shell(run)
        if shell.else_places != frozenset() and not self._follows(shell.last, run):
            shell.places, shell.else_places = _join_places(shell.places, shell.else_places), frozenset()
        return shell.places

    def go(self, index: int, target: Arg | None) -> None:
        """A `cd` to this argument; None is one that leads to where the script has been before."""
        run = self.runs[index]
        shell = self._get_shell(run)
        before = _join_places(shell.places, shell.else_places)
        shell.places = self._move(shell.places, target)
        if any(kind in _LOOPS for kind in run.within) and target is not None:
            shell.places = shell.places if _is_all_fixed(target) else None
        shell.else_places, shell.last = before, run
        self.seen = _join_places(self.seen, shell.places)

    def _move(self, places: Places, target: Arg | None) -> Places:
        if target is None:
            return self.seen
        if target.values is None or places is None or any(value.glob or value.below for value in target.values):
            return None
        return frozenset(
            posixpath.normpath(join_path(place, value.file("read").path)) for place in places for value in target.values
        )

    def _get_shell(self, run: Command) -> _Shell:
        key = make_key(run)
        shell = self.shells.get(key)
        if shell is not None:
            same = not key or self._is_same_subshell(shell.last, run, key[-1])
            if same:
                return shell
            shell = None if same is False or shell.last is None else shell
        parent: Places = _START
        outer: _Shell | None = None
        for length in range(len(key)):
            outer = self.shells.get(key[:length], outer)
        if outer is not None:
            parent = outer.places if self._follows(outer.last, run) else _join_places(outer.places, outer.else_places)
        if shell is not None:
            # Another subshell, or the same one further on: both are possible.
            parent = _join_places(parent, _join_places(shell.places, shell.else_places))
        self.shells[key] = _Shell(parent, last=shell.last if shell is not None else None)
        return self.shells[key]

    def _find_operators_between(self, last: Command | None, run: Command) -> list[str] | None:
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

    def _is_same_subshell(self, last: Command | None, run: Command, kind: str) -> bool | None:
        """Whether two commands are in the same subshell, and not in two of the same kind; None if it is not known."""
        tokens = self._find_operators_between(last, run)
        if tokens is None or not set(tokens) <= _STRUCTURE:
            return None
        depth = 0
        for token in tokens:
            depth += {"(": 1, ")": -1}.get(token, 0)
            if depth < 0 or (depth == 0 and token == _ENDS.get(kind)):
                return False
        return True

    def _follows(self, last: Command | None, run: Command) -> bool:
        """Whether the one runs only if the other went well."""
        tokens = self._find_operators_between(last, run)
        return tokens is not None and bool(tokens) and all(token in _SURE for token in tokens)


def make_key(run: Command) -> Key:
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


def _join_places(one: Places, other: Places) -> Places:
    if one is None or other is None or len(one | other) > _MOST:
        return None
    return one | other


def _is_all_fixed(target: Arg) -> bool:
    return all(value.text.startswith("/") or value.home for value in target.values or ())
