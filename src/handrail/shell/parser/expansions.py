"""Expansions: `$name`, `${...}`, `$((...))`, `$(...)` and backticks, by the rules of bash."""

from __future__ import annotations

import re
from collections.abc import Iterable

from handrail.shell.parser.lexer import CannotParse, Findings, Here, Lexer
from handrail.shell.parser.script import Kind, Part, decode_ansi_c

_PLAIN_IN_PARAMETER = re.compile(r"[^\\'\"$`}<>]+")
_PLAIN_IN_ARITHMETIC = re.compile(r"[^\\'\"$`()\[\]]+")
_EASY_PARAMETER = re.compile(r"#?[A-Za-z_0-9]+(?:\[[@*0-9]+\])?\}|[#?@*$!-]\}")
_DEFAULT = re.compile(r"(?:[A-Za-z_0-9]+(?:\[[@*0-9]+\])?|[#?@*$-])(?::?[-=+?]|##?|%%?|//?[#%]?|\^\^?|,,?)")
_LISTS = re.compile(
    r"(?:![A-Za-z_][A-Za-z0-9_]*(?:[*@]|\[[@*]\])|(?:[A-Za-z_0-9]+(?:\[[@*0-9]+\])?|[@*])@[QEPAKakuUL])(?=\})"
)
"""The names of variables, the subscripts of an array, a value written in another way: no arithmetic.

Only up to the brace: with anything behind it, `${!name@Q}` and `${!name[@]:0}` are indirections.
"""
_PARAMETER = re.compile(r"#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])")
"""The parameter in front of a subscript or an offset; its own value is not evaluated."""
_UNPAIRED = re.compile(r"[#`]|<<|\bcase\b")
"""In commands with one of these, a parenthesis may stand alone."""
_SPECIAL = "@*#?-$!0123456789"

# Bash evaluates the value of every variable that an arithmetic expression names, and expands a `$(...)` in a subscript
# of it, even of one that was quoted. So an expression is proven only if it is made of numbers and operators.
INTEGER = re.compile(r"[+-]?[0-9]+|")
"""A value that bash evaluates to a number and nothing else; an empty one is zero."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(?:[0-9]+|[@*])\])?")
"""A variable, or an element of an array whose subscript is a number."""
NUMERIC = re.compile(
    r"RANDOM|SRANDOM|SECONDS|EPOCH.*|LINENO|BASHPID|PPID|UID|EUID|HISTCMD|OPTIND|OPTERR|SHLVL|BASH_SUBSHELL|COMP_.*"
    r"|READLINE_.*|COLUMNS|LINES|HIST.*SIZE|TMOUT|MAILCHECK|FUNCNEST|IGNOREEOF|CHILD_MAX"
)
"""Variables that bash may take for numbers: a value that is assigned to one of them may be evaluated."""
COUNT = re.compile(r"\$[#?$!]|\$\{#[A-Za-z_]\w*\}")
"""Expansions that bash gives numbers."""
_NUMBERS = re.compile(r"(?:[\s0-9@]|[-+*/%<>=!&|^~?:;,()\[\]])*")
EVALUATES = "bash evaluates a variable or a text, which may not be a number"


def evaluate(parts: Iterable[Part], findings: Findings) -> None:
    """Note a doubt about an arithmetic expression that is not made of numbers alone."""
    proven = (
        part.kind == "arithmetic" or COUNT.fullmatch(part.text) or _NUMBERS.fullmatch(part.text) for part in parts
    )
    if not all(proven):
        findings.add_doubt(EVALUATES)


class ExpansionParser(Lexer):
    """Reads expansions; the commands in them are known to the grammar."""

    def parse_dollar(self, *, quoted: bool) -> list[Part]:
        """Parse an expansion that begins with `$`."""
        start = self.at
        self.at += 1
        char = self.peek()
        if self.peek(2) == "\\\n":
            raise CannotParse("a line continued right behind a $")
        kind: Kind = "variable"
        if char == "(":
            kind = self._parse_parenthesis()
        elif char == "{":
            self.at += 1
            self._parse_parameter(quoted)
        elif char == "[":
            self.at += 1
            if not self._parse_arithmetic("]"):
                self.fail("an arithmetic expansion that is not closed", start)
            kind = "arithmetic"
        elif char == "'" and not quoted:
            return [self._parse_ansi_c(start)]
        elif char == '"' and not quoted:
            self.at += 1
            return self.read_double_quoted()
        elif match := NAME.match(self.text, self.at):
            self.at = match.end()
        elif char and char in _SPECIAL:
            self.at += 1
        else:
            return [Part("text", "$", True)]
        return [Part(kind, self.text[start : self.at], quoted)]

    def _parse_ansi_c(self, start: int) -> Part:
        end = self.at + 1
        while end < len(self.text) and self.text[end] != "'":
            end += 2 if self.text[end] == "\\" else 1
        if end >= len(self.text):
            self.fail("a single quote that is not closed", start)
        text = decode_ansi_c(self.text[self.at + 1 : end])
        self.at = end + 1
        return Part("escape", self.text[start : self.at], True) if text is None else Part("text", text, True)

    def _parse_parenthesis(self) -> Kind:
        """`$((...))` or `$(...)`; the first if it can be, as bash does."""
        start, doubled = self.at, self.peek(2) == "(("
        if doubled and self.parse_arithmetic_command():
            return "arithmetic"
        self.at += 1
        self._parse_commands("substitution")
        if doubled and _UNPAIRED.search(self.text, start, self.at):
            # Bash has counted parentheses by then, those in comments and patterns too, and takes the text up to there.
            raise CannotParse("a substitution that begins like arithmetic")
        return "command"

    def process(self) -> Part:
        start = self.at
        self.at += 2
        self._parse_commands("process")
        return Part("process", self.text[start : self.at])

    def _parse_commands(self, kind: str) -> None:
        """The commands of a substitution, and its closing parenthesis."""
        self.enter()
        start = self.at - 1
        pending, held = self.pending, self.held
        self.pending, self.held = [], held or bool(pending)
        self.inside += 1
        first = len(self.findings.drafts)
        statements = self.parse_commands(")", kind)
        if self.pending:
            raise CannotParse("a here-document that begins in a substitution and has no body there")
        drafts = self.findings.drafts[first:]
        if any(isinstance(redirect.target, Here) for draft in drafts for redirect in draft.redirects) and (
            statements > 1 or any(draft.within[-1:] != (kind,) for draft in drafts)
        ):
            # Bash writes the commands of a substitution anew, and loses operators behind a here-document.
            raise CannotParse("a here-document and other commands in a substitution")
        self.inside -= 1
        self.pending, self.held = pending, held
        if self.peek() != ")":
            if self.at >= len(self.text):
                self.fail("a substitution that is not closed", start)
            self.fail_at_position()
        self.at += 1
        self.leave()

    def parse_backtick(self, *, quoted: bool) -> Part:
        start = self.at
        out: list[str] = []
        self.at += 1
        while self.peek() != "`":
            char = self.peek()
            if not char:
                self.fail("a backtick that is not closed", start)
            if char == "\\":
                following = self.peek(2)[1:]
                if following == "\n":
                    raise CannotParse("a continued line in backticks")
                escapable = '$`\\"' if quoted else "$`\\"
                out.append(following if following and following in escapable else char + following)
                self.at += 2
            else:
                out.append(char)
                self.at += 1
        self.at += 1
        if "\n" in self.text[start : self.at] and (self.pending or self.held):
            raise CannotParse("a here-document goes on inside a substitution")
        self.enter()
        self.start_parser("".join(out), "substitution").parse_commands("", "")
        self.leave()
        return Part("command", self.text[start : self.at], quoted)

    def _parse_parameter(self, quoted: bool) -> None:
        """Past `${...}`, behind its brace."""
        start = self.at
        if match := _EASY_PARAMETER.match(self.text, self.at):
            self.at = match.end()
            return
        if self.peek() in " \t\n|":
            raise CannotParse("a command group inside ${ }")
        self.enter()
        plain = _DEFAULT.match(self.text, self.at) or _LISTS.match(self.text, self.at)
        parts: list[Part] = []
        while (char := self.peek()) != "}":
            before = self.at
            if match := _PLAIN_IN_PARAMETER.match(self.text, self.at):
                self.at = match.end()
            elif not char:
                self.fail("a parameter expansion that is not closed", start - 2)
            elif char == "\\":
                self.at += 2
            elif char == "'":
                if quoted:
                    raise CannotParse("a single quote in a parameter expansion in double quotes")
                self._read_single_quoted()
            elif char == '"':
                self.at += 1
                self.read_double_quoted()
            elif char == "$":
                parts.extend(self.parse_dollar(quoted=quoted))
                continue
            elif char == "`":
                parts.append(self.parse_backtick(quoted=quoted))
                continue
            elif self.peek(2)[1:] == "(":
                raise CannotParse("a process substitution in a parameter expansion")
            else:
                self.at += 1
            parts.append(Part("text", self.text[before : self.at]))
        if self.text[start : self.at].endswith("@P"):
            self.findings.add_doubt("a value is expanded as a prompt, which runs commands in it")
        if plain and plain.group().endswith("="):
            self.findings.defaulted.update(NAME.findall(plain.group()))
        if not plain:
            self._evaluate_subscript(parts)
        self.at += 1
        self.leave()

    def _evaluate_subscript(self, parts: list[Part]) -> None:
        """A subscript, an offset or a length: arithmetic. An indirection expands the text that a variable holds."""
        if parts and parts[0].kind == "text":
            first = parts[0].text
            if first.startswith("!"):
                self.findings.add_doubt("a variable is used whose name is the value of another one")
            begins = _PARAMETER.match(first)
            parts = [Part("text", first[begins.end() if begins else 0 :]), *parts[1:]]
        evaluate(parts, self.findings)

    def _parse_arithmetic(self, closer: str) -> bool:
        """Parse an expression and its closer; False if it is not closed, and so something else."""
        depth = 0
        opens, closes = ("[", "]") if closer == "]" else ("(", ")")
        parts: list[Part] = []
        self.enter()
        while self.at < len(self.text):
            self.step()
            char = self.peek()
            if depth == 0 and self.peek(len(closer)) == closer:
                self.at += len(closer)
                self.leave()
                evaluate(parts, self.findings)
                return True
            if char == closes and depth == 0:
                break
            if match := _PLAIN_IN_ARITHMETIC.match(self.text, self.at):
                parts.append(Part("text", match.group()))
                self.at = match.end()
            elif char == "$":
                parts.extend(self.parse_dollar(quoted=True))
            elif char == "`":
                raise CannotParse("a backtick in an arithmetic expression")
            elif char in "\\'\"":
                raise CannotParse("a quote in an arithmetic expression")
            else:
                depth += (char == opens) - (char == closes)
                parts.append(Part("text", char))
                self.at += 1
        self.leave()
        return False

    def parse_arithmetic_command(self) -> bool:
        """Past `((...))`, if this is one."""
        start, mark = self.at, self.findings.mark()
        self.at += 2
        if self._parse_arithmetic("))"):
            return True
        self.findings.back_to(mark)
        self.at = start
        return False
