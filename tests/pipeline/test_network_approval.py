"""A person's yes to a command that uses the network opens the network for that command, in each boundary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handrail import Session, Setup
from handrail.model import Answer, Question, Result
from handrail.policy.files import load, parse
from handrail.shell.runner.explain_exit import find_unreachable
from tests.shell.own_places import BOUNDARIES, User, made_user
from tests.shell.test_network import server

pytestmark = pytest.mark.slow  # starts many processes

Network = Callable[..., Result]


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    with made_user(monkeypatch) as result:
        (result.config / "approved.toml").unlink()  # these are read here
        (result.config / "config.toml").unlink()
        tool = result.work / "bin" / "curl"  # so that the tests need no program of that name
        tool.parent.mkdir()
        tool.write_text("#!/bin/bash\nport=${1##*:}; exec cat </dev/tcp/127.0.0.1/${port%/}\n", encoding="utf-8")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
        yield result


def fetch(port: int) -> str:
    """A command whose use of the network can be read off its words."""
    return f"curl http://service.example:{port}/"


def called(session: Session, command: str) -> Result:
    result = session.call("Bash", {"command": command})
    if result.error and result.error.code == "no_sandbox":
        pytest.skip(f"this boundary cannot be had on this machine: {result.text}")
    return result


class Person:
    """Gives the same answer to every question, and counts them."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question.verdict.why)
        return self.answer


@pytest.mark.parametrize("network", ["off", "loopback"])
@pytest.mark.parametrize("sandbox", BOUNDARIES)
@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
def test_a_yes_opens_the_network_for_that_command_alone(user: User, sandbox: str, network: str, mode: Any) -> None:
    person = Person(Answer(True))
    with user.session(sandbox, mode=mode, network=network, approve=person) as session, server("127.0.0.1") as (port, _):
        assert called(session, fetch(port)).text.splitlines()[0] == "hello"
        assert len(person.asked) == 1
        if network == "off":
            hidden = f"python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5)\""
            assert "PermissionError" in called(session, hidden).text


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_no_stays_cut(user: User, sandbox: str) -> None:
    person = Person(Answer(False, "not now"))
    with (
        user.session(sandbox, mode="accept-edits", network="off", approve=person) as session,
        server("127.0.0.1") as (port, arrived),
    ):
        assert called(session, fetch(port)).status == "denied"
        assert arrived == []
    with user.session(sandbox, mode="accept-edits", network="off") as session, server("127.0.0.1") as (port, arrived):
        assert called(session, fetch(port)).status == "denied"
        assert arrived == []


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_yes_for_the_session_holds_for_the_same_command(user: User, sandbox: str) -> None:
    person = Person(Answer(True, lasting="session"))
    with (
        user.session(sandbox, mode="accept-edits", network="off", approve=person) as session,
        server("127.0.0.1") as (port, _),
    ):
        for _ in range(3):
            assert called(session, fetch(port)).text.splitlines()[0] == "hello"
    assert len(person.asked) == 1


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_yes_for_good_holds_in_the_next_session(user: User, sandbox: str) -> None:
    person = Person(Answer(True, lasting="always"))
    with server("127.0.0.1") as (port, _):
        with user.session(sandbox, mode="accept-edits", network="off", approve=person) as session:
            assert called(session, fetch(port)).text.splitlines()[0] == "hello"
        rules = load(str(user.work), os.environ, str(user.state))
        with user.session(sandbox, mode="accept-edits", network="off", setup=Setup(rules=rules)) as session:
            assert called(session, fetch(port)).text.splitlines()[0] == "hello"
    assert len(person.asked) == 1


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_network_rule_opens_the_network_without_a_question(user: User, sandbox: str) -> None:
    rules = [parse('rules = ["allow Network(service.example)", "allow Bash"]', "policy.toml", "user")]
    with (
        user.session(sandbox, mode="accept-edits", network="off", setup=Setup(rules=rules)) as session,
        server("127.0.0.1") as (port, _),
    ):
        assert called(session, fetch(port)).text.splitlines()[0] == "hello"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_neither_a_rule_nor_an_answer_for_another_command_opens_it_for_a_program_beside(
    user: User, sandbox: str
) -> None:
    """The network is opened for a whole command line: what was said of a part of it is not enough."""
    steal = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5)\""
    rules = [parse('rules = ["allow Network(service.example)", "allow Bash"]', "policy.toml", "user")]
    person = Person(Answer(True, lasting="session"))
    with server("127.0.0.1") as (port, arrived):
        lines = [f"{fetch(port)}; {steal}", f"{steal} ; {fetch(port)}", f"{fetch(port)} | python3 -c 1; {steal}"]
        lines.append(f"export https_proxy=127.0.0.2:1; {fetch(port)}; ./x")
        with user.session(sandbox, mode="accept-edits", network="off", setup=Setup(rules=rules)) as session:
            for line in lines:
                called(session, line.format(port=port))
            assert arrived == []
            assert called(session, f"{fetch(port)} | head -n 1 | cat").text.splitlines()[0] == "hello"
        with user.session(sandbox, mode="accept-edits", network="off", approve=person) as session:
            called(session, fetch(port))
            person.answer = Answer(False)
            del arrived[:]
            for line in lines:
                assert called(session, line.format(port=port)).status == "denied"
            assert called(session, fetch(port)).ok
            assert len(person.asked) == 1 + len(lines)


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_where_nobody_was_asked_the_settings_decide(user: User, sandbox: str) -> None:
    with server("127.0.0.1") as (port, arrived):
        for mode in ("full", None):
            with user.session(sandbox, mode=mode, network="off") as session:
                assert "hello" not in called(session, fetch(port)).text
        assert arrived == []
        with user.session(sandbox, mode="full", network="on") as session:
            assert called(session, fetch(port)).text.splitlines()[0] == "hello"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_job_in_the_background_gets_what_was_approved(user: User, sandbox: str) -> None:
    person = Person(Answer(True))
    with (
        user.session(sandbox, mode="accept-edits", network="off", approve=person) as session,
        server("127.0.0.1") as (
            port,
            _,
        ),
    ):
        started = session.call("Bash", {"command": f"{fetch(port)} >got.txt", "background": True})
        if started.error and started.error.code == "no_sandbox":
            pytest.skip(f"this boundary cannot be had on this machine: {started.text}")
        session.services.command_host().jobs.get(started.data["job"]).run.wait(60)
    assert (user.work / "got.txt").read_text(encoding="utf-8") == "hello\n"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_command_that_failed_without_the_network_is_asked_about_when_it_runs_again(user: User, sandbox: str) -> None:
    """The words do not tell that it needs the network, so that it runs without it first, and unasked."""
    script = user.work / "fetch.py"
    script.write_text(
        "import os, urllib.request\n"
        "print('network', os.readlink('/proc/self/ns/net'), flush=True)\n"
        "urllib.request.urlopen('http://service.invalid/', timeout=5)\n",
        encoding="utf-8",
    )
    person = Person(Answer(True))
    command = "python3 fetch.py"
    rules = [parse('rules = ["allow Bash"]', "policy.toml", "user")]
    with user.session(sandbox, mode="accept-edits", setup=Setup(rules=rules), approve=person) as session:
        first = called(session, command)
        assert [note.code for note in first.notes] == ["needs_network"] and person.asked == []
        assert "Run the same command again" in first.text
        second = called(session, command)
        assert len(person.asked) == 1 and "would use the network" in person.asked[0]
        assert f"network {os.readlink('/proc/self/ns/net')}" in second.text
        assert [note.code for note in second.notes] == []  # it has the network now, and fails all the same
        assert called(session, "python3 fetch.py; true").ok and len(person.asked) == 1  # another command


@pytest.mark.parametrize(
    ("output", "host"),
    [
        ("curl: (6) Could not resolve host: pypi.org", "pypi.org"),
        ("fatal: unable to access 'https://x/': Could not resolve host: github.com", "github.com"),
        ("ssh: Could not resolve hostname git.example.org: Temporary failure in name resolution", "git.example.org"),
        (
            "npm error request to https://x failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org",
            "registry.npmjs.org",
        ),
        ("go: dial tcp: lookup proxy.golang.org on 127.0.0.53:53: read udp", "proxy.golang.org"),
        ("wget: unable to resolve host address \u2018example.org\u2019", "example.org"),
        ("NameResolutionError: Failed to resolve 'pypi.org' ([Errno -3])", "pypi.org"),
        ("curl: (7) Failed to connect to 1.2.3.4 port 443", "1.2.3.4"),
        ("Caused by: java.net.UnknownHostException: repo.maven.apache.org", "repo.maven.apache.org"),
        ("urlopen error [Errno -3] Temporary failure in name resolution", ""),
        ("OSError: [Errno 101] Network is unreachable", ""),
        ("curl: (7) Failed to connect to localhost port 3000: Connection refused", None),
        ("AssertionError: 1 != 2", None),
    ],
)
def test_the_host_that_a_command_could_not_reach_is_read_from_its_output(output: str, host: str | None) -> None:
    assert find_unreachable(f"building\n{output}\ndone\n") == host
