"""Types of effects, and the arguments of a command as far as they are known: texts, patterns, homes, variables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from handrail.shell.parser.script import Assignment, Command, Script
from handrail.shell.parser.words import Word

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Ruling:
    """The judgement of one simple command. Paths are relative to the directory that it runs in."""

    tier: CommandTier = "ordinary"
    why: str = ""
    doubt: str = ""
    files: tuple[FileEffect, ...] = ()


READ_ONLY = Ruling("read_only")


@dataclass(frozen=True, slots=True)
class Value:
    """One text that an argument may be."""

    text: str
    glob: bool = False
    home: bool = False
    below: bool = False

    def file(self, action: FileAction, *, below: bool = False, into: str = "") -> FileEffect:
        path = self.text if self.home or not self.text.startswith("~") else "./" + self.text
        return FileEffect(action, path, self.glob, below or self.below, into)


@dataclass(frozen=True, slots=True)
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


Values = Mapping[str, tuple[Value, ...]]


def arguments(words: Sequence[Word], variables: Values, inputs: tuple[Value, ...] | None) -> list[Arg]:
    """The arguments that these words are. `inputs` are the words that `find` or `xargs` puts in, if they are known."""
    return [argument(word, variables, inputs) for word in words]


def argument(word: Word, variables: Values, inputs: tuple[Value, ...] | None = None) -> Arg:
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
    found = _put_in(word, variables)
    if found is not None:
        return found
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
        elif part.kind == "variable" and (found := _VARIABLE.fullmatch(part.text)):
            name = found[1] or found[2]
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
        rows = [_joined(left, right) for left in rows for right in pieces]
    if patterns and not all(row.glob for row in rows):
        return None
    loose = loose or any(row.text[:1] == "-" or (row.glob and row.text[:1] in "*?[-") for row in rows)
    return Arg(word.source, tuple(dict.fromkeys(rows)), loose)


def _joined(left: Value, right: Value) -> Value:
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
                values = _assigned(item, run)
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


def _assigned(item: Assignment, run: Command) -> list[Value] | None:
    if item.adds or (item.array and run.within[-1:] != ("for",)):
        return None
    out: list[Value] = []
    for word in item.values:
        values = argument(word, {}).values
        if values is None:
            return None
        out.extend(values)
    return out
