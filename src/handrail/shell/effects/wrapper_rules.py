"""Judge wrappers themselves; the commands that they run are judged apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.shell.effects.arguments import READ_ONLY, Arg, Program, Ruling, parse_options
from handrail.shell.parser.script import Command, Script
from handrail.shell.parser.wrappers import FOREIGN_SHELLS, NAMES, RUNS_A_FILE, SHELLS

JUDGED = frozenset((*NAMES, "alias", "unalias", "source", ".", "trap")) - {"git"}
"""The commands that `judge_wrapper` judges."""
_HARMLESS = ("command", "builtin", "exec", "nice", "ionice", "timeout", "stdbuf", "eval", "xargs", "find", *SHELLS)
_INTERPRETERS = ("python", "python3", "perl", "ruby", "node", "php", "lua", "deno", "bun", "osascript")


def runs_input(run: Command) -> bool:
    """Whether a command runs its input."""
    words = [word.fixed for word in run.words[1:]]
    if run.base in (*SHELLS, *FOREIGN_SHELLS):
        return not any(re.match(r"-\w*c", word or "") for word in words)
    return run.base in _INTERPRETERS and words in ([], ["-"])


def runs_words(run: Command) -> bool:
    """Whether a command with a substitution among its words runs the output of that."""
    if run.base in _INTERPRETERS:
        return any(word.fixed in ("-c", "-e", "-r") for word in run.words)
    return run.base in (*SHELLS, *FOREIGN_SHELLS, "eval", "source", ".")


def judge_wrapper(run: Command, base: str, args: Sequence[Arg]) -> Ruling:
    """Judge one of `JUDGED` itself. One that cannot be opened is a doubt of the script."""
    if base in ("alias", "unalias", "source", ".", "trap"):
        sourced = args[0].files("read") if base in ("source", ".") and args else ()
        return Ruling(why=f"{base} changes what the rest does", files=tuple(sourced))
    inner = run.nested
    doubt = next((why for item in inner if isinstance(item, Script) and not item.source for why in item.doubts), "")
    if doubt:
        script = next((arg for arg in args if not (arg.text or "-").startswith(("-", "+"))), None)
        files = script.files("read") if base in SHELLS and script is not None and "script file" in doubt else ()
        return Ruling(why=doubt, doubt="" if doubt.endswith(RUNS_A_FILE) else doubt, files=tuple(files))
    if base == "env":
        return _judge_env(args, bool(inner))
    if base == "command" and not inner:
        parsed = parse_options(Program("vVp", "", "", "texts"), args)
        return READ_ONLY if not parsed.unknown else Ruling(why="unknown arguments of command")
    if base == "time":
        return Ruling(why="time writes to a file") if _has(args, "-o", "--output") else READ_ONLY
    if base == "xargs":
        file = _find_after(args, "-a", "--arg-file")
        return Ruling("read_only", files=tuple(file.files("read")) if file else ())
    if base in SHELLS and not inner and args:
        alone = len(args) == 1 and args[0].text == "--version"
        return READ_ONLY if alone else Ruling(why=f"unknown arguments of {base}")
    if base in _HARMLESS:
        return READ_ONLY
    if base == "ssh":
        return READ_ONLY if [arg.text for arg in args] == ["-V"] else Ruling(why="it runs on another machine")
    return Ruling(why=f"{base} changes how a command runs")


def _judge_env(args: Sequence[Arg], runs: bool) -> Ruling:
    if not runs:
        alone = [arg.text for arg in args] in (["--version"], ["--help"])
        return READ_ONLY if alone else Ruling(why="it shows the environment with its secrets")
    for arg in args:
        text = arg.text or ""
        if re.match(r"-[i0v]*C|--chdir", text):
            doubt = "env goes to another directory"
            return Ruling(why=doubt, doubt=doubt)
        if not text.startswith("-") and "=" not in text:
            break
    return READ_ONLY


def _has(args: Sequence[Arg], *names: str) -> bool:
    return any((arg.text or "").startswith(names) for arg in args)


def _find_after(args: Sequence[Arg], *names: str) -> Arg | None:
    for index, arg in enumerate(args[:-1]):
        if arg.text in names:
            return args[index + 1]
    return None
