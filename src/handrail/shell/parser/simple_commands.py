"""Simple commands: assignments, words, redirections and here-documents, as bash reads them."""

from __future__ import annotations

import re
from bisect import bisect_right

from handrail.shell.parser.expansions import ExpansionParser, evaluate
from handrail.shell.parser.lexer import META, CannotParse, Draft, Findings, Here, Redirect
from handrail.shell.parser.script import HEREDOCS, Assignment, Part, Span, Word, fixed_word

RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|time|coproc|in|\]\]|\{|\}|!|\[\[)"
    r"(?=[ \t\n|&;()]|[<>](?!\()|$)"
)
ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[A-Za-z0-9_$@*]*\])?(\+?=)")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[(?![^]\[ \t\n|&;()<>$`\\\"']*\](?!\+?=))")
"""A name and a bracket that bash reads to its end as one, blanks and all, where an assignment can stand."""
_NUMBERED = re.compile(r"\[[0-9]+\]\+?=")
_ODD_OVER_LINES = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*(\[|\+?=)|{RESERVED.pattern}")
_REDIRECT = re.compile(r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<&|<>|>>|>&|>\||<(?!\()|>(?!\())|()(&>>|&>)")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_DECLARES = ("declare", "typeset", "local", "export", "readonly")


class SimpleCommandParser(ExpansionParser):
    """Parses simple commands; the grammar parses the constructs around them."""

    def __init__(self, text: str, findings: Findings, base: Span | None = None, within: tuple[str, ...] = ()) -> None:
        super().__init__(text, findings, base)
        self.within = within
        self._lines: list[int] = []

    def span(self, start: int, end: int) -> Span:
        if self.base is not None:
            return self.base
        if not self._lines:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, start)
        return Span(start, end, line, start - self._lines[line - 1] + 1)

    def required(self, *, braces: bool = True) -> list[Word]:
        start = self.at
        words = self.word(braces=braces)
        if self.at == start:
            self.unexpected()
        return words

    def simple(self) -> None:
        start = self.at
        draft = Draft(self.span(start, start), self.within)
        declares = False
        while True:
            self.blanks()
            if self.redirection(draft):
                continue
            if (not draft.words or declares) and self._assignment(draft, declares):
                continue
            before = self.at
            words = self.word()
            if self.at == before:
                break
            if self.text[before] == "{" and self.text[self.at - 1] == "}" and self.peek() in ("<", ">"):
                raise CannotParse("a descriptor is kept in an element of an array")
            if self.peek() in ("<", ">") and self.text[before : self.at].endswith("\\\n"):
                raise CannotParse("a redirection over two lines")
            if not draft.words and words:
                if "\\\n" in words[0].source and _ODD_OVER_LINES.match("".join(part.text for part in words[0].parts)):
                    raise CannotParse("a keyword or an assignment over two lines")
                declares = words[0].fixed in _DECLARES
            draft.words.extend(words)
        if not draft.words and not draft.assignments and not draft.redirects:
            self.unexpected()
        if self.peek() == "(":
            self.unexpected()
        draft.where = self.span(start, self.at)
        self.findings.drafts.append(draft)

    def _assignment(self, draft: Draft, declares: bool) -> bool:
        """An assignment in front of a command, or one with a list behind `declare` and its like."""
        match = ASSIGNMENT.match(self.text, self.at)
        if not match:
            if _SUBSCRIPT.match(self.text, self.at):
                raise CannotParse("an assignment to a computed element of an array")
            return False
        if match[2]:
            evaluate(self.parser_of(match[2], "").parts(), self.findings)
        if self.text[match.end() : match.end() + 1] == "(":
            if match[2]:
                self.fail("a list cannot be assigned to an element", match.end())
            if self.inside:
                # Bash forgets, behind the substitution, that a command has begun.
                raise CannotParse("a list of values in a substitution")
            self.at = match.end() + 1
            values: list[Word] = []
            while True:
                self.blanks(lines=True)
                if self.peek() == ")":
                    break
                values.extend(self._element())
            self.at += 1
            if self.at < len(self.text) and self.peek() not in META:
                raise CannotParse("something right behind a list of values")
            draft.assignments.append(Assignment(match[1], tuple(values), array=True, adds=match[3] == "+="))
            if declares:
                draft.words.append(fixed_word(match[1]))
            return True
        if declares:
            return False
        self.at = match.end()
        words = self.word(braces=False, value=True)
        value = words[0] if words else Word((), "")
        draft.assignments.append(Assignment(match[1], (value,), adds=match[3] == "+=" or bool(match[2])))
        return True

    def _element(self) -> list[Word]:
        """A value of a list. The subscript in front of one is evaluated, and must be a number."""
        start = self.at
        words = self.required()
        if self.text[start] == "[" and not _NUMBERED.match(self.text, start):
            self.findings.doubt("an element of an array is computed")
        return words

    def redirects(self, draft: Draft) -> None:
        self.blanks()
        while self.redirection(draft):
            self.blanks()

    def redirection(self, draft: Draft) -> bool:
        match = _REDIRECT.match(self.text, self.at)
        if not match:
            return False
        self.step()
        self.at = match.end()
        descriptor, operator = match[1] or "", match[2] or match[4]
        if self.peek(2) == "\\\n":
            raise CannotParse("an operator over two lines")
        self.blanks()
        target: Word | Here
        if operator in HEREDOCS:
            target = self.here(tabs=operator == "<<-")
        else:
            if operator not in ("<&", ">&") and _REDIRECT.match(self.text, self.at):
                self.unexpected()
            words = self.required()
            if len(words) != 1:
                raise CannotParse("the target of a redirection is not one word")
            target = words[0]
            if self.inside and operator in ("<&", ">&") and not _DESCRIPTOR.fullmatch(target.bare or ""):
                # Bash writes the commands of a substitution anew, and loses the quotes here.
                raise CannotParse("a descriptor that is no number in a substitution")
        draft.redirects.append(Redirect(operator, descriptor, target))
        return True

    def parse_bodies(self) -> None:
        pending, self.pending = self.pending, []
        for here in pending:
            self._body(here)

    def here(self, *, tabs: bool) -> Here:
        """The delimiter of a here-document; its body begins behind the next line break."""
        start = self.at
        parts = self.parts()
        if self.at == start:
            self.unexpected()
        if any(part.kind != "text" for part in parts) or "$" in self.text[start : self.at]:
            raise CannotParse("the delimiter of a here-document is not a plain word")
        here = Here("".join(part.text for part in parts), any(part.quoted for part in parts), tabs)
        if "\n" in here.delimiter:
            raise CannotParse("the delimiter of a here-document is not a plain word")
        self.pending.append(here)
        return here

    def _body(self, here: Here) -> None:
        start = self.at
        rows: list[str] = []
        while self.at < len(self.text):
            row = self._row(joined=not here.quoted)
            line = row.lstrip("\t") if here.tabs else row
            if line == here.delimiter:
                here.body = self._body_word("".join(rows), here.quoted)
                return
            if self.inside and line.startswith(here.delimiter):
                raise CannotParse("a here-document in a substitution that may end in the middle of a line")
            rows.append(line + "\n")
        self.at = start
        raise CannotParse("a here-document without its end")

    def _row(self, *, joined: bool) -> str:
        """The next line of a body; with continued lines joined to one."""
        out = ""
        while True:
            end = self.text.find("\n", self.at)
            row = self.text[self.at :] if end < 0 else self.text[self.at : end]
            self.at = len(self.text) if end < 0 else end + 1
            out += row
            if not joined or end < 0 or (len(row) - len(row.rstrip("\\"))) % 2 == 0:
                return out
            out = out[:-1]

    def _body_word(self, text: str, quoted: bool) -> Word:
        if quoted or not re.search(r"[$`\\]", text):
            return Word((Part("text", text, True),), text)
        return Word(tuple(self.parser_of(text, "heredoc").double(heredoc=True)), text)
