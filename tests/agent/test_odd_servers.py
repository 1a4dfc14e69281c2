"""Servers that speak a protocol nearly, models that write nonsense: the loop goes on, and no wrong byte is written."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from handrail.agent.loop import AgentLimits
from handrail.agent.messages import CallFinished, CallStarted, Retrying, TextDelta, ToolCall, Turn
from handrail.agent.providers import APIS, Api
from handrail.agent.providers.failures import from_status, without_keys
from handrail.cli.chat.summary import describe_call
from handrail_demo.scripted_server import Line, Protocol, Seen
from tests.agent.conftest import Setting
from tests.command import TIMEOUT

EVERY = pytest.mark.parametrize("api", APIS)
DEEP = '{"a":' * 3_000


def chat(*replies: list[Mapping[str, Any] | str]) -> Mapping[str, Protocol]:
    """Chat Completions with exactly these chunks, reply after reply; a text is sent as it is."""

    def protocol(seen: Seen, _: Line) -> Iterator[str]:
        for chunk in replies[min(seen.number, len(replies) - 1)]:
            yield chunk if isinstance(chunk, str) else f"data: {json.dumps(chunk)}\n\n"

    return {"/chat/completions": protocol}


def text_chunk(text: Any, finish: str | None = "stop") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]}


def called(*calls: Any, finish: str | None = "tool_calls") -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": {"tool_calls": list(calls)}, "finish_reason": finish}]}


def call(arguments: Any, name: str | None = "Write", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "arguments": arguments}, **more}


A, B = ({"file_path": f"{name}.txt", "content": f"{name}\n"} for name in "ab")


@pytest.mark.parametrize(
    "chunks",
    [
        [called(call(json.dumps(A), id="x"), call(json.dumps(B), id="y"))],
        [called(call(json.dumps(A), id="x", index=None), call(json.dumps(B), id="x", index=None))],
        [called(call(json.dumps(A), id="x", index=0), finish=None), called(call(json.dumps(B), id="y", index=0))],
        [called(call(A, id=None, index=0), call(B, id=None, index=1))],
        [
            called(call(None, id="x"), finish=None),
            called(call(json.dumps(A)[:9], None), finish=None),
            called(call(json.dumps(A)[9:], None), finish=None),
            called(call(json.dumps(B), id="y")),
        ],
    ],
    ids=["no index", "null index and one id", "always 0", "objects and no ids", "pieces without index"],
)
def test_calls_are_told_apart_however_a_server_numbers_them(stage: Setting, chunks: list[Any]) -> None:
    at = stage([], protocols=chat(chunks, [text_chunk("both are there")]))
    assert at.agent.run("write two files").text == "both are there"
    assert [(at.project / f"{name}.txt").read_text(encoding="utf-8") for name in "ab"] == ["a\n", "b\n"]
    ids = [use.id for turn in at.agent.history.turns for use in turn.calls]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    "chunks",
    [
        [": keep-alive\n\n", text_chunk("hello", None), ": keep-alive\n\n", text_chunk(None)],
        [text_chunk([{"type": "thinking", "thinking": []}, {"type": "text", "text": "hello"}])],
        [text_chunk("hello", None), {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1}}],
        [text_chunk("hello"), {"choices": None, "usage": {"prompt_tokens": None, "completion_tokens": "7"}}],
        [text_chunk("hello"), {"choices": [{"index": 0, "delta": None, "finish_reason": None}]}],
        [{"choices": []}, text_chunk("hello"), "data: 5\n\n", "data: [DONE]\n\n"],
    ],
    ids=["keep-alives", "text in parts", "no reason but figures", "odd figures", "no delta", "no object"],
)
def test_text_arrives_however_it_is_wrapped(stage: Setting, chunks: list[Any]) -> None:
    at = stage([], protocols=chat(chunks))
    ending = at.agent.run("hello")
    assert (ending.how, ending.text) == ("done", "hello")
    assert "".join(event.text for event in at.saw(TextDelta)) == "hello"


@pytest.mark.parametrize(
    "broken", ["data: {no json\n\n", f"data: {DEEP}\n\n", 'data: {"error": {"message": "oh"}}\n\n']
)
def test_a_stream_that_cannot_be_read_is_asked_for_again(stage: Setting, broken: str) -> None:
    at = stage([], protocols=chat([text_chunk("hel", None), broken], [text_chunk("hello")]))
    assert at.agent.run("hello").text == "hello"
    assert len(at.saw(Retrying)) == 1


def test_a_stream_cut_after_the_arguments_are_complete_is_not_believed(stage: Setting) -> None:
    at = stage([], protocols=chat([called(call(json.dumps(A), id="x", index=0), finish=None)], [text_chunk("no")]))
    assert at.agent.run("write").text == "no"
    assert not at.saw(CallStarted) and not (at.project / "a.txt").exists()


def messages(stop: str, *pieces: str) -> Protocol:
    """Anthropic Messages: one call of Write whose arguments come in these pieces, then the text `done`."""

    def protocol(seen: Seen, _: Line) -> Iterator[str]:
        start: dict[str, Any] = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
        }
        first = seen.number == 0
        block = {"type": "tool_use", "id": "t", "name": "Write", "input": {}} if first else {"type": "text", "text": ""}
        deltas: list[dict[str, Any]] = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        deltas = deltas if first else [{"type": "text_delta", "text": "done"}]
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**start, "usage": {"input_tokens": 1, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": 0},
        ]
        reason = stop if first else "end_turn"
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}})
        for event in events:
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    return protocol


@pytest.mark.parametrize("stop", ["max_tokens", "tool_use"])
@pytest.mark.parametrize(
    "text", ['{"file_path": "a.txt", "content": "half of a l', '{"file_path": "a.txt", "content" nonsense}']
)
def test_half_a_call_is_never_made_into_a_whole_one(stage: Setting, stop: str, text: str) -> None:
    at = stage([], api="anthropic", protocols={"/messages": messages(stop, text[:20], text[20:])})
    assert at.agent.run("write").how == "done"
    assert not (at.project / "a.txt").exists()
    assert "not valid JSON" in at.server.requests[1].results[0]
    assert ("length limit" in json.dumps(at.server.requests[1].body)) == (stop == "max_tokens")


def test_an_answer_that_is_cut_at_its_longest_goes_on(stage: Setting) -> None:
    at = stage([], protocols=chat([text_chunk("The first half", "length")], [text_chunk(" and the second.")]))
    assert at.agent.run("talk").text == " and the second."
    assert "Continue where it ended" in json.dumps(at.server.requests[1].body)


def test_trouble_in_the_middle_of_a_stream_of_messages_is_waited_out(stage: Setting) -> None:
    def protocol(seen: Seen, line: Line) -> Iterator[str]:
        if seen.number == 0:
            error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
            yield f"event: error\ndata: {json.dumps(error)}\n\n"
            return
        yield from messages("end_turn")(seen, line)

    at = stage([], api="anthropic", protocols={"/messages": protocol})
    assert at.agent.run("hello").text == "done"
    assert "Overloaded" in at.saw(Retrying)[0].why


def test_items_that_are_not_repeated_at_the_end_of_a_response_count(stage: Setting) -> None:
    def protocol(seen: Seen, _: Line) -> Iterator[str]:
        one = {"type": "function_call", "id": "f", "call_id": "c", "name": "Write", "arguments": json.dumps(A)}
        text = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}
        response: dict[str, Any] = {"id": "r", "object": "response", "output": [], "status": "completed", "usage": None}
        yield f"data: {json.dumps({'type': 'response.output_item.done', 'item': text if seen.number else one})}\n\n"
        yield f"data: {json.dumps({'type': 'response.completed', 'response': response})}\n\n"

    at = stage([], api="responses", protocols={"/responses": protocol})
    assert at.agent.run("write").text == "ok"
    assert (at.project / "a.txt").read_text(encoding="utf-8") == "a\n"


@EVERY
def test_what_is_sent_back_is_what_every_api_takes(stage: Setting, api: Api) -> None:
    uses: list[tuple[str, Any]] = [("no such.tool!", {}), ("", {}), ("Read", "{}")]
    at = stage([Line("", uses, ids=("functions.Read:0", "x y", "x y")), Line("ok")], api=api)
    assert at.agent.run("try").how == "done"
    body = at.server.requests[1].body
    for item in body.get("messages", body.get("input")):
        parts = item["content"] if isinstance(item.get("content"), list) else []
        calls = [*(item.get("tool_calls") or ()), *(part for part in parts if part.get("type") == "tool_use")]
        calls += [item] if item.get("type") == "function_call" else []
        for one in calls:
            name, own = one.get("name") or one["function"]["name"], one.get("call_id") or one["id"]
            assert all(char.isalnum() or char in "_-" for char in name + own) and name and own, one


@pytest.mark.parametrize("arguments", ['{"file_path": ', DEEP, "[1]", "null", "5", '"\\ud800"', ""])
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_arguments_that_are_no_object_get_an_answer_and_are_sent_back_as_one(
    stage: Setting, api: Api, arguments: str
) -> None:
    at = stage([Line("", [("Read", arguments), ("LS", {})]), Line("ok")], api=api)
    assert at.agent.run("look").how == "done"
    assert {event.call.name: event.status for event in at.saw(CallFinished)} == {"Read": "error", "LS": "ok"}
    for message in at.server.requests[1].body.get("messages", ()):
        for one in message.get("tool_calls") or ():
            assert isinstance(json.loads(one["function"]["arguments"]), dict)


def test_a_call_is_named_on_one_line_whatever_its_arguments_are() -> None:
    for arguments in (DEEP, "[", "null", '{"a": "\x1b[2J\\n"}'):
        line = describe_call(ToolCall("1", "To\x1b[31mol", arguments))
        assert "\x1b" not in line and "\n" not in line


def test_one_id_for_every_reply_becomes_an_id_for_every_call(stage: Setting) -> None:
    at = stage([Line("", [("LS", {})], ids=("call_0",))] * 3 + [Line("ok")])
    at.agent.run("look")
    ids = [use.id for turn in at.agent.history.turns for use in turn.calls]
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("sent", "wait"), [("nan", None), ("-1", None), ("inf", 120.0), ("99999999", 120.0), ("tomorrow", None), ("3", 3.0)]
)
def test_a_wait_that_a_server_asks_for_is_a_wait(sent: str, wait: float | None) -> None:
    assert from_status(429, "slow down", {"retry-after": sent}, "m", "there").after == wait


@EVERY
def test_a_key_is_in_no_sentence_even_if_the_server_repeats_it(stage: Setting, api: Api) -> None:
    key = "sk-very-secret-key"
    at = stage(lambda _: Line(f"bad key {key}", status=401), api=api, key=key)
    ending = at.agent.run("hello")
    assert ending.how == "failed" and key not in ending.text and "bad key ***" in ending.text
    assert without_keys("http://me:word@host/v1", {}) == "http://***@host/v1"


@EVERY
def test_a_server_that_says_nothing_does_not_hold_up_who_cancels(stage: Setting, api: Api) -> None:
    free = threading.Event()

    def script(seen: Seen) -> Line:
        if seen.number == 0:
            free.wait(TIMEOUT)
        return Line("fine")

    at = stage(script, api=api)
    cancel = threading.Event()
    ending: list[Any] = []
    run = threading.Thread(target=lambda: ending.append(at.agent.run("hello", cancel)))
    run.start()
    for _ in range(60_000):
        if at.server.requests:
            break
        time.sleep(0.01)
    cancel.set()
    run.join(TIMEOUT)
    ended = not run.is_alive()
    free.set()
    run.join()
    assert ended and ending[0].how == "cancelled"
    assert at.agent.run("still there?").text == "fine"
    assert [turn.role for turn in at.agent.history.turns] == ["user", "user", "assistant"]


def test_a_cancel_from_before_the_run_has_begun_counts(stage: Setting) -> None:
    at = stage([Line("hello")])
    cancel = threading.Event()
    cancel.set()
    assert at.agent.run("hello", cancel).how == "cancelled"
    assert at.agent.run("hello").how == "done"


def test_a_budget_holds_also_where_the_server_does_not_count(stage: Setting) -> None:
    chunks: list[Mapping[str, Any] | str] = [called(call("{}", "LS", id="x", index=0))]
    at = stage([], protocols=chat(chunks), limits=AgentLimits(tokens=500))
    ending = at.agent.run("for ever")
    assert ending.how == "tokens"


@pytest.mark.parametrize("command", ["cat *.txt", "ls", "git status; cat a.txt"])
def test_a_command_that_only_looks_sees_what_was_written_before_it_in_the_same_reply(
    stage: Setting, command: str
) -> None:
    uses: list[tuple[str, Any]] = [
        ("Write", {"file_path": "a.txt", "content": "a.txt\n"}),
        ("Bash", {"command": command}),
    ]
    at = stage([Line("", uses), Line("ok")], mode="full")
    at.agent.run("write and look")
    order = [(type(event), event.call.name) for event in at.events if isinstance(event, CallStarted | CallFinished)]
    assert order == [(CallStarted, "Write"), (CallFinished, "Write"), (CallStarted, "Bash"), (CallFinished, "Bash")]
    assert "a.txt" in at.server.requests[1].results[1]


def test_nothing_runs_on_when_the_loop_is_broken_off(stage: Setting) -> None:
    at = stage([Line("", [("Bash", {"command": "sleep 60"})]), Line("fine")], mode="full")

    class Broken(BaseException):
        pass

    def notice(event: Any) -> None:
        at.events.append(event)
        if isinstance(event, CallStarted):
            raise Broken

    at.agent._calls._notice = notice
    with pytest.raises(Broken):
        at.agent.run("wait")
    at.agent._calls._notice = at.events.append
    assert at.agent.run("go on").text == "fine"


@EVERY
def test_two_messages_in_a_row_and_an_empty_reply_of_before_are_sent(stage: Setting, api: Api) -> None:
    at = stage([Line("ok")], api=api)
    blank = Turn("assistant", " ", raw={"api": "anthropic", "content": [{"type": "text", "text": " "}]})
    at.agent.history.replace([Turn("user", "a"), Turn("user", "b"), blank])
    assert at.agent.run("c").how == "done"
    if api == "anthropic":
        [message] = at.server.requests[0].body["messages"]
        assert [part["text"] for part in message["content"]] == ["a", "b", "c"]
