"""A read whose text the model still has is answered with one line; any other in full."""

from __future__ import annotations

from dataclasses import replace

from handrail.agent.messages import ToolCall, ToolResult, Turn
from handrail.agent.repeated_reads import shorten_repeated_reads
from handrail_demo.scripted_server import Line
from tests.agent.conftest import Setting

TEXT = "".join(f"{number:6}\tline {number} of the file\n" for number in range(1, 60))
CALL = ToolCall("1", "Read", '{"file_path": "a.txt"}')
AGAIN = replace(CALL, id="2")
TURNS = [
    Turn("user", "look"),
    Turn("assistant", calls=(CALL,)),
    Turn("tools", results=(ToolResult("1", "Read", TEXT),)),
    Turn("assistant", calls=(AGAIN,)),
]


def answer(turns: list[Turn], text: str = TEXT, call: ToolCall = AGAIN, name: str = "Read") -> str:
    results = (ToolResult(call.id, name, text),)
    return shorten_repeated_reads(turns, (call,), results, lambda tool: tool == "Read")[0].text


def test_an_unchanged_read_that_is_still_in_the_conversation_is_one_line() -> None:
    note = answer(TURNS)
    assert note.startswith("(Unchanged: ") and "call 1" in note and "\n" not in note


def test_everything_else_is_answered_in_full() -> None:
    assert answer(TURNS, TEXT + "more") == TEXT + "more"
    assert answer([], TEXT) == TEXT
    assert answer(TURNS, name="Bash") == TEXT
    pruned = [*TURNS[:2], Turn("tools", results=(ToolResult("1", "Read", "[removed]", pruned=True),)), TURNS[3]]
    assert answer(pruned) == TEXT
    short = [*TURNS[:2], Turn("tools", results=(ToolResult("1", "Read", "one"),)), TURNS[3]]
    assert answer(short, "one") == "one"


def test_who_asks_once_more_gets_the_text() -> None:
    noted = [*TURNS, Turn("tools", results=(ToolResult("2", "Read", answer(TURNS)),))]
    third = replace(CALL, id="3")
    assert answer([*noted, Turn("assistant", calls=(third,))], call=third) == TEXT
    other = ToolCall("4", "Read", '{"file_path": "./a.txt"}')
    assert answer([*noted, Turn("assistant", calls=(other,))], call=other).startswith("(Unchanged: ")


def test_the_agent_notes_unchanged_reads_and_shows_changed_ones(stage: Setting) -> None:
    read = ("Read", {"file_path": "a.txt"})
    edit = ("Edit", {"file_path": "a.txt", "old_string": "line 7\n", "new_string": "line seven\n"})
    at = stage([Line("", [read]), Line("", [read]), Line("", [edit]), Line("", [read]), Line("done")])
    (at.project / "a.txt").write_text("".join(f"line {number}\n" for number in range(100)), encoding="utf-8")
    at.agent.run("look twice")
    results = [request.results[-1] for request in at.server.requests[1:]]
    assert len(results[0]) > 1_000 and results[1].startswith("(Unchanged: ") and "line seven" in results[3]
    assert len(results[3]) > 1_000
