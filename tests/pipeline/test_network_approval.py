"""A person's yes to a command that uses the network opens the network for that command, in each boundary."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from handrail import Session
from handrail.model import Answer, Question, Result
from handrail.policy.files import load, parse
from tests.shell.own_places import BOUNDARIES, User, made_user
from tests.shell.test_network import server

Network = Callable[..., Result]


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    with made_user(monkeypatch) as made:
        (made.config / "approved.toml").unlink()  # these are read here
        (made.config / "config.toml").unlink()
        tool = made.work / "bin" / "curl"  # so that the tests need no program of that name
        tool.parent.mkdir()
        tool.write_text("#!/bin/bash\nport=${1##*:}; exec cat </dev/tcp/127.0.0.1/${port%/}\n", encoding="utf-8")
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
        yield made


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
        assert called(session, fetch(port)).text == "hello"
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
            assert called(session, fetch(port)).text == "hello"
    assert len(person.asked) == 1


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_yes_for_good_holds_in_the_next_session(user: User, sandbox: str) -> None:
    person = Person(Answer(True, lasting="always"))
    with server("127.0.0.1") as (port, _):
        with user.session(sandbox, mode="accept-edits", network="off", approve=person) as session:
            assert called(session, fetch(port)).text == "hello"
        rules = load(str(user.work), os.environ, str(user.state))
        with user.session(sandbox, mode="accept-edits", network="off", rules=rules) as session:
            assert called(session, fetch(port)).text == "hello"
    assert len(person.asked) == 1


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_network_rule_opens_the_network_without_a_question(user: User, sandbox: str) -> None:
    rules = [parse('rules = ["allow Network(service.example)"]', "policy.toml", "user")]
    with (
        user.session(sandbox, mode="accept-edits", network="off", rules=rules) as session,
        server("127.0.0.1") as (port, _),
    ):
        assert called(session, fetch(port)).text == "hello"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_neither_a_rule_nor_an_answer_for_another_command_opens_it_for_a_program_beside(
    user: User, sandbox: str
) -> None:
    """The network is opened for a whole command line: what was said of a part of it is not enough."""
    steal = "python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5)\""
    rules = [parse('rules = ["allow Network(service.example)"]', "policy.toml", "user")]
    person = Person(Answer(True, lasting="session"))
    with server("127.0.0.1") as (port, arrived):
        lines = [f"{fetch(port)}; {steal}", f"{steal} ; {fetch(port)}", f"{fetch(port)} | python3 -c 1; {steal}"]
        lines.append(f"export https_proxy=127.0.0.2:1; {fetch(port)}; ./x")
        with user.session(sandbox, mode="accept-edits", network="off", rules=rules) as session:
            for line in lines:
                called(session, line.format(port=port))
            assert arrived == []
            assert called(session, f"{fetch(port)} | head -n 1 | cat").text == "hello"
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
            assert called(session, fetch(port)).text == "hello"


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
        session.command_host().jobs.get(started.data["job"]).run.wait(60)
    assert (user.work / "got.txt").read_text(encoding="utf-8") == "hello\n"
