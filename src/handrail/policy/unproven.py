"""Commands whose files cannot be named: never judged easier than the same command with any name in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from handrail.model import Access, Decision, Verdict
from handrail.policy.reasons import STRICT, WHY
from handrail.text.display import escape


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
