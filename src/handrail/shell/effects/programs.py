"""Programs inside of arguments, of sed, awk and jq: whether one can only print.

Only what is understood passes: a program that is not is taken for one that may write files or run commands.
"""

from __future__ import annotations

import re

_ADDRESS_END = re.compile(r"[IM]*")
_NUMBER = re.compile(r"[0-9]+(?:~[0-9]+)?|\$|[+~][0-9]+")
_PLAIN = "pPdDnNgGhHxlz="
_LABELS = re.compile(r"[btT:][ \t]*[A-Za-z0-9_]*[ \t]*(?=[;}\n]|$)")
_QUIT = re.compile(r"[qQ][ \t]*[0-9]*")
_S_FLAGS = re.compile(r"[gpiI0-9]*")
_AWK_ODD = re.compile(r"@|\b(?:system|getline|ENVIRON|PROCINFO|ARGV|ARGC|load|include|printf?[ \t]*\\)")
_AWK_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_JQ_ODD = re.compile(r"\$ENV|(?<![.\w$])(?:env|import|include)\b")


def sed_only_prints(program: str) -> bool:
    """Whether every command of a sed program is one that only edits and prints what passes through."""
    at = depth = 0
    while True:
        at = _past(program, at, " \t\n;")
        if at >= len(program):
            return depth == 0
        if program[at] == "}":
            depth -= 1
            at = _past(program, at + 1, " \t")
            if depth < 0:
                return False
            continue
        found = _sed_addresses(program, at)
        if found is None:
            return False
        at = found
        if program[at : at + 1] == "{":
            depth += 1
            at += 1
            continue
        after = _sed_command(program, at)
        if after is None:
            return False
        at = _past(program, after, " \t")
        if at < len(program) and program[at] not in ";}\n":
            return False


def _past(text: str, at: int, blanks: str) -> int:
    while at < len(text) and text[at] in blanks:
        at += 1
    return at


def _sed_addresses(program: str, at: int) -> int | None:
    """Past `1,5!` and its like."""
    for turn in range(2):
        if found := _NUMBER.match(program, at):
            at = found.end()
        elif program[at : at + 1] == "/":
            end = _delimited(program, at + 1, "/")
            if end is None:
                return None
            found = _ADDRESS_END.match(program, end)
            at = found.end() if found else end
        elif turn:
            return None
        else:
            break
        at = _past(program, at, " \t")
        if program[at : at + 1] != ",":
            break
        if turn:
            return None
        at = _past(program, at + 1, " \t")
    at = _past(program, at, " \t")
    while program[at : at + 1] == "!":
        at = _past(program, at + 1, " \t")
    return at


def _sed_command(program: str, at: int) -> int | None:
    letter = program[at : at + 1]
    if letter and letter in _PLAIN:
        return at + 1
    if found := _QUIT.match(program, at) or _LABELS.match(program, at):
        return found.end()
    if not letter or letter not in "sy":
        return None
    mark = program[at + 1 : at + 2]
    if not mark or mark in "\\\n \t;" or mark.isalnum():
        return None
    middle = _delimited(program, at + 2, mark)
    end = _delimited(program, middle, mark, pattern=False) if middle is not None else None
    if end is None:
        return None
    if letter == "y":
        return end
    found = _S_FLAGS.match(program, end)
    return found.end() if found else end


def _delimited(program: str, at: int, mark: str, *, pattern: bool = True) -> int | None:
    """Past the next delimiter. One inside of brackets ends the pattern for some seds and not for others: no answer."""
    start = at
    while at < len(program):
        if program[at] == "\\":
            at += 2
        elif program[at] == mark:
            text = program[start:at]
            return None if pattern and text.rfind("[") > text.rfind("]") else at + 1
        elif program[at] == "\n" and pattern:
            return None
        else:
            at += 1
    return None


def awk_only_prints(program: str) -> bool:
    """Whether an awk program neither runs anything nor writes or reads files of its own choice."""
    if _AWK_ODD.search(program):
        return False
    _, printing, after = program.partition("print")
    if not printing or not re.search(r"[>|]", after):
        return True
    # Strings can be told from the rest only where no slash can begin a regular expression.
    if "/" in program:
        return False
    plain = _AWK_STRING.sub("", program)
    after = plain.partition("print")[2].replace("||", "")
    return '"' not in plain and not re.search(r"[>|]", after)


def jq_only_prints(program: str) -> bool:
    """Whether a jq program leaves the environment and other files alone; it can never write."""
    return not _JQ_ODD.search(program)
