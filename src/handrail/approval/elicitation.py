"""Ask the person behind an MCP client, by elicitation: the form, and the meaning of the client's reply.

Protocol versions with a handshake let the server send `elicitation/create` and wait. Later versions answer the call
with `InputRequiredResult`; the client then repeats the call with the person's reply and the token that came with the
form. Both end a call that got no answer by an exception: nothing was changed, and it is not a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from handrail.approval.answer_tokens import AnswerTokens
from handrail.model import Answer, Question
from handrail.text.display import escape

METHOD = "elicitation/create"
KEY = "approval"
"""The name of our one question among the input requests of a call."""

_MOST_CHARS = 20_000
_TITLED_SINCE = "2025-11-25"


class Unanswered(BaseException):
    """Ends a call that waits for a person. Not an `Exception`: for the session this is no failure of the call."""


class InputRequired(Unanswered):
    """The client has to repeat the call, with the answer to this form."""

    def __init__(self, form: Mapping[str, Any], token: str) -> None:
        super().__init__()
        self.form = form
        self.token = token

    def result(self) -> dict[str, Any]:
        """The `InputRequiredResult` of the protocol."""
        requests = {KEY: {"method": METHOD, "params": self.form}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self.token}


class Withdrawn(Unanswered):
    """The client has cancelled the call, or has gone, while the person was asked."""


class ForgedToken(Unanswered):
    """The token that came with an answer was not issued here, or was changed: the protocol wants that refused."""

    def __init__(self) -> None:
        super().__init__("requestState does not come from this server, or was modified; send the call without it")


class CannotAsk(Exception):
    """The client has declared that it can ask somebody, and cannot."""


@dataclass(frozen=True, slots=True)
class Elicitation:
    """Asks the person behind the client of one call."""

    version: str
    """The protocol version that the client speaks."""
    shows_forms: bool
    """Whether the client can ask anybody."""
    repeats_calls: bool
    """Whether the client answers by repeating the call."""
    params: Mapping[str, Any]
    """Of the request, as they came."""
    owner: tuple[str, ...]
    """Whose call it is: an answer to somebody else's does not count."""
    send: Callable[[Mapping[str, Any]], Any]
    """Shows the form and waits for the client's `ElicitResult`; raises `Withdrawn` or `CannotAsk`."""
    otherwise: Callable[[Question], Answer]
    """Asks in another way, for a client that cannot ask anybody."""
    tokens: AnswerTokens
    always: bool = True
    """Whether an answer may be written down as a rule, which holds for everybody on this machine."""

    def __call__(self, question: Question) -> Answer:
        """The person's answer; raises `Unanswered` if the call ends without one."""
        if not self.shows_forms:
            return self.otherwise(question)
        preview = _preview(question)
        form = make_form(question, preview, self.version, self.always)
        if self.repeats_calls:
            reply = self._reply_in_call(form, preview)
        else:
            try:
                reply = self.send(form)
            except CannotAsk:
                return self.otherwise(question)
        answer = read_reply(reply)
        return replace(answer, lasting="session") if answer.lasting == "always" and not self.always else answer

    def _reply_in_call(self, form: Mapping[str, Any], preview: str) -> Any:
        """The reply that came with the call, if it is one to this; else the call has to come again with one."""
        params, token = self.params, self.params.get("requestState")
        if token is not None and not self.tokens.is_genuine(token):
            raise ForgedToken
        shown = (*self.owner, params.get("name"), params.get("arguments"), preview)
        replies = params.get("inputResponses")
        if isinstance(replies, Mapping) and KEY in replies and self.tokens.redeem(token, *shown):
            return replies[KEY]
        raise InputRequired(form, self.tokens.issue(*shown))


def make_form(question: Question, preview: str, version: str, always: bool = True) -> dict[str, Any]:
    """Build the params of `elicitation/create`: the reason, the preview and the choices."""
    verdict = question.verdict
    because = f"Reason: {escape(verdict.why)}" if verdict.why else ""
    rule = f"Rule: {escape(verdict.rule)}" if verdict.rule else ""
    rule += f" ({escape(verdict.source)})" if rule and verdict.source else ""
    left_out = len(preview) - _MOST_CHARS
    if left_out > 0:
        preview = f"{preview[:_MOST_CHARS]}\n... {left_out} more characters are NOT shown here"
    head = "\n".join(line for line in (f"{question.call.tool} needs your approval.", because, rule) if line)
    schema = _schema(verdict.allow if always else "", version)
    form: dict[str, Any] = {"message": f"{head}\n\n{preview}", "requestedSchema": schema}
    return form if version < _TITLED_SINCE else {"mode": "form", **form}


def read_reply(reply: Any) -> Answer:
    """The meaning of a client's `ElicitResult`. Anything but a plain yes is a no."""
    reply = reply if isinstance(reply, Mapping) else {}
    content = reply.get("content")
    content = content if isinstance(content, Mapping) else {}
    text = content.get("reason")
    reason = text.strip() if isinstance(text, str) else ""
    if reply.get("action") != "accept":
        return Answer(False, reason or ("the question was closed" if reply.get("action") == "cancel" else ""))
    match content.get("decision"):
        case "once" | "session" | "always" as lasting:
            return Answer(True, reason, lasting)
        case "no":
            return Answer(False, reason)
    return Answer(False, reason or "the answer has no choice")


def _schema(allow: str, version: str) -> dict[str, Any]:
    choices = {"once": "Yes, this once", "session": "Yes, and do not ask again for the same in this session"}
    if allow:
        choices["always"] = f"Yes, always: save the rule {' and '.join(map(escape, allow.splitlines()))}"
    choices["no"] = "No"
    decision: dict[str, Any] = {"type": "string", "title": "Allow it?"}
    if version < _TITLED_SINCE:
        decision |= {"enum": list(choices), "enumNames": list(choices.values())}
    else:
        decision["oneOf"] = [{"const": name, "title": title} for name, title in choices.items()]
    reason = {"type": "string", "title": "Why not?", "description": "Shown to the model; optional"}
    return {"type": "object", "properties": {"decision": decision, "reason": reason}, "required": ["decision"]}


def _preview(question: Question) -> str:
    """The preview in plain text: nothing in it moves a cursor or turns the reading direction."""
    return "\n".join(map(_plain_line, question.preview().split("\n")))


def _plain_line(line: str) -> str:
    return line if line.replace("\t", "").isprintable() else escape(line.replace("\t", "    "))
