"""The reasons of verdicts, and the order of strictness.

A command whose files cannot be named is never judged easier than the same command with any name in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from handrail.model import Access, Decision, Verdict
from handrail.policy.rules import Rule
from handrail.text.display import escape

STRICT = {"allow": 0, "ask": 1, "deny": 2}
WHY = {
    "read": "{target} would be read",
    "write": "{target} would be changed",
    "delete": "{target} would be deleted",
    "outside": "{target} is outside the workspace, and a command would change it",
    "temporary": "{target} is outside the workspace, and a command would change it",
    "read_only": "`{target}` would be run",
    "ordinary": "`{target}` would be run",
    "destructive": "`{target}` destroys data for good or raises its privileges",
    "doubt": "the effects of `{target}` are not known: {doubt}",
    "unproven read": "`{target}` reads files whose names are computed: a secret may be among them",
    "unproven write": "`{target}` changes files whose names are computed",
    "unproven delete": "`{target}` may delete files whose names are computed",
    "unproven destroy": "`{target}` may destroy data for good, depending on its computed words",
    "network": "`{target}` would use the network{hosts}",
    "fetch": "`{target}` would read from the network{hosts}",
    "address": "{target} would be contacted over the network",
    "call": "the tool {target} would be called",
}


def stricter(one: Verdict, other: Verdict | None) -> Verdict:
    """The first, unless the second is stricter."""
    return other if other and STRICT[other.decision] > STRICT[one.decision] else one


def describe_rule(rule: Rule, access: Access) -> Verdict:
    why = rule.why or f"{escape(access.target)}: matches the rule {rule.text}"
    return Verdict(rule.tier, rule.text, why, rule.source)


def judge_unproven(
    access: Access, mode: str, tiers: Mapping[str, str], confined: Callable[[], bool], masked: Callable[[], bool]
) -> Verdict | None:
    """Return the strictest verdict on a command's effects on unnamed files; None if they are allowed."""
    worst: Verdict | None = None
    for kind in access.unproven.split():
        decision = _decision(kind, tiers, confined, masked)
        if decision != "allow" and (worst is None or STRICT[decision] > STRICT[worst.decision]):
            why = WHY[f"unproven {kind}"].format(target=escape(access.target))
            worst = Verdict(decision, f"mode {mode}: {kind}", why)
    return worst


def _decision(
    kind: str, tiers: Mapping[str, str], confined: Callable[[], bool], masked: Callable[[], bool]
) -> Decision:
    if kind == "destroy":  # spelled out it is refused, but most words do not make it so
        return "ask"
    if kind == "read":  # a secret may be read, unless it is hidden; a mode that runs everything says so in its page
        return "allow" if masked() or tiers["doubt"] == "allow" else "ask"
    decisions = [tiers[kind], "ask"]  # what is protected is asked about in every mode
    if not confined():
        decisions.append(tiers["outside"])
    return cast("Decision", max(decisions, key=lambda tier: STRICT[tier]))
