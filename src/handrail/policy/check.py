"""Find rules that never take effect: they may allow nothing, or a stricter rule speaks of all that they speak of.

Each pattern is tested with a path in which its wildcards are characters that no rule contains: a rule that matches this
path does so by its own wildcards.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from handrail.policy.files import PolicyFile
from handrail.policy.paths import PathSet
from handrail.policy.rules import FILE_ACTIONS, STRICT, Rule

_WILDCARD = re.compile(r"\\(.)|(\*\*)|(\*)|\?")


def find_ineffective_rules(files: Sequence[PolicyFile], root: str, home: str) -> list[tuple[Rule, str]]:
    """Find the rules that never decide anything, each with the reason."""
    locked = any(file.locked for file in files)
    rules = [rule for file in files for rule in file.rules]
    ineffective: list[tuple[Rule, str]] = []
    for number, rule in enumerate(rules):
        first = [above for above in rules if STRICT[above.tier] > STRICT[rule.tier]]
        first += [above for above in rules[:number] if above.tier == rule.tier]
        reasons = (f"{above.source} decides first: {above.text}" for above in first if covers(above, rule, root, home))
        if why := _explain_uncounted(rule, locked) or next(reasons, ""):
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
        wanted = [pattern for pattern in rule.paths if not pattern.except_]
        return all(paths.find(_fill(glob)) for pattern in wanted for glob in pattern.globs([root], home, deep=False))
    if "run" in rule.actions:
        if above.place and above.place != rule.place:
            return False
        if above.command is None or rule.command is None:
            return above.command is None
        same = rule.command.words[: len(above.command.words)] == above.command.words
        return same and (above.command.open or above.command == rule.command)
    return above.host in ("", rule.host) and above.tool in ("", rule.tool)


def _explain_uncounted(rule: Rule, locked: bool) -> str:
    if rule.tier == "allow" and locked and not rule.locked:
        return "the system file is locked: other files cannot allow more"
    if rule.tier == "allow" and not rule.loosens:
        return "the file is not trusted; run `handrail policy trust`"
    return ""


def _fill(glob: str) -> str:
    """A path that a pattern matches."""
    return _WILDCARD.sub(
        lambda match: match[1] or ("\x02/\x03" if match[2] else "\x02\x03" if match[3] else "\x02"), glob
    )
