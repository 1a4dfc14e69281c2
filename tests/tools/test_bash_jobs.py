"""Commands in the background: started, read, typed to, listed, kept and ended, through the session."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from handrail.shell.runner import jobs

Make = Callable[..., Session]
SOON = 60.0


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(durable=False, sandbox="off")


def _start(session: Session, command: str, **more: object) -> Result:
    result = session.call("Bash", {"command": command, "background": True, **more})
    assert result.status == "ok", result.text
    return result


def _output(session: Session, job: str, **more: object) -> Result:
    return session.call("BashOutput", {"job": job, **more})


def _reads(session: Session, job: str, text: str) -> str:
    """New output, until ``text`` is in it."""
    seen, until = "", time.monotonic() + SOON
    while text not in seen and time.monotonic() < until:
        seen += _output(session, job).data["output"]
        time.sleep(0.02)
    assert text in seen
    return seen


def _ended(pid: int) -> bool:
    until = time.monotonic() + SOON
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def test_a_job_is_told_with_its_name_and_its_log(session: Session) -> None:
    result = _start(session, "echo one")
    assert result.data["job"] == "job-1" and result.data["log"].startswith("/large_tool_results/")
    pid, log = result.data["pid"], result.data["log"]
    assert result.text == f"Started job-1 (pid {pid}). Read its output with BashOutput; the log is {log}."
    output = _output(session, "job-1", wait=SOON)
    assert output.text == f"one\n(job-1 has ended, exit code 0; log: {result.data['log']})"


def test_each_line_is_read_once_unless_all_are_asked_for(session: Session, tmp_path: Path) -> None:
    _start(session, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; exit 3")
    assert _reads(session, "job-1", "one") == "one\n"
    quiet = _output(session, "job-1")
    assert quiet.text.startswith("(no new output)\n(job-1 is running") and quiet.data["running"] is True
    (tmp_path / "go").touch()
    last = _output(session, "job-1", wait=SOON)
    assert last.text.startswith("two\n(job-1 has ended, exit code 3;") and last.data["exit_code"] == 3
    assert _output(session, "job-1", all=True).data["output"] == "one\ntwo\n"


def test_a_filter_lets_lines_through_and_says_how_many(session: Session) -> None:
    _start(session, "seq 1000")
    actual = _output(session, "job-1", filter="^99", wait=SOON)
    assert actual.data["output"].split() == ["99", *(str(n) for n in range(990, 1000))] and actual.data["matched"] == 11
    bad = _output(session, "job-1", filter="(")
    assert bad.status == "error" and bad.error is not None and bad.error.code == "bad_filter"


def test_long_output_is_shown_as_its_beginning_and_its_end_and_the_log_holds_all(session: Session) -> None:
    log = _start(session, "seq 100000").data["log"]
    shown = _output(session, "job-1", wait=SOON)
    assert shown.data["truncated"] and shown.text.startswith("1\n2\n") and "\n100000\n" in shown.text
    result = session.call("Grep", {"pattern": "^54321$", "path": log, "output_mode": "content"})
    assert result.data["matches"][0]["line"] == 54321


def test_something_can_be_typed_and_the_input_be_closed(session: Session) -> None:
    _start(session, 'read -r name; echo "hello $name"; cat')
    typed = session.call("BashInput", {"job": "job-1", "text": "wörld\n"})
    assert typed.text == "Sent 7 bytes to job-1." and typed.data == {"job": "job-1", "sent": 7, "wanted": 7}
    _reads(session, "job-1", "hello wörld\n")
    assert session.call("BashInput", {"job": "job-1", "text": "rest", "close": True}).status == "ok"
    assert _output(session, "job-1", wait=SOON).data["output"] == "rest"
    late = session.call("BashInput", {"job": "job-1", "text": "x"})
    assert late.error is not None and late.error.code == "stdin_closed"


def test_a_killed_job_is_over_with_all_that_it_started(session: Session, tmp_path: Path) -> None:
    _start(session, "setsid sleep 600 & echo $!; trap '' TERM; while :; do sleep 1; done")
    child = int(_reads(session, "job-1", "\n"))
    killed = session.call("BashKill", {"job": "job-1"})
    assert killed.text == "Ended job-1 and every process it started." and _ended(child)
    again = session.call("BashKill", {"job": "job-1"})
    assert again.text.startswith("job-1 had already ended") and again.status == "ok"


def test_jobs_are_listed_and_an_unknown_one_is_refused_with_the_known_ones(session: Session) -> None:
    assert session.call("BashOutput", {}).text == "There are no background commands."
    _start(session, "exit 4")
    _output(session, "job-1", wait=SOON)
    _start(session, "sleep 600")
    listed = session.call("BashOutput", {})
    assert listed.text == "job-1: ended, exit code 4 - exit 4\njob-2: running - sleep 600"
    assert [job["running"] for job in listed.data["jobs"]] == [False, True]
    for tool in ("BashOutput", "BashInput", "BashKill"):
        refused = session.call(tool, {"job": "job-9"})
        assert refused.error is not None and refused.error.code == "no_such_job"
        assert "job-1" in refused.text and "job-2" in refused.text


def test_jobs_end_with_the_session(make_session: Make) -> None:
    session = make_session(durable=False, sandbox="off")
    pids = [_start(session, "trap '' TERM; sleep 600").data["pid"] for _ in range(3)]
    session.close()
    assert all(_ended(pid) for pid in pids)


def test_a_job_has_a_timeout_only_if_it_was_given_one(session: Session) -> None:
    _start(session, "echo first; sleep 600", timeout=0.3)
    output = _output(session, "job-1", wait=SOON)
    assert output.data["timed_out"] and ", timed out" in output.text


def test_a_command_whose_time_is_up_may_run_on_as_a_job(session: Session, tmp_path: Path) -> None:
    """And what it prints from then on is read, each line once."""
    command = "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after"
    kept = session.call("Bash", {"command": command, "timeout": 3, "keep": True})
    assert kept.status == "partial" and [note.code for note in kept.notes] == ["kept"]
    assert kept.text.startswith("before\n(Still running after 3 s, now in the background as job-1. ")
    assert kept.data["job"] == "job-1"
    (tmp_path / "go").touch()
    output = _output(session, "job-1", wait=SOON)
    assert output.data["output"] == "after\n" and output.data["exit_code"] == 0


def test_where_there_are_too_many_jobs_a_command_is_ended_when_its_time_is_up(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MOST_RUNNING", 1)
    _start(session, "sleep 600")
    refused = session.call("Bash", {"command": "touch ran", "background": True})
    assert refused.error is not None and refused.error.code == "too_many_jobs" and not (tmp_path / "ran").exists()
    result = session.call("Bash", {"command": "echo $$; sleep 600", "timeout": 0.5, "keep": True})
    assert result.data["timed_out"] and result.status == "partial"
    assert _ended(int(result.text.splitlines()[0]))


def test_what_is_no_command_is_no_job_either(session: Session, tmp_path: Path) -> None:
    for command in ("if", "sudo true", " ", "a\0b"):
        result = session.call(
            "Bash", {"command": f"touch ran; {command}" if command.strip() else command, "background": True}
        )
        assert result.error is not None, command
    assert not (tmp_path / "ran").exists()
    assert session.call("BashOutput", {}).text == "There are no background commands."


def test_the_names_that_claude_models_use_work(make_session: Make) -> None:
    claude = make_session(dialect="claude", durable=False, sandbox="off")
    job = claude.call("Bash", {"command": "echo one; sleep 600", "run_in_background": True}).data["job"]
    until, seen = time.monotonic() + SOON, ""
    while "one" not in seen and time.monotonic() < until:
        seen = claude.call("BashOutput", {"bash_id": job, "filter": "o.e"}).text
    assert seen.startswith("one\n")
    assert claude.call("KillShell", {"shell_id": job}).status == "ok"
