"""Asking a person through the client: the form, what its answer means, and the seal that ties the two together.

In the era of the handshake the server sends `elicitation/create` and waits. In the era of the envelope the call itself
is answered with `InputRequiredResult`, and comes again with the person's answer and our seal. Both raise through the
session what ends a call without an answer, before anything was changed and without a record: it is not a refusal.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

from handrail.errors import NeedsApproval, ToolError
from handrail.mcp.calls import Question, Running
from handrail.prepared import Answer, Prepared
from handrail.text.shown import shown

METHOD = "elicitation/create"
KEY = "approval"
"""What our one question is called among the input requests of a call."""

_MOST_CHARS = 20_000
_TITLED_SINCE = "2025-11-25"
_MOST_OPEN = 1024


class Unanswered(BaseException):
    """Ends a call that waits for a person. Not an `Exception`: for the session this is no failure of the call."""


class InputRequired(Unanswered):
    """The call has to come again, with the answer to this."""

    def __init__(self, question: Mapping[str, Any], state: str) -> None:
        super().__init__()
        self.question = question
        self.state = state

    def result(self) -> dict[str, Any]:
        asked = {KEY: {"method": METHOD, "params": self.question}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": self.state}


class Withdrawn(Unanswered):
    """The client has cancelled the call, or has gone, while the person was asked."""


def preview_of(prepared: Prepared) -> str:
    """What would be done, in plain text: nothing in it moves a cursor or turns the reading direction."""
    try:
        text = prepared.preview()
    except ToolError:  # why it cannot be shown may itself tell too much; what is touched may be told
        text = "".join(f"{touch.action} {touch.target}\n" for touch in prepared.touches)
    return "\n".join(_plain(line) for line in text.split("\n"))


def question(prepared: Prepared, preview: str, version: str) -> dict[str, Any]:
    """The form that a person is shown: why, then what would be done, and the choice."""
    verdict = prepared.verdict
    because = f"Why this is asked: {shown(verdict.why)}" if verdict.why else ""
    rule = f"Rule: {shown(verdict.rule)}" if verdict.rule else ""
    rule += f" ({shown(verdict.source)})" if rule and verdict.source else ""
    left_out = len(preview) - _MOST_CHARS
    if left_out > 0:
        preview = f"{preview[:_MOST_CHARS]}\n... {left_out} more characters are NOT shown here"
    head = "\n".join(line for line in (f"{prepared.call.tool} wants to do this.", because, rule) if line)
    asked: dict[str, Any] = {"message": f"{head}\n\n{preview}", "requestedSchema": _form(verdict.allow, version)}
    return asked if version < _TITLED_SINCE else {"mode": "form", **asked}


def meaning(reply: Any) -> Answer:
    """What a client's `ElicitResult` says. Whatever is not plainly a yes is a no."""
    reply = reply if isinstance(reply, Mapping) else {}
    content = reply.get("content")
    content = content if isinstance(content, Mapping) else {}
    given = content.get("reason")
    reason = given.strip() if isinstance(given, str) else ""
    if reply.get("action") != "accept":
        return Answer(False, reason or ("the question was closed" if reply.get("action") == "cancel" else ""))
    match content.get("decision"):
        case "once" | "session" | "always" as lasting:
            return Answer(True, reason, lasting)
        case "no":
            return Answer(False, reason)
    return Answer(False, reason or "the answer named no choice")


def _form(allow: str, version: str) -> dict[str, Any]:
    choices = {"once": "Yes, this once", "session": "Yes, and do not ask for the same again in this session"}
    if allow:
        choices["always"] = f"Yes, always: write down {' and '.join(map(shown, allow.splitlines()))}"
    choices["no"] = "No"
    decision: dict[str, Any] = {"type": "string", "title": "Allow it?"}
    if version < _TITLED_SINCE:
        decision |= {"enum": list(choices), "enumNames": list(choices.values())}
    else:
        decision["oneOf"] = [{"const": name, "title": title} for name, title in choices.items()]
    reason = {"type": "string", "title": "Why not?", "description": "The model reads this; may be left empty"}
    return {"type": "object", "properties": {"decision": decision, "reason": reason}, "required": ["decision"]}


def refusal(prepared: Prepared) -> NeedsApproval:
    """What the session says where nobody can be asked: it names the rule that would allow the call."""
    return NeedsApproval(**{name: getattr(prepared.verdict, name) for name in ("rule", "why", "source", "allow")})


class Asker:
    """The `approve` of every session behind the door: asks the client whose call it is."""

    def __init__(self, ask: Callable[[Running, Mapping[str, Any]], Question]) -> None:
        self._ask = ask
        self._seals = Seals()
        self._current = threading.local()

    def attend(self, call: Running) -> None:
        """What this thread does from now on is done for this call."""
        self._current.call = call

    def __call__(self, prepared: Prepared) -> Answer:
        call: Running = self._current.call
        replies, state = call.params.get("inputResponses"), call.params.get("requestState")
        preview = preview_of(prepared)
        shown = call.tool, call.arguments, call.thread, hashlib.sha256(preview.encode("utf-8", "replace")).hexdigest()
        if call.client.enveloped and isinstance(replies, Mapping) and self._seals.holds(state, *shown):
            return meaning(replies.get(KEY))
        if not call.client.shows_forms:
            raise refusal(prepared)
        asked = question(prepared, preview, call.client.version)
        if call.client.enveloped:
            raise InputRequired(asked, self._seals.seal(*shown))
        settled = self._ask(call, asked)
        if settled.refused:
            raise refusal(prepared)
        return meaning(settled.answer)


class Seals:
    """Ties a person's answer to what was shown: it counts once, and for nothing else."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._open: dict[str, None] = {}
        self._lock = threading.Lock()

    def seal(self, *shown: Any) -> str:
        """A `requestState` for what a person is shown now."""
        number = os.urandom(16).hex()
        with self._lock:
            self._open[number] = None
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        return f"{number}.{self._mark(number, shown)}"

    def holds(self, state: Any, *shown: Any) -> bool:
        """Whether the answer that came with ``state`` is one to this; true only once."""
        number, _, mark = state.partition(".") if isinstance(state, str) else ("", "", "")
        if not hmac.compare_digest(mark.encode("utf-8", "replace"), self._mark(number, shown).encode("ascii")):
            return False
        with self._lock:
            return self._open.pop(number, self) is None

    def _mark(self, number: str, shown: tuple[Any, ...]) -> str:
        told = json.dumps([number, *shown], sort_keys=True).encode("ascii")
        return hmac.new(self._key, told, hashlib.sha256).hexdigest()


def _plain(line: str) -> str:
    return line if line.replace("\t", "").isprintable() else shown(line.replace("\t", "    "))
