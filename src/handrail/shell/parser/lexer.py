"""The letters of a script: blanks, comments, quotes and words, by the rules of bash.

Written out by hand and not read off a general syntax tree: what a word is decides what runs, and the rules for it
(line continuations, quotes inside expansions, where a here-document ends) are too fine for a grammar that was made to
colour text. What is rare and hard to be sure of is not guessed: it stops the reading with `CannotParse`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import NoReturn, Self

from handrail.shell.parser.script import Assignment, Part, Span, Word, expand_word

MOST_NESTING = 30
"""Deeper than any script that a person can judge, and far from the end of Python's own stack."""
MOST_STEPS = 20_000
"""Words, quotes and lines looked at; more stand in no script that a person can judge."""

META = " \t\n|&;()<>"
_PLAIN = re.compile(r"[^ \t\n|&;()<>$`\\\"']+")
_PLAIN_IN_REGEX = re.compile(r"[^ \t\n()$`\\\"'<>;&]+")
_PLAIN_IN_QUOTES = re.compile(r"[^$`\\\"]+")
_BLANK = re.compile(r"(?:[ \t]|\\\n)+")


class CannotParse(Exception):
    """The parser stops here: the rest cannot be proven."""


class InvalidSyntax(Exception):
    """Not valid, at this offset."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at = at
        self.message = message


@dataclass(slots=True)
class Here:
    """A here-document whose body is still to come, and then its body."""

    delimiter: str
    quoted: bool
    tabs: bool
    body: Word | None = None


@dataclass(slots=True)
class Redirect:
    """A redirection while its here-document may still be to come."""

    operator: str
    descriptor: str
    target: Word | Here


@dataclass(slots=True)
class Draft:
    """A simple command while it is being read."""

    where: Span
    within: tuple[str, ...]
    words: list[Word] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    redirects: list[Redirect] = field(default_factory=list)


@dataclass(slots=True)
class Findings:
    """The findings of all parsers of one script, nested texts included."""

    drafts: list[Draft] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    defaulted: set[str] = field(default_factory=set)
    """Variables that get a value by `${name=...}`."""
    stopped: bool = False
    """The end of the text was not reached."""
    steps: int = 0
    depth: int = 0

    def add_doubt(self, why: str) -> None:
        if why not in self.doubts:
            self.doubts.append(why)

    def mark(self) -> tuple[int, int, int, set[str]]:
        return len(self.drafts), len(self.functions), len(self.doubts), set(self.defaulted)

    def back_to(self, mark: tuple[int, int, int, set[str]]) -> None:
        """Forget the findings since the mark: the text was taken for something else."""
        del self.drafts[mark[0] :], self.functions[mark[1] :], self.doubts[mark[2] :]
        self.defaulted = mark[3]


class Lexer(ABC):
    """A place in a text, and how to get past the next thing in it."""

    def __init__(self, text: str, findings: Findings, base: Span | None = None) -> None:
        self.text = text
        self.at = 0
        self.findings = findings
        self.base = base
        self.pending: list[Here] = []
        self.held = False
        """A here-document outside of this substitution waits for its body."""
        self.inside = 0
        """How many substitutions of this text we are in."""

    @abstractmethod
    def parse_commands(self, closer: str, kind: str) -> int:
        """Parse the commands up to the closer, which stays; without a closer up to the end. Returns their number."""

    @abstractmethod
    def parse_bodies(self) -> None:
        """Read the bodies of the here-documents that wait for this line break."""

    @abstractmethod
    def start_parser(self, text: str, kind: str) -> Self:
        """A scanner of another text that stands for something here."""

    @abstractmethod
    def parse_dollar(self, *, quoted: bool) -> list[Part]:
        """Parse an expansion that begins with `$`."""

    @abstractmethod
    def parse_backtick(self, *, quoted: bool) -> Part:
        """A substitution in backticks."""

    @abstractmethod
    def process(self) -> Part:
        """`<(...)` or `>(...)`."""

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        raise InvalidSyntax(self.at if at is None else at, message)

    def fail_at_position(self) -> NoReturn:
        if self.at >= len(self.text):
            self.fail("unexpected end of the script")
        if self.peek() == "\n":
            self.fail("unexpected end of the line")
        self.fail(f"unexpected {self.text[self.at : self.at + 20].split()[0]!r}")

    def step(self) -> None:
        self.findings.steps += 1
        if self.findings.steps > MOST_STEPS:
            raise CannotParse("the script is too long to be read")

    def enter(self) -> None:
        self.findings.depth += 1
        if self.findings.depth > MOST_NESTING:
            raise CannotParse("the script is nested too deeply to be read")

    def leave(self) -> None:
        self.findings.depth -= 1

    def skip_blanks(self, *, lines: bool = False) -> None:
        """Past blanks, continued lines and comments; with `lines` also past line breaks."""
        while True:
            if match := _BLANK.match(self.text, self.at):
                self.at = match.end()
            char = self.peek()
            if char == "#" and not (self.at and self.text[self.at - 1] not in META):
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif char == "\n" and lines:
                self.skip_newline()
            elif char == "#" and self.text[max(0, self.at - 2) : self.at] == "\\\n":
                raise CannotParse("a # right behind a continued line")
            else:
                return

    def skip_newline(self) -> None:
        self.at += 1
        self.step()
        if self.held:
            raise CannotParse("a here-document goes on inside a substitution")
        self.parse_bodies()

    def read_word(self, *, braces: bool = True, pattern: bool = False, value: bool = False) -> list[Word]:
        """The words that the next written word stands for; none if there is no word here."""
        start = self.at
        parts = self.read_parts(pattern=pattern)
        return expand_word(parts, self.text[start : self.at], braces=braces, value=value) if parts else []

    def read_parts(self, *, pattern: bool = False) -> list[Part]:
        """The parts of the next word. In a pattern of `[[` and in a regular expression, parentheses belong to it."""
        self.step()
        parts: list[Part] = []
        plain = _PLAIN_IN_REGEX if pattern else _PLAIN
        depth = 0
        while self.at < len(self.text):
            if match := plain.match(self.text, self.at):
                if parts and parts[-1].kind == "text" and not parts[-1].quoted:  # over a continued line
                    parts[-1] = Part("text", parts[-1].text + match.group())
                else:
                    parts.append(Part("text", match.group()))
                self.at = match.end()
                continue
            char = self.peek()
            if char == "\\":
                self._read_backslash(parts)
            elif char == "'":
                parts.append(Part("text", self._read_single_quoted(), True))
            elif char == '"':
                self.at += 1
                parts.extend(self.read_double_quoted())
            elif char == "$":
                parts.extend(self.parse_dollar(quoted=False))
            elif char == "`":
                parts.append(self.parse_backtick(quoted=False))
            elif char in "<>" and self.peek(2)[1:] == "(" and not pattern:
                parts.append(self.process())
            elif pattern and char in "()":
                depth += 1 if char == "(" else -1
                if depth < 0:
                    break
                parts.append(Part("text", char, True))
                self.at += 1
            elif pattern and (depth or char in "<>;&"):
                raise CannotParse("a regular expression or pattern with blanks or operators in it")
            else:
                if char == "(" and parts and not parts[-1].quoted and parts[-1].text[-1:] in tuple("?*+@!"):
                    raise CannotParse("an extended pattern such as !(x)")
                break
        return parts

    def _read_backslash(self, parts: list[Part]) -> None:
        following = self.peek(2)[1:]
        self.at += 2
        if not following:
            raise CannotParse("a backslash at the end")
        if following != "\n":
            parts.append(Part("text", following, True))

    def _read_single_quoted(self) -> str:
        self.step()
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.fail("a single quote that is not closed")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def read_double_quoted(self, *, heredoc: bool = False) -> list[Part]:
        """The parts up to the closing double quote; of the body of a here-document, up to its end."""
        self.step()
        start = self.at - 1
        parts: list[Part] = [] if heredoc else [Part("text", "", True)]
        while self.at < len(self.text):
            if match := _PLAIN_IN_QUOTES.match(self.text, self.at):
                parts.append(Part("text", match.group(), True))
                self.at = match.end()
                continue
            char = self.peek()
            if char == '"' and heredoc:
                parts.append(Part("text", char, True))
                self.at += 1
            elif char == '"':
                self.at += 1
                return parts
            elif char == "\\":
                following = self.peek(2)[1:]
                if following == "\n":
                    pass
                elif following and following in ("$`\\" if heredoc else '$`"\\'):
                    parts.append(Part("text", following, True))
                else:
                    parts.append(Part("text", char + following, True))
                self.at += 2
            elif char == "$":
                parts.extend(self.parse_dollar(quoted=True))
            else:
                parts.append(self.parse_backtick(quoted=True))
        if not heredoc:
            self.fail("a double quote that is not closed", start)
        return parts
