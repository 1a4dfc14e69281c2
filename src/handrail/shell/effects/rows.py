"""A row of the table of programs, and how arguments are split and judged by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from handrail.shell.effects.arguments import COMPUTED_NAMES, Arg, FileEffect, Ruling, Value, Visibility

Operands = Literal["files", "texts", "none"]
_ANY_TEXT = ("e", "regexp", "S", "G", "grep")
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
    shows: Visibility = "contents"
    """How much it shows of files that it only reads."""
    why: str = ""
    """The reason that a person reads; a usual one where it is empty."""

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
        elif text.startswith("--"):
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
    name, sign, value = text[2:].partition("=")
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
    below = row.below_names
    return "*" in below or any(
        name in below or (value is not None and f"{name}={value.text}" in below) for name, value in parsed.options
    )


def judge_by_row(base: str, row: Program, args: Sequence[Arg]) -> Ruling:
    """Judge a program that only looks by its row alone."""
    parsed = parse_options(row, args)
    operands = parsed.operands
    texts = 0 if parsed.has(*row.instead_names) else row.texts
    named = operands[texts:] if row.operands == "files" else []
    by_option = [value for name, value in parsed.options if name in row.read_names and value is not None]
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
    deep = goes_below(row, parsed)
    files = [effect for arg in named for effect in arg.files("read", below=deep) if effect.path != "-" or effect.glob]
    files += [effect for value in by_option for effect in value.files("read")]
    if not named and (row.here or (deep and row.operands == "files")):
        files.append(FileEffect("read", ".", below=deep))
    return Ruling("read_only", files=tuple(files))
