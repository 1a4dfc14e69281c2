"""Commands in a rule file: checks of edited files, and hooks before and after calls.

[checks]                                    # after an edit of such a file, in the background
"*.py" = "ruff check --output-format concise {files}"
[[hooks]]                                   # before, or after, the calls that a pattern of a rule speaks of
before = ["Edit(src/**)", "Bash(git push *)"]
run = "scripts/may-i"
seconds = 30                                # 60 if left out
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from handrail.frozen import frozen
from handrail.policy.rules import BadRule, Rule, from_line
from handrail.text.display import escape
from handrail.text.globs import BadGlob, Glob
from handrail.text.toml_lines import Key

Event = Literal["before", "after"]
MOST_CHECKS, MOST_HOOKS = 20, 50
MOST_SECONDS = 600
_SECONDS = 60
_EVERY_CALL = "*"
_KEYS = ("before", "after", "run", "seconds")


class BadCommandTable(ValueError):
    """A table of checks or hooks that cannot be used; `key` is its place in the file."""

    def __init__(self, key: Key, what: str) -> None:
        super().__init__(what)
        self.key = key


@frozen
class FileCheck:
    """A command that reports the problems of files that a glob matches, one problem a line."""

    glob: str
    command: str
    """`{files}` in it stands for the files that were edited, quoted for a shell."""

    def concerns(self, path: str) -> bool:
        """Whether a path below the workspace is checked; a glob without a slash means the last name of it."""
        name = path if "/" in self.glob else path.rpartition("/")[2]
        return Glob(self.glob, hidden=True).match(name)


@frozen
class Hook:
    """A command that runs before or after the calls that one of its rules speaks of."""

    event: Event
    rules: tuple[Rule, ...]
    """Without any it runs for every call."""
    command: str
    seconds: float
    confined: bool
    """Whether it runs in the sandbox: that of a project does, because the model can edit the project's files."""
    source: str
    """`file:line`."""


def parse_checks(table: object) -> tuple[FileCheck, ...]:
    """The checks of a rule file; raises `BadCommandTable`."""
    if not isinstance(table, dict):
        raise BadCommandTable(("checks",), 'must be a table, [checks], such as "*.py" = "ruff check {files}"')
    checks = []
    for glob, value in table.items():
        key = ("checks", glob)
        try:
            Glob(glob, hidden=True)
        except BadGlob as error:
            raise BadCommandTable(key, str(error)) from None
        checks += [FileCheck(glob, command) for command in _read_texts(key, value, "a command, or a list of commands")]
    if len(checks) > MOST_CHECKS:
        raise BadCommandTable(("checks",), f"at most {MOST_CHECKS} commands")
    return tuple(checks)


def parse_hooks(tables: Sequence[object], place: Callable[[Key], str], *, project: bool) -> tuple[Hook, ...]:
    """The hooks of a rule file; raises `BadCommandTable`. ``place`` gives `file:line` of a key."""
    if len(tables) > MOST_HOOKS:
        raise BadCommandTable(("hooks",), f"at most {MOST_HOOKS} hooks")
    return tuple(_parse_hook(("hooks", number), table, place, project) for number, table in enumerate(tables))


def _parse_hook(key: Key, table: object, place: Callable[[Key], str], project: bool) -> Hook:
    if not isinstance(table, dict):
        raise BadCommandTable(key, "must be tables, [[hooks]], with before or after, and run")
    for name in table:
        if name not in _KEYS:
            raise BadCommandTable((*key, name), f"unknown key; the keys are {', '.join(_KEYS)}")
    if ("before" in table) == ("after" in table):
        raise BadCommandTable(key, "a hook has either before or after: the calls that it runs for")
    event: Event = "before" if "before" in table else "after"
    patterns = _read_texts((*key, event), table[event], 'a pattern such as "Edit(src/**)", or a list of patterns')
    if _EVERY_CALL in patterns:
        patterns = []
    rules = []
    for pattern in patterns:
        try:
            # As a refusal: that finds a command behind its wrappers too.
            rules.append(from_line(pattern, "deny", project=project))
        except BadRule as error:
            raise BadCommandTable((*key, event), str(error)) from None
    run = table.get("run")
    if not isinstance(run, str) or not run.strip():
        raise BadCommandTable((*key, "run"), "must be a command, run by the shell in the workspace")
    return Hook(event, tuple(rules), run, _read_seconds(key, table), project, place(key))


def _read_seconds(key: Key, table: Mapping[str, object]) -> float:
    seconds = table.get("seconds", _SECONDS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
        raise BadCommandTable((*key, "seconds"), f"must be a number above 0, and at most {MOST_SECONDS}")
    return seconds


def _read_texts(key: Key, value: object, what: str) -> list[str]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values or not all(isinstance(one, str) and one.strip() for one in values):
        raise BadCommandTable(key, f"{escape(str(key[-1]))} must be {what}")
    return values
