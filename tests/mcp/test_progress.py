"""Progress messages name the last report or line of output."""

from __future__ import annotations

import re

import pytest

from handrail import Call, Result, SessionEvent, ToolFinished, ToolOutput, ToolProgress, ToolStarted
from handrail.mcp.progress import CallProgress

CALL = Call("Bash", {})


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([], ""),
        ([ToolStarted(CALL)], ""),
        ([ToolProgress(CALL, "running", 1.0)], ""),
        ([ToolOutput(CALL, "one\n two \n\n")], ": two"),
        ([ToolOutput(CALL, "one\n"), ToolOutput(CALL, "\n"), ToolProgress(CALL, "running", 2.0)], ": one"),
        ([ToolOutput(CALL, "x" * 1000)], ": " + "x" * 200),
        ([ToolProgress(CALL, "fetching", 1.0)], ": fetching"),
        ([ToolProgress(CALL, "fetching", 1.0, 2)], ": fetching, 2"),
        ([ToolProgress(CALL, "fetching", 1.0, 2, 2.5)], ": fetching, 2 of 2.5"),
        ([ToolFinished(CALL, Result("Bash", "ok", "done"))], ""),
    ],
)
def test_a_message_names_the_last_report_or_line(events: list[SessionEvent], end: str) -> None:
    progress = CallProgress("Bash")
    for event in events:
        progress.take_event(event)
    assert re.sub(r"^Bash: \d+ s", "", progress.describe()) == end
