"""Ignore files: `.gitignore`, `.ignore` and `.rgignore`, with the meaning that git and ripgrep give them.

A line is translated by pathspec. Of the lines that match an entry the last one counts, of the files the nearest; the
three kinds beat each other in the order above, whichever directory they stand in. Only the entry itself is asked about,
never what lies below it: who walks a tree does not enter a directory that is ignored.

What stands above the directory that is searched counts as well: up to the top of the workspace, or of the repository
around it. These lines become one list (`above`), written as they would be in the directory that is searched, which is
also what ripgrep gets. It gives way to everything that stands further below.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from handrail.text.globs import compile_glob

NAMES = (".gitignore", ".ignore", ".rgignore")
"""Later ones beat earlier ones."""
_MOST_BYTES = 1 << 20
_MOST_NAMES = 100_000
_DIRECTORY = "(?P<ps_d>/)"
_ACROSS = re.compile(r"(\(\?:\.\+/\)\?|\(\?:/\.\+\)\?)")
_STAR = re.compile(r"(\[\^/\][*+])")
"""What pathspec writes for `**` and `*`. Both hold a slash, which nothing else in a name of a pattern can."""


class Rule(NamedTuple):
    """One line: matches the path of an entry, a slash behind a directory."""

    expression: re.Pattern[str]
    ignores: bool
    depth: int | None
    """How many names a path must have that it matches; 0: it speaks of names at any depth; None: any number."""


class Rules:
    """The lines of one ignore file."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._rules = [rule for line in lines if (rule := _rule(line))]
        self._any = re.compile("|".join(rule.expression.pattern for rule in self._rules) or "(?!)")
        self._depths = {rule.depth for rule in self._rules} - {0}

    def verdict(self, path: str) -> bool | None:
        """Whether the entry is ignored; None: these rules do not speak of it."""
        if not self._any.match(path):
            return None
        return next(rule.ignores for rule in reversed(self._rules) if rule.expression.match(path))

    def by_name(self, below: str) -> bool:
        """Whether in the directory ``below`` the name of an entry alone decides."""
        return not self._depths or (None not in self._depths and below.count("/") + 1 not in self._depths)

    def __bool__(self) -> bool:
        return bool(self._rules)


def _rule(line: str) -> Rule | None:
    from pathspec.patterns.gitignore import GitIgnorePatternError  # slow to import, and only needed for a line
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    try:
        pattern = GitIgnoreSpecPattern(line)
    except GitIgnorePatternError:  # as git does: a line that means nothing ignores nothing
        return None
    if pattern.include is None or pattern.regex is None:
        return None
    text = pattern.regex.pattern
    if text == ".":  # everything
        return Rule(re.compile("(?s:.)"), pattern.include, 0)
    # pathspec also matches what lies below a directory that is named: here only the entry itself is meant.
    bare = line.rstrip()
    if text == _DIRECTORY:  # every directory
        return Rule(re.compile(r"(?s:.+/\Z)"), pattern.include, 0)
    if bare.endswith("/**/") and (
        below := _rule(bare[:-1])
    ):  # the directories below one, where pathspec takes that one
        return below._replace(expression=re.compile(below.expression.pattern[:-2] + r".*/\Z)"))
    direct = _bounded(text.replace(_DIRECTORY, "/") + r"\Z" if _DIRECTORY in text else text + ".")
    names = line.strip().removeprefix("!").rstrip("/").removeprefix("**/")
    depth = None if "**" in names else len(names.lstrip("/").split("/")) if "/" in names else 0
    return Rule(re.compile(f"(?s:{direct})"), pattern.include, depth)


def _bounded(text: str) -> str:
    """The same expression, but none that tries every way to part a path: a line of many stars would take forever.

    What stands between two stars is taken where it comes first, and never elsewhere; so are the names between two `**`.
    """
    first, *rest = _ACROSS.split(text)
    parts = [_stars(first)]
    for at in range(0, len(rest), 2):
        across, names = rest[at].replace(".+", ".+?") + "?", _stars(rest[at + 1])
        parts.append(f"(?>{across}{names}(?=/))" if at + 2 < len(rest) else rest[at] + names)
    return "".join(parts)


def _stars(text: str) -> str:
    first, *rest = _STAR.split(text)
    parts = [first]
    for at in range(0, len(rest), 2):
        star, chars = rest[at : at + 2]
        ends = at + 2 >= len(rest) or "/" in chars.replace("[^/]", "")  # the last star of this name
        parts.append(star + chars if ends else f"(?>{star}?{chars})")
    return "".join(parts)


class Ignores:
    """The rules that hold in one directory: its own, and those of the directories above it."""

    __slots__ = ("_above", "_chains", "_clean", "_every", "silent")

    def __init__(self, above: Rules, chains: tuple[tuple[tuple[str, Rules], ...], ...] = ((), (), ())) -> None:
        self._above = above
        self._chains = chains
        """For each kind of file, the nearest first: the directory it stands in (empty, or with a slash), its rules."""
        self._every = [pair for pair in (("", above), *(pair for chain in chains for pair in chain)) if pair[1]]
        self.silent = not self._every
        """Whether nothing can be ignored here."""
        self._clean: set[str] = set()
        """Names that no rule about names speaks of: most names come again and again."""

    def below(self, prefix: str, own: tuple[Rules | None, ...]) -> Ignores:
        """The rules in the directory ``prefix``, which has files of its own."""
        if not any(own):
            return self
        chains = tuple(
            ((prefix, rules), *chain) if rules else chain for chain, rules in zip(self._chains, own, strict=True)
        )
        return Ignores(self._above, chains)

    def verdicts(self, prefix: str, names: Sequence[str], mark: str = "") -> dict[str, bool]:
        """Which of these names in the directory ``prefix`` the rules speak of, and whether they are ignored.

        A slash is the ``mark`` of directories. False: it is not ignored, and shown even if it is hidden.
        """
        by_name = all(rules.by_name(prefix[len(start) :]) for start, rules in self._every)
        if by_name and self._clean.issuperset(names):
            return {}
        found: dict[str, bool] = {}
        for name in names:
            verdict = self._judged(prefix + name + mark)
            if verdict is not None:
                found[name] = verdict
            elif by_name and mark and len(self._clean) < _MOST_NAMES:
                self._clean.add(name)  # not even as a directory, which more rules speak of
            elif by_name and self._judged(prefix + name + "/") is None and len(self._clean) < _MOST_NAMES:
                self._clean.add(name)
        return found

    def _judged(self, path: str) -> bool | None:
        for chain in reversed(self._chains):
            for prefix, rules in chain:
                verdict = rules.verdict(path[len(prefix) :])
                if verdict is not None:
                    return verdict
        return self._above.verdict(path)


def above(root: str, real: str) -> tuple[str, ...]:
    """The lines that hold above the directory ``real`` in the workspace ``root``, as if they stood in ``real``."""
    top = _repository(root) or root
    names = [name for name in os.path.relpath(real, top).split("/") if name != "."]
    found: dict[str, list[str]] = {name: [] for name in NAMES}
    for depth in range(len(names)):
        directory = os.path.join(top, *names[:depth])
        for name in NAMES:
            for line in read(os.path.join(directory, name)):
                found[name] += _seen_from(line, names[depth:])
    exclude = [line for text in read(os.path.join(top, ".git/info/exclude")) for line in _seen_from(text, names)]
    return (*exclude, *(line for name in NAMES for line in found[name]))


def _repository(root: str) -> str | None:
    """The top of the repository that ``root`` lies in."""
    here = root
    while True:
        if os.path.lexists(os.path.join(here, ".git")):
            return here
        parent = os.path.dirname(here)
        if parent == here:
            return None
        here = parent


def _seen_from(line: str, names: Sequence[str]) -> list[str]:
    """What a line means below the directories ``names``: the same, or what is left of it, in one or more lines."""
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
            if rest and rest != [""] and compile_glob(first or "?", hidden=True).match(name):
                deeper.append(rest)
        left = deeper
    return [f"{negation}/{'/'.join(rest)}" for rest in left]


def read(path: str, opener: Callable[[], int] | None = None) -> tuple[str, ...]:
    """The lines of an ignore file; none if there is no such file, or it is none that can be read."""
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
