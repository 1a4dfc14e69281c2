"""The loop against a scripted model, through real HTTP and streaming, in all three protocols."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from typing import Any

import pytest

from handrail.agent.loop import AgentLimits
from handrail.agent.messages import CallFinished, CallStarted, ModelReplied, ReasoningDelta, Retrying, TextDelta
from handrail.agent.providers import APIS, Api
from handrail_demo.scripted_server import Line, Seen
from tests.agent.conftest import Setting

EVERY = pytest.mark.parametrize("api", APIS)
READ = ("Read", {"file_path": "README.md"})
DONE = ("Edit", {"file_path": "README.md", "old_string": "TODO", "new_string": "DONE", "replace_all": True})


@EVERY
def test_a_task_goes_from_the_first_look_to_the_closing_sentence(stage: Setting, api: Api) -> None:
    at = stage([Line("I look first.", [READ]), Line("", [DONE]), Line("Both are done.")], api=api)
    (at.project / "README.md").write_text("TODO one\nTODO two\n", encoding="utf-8")
    ending = at.agent.run("turn every TODO in README.md into DONE")
    assert (ending.how, ending.text) == ("done", "Both are done.")
    assert (at.project / "README.md").read_text(encoding="utf-8") == "DONE one\nDONE two\n"
    assert "".join(event.text for event in at.saw(TextDelta)) == "I look first.Both are done."
    assert [event.status for event in at.saw(CallFinished)] == ["ok", "ok"]


@EVERY
def test_reasoning_comes_apart_from_the_text_and_is_no_part_of_the_answer(stage: Setting, api: Api) -> None:
    at = stage(
        [Line("I look.", [READ], reasoning="First the README. 日本"), Line("Done.", reasoning="Enough.")], api=api
    )
    (at.project / "README.md").write_text("x\n", encoding="utf-8")
    ending = at.agent.run("look")
    assert "".join(event.text for event in at.saw(ReasoningDelta)) == "First the README. 日本Enough."
    assert "".join(event.text for event in at.saw(TextDelta)) == "I look.Done."
    assert (ending.how, ending.text) == ("done", "Done.")
    assert "First the README" not in "".join(turn.text for turn in at.agent.history.turns)


@EVERY
def test_the_model_is_told_the_tools_of_the_session_and_reads_exactly_their_text(stage: Setting, api: Api) -> None:
    at = stage([Line("", [READ]), Line("ok")], api=api)
    (at.project / "README.md").write_text("é\n", encoding="utf-8")
    at.agent.run("look")
    first, second = at.server.requests
    names = [tool.get("name") or tool["function"]["name"] for tool in first.body["tools"]]
    assert names == [spec.name for spec in at.agent.session.specs()]
    assert second.results == ["1\té"]


@EVERY
def test_a_picture_reaches_the_model(stage: Setting, api: Api) -> None:
    from PIL import Image

    at = stage([Line("", [("Read", {"file_path": "a.png"})]), Line("red")], api=api)
    raw = io.BytesIO()
    Image.new("RGB", (4, 4), "red").save(raw, "PNG")
    (at.project / "a.png").write_bytes(raw.getvalue())
    at.agent.run("which colour?")
    body = json.dumps(at.server.requests[1].body)
    assert base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()[:10] in body


@EVERY
def test_whatever_goes_wrong_in_a_call_goes_back_as_text(stage: Setting, api: Api) -> None:
    uses: list[tuple[str, Any]] = [("Read", {"file_path": "no.txt"}), ("Fly", {}), ("Read", {})]
    uses.append(("Bash", {"command": "exit 3"}))
    at = stage([Line("", uses), Line("I see.")], api=api, mode="full")
    assert at.agent.run("try").how == "done"
    missing, unknown, bad, failed = at.server.requests[1].results
    assert "no.txt does not exist" in missing
    assert "Unknown tool Fly" in unknown and "Read" in unknown
    assert "file_path" in bad
    assert "3" in failed


@pytest.mark.parametrize("api", ["chat", "responses"])
def test_broken_arguments_get_the_reason(stage: Setting, api: Api) -> None:
    at = stage([Line("", [("Read", '{"file_path": ')]), Line("Sorry.")], api=api)
    assert at.agent.run("look").how == "done"
    assert "not valid JSON" in at.server.requests[1].results[0]


@EVERY
def test_two_calls_with_one_id_both_get_their_result(stage: Setting, api: Api) -> None:
    uses = [("Read", {"file_path": "a.txt"}), ("Read", {"file_path": "b.txt"})]
    at = stage([Line("", uses, ids=("same", "same")), Line("ok")], api=api)
    for name in "ab":
        (at.project / f"{name}.txt").write_text(name, encoding="utf-8")
    assert at.agent.run("look").how == "done"
    assert [text.split("\t")[1] for text in at.server.requests[1].results] == ["a", "b"]


@EVERY
def test_a_stream_that_is_cut_is_asked_again_and_nothing_of_it_is_done(stage: Setting, api: Api) -> None:
    write = ("Write", {"file_path": "a.txt", "content": "half of a long text, which never came to its end"})
    at = stage([Line("", [write], cut=True), Line("Nothing was written.")], api=api)
    assert at.agent.run("write").how == "done"
    assert not (at.project / "a.txt").exists()
    assert [event.attempt for event in at.saw(Retrying)] == [1]
    assert not at.saw(CallStarted)


@EVERY
@pytest.mark.parametrize("status", [429, 500, 503])
def test_trouble_of_the_server_is_waited_out(stage: Setting, api: Api, status: int) -> None:
    at = stage([Line("busy", status=status, headers={"retry-after": "0"}), Line("here")], api=api)
    assert at.agent.run("hello").text == "here"
    [waiting] = at.saw(Retrying)
    assert str(status) in waiting.why and waiting.seconds == 0


@EVERY
def test_a_server_that_stays_in_trouble_ends_the_run_with_a_sentence(stage: Setting, api: Api) -> None:
    at = stage(lambda _: Line("down", status=500), api=api)
    ending = at.agent.run("hello")
    assert ending.how == "failed" and "500" in ending.text
    assert len(at.server.requests) == 4
    assert [turn.role for turn in at.agent.history.turns] == ["user"]


@EVERY
def test_a_wrong_key_is_not_tried_again(stage: Setting, api: Api) -> None:
    at = stage(lambda _: Line("no such key", status=401), api=api)
    ending = at.agent.run("hello")
    assert ending.how == "failed" and "check the key" in ending.text and len(at.server.requests) == 1


@EVERY
def test_an_empty_reply_is_asked_again(stage: Setting, api: Api) -> None:
    at = stage([Line(""), Line("here")], api=api)
    assert at.agent.run("hello").text == "here"


def test_the_conversation_goes_on_after_a_failure(stage: Setting) -> None:
    at = stage([Line("no", status=401), Line("back again")])
    assert at.agent.run("hello").how == "failed"
    assert at.agent.run("still there?").text == "back again"


def test_the_same_failing_call_gets_a_hint_after_the_third_time(stage: Setting) -> None:
    at = stage([Line("", [("Read", {"file_path": "no.txt"})])] * 4 + [Line("I give up.")])
    at.agent.run("look")
    texts = [event.text for event in at.saw(CallFinished)]
    assert ["try something else" in text for text in texts] == [False, False, True, True]


def test_the_loop_stops_at_the_limit_of_steps_with_a_word(stage: Setting) -> None:
    at = stage(lambda seen: Line("", [("LS", {"path": ".", "depth": 1 + seen.number})]), limits=AgentLimits(steps=5))
    ending = at.agent.run("for ever")
    assert ending.how == "steps" and "5 steps" in ending.text
    assert at.agent.history.turns[-1].role == "tools"


def test_the_loop_stops_at_the_limit_of_tokens_with_a_word(stage: Setting) -> None:
    at = stage(lambda _: Line("", [("LS", {"path": "."})], tokens=400), limits=AgentLimits(tokens=1_000))
    ending = at.agent.run("for ever")
    assert ending.how == "tokens" and "1,000" in ending.text and len(at.server.requests) == 3


def test_calls_that_touch_different_files_are_made_at_once_and_others_in_order(stage: Setting) -> None:
    uses: list[tuple[str, Any]] = [
        ("Write", {"file_path": "a.txt", "content": "1\n"}),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", {"file_path": "a.txt", "old_string": "1", "new_string": "2"}),
        ("Bash", {"command": "cat a.txt"}),
        ("Write", {"file_path": "b.txt", "content": "b\n"}),
        ("Grep", {"pattern": "b", "path": "."}),
    ]
    at = stage([Line("", uses), Line("ok")], mode="full")
    at.agent.run("all in one reply")
    results = at.server.requests[1].results
    assert [event.status for event in sorted(at.saw(CallFinished), key=lambda e: e.call.id)] == ["ok"] * 6
    assert results[1].endswith("1") and results[3].strip().endswith("2") and "b.txt" in results[5]


def test_reads_of_one_reply_run_at_the_same_time(stage: Setting) -> None:
    at = stage([Line("", [("Bash", {"command": f"sleep 0.{n}; echo {n}"}) for n in (3, 4)]), Line("ok")], mode="full")
    at.agent.run("wait")
    kinds = [type(event) for event in at.events if isinstance(event, CallStarted | CallFinished)]
    assert kinds == [CallStarted, CallStarted, CallFinished, CallFinished]


def test_a_cancelled_call_keeps_the_conversation(stage: Setting) -> None:
    at = stage([Line("", [("Bash", {"command": "sleep 60"}), ("Read", {"file_path": "x"})]), Line("fine")], mode="full")
    timer = threading.Thread(target=lambda: (_until(lambda: bool(at.saw(CallStarted))), at.agent.cancel()))
    timer.start()
    ending = at.agent.run("wait")
    timer.join()
    assert ending.how == "cancelled"
    last = at.agent.history.turns[-1]
    assert last.role == "tools" and len(last.results) == 2 and not last.results[1].ok
    assert at.agent.run("go on").text == "fine"


def test_a_cancelled_answer_keeps_the_conversation(stage: Setting) -> None:
    at = stage([Line("a very long answer " * 50, delay=0.05), Line("fine")])
    timer = threading.Thread(target=lambda: (_until(lambda: bool(at.saw(TextDelta))), at.agent.cancel()))
    timer.start()
    assert at.agent.run("talk").how == "cancelled"
    timer.join()
    assert at.agent.run("go on").text == "fine"


def _until(holds: Any) -> None:
    for _ in range(60_000):
        if holds():
            return
        time.sleep(0.01)


@EVERY
def test_a_window_that_is_too_small_by_the_servers_word_is_made_room_in(stage: Setting, api: Api) -> None:
    def script(seen: Seen) -> Line:
        if seen.number == 0:
            return Line("", [("Read", {"file_path": "big.txt"})])
        if seen.number == 1:
            return Line("maximum context length exceeded", status=400)
        if "notes that you need" in json.dumps(seen.body):
            return Line("The person wants to know what is in big.txt.")
        return Line("It is big.")

    at = stage(script, api=api)
    (at.project / "big.txt").write_text("word " * 5_000, encoding="utf-8")
    assert at.agent.run("what is in big.txt?").text == "It is big."


def test_an_interrupt_inside_a_call_ends_it_and_the_conversation_goes_on(stage: Setting) -> None:
    def approve(_: Any) -> bool:
        raise KeyboardInterrupt

    write = ("Write", {"file_path": "a.txt", "content": "x"})
    at = stage([Line("", [write]), Line("fine")], mode="ask", approve=approve)
    assert at.agent.run("write").how == "cancelled"
    assert not (at.project / "a.txt").exists()
    assert at.agent.run("go on").text == "fine"


def test_an_interrupt_between_a_reply_and_its_calls_leaves_no_call_without_result(stage: Setting) -> None:
    at = stage([Line("", [("LS", {"path": "."})]), Line("fine")])
    plain = at.agent.history.add

    def add(turn: Any) -> None:
        plain(turn)
        if turn.calls:
            raise KeyboardInterrupt

    at.agent.history.add = add  # type: ignore[method-assign]
    assert at.agent.run("look").how == "cancelled"
    at.agent.history.add = plain  # type: ignore[method-assign]
    assert at.agent.run("go on").text == "fine"
    assert "may have run or not" in at.server.requests[1].results[0]


@pytest.mark.parametrize("path", [".", "missing"])
def test_the_third_identical_call_gets_a_hint_and_the_fifth_ends_the_run(stage: Setting, path: str) -> None:
    at = stage(lambda _: Line("", [("LS", {"path": path})]))
    ending = at.agent.run("look")
    assert ending.how == "loop" and "5 times" in ending.text and "LS" in ending.text
    results = [result.text for turn in at.agent.history.turns for result in turn.results]
    assert [f"{count} times" in text for count, text in enumerate(results, 1)] == [False, False, True, True, True]
    at.agent.run("again")
    assert len(at.server.requests) == 10


def test_the_same_call_with_another_result_or_after_a_change_is_no_loop(stage: Setting) -> None:
    def script(seen: Seen) -> Line:
        if seen.number >= 16:
            return Line("done")
        if seen.number % 2:
            return Line("", [("Write", {"file_path": f"{seen.number}.txt", "content": "x"})])
        return Line("", [("Bash", {"command": "echo same"})])

    at = stage(script, mode="full")
    assert at.agent.run("work").how == "done"


def test_tokens_are_estimated_where_a_server_does_not_count(stage: Setting) -> None:
    at = stage([Line("One short answer.", tokens=0)])
    at.agent.run("say something")
    [reply] = at.saw(ModelReplied)
    assert reply.usage.is_estimated and reply.usage.input > 200 and 2 <= reply.usage.output <= 20
