"""The time that a call takes does not include the time for which a person thinks, wherever it is shown."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.agent.messages import CallFinished, Event, ToolCall
from handrail.agent.tool_calls import ToolCallRunner
from handrail.files.locks import state_directory
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from handrail.model import Question

HOUR = 3600.0
EDIT = {"file_path": "a.txt", "old_string": "one\n", "new_string": "two\n"}


def think(monkeypatch: pytest.MonkeyPatch, *clocks: str) -> Callable[[], None]:
    """A function that lets an hour pass on these clocks, as if a person had thought for so long."""
    passed = [0.0]
    for name in clocks:
        clock: Callable[[], float] = getattr(time, name)
        monkeypatch.setattr(time, name, lambda clock=clock: clock() + passed[0])

    def pass_time() -> None:
        passed[0] += HOUR

    return pass_time


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize(
    ("tool", "arguments", "drafts"),
    [
        ("Edit", EDIT, False),
        ("Bash", {"command": "touch b.txt"}, False),
        ("Bash", {"command": "touch b.txt"}, True),  # asked about the changes, after the command has run
    ],
)
def test_the_result_and_the_journal_leave_the_persons_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, str], drafts: bool, yes: bool
) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    pass_time, asked = think(monkeypatch, "perf_counter"), []

    def approve(question: Question) -> bool:
        pass_time()
        asked.append(question)
        return yes

    settings = Settings(durable=False, drafts=drafts)
    with Session(tmp_path, mode="ask", approve=approve, settings=settings) as session:
        session.call("Read", {"file_path": "a.txt"})
        result = session.call(tool, arguments)
    assert len(asked) == 1 and 0 < result.time_ms < HOUR * 1000 / 2
    with JournalReader(get_default_path(state_directory())) as reader:
        durations = [row.duration for row in reader.read_calls(limit=10)]
    assert len(durations) == 2 and all(one is not None and one < HOUR * 1000 / 2 for one in durations)


def test_the_chat_leaves_the_persons_time_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    pass_time = think(monkeypatch, "perf_counter", "monotonic")
    events: list[Event] = []

    def approve(question: Question) -> bool:
        pass_time()
        return True

    with Session(tmp_path, mode="ask", approve=approve, settings=Settings(durable=False)) as session:
        session.call("Read", {"file_path": "a.txt"})
        ToolCallRunner(session, events.append).run([ToolCall("1", "Edit", json.dumps(EDIT))], threading.Event())
    (finished,) = (event for event in events if isinstance(event, CallFinished))
    assert finished.status == "ok" and finished.seconds < HOUR / 2
