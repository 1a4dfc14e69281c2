"""Every way in which a command sets a variable: one list, which all checks go by.

`name=value` is only one of them. `read`, `printf -v`, `for`, `{name}<file`, `wait -p`, `unset` and others set variables
too. What an expansion sets (`${name:=x}`, `$((name=1))`) is noted where the expansion is read.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from handrail.shell.parser.expansions import ELEMENT, NAME, NUMERIC, SAFE, VARIABLE, evaluate
from handrail.shell.parser.lexer import Findings
from handrail.shell.parser.script import Command, Part, Word, make_fixed_word, make_unknown_word

DECLARES = ("declare", "typeset", "local", "export", "readonly")
_DECLARED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[0-9]+\])?\+?=")
_TAKES = {"read": "adinNptu", "mapfile": "dnOsucC", "readarray": "dnOsucC", "wait": "p"}
_FORMAT_SETS = re.compile(r"%[^A-Za-z%]*[hlLjzt]*n")
_COMPOUND = re.compile(r"\s*\(")
_TEXT = (make_unknown_word("(text)"),)


class SetVariable(NamedTuple):
    """A variable that is set, and the values that it may get; a number where there are none."""

    name: str
    values: tuple[Word, ...] = ()
    declared: bool = False
    """By `declare` or its like, which take a value in parentheses for a list and expand it."""


class Assignments(NamedTuple):
    """The variables that a command sets, the expressions that bash evaluates for that, and doubts."""

    direct: tuple[SetVariable, ...]
    """By `name=value`."""
    indirect: tuple[SetVariable, ...]
    evaluated: Findings
    arrays: frozenset[str]

    @property
    def sets(self) -> tuple[SetVariable, ...]:
        return (*self.direct, *self.indirect)


def find_assignments(run: Command) -> Assignments:
    """All that a command sets. Doubts and expressions are in `evaluated`."""
    findings = Findings()
    arrays: set[str] = set()
    direct = tuple(SetVariable(item.name, item.values) for item in run.assignments)
    arrays.update(item.name for item in run.assignments if item.array and run.within[-1:] != ("for",))
    held = [SetVariable(item.descriptor.strip("{}")) for item in run.redirections if item.descriptor.startswith("{")]
    indirect = (*held, *_find_set_by_command(run, findings, arrays))
    findings.arithmetic.update(item.name for item in (*direct, *indirect) if NUMERIC.fullmatch(item.name))
    return Assignments(direct, indirect, findings, frozenset(arrays))


def _find_set_by_command(run: Command, findings: Findings, arrays: set[str]) -> Iterator[SetVariable]:
    base, words = run.base or "", run.words[1:]
    if base in DECLARES:
        yield from _set_by_declare(base, words, findings, arrays, wrapped=bool(run.via))
    elif base in _TAKES:
        yield from _set_by_read(base, words, findings)
    elif base == "printf":
        yield from _set_by_printf(words, findings)
    elif base == "getopts":
        yield from (SetVariable("OPTARG", _TEXT), SetVariable("OPTIND"))
        yield from _set_by_name(base, words[1:2], findings, _TEXT)
    elif base == "unset":
        yield from _set_by_name(base, [word for word in words if word.fixed not in ("-v", "-f", "--")], findings)
    elif base == "let":
        for word in words:
            evaluate(word.parts, findings)
    elif base == "env":
        yield from _unset_by_env(words)
    elif base in ("test", "[", "[["):
        _check_test(base, words, findings)


def _set_by_name(
    base: str, words: Sequence[Word], findings: Findings, values: tuple[Word, ...] = ()
) -> Iterator[SetVariable]:
    """Variables that are named by whole words."""
    for word in words:
        element = ELEMENT.fullmatch(word.fixed) if word.fixed is not None else None
        if element is None:
            findings.add_doubt(f"the name of a variable that {base} sets is computed")
        else:
            yield SetVariable(element[1], values)


def _set_by_declare(
    base: str, words: Sequence[Word], findings: Findings, arrays: set[str], *, wrapped: bool
) -> Iterator[SetVariable]:
    """`declare` and its like; only where the shell sees `name=` by itself, the value is not split into words."""
    letters = "".join(word.fixed[1:] for word in words if word.fixed and word.fixed[0] in "-+")
    if "n" in letters and base != "export":
        findings.add_doubt(f"{base} gives a variable another name")
    for word in words:
        if word.fixed is not None and word.fixed[:1] in ("-", "+"):
            continue
        if word.splits and (wrapped or word.parts[0].quoted or any(p.quoted and "@" in p.text for p in word.parts)):
            findings.add_doubt(f"{base} may set more variables than are named")
        name = _DECLARED.match(_get_leading_text(word))
        if name is None:
            yield from _note(base, _set_by_name(base, [word], findings), letters, findings, arrays)
            continue
        yield from _note(base, [SetVariable(name[1], (_rest(word, name.end()),), True)], letters, findings, arrays)


def _note(
    base: str, sets: Iterator[SetVariable] | list[SetVariable], letters: str, findings: Findings, arrays: set[str]
) -> Iterator[SetVariable]:
    for item in sets:
        if "i" in letters:
            findings.arithmetic.add(item.name)
        if "a" in letters or "A" in letters:
            arrays.add(item.name)
        if any(_COMPOUND.match(value.fixed or "") for value in item.values):
            findings.add_doubt(f"{base} expands a list that is quoted")
        yield item


def _set_by_read(base: str, words: Sequence[Word], findings: Findings) -> Iterator[SetVariable]:
    """`read`, `mapfile`, and `wait`, which names a variable with `-p` only."""
    values = () if base == "wait" else _TEXT
    named: list[Word] = []
    at = 0
    while at < len(words):
        text = words[at].fixed
        at += 1
        if text is None or not text.startswith("-") or text == "-":
            named.append(words[at - 1])
            continue
        if text == "--":
            named.extend(words[at:])
            break
        taken = re.search(f"[{_TAKES[base]}]", text[1:])
        if taken is None:
            continue
        given = text[taken.end() + 1 :]
        value = make_fixed_word(given)
        if not given and at < len(words):
            value, at = words[at], at + 1
            if value.splits:
                findings.add_doubt(f"an option of {base} is computed")
        if taken[0] == ("p" if base == "wait" else "a"):
            yield from _set_by_name(base, [value], findings, values)
    if base == "wait":
        for word in named:  # one that is computed is that option, unless it is a number
            evaluate(word.parts if word.fixed is None else (), findings)
        return
    yield from _set_by_name(base, named, findings, values)
    if not named:
        yield SetVariable("REPLY" if base == "read" else "MAPFILE", _TEXT)


def _set_by_printf(words: Sequence[Word], findings: Findings) -> Iterator[SetVariable]:
    """`printf -v name`, and `%n`, which sets the variable that an argument names."""
    if words and words[0].splits:
        findings.add_doubt("the name of a variable that printf sets is computed")
    while words and (first := _get_leading_text(words[0]))[:1] in ("", "-"):
        if words[0].fixed is None:
            findings.add_doubt("the name of a variable that printf sets is computed")
        if not first.startswith("-v"):
            words = words[1:] if first == "--" else words
            break
        yield from _set_by_name("printf", [make_fixed_word(first[2:])] if first[2:] else words[1:2], findings, _TEXT)
        words = words[1 if first[2:] else 2 :]
    if words and (words[0].fixed is None or _FORMAT_SETS.search(words[0].fixed)):
        named = [word for word in words[1:] if word.fixed is None or "[" in word.fixed or NAME.fullmatch(word.fixed)]
        yield from _set_by_name("printf", named, findings)


def _unset_by_env(words: Sequence[Word]) -> Iterator[SetVariable]:
    """`env -u name`."""
    for index, word in enumerate(words):
        text = word.fixed or ""
        if text in ("-u", "--unset"):
            yield from (SetVariable(name.fixed or "PATH") for name in words[index + 1 : index + 2])
        elif text.startswith("--unset="):
            yield SetVariable(text.partition("=")[2])
        elif re.match(r"-[i0v]*u.", text):
            yield SetVariable(text.partition("u")[2])


def _check_test(base: str, words: Sequence[Word], findings: Findings) -> None:
    """`-v` and `-R` evaluate a subscript in their operand; an operator may be computed, but not in `[[`."""
    for index, word in enumerate(words):
        computed = base != "[[" and word.fixed is None
        if computed and word.splits:
            _split(base, word, findings)
        if index + 1 == len(words):
            continue
        after = words[index + 1].fixed
        if (word.bare if base == "[[" else word.fixed) in ("-v", "-R") and not ELEMENT.fullmatch(after or "?"):
            findings.add_doubt(f"{base} evaluates the name of a variable that is computed")
        elif computed and (after is None or "[" in after):
            findings.add_doubt(f"an operator of {base} is computed")


def _split(base: str, word: Word, findings: Findings) -> None:
    """A word without quotes may become several, `-v` among them, unless its values are known."""
    pattern = word.pattern
    if pattern is not None and ("[" in pattern or any(fnmatch.fnmatchcase(name, pattern) for name in ("-v", "-R"))):
        findings.add_doubt(f"an operator of {base} may be the name of a file")
    for part in word.parts:
        if variable := VARIABLE.fullmatch(part.text) if part.kind == "variable" else None:
            findings.split.add(variable[1] or variable[2])
        elif part.kind in ("command", "brace", "input") or (part.kind == "variable" and not SAFE.fullmatch(part.text)):
            findings.add_doubt(f"an operator of {base} is computed")


def _get_leading_text(word: Word) -> str:
    """The fixed text that a word begins with."""
    if word.fixed is not None:
        return word.fixed
    return word.parts[0].text if word.parts and word.parts[0].kind == "text" else ""


def _rest(word: Word, at: int) -> Word:
    """The word behind its first characters."""
    if word.fixed is not None:
        return make_fixed_word(word.fixed[at:])
    first, *others = word.parts
    text = first.text[at:]
    return Word((*([Part("text", text, first.quoted)] if text else []), *others), word.source)
