"""Callbacks before and after each call, and the log records for both."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from handrail import Call, Result, Session, Settings
from tests.command import TIMEOUT


def test_callbacks_get_each_call_and_its_result(tmp_path: Path) -> None:
    events: list[tuple[str, str, str]] = []

    def before(call: Call) -> None:
        events.append(("before", call.id, str(call.arguments["file_path"])))

    def after(call: Call, result: Result) -> None:
        events.append(("after", call.id, result.status))

    with Session(tmp_path, journal=None, before_call=before, after_call=after) as session:
        session.call("Write", {"file_path": "a.txt", "content": "one\n"}, id="1")
        session.call("Read", {"file_path": "missing.txt"}, id="2")
    assert events == [
        ("before", "1", "a.txt"),
        ("after", "1", "ok"),
        ("before", "2", "missing.txt"),
        ("after", "2", "error"),
    ]


def test_a_callback_that_raises_before_a_call_stops_it(tmp_path: Path) -> None:
    def refuse(call: Call) -> None:
        raise RuntimeError(f"not {call.tool}")

    settings = Settings(raise_bugs=False)
    with Session(tmp_path, journal=None, settings=settings, before_call=refuse) as session:
        result = session.call("Write", {"file_path": "a.txt", "content": "one\n"})
    assert result.status == "error" and "not Write" in result.text
    assert not (tmp_path / "a.txt").exists()


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
class Logger:
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
