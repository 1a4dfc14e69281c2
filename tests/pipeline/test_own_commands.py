"""What a model may not do to Handrail itself, judged by its words: the boundary is another layer, and may be off."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail import Setup
from handrail.approval import json_socket
from handrail.approval.attached_terminal import ApprovalServer
from handrail.shell.runner import ancestry
from tests.command import TIMEOUT
from tests.shell.own_places import BOUNDARIES, SECRET, User, made_user, run

pytestmark = pytest.mark.slow  # starts many processes

Judge = Callable[..., str]


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    with made_user(monkeypatch) as result:
        monkeypatch.setenv("HOME", str(result.work.parent))
        yield result


@pytest.fixture
def judged(user: User) -> Iterator[Judge]:
    """What is said of a command in the freest mode, with no boundary; ``{state}`` and ``{config}`` are filled in."""
    with user.session("off", mode="full") as session:

        def decide(command: str, tool: str = "Bash") -> str:
            text = command.format(state=user.state, config=user.config)
            return session.prepare(tool, {"command": text}).verdict.decision

        yield decide


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("handrail approve", "deny"),
        ("handrail approve --all", "deny"),
        ("handrail web", "deny"),
        ("python -m handrail web --port 8790", "deny"),
        ("yes | handrail approve", "deny"),
        ("handrail --verbose approve", "deny"),
        ("handrail -w x approve", "deny"),
        ("/usr/local/bin/handrail approve", "deny"),
        ("env A=1 handrail approve", "deny"),
        ("bash -c 'handrail approve'", "deny"),
        ("python3 -m handrail approve", "deny"),
        ("python3 -m handrail.cli approve", "deny"),
        ("python3 -mhandrail approve", "deny"),
        ("python3 -Im handrail approve", "deny"),
        ("python3 -Imhandrail.cli policy trust", "deny"),
        ("uvx handrail approve", "deny"),
        ("nohup setsid handrail approve &", "deny"),
        ("handrail policy trust", "deny"),
        ("python3 -m handrail policy trust --sha256 abc", "deny"),
        ("handrail init --yes", "deny"),
        ("python3 -m handrail init", "deny"),
        ("handrail config set sandbox off", "deny"),
        ("handrail config --json unset sandbox", "deny"),
        ("handrail config", "allow"),
        ("handrail config get sandbox", "allow"),
        ("handrail $x", "ask"),
        ("handrail policy $x", "ask"),
        ("handrail log $x", "allow"),
        ("script -qc 'handrail approve' /dev/null", "deny"),
        ("coproc handrail approve", "deny"),
        ("handrail doctor", "allow"),
        ("handrail log", "allow"),
        ("git commit -m 'handrail approve asks once'", "allow"),
        ("cat {state}/journal/journal.db", "deny"),
        ("cat {state}/*/journal.db", "deny"),
        ("cat {state}/../sta*/journal/*", "deny"),
        ("cp {config}/approved.toml .", "deny"),
        ("echo x >{config}/approved.toml", "deny"),
        ("tee {config}/config.toml", "deny"),
        ("sed -i s/ask/allow/ {config}/policy.toml", "deny"),
        ("rm -rf {state}", "deny"),
        ("rm -rf {state}/..", "deny"),
        ("mv {config} old", "deny"),
        ("python3 -c 'print(open(\"{state}/journal/journal.db\").read())'", "ask"),
        ("sqlite3 {state}//journal/./journal.db .dump", "ask"),
        ("python3 x.py $HOME/state/journal", "ask"),
        ("node -e 'fs.writeFileSync(\"{config}/approved.toml\", x)'", "ask"),
        ("grep -r password {state}/..", "ask"),
        ("ls {state}/..", "ask"),
        ("cat a.txt", "allow"),
    ],
)
def test_what_is_said_of_a_command_where_nothing_hides_these_files(judged: Judge, command: str, decision: str) -> None:
    assert judged(command) == decision


def test_no_rule_and_no_mode_lets_a_command_approve(user: User) -> None:
    from handrail.policy.files import parse

    rules = [parse(f'rules = ["allow Bash(handrail approve)", "allow Read(/{user.state}/**)"]', "p.toml", "user")]
    with user.session("off", mode="full", setup=Setup(rules=rules), approve=lambda _: True) as session:
        assert session.call("Bash", {"command": "handrail approve"}).status == "denied"
        assert session.call("Bash", {"command": f"cat {user.state}/mcp-http-token"}).status == "denied"


def test_the_file_tools_do_not_open_the_state_directory_in_a_workspace_that_holds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with made_user(monkeypatch, inside=True) as user, user.session("off", mode="full") as session:
        assert session.call("Read", {"file_path": "state/mcp-http-token"}).status == "denied"
        assert session.call("Write", {"file_path": "state/trust/x", "content": "x"}).status == "denied"
        assert session.call("Read", {"file_path": "a.txt"}).ok
        for tool, arguments in (
            ("Grep", {"pattern": SECRET}),
            ("Glob", {"pattern": "**/*token*"}),
            ("LS", {"path": "."}),
        ):
            result = session.call(tool, arguments)
            assert result.ok and SECRET not in result.text and "mcp-http-token" not in result.text


# Answering a question of one's own


_ANSWER = r"""
import json, os, socket, sys, time
place = sys.argv[1]
os.makedirs(place, mode=0o700, exist_ok=True)
server = socket.socket(socket.AF_UNIX)
path = os.path.join(place, f"{os.getpid()}-0000.sock")
server.bind(path); os.chmod(path, 0o600); server.listen()
print("listening", flush=True)
server.settimeout(60)
while True:
    line, _ = server.accept()
    try:
        line.sendall((json.dumps({"handrail": int(sys.argv[2]), "workspace": None}) + "\n").encode())
        asked = line.recv(1 << 16)
        answer = {"yes": True, "reason": "", "lasting": "once", "hunks": None, "contents": None, "arguments": None}
        line.sendall((json.dumps({"answer": answer}) + "\n").encode())
    except OSError:
        pass
"""


@pytest.mark.slow
def test_a_command_cannot_answer_the_question_of_another_session(user: User) -> None:
    """Without a boundary: a command of one session listens as an approver, and a second process asks."""
    (user.work / "answer.py").write_text(_ANSWER, encoding="utf-8")
    ask = (
        "import sys; from handrail import Session; from handrail.approval.ask_attached import Approvers\n"
        "with Session(sys.argv[1], mode='ask', approve=Approvers(sys.argv[2], sys.argv[1])) as session:\n"
        "    print(session.call('Write', {'file_path': 'new.txt', 'content': 'x'}).error.code)\n"
    )
    with user.session("off", mode="full") as session:
        place = user.state / "approvers"
        job = session.services.command_host().start(
            f"{sys.executable} answer.py {place} {json_socket.VERSION}", str(user.work), "job", False, None
        )
        try:
            _until(lambda: any(place.glob("*.sock")) if place.is_dir() else False)
            words = [sys.executable, "-c", ask, str(user.work), str(user.state)]
            completed = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
        finally:
            job.run.end()
    assert completed.stdout == "needs_approval\n", completed.stderr
    assert not (user.work / "new.txt").exists()


@pytest.mark.slow
def test_the_same_program_answers_when_a_person_has_started_it(user: User, tmp_path: Path) -> None:
    """So that the test above fails for the right reason: the very same words, started by nobody's session."""
    script = tmp_path / "answer.py"
    script.write_text(_ANSWER, encoding="utf-8")
    place = user.state / "approvers"
    ask = (
        "import sys; from handrail import Session; from handrail.approval.ask_attached import Approvers\n"
        "with Session(sys.argv[1], mode='ask', approve=Approvers(sys.argv[2], sys.argv[1])) as session:\n"
        "    print(session.call('Write', {'file_path': 'new.txt', 'content': 'x'}).status)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script), str(place), str(json_socket.VERSION)], stdout=subprocess.PIPE
    ) as approver:
        try:
            assert approver.stdout is not None
            approver.stdout.readline()
            words = [sys.executable, "-c", ask, str(user.work), str(user.state)]
            completed = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT)
        finally:
            approver.kill()
    assert completed.stdout == "ok\n", completed.stderr


@pytest.mark.parametrize("network", ["loopback", "on"])
@pytest.mark.parametrize("sandbox", ["off", *BOUNDARIES])
@pytest.mark.slow
def test_a_command_that_connects_to_an_approver_is_turned_away(user: User, sandbox: str, network: str) -> None:
    connect = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.settimeout(30); "
        "print(s.recv(100))"
    )
    (user.work / "connect.py").write_text(connect, encoding="utf-8")
    with ApprovalServer(str(user.state), None) as desk, user.session(sandbox, mode="full", network=network) as session:
        (path,) = (user.state / "approvers").glob("*.sock")
        output = run(session, f"python3 connect.py {path}")
        assert output == "b''\n" or "Error" in output
        assert "handrail" not in output.replace("handrail-test", "")
        by_hand = subprocess.run(
            [sys.executable, "-c", connect, str(path)], capture_output=True, text=True, timeout=TIMEOUT
        )
        assert "handrail" in by_hand.stdout
        assert desk.questions.empty()


@pytest.mark.slow
def test_a_process_that_has_ended_is_no_peer(user: User) -> None:
    """Its number may belong to an innocent process by now: who has connected must still be there to be looked at."""
    server = socket.socket(socket.AF_UNIX)
    path = str(user.work / "s")
    with server:
        server.bind(path)
        server.listen()
        code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, path], check=True, timeout=TIMEOUT)
        connection, _ = server.accept()
        with connection, pytest.raises(json_socket.Disconnected):
            json_socket.require_apart(connection, answers=False)


def test_a_peer_that_is_confined_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        monkeypatch.setattr(ancestry, "iterate_ancestors", lambda _: iter(()))
        monkeypatch.setattr(json_socket, "get_peer", lambda _: os.getppid())
        monkeypatch.setattr(ancestry, "runs_above", lambda _: frozenset())
        assert json_socket.require_apart(ours, answers=True) == os.getppid()
        monkeypatch.setattr(ancestry, "has_given_up_privileges", lambda pid: pid == os.getppid())
        with pytest.raises(json_socket.Disconnected):
            json_socket.require_apart(ours, answers=True)
        assert json_socket.require_apart(ours, answers=False) == os.getppid()


def _until(there: Callable[[], bool]) -> None:
    import time

    for _ in range(3000):
        if there():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")
