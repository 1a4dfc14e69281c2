"""Asking a person through the client: the form, what its answer means, and the seal that ties the two together.

In the era of the handshake the server sends `elicitation/create` and waits. In the era of the envelope the call itself
is answered with `InputRequiredResult`, and comes again with the person's answer and our seal. Both raise through the
session what ends a call without an answer, before anything was changed and without a record: it is not a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handrail.errors import ToolError
from handrail.mcp.answer_tokens import Seals
from handrail.mcp.protocol import Client
from handrail.pipeline.prepared import Answer, Prepared
from handrail.text.display import escape

METHOD = "elicitation/create"
KEY = "approval"
"""What our one question is called among the input requests of a call."""

_MOST_CHARS = 20_000
_TITLED_SINCE = "2025-11-25"


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


class Forged(Unanswered):
    """The state that came with an answer is none of ours, or was changed: the protocol wants that refused."""

    def __init__(self) -> None:
        super().__init__("requestState was not made by this server, or has been changed; send the call without it")


class CannotAsk(Exception):
    """The client has said that it can ask somebody, and cannot."""


def preview_of(prepared: Prepared) -> str:
    """What would be done, in plain text: nothing in it moves a cursor or turns the reading direction."""
    try:
        text = prepared.preview()
    except ToolError:  # why it cannot be shown may itself tell too much; what is touched may be told
        text = "".join(f"{access.action} {access.target}\n" for access in prepared.accesses)
    return "\n".join(_plain(line) for line in text.split("\n"))


def question(prepared: Prepared, preview: str, version: str, always: bool = True) -> dict[str, Any]:
    """The form that a person is shown: why, then what would be done, and the choice."""
    verdict = prepared.verdict
    because = f"Why this is asked: {escape(verdict.why)}" if verdict.why else ""
    rule = f"Rule: {escape(verdict.rule)}" if verdict.rule else ""
    rule += f" ({escape(verdict.source)})" if rule and verdict.source else ""
    left_out = len(preview) - _MOST_CHARS
    if left_out > 0:
        preview = f"{preview[:_MOST_CHARS]}\n... {left_out} more characters are NOT shown here"
    head = "\n".join(line for line in (f"{prepared.call.tool} wants to do this.", because, rule) if line)
    form = _form(verdict.allow if always else "", version)
    asked: dict[str, Any] = {"message": f"{head}\n\n{preview}", "requestedSchema": form}
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
        choices["always"] = f"Yes, always: write down {' and '.join(map(escape, allow.splitlines()))}"
    choices["no"] = "No"
    decision: dict[str, Any] = {"type": "string", "title": "Allow it?"}
    if version < _TITLED_SINCE:
        decision |= {"enum": list(choices), "enumNames": list(choices.values())}
    else:
        decision["oneOf"] = [{"const": name, "title": title} for name, title in choices.items()]
    reason = {"type": "string", "title": "Why not?", "description": "The model reads this; may be left empty"}
    return {"type": "object", "properties": {"decision": decision, "reason": reason}, "required": ["decision"]}


@dataclass(frozen=True, slots=True)
class Asking:
    """A call about which a person may be asked, as the door that took it knows it."""

    client: Client
    params: Mapping[str, Any]
    """Of the request, as they came."""
    owner: tuple[str, ...]
    """Whose call it is: an answer to somebody else's does not count."""
    ask: Callable[[Mapping[str, Any]], Any]
    """Shows the form and waits for the client's `ElicitResult`; raises `Withdrawn` or `CannotAsk`."""
    elsewhere: Callable[[Prepared], Answer]
    """Asks whoever has attached in another way, for a client that cannot ask anybody."""
    always: bool = True
    """Whether an answer may be written down as a rule, which holds for everybody on this machine."""


def answer(prepared: Prepared, call: Asking, seals: Seals) -> Answer:
    """What the person behind the client says; raises what ends the call without an answer."""
    if not call.client.shows_forms:
        return call.elsewhere(prepared)
    preview = preview_of(prepared)
    asked = question(prepared, preview, call.client.version, call.always)
    if call.client.enveloped:
        reply = _brought(call, preview, asked, seals)
    else:
        try:
            reply = call.ask(asked)
        except CannotAsk:
            return call.elsewhere(prepared)
    said = meaning(reply)
    return replace(said, lasting="session") if said.lasting == "always" and not call.always else said


def _brought(call: Asking, preview: str, asked: Mapping[str, Any], seals: Seals) -> Any:
    """The answer that came with the call, if it is one to this; else the call has to come again with one."""
    params, state = call.params, call.params.get("requestState")
    if state is not None and not seals.genuine(state):
        raise Forged
    shown = (*call.owner, params.get("name"), params.get("arguments"), preview)
    replies = params.get("inputResponses")
    if isinstance(replies, Mapping) and KEY in replies and seals.holds(state, *shown):
        return replies[KEY]
    raise InputRequired(asked, seals.seal(*shown))


def _plain(line: str) -> str:
    return line if line.replace("\t", "").isprintable() else escape(line.replace("\t", "    "))
