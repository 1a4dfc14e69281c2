"""A regular expression as ripgrep understands it: what it refuses is refused here, with the position.

Checked before any search, so that both engines refuse the same, and written anew for the engine that runs inside
Python where the two mean different things.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from handrail.errors import BadPattern

MOST_CHARS = 20_000
_LOOK_AROUND = re.compile(r"\?(?:<?[=!])")
_NAME = re.compile(r"\?P?<[A-Za-z_][A-Za-z0-9_.\[\]]*>")
_FLAGS = re.compile(r"\?([imsUuxR]*(?:-[imsUuxR]+)?)([:)])")
_COUNT = re.compile(r"\{\s*(\d+)\s*(?:(,)\s*(\d+)?\s*)?\}")
_HEX = re.compile(r"\{([0-9A-Fa-f]{1,8})\}")
_BOUNDS = {"{start}": r"\m", "{end}": r"\M", "{start-half}": r"(?<!\w)", "{end-half}": r"(?!\w)"}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ ")
_MOST_REPEATS = 1000
_MOST_DIGITS = 1000
"""Python converts no longer numbers than about four times that."""


LINE_BREAK = "a line break cannot match within one line"
_AROUND = 40


def bad_pattern(pattern: str, why: str, position: int | None = None) -> BadPattern:
    """The error for a pattern that cannot be used, with the place if it is known."""
    line = caret = None
    if position and "\n" not in pattern and "\0" not in pattern:
        first = max(0, position - 1 - _AROUND)
        line, caret = pattern[first : position + _AROUND], " " * (position - 1 - first) + "^"
    newline = why == LINE_BREAK
    return BadPattern(pattern=pattern[:200], position=position, why=why, newline=newline, line=line, caret=caret)


class TranslatedPattern(NamedTuple):
    """A pattern for the engine inside Python."""

    text: str
    lacking: str
    """The feature that this engine lacks; empty if it lacks none."""


def translate(pattern: str, multiline: bool) -> TranslatedPattern:
    """The pattern in the other syntax; raises `BadPattern` for what ripgrep refuses."""
    return _PatternParser(pattern, multiline).read()


class _PatternParser:
    def __init__(self, pattern: str, multiline: bool) -> None:
        self.pattern = pattern
        self.multiline = multiline
        self.at = 0
        self.out: list[str] = []
        self.opened: list[tuple[int, int]] = []
        """Groups that are open: where they begin in the pattern, and in what is written."""
        self.atom: int | None = None
        """Where the last thing that can be repeated begins in what is written."""
        self.repeated = False
        self.lacking = ""
        self.repeats = 1

    def fail(self, why: str, at: int | None = None) -> BadPattern:
        return bad_pattern(self.pattern, why, (self.at if at is None else at) + 1)

    def read(self) -> TranslatedPattern:
        while self.at < len(self.pattern):
            self.step()
        if self.opened:
            raise self.fail("unclosed group", self.opened[-1][0])
        return TranslatedPattern("".join(self.out), self.lacking)

    def put(self, piece: str) -> None:
        self.atom, self.repeated = len(self.out), False
        self.out.append(piece)

    def step(self) -> None:
        char = self.pattern[self.at]
        if char == "\\":
            self.put(self.escape(inside=False))
        elif char == "[":
            self.put(self.bracket())
        elif char == "(":
            self.group()
        elif char == ")":
            if not self.opened:
                raise self.fail("unopened group")
            self.atom, self.repeated = self.opened.pop()[1], False
            self.out.append(")")
            self.at += 1
        elif char in "*+?":
            self.at += 1
            self.repeat(char, self.at - 1)
        elif char == "{":
            self.counted()
        elif char == "|":
            self.out.append("|")
            self.atom = None
            self.at += 1
        else:
            if char == "\n" and not self.multiline:
                raise self.fail(LINE_BREAK)
            self.put(char if char not in "]}" else "\\" + char)
            self.at += 1

    def repeat(self, mark: str, at: int) -> None:
        if self.atom is None:
            raise self.fail("repetition operator missing expression", at)
        if self.repeated:  # `a**`: in the other syntax the second one would mean something else
            self.out.insert(self.atom, "(?:")
            self.out.append(")")
        lazy = self.pattern.startswith("?", self.at)
        self.at += lazy
        self.out.append(mark + ("?" if lazy else ""))
        self.repeated = True

    def counted(self) -> None:
        at = self.at
        match = _COUNT.match(self.pattern, at)
        if not match:
            closed = "}" in self.pattern[at:]
            raise self.fail("repetition quantifier expects a valid decimal" if closed else "unclosed repetition")
        low, comma, high = match.groups()
        if max(len(low), len(high or "")) > _MOST_DIGITS:
            raise self.fail("too many repetitions")
        if high is not None and int(high) < int(low):
            raise self.fail("the bounds of the repetition are reversed")
        if self.repeats * max(int(high or low), 1) > _MOST_REPEATS**2:
            raise self.fail("too many repetitions")
        self.repeats *= max(int(high or low), 1)
        if self.repeats > _MOST_REPEATS:
            self.lacking = self.lacking or "so many repetitions"
        self.at = match.end()
        self.repeat(f"{{{int(low)}{comma or ''}{int(high) if high is not None else ''}}}", at)

    def group(self) -> None:
        start, rest = self.at, self.at + 1
        if _LOOK_AROUND.match(self.pattern, rest):
            raise self.fail("look-around, including look-ahead and look-behind, is not supported")
        if match := _NAME.match(self.pattern, rest):
            opening = match[0].replace("?<", "?P<")
        elif match := _FLAGS.match(self.pattern, rest):
            flags = match[1].replace("u", "").removesuffix("-")
            if "U" in flags or "R" in flags:
                self.lacking = self.lacking or f"the flags (?{match[1]})"
            self.at = match.end()
            if match[2] == ")":  # flags for what follows
                self.out.append(f"(?{flags})" if flags else "")
                return
            opening = f"?{flags}:"
        elif self.pattern.startswith("?", rest):
            raise self.fail("unrecognized flag")
        else:
            opening = ""
        self.at = match.end() if match else rest
        self.opened.append((start, len(self.out)))
        self.out.append("(" + opening)
        self.atom = None

    def escape(self, inside: bool) -> str:
        at, pattern = self.at, self.pattern
        char = pattern[at + 1 : at + 2]
        self.at += 2
        if not char:
            raise self.fail("a backslash at the end", at)
        if char.isdecimal():
            raise self.fail("backreferences are not supported", at)
        if char in _DIGITS:
            return self.code(at, char)
        if char in "pP":
            return self.property(at, char)
        if char == "n" and not inside and not self.multiline:
            raise self.fail(LINE_BREAK, at)
        if char in "dDsSwWntrfva":
            return "\\" + char
        if char in _PUNCTUATION and (inside or char not in "<>"):
            return "\\" + char
        if not inside:
            if char in "Az":
                # Where the text begins and ends to ripgrep, if it is not searched as a whole, is its own affair.
                self.lacking = self.lacking or ("" if self.multiline else r"\A and \z")
                return r"\A" if char == "A" else r"\Z"
            if char in "<>":
                return r"\m" if char == "<" else r"\M"
            if char in "bB":
                for name, meaning in _BOUNDS.items() if char == "b" else ():
                    if pattern.startswith(name, self.at):
                        self.at += len(name)
                        return meaning
                return "\\" + char
        raise self.fail("unrecognized escape sequence", at)

    def code(self, at: int, kind: str) -> str:
        match = _HEX.match(self.pattern, self.at)
        digits = match[1] if match else self.pattern[self.at : self.at + _DIGITS[kind]]
        self.at = match.end() if match else self.at + _DIGITS[kind]
        try:
            code = int(digits, 16) if len(digits) == _DIGITS[kind] or match else -1
        except ValueError:
            code = -1
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise self.fail("this is not a hexadecimal character code", at)
        if code == 10 and not self.multiline:
            raise self.fail(LINE_BREAK, at)
        return re.escape(chr(code))

    def property(self, at: int, kind: str) -> str:
        end = self.pattern.find("}", self.at) + 1 if self.pattern.startswith("{", self.at) else self.at + 1
        name = self.pattern[self.at : end].strip("{}")
        if not end or not name:
            raise self.fail("a Unicode class without a name", at)
        self.at = end
        return f"\\{kind}{{{name}}}"

    def bracket(self) -> str:
        """A class of characters, classes inside it included."""
        start = self.at
        parts = ["["]
        self.at += 1
        if self.pattern.startswith("^", self.at):
            parts.append("^")
            self.at += 1
        first = True
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            if char == "]" and not first:
                self.at += 1
                return "".join([*parts, "]"])
            first = False
            if char == "\\":
                parts.append(self.escape(inside=True))
            elif char == "[":
                named = re.compile(r"\[:\^?[a-z]+:\]").match(self.pattern, self.at)
                parts.append(named[0] if named else self.bracket())
                self.at = named.end() if named else self.at
            else:
                parts.append("\\" + char if char in "]|#^" or char.isspace() else char)
                self.at += 1
        raise self.fail("unclosed character class", start)
