"""The helper's socket and the channels of its calls, against commands in the sandbox and other processes."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from handrail.attach import launcher, service, wrapped
from handrail.attach.agents import AttachedAgent
from handrail.attach.client import handrail_run
from handrail.attach.contracts import CONTRACTS, HookEvent
from handrail.attach.processes import read_start
from tests.attach.conftest import Agent, Helper, finish
from tests.attach.test_codex import list_unwrapped
from tests.attach.test_commands import list_calls, read_tree


def test_only_the_user_reaches_the_socket_and_the_channels(agent: Agent) -> None:
    agent.before("Bash", {"command": "echo registered"})
    directory = agent.state / "attach"
    (call,) = (directory / "calls").iterdir()
    for path in (directory, directory / "calls", call):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    assert stat.S_IMODE((directory / "socket").stat().st_mode) == 0o600
    for name in ("request", "in", "out", "err", "status", "owner"):
        assert stat.S_IMODE((call / name).stat().st_mode) == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of another user")
@pytest.mark.parametrize("can_reach", [False, True])
def test_another_user_gets_no_answer(agent: Agent, can_reach: bool) -> None:
    agent.before("Bash", {"command": "echo registered > mine.txt"})
    directory = agent.state / "attach"
    (call,) = (directory / "calls").iterdir()
    if can_reach:  # the permissions are gone, and the helper has to look who is there
        for path in (agent.state.parent, agent.state, directory, directory / "socket", call.parent, call):
            path.chmod(0o777)
        for path in call.iterdir():
            path.chmod(0o666)
    words = [sys.executable, "-I", "-S", "-c", _OTHER_USER, str(directory), str(call)]
    done = subprocess.run(words, check=False, capture_output=True, timeout=60)
    assert (done.stderr, done.stdout) == (b"", b"" if can_reach else b"not the socket\nnot the channel\n")
    assert read_tree(agent.project) == {}


_OTHER_USER = """
import fcntl, os, socket, sys
os.setgid(65534); os.setuid(65534)
directory, call = sys.argv[1:]
try:
    s = socket.socket(socket.AF_UNIX)
    s.connect(directory + "/socket")
    s.sendall((2).to_bytes(8, "big") + b"{}")
    assert s.recv(100) == b""
except ConnectionError:
    pass
except PermissionError:
    print("not the socket")
try:
    owner = os.open(call + "/owner", os.O_RDWR)
    fcntl.flock(owner, fcntl.LOCK_EX)
    fcntl.lockf(owner, fcntl.LOCK_EX)
    status = os.open(call + "/status", os.O_RDONLY)
    request = os.open(call + "/request", os.O_WRONLY)
    os.write(request, b"1\\n")
    assert os.read(status, 100) == b""  # nothing was started
except PermissionError:
    print("not the channel")
"""


@pytest.mark.parametrize(
    "forged",
    [
        b"1\n",
        b"2\n15\n",
        b"\n",
        b"\0" * 5000,
        b"80\necho mine > mine.txt\0/\0" + b"1\0PATH=/tmp\0BASH_ENV=/tmp/bad".ljust(57),
    ],
)
def test_what_a_sandboxed_process_writes_into_a_channel_starts_nothing(agent: Agent, forged: bytes) -> None:
    command = "echo mine > mine.txt"
    agent.before("Bash", {"command": command}, "c")
    (call,) = (agent.state / "attach" / "calls").iterdir()
    with (call / "request").open("wb") as request:
        request.write(forged)
    while call.exists():  # the registration is used up
        os.sched_yield()
    assert read_tree(agent.project) == {}
    assert finish(agent.start(command)).returncode == 0
    agent.hook("PostToolUse", tool_name="Bash", tool_input={"command": command}, tool_use_id="c")
    assert read_tree(agent.project) == {"mine.txt": b"mine\n"}
    assert list_unwrapped(agent) == ["It ran without a draft: its shell did not start Handrail."]


def test_a_command_gets_the_variables_of_its_own_shell_only(agent: Agent) -> None:
    command = 'echo "$MINE"'
    agent.before("Bash", {"command": command})
    (call,) = (agent.state / "attach" / "calls").iterdir()
    agent.environment["MINE"] = "mine"
    process = agent.start(command)
    with contextlib.suppress(OSError), (call / "request").open("wb") as request:  # whether before or behind its line
        request.write(b"30\necho bad\0/\0" + b"1\0MINE=bad\0")
    done = finish(process)
    assert b"bad" not in done.stdout + done.stderr


def test_a_command_in_a_draft_sees_neither_the_socket_nor_the_channels(agent: Agent) -> None:
    agent.before("Bash", {"command": "echo other"}, "other")
    agent.environment["PLACE"] = str(agent.state / "attach")
    done = agent.run('ls -R "$PLACE" 2>&1; test -S "$PLACE/socket" && echo SEEN; "$PLACE/handrail-run" hook claude')
    assert b"SEEN" not in done.stdout and b"request" not in done.stdout and done.returncode != 0


def test_a_channel_runs_the_registered_command_and_no_other(agent: Agent) -> None:
    agent.before("Bash", {"command": "echo good > good.txt"})
    (call,) = (agent.state / "attach" / "calls").iterdir()
    # The right channel, with other words for the shell.
    text = agent.quote("echo bad > bad.txt")
    program = f"""
import sys; sys.path.insert(0, {os.path.dirname(str(handrail_run.__file__))!r})
import handrail_run
handrail_run._run({str(agent.state / "attach")!r}, {call.name!r}, {text!r}, ["true"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=agent.environment, check=False)
    assert b"no undo for this command" in done.stderr
    assert read_tree(agent.project) == {}


@pytest.mark.parametrize("asks", [False, True])
def test_a_registration_lasts_a_minute_unless_the_person_is_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    assert wrapped._SECONDS_TO_START == 60
    monkeypatch.setattr(wrapped, "_SECONDS_TO_START", 0.2)
    call = wrapped.RegisteredCommand(str(place), 1, "true", os.getpid(), lambda started: wrapped.Ended())
    if asks:
        call.wait_for_person()
    assert not call.wait(1.0) if asks else call.wait(60)
    assert call.withdraw()
    assert call.wait(60)


def test_a_shell_that_starts_just_as_its_registration_ends_runs_unwrapped(place: Path) -> None:
    call = wrapped.RegisteredCommand(str(place), 1, "true", os.getpid(), lambda started: wrapped.Ended())
    status = os.open(place / call.name / "status", os.O_RDONLY)
    assert call.withdraw()
    with open(status, "rb") as answer:
        assert answer.read() == b"unwrapped\0no undo for this command: it started too late"


def test_a_session_stays_while_the_person_thinks(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDRAIL_STATE", str(agent.state))
    monkeypatch.setattr(service, "_UNUSED", -1.0)
    mine = AttachedAgent(CONTRACTS["claude"], str(agent.project), os.getpid(), str(tmp_path))
    helper = service.Service(str(agent.state), 0)
    helper._agents["claude", "s9"] = mine, read_start(os.getpid())
    event = {"session_id": "s9", "cwd": str(agent.project), "hook_event_name": "PreToolUse", "tool_use_id": "c"}
    edit = {"tool_name": "Write", "tool_input": {"file_path": str(agent.project / "a.txt")}}
    command = {"tool_name": "Bash", "tool_input": {"command": "touch b.txt"}}
    for call in (edit, command):
        mine.handle(HookEvent.parse("claude", json.dumps({**event, **call}).encode()))
        assert helper._close_unused()
        ended = {**event, **call, "hook_event_name": "PostToolUse"}
        mine.handle(HookEvent.parse("claude", json.dumps(ended).encode()))
    assert not helper._close_unused()


def test_a_command_outside_of_the_project_runs_as_it_is_and_is_recorded(agent: Agent, tmp_path: Path) -> None:
    command = "echo x > x.txt"
    call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "c"}
    assert agent.hook("PreToolUse", **call, cwd=str(tmp_path)) == {}
    done = finish(agent.start(command, cwd=tmp_path))
    assert (done.returncode, read_tree(tmp_path)) == (0, {"x.txt": b"x\n"})
    assert b"no undo for this command: it runs outside of" in done.stderr
    assert len(list_unwrapped(agent)) == 1


def test_a_registration_starts_one_command(agent: Agent) -> None:
    command = "echo once >> once.txt"
    agent.before("Bash", {"command": command})
    assert [finish(agent.start(command)).returncode for _ in range(2)] == [0, 0]
    assert list_calls(agent) == [("Bash", "ok")]  # the second ran as if Handrail were not attached
    assert read_tree(agent.project) == {"once.txt": b"once\nonce\n"}


def test_a_registration_is_for_processes_below_the_agent(agent: Agent) -> None:
    # Another agent has registered the same command, and the shell of this one is not below it.
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        other = replace(agent, session="s9", environment={**agent.environment})
        script = 'exec "$0" hook claude'
        words = ["bash", "-c", f"({script})", agent.launcher]
        event = (
            b'{"session_id": "s9", "cwd": "%s", "hook_event_name": "PreToolUse", "tool_name": "Bash",'
            b' "tool_input": {"command": "echo mine > mine.txt"}, "tool_use_id": "c"}' % os.fsencode(agent.project)
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", _HOLDER, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_without(other)
        )
        assert holder.stdin and holder.stdout
        holder.stdin.write(len(event).to_bytes(4, "big") + event)
        holder.stdin.flush()
        assert holder.stdout.readline() == b"done\n"
        (others,) = (agent.state / "attach" / "calls").iterdir()
        assert finish(agent.start("echo mine > mine.txt")).stderr == b""
        assert others.exists()  # it ran as if Handrail were not attached
        done = agent.run("echo mine > mine.txt")
        assert done.stderr == b"" and list_calls(agent) == [("Bash", "ok")] and list_unwrapped(agent) == []
        holder.communicate(timeout=60)
    finally:
        sleeper.kill()
        sleeper.wait()


_HOLDER = """
import subprocess, sys
size = int.from_bytes(sys.stdin.buffer.read(4), "big")
subprocess.run(sys.argv[1:], input=sys.stdin.buffer.read(size), check=True)
print("done", flush=True)
sys.stdin.read()
"""


def _without(agent: Agent) -> dict[str, str]:
    return {name: value for name, value in agent.environment.items() if name != "CLAUDE_PID"}


@pytest.mark.parametrize("raw", [b"", b"\xff" * 8, b"\0" * 8, (5).to_bytes(8, "big") + b"ab", b"\0" * 7 + b"\1\n"])
def test_what_is_no_request_harms_nobody(agent: Agent, raw: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(agent.state / "attach" / "socket"))
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(100)
    assert agent.run("echo on").stdout == b"on\n"


def test_a_helper_of_another_version_gives_way_after_its_calls(agent: Agent, helper: Helper) -> None:
    command = "echo ready; read -r _; echo made > made.txt"
    agent.before("Bash", {"command": command})
    process = agent.start(command, stdin=subprocess.PIPE)
    assert process.stdin and process.stdout and process.stdout.readline() == b"ready\n"
    request = b"claude\0another version\n{}"
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(agent.state / "attach" / "socket"))
        connection.sendall(len(request).to_bytes(8, "big") + request)
        assert connection.recv(100) == b"\nold"
    old = helper.process
    helper.start()
    assert agent.run("echo new").stdout == b"new\n"
    process.stdin.write(b"\n")
    process.stdin.close()
    process.stdin = None
    assert finish(process).returncode == 0
    assert read_tree(agent.project) == {"made.txt": b"made\n"}
    assert old and old.wait(timeout=60) == 0


def test_a_helper_ends_when_nobody_needs_it(place: object, agent: Agent, helper: Helper) -> None:
    helper.stop()
    words = [sys.executable, "-P", "-m", "handrail", "service", "--idle", "0"]
    environment = {**os.environ, "HANDRAIL_STATE": str(agent.state)}
    assert subprocess.run(words, env=environment, timeout=60, check=False).returncode == 0


def test_there_is_one_helper_per_user(agent: Agent) -> None:
    words = [sys.executable, "-P", "-m", "handrail", "service"]
    environment = {**os.environ, "HANDRAIL_STATE": str(agent.state)}
    done = subprocess.run(words, env=environment, timeout=60, check=False, capture_output=True)
    assert (done.returncode, done.stderr) == (1, b"handrail attach service: another helper is running\n")


def test_without_handrail_the_launcher_runs_commands_as_before(agent: Agent) -> None:
    script = agent.state / "attach" / "handrail-run"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(f"python={sys.executable}", "python=/gone/python"), encoding="utf-8")
    done = finish(agent.start("echo here; exit 5"))
    assert (done.returncode, done.stdout) == (5, b"here\n")


@pytest.mark.parametrize("required", [False, True])
def test_without_the_helper_tools_go_on_or_fail_if_it_is_required(agent: Agent, helper: Helper, required: bool) -> None:
    command = "echo ran > ran.txt"
    agent.before("Bash", {"command": command})
    helper.kill()
    launcher.write(str(agent.state), required=required)
    done = finish(agent.start(command))
    assert b"the helper cannot be reached" in done.stderr
    assert (done.returncode, bool(read_tree(agent.project))) == ((125, False) if required else (0, True))
    script = Path(agent.launcher)  # the helper cannot start either, and nobody waits for it
    text = script.read_text(encoding="utf-8").replace('"handrail", "service"', '"nothing"')
    text = text.replace(
        "handrail_run.main(", "handrail_run._PATIENCE, handrail_run._GRACE = 600, 0\nhandrail_run.main("
    )
    script.write_text(text, encoding="utf-8")
    for event, code in (("PreToolUse", 2 if required else 1), ("Stop", 1)):
        given = json.dumps({"session_id": "s", "cwd": str(agent.project), "hook_event_name": event}).encode()
        words = [agent.launcher, "hook", "claude"]
        called = subprocess.run(words, input=given, env=agent.environment, capture_output=True, check=False)
        assert (called.returncode, b"cannot be reached" in called.stderr) == (code, True)


def test_if_handrail_is_required_its_removal_stops_tools_and_nothing_else(agent: Agent) -> None:
    launcher.write(str(agent.state), required=True)
    script = Path(agent.launcher)
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace(f"python={sys.executable}", "python=/gone/python"), encoding="utf-8")
    assert finish(agent.start("echo ran > ran.txt")).returncode == 2
    for event, code in (("PreToolUse", 2), ("Stop", 0)):
        given = json.dumps({"hook_event_name": event}).encode()
        called = subprocess.run([agent.launcher, "hook", "claude"], input=given, capture_output=True, check=False)
        assert called.returncode == code
    assert read_tree(agent.project) == {}
