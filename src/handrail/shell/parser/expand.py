"""From the commands that are written to those that are run: wrappers and nested scripts opened, doubts gathered."""

from __future__ import annotations

import re
from dataclasses import replace

from handrail.shell.effects.read_only_table import STEERING
from handrail.shell.parser.arithmetic import INTEGER, SAFE, SHELL_NUMBERS, SHELL_TEXTS, VARIABLE
from handrail.shell.parser.assignments import Assigned, assigned
from handrail.shell.parser.commands import Script, Simple
from handrail.shell.parser.findings import Found
from handrail.shell.parser.lexer import MOST_STEPS
from handrail.shell.parser.parse import read_text, simples
from handrail.shell.parser.words import Word
from handrail.shell.parser.wrappers import unwrapped

MOST_LAYERS = 12
MOST_RUNS = 10_000
_MOST_TURNS = 20
"""Variables that get their values from each other: a longer chain of them is not followed."""

_CHANGES_NAMES = {
    "alias": "an alias changes what a name means",
    "unalias": "an alias changes what a name means",
    "enable": "a built-in command is changed",
}
_STEERS_SHELL = re.compile(
    r"PATH|BASH_ENV|ENV|PS4|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|LD_.*|DYLD_.*|EXECIGNORE|HOME|PWD|VIRTUAL_ENV"
    r"|POSIXLY_CORRECT|BASH_COMPAT|TEXTDOMAIN.*"
)
"""Variables that change which programs run, or how the shell reads."""
_STEERS = re.compile(f"{_STEERS_SHELL.pattern}|{STEERING}")
_STARTS_AS_PATH = ("PWD", "OLDPWD")


def deep(text: str) -> Script:
    """A script with all that it runs."""
    found = Found()
    script = _opened(text, found, 0)
    assignments = [assigned(run) for run in script.runs]
    for one in assignments:
        _take_over(found, one.evaluated)
    doubts = (*script.doubts, *found.doubts, *_steered(found, assignments), *_evaluated(found, assignments))
    elsewhere = found.arithmetic | found.defaulted | {item.name for one in assignments for item in one.otherwise}
    return replace(script, doubts=tuple(dict.fromkeys(doubts)), elsewhere=frozenset(elsewhere))


def _take_over(found: Found, other: Found) -> None:
    found.arithmetic |= other.arithmetic
    found.counted |= other.counted
    found.defaulted |= other.defaulted
    found.split |= other.split
    for doubt in other.doubts:
        found.doubt(doubt)


def _opened(text: str, evaluated: Found, layers: int) -> Script:
    found, error = read_text(text)
    _take_over(evaluated, found)
    evaluated.steps += found.steps
    doubts = list(found.doubts)
    commands = tuple(simples(found))
    runs: list[Simple] = []
    waiting: list[Simple | Script] = list(reversed(commands))
    functions = list(found.functions)
    stopped = found.stopped
    while waiting:
        item = waiting.pop()
        if isinstance(item, Simple):
            runs.append(item)
            doubts.extend(_doubts(item))
            if len(item.via) > MOST_LAYERS or len(runs) > MOST_RUNS:
                doubts.append("more commands than can be read")
                stopped = True
                break
            waiting.extend(
                replace(inner, commands=_via(inner, item)) if isinstance(inner, Script) else inner
                for inner in reversed(unwrapped(item))
            )
        elif not item.source:
            doubts.extend(item.doubts)
        elif layers >= MOST_LAYERS or evaluated.steps > MOST_STEPS:
            doubts.append("more commands than can be read")
            stopped = True
        else:
            nested = _opened(item.source, evaluated, layers + 1)
            via = item.commands[0].via if item.commands else ()
            runs.extend(replace(run, via=(*via, *run.via)) for run in nested.runs)
            doubts.extend(nested.doubts)
            functions.extend(nested.functions)
            stopped = stopped or nested.stopped or nested.error is not None
            if nested.error is not None:
                doubts.append("a script inside of it is not valid")
    doubts.extend(f"the function {name} changes what that name means" for name in functions)
    return Script(text, commands, tuple(runs), tuple(functions), error, tuple(doubts), stopped)


def _via(script: Script, wrapper: Simple) -> tuple[Simple, ...]:
    """The commands of a nested script, marked with the wrapper that they were reached through."""
    via = (*wrapper.via, wrapper.base or "")
    return tuple(replace(command, via=via) for command in script.commands)


def _doubts(simple: Simple) -> list[str]:
    """What in this one command makes more of the script unproven."""
    out: list[str] = []
    base = simple.base
    if base is None:
        out.append("the name of a command is computed")
    elif base in _CHANGES_NAMES:
        out.append(_CHANGES_NAMES[base])
    elif base == "shopt" and any(word.fixed in (None, "expand_aliases", "extglob") for word in simple.words):
        out.append("shopt changes how the script is read")
    elif base == "hash" and len(simple.words) > 1:
        out.append("hash changes what a name means")
    elif base in ("mapfile", "readarray") and any((word.fixed or "-C").startswith("-C") for word in simple.words[1:]):
        out.append(f"{base} may call a command back")
    return out


def _steered(found: Found, assignments: list[Assigned]) -> list[str]:
    """Variables that change which programs run, however they are set.

    What else steers programs is judged with the command that sets it; an expansion belongs to no command.
    """
    expanded = sorted(found.arithmetic | found.counted | found.defaulted)
    names = [name for name in expanded if _STEERS.fullmatch(name)]
    names += [item.name for one in assignments for item in one.sets if _STEERS_SHELL.fullmatch(item.name)]
    return [f"{name} changes how commands run" for name in names]


def _evaluated(found: Found, assignments: list[Assigned]) -> list[str]:
    """Variables in arithmetic must be known to hold numbers: a value such as `a[$(x)]` would run `x`."""
    values: dict[str, list[Word]] = {name: [] for name in found.counted}
    for item in (item for one in assignments for item in one.sets):
        values.setdefault(item.name, []).extend(item.values)
    arrays = {name for one in assignments for name in one.arrays}
    numbers = _numbers(values, found.defaulted) if found.arithmetic or found.split else set()
    out = [
        f"the value of {name} is evaluated, and is not known to be a number"
        for name in sorted(found.arithmetic)
        if name not in numbers
    ]
    lists = (item for one in assignments for item in one.sets if item.declared and item.name in arrays)
    out += [
        f"the value of {item.name} may be a list that is expanded"
        for item in lists
        if any(value.fixed is None for value in item.values)
    ]
    for name in sorted(found.split - numbers):
        fixed = all(value.fixed is not None and "[" not in value.fixed for value in values.get(name, ()))
        own = name in found.defaulted or SHELL_TEXTS.fullmatch(name) or name in _STARTS_AS_PATH
        if own or not fixed:
            out.append(f"the value of {name} may be an operator")
    return out


def _numbers(values: dict[str, list[Word]], texts: set[str]) -> set[str]:
    """The variables that hold nothing but numbers, as far as the script sets them."""
    numbers = {name for name in values if name not in texts and not SHELL_TEXTS.fullmatch(name)}
    numbers |= SHELL_NUMBERS
    for _ in range(_MOST_TURNS):
        kept = {name for name in numbers if all(_is_number(value, numbers) for value in values.get(name, ()))}
        if kept == numbers:
            return numbers
        numbers = kept
    return set()


def _is_number(value: Word, numbers: set[str]) -> bool:
    if value.fixed is not None:
        return bool(INTEGER.fullmatch(value.fixed))
    return all(
        part.kind == "arithmetic"
        or (part.kind == "variable" and bool(SAFE.fullmatch(part.text)))
        or ((found := VARIABLE.fullmatch(part.text)) is not None and (found[1] or found[2]) in numbers)
        for part in value.parts
    )
