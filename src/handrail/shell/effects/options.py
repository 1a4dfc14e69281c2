"""Split the arguments of a command into options and operands, by a table of the options that are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from handrail.shell.effects.arguments import Arg, Value

Operands = Literal["files", "texts", "none"]
_ANY_TEXT = ("e", "regexp", "S", "G", "grep")
"""Options whose value is a text to look for in every program that has them."""


@dataclass(frozen=True)
class Syntax:
    """What is known of a command: the options that do no harm, and what its operands are."""

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
    writes: str = ""
    """Options whose value is a file that is written."""
    most: int = 1000
    """With more operands than this it does something else."""
    below: str = ""
    """Options with which it goes down into directories; `*` is always."""
    here: bool = False
    """Without a file it looks at the directory that it runs in."""
    numbers: bool = False
    """`-20` is an option."""
    closed: bool = True
    """It has no option at all that writes or runs something, so that a name with a dash in front is harmless."""

    @cached_property
    def names(self) -> dict[str, str]:
        """Each long option with its last character, which tells whether it has a value."""
        return {name.rstrip("=?"): name[-1] for name in self.long.split()}

    @cached_property
    def instead_names(self) -> frozenset[str]:
        return frozenset(self.instead.split())

    @cached_property
    def read_names(self) -> frozenset[str]:
        return frozenset(self.reads.split())

    @cached_property
    def write_names(self) -> frozenset[str]:
        return frozenset(self.writes.split())

    @cached_property
    def below_names(self) -> frozenset[str]:
        return frozenset(self.below.split())


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

    def value(self, *names: str) -> Arg | None:
        return next((value for name, value in reversed(self.options) if name in names), None)


def parse_options(row: Syntax, args: Sequence[Arg]) -> ParsedOptions:
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
        elif text.startswith("--"):
            at = _long(row, out, text, args, at)
        elif text.startswith("-") and text != "-":
            if row.numbers and text[1:].isdigit():
                continue
            at = _short(row, out, text, args, at)
        else:
            out.operands.append(arg)
    return out


def _fixed(text: str) -> Arg:
    return Arg(text, (Value(text),))


def _long(row: Syntax, out: ParsedOptions, text: str, args: Sequence[Arg], at: int) -> int:
    name, sign, value = text[2:].partition("=")
    kind = row.names.get(name)
    if kind is None or (sign and kind not in "=?"):
        out.unknown = out.unknown or text
        out.options.append((name, _fixed(value) if sign else None))
        return at
    if kind == "=" and not sign:
        _take(row, out, name, args, at)
        return at + 1
    out.options.append((name, _fixed(value) if sign else None))
    return at


def _short(row: Syntax, out: ParsedOptions, text: str, args: Sequence[Arg], at: int) -> int:
    for index, letter in enumerate(text[1:], start=2):
        if letter in row.takes:
            if text[index:]:
                out.options.append((letter, _fixed(text[index:])))
                return at
            _take(row, out, letter, args, at)
            return at + 1
        if letter not in row.flags:
            out.unknown = out.unknown or (text if len(text) == 2 else f"-{letter} in {text}")
        out.options.append((letter, None))
    return at


def _take(row: Syntax, out: ParsedOptions, name: str, args: Sequence[Arg], at: int) -> None:
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
