"""A conversation that grows far past the model's window is made shorter, and the work comes out right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handrail.agent.compaction import Compaction
from handrail.agent.history import History, size
from handrail.agent.loop import AgentLimits, estimate_tools
from handrail.agent.messages import Compacted, ToolCall, ToolResult, Turn, Usage
from handrail.agent.providers import APIS, Api
from handrail_demo.scripted_server import Line, Seen
from tests.agent.conftest import Setting

WINDOW = 7_000
FILES = 33


def working(seen: Seen) -> Line:
    """A model that works through many files: the conversation is all that it remembers."""
    body = json.dumps(seen.body)
    if "notes that you need" in body:
        done = max((n for n in range(FILES) if f"file {n} is done" in body), default=-1)
        return Line(f"The person wants TODO replaced in every file. file {done} is done. Decision: keep the endings.")
    done = max((n for n in range(FILES) if f"file {n} is done" in body), default=-1)
    number, message = done + 1, ""
    last = seen.results[-1] if seen.results else ""
    if '"ok": true' in last and f"f{number}.txt" in last:
        number, message = number + 1, f"file {number} is done"
    if number >= FILES:
        return Line("All files are done.")
    if "TODO" in last and f"number {number}," in last:
        return Line("", [("edit_file", {"file_path": f"f{number}.txt", "old_string": "TODO", "new_string": "DONE"})])
    return Line(message, [("read_file", {"file_path": f"f{number}.txt"})])


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_window_filled_ten_times_over_ends_with_the_right_files(stage: Setting, api: Api) -> None:
    at = stage(working, api=api, window=WINDOW, dialect="hello", limits=AgentLimits(steps=1_000))
    texts = {}
    for number in range(FILES):
        texts[number] = "".join(f"line {line} of file number {number}, as it is\n" for line in range(200)) + "TODO\n"
        (at.project / f"f{number}.txt").write_text(texts[number], encoding="utf-8")
    ending = at.agent.run("replace TODO by DONE in every file")
    assert ending.text == "All files are done."
    for number, text in texts.items():
        assert (at.project / f"f{number}.txt").read_text(encoding="utf-8") == text.replace("TODO", "DONE")
    tokens = sum(len(given) for seen in at.server.requests for given in seen.results) // 4
    assert tokens > 10 * WINDOW
    compacted = at.saw(Compacted)
    assert {event.how for event in compacted} >= {"the earlier part was summarised"}
    for seen in at.server.requests:
        _require_paired(seen.body)


def _require_paired(body: Any) -> None:
    """Every call has its result, and every result its call, right behind."""
    calls: list[str] = []
    results: list[str] = []
    for item in body.get("messages", body.get("input")):
        calls += [call["id"] for call in item.get("tool_calls") or ()]
        if item.get("role") == "tool":
            results.append(item["tool_call_id"])
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
        if item.get("type") == "function_call_output":
            results.append(item["call_id"])
        for part in item.get("content") or () if isinstance(item.get("content"), list) else ():
            calls += [part["id"]] if part.get("type") == "tool_use" else []
            results += [part["tool_use_id"]] if part.get("type") == "tool_result" else []
    assert sorted(calls) == sorted(results)


def test_old_results_become_one_line_with_the_id_that_brings_them_back(stage: Setting) -> None:
    lines = [Line("", [("Read", {"file_path": f"{n}.txt"})], ids=[f"look-{n}"]) for n in range(6)]
    at = stage([*lines, Line("enough")], window=14_000)
    for number in range(6):
        (at.project / f"{number}.txt").write_text(f"some words on line {number}\n" * 250, encoding="utf-8")
    at.agent.run("look six times")
    assert {event.how for event in at.saw(Compacted)} == {"old results were left out"}
    given = [one for turn in at.agent.history.turns for one in turn.results]
    assert given[0].pruned and "handrail log show look-0" in given[0].text and len(given[0].text) < 200
    assert not given[-1].pruned


def test_what_was_read_and_approved_survives(stage: Setting) -> None:
    asked: list[str] = []

    def approve(prepared: Any) -> Any:
        from handrail.model import Answer

        asked.append(prepared.call.tool)
        return Answer(True, lasting="session")

    edit = ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"})
    back = ("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "one"})
    at = stage(
        [Line("", [("Read", {"file_path": "a.txt"})]), Line("", [edit]), Line("done")], mode="ask", approve=approve
    )
    (at.project / "a.txt").write_text("one\n" + "more\n" * 500, encoding="utf-8")
    assert at.agent.run("change it").how == "done"
    at.agent.history.replace([Turn("user", "[notes: a.txt was changed]"), Turn("assistant", "I see.")])
    result = at.agent.session.call(*back)
    assert result.ok and asked == ["Edit"]


def test_the_threshold_lies_between_75_and_98_percent() -> None:
    assert Compaction().threshold == 0.85
    for wrong in (0.5, 0.99):
        with pytest.raises(ValueError, match="75"):
            Compaction(threshold=wrong)


def test_nothing_happens_below_the_threshold(stage: Setting) -> None:
    at = stage([Line("", [("LS", {"path": "."})]), Line("ok")])
    at.agent.run("look")
    assert not at.saw(Compacted)


@pytest.mark.parametrize("chars_a_token", [2.2, 3.0, 4.0, 5.5])
def test_the_servers_count_decides_when_to_compact(stage: Setting, chars_a_token: float) -> None:
    """Whatever a token is to the server, no request is far above the threshold, and none is cut far below it."""
    window, counts = 40_000, []

    def script(seen: Seen) -> Line:
        counts.append(int(len(json.dumps(seen.body)) / chars_a_token))
        if _asks_for_notes(seen):
            return Line("Some notes.", tokens=counts.pop())
        if len(at.saw(Compacted)) >= 2:
            return Line("enough", tokens=counts[-1])
        return Line("", [("Read", {"file_path": "a.txt", "offset": 1 + seen.number})], tokens=counts[-1])

    at = stage(script, window=window, limits=AgentLimits(steps=2_000))
    (at.project / "a.txt").write_text("".join(f"line {n} {n * n}\n" for n in range(2_000)), encoding="utf-8")
    at.agent.run("read on")
    compacted = at.saw(Compacted)
    assert len(compacted) >= 2 and max(counts) <= window * 0.87
    assert all(window * 0.83 <= event.before for event in compacted)


def test_many_small_turns_are_cut_also_where_the_tools_take_most_of_the_window(stage: Setting) -> None:
    window, counts = 6_000, list[int]()

    def script(seen: Seen) -> Line:
        tokens = 3_000 + 30 * len(seen.body["messages"])
        if _asks_for_notes(seen):
            return Line("Notes.", tokens=tokens)
        counts.append(tokens)
        return Line("Yes.", tokens=tokens)

    at = stage(script, window=window)
    for number in range(45):
        at.agent.run(f"small question {number}")
    assert at.saw(Compacted) and max(counts) <= window * 0.87


def test_without_counts_the_estimate_has_the_tools_in_it(stage: Setting) -> None:
    at = stage([])
    tools = estimate_tools(at.agent.session)
    plain, counted = History("system"), History("system", overhead=tools)
    assert tools > 1_000 and counted.tokens == plain.tokens + tools
    counted.add(Turn("user", "日本語" * 400))
    assert counted.tokens - tools >= 900  # text that is not Latin takes about a token a character
    counted.record_usage(Usage(20_000, 5))
    counted.add(Turn("assistant", "x" * 400))
    assert 20_090 <= counted.tokens <= 20_120


def test_a_person_can_ask_for_it(stage: Setting) -> None:
    at = stage([Line("", [("Read", {"file_path": "a.txt"})]), Line("ok"), Line("notes: nothing is open"), Line("on")])
    (at.project / "a.txt").write_text("some words\n" * 900, encoding="utf-8")
    at.agent.run("look")
    before = at.agent.history.tokens
    at.agent.compact()
    assert at.agent.history.tokens < before
    assert at.agent.run("go on").how == "done"


def test_a_conversation_that_was_cut_off_inside_a_call_gets_its_result() -> None:
    turns = [Turn("user", "go"), Turn("assistant", "", (ToolCall("1", "Bash", "{}"),))]
    history = History("", turns)
    assert history.turns[-1].results[0].id == "1" and "may have run or not" in history.turns[-1].results[0].text


def test_a_picture_counts_for_more_than_its_text() -> None:
    plain = Turn("tools", results=(ToolResult("1", "Read", "a picture"),))
    shown = Turn("tools", results=(ToolResult("1", "Read", "a picture", blocks=({"type": "image"},)),))
    assert size(shown) > size(plain) + 1_000


def test_a_result_larger_than_the_window_is_seen_in_part_and_the_work_goes_on(stage: Setting) -> None:
    uses = [("Read", {"file_path": f"{name}.txt"}) for name in "ab"]
    at = stage([Line("", uses), Line("I saw it.")], window=6_000)
    for name in "ab":
        (at.project / f"{name}.txt").write_text("begin\n" + "some words\n" * 1_900 + "end\n", encoding="utf-8")
    assert at.agent.run("look").text == "I saw it."
    results = at.server.requests[-1].results
    assert len(results) == 2
    for text in results:
        assert "begin" in text and "end" in text and "characters omitted" in text
    assert sum(map(len, results)) // 4 < 6_000
    assert len(at.server.requests) == 2


def _long(stage: Setting, script: Any, **more: Any) -> Any:
    """A conversation that is far too long, and a script for what comes next."""
    at = stage(script, window=8_000, limits=AgentLimits(wait=0.001), **more)
    turns = [Turn("user", "Paint the shed green, and nothing else."), Turn("assistant", "I begin. " * 100)]
    for number in range(30):
        turns += [Turn("user", f"Step {number}. " + "more words " * 100), Turn("assistant", "Done. " * 100)]
    at.agent.history.replace(turns)
    return at


def _asks_for_notes(seen: Seen) -> bool:
    return "notes that you need" in json.dumps(seen.body)


def test_a_summary_is_tried_again_like_any_request(stage: Setting) -> None:
    at = _long(stage, [Line("busy", status=500), Line(""), Line("NOTES of it"), Line("on")])
    assert at.agent.run("go on").text == "on"
    assert "NOTES of it" in at.agent.history.turns[0].text


@pytest.mark.parametrize("line", [Line(""), Line("context length exceeded", status=400), Line("no", status=422)])
def test_without_a_summary_the_persons_words_stay_and_the_conversation_goes_on(stage: Setting, line: Line) -> None:
    at = _long(stage, lambda seen: line if _asks_for_notes(seen) else Line("on"))
    assert at.agent.run("the roof as well").text == "on"
    first = at.agent.history.turns[0].text
    assert "Paint the shed green" in first and "Step 2" in first
    assert at.agent.history.turns[-2].text == "the roof as well"


def test_a_server_that_refuses_the_key_costs_nothing_of_the_conversation(stage: Setting) -> None:
    at = _long(stage, lambda _: Line("who are you?", status=401))
    before = len(at.agent.history.turns)
    assert at.agent.run("go on").how == "failed"
    assert len(at.agent.history.turns) == before + 1


def test_the_persons_last_words_survive_one_summary_after_another(stage: Setting) -> None:
    def script(seen: Seen) -> Line:
        if _asks_for_notes(seen):
            return Line("Some notes.")
        return (
            Line("x" * 8_000, [("LS", {"path": ".", "depth": 1 + seen.number})])
            if len(at.saw(Compacted)) < 4
            else Line("paint_diff")
        )

    at = stage(script, window=8_000)
    assert at.agent.run("Paint the shed GREEN").text == "paint_diff"
    assert len([event for event in at.saw(Compacted) if "summarised" in event.how]) >= 3
    assert at.agent.history.turns[0].text.count("Paint the shed GREEN") == 1


def test_a_window_too_small_for_the_rules_of_the_project_is_not_summarised_at_every_step(stage: Setting) -> None:
    at = stage([], window=4_000)
    (at.project / "AGENTS.md").write_text("Be kind. " * 4_000, encoding="utf-8")
    at = stage([Line("", [("LS", {"path": "."})])] * 3 + [Line("done")], window=4_000)
    assert at.agent.run("look").text == "done"
    assert not any(map(_asks_for_notes, at.server.requests))


def test_a_person_who_asks_for_it_gets_notes_also_of_a_short_conversation(stage: Setting) -> None:
    at = stage([Line(f"answer {number} " * 40) for number in range(5)] + [Line("NOTES"), Line("on")])
    for number in range(5):
        at.agent.run(f"question {number}")
    at.agent.compact()
    assert "NOTES" in at.agent.history.turns[0].text and "question" in at.agent.history.turns[0].text
    assert at.agent.run("go on").text == "on"


def test_pictures_of_the_last_reply_that_do_not_fit_are_left_out_and_said_so(stage: Setting) -> None:
    at = stage([Line("I see.")], window=6_000)
    blocks = tuple({"type": "image", "mime_type": "image/png", "base64": "AA=="} for _ in range(4))
    turns = [Turn("user", "look"), Turn("assistant", "", (ToolCall("1", "Read", "{}"),))]
    at.agent.history.replace([*turns, Turn("tools", results=(ToolResult("1", "Read", "a.pdf", True, blocks),))])
    assert at.agent.run("and?").how == "done"
    [given] = [one for turn in at.agent.history.turns for one in turn.results]
    assert not given.blocks
