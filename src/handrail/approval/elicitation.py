"""Ask the person behind an MCP client, by elicitation: the form, and the meaning of the client's reply.

Protocol versions with a handshake let the server send `elicitation/create` and wait. Later versions answer the call
with `InputRequiredResult`; the client then repeats the call with the person's reply and the token that came with the
form. In either case a call without an answer ends with an exception: nothing was changed, and nobody has refused.

Clients show little of a form: Claude Code three lines of the message, and Codex submits nothing while a text field is
empty. So the first line says what would change, the form has one field, and the reason for a No is a second form.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from handrail.approval.answer_tokens import AnswerTokens, OpenQuestion
from handrail.approval.ask_attached import Approvers, BackgroundQuestion
from handrail.frozen import frozen
from handrail.json_types import JsonObject
from handrail.model import Answer, FileDiff, Question
from handrail.text.display import escape

METHOD = "elicitation/create"
KEY = "approval"
"""The name of the question among the input requests of a call."""
REASON_KEY = "reason"
"""The name of the question that follows a No."""

_MOST_CHARS = 20_000
_SHORT_LINES = 12
"""Lines of a preview that most clients show without scrolling."""
_AUTOMATIC = 0.3
"""Seconds: no person reads a question and declines it in less."""
_HEADLINE = 160
_FRAGMENT = 60
"""Characters of one line of a change in the first line of a form."""
_TITLED_SINCE = "2025-11-25"


class Unanswered(BaseException):
    """Ends a call that waits for a person. Not an `Exception`: for the session this is no failure of the call."""


class InputRequired(Unanswered):
    """The client has to repeat the call, with the answer to this form."""

    def __init__(self, form: Mapping[str, object], token: str, key: str = KEY) -> None:
        super().__init__()
        self.form = form
        self.key = key
        self.token = token

    def result(self) -> dict[str, object]:
        """The `InputRequiredResult` of the protocol."""
        requests = {self.key: {"method": METHOD, "params": self.form}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": self.token}


class Withdrawn(Unanswered):
    """The form was withdrawn: the call was cancelled or answered elsewhere, or the client has gone."""


class ForgedToken(Unanswered):
    """The token that came with an answer was not issued here, or was changed: the protocol wants that refused."""

    def __init__(self) -> None:
        super().__init__("requestState does not come from this server, or was modified; send the call without it")


class CannotAsk(Exception):
    """The client has declared that it can ask somebody, and cannot."""


@frozen
class Elicitation:
    """Asks the person behind the client of one call."""

    version: str
    """The protocol version that the client speaks."""
    shows_forms: bool
    """Whether the client can ask anybody."""
    repeats_calls: bool
    """Whether the client answers by repeating the call."""
    params: Mapping[str, object]
    """Of the request, as they came."""
    owner: tuple[str, ...]
    """Whose call it is: an answer to somebody else's does not count."""
    send: Callable[[Mapping[str, object], threading.Event], object]
    """Shows the form and waits for the client's `ElicitResult`; raises `Withdrawn`, also when the event is set while it
    waits, or `CannotAsk`."""
    attached: Approvers
    """People at other terminals: asked at the same time, and alone where the client cannot ask anybody."""
    tokens: AnswerTokens
    always: bool = True
    """Whether an answer may be written down as a rule, which holds for everybody on this machine."""

    def __call__(self, question: Question) -> Answer:
        """The person's answer; raises `Unanswered` if the call ends first, and `NeedsApproval` with nobody to ask."""
        if not self.shows_forms:
            return self.attached(question)
        preview = _render_preview(question)
        form = make_form(question, preview, self.version, self.always)
        if self.repeats_calls:
            answer = self._answer_in_call(question, form, preview)
        else:
            answer = self._answer_to_form(question, form)
        return replace(answer, lasting="session") if answer.lasting == "always" and not self.always else answer

    def _answer_to_form(self, question: Question, form: Mapping[str, object]) -> Answer:
        """The first answer: of the person behind the client, or of one at another terminal."""
        elsewhere = threading.Event()
        background = BackgroundQuestion(self.attached, question, elsewhere.set)
        asked = OpenQuestion(time.monotonic(), background)
        try:
            reply = self.send(form, elsewhere)
            if self._is_automatic(reply, asked):
                return background.wait(_note_declined(question))
            if first := background.withdraw(question.client or "the client"):
                return first
            if _is_no_without_reason(reply):
                return Answer(False, read_reason(self.send(make_reason_form(self.version), threading.Event())))
            return read_reply(reply)
        except CannotAsk:
            return background.wait(question)
        except Withdrawn:
            if first := background.withdraw():
                return first
            raise
        finally:
            background.withdraw()

    def _answer_in_call(self, question: Question, form: Mapping[str, object], preview: str) -> Answer:
        """The answer that came with the call, if it answers this question; raises `InputRequired` if not."""
        params, token = self.params, self.params.get("requestState")
        if token is not None and not self.tokens.is_genuine(token):
            raise ForgedToken
        shown = (*self.owner, params.get("name"), params.get("arguments"), preview)
        replies = params.get("inputResponses")
        if isinstance(replies, Mapping):
            if REASON_KEY in replies and self.tokens.redeem(token, *shown, REASON_KEY):
                return Answer(False, read_reason(replies[REASON_KEY]))
            if KEY in replies and (asked := self.tokens.redeem(token, *shown)):
                assert asked.background
                if self._is_automatic(replies[KEY], asked):
                    return asked.background.wait(_note_declined(question))
                if first := asked.background.withdraw(question.client or "the client"):
                    return first
                if not _is_no_without_reason(replies[KEY]):
                    return read_reply(replies[KEY])
                why = make_reason_form(self.version)
                raise InputRequired(why, self.tokens.issue(*shown, REASON_KEY), REASON_KEY)
        background = BackgroundQuestion(self.attached, replace(question, cancel=None))
        raise InputRequired(form, self.tokens.issue(*shown, background=background))

    def _is_automatic(self, reply: object, asked: OpenQuestion) -> bool:
        """Whether the client declined faster than a person can read: then nobody has answered."""
        return _is_decline(reply) and asked.answered_within(_AUTOMATIC)


def _note_declined(question: Question) -> Question:
    why = f"{question.verdict.why}; the client declined without asking anybody".removeprefix("; ")
    return replace(question, verdict=replace(question.verdict, why=why))


def make_form(question: Question, preview: str, version: str, always: bool = True) -> JsonObject:
    """Build the params of `elicitation/create`: the change in one line, the reason, the preview and the choices."""
    verdict = question.verdict
    rule = f" ({escape(verdict.rule)}{f', {escape(verdict.source)}' if verdict.source else ''})" if verdict.rule else ""
    because = f"Asked because: {escape(verdict.why) or 'a rule says so'}{rule}" if verdict.why or rule else ""
    left_out = len(preview) - _MOST_CHARS
    if left_out > 0:
        preview = f"{preview[:_MOST_CHARS]}\n... {left_out} more characters are NOT shown here"
    elsewhere = ""
    lines = preview.split("\n")
    if left_out > 0 or len(lines) > _SHORT_LINES + 1 or any(len(line) > _HEADLINE for line in lines):
        elsewhere = "To see all of it and choose parts, run `handrail web` or `handrail approve` before you answer."
    head = "\n".join(line for line in (describe_change(question), because, elsewhere) if line)
    schema = _build_schema(verdict.allow if always else "", version)
    return _add_form_mode({"message": f"{head}\n\n{preview}", "requestedSchema": schema}, version)


def make_reason_form(version: str) -> dict[str, object]:
    """Build the params of the form that follows a No."""
    reason = {"type": "string", "title": "Why not?", "description": "The model reads it"}
    schema = {"type": "object", "properties": {"reason": reason}, "required": ["reason"]}
    message = "Nothing was changed. Tell the model why, or close this form."
    return _add_form_mode({"message": message, "requestedSchema": schema}, version)


def _add_form_mode(form: dict[str, object], version: str) -> dict[str, object]:
    return form if version < _TITLED_SINCE else {"mode": "form", **form}


def describe_change(question: Question) -> str:
    """Summarize a call in one line: `Edit a.txt: -alpha +gamma`, or `Bash: npm install`."""
    if question.command is not None:
        lines = question.command.strip().splitlines() or [""]
        text = lines[0] + (f" (and {_count(len(lines) - 1, 'more line')})" if len(lines) > 1 else "")
    elif question.files:
        text = _describe_file(question.files[0])
        text += f" (and {_count(len(question.files) - 1, 'more file')})" if len(question.files) > 1 else ""
        return f"{escape(question.call.tool)} {text}"
    else:
        text = (question.summary.strip().splitlines() or [""])[0]
    return f"{escape(question.call.tool)}: {_shorten_line(text, _HEADLINE)}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _describe_file(file: FileDiff) -> str:
    path = _shorten_line(file.path, 2 * _FRAGMENT)
    lines = [line for hunk in file.hunks for line in hunk.splitlines()[1:]]
    removed, added = ([line[1:] for line in lines if line.startswith(sign)] for sign in "-+")
    if file.deleted:
        return f"{path}: delete"
    if file.created and added:
        return f"{path}: new file, {_count(len(added), 'line')}"
    shown = [f"{sign}{_shorten_line(of[0], _FRAGMENT)}" for sign, of in (("-", removed), ("+", added)) if of]
    total = (
        f" ({_count(len(removed), 'line')} removed, {len(added)} added)" if len(removed) > 1 or len(added) > 1 else ""
    )
    if not shown:
        about = (file.description.removeprefix(f"{file.path}: ").splitlines() or ["change"])[0]
        return f"{path}: {_shorten_line(about, _HEADLINE)}"
    return f"{path}: {' '.join(shown)}{total}"


def _shorten_line(line: str, most: int) -> str:
    line = escape(" ".join(line.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _read_fields(reply: object) -> Mapping[str, object]:
    content = reply.get("content") if isinstance(reply, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def _is_decline(reply: object) -> bool:
    return not isinstance(reply, Mapping) or reply.get("action") != "accept"


def _is_no_without_reason(reply: object) -> bool:
    """Whether a person chose No, and was not asked for a reason yet."""
    accepted = isinstance(reply, Mapping) and reply.get("action") == "accept"
    return accepted and _read_fields(reply).get("decision") == "no" and not read_reason(reply)


def read_reason(reply: object) -> str:
    """The reason that a client's `ElicitResult` gives; empty if the form was closed."""
    text = _read_fields(reply).get("reason")
    return text.strip() if isinstance(text, str) else ""


def read_reply(reply: object) -> Answer:
    """The meaning of a client's `ElicitResult`. Anything but a plain yes is a no."""
    action = reply.get("action") if isinstance(reply, Mapping) else None
    reason = read_reason(reply)
    if action != "accept":
        return Answer(False, reason or ("the question was closed" if action == "cancel" else ""))
    match _read_fields(reply).get("decision"):
        case "once" | "session" | "always" as lasting:
            return Answer(True, reason, lasting)
        case "no":
            return Answer(False, reason)
    return Answer(False, reason or "the reply has no valid choice")


def _build_schema(allow: str, version: str) -> dict[str, object]:
    choices = {"once": "Yes", "session": "Yes, for this session"}
    if allow:
        choices["always"] = f"Always: {' and '.join(map(escape, allow.splitlines()))}"
    choices["no"] = "No"
    decision: dict[str, object] = {"type": "string", "title": "Allow it?"}
    if version < _TITLED_SINCE:
        decision |= {"enum": list(choices), "enumNames": list(choices.values())}
    else:
        decision["oneOf"] = [{"const": name, "title": title} for name, title in choices.items()]
    return {"type": "object", "properties": {"decision": decision}, "required": ["decision"]}


def _render_preview(question: Question) -> str:
    """The preview in plain text: nothing in it moves a cursor or turns the reading direction."""
    return "\n".join(map(_clean_line, question.preview().split("\n")))


def _clean_line(line: str) -> str:
    return line if line.replace("\t", "").isprintable() else escape(line.replace("\t", "    "))
