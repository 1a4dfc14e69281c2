"""S1-9: near the end of the window the conversation is compacted: decisions and open bugs stay, tool output goes."""

from __future__ import annotations

import json

import pytest

from handrail.agent.compaction import Compaction
from handrail.agent.history import History
from handrail.agent.messages import Compacted, ToolCall, ToolResult, Turn
from handrail_demo.scripted_server import Line, Seen
from tests.agent.conftest import Setting

WINDOW = 10_000
NOTES = "Decision: the ledger is append-only, because two writers must never meet. Open bug: totals drift at midnight."


def _history(tokens: int) -> History:
    """A conversation of that many tokens: a person's words, and the rest output of one tool."""
    use, task = ToolCall("call-1", "bash", "{}"), Turn("user", "Find out why totals drift.")
    turns = [task, Turn("assistant", "I look.", (use,)), Turn("tools", results=(ToolResult("call-1", "bash", ""),))]
    after = [Turn("assistant", "I think that it is the clock."), Turn("user", "Go on.")]
    spare = tokens - History("", [*turns, *after]).tokens
    turns[2] = Turn("tools", results=(ToolResult("call-1", "bash", "x" * 4 * spare),))
    history = History("", [*turns, *after])
    assert history.tokens == tokens
    return history


def _nobody_asks(_: object) -> str:
    """Stands where the model would be asked for a summary: pruning has to be enough."""
    raise AssertionError("a summary was asked for")


@pytest.mark.parametrize("threshold", [0.75, 0.85, 0.98])
def test_s1_9_it_happens_at_the_threshold_and_not_before(threshold: float) -> None:
    compaction = Compaction(threshold=threshold)
    below, there = _history(int(WINDOW * threshold) - 1), _history(int(WINDOW * threshold))
    before = list(below.turns)
    assert compaction.fit(below, WINDOW, _nobody_asks) == "" and below.turns == before
    assert compaction.fit(there, WINDOW, _nobody_asks) == "old results were left out"
    assert there.tokens < WINDOW * 0.75


@pytest.mark.parametrize("threshold", [0.0, 0.5, 0.74, 0.99, 1.0])
def test_s1_9_a_threshold_outside_75_to_98_percent_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="between 75% and 98% of the window"):
        Compaction(threshold=threshold)


def test_s1_9_tool_output_is_pruned_and_what_people_and_models_said_is_not() -> None:
    history = _history(9_000)
    Compaction().fit(history, WINDOW, _nobody_asks)
    (given,) = [one for turn in history.turns for one in turn.results]
    assert (
        given.pruned and "\n" not in given.text and "handrail log show call-1" in given.text and len(given.text) < 200
    )
    texts = [turn.text for turn in history.turns if turn.text]
    assert texts == ["Find out why totals drift.", "I look.", "I think that it is the clock.", "Go on."]


def test_s1_9_architecture_decisions_and_unresolved_bugs_are_kept_through_the_loop(stage: Setting) -> None:
    asked: list[str] = []

    def script(seen: Seen) -> Line:
        last = seen.body["messages"][-1]["content"]
        if "notes that you need" in last:
            asked.append(last)
            return Line(NOTES)
        body = json.dumps(seen.body)
        if NOTES in body:
            return Line("I still know the decision and the bug.")
        return Line("thinking " * 300, [("read_file", {"path": "ledger.txt", "offset": len(seen.body["messages"])})])

    at = stage(script, dialect="claw", window=WINDOW)
    (at.project / "ledger.txt").write_text("entry\n" * 200, encoding="utf-8")
    ending = at.agent.run("Find out why totals drift.")
    assert ending.text == "I still know the decision and the bug."
    assert [event.how for event in at.saw(Compacted)][-1] == "the earlier part was summarised"
    assert len(asked) == 1
    assert "Decisions that were taken, about the architecture above all" in asked[0]
    assert "Problems and bugs that are still open" in asked[0]
    assert NOTES in at.agent.history.turns[0].text
    assert all(len(json.dumps(seen.body)) // 4 <= WINDOW for seen in at.server.requests)
