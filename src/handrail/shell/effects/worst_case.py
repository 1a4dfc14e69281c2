"""The worst that a command may do where its words are computed: never less than the same command spelled out.

A word that only a running shell knows may name any file. So a command is judged a second time with a placeholder for
each such word, and what it does to the placeholder it may do to any file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from handrail.shell.effects.arguments import Arg, Ruling, Value, Values, argument
from handrail.shell.effects.directories import Places
from handrail.shell.effects.git import git
from handrail.shell.effects.interpret import (
    ANY,
    DELETES_BY_OPTION,
    find_harm,
    find_visibility,
    is_writer,
    judge_program,
)
from handrail.shell.parser.script import HEREDOCS, Command, Redirection, Script
from handrail.shell.parser.words import Word
from handrail.shell.parser.wrappers import FOREIGN_SHELLS

Unproven = Literal["read", "write", "delete", "destroy"]
_PLACEHOLDER = "\x01"
"""In place of an expansion; a script that holds this character is a doubt as a whole."""


def worst_case(
    run: Command, base: str | None, args: Sequence[Arg], ruling: Ruling, places: Places, known: Values
) -> frozenset[Unproven]:
    """Actions of this command on files that cannot be named, and whether it may destroy more than files."""
    found: set[Unproven] = set()
    if places is None:  # in which directory is not known, so neither are the files
        found.update(file.action for file in ruling.files if not file.path.startswith(("/", "~")))
    for item in run.redirections:
        if item.operator not in (*HEREDOCS, "<<<") and argument(item.target, known).values is None:
            found.update(_judge_redirection(item))
    if base is None:
        return frozenset(found)
    if any(arg.values is None for arg in args):
        found |= _to_any_file(run, base, args)
        wild = [replace(arg, values=(Value(ANY),)) if arg.values is None and arg.loose else arg for arg in args]
        if find_harm(run, base, wild, places):
            found.add("destroy")
    if _runs_unknown_text(run, base):
        found.add("delete")
    if find_visibility(base, args) != "contents":
        found.discard("read")
    return frozenset(found)


def _judge_redirection(item: Redirection) -> set[Unproven]:
    if item.copies:
        return set()
    reads: set[Unproven] = {"read"} if item.reads else set()
    return reads | {"write"} if item.writes else reads


def _to_any_file(run: Command, base: str, args: Sequence[Arg]) -> set[Unproven]:
    """Actions of the command on words that are computed."""
    filled = [
        replace(arg, values=(Value(_with_placeholder(word)),)) if arg.values is None else arg
        for word, arg in zip(run.words[1:], args, strict=True)
    ]
    ruled = git(filled) if base == "git" else judge_program(base, filled)
    if ruled is None:
        return set()
    found: set[Unproven] = {
        file.action for file in ruled.files if _PLACEHOLDER in file.path or _PLACEHOLDER in file.into
    }
    loose = any(arg.values is None and arg.loose for arg in args)
    if loose and is_writer(base) and ruled.tier != "read_only":
        # One word may turn out to be several, a target among them, or an option.
        found |= {"write", "delete"} if base in DELETES_BY_OPTION else {"write"}
    return found


def _with_placeholder(word: Word) -> str:
    return "".join(part.text if part.kind == "text" else _PLACEHOLDER for part in word.parts)


def _runs_unknown_text(run: Command, base: str) -> bool:
    """Whether it runs a text that is computed, which may be any command. A script file is a program like others."""
    if base in (*FOREIGN_SHELLS, "ssh"):
        return False
    scripts = [inner for inner in run.nested if isinstance(inner, Script)]
    return any("script file" not in why for one in scripts for why in one.doubts) and not any(s.source for s in scripts)
