"""The grammar of bash: lists, pipelines, compound commands and simple ones, in the order in which bash reads them.

Everything that bash could run ends up as a simple command, whatever it stands in. A text that cannot be read to its end
leaves what was found until there, and the reason.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Self

from handrail.shell.parser.expansions import ExpansionParser, evaluate
from handrail.shell.parser.lexer import META, CannotParse, Draft, Findings, Here, Redirect
from handrail.shell.parser.script import (
    DECLARES,
    HEREDOCS,
    Assignment,
    Part,
    Span,
    Word,
    make_fixed_word,
)

_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|time|coproc|in|\]\]|\{|\}|!|\[\[)"
    r"(?=[ \t\n|&;()]|[<>](?!\()|$)"
)
_COPROC_NAME = re.compile(r"\w+[ \t]+(?=[{(])")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[A-Za-z0-9_$@*]*\])?(\+?=)")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[(?![^]\[ \t\n|&;()<>$`\\\"']*\](?!\+?=))")
"""A name and a bracket that bash reads to its end as one, blanks and all, where an assignment can stand."""
_NUMBERED = re.compile(r"\[[0-9]+\]\+?=")
_ODD_OVER_LINES = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*(\[|\+?=)|{_RESERVED.pattern}")
_REDIRECT = re.compile(r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<&|<>|>>|>&|>\||<(?!\()|>(?!\())|()(&>>|&>)")
_DESCRIPTOR = re.compile(r"[0-9]+-?|-")
_OPENERS = ("if", "for", "while", "until", "case", "select", "function", "{", "[[")
_FUNCTION = re.compile(r"([^ \t\n|&;()<>$`\\\"'=]+)[ \t]*\([ \t]*\)")
_FUNCTION_NAME = re.compile(r"([^ \t\n|&;()<>$`\\\"']+)(?:[ \t]*\([ \t]*\))?")
_EXPANDS = re.compile(r"[$`\\]")
_ENDS = rf"(?=[{META}]|$)"
_TIME_OPTION = re.compile(rf"-p{_ENDS}")
_END_OF_OPTIONS = re.compile(rf"--{_ENDS}")
_LOOP_VARIABLE = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*{_ENDS}")
_IN = re.compile(rf"in{_ENDS}")
_CLOSING_BRACKETS = re.compile(rf"\]\]{_ENDS}")
_COMPARES = ("-eq", "-ne", "-lt", "-le", "-gt", "-ge")
_JOINTS = ("(", ")", "<", ">", "&&", "||")


class SimpleCommandParser(ExpansionParser):
    """Parses simple commands: assignments, words, redirections and here-documents."""

    def __init__(self, text: str, findings: Findings, base: Span | None = None, within: tuple[str, ...] = ()) -> None:
        super().__init__(text, findings, base)
        self.within = within
        self._lines: list[int] = []

    def make_span(self, start: int, end: int) -> Span:
        if self.base is not None:
            return self.base
        if not self._lines:
            self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._lines, start)
        return Span(start, end, line, start - self._lines[line - 1] + 1)

    def read_required_word(self, *, braces: bool = True) -> list[Word]:
        start = self.at
        words = self.read_word(braces=braces)
        if self.at == start:
            self.fail_at_position()
        return words

    def parse_simple_command(self) -> None:
        start = self.at
        draft = Draft(self.make_span(start, start), self.within)
        declares = False
        while True:
            self.skip_blanks()
            if self.parse_redirection(draft):
                continue
            if (not draft.words or declares) and self._parse_assignment(draft, declares):
                continue
            before = self.at
            words = self.read_word()
            if self.at == before:
                break
            if self.text[before] == "{" and self.text[self.at - 1] == "}" and self.peek() in ("<", ">"):
                raise CannotParse("a descriptor is kept in an element of an array")
            if self.peek() in ("<", ">") and self.text[before : self.at].endswith("\\\n"):
                raise CannotParse("a redirection over two lines")
            if not draft.words and words:
                if "\\\n" in words[0].source and _ODD_OVER_LINES.match("".join(part.text for part in words[0].parts)):
                    raise CannotParse("a keyword or an assignment over two lines")
                declares = words[0].fixed in DECLARES
            draft.words.extend(words)
        if not draft.words and not draft.assignments and not draft.redirects:
            self.fail_at_position()
        if self.peek() == "(":
            self.fail_at_position()
        draft.where = self.make_span(start, self.at)
        self.findings.drafts.append(draft)

    def _parse_assignment(self, draft: Draft, declares: bool) -> bool:
        """An assignment in front of a command, or one with a list behind `declare` and its like."""
        match = _ASSIGNMENT.match(self.text, self.at)
        if not match:
            if _SUBSCRIPT.match(self.text, self.at):
                raise CannotParse("an assignment to a computed element of an array")
            return False
        if match[2]:
            evaluate(self.start_parser(match[2], "").read_parts(), self.findings)
        if self.text[match.end() : match.end() + 1] == "(":
            if match[2]:
                self.fail("a list cannot be assigned to an element", match.end())
            if self.inside:
                # Bash forgets, behind the substitution, that a command has begun.
                raise CannotParse("a list of values in a substitution")
            self.at = match.end() + 1
            values: list[Word] = []
            while True:
                self.skip_blanks(lines=True)
                if self.peek() == ")":
                    break
                values.extend(self._parse_element())
            self.at += 1
            if self.at < len(self.text) and self.peek() not in META:
                raise CannotParse("something right behind a list of values")
            draft.assignments.append(Assignment(match[1], tuple(values), array=True))
            if declares:
                draft.words.append(make_fixed_word(match[1]))
            return True
        if declares:
            return False
        self.at = match.end()
        words = self.read_word(braces=False, value=True)
        value = words[0] if words else Word((), "")
        draft.assignments.append(Assignment(match[1], (value,)))
        return True

    def _parse_element(self) -> list[Word]:
        """A value of a list. The subscript in front of one is evaluated, and must be a number."""
        start = self.at
        words = self.read_required_word()
        if self.text[start] == "[" and not _NUMBERED.match(self.text, start):
            self.findings.add_doubt("an element of an array is computed")
        return words

    def parse_redirections(self, draft: Draft) -> None:
        self.skip_blanks()
        while self.parse_redirection(draft):
            self.skip_blanks()

    def parse_redirection(self, draft: Draft) -> bool:
        match = _REDIRECT.match(self.text, self.at)
        if not match:
            return False
        self.step()
        self.at = match.end()
        descriptor, operator = match[1] or "", match[2] or match[4]
        if self.peek(2) == "\\\n":
            raise CannotParse("an operator over two lines")
        self.skip_blanks()
        target: Word | Here
        if operator in HEREDOCS:
            target = self.parse_here_delimiter(tabs=operator == "<<-")
        else:
            if operator not in ("<&", ">&") and _REDIRECT.match(self.text, self.at):
                self.fail_at_position()
            words = self.read_required_word()
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
            self._read_body(here)

    def parse_here_delimiter(self, *, tabs: bool) -> Here:
        """The delimiter of a here-document; its body begins behind the next line break."""
        start = self.at
        parts = self.read_parts()
        if self.at == start:
            self.fail_at_position()
        if any(part.kind != "text" for part in parts) or "$" in self.text[start : self.at]:
            raise CannotParse("the delimiter of a here-document is not a plain word")
        here = Here("".join(part.text for part in parts), any(part.quoted for part in parts), tabs)
        if "\n" in here.delimiter:
            raise CannotParse("the delimiter of a here-document is not a plain word")
        self.pending.append(here)
        return here

    def _read_body(self, here: Here) -> None:
        start = self.at
        rows: list[str] = []
        while self.at < len(self.text):
            row = self._read_body_line(joined=not here.quoted)
            line = row.lstrip("\t") if here.tabs else row
            if line == here.delimiter:
                here.body = self._parse_body_word("".join(rows), here.quoted)
                return
            if self.inside and line.startswith(here.delimiter):
                raise CannotParse("a here-document in a substitution that may end in the middle of a line")
            rows.append(line + "\n")
        self.at = start
        raise CannotParse("a here-document without its end")

    def _read_body_line(self, *, joined: bool) -> str:
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

    def _parse_body_word(self, text: str, quoted: bool) -> Word:
        if quoted or not _EXPANDS.search(text):
            return Word((Part("text", text, True),), text)
        return Word(tuple(self.start_parser(text, "heredoc").read_double_quoted(heredoc=True)), text)


class Parser(SimpleCommandParser):
    """Parses one text, with the constructs around simple commands. All nested parsers share their findings."""

    def start_parser(self, text: str, kind: str) -> Self:
        return type(self)(text, self.findings, self.make_span(self.at, self.at), (*self.within, kind))

    def parse_commands(self, closer: str, kind: str) -> int:
        outer = self.within
        self.within = (*outer, kind) if kind else outer
        count = self.parse_statements((), closer=closer, empty=True)
        self.within = outer
        if not closer and self.at < len(self.text):
            self.fail_at_position()
        return count

    # -- lists and pipelines

    def parse_statements(self, stops: tuple[str, ...], *, closer: str = "", empty: bool = False) -> int:
        """Commands up to a keyword, a parenthesis or the end, which are left where they are. Returns their number."""
        count = 0
        while True:
            self.skip_blanks(lines=True)
            if self._at_end(stops, closer):
                break
            first = len(self.findings.drafts)
            self.parse_and_or()
            count += 1
            self.skip_blanks()
            char = self.peek()
            if char == "&":
                if self.peek(2) == "&\\":
                    raise CannotParse("an operator over two lines")
                for draft in self.findings.drafts[first:]:
                    self._wrap(draft, "background")
                self.at += 1
            elif char == ";" and self.peek(2) not in (";;", ";&"):
                if self.peek(2) == ";\\":
                    raise CannotParse("an operator over two lines")
                self.at += 1
            elif char == "\n":
                continue
            elif not self._at_end((), closer) and not (char == ";" and ";;" in stops):
                self.fail_at_position()
        if not count and not empty:
            self.fail_at_position()
        return count

    def _at_end(self, stops: tuple[str, ...], closer: str) -> bool:
        if self.at >= len(self.text):
            return True
        if closer and self.peek() == closer:
            return True
        if ";;" in stops and self.peek(2) in (";;", ";&"):
            return True
        return bool(stops) and self.read_reserved_word() in stops

    def _wrap(self, draft: Draft, kind: str) -> None:
        depth = len(self.within)
        draft.within = (*draft.within[:depth], kind, *draft.within[depth:])

    def read_reserved_word(self) -> str:
        match = _RESERVED.match(self.text, self.at)
        return match.group() if match else ""

    def parse_and_or(self) -> None:
        while True:
            self.parse_pipeline()
            self.skip_blanks()
            if self.peek(2) not in ("&&", "||"):
                return
            self.at += 2
            self.skip_blanks(lines=True)

    def parse_pipeline(self) -> None:
        while (word := self.read_reserved_word()) in ("!", "time"):
            self.at += len(word)
            self.skip_blanks()
            if word == "time":
                for option in (_TIME_OPTION, _END_OF_OPTIONS):
                    if option.match(self.text, self.at):
                        self.at += 2
                        self.skip_blanks()
            if self.at >= len(self.text) or self.peek() in "\n;&)":
                return  # `time` and `!` alone are commands
            if word == "time" and self.inside and (self.read_reserved_word() or self.peek() == "("):
                # Bash looks for the end of a substitution with `time` as a plain word: `$(time case a in x)` ends here.
                raise CannotParse("a compound command behind time in a substitution")
        first = len(self.findings.drafts)
        outer = self.within
        self.parse_command()
        count = 1
        while True:
            self.skip_blanks()
            if self.peek(2) == "|\\":
                raise CannotParse("an operator over two lines")
            if self.peek() != "|" or self.peek(2) == "||":
                break
            self.at += 2 if self.peek(2) == "|&" else 1
            self.skip_blanks(lines=True)
            self.within = (*outer, "piped")
            self.parse_command()
            count += 1
        self.within = outer
        if count > 1:
            for draft in self.findings.drafts[first:]:
                self._wrap(draft, "pipeline")

    # -- compound commands

    def parse_command(self) -> None:
        word = self.read_reserved_word()
        if self.peek() == "(":
            self.parse_compound("")
        elif word in _OPENERS:
            self.parse_compound(word)
        elif word == "coproc":
            self.findings.add_doubt("a coprocess")
            self.at += len(word)
            self.skip_blanks()
            if name := _COPROC_NAME.match(self.text, self.at):
                self.at = name.end()
            self.parse_command()
        elif word and word != "time":  # behind a pipe it is the program of that name
            self.fail_at_position()
        elif (match := _FUNCTION.match(self.text, self.at)) and not _ASSIGNMENT.match(self.text, self.at):
            self.at = match.end()
            self._parse_function(match[1])
        else:
            self.parse_simple_command()

    def parse_compound(self, word: str) -> None:
        """A compound command with its redirections."""
        start = self.at
        self.enter()
        outer = self.within
        if word == "function":
            self.at += len(word)
            self.skip_blanks()
            match = _FUNCTION_NAME.match(self.text, self.at)
            if not match:
                self.fail_at_position()
            self.at = match.end()
            self._parse_function(match[1])
            self.leave()
            return
        draft = Draft(self.make_span(start, start), outer)
        if word == "[[":
            self._test(draft)
        elif not word and self.peek(2) == "((" and self.parse_arithmetic_command():
            draft.words = [
                make_fixed_word("(("),
                make_fixed_word(self.text[start + 2 : self.at - 2]),
                make_fixed_word("))"),
            ]
        else:
            self.at += max(1, len(word))
            if word in ("for", "select"):
                self._parse_for(outer)
            elif word == "case":
                self._parse_case(outer)
            else:
                self._parse_plain(word, outer)
        self.within = outer
        self.parse_redirections(draft)
        draft.where = self.make_span(start, self.at)
        if draft.words or draft.redirects:
            self.findings.drafts.append(draft)
        self.leave()

    def _parse_plain(self, word: str, outer: tuple[str, ...]) -> None:
        """Parse compound commands in which keywords and lists alternate."""
        if not word:
            self.within = (*outer, "subshell")
            self.parse_statements((), closer=")")
            self._expect(")")
        elif word == "{":
            self.within = (*outer, "group")
            self.parse_statements(("}",))
            self._expect("}")
        elif word == "if":
            self.within = (*outer, "if")
            self.parse_statements(("then",))
            self._expect("then")
            self.parse_statements(("elif", "else", "fi"))
            while self.read_reserved_word() == "elif":
                self._expect("elif")
                self.parse_statements(("then",))
                self._expect("then")
                self.parse_statements(("elif", "else", "fi"))
            if self.read_reserved_word() == "else":
                self._expect("else")
                self.parse_statements(("fi",))
            self._expect("fi")
        else:
            self.within = (*outer, "while")
            self.parse_statements(("do",))
            self._loop_body()

    def _expect(self, word: str) -> None:
        if word == ")":
            if self.peek() != ")":
                self.fail_at_position()
        elif self.read_reserved_word() != word:
            self.fail_at_position()
        self.at += len(word)

    def _loop_body(self) -> None:
        self._expect("do")
        self.parse_statements(("done",))
        self._expect("done")

    def _parse_for(self, outer: tuple[str, ...]) -> None:
        self.skip_blanks()
        self.within = (*outer, "for")
        if self.peek(2) == "((":
            if not self.parse_arithmetic_command():
                self.fail_at_position()
            self.skip_blanks()
            if self.peek() == ";":
                self.at += 1
        else:
            match = _LOOP_VARIABLE.match(self.text, self.at)
            if not match:
                raise CannotParse("the variable of a loop is not a plain name")
            self.at = match.end()
            self.skip_blanks(lines=True)
            values: list[Word] | None = None
            if _IN.match(self.text, self.at):
                self.at += 2
                values = []
                self.skip_blanks()
                while self.at < len(self.text) and self.peek() not in ";\n&":
                    values.extend(self.read_required_word())
                    self.skip_blanks()
            if self.peek() == "&":
                self.fail_at_position()
            if self.peek() == ";":
                self.at += 1
            positional = Word((Part("variable", '"$@"', True),), "")
            name = Assignment(match.group(), tuple([positional] if values is None else values), array=True)
            self.findings.drafts.append(Draft(self.make_span(match.start(), self.at), self.within, [], [name]))
        self.skip_blanks(lines=True)
        if self.read_reserved_word() == "{":
            self._expect("{")
            self.parse_statements(("}",))
            self._expect("}")
        else:
            self._loop_body()

    def _parse_case(self, outer: tuple[str, ...]) -> None:
        self.within = (*outer, "case")
        self.skip_blanks()
        self.read_required_word(braces=False)
        self.skip_blanks(lines=True)
        if not _IN.match(self.text, self.at):
            self.fail_at_position()
        self.at += 2
        while True:
            self.skip_blanks(lines=True)
            if self.read_reserved_word() == "esac":
                break
            if self.peek() == "(":
                self.at += 1
                self.skip_blanks()
            while True:
                self.read_required_word(braces=False)
                self.skip_blanks()
                if self.peek() != "|":
                    break
                self.at += 1
                self.skip_blanks()
            self._expect(")")
            self.parse_statements(("esac", ";;"), empty=True)
            if self.peek(3) == ";;&":
                self.at += 3
            elif self.peek(2) in (";;", ";&"):
                self.at += 2
            else:
                break
        self._expect("esac")

    def _parse_function(self, name: str) -> None:
        self.findings.functions.append(name)
        outer = self.within
        self.skip_blanks(lines=True)
        word = self.read_reserved_word()
        if self.peek() != "(" and (word not in _OPENERS or word == "function"):
            self.fail_at_position()
        self.within = (*outer, "function")
        self.parse_compound(word)
        self.within = outer

    def _test(self, draft: Draft) -> None:
        """`[[ ... ]]`: its words are known, and nothing in it runs but substitutions."""
        draft.words.append(make_fixed_word("[["))
        self.at += 2
        pattern = False
        while True:
            self.skip_blanks(lines=True)
            if _CLOSING_BRACKETS.match(self.text, self.at):
                break
            if self.peek(2) in ("&&", "||"):
                draft.words.append(make_fixed_word(self.peek(2)))
                self.at += 2
            elif not pattern and self.peek() in ("(", ")", "<", ">") and self.peek(2) not in ("<(", ">("):
                draft.words.append(make_fixed_word(self.peek()))
                self.at += 1
            elif self.at >= len(self.text) or self.peek() in ";&|":
                self.fail_at_position()
            else:
                words = self.read_word(braces=False, pattern=pattern)
                if not words:
                    self.fail_at_position()
                draft.words.extend(words)
                pattern = words[0].bare in ("=~", "==", "=", "!=")
                continue
            pattern = False
        if len(draft.words) == 1:
            self.fail_at_position()
        draft.words.append(make_fixed_word("]]"))
        self.at += 2
        self._find_evaluated(draft.words)

    def _find_evaluated(self, words: list[Word]) -> None:
        """The operands of numeric comparisons are arithmetic expressions, quoted or not."""
        for index, word in enumerate(words):
            if word.bare in _COMPARES:
                for operand in words[max(0, index - 1) : index + 2 : 2]:
                    if operand.fixed in _JOINTS:
                        raise CannotParse("a comparison without its operands")
                    evaluate(operand.parts, self.findings)
