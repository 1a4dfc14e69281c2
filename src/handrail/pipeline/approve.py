"""The approve step: ask a person about a call, bind the answer to what was shown, remember answers that last.

A yes covers exactly what was shown. The files are compared again under their locks when the call commits; if the call
would now do something else, it is prepared and asked again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from handrail.errors import CallCancelled, Denied, HardLinked, NeedsApproval, NoSandbox, TooLargeToChange, ToolError
from handrail.journal import Origin
from handrail.model import (
    LENT,
    NO_NETWORK,
    Access,
    Answer,
    Approve,
    CommandAccess,
    FileAccess,
    NetworkAccess,
    NetworkGrant,
    Question,
    Verdict,
)
from handrail.pipeline.call_state import FOR_SESSION, Approved, Consent, Judged, ObservedChanges, Proposed
from handrail.pipeline.callers_loop import wait_for
from handrail.pipeline.events import naming
from handrail.pipeline.local_ports import find_ports, is_local
from handrail.pipeline.question import ask_about, ask_about_changes
from handrail.policy import Policy
from handrail.tools.notes import NoteFacts, NotRemembered

if TYPE_CHECKING:
    from handrail.policy.guards import OwnFiles
    from handrail.shell.command_host import CommandHost

_STRICT = {"allow": 0, "ask": 1, "deny": 2}


class HasOwnFiles(Protocol):
    """A session with files of Handrail's own, which commands cannot reach where the boundary hides them."""

    @property
    def own_files(self) -> OwnFiles: ...

    def command_host(self) -> CommandHost: ...


class Approvals:
    """Ask the host, and remember answers for the session."""

    def __init__(
        self,
        policy: Policy,
        approve: Approve | None,
        origin: Origin,
        session: HasOwnFiles,
    ) -> None:
        """``session``: its verdict on Handrail's own files is overridden by no policy and no earlier answer."""
        self.policy = policy
        self._approve = approve
        self._origin = origin
        self._session = session
        self._granted: set[tuple[str, str, str]] = set()
        self._lock = threading.Lock()

    def follow(self, policy: Policy) -> None:
        """Judge by another policy from now on."""
        self.policy = policy

    def approve(self, judged: Judged) -> Approved:
        """Let a judged call pass, after asking a person where the verdict says so.

        Raises `Denied` or `NeedsApproval`, or the reason why the call cannot be made.
        """
        consent = self._obtain_consent(judged)
        return Approved(judged, judged.accesses, consent, self._grant_network(judged.accesses, consent))

    def verdict(self, accesses: Sequence[Access]) -> Verdict:
        """Judge by the policy, and apply answers for this session. A deny is never overridden."""
        verdict = self._judge_by_policy(accesses)
        own = self._session.own_files.judge(accesses, lambda: self._session.command_host().boundary.hides_own)
        return own if own and _STRICT[own.decision] > _STRICT[verdict.decision] else verdict

    def _judge_by_policy(self, accesses: Sequence[Access]) -> Verdict:
        verdict = self.policy.judge(accesses)
        if not isinstance(verdict, Verdict):
            kind = type(self.policy).__name__
            raise ValueError(f"{kind}.judge must return a Verdict, not {repr(verdict)[:80]}")
        if verdict.decision != "ask" or not self._granted:
            return verdict
        with self._lock:
            rest = [access for access in accesses if _name_resource(access, accesses) not in self._granted]
        if len(rest) == len(accesses):
            return verdict
        left = self.policy.judge(rest) if rest else Verdict("allow")
        if left.decision != "allow":
            return left
        granted = (access for access in accesses if access not in rest)
        rule = LENT if all(isinstance(one, FileAccess) and one.lent_to for one in granted) else FOR_SESSION
        return Verdict("allow", rule, "the user allowed this for the session")

    def _obtain_consent(self, judged: Judged) -> Consent | None:
        """None if nobody needs to be asked. A person who rewrote the call with an earlier answer is not asked again."""
        rewritten = judged.received.rewritten
        verdict = judged.verdict
        if verdict.decision == "deny":
            raise Denied(**_describe_verdict(verdict))
        if verdict.decision == "allow":
            return None
        if self._approve is None:
            raise refuse_unasked(verdict)
        shown = self._compute_proposed(judged)
        if rewritten:
            answer = Answer(True, lasting=rewritten.lasting)
        else:
            question = ask_about(judged, shown, workspace=self._origin.workspace, session=self._origin.session)
            with naming("approve"):
                answer = _ask(self._approve, question, judged)
        if not answer.yes:
            raise _refuse(judged, verdict, answer)
        if answer.arguments is None:
            with naming("approve"):
                _require_shown(answer, shown or ())
        return Consent(answer, shown)

    def approve_changes(self, judged: Judged, verdict: Verdict, changes: ObservedChanges) -> Consent:
        """Ask about the changes that a command has made in a draft; raises `Denied` or `NeedsApproval`.

        ``verdict``: the policy's on these changes, which asks.
        """
        if self._approve is None:
            raise refuse_unasked(verdict)
        origin = self._origin
        question = ask_about_changes(judged, verdict, changes, workspace=origin.workspace, session=origin.session)
        with naming("approve"):
            answer = _ask(self._approve, question, judged)
            if answer.arguments is not None:
                raise ValueError("the answer has other arguments for a command that has run already")
            if answer.yes:
                _require_shown(answer, changes.proposed)
        if not answer.yes:
            raise _refuse(judged, verdict, answer)
        return Consent(answer, changes.proposed)

    def _compute_proposed(self, judged: Judged) -> Sequence[Proposed] | None:
        """Compute the proposed changes. A failing call is not asked about, unless its error would reveal a secret."""
        if judged.command is not None or not judged.tool.repeatable:
            return None
        try:
            return judged.proposed()
        except ToolError:
            reads = [FileAccess("read", access.target, access.path) for access in judged.accesses if access.path]
            if self.policy.judge(reads).decision == "allow":
                raise
            return None

    def _grant_network(self, accesses: Sequence[Access], consent: Consent | None) -> NetworkGrant:
        """The network that a command gets whatever the settings are: a person, or a rule, has allowed its use.

        A mode that asks nobody is only enough for a command that fetches; else the settings decide.
        """
        out = [access for access in accesses if isinstance(access, NetworkAccess)]
        if not out:
            return NO_NETWORK
        with self._lock:
            granted = all(_name_resource(access, accesses) in self._granted for access in out)
        local = [access for access in out if is_local(access)]
        by_person = consent is not None or granted
        ports = find_ports(local) if by_person else ()
        beyond = [access for access in out if not is_local(access)]
        opened = bool(beyond) and self._opens_network(accesses, beyond, consent, granted)
        filters = getattr(self.policy, "filters", None)
        if not by_person and filters and filters(accesses):
            return NetworkGrant(filtered=True)
        return NetworkGrant(
            opened, local=bool(local) and (by_person or self._is_alone_by_rule(accesses, local)), ports=ports
        )

    def _opens_network(
        self, accesses: Sequence[Access], out: Sequence[NetworkAccess], consent: Consent | None, granted: bool
    ) -> bool:
        """Whether a command gets all of the network, for its uses ``out`` of hosts beyond this machine."""
        if consent is not None and any(not access.possible or access.hosts for access in out):
            return True
        if granted or self._is_alone_by_rule(accesses, out):
            return True
        return all(access.fetches for access in out) and self.policy.judge(out).decision == "allow"

    def _is_alone_by_rule(self, accesses: Sequence[Access], out: Sequence[Access]) -> bool:
        verdicts = (self.policy.judge([access]) for access in out)
        return _is_alone(accesses) and all(one.decision == "allow" and one.source for one in verdicts)

    def remember(self, accesses: Sequence[Access], verdict: Verdict, consent: Consent) -> tuple[NoteFacts, ...]:
        """Save a lasting answer after its first use; returns a note if it could not be saved."""
        if consent.answer.lasting == "once":
            return ()
        to_ask = [access for access in accesses if self.policy.judge([access]).decision == "ask"]
        with self._lock:
            self._granted.update(_name_resource(access, accesses) for access in to_ask)
        remember = getattr(self.policy, "remember", None)
        if consent.answer.lasting != "always" or not remember or not verdict.allow:
            return ()
        place = next((access.place for access in accesses if isinstance(access, CommandAccess)), "")
        try:
            remember(verdict.allow.split("\n"), place)
        except ValueError as error:  # the call is made: what is left to do is to say so
            return (NotRemembered(why=str(error)),)
        return ()


def _ask(approve: Approve, question: Question, judged: Judged) -> Answer:
    """The answer of a person, whose thinking does not count as time that the call takes."""
    asked = time.perf_counter()
    try:
        return resolve_answer(approve(question))
    finally:
        judged.received.clock.leave_out(asked)


def _refuse(judged: Judged, verdict: Verdict, answer: Answer) -> Denied:
    why = "the user refused" + (f": {answer.reason}" if answer.reason else "")
    if judged.cancel and judged.cancel.is_set():
        why = "the call was cancelled while waiting for approval"
    return Denied(rule=verdict.rule, why=why, source="", allow="")


def _require_shown(answer: Answer, shown: Sequence[Proposed]) -> None:
    """Raise if an answer chooses hunks or texts of files that were not shown: an error of the host."""
    known = {one.path: one for one in shown}
    for path, numbers in (answer.hunks or {}).items():
        if path not in known:
            raise ValueError(f"the answer chooses hunks of {path!r}, which the call does not change")
        if not known[path].parts and not set(range(len(known[path].hunks))) <= set(numbers):
            raise ValueError(f"the answer leaves out hunks of {path!r}, which can only be taken as a whole")
    for path in answer.contents or {}:
        if path not in known or known[path].after is None or (known[path].after and not known[path].text):
            raise ValueError(f"the answer has another text for {path!r}, which does not accept an edited text")


def resolve_answer(answer: bool | Answer | Awaitable[bool | Answer]) -> Answer:
    """The `Answer` that a callback returned, as a bool, or as something to await: a no if the call is cancelled.

    Raises `ValueError` for anything else: a text that is not empty must not count as a yes.
    """
    if isinstance(answer, Awaitable):
        try:
            answer = wait_for(answer)
        except CallCancelled:
            return Answer(False, "the call was cancelled")
    if isinstance(answer, Answer):
        return answer
    if isinstance(answer, bool):
        return Answer(answer)
    raise ValueError(f"approve must return True, False or an Answer, not {repr(answer)[:80]}")


def refuse_unasked(verdict: Verdict, attach: str = "") -> NeedsApproval:
    """Build the error for a call that needs approval; ``attach``: the command that attaches a terminal."""
    return NeedsApproval(**_describe_verdict(verdict), attach=attach)


def advise_operator(refused: ToolError) -> str:
    """What a person can do about a refusal. The model's text has none of it."""
    lines: list[str] = []
    if isinstance(refused, Denied | NeedsApproval) and refused.advice:
        lines.append(f"{refused.advice[0].upper()}{refused.advice[1:]}.")
    if isinstance(refused, Denied | NeedsApproval) and refused.allow:
        lines.append(f"This rule would allow it: {refused.allow}")
    if isinstance(refused, NeedsApproval) and refused.attach:
        lines.append(f"To answer such questions, run `{refused.attach}` in a terminal in the workspace.")
    if isinstance(refused, NoSandbox):
        lines.append("`handrail doctor` says what this machine lacks.")
    if isinstance(refused, HardLinked):
        lines.append(
            'The setting hard_links = "split" gives a changed file its own copy; with "through", all links change.'
        )
    if isinstance(refused, TooLargeToChange):
        lines.append("The setting most_edit_bytes limits the files that can be changed.")
    return "\n".join(lines)


def _describe_verdict(verdict: Verdict) -> dict[str, str]:
    return {name: getattr(verdict, name) for name in ("rule", "why", "source", "allow", "advice")}


def _name_resource(access: Access, accesses: Sequence[Access]) -> tuple[str, str, str]:
    """Return the resource of an answer for the session. For the network it is the whole command."""
    if isinstance(access, NetworkAccess):
        whole = next((one for one in accesses if isinstance(one, CommandAccess)), None)
        return access.action, whole.target if whole else access.target, whole.place if whole else ""
    return (
        access.action,
        access.path or access.target,
        f"{getattr(access, 'place', '')}\0{getattr(access, 'lent_to', '')}",
    )


def _is_alone(accesses: Sequence[Access]) -> bool:
    """Whether nothing but commands that use the network, and known ones that only read, would run in a call.

    A rule speaks of one use of the network; a program beside it would get all of it.
    """
    out = {access.target for access in accesses if access.action == "network"}
    runs = [access for access in accesses if isinstance(access, CommandAccess)]
    if not runs or runs[0].doubt:  # the first one is the whole of it
        return False
    return all(part.target in out or (part.tier == "read_only" and not part.doubt) for part in runs[1:] or runs)
