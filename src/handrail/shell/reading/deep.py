"""From the commands that are written to those that are run: wrappers and nested scripts opened, doubts gathered."""

from __future__ import annotations

import re
from dataclasses import replace

from handrail.shell.reading.commands import Script, Simple
from handrail.shell.reading.found import Found
from handrail.shell.reading.scan import MOST_STEPS
from handrail.shell.reading.whole import read_text, simples
from handrail.shell.reading.words import Word
from handrail.shell.reading.wrappers import unwrapped

MOST_LAYERS = 12
MOST_RUNS = 10_000

_CHANGES_NAMES = {
    "alias": "an alias changes what a name means",
    "unalias": "an alias changes what a name means",
    "enable": "a built-in command is changed",
}
_STEERS = re.compile(
    r"PATH|BASH_ENV|ENV|PS4|PROMPT_COMMAND|SHELLOPTS|BASHOPTS|BASH_FUNC_.*|LD_.*|DYLD_.*|EXECIGNORE|HOME|PWD|VIRTUAL_ENV"
)
_EVALUATES = ("let", "declare", "typeset", "local", "export", "readonly", "unset", "read", "mapfile", "readarray")
_SETS = (
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "read",
    "mapfile",
    "readarray",
    "printf",
    "getopts",
    "wait",
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INTEGER = re.compile(r"[+-]?[0-9]+|")


def deep(text: str) -> Script:
    """A script with all that it runs."""
    found = Found()
    script = _opened(text, found, 0)
    doubts = (*script.doubts, *_evaluated(found, script.runs))
    return replace(script, doubts=tuple(dict.fromkeys(doubts)))


def _opened(text: str, evaluated: Found, layers: int) -> Script:
    found, error = read_text(text)
    evaluated.arithmetic |= found.arithmetic
    evaluated.defaulted |= found.defaulted
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
    if base in _EVALUATES or base in ("printf", "test", "["):
        out.extend(_subscripts(base or "", simple.words[1:]))
    out.extend(f"{item.name} changes how commands run" for item in simple.assignments if _STEERS.fullmatch(item.name))
    if base in ("export", "declare", "typeset", "readonly", "local"):
        names = [found.group() for word in simple.words[1:] if (found := _NAME.match(_text(word)))]
        out.extend(f"{name} changes how commands run" for name in names if _STEERS.fullmatch(name))
    return out


def _text(word: Word) -> str:
    """The fixed text that a word begins with."""
    return word.fixed if word.fixed is not None else "".join(p.text for p in word.parts[:1] if p.kind == "text")


def _subscripts(base: str, words: tuple[Word, ...]) -> list[str]:
    """Built-in commands evaluate the names that they are given, and with them a substitution in a subscript."""
    if base in ("printf", "test", "[") and not any(word.fixed in ("-v", "-R", None) for word in words):
        return []
    for index, word in enumerate(words):
        checked = base in _EVALUATES or (index and words[index - 1].fixed in ("-v", "-R"))
        if not checked:
            continue
        if word.fixed is None and (base == "let" or not re.match(r"[A-Za-z_][A-Za-z0-9_]*\+?=|-", _text(word))):
            return [f"{base} evaluates a text that is computed"]
        if word.fixed is not None and "[" in word.fixed and re.search(r"[$`]", word.fixed):
            return [f"{base} evaluates a text with a substitution in it"]
    return []


def _evaluated(found: Found, runs: tuple[Simple, ...]) -> list[str]:
    """Variables in arithmetic must be known to hold numbers: a value such as `a[$(x)]` would run `x`."""
    if not found.arithmetic:
        return []
    texts: set[str] = set(found.defaulted)
    for run in runs:
        for item in run.assignments:
            if not all(_is_number(value) for value in item.values):
                texts.add(item.name)
        if run.base in _SETS:
            for word in run.words[1:]:
                name, _, value = _text(word).partition("=")
                if not (value and word.fixed is not None and _INTEGER.fullmatch(value)):
                    texts.add(name)
        elif run.base == "let":
            texts.update(name for word in run.words for name in _NAME.findall(_text(word)))
    doubtful = sorted(name for name in found.arithmetic if name in texts or not _NAME.fullmatch(name))
    return [f"the value of {name} is evaluated, and is not known to be a number" for name in doubtful]


def _is_number(value: Word) -> bool:
    if value.fixed is not None:
        return bool(_INTEGER.fullmatch(value.fixed))
    return all(part.kind in ("arithmetic",) or part.text in ("$#", "$?", "$$", "$!") for part in value.parts)
