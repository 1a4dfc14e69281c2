"""Ignore files: `.gitignore`, `.ignore` and `.rgignore`, with the meaning that git and ripgrep give them.

The last matching line of a file decides, and the nearest file; a later kind of the three overrides an earlier one in
any directory. Only the entry itself is matched, never what lies below it: a walk does not enter an ignored directory.

Ignore files above the searched directory count too, up to the top of the workspace or of its repository.
`list_lines_above` rewrites their lines for the searched directory, and ripgrep gets the same list. Files further below
override it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from handrail.text.globs import Glob, parse_class
from handrail.text.names import NameMatcher

NAMES = (".gitignore", ".ignore", ".rgignore")
"""Later ones beat earlier ones."""
POLICY_NAMES = (".handrailignore", ".aiignore")
"""Files of the same syntax that list what must not be read; the policy reads them."""
_MOST_BYTES = 1 << 20


class IgnoreRule(NamedTuple):
    """One line. It matches the path of an entry, with a slash at the end of a directory."""

    expression: re.Pattern[str]
    ignores: bool
    name: str
    """What the last name of a matching path matches; empty: any name does."""


class IgnoreFile:
    """The lines of one ignore file."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _parse_line(line))]
        self._any = re.compile("|".join(rule.expression.pattern for rule in self._rules) or "(?!)")
        self.names = [rule.name for rule in self._rules if rule.name]
        """What the last names of matching paths match, except below `_trees`."""
        trees = [rule.expression.pattern for rule in self._rules if not rule.name]
        self._trees = re.compile("|".join(trees)) if trees else None

    def is_ignored(self, path: str) -> bool | None:
        """Whether the entry is ignored; None: no line matches."""
        if not self._any.match(path):
            return None
        return next(rule.ignores for rule in reversed(self._rules) if rule.expression.match(path))

    def matches_any_name(self, below: str) -> bool:
        """Whether a line that ends in `**` matches whatever is in the directory ``below``."""
        return self._trees is not None and self._trees.match(f"{below}x/") is not None

    def __bool__(self) -> bool:
        return bool(self._rules)


def _parse_line(line: str) -> IgnoreRule | None:
    """Translate a line of an ignore file; None for a blank line, a comment and a line that matches nothing."""
    line = line if line.endswith("\\ ") else line.rstrip()
    pattern = line.removeprefix("!")
    names = pattern.removeprefix("/").removesuffix("/").split("/")
    if line.startswith("#") or "" in names:
        return None
    names = [name for name, next_one in zip(names, [*names[1:], ""], strict=True) if name != "**" or next_one != "**"]
    if "/" not in pattern.rstrip("/") and names != ["**"]:
        names.insert(0, "**")
    end = r"/\Z" if pattern.endswith("/") else r"/?\Z"
    try:
        expression = _translate(names, end)
    except ValueError:  # as git does: a pattern that is not valid matches nothing
        return None
    last = "" if names[-1] == "**" else _translate_name(names[-1])
    return IgnoreRule(re.compile(f"(?s:{expression})"), line == pattern, last)


def _translate(names: Sequence[str], end: str) -> str:
    """Translate the names of a pattern into one expression that needs time proportional to the path.

    `**` stands for any number of directories. The names between two of them match at the first place that fits, and no
    other place is tried; so do the characters between two stars of a name.
    """
    last = names[-1] == "**"
    if last:  # everything below; with a slash at the end, every directory below
        names, end = names[:-1], r".+/\Z" if end.startswith(r"/\Z") else "."
    parts = [""]
    for name in names:
        if name == "**":
            parts.append("")
        else:
            parts[-1] += ("/" if parts[-1] else "") + _translate_name(name)
    first, *rest = parts
    expression = first
    for number, part in enumerate(rest, start=1):
        slash = "/" if expression else ""
        is_last = number == len(rest)
        expression += f"{slash}(?:.+/)?{part}" if is_last else f"{slash}(?>(?:.+?/)??{part}(?=/))"
    return f"{expression}/{end}" if last and expression else expression + end


def _translate_name(name: str) -> str:
    """Translate one name of a pattern; raises `ValueError` for an open bracket or a backslash at the end."""
    parts: list[str] = [""]
    at = 0
    while at < len(name):
        char = name[at]
        at += 1
        if char == "*":
            parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            parsed = parse_class(name, at - 1)
            if parsed is None:
                raise ValueError("the bracket is not closed")
            parts[-1] += "(?!/)" + parsed.expression
            at = parsed.end + 1
        elif char == "\\":
            parts[-1] += re.escape(name[at : at + 1])
            if at == len(name):
                raise ValueError("nothing is escaped")
            at += 1
        else:
            parts[-1] += re.escape(char)
    first, *middle = parts
    last = "[^/]*" + middle.pop() if middle else ""
    return ("" if first else "(?=[^/])") + first + "".join(f"(?>[^/]*?{part})" for part in middle if part) + last


class Ignores:
    """The rules for one directory: its own, and those of the directories above it."""

    __slots__ = ("_above", "_chains", "_every", "_match", "silent")

    def __init__(
        self, above: IgnoreFile, chains: tuple[tuple[tuple[str, IgnoreFile], ...], ...] = ((), (), ())
    ) -> None:
        self._above = above
        self._chains = chains
        """For each kind of file, the nearest first: the directory it stands in (empty, or with a slash), its rules."""
        self._every = [pair for pair in (("", above), *(pair for chain in chains for pair in chain)) if pair[1]]
        self.silent = not self._every
        """Whether nothing can be ignored here."""
        self._match: Callable[[str], bool] | None = None
        """Tells whether a line may match a path with this last name; made when it is first needed."""

    def below(self, prefix: str, own: tuple[IgnoreFile | None, ...], repository: bool) -> Ignores:
        """The rules in the directory ``prefix``, which has files of its own, or is the top of a repository."""
        above = ((), *self._chains[1:]) if repository and self._chains[0] else self._chains
        if not any(own) and above is self._chains:
            return self
        chains = tuple(((prefix, rules), *chain) if rules else chain for chain, rules in zip(above, own, strict=True))
        return Ignores(self._above, chains)

    def judge(self, prefix: str, names: Sequence[str], dirs: Sequence[str] = ()) -> dict[str, bool]:
        """Return which of these names in the directory ``prefix`` match a rule, and whether they are ignored.

        ``dirs`` are those of directories. False: not ignored, and shown even if hidden.
        """
        for start, rules in self._every:
            if rules.matches_any_name(prefix[len(start) :]):
                break
        else:
            self._match = match = (
                self._match or NameMatcher(line for _, rules in self._every for line in rules.names).match
            )
            names, dirs = [name for name in names if match(name)], [name for name in dirs if match(name)]
        verdicts = {name: self._judge(prefix + name) for name in names}
        verdicts |= {name: self._judge(f"{prefix}{name}/") for name in dirs}
        return {name: verdict for name, verdict in verdicts.items() if verdict is not None}

    def _judge(self, path: str) -> bool | None:
        for chain in reversed(self._chains):
            for prefix, rules in chain:
                verdict = rules.is_ignored(path[len(prefix) :])
                if verdict is not None:
                    return verdict
        return self._above.is_ignored(path)


def list_lines_above(root: str, real: str) -> tuple[str, ...]:
    """Return the lines from above the directory ``real`` in the workspace ``root``, rewritten for ``real``."""
    top = _find_repository(root) or root
    names = [name for name in os.path.relpath(real, top).split("/") if name != "."]
    above = [os.path.join(top, *names[:depth]) for depth in range(len(names) + 1)]
    # The repository that the directory belongs to: git's files above it do not count.
    nearest = max((depth for depth, here in enumerate(above) if os.path.lexists(os.path.join(here, ".git"))), default=0)
    lines: dict[str, list[str]] = {name: [] for name in NAMES}
    for depth, directory in enumerate(above[:-1]):
        for name in NAMES if depth >= nearest else NAMES[1:]:
            for line in read_lines(os.path.join(directory, name)):
                lines[name] += _rewrite_line(line, names[depth:])
    excluded = read_lines(os.path.join(above[nearest], ".git/info/exclude"))
    exclude = [line for text in excluded for line in _rewrite_line(text, names[nearest:])]
    return (*exclude, *(line for name in NAMES for line in lines[name]))


def _find_repository(root: str) -> str | None:
    """Return the top of the repository that contains ``root``; None outside of a repository."""
    here = root
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _rewrite_line(line: str, names: Sequence[str]) -> list[str]:
    """Rewrite a line for the directories ``names`` below: unchanged, or the rest of it, as one or more lines."""
    line = line.rstrip("\r")
    negation, bare = ("!", line[1:]) if line.startswith("!") else ("", line)
    if not bare.strip() or bare.startswith("#"):
        return []
    if "/" not in bare.rstrip().rstrip("/"):  # a name at any depth
        return [line]
    left = [bare.lstrip("/").split("/")]
    for name in names:
        deeper: list[list[str]] = []
        for first, *rest in left:
            if first == "**":
                deeper.append([first, *rest])
                first, rest = (rest[0], rest[1:]) if rest else ("", [])
            if rest and rest != [""] and _compile_name(first or "?").match(name):
                deeper.append(rest)
        left = deeper
    return [f"{negation}/{'/'.join(rest)}" for rest in left]


@lru_cache(256)
def _compile_name(name: str) -> Glob:
    return Glob(name, hidden=True)


def read_lines(path: str, opener: Callable[[], int] | None = None) -> tuple[str, ...]:
    """Return the lines of an ignore file; none if it does not exist or cannot be read."""
    try:
        fd = opener() if opener else os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return ()
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return ()
        raw = os.pread(fd, _MOST_BYTES, 0)
    except OSError:
        return ()
    finally:
        os.close(fd)
    return tuple(raw.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape").split("\n"))
