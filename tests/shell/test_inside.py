"""Commands in a PID namespace: what is still running at the end is named, nothing is left, and no end is lost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Result
from handrail.shell.runner import process_tree
from tests.command import TIMEOUT

Make = Callable[..., Session]


@pytest.fixture(params=["namespaces"])
def sandbox(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def bash(make_session: Make, sandbox: str) -> Callable[..., Result]:
    session = make_session(durable=False, sandbox=sandbox, sandbox_required=True)
    tried = session.call("Bash", {"command": "true"})
    if tried.error is not None and tried.error.code == "no_sandbox":
        pytest.skip(f"{sandbox} cannot be had on this machine: {tried.text}")
    return lambda command, **more: session.call("Bash", {"command": command, **more})


def _below() -> list[str]:
    """The processes below us, but for those that wait for the next command."""
    own = os.getpid()
    lines = [
        process_tree.read_command_line(each.pid)
        for each in process_tree.list_processes().values()
        if each.parent == own
    ]
    return [line for line in lines if "import launcher" not in line]


@pytest.mark.parametrize(
    "command", ["sleep 303 &", "(setsid sleep 303 >/dev/null 2>&1 &)", "nohup sleep 303 >/dev/null 2>&1 & true"]
)
def test_what_ends_with_its_shell_is_named_and_the_way_to_keep_it_is_told(
    bash: Callable[..., Result], command: str
) -> None:
    result = bash(f"{command}\necho done")
    assert result.status == "partial" and result.text.startswith("done\n")
    assert [each["command"] for each in result.data["swept"]] == ["sleep 303"]
    assert f"{result.data['swept'][0]['pid']} (sleep 303)" in result.text and "background: true" in result.text
    assert result.data["strays"] == []


def test_the_number_that_is_named_is_the_one_that_the_command_knew(bash: Callable[..., Result]) -> None:
    result = bash("sleep 304 & echo $!")
    assert result.text.splitlines()[0] == str(result.data["swept"][0]["pid"])


def test_what_ends_by_itself_a_moment_later_is_waited_for(bash: Callable[..., Result]) -> None:
    result = bash("echo last words > >(sleep 0.02; cat)")
    assert (result.status, result.text, result.data["swept"]) == ("ok", "last words", [])


@pytest.mark.parametrize(("command", "code"), [("true", 0), ("exit 3", 3), ("kill -9 $$", 137), ("exec false", 1)])
def test_the_end_of_the_shell_comes_through(bash: Callable[..., Result], command: str, code: int) -> None:
    assert bash(command).data["exit_code"] == code


def test_nothing_is_left_below_us(bash: Callable[..., Result]) -> None:
    before = _below()
    for command in ("true", "sleep 305 &", "exit 3"):
        bash(command)
    assert _below() == before


def test_a_timeout_ends_it_with_all_that_it_started(bash: Callable[..., Result]) -> None:
    before = _below()
    result = bash("sleep 306 & sleep 306", timeout=0.5)
    assert result.data["timed_out"] and result.data["swept"] == []
    assert _below() == before


def test_a_job_that_ends_is_seen_to_end(
    make_session: Make, bash: Callable[..., Result], sandbox: str, tmp_path: Path
) -> None:
    session = make_session(durable=False, sandbox=sandbox)
    job = session.call("Bash", {"command": "sleep 0.1; echo out; exit 4", "background": True}).data["job"]
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until:
        seen = session.call("BashOutput", {"job": job, "wait": 5, "all": True})
        if not seen.data["running"]:
            break
    assert (seen.data["exit_code"], seen.data["output"]) == (4, "out\n")
