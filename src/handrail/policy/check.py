"""Find rules that never take effect: shadowed by a stricter or built-in rule, or with a pattern that matches nothing.

A pattern is tested with samples in which each wildcard is a character that no rule contains: another pattern that
matches all samples can do so only by its own wildcards, and so covers the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import product

from handrail.model import Action
from handrail.policy.files import PolicyFile
from handrail.policy.guards import BuiltInPaths
from handrail.policy.paths import PathPattern, PathSet, escape_glob
from handrail.policy.rules import FILE_ACTIONS, Rule
from handrail.shell.git.tracked_files import TrackedFiles
from handrail.text.globs import expand_braces

_STRICT = {"allow": 0, "ask": 1, "deny": 2}
_FILLED = (("\x02", "\x02"), ("\x02/\x03\x02", "\x02\x03\x02"), ("\x02/\x02/\x02", "\x03"))
"""What stands for `**` and for `*`."""
_PIECE = re.compile(r"\\(.)|\[([!^]?)(.)[^\]]*\]|(\*\*)|(\*+)|\?", re.DOTALL)
_MOST = 64


def find_ineffective_rules(files: Sequence[PolicyFile], root: str, home: str) -> list[tuple[Rule, str]]:
    """Find the rules that never decide anything, each with the reason."""
    locked = any(file.locked for file in files)
    rules = [rule for file in files for rule in file.rules]
    built_in = BuiltInPaths([root], home, TrackedFiles())
    ineffective: list[tuple[Rule, str]] = []
    for number, rule in enumerate(rules):
        why = (
            _explain_empty(rule, root, home)
            or _explain_uncounted(rule, locked)
            or _find_built_in(rule, built_in, root, home)
        )
        for other, above in enumerate(rules):
            if why or other == number or _STRICT[above.tier] < _STRICT[rule.tier]:
                continue
            if (above.tier != rule.tier or other < number) and covers(above, rule, root, home):
                why = f"{above.source} decides first: {above.text}"
        if why:
            ineffective.append((rule, why))
    return ineffective


def covers(above: Rule, rule: Rule, root: str, home: str) -> bool:
    """Whether the first speaks of all that the second speaks of."""
    if above.lends or not rule.actions <= above.actions:
        return False
    if rule.actions <= frozenset(FILE_ACTIONS):
        if not above.paths or not rule.paths:
            return not above.paths
        paths = PathSet([above.paths], [root], home, deep=above.tier != "allow")
        return all(paths.find(path) for path in _make_samples(rule, root, home))
    if "run" in rule.actions:
        if above.place and above.place != rule.place:
            return False
        if above.command is None or rule.command is None:
            return above.command is None
        same = rule.command.words[: len(above.command.words)] == above.command.words
        return same and (above.command.open or above.command == rule.command)
    return above.host in ("", rule.host) and above.tool in ("", rule.tool)


def _explain_empty(rule: Rule, root: str, home: str) -> str:
    if not rule.paths:
        return ""
    paths = PathSet([rule.paths], [root], home, deep=rule.tier != "allow")
    return "" if any(paths.find(path) for path in _make_samples(rule, root, home)) else "no path can match it"


def _explain_uncounted(rule: Rule, locked: bool) -> str:
    if rule.tier == "allow" and locked and not rule.locked:
        return "the system file is locked: other files cannot allow more"
    if rule.tier == "allow" and not rule.loosens:
        return "the file is not trusted; run `handrail policy trust`"
    return ""


def _find_built_in(rule: Rule, built_in: BuiltInPaths, root: str, home: str) -> str:
    """Whether a built-in rule decides before an allow rule for all that it matches."""
    if rule.tier != "allow" or not rule.paths or rule.lends:
        return ""
    names: set[str] = set()
    for path, action in product(_make_samples(rule, root, home), sorted(rule.actions)):
        kind: Action = action
        guard = built_in.find(kind, path)
        if guard is None or (guard.tier == "deny" and rule.exact):
            return ""
        names.add(guard.text)
    hint = "; write the full name of the file" if names == {"secrets"} else ""
    return f"the built-in rule for {' and '.join(sorted(names))} comes first{hint}"


def _make_samples(rule: Rule, root: str, home: str) -> list[str]:
    """Paths that the rule speaks of, as different as its wildcards allow."""
    texts = [_make_absolute(pattern, root, home) for pattern in rule.paths if not pattern.except_]
    spelled = [one for text in texts for one in expand_braces(text)[:_MOST]]
    return [_PIECE.sub(partial(_fill, filled=filled), text) for text in spelled for filled in _FILLED]


def _make_absolute(pattern: PathPattern, root: str, home: str) -> str:
    """The pattern from the top, its wildcards kept."""
    text = pattern.text
    if text.startswith("~/"):
        text = f"{escape_glob(home)}/{text[2:]}"
    elif not text.startswith("/"):
        text = f"{escape_glob(root)}/{'**/' if pattern.anywhere else ''}{text.removeprefix('./')}"
    return text + "**" if text.endswith("/") else text


def _fill(piece: re.Match[str], filled: tuple[str, str]) -> str:
    """What stands for a wildcard in a sample."""
    escaped, negated, one, deep, star = piece.groups()
    if deep or star:
        return filled[0] if deep else filled[1]
    return escaped or (one if one and not negated else "\x02")
