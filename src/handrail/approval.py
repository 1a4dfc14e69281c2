"""Approval: who is asked, what the person was shown, what was answered before, and what the answer binds to.

A yes holds for what was shown. The files are read again under their locks when the call runs, and if what it would do
now is not what the person saw, the call is prepared anew and asked again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from handrail.errors import Denied, NeedsApproval, ToolError
from handrail.guard import Guard, Proposed
from handrail.nouns import Touch, Verdict
from handrail.policy import Policy
from handrail.prepared import Answer, Approve, Prepared, answered, command_of
from handrail.text.shown import shown
from handrail.tool import Remark


class Unlike(Exception):
    """What would be done is not what the person was shown."""


@dataclass(frozen=True, slots=True)
class Consent:
    """A person's yes, and what it was said to."""

    answer: Answer
    shown: Sequence[Proposed] | None
    """None where nothing could be shown in advance: a command."""

    def require_same(self, guard: Guard) -> None:
        """Raises `Unlike` if the run came to other bytes than the preview."""
        if self.shown is not None and _bytes(self.shown) != _bytes(guard.proposed):
            raise Unlike

    def remarks(self) -> list[Remark]:
        """What the model must know of the answer."""
        found: list[Remark] = []
        wanted = total = 0
        for one in self.shown or ():
            numbers = range(len(one.hunks))
            chosen = (self.answer.hunks or {}).get(one.path, numbers) if one.parts else numbers
            total += len(numbers)
            wanted += len(set(chosen) & set(numbers))
        if wanted < total:
            found.append(Remark("partly_approved", {"wanted": wanted, "total": total}))
        if self.answer.contents:
            found.append(Remark("written_otherwise", {"paths": ", ".join(map(shown, self.answer.contents))}))
        return found


class Approvals:
    """Asks the host, and remembers what need not be asked again."""

    def __init__(self, policy: Policy, approve: Approve | None) -> None:
        self._policy = policy
        self._approve = approve
        self._granted: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def follow(self, policy: Policy) -> None:
        """Judge by another policy from now on."""
        self._policy = policy

    def verdict(self, touches: Sequence[Touch]) -> Verdict:
        """What the policy says, without what a person has allowed for this session. A deny is never loosened."""
        verdict = self._policy.judge(touches)
        if verdict.decision != "ask" or not self._granted:
            return verdict
        with self._lock:
            rest = [touch for touch in touches if _resource(touch) not in self._granted]
        if len(rest) == len(touches):
            return verdict
        left = self._policy.judge(rest) if rest else Verdict("allow")
        if left.decision != "allow":
            return left
        return Verdict("allow", "approved for this session", "a person has allowed this for the session")

    def consent(self, prepared: Prepared, rewritten: bool = False) -> Consent | None:
        """None if nobody needs to be asked. Raises `Denied` or `NeedsApproval`, or why the call cannot be done.

        What a person has ``rewritten`` is wanted by that person, and need not be asked again.
        """
        verdict = prepared.verdict
        facts = {name: getattr(verdict, name) for name in ("rule", "why", "source", "allow")}
        if verdict.decision == "deny":
            raise Denied(**facts)
        if verdict.decision == "allow":
            return None
        if self._approve is None:
            raise NeedsApproval(**facts)
        shown = self._shown(prepared)
        answer = Answer(True) if rewritten else answered(self._approve(prepared))
        if not answer.yes:
            why = "the person who was asked said no" + (f": {answer.reason}" if answer.reason else "")
            raise Denied(**{**facts, "why": why, "source": "", "allow": ""})
        if answer.lasting != "once":
            self._remember(prepared, answer)
        return Consent(answer, shown)

    def _shown(self, prepared: Prepared) -> Sequence[Proposed] | None:
        """What the call would change. One that cannot be done bothers nobody, unless the reason tells too much."""
        if command_of(prepared) is not None:
            return None
        try:
            return prepared.proposed()
        except ToolError:
            reads = [Touch("read", touch.target, touch.path) for touch in prepared.touches if touch.path]
            if self._policy.judge(reads).decision == "allow":
                raise
            return None

    def _remember(self, prepared: Prepared, answer: Answer) -> None:
        asked = [touch for touch in prepared.touches if self._policy.judge([touch]).decision == "ask"]
        with self._lock:
            self._granted.update(map(_resource, asked))
        remember = getattr(self._policy, "remember", None)
        if answer.lasting == "always" and remember and prepared.verdict.allow:
            remember(prepared.verdict.allow.split("\n"))


def _resource(touch: Touch) -> tuple[str, str]:
    return touch.action, touch.path or touch.target


def _bytes(proposed: Sequence[Proposed]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(one.path, one.before, one.after) for one in proposed]
