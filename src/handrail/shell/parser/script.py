"""Types of a parsed script: its commands with their words, assignments, redirections and nested scripts.

A word is a row of parts. Text is fixed, quoted or not; every other kind of part stands for something that only a
running shell knows. Brace expansion is done here, as bash does it; patterns and tildes are recognised, not expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from handrail.frozen import frozen

Kind = Literal["text", "glob", "variable", "command", "arithmetic", "process", "tilde", "brace", "escape", "input"]

MOST_ALTERNATIVES = 1000
"""More words than this out of one brace expansion are not spelled out."""

_TILDE = re.compile(r"~[A-Za-z0-9_.+-]*")
_ASSIGNS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_BRACES = re.compile(r"([{},])")
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|(.)|$)", re.DOTALL)
_ESCAPED_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))


@frozen
class Part:
    """A piece of a word; `text` is the fixed text, or the source of an expansion."""

    kind: Kind
    text: str
    quoted: bool = False


@frozen
class Word:
    """One word of a command as it is written, quotes taken off."""

    parts: tuple[Part, ...]
    source: str
    fixed: str | None = field(init=False, compare=False, repr=False)
    """The text that a command gets, if it is known."""

    def __post_init__(self) -> None:
        known = all(part.kind == "text" for part in self.parts)
        object.__setattr__(self, "fixed", "".join(part.text for part in self.parts) if known else None)

    @property
    def holds(self) -> tuple[Kind, ...]:
        """The kinds of its parts that are not fixed."""
        return tuple(dict.fromkeys(part.kind for part in self.parts if part.kind != "text"))

    @property
    def splits(self) -> bool:
        """Whether it may become several words, or none: `"$@"` and `"${a[@]}"` do so in quotes too."""
        return any(
            part.kind not in ("text", "tilde", "process")
            and (not part.quoted or (part.kind == "variable" and "@" in part.text))
            for part in self.parts
        )

    @property
    def bare(self) -> str | None:
        """The text, if no part of it is quoted: only such a word can be a keyword."""
        return self.fixed if not any(part.quoted for part in self.parts) else None


def make_fixed_word(text: str) -> Word:
    """A word that is this text."""
    return Word((Part("text", text, True),), text)


def make_unknown_word(source: str) -> Word:
    """A word, or several, that comes from the input of the command that puts it there."""
    return Word((Part("input", source),), source)


def expand_word(parts: list[Part], source: str, *, braces: bool = True, value: bool = False) -> list[Word]:
    """The words that one written word stands for, with patterns and tildes marked. ``value``: it is assigned."""
    rows = [parts]
    if braces and any(part.kind == "text" and not part.quoted and "{" in part.text for part in parts):
        pieces = _split_at_braces(parts)
        rows = _expand_braces(pieces) if len(pieces) <= MOST_ALTERNATIVES else []
        # Bash expands braces first: a `$` at the end of an alternative begins a variable with the text behind it.
        lone = len(rows) > 1 and any(part.kind == "text" and part.text == "$" for part in parts)
        if not rows or lone or len(rows) > MOST_ALTERNATIVES:
            return [Word((Part("brace", source),), source)]
    # An alternative of which nothing is left is no word at all, unless something quoted stood there.
    return [Word(tuple(_mark(row, value)), source) for row in rows if row or not parts]


def _split_at_braces(parts: list[Part]) -> list[Part]:
    """The parts with every active brace and comma as a part of its own."""
    out: list[Part] = []
    for part in parts:
        bare = part.kind == "text" and not part.quoted
        out += [Part("text", piece) for piece in _BRACES.split(part.text) if piece] if bare else [part]
    return out


def _is(part: Part, char: str) -> bool:
    return part.kind == "text" and not part.quoted and part.text == char


def _expand_braces(parts: list[Part], depth: int = 0) -> list[list[Part]]:
    """The rows of parts after brace expansion; more than the bound means: too many."""
    for start, part in enumerate(parts):
        if not _is(part, "{"):
            continue
        end, commas = _group(parts, start)
        if end is None:
            continue
        edges = [start, *commas, end]
        inner: list[list[Part]]
        if depth > 20:
            inner = [[Part("brace", "{")]]
        elif commas:
            inner = []
            for left, right in pairwise(edges):
                inner.extend(_expand_braces(parts[left + 1 : right], depth + 1))
                if len(inner) > MOST_ALTERNATIVES:
                    return inner
        else:  # a sequence is not spelled out
            inner = [[Part("brace", "{..}")]]
        tails = _expand_braces(parts[end + 1 :], depth + 1)
        if len(inner) * len(tails) > MOST_ALTERNATIVES:
            return [[]] * (MOST_ALTERNATIVES + 1)
        return [parts[:start] + middle + tail for middle in inner for tail in tails]
    return [parts]


def _group(parts: list[Part], start: int) -> tuple[int | None, list[int]]:
    """Where the brace that opens there is closed, and its own commas.

    As in bash, a brace closes only a group that has a comma or `..` of its own: `a{},b}` is `a}` and `ab`. At the
    beginning of a text, `{}` opens nothing.
    """
    if start == 0 and len(parts) > 1 and _is(parts[1], "}"):
        return None, []
    depth = 0
    dots = False
    commas: list[int] = []
    for index in range(start + 1, len(parts)):
        if _is(parts[index], "{"):
            depth += 1
        elif _is(parts[index], "}"):
            if depth:
                depth -= 1
            elif commas or dots:
                return index, commas
        elif not depth:
            if _is(parts[index], ","):
                commas.append(index)
            closes = index + 1 < len(parts) and _is(parts[index + 1], "}")
            dots = dots or ".." in (parts[index].text[:-1] if closes else parts[index].text)
    return None, []


def _mark(row: list[Part], value: bool) -> Iterator[Part]:
    """The parts, with tildes and patterns marked."""
    assigns = value or (bool(row) and row[0].kind == "text" and not row[0].quoted and _ASSIGNS.match(row[0].text))
    merged: list[Part] = []
    for part in row:
        if merged and part.kind == merged[-1].kind == "text" and part.quoted == merged[-1].quoted:
            merged[-1] = replace(merged[-1], text=merged[-1].text + part.text)
        else:
            merged.append(part)
    closes = _find_last_bracket(merged)
    for index, part in enumerate(merged):
        if part.kind != "text" or part.quoted:
            yield part
            continue
        following = merged[index + 1] if index + 1 < len(merged) else None
        yield from _split_bare_text(part.text, index == 0, bool(assigns), following, closes > index)


def _find_last_bracket(parts: list[Part]) -> int:
    """The index of the last part that may close a bracket of a pattern."""
    return max((i for i, part in enumerate(parts) if part.kind != "text" or "]" in part.text), default=-1)


def _split_bare_text(text: str, first: bool, assigns: bool, following: Part | None, closes: bool) -> Iterator[Part]:
    """The parts of a text without quotes."""
    done = at = 0
    while at < len(text):
        char = text[at]
        kind: Kind | None = None
        end = at + 1
        if char == "~" and ((first and at == 0) or (assigns and text[at - 1] in "=:")):
            match = _TILDE.match(text, at)
            end = match.end() if match else end
            if text[end : end + 1] in ("/", ":") or (end == len(text) and following is None):
                kind = "tilde"
            elif end == len(text):
                kind = "tilde" if following and following.kind != "text" else None
        elif char in "*?" or (char == "[" and (closes or "]" in text[at:])):
            kind = "glob"
            if char == "[":
                end = len(text)  # where a bracket ends depends on what is in it
        if kind is not None:
            if at > done:
                yield Part("text", text[done:at])
            yield Part(kind, text[at:end])
            done = end
        at = end
    if done < len(text):
        yield Part("text", text[done:])


def decode_ansi_c(inside: str) -> str | None:
    """The text between the quotes of `$'...'`; None where it depends on the locale or ends at a NUL."""
    out = bytearray()
    done = 0
    for match in _ESCAPE.finditer(inside):
        out += inside[done : match.start()].encode("utf-8", "surrogateescape")
        done = match.end()
        octal, hexadecimal, short, long, letter = match.groups()
        if octal is not None or hexadecimal is not None:
            byte = int(octal, 8) & 0xFF if octal is not None else int(hexadecimal, 16)
            if byte == 0:
                return None
            out.append(byte)
        elif short is not None or long is not None:
            point = int(short or long, 16)
            if not 0 < point < 0x80:
                return None
            out.append(point)
        elif letter in _ESCAPED_LETTERS:
            out += _ESCAPED_LETTERS[letter].encode()
        elif letter == "c":  # a control character by a rule of its own
            return None
        else:  # bash keeps the backslash before a letter that means nothing
            out += ("\\" + (letter or "")).encode("utf-8", "surrogateescape")
    out += inside[done:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


READS = ("<", "<>")
WRITES = (">", ">>", ">|", "&>", "&>>", ">&", "<>")
HEREDOCS = ("<<", "<<-")
DECLARES = ("declare", "typeset", "local", "export", "readonly")
PLACES = ("HOME", "PWD", "VIRTUAL_ENV")
"""Variables that hold a directory unless the script itself says indirect."""


class Span(NamedTuple):
    """A stretch of the source in characters; line and column of its beginning count from one."""

    start: int
    end: int
    line: int
    column: int


_START = Span(0, 0, 1, 1)


class SyntaxFault(NamedTuple):
    """A place that is not valid, the text there and the reason. Column 0 is unknown."""

    line: int
    column: int
    text: str
    message: str


@frozen
class Assignment:
    """`name=value`, `name+=value`, `name[subscript]=value` or `name=(values)`."""

    name: str
    values: tuple[Word, ...]
    array: bool = False


@frozen
class Redirection:
    """A redirection. `descriptor` stands before the operator: digits, `{name}` or nothing.

    The target is the file, the descriptor, or the text of a here-string; a here-document has its body there.
    """

    operator: str
    target: Word
    descriptor: str = ""

    @property
    def copies(self) -> bool:
        """Whether it copies, moves or closes a descriptor and touches no file."""
        text = self.target.fixed
        return self.operator in ("<&", ">&") and text is not None and text.rstrip("-").isdigit() | (text == "-")

    @property
    def reads(self) -> bool:
        return self.operator in READS

    @property
    def writes(self) -> bool:
        return self.operator in WRITES and not self.copies

    @property
    def feeds(self) -> bool:
        """Whether its target is a text that becomes the standard input."""
        return self.operator in (*HEREDOCS, "<<<") and self.descriptor in ("", "0")


@frozen
class Command:
    """A simple command. One without words only assigns or redirects, as the redirections of a group do."""

    words: tuple[Word, ...]
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    where: Span = _START
    within: tuple[str, ...] = ()
    """Constructs around it, outermost first: subshell, group, if, while, for, case, function, substitution, process,
    pipeline, piped (its input is a pipe), background, coproc, heredoc."""
    via: tuple[str, ...] = ()
    """The wrappers that it was reached through, outermost first: env, xargs, bash."""
    nested: tuple[Command | Script, ...] = field(default=(), compare=False, repr=False)
    """Commands and scripts that it runs: those of `env`, `xargs`, `find -exec`, `bash -c`, `eval` and the like.

    A script without source stands for something that could not be opened; its doubts give the reason.
    """
    indirect_sets: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """Variables that it sets by other means than `name=value`: `read`, `printf -v`, `declare`."""

    base: str | None = field(init=False, compare=False, repr=False)
    """The name without its directory, which need not be known; None if it is computed, empty without words."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "base", _get_base(self.words))

    @property
    def name(self) -> str | None:
        """The first word, if it is fixed; empty for a command without words."""
        return self.words[0].fixed if self.words else ""

    def walk(self) -> Iterator[Command]:
        """Yield this command and every command that it runs, in the order of the source."""
        yield self
        for item in self.nested:
            if isinstance(item, Script):
                yield from item.runs
            else:
                yield from item.walk()


def _get_base(words: tuple[Word, ...]) -> str | None:
    if not words:
        return ""
    parts = words[0].parts
    tail = ""
    for index in range(len(parts) - 1, -1, -1):
        if parts[index].kind != "text":
            return None
        _, slash, rest = parts[index].text.rpartition("/")
        tail = rest + tail
        if slash:
            # The directory must stay one word.
            return tail if all(_is_one_word(part) for part in parts[:index]) else None
    return tail


def _is_one_word(part: Part) -> bool:
    return (part.quoted and "@" not in part.text) or part.kind in ("text", "tilde") or part.text.strip("${}") in PLACES


@frozen
class Script:
    """A parsed script with its nested scripts. Unless it is proven, it may do more than its commands say."""

    source: str
    commands: tuple[Command, ...] = ()
    """Every simple command that is written in it, in whatever it stands."""
    runs: tuple[Command, ...] = ()
    """Every command that it runs: those, and the ones that wrappers, `eval` and shells among them run."""
    functions: tuple[str, ...] = ()
    error: SyntaxFault | None = None
    doubts: tuple[str, ...] = ()
    """Why it cannot be proven what the script does, nested scripts included."""
    own_doubts: tuple[str, ...] = ()
    """Doubts of the text itself, without its nested scripts."""
    stopped: bool = False
    """The parser did not reach the end: there may be commands that are not listed."""
    elsewhere: frozenset[str] = frozenset()
    """Variables that are set, or may be, by other means than `name=value`."""

    @property
    def proven(self) -> bool:
        return self.error is None and not self.doubts
