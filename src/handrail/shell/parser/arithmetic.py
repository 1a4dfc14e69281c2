"""Arithmetic: what bash evaluates as an expression, and whether doing so can run code or set a variable.

Bash evaluates the value of every variable that an expression names, and expands a `$(...)` in a subscript of it, even
of one that was quoted. So an expression is proven only if it is made of numbers, operators, and variables that hold
numbers; anything else in it is a doubt. Which variables hold numbers is known when the whole script has been read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from handrail.shell.parser.findings import Found
from handrail.shell.parser.words import Part

INTEGER = re.compile(r"[+-]?[0-9]+|")
"""A value that bash evaluates to a number and nothing else; an empty one is zero."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ELEMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[(?:[0-9]+|[@*])\])?")
"""A variable, or an element of an array whose subscript is a number."""
SHELL_NUMBERS = frozenset(("RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "LINENO", "BASHPID", "PPID", "UID", "EUID"))
"""Variables to which bash itself gives numbers, as long as no script assigns to them."""
NUMERIC = re.compile(
    r"RANDOM|SRANDOM|SECONDS|EPOCH.*|LINENO|BASHPID|PPID|UID|EUID|HISTCMD|OPTIND|OPTERR|SHLVL|BASH_SUBSHELL|COMP_.*"
    r"|READLINE_.*|COLUMNS|LINES|HIST.*SIZE|TMOUT|MAILCHECK|FUNCNEST|IGNOREEOF|CHILD_MAX"
)
"""Variables that bash may take for numbers: a value that is assigned to one of them may be evaluated."""
SHELL_TEXTS = re.compile(r"_|REPLY|OPTARG|MAPFILE|DIRSTACK|PIPESTATUS|FUNCNAME|GROUPS|COPROC.*|BASH.*|HOST.*|OSTYPE")
"""Variables that bash sets to texts of its own, whatever a script assigns to them."""

SAFE = re.compile(r"\$[#?$!]|\$\{[#?$!]\}|\$\{#[A-Za-z_][A-Za-z0-9_]*(?:\[[@*0-9]+\])?\}|\$\{#[@*]\}")
VARIABLE = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)(?:\[[0-9]+\])?\})")
_PUT_IN = "\0"
_TOKENS = re.compile(
    rf"(?:[\s{_PUT_IN}]|[0-9][0-9A-Za-z_#@]*+|[A-Za-z_][A-Za-z0-9_]*+|\[@\]|[-+*/%<>=!&|^~?:;,()\[\]])*+"
)
_NAMES = re.compile(r"(?<![0-9A-Za-z_#@])[A-Za-z_][A-Za-z0-9_]*")
_SETS = re.compile(
    r"(?:\+\+|--)\s*(?P<before>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?<![0-9A-Za-z_#@])(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*(?:\+\+|--|(?:<<|>>|[-+*/%&^|])?=(?!=))"
)
_GLUED = re.compile(rf"(?<![\w@#])[0-9]+#{_PUT_IN}|[\w@#]{_PUT_IN}")
"""Something put in right behind a name makes another name of it; behind `10#` it is only digits."""

ODD = "a text that is not a plain expression of numbers is evaluated"
COMPUTED = "the output of a command is evaluated as an arithmetic expression"


def evaluate(parts: Iterable[Part], found: Found) -> None:
    """Note what an expression names, sets, and may run."""
    flat = ""
    for part in parts:
        if part.kind in ("text", "glob"):
            flat += part.text
            continue
        flat += _PUT_IN
        if part.kind == "variable" and (variable := VARIABLE.fullmatch(part.text)):
            found.arithmetic.add(variable[1] or variable[2])
        elif part.kind in ("command", "process"):
            found.doubt(COMPUTED)
        elif part.kind != "arithmetic" and not SAFE.fullmatch(part.text):
            found.doubt(f"the value of {part.text} is evaluated, and is not known to be a number")
    if not _TOKENS.fullmatch(flat) or any(glued[0][-2] != "#" for glued in _GLUED.finditer(flat)):
        found.doubt(ODD)
    found.arithmetic.update(_NAMES.findall(flat))
    found.counted.update(match["before"] or match["name"] for match in _SETS.finditer(flat))
