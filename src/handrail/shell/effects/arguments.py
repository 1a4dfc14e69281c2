"""Types of effects, and what is known about a command before it runs: its arguments, and the directory it runs in.

An argument is a text, a pattern or a path below the home. Variables are not followed: what they hold is not known.
A `cd` may fail, or stand in a subshell that has ended: unless `&&` rules that out, every later path counts from both
places.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from handrail.frozen import frozen
from handrail.shell.parser.script import Command, Word

_PATTERN = re.compile(r"[*?\[\\]")
_IN_CLASS = re.compile(r"[*?\[\]\\!^-]")
_HOME = ("$HOME", "${HOME}")
_HERE = ("$PWD", "${PWD}")

CommandTier = Literal["read_only", "ordinary", "destructive"]
FileAction = Literal["read", "write", "delete"]
Visibility = Literal["contents", "names", "tracked", "unhidden"]
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
            special = _IN_CLASS if part.quoted else _PATTERN
            text += special.sub(r"\\\g<0>", part.text) if glob else part.text
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

    def go(self, run: Command, target: Arg) -> None:
        """A `cd` to this argument."""
        places = self.of(run)
        if places is None:
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


Operands = Literal["files", "shown", "texts", "none"]
"""`shown`: files or revisions of git; without one it shows the whole directory."""
Role = Literal["", "write", "delete", "copy"]
_ANY_TEXT = ("e", "regexp", "S", "G", "grep", "size", "perm")
_FIND_WORDS = ("(", ")", "!", ",")
_STAGE = re.compile(r"^:[0-3]:")
_REMOTE = re.compile(r"[^/]*:.*", re.DOTALL)
"""Options whose value is a text to look for in every program that has them."""


@dataclass(frozen=True)
class Program:
    """One program: its options, the meaning of its operands, and its effects."""

    flags: str = ""
    """Letters of options without a value."""
    takes: str = ""
    """Letters of options with a value."""
    long: str = ""
    """Long options: `name` alone, `name=` with a value, `name?` with or without one."""
    operands: Operands = "files"
    texts: int = 0
    """So many operands at the beginning are no files: the pattern of grep."""
    instead: str = ""
    """Options that stand for those first operands, so that all are files: `-e` of grep."""
    reads: str = ""
    """Options whose value is a file that is read."""
    most: int = 1000
    """With more operands than this it does something else."""
    below: str = ""
    """Options with which it goes down into directories, `name=value` with that value only; `*` is always."""
    follows: str = ""
    """Options with which it follows links on its way down, so that any file may be read."""
    here: bool = False
    """Without a file it looks at the directory that it runs in."""
    numbers: bool = False
    """`-20` is an option."""
    closed: bool = True
    """It has no option at all that writes or runs something, so that a name with a dash in front is harmless."""
    words: str = ""
    """A pattern for all its arguments, one a line, with which it only looks: for programs without usual options."""
    program: str = ""
    """A pattern for those first operands, or for the values of `instead`, with which it only prints."""
    one_dash: bool = False
    """Its long options begin with one dash, as those of find."""
    role: Role = ""
    """What it does to the files that its operands name, if it changes them; a copy changes the last one."""
    shows: Visibility = "contents"
    """How much it shows of files that it only reads."""
    why: str = ""
    """The reason that a person reads; a usual one where it is empty."""

    @cached_property
    def names(self) -> dict[str, str]:
        """Each long option with its last character, which tells whether it has a value."""
        return {name.rstrip("=?"): name[-1] for name in self.long.split()}


@dataclass(slots=True)
class ParsedOptions:
    """The options and operands of one command."""

    options: list[tuple[str, Arg | None]] = field(default_factory=list)
    operands: list[Arg] = field(default_factory=list)
    unknown: str = ""
    """The first option that is not in the row."""
    loose: bool = False
    """A word that may turn out to be an option."""

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


def parse_options(row: Program, args: Sequence[Arg]) -> ParsedOptions:
    """Options and operands, in whatever order they stand."""
    out = ParsedOptions()
    at = 0
    while at < len(args):
        arg = args[at]
        at += 1
        text = arg.text
        if text is None:
            out.loose = out.loose or arg.loose
            out.operands.append(arg)
        elif text == "--":
            out.operands.extend(args[at:])
            break
        elif text.startswith("--") or (row.one_dash and text[:1] == "-"):
            at = _parse_long_option(row, out, text, args, at)
        elif text.startswith("-") and text != "-":
            if row.numbers and text[1:].isdigit():
                continue
            at = _parse_short_options(row, out, text, args, at)
        else:
            out.operands.append(arg)
    return out


def _make_fixed(text: str) -> Arg:
    return Arg(text, (Value(text),))


def _parse_long_option(row: Program, out: ParsedOptions, text: str, args: Sequence[Arg], at: int) -> int:
    name, sign, value = text.lstrip("-").partition("=")
    kind = row.names.get(name)
    if kind is None or (sign and kind not in "=?"):
        out.unknown = out.unknown or text
        out.options.append((name, _make_fixed(value) if sign else None))
        return at
    if kind == "=" and not sign:
        _take(row, out, name, args, at)
        return at + 1
    out.options.append((name, _make_fixed(value) if sign else None))
    return at


def _parse_short_options(row: Program, out: ParsedOptions, text: str, args: Sequence[Arg], at: int) -> int:
    for index, letter in enumerate(text[1:], start=2):
        if letter in row.takes:
            if text[index:]:
                out.options.append((letter, _make_fixed(text[index:])))
                return at
            _take(row, out, letter, args, at)
            return at + 1
        if letter not in row.flags:
            out.unknown = out.unknown or (text if len(text) == 2 else f"-{letter} in {text}")
        out.options.append((letter, None))
    return at


def _take(row: Program, out: ParsedOptions, name: str, args: Sequence[Arg], at: int) -> None:
    """The next word is the value of an option, unless the program sees that in another way.

    A version of it may take no value there, and a word with a dash in front is an option then.
    """
    value = args[at] if at < len(args) else None
    out.options.append((name, value))
    if value is None:
        return
    out.loose = out.loose or (value.loose and value.text is None)
    text = value.text or ""
    if not row.closed and name not in _ANY_TEXT and text.startswith("-") and not text[1:].isdigit():
        out.unknown = out.unknown or text


def goes_below(row: Program, parsed: ParsedOptions) -> bool:
    """Whether the program goes down into directories."""
    below = row.below.split()
    return "*" in below or any(
        name in below or (value is not None and f"{name}={value.text}" in below) for name, value in parsed.options
    )


def judge_by_row(base: str, row: Program, args: Sequence[Arg]) -> Ruling:
    """Judge a program that only looks by its row alone."""
    parsed = parse_options(row, args)
    operands = [arg for arg in parsed.operands if not (row.one_dash and arg.text in _FIND_WORDS)]
    instead = [value for name, value in parsed.options if name in row.instead.split()]
    texts = 0 if instead else row.texts
    named = operands[texts:] if row.operands in ("files", "shown") else []
    by_option = [value for name, value in parsed.options if name in row.reads.split() and value is not None]
    if parsed.unknown:
        return Ruling(why=f"unknown option {parsed.unknown} of {base}")
    if any(arg.values is None for arg in (*named, *by_option)):
        return Ruling(why=COMPUTED_NAMES, doubt=COMPUTED_NAMES)
    if parsed.loose and not row.closed:
        return Ruling(why=f"an argument of {base} may turn out to be an option")
    if any(value.glob for arg in operands[:texts] for value in arg.values or ()):
        return Ruling(why=f"an argument of {base} may turn out to be several words")
    if parsed.has(*row.follows.split()):
        doubt = f"{base} follows links, which may lead anywhere"
        return Ruling(why=doubt, doubt=doubt)
    if len(operands) > (row.most if row.operands != "none" else 0):
        return Ruling(why=f"{base} is not known to take so many arguments")
    files = _find_files(row, named, goes_below(row, parsed))
    files += [effect for value in by_option for effect in value.files("read")]
    for program in (instead or operands[:texts]) if row.program else ():
        if program is None or program.text is None or not re.fullmatch(row.program, program.text, re.DOTALL):
            doubt = f"the program of {base} may write files or run commands"
            return Ruling(why=doubt, doubt=doubt, files=tuple(files))
    return Ruling("read_only", files=tuple(files))


def _find_files(row: Program, named: Sequence[Arg], deep: bool) -> list[FileEffect]:
    """The files that operands name; `revision:path` of git names a path, and any other word may be one."""
    if row.operands == "shown":
        paths = [_STAGE.sub(":", arg.text or "").partition(":")[2] for arg in named]
        stored = [FileEffect("read", path) for path in paths if path]
        words = [effect for arg in named for effect in arg.files("read", below=True)]
        return [*stored, *words, FileEffect("read", ".", below=not named)]  # git looks at its directory in any case
    files = [effect for arg in named for effect in arg.files("read", below=deep) if effect.path != "-" or effect.glob]
    if not named and (row.here or (deep and row.operands == "files")):
        files.append(FileEffect("read", ".", below=deep))
    return files


def judge_writer(base: str, row: Program, args: Sequence[Arg]) -> Ruling:
    """Judge a program that changes the files its operands name. An option that is not in its row changes nothing."""
    parsed = parse_options(row, args)
    deep = base == "mv" or goes_below(row, parsed)
    words = [arg for arg in parsed.operands if arg.text != ""]  # on macOS, `sed -i ''` has an empty one
    operands = words[0 if parsed.has(*row.instead.split()) else row.texts :]
    doubt = COMPUTED_NAMES if any(arg.values is None for arg in operands) else ""
    into = [value for name, value in parsed.options if name in ("t", "target-directory") and value]
    if row.role != "copy":
        action: FileAction = "delete" if row.role == "delete" else "write"
        files = [file for arg in operands for file in arg.files(action, below=deep)]
        return Ruling(why=f"{base} writes", doubt=doubt, files=tuple(files))
    sources = operands if into else operands[:-1]
    # By which name a file can be read afterwards is up to whoever moves or links it: so it is a read, too.
    shown = () if base == "ln" and parsed.has("s", "symbolic") else sources
    files = [file for arg in shown for file in arg.files("read", below=deep)]
    files += [file for arg in sources if base == "mv" for file in arg.files("delete", below=True)]
    files += [file for arg in into or operands[-1:] for file in arg.files("write", below=deep)]
    if base in ("rsync", "scp"):
        files = [file for file in files if not _REMOTE.fullmatch(file.path)]
    return Ruling(why=f"{base} writes", doubt=doubt, files=tuple(files))
