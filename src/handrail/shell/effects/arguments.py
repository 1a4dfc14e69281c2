"""Types of effects, and what is known about a command before it runs: its arguments, and the directory it runs in.

An argument is a text, a pattern or a path below the home. Variables are not followed: what they hold is not known.
A `cd` may fail, or stand in a subshell that has ended: unless `&&` rules that out, every later path counts from both
places.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from typing import Literal

from handrail.frozen import frozen
from handrail.shell.parser.script import Command, Word

_PATTERN = re.compile(r"[*?\[\\]")
_HOME = ("$HOME", "${HOME}")
_HERE = ("$PWD", "${PWD}")

CommandTier = Literal["read_only", "ordinary", "destructive"]
FileAction = Literal["read", "write", "delete"]
Visibility = Literal["contents", "names", "unhidden"]
"""How much a command shows of a file that it reads."""


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
    """Includes everything below, if it is a directory."""
    sees: Visibility = field(default="contents", compare=False)
    """How much of it is shown, if it is read."""


@frozen
class Ruling:
    """The judgement of one simple command. Paths are relative to the directory that it runs in."""

    tier: CommandTier = "ordinary"
    why: str = ""
    doubt: str = ""
    files: tuple[FileEffect, ...] = ()


READ_ONLY = Ruling("read_only")
COMPUTED_NAMES = "file names come from variables or substitutions"


@frozen
class Value:
    """The text of an argument."""

    text: str
    glob: bool = False
    home: bool = False

    def file(self, action: FileAction, *, below: bool = False) -> FileEffect:
        path = self.text if self.home or not self.text.startswith("~") else "./" + self.text
        return FileEffect(action, path, self.glob, below)


@frozen
class Arg:
    """One argument. `values` is None where only a running shell knows it, and empty where it is no file."""

    source: str
    values: tuple[Value, ...] | None
    loose: bool = False
    """It may turn out to be an option, or several words."""

    @property
    def text(self) -> str | None:
        """The fixed text that it is."""
        if self.values and not (self.values[0].glob or self.values[0].home):
            return self.values[0].text
        return None

    def files(self, action: FileAction, *, below: bool = False) -> list[FileEffect]:
        return [value.file(action, below=below) for value in self.values or () if value.text]


def make_argument(word: Word) -> Arg:
    """The argument that a word is, as far as it is fixed."""
    if word.holds == ("process",) and len(word.parts) == 1:
        return Arg(word.source, ())  # a pipe, and no file
    value = _read_parts(word)
    if value is not None:
        may_be_option = value.glob and value.text[:1] in "*?[-"
        return Arg(word.source, (value,), loose=may_be_option)
    begins = word.parts[0].text if word.parts[0].kind == "text" else ""
    return Arg(word.source, None, loose="input" in word.holds or word.splits or begins[:1] in ("", "-"))


def _read_parts(word: Word) -> Value | None:
    """A word of texts and patterns, with a home in front or not; None if something else is in it."""
    if word.fixed is not None:
        return Value(word.fixed)
    glob = "glob" in word.holds
    text, home = "", False
    for part in word.parts:
        if part.kind == "glob":
            text += part.text
        elif part.kind == "text":
            text += _PATTERN.sub(r"\\\g<0>", part.text) if glob else part.text
        elif text:
            return None
        elif part.text in _HOME or (part.kind == "tilde" and part.text not in ("~+", "~-")):
            text, home = "~" if part.kind == "variable" else part.text, True
        elif part.text in _HERE:
            text = "."
        else:
            return None
    return Value(text, glob, home)


Places = frozenset[str] | None
"""Directories, relative to where the script starts; None if it cannot be told."""

_MOST = 8
_MAY_NOT_FOLLOW = re.compile(r"\|\||[;\n)]|(?<![&>])&(?!&)")


@dataclass(slots=True)
class Directories:
    """The directories that the commands of a script may run in, followed in their order."""

    source: str
    places: Places = frozenset((".",))
    """If the last `cd` went well."""
    before: Places = frozenset()
    """If it failed, or was in a subshell that has ended."""
    last: Command | None = None

    def of(self, run: Command) -> Places:
        """Where a command runs."""
        if self.last is not None and not self._follows(self.last, run):
            both = self.places | self.before if self.places is not None and self.before is not None else None
            self.places = both if both is None or len(both) <= _MOST else None
            self.last = None
        return self.places

    def go(self, run: Command, target: Arg | None) -> None:
        """A `cd` to this argument; None is a `cd` to somewhere the script has been before."""
        places = self.of(run)
        if places is None:
            return
        if target is None:
            self.places = places | (self.before or frozenset())
            return
        value = target.values[0] if target.values else None
        in_loop = any(kind in ("for", "while") for kind in run.within)
        if value is None or value.glob or (in_loop and not value.text.startswith(("/", "~"))):
            self.places = None
            return
        path = value.file("read").path
        self.before = places | (self.before or frozenset())
        self.places = frozenset(posixpath.normpath(join_path(place, path)) for place in places)
        self.last = run

    def _follows(self, last: Command, run: Command) -> bool:
        """Whether a command runs only if the last `cd` went well: both are joined by `&&` and `|`."""
        if last.via or run.via or self.source[: last.where.start].rstrip().endswith(("|", "!")):
            return False
        between = self.source[last.where.end : run.where.start]
        return between.lstrip().startswith("&&") and not _MAY_NOT_FOLLOW.search(between)


def join_path(place: str, path: str) -> str:
    """A path as it is seen from where the script starts."""
    if path.startswith(("/", "~")) or place == ".":
        return path
    return place if path == "." else posixpath.join(place, path)
