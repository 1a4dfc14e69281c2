"""Events of calls, with progress and live output, and log records."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from handrail import (
    Question,
    Session,
    SessionEvent,
    Settings,
    Setup,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
)
from handrail.pipeline import live_output
from tests.command import TIMEOUT


def test_an_approval_that_raises_is_reported_under_its_name(tmp_path: Path) -> None:
    def approve(question: Question) -> bool:
        raise LookupError(f"nobody for {question.call.tool}")

    with Session(tmp_path, mode="ask", approve=approve) as session:
        result = session.call("Write", {"file_path": "a.txt", "content": "one\n"})
    assert result.error and result.error.code == "callback_failed"
    assert "approve, a callback of the host program, failed: LookupError: nobody for Write" in result.text
    assert not (tmp_path / "a.txt").exists()


def test_a_listener_that_raises_stops_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def listen(event: SessionEvent) -> None:
        raise LookupError(type(event).__name__)

    with Session(tmp_path, journal=None, setup=Setup(on_event=listen)) as session:
        assert session.call("Bash", {"command": "echo one"}).text == "one"
    assert {record.getMessage() for record in caplog.records} == {"on_event, a callback of the host program, failed"}


def outputs(events: list[SessionEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, ToolOutput))


def test_the_output_of_a_command_arrives_while_it_runs(tmp_path: Path) -> None:
    events: list[SessionEvent] = []

    def listen(event: SessionEvent) -> None:
        events.append(event)
        if isinstance(event, ToolOutput) and "first" in event.text:
            (tmp_path / "go").touch()

    command = "echo first; while ! test -e go; do sleep 0.01; done; printf 'a\\rb\\n'; printf last"
    with Session(tmp_path, journal=None, setup=Setup(on_event=listen)) as session:
        result = session.call("Bash", {"command": command, "timeout": TIMEOUT}, id="7")
    assert result.text == "first\nb\nlast" and outputs(events) == "first\nb\nlast"
    assert isinstance(events[0], ToolStarted) and isinstance(events[-1], ToolFinished)
    assert events[-1].result is result and {event.call.id for event in events} == {"7"}


def test_a_command_that_prints_nothing_reports_progress(tmp_path: Path) -> None:
    events: list[SessionEvent] = []

    def listen(event: SessionEvent) -> None:
        events.append(event)
        if isinstance(event, ToolProgress):
            (tmp_path / "go").touch()

    with Session(tmp_path, journal=None, setup=Setup(on_event=listen)) as session:
        session.call("Bash", {"command": "while ! test -e go; do sleep 0.01; done", "timeout": TIMEOUT})
    progress = next(event for event in events if isinstance(event, ToolProgress))
    assert progress.message == "running" and progress.seconds > 0


def test_secrets_in_live_output_are_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2hunter2")
    events: list[SessionEvent] = []
    settings = Settings(redact_values_from_env=("MY_SECRET",))
    with Session(tmp_path, journal=None, settings=settings, setup=Setup(on_event=events.append)) as session:
        session.call("Bash", {"command": "printf hunter2; sleep 0.3; echo hunter2"})
    assert outputs(events).startswith("⟦secret:") and "hunter2hunter2" not in repr(events)


def test_a_listener_that_never_returns_does_not_keep_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_output, "_PATIENCE", 0.1)
    never = threading.Event()

    def listen(event: SessionEvent) -> None:
        if isinstance(event, ToolOutput):
            never.wait()

    with Session(tmp_path, journal=None, setup=Setup(on_event=listen)) as session:
        assert session.call("Bash", {"command": "echo one; sleep 0.3; echo two"}).text == "one\ntwo"
    never.set()


@pytest.mark.usefixtures("without_drafts")
def test_a_listener_that_is_too_slow_misses_the_middle(tmp_path: Path) -> None:
    events: list[SessionEvent] = []
    full = threading.Event()

    def listen(event: SessionEvent) -> None:
        events.append(event)
        if isinstance(event, ToolOutput) and not full.is_set():
            (tmp_path / "go").touch()
            while not (tmp_path / "printed").exists():
                full.wait(0.01)
            full.set()

    command = (
        "echo first; while ! test -e go; do sleep 0.01; done; yes 1234567 | head -c 4000000; echo last; touch printed"
    )
    with Session(tmp_path, journal=None, setup=Setup(on_event=listen)) as session:
        session.call("Bash", {"command": command, "timeout": TIMEOUT})
    actual = [event for event in events if isinstance(event, ToolOutput)]
    assert actual[0].text == "first\n" and actual[-1].text.endswith("last\n")
    assert sum(event.omitted + len(event.text) for event in actual) == 4_000_000 + len("first\nlast\n")
    assert max(len(event.text) for event in actual) <= 1 << 16 and any(event.omitted for event in actual)


def test_a_call_may_have_a_listener_of_its_own(tmp_path: Path) -> None:
    events: list[SessionEvent] = []
    with Session(tmp_path, journal=None) as session:
        session.call("LS", {"path": "."}, id="1")
        session.call("LS", {"path": "."}, id="2", on_event=events.append)
    assert [(type(event), event.call.id) for event in events] == [(ToolStarted, "2"), (ToolFinished, "2")]


def test_the_logger_reports_the_start_and_the_end_of_a_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "handrail"), Session(tmp_path, journal=None) as session:
        session.call("LS", {"path": "."}, id="7")
    started, ended = [record.getMessage() for record in caplog.records if record.name == "handrail"]
    assert started == "LS 7: started"
    assert ended.startswith("LS 7: ok in ")


_HALF_IMPORTED = """
import sys, threading
from handrail import Session

entered, finish = threading.Event(), threading.Event()
sys.gates = entered, finish
with Session(sys.argv[1], journal=None) as session:
    session.call("LS", {"path": "."})
    assert "logging" not in sys.modules, "the test needs a process that has not imported it"
    sys.path.insert(0, sys.argv[2])
    importing = threading.Thread(target=__import__, args=("logging",))
    importing.start()
    entered.wait()
    threading.Timer(0.3, finish.set).start()
    print(session.call("LS", {"path": "."}, id="7").status)
importing.join()
print(*sys.modules["logging"].records)
"""
_SLOW_LOGGING = """
import sys
entered, finish = sys.gates
entered.set()
finish.wait()
records = []
DEBUG = 10
class Logger:
    def isEnabledFor(self, level):
        return True
    def debug(self, message, *facts):
        records.append(message % facts)
getLogger = lambda name: Logger()
"""


def test_a_call_waits_for_a_logging_module_that_another_thread_is_importing(tmp_path: Path) -> None:
    workspace, modules = tmp_path / "workspace", tmp_path / "modules"
    workspace.mkdir()
    modules.mkdir()
    (modules / "logging.py").write_text(_SLOW_LOGGING)
    command = [sys.executable, "-c", _HALF_IMPORTED, str(workspace), str(modules)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert run.stdout.startswith("ok\nLS 7: started LS 7: ok in "), run.stderr
