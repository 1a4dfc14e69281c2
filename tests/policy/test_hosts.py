"""Rules about hosts and the commands that reach them: refusing is wide, allowing is narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings, Setup
from handrail.policy.files import parse

_RULES = 'rules = ["allow Bash", "allow Network(*.example.org)", "deny Network(bad.example.org)"]'


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    rules = [parse(_RULES, "policy.toml", "user")]
    with Session(tmp_path, mode="ask", setup=Setup(rules=rules), settings=Settings(sandbox="off")) as result:
        yield result


@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("curl https://a.example.org/x", "allow"),
        ("curl -sSf -o out.txt 'https://a.example.org/x?y=z'", "allow"),
        ("curl https://a.example.org https://b.example.org:8080/", "allow"),
        ("wget -q --max-redirect=0 https://a.example.org/x", "allow"),
        ("curl a.example.org:8080/x", "allow"),
        ("ssh ann@a.example.org ls", "allow"),
        ("scp notes.txt ann@a.example.org:", "allow"),
        ("rsync -av notes.txt a.example.org:notes/", "allow"),
        # A redirection leads elsewhere.
        ("curl -L https://a.example.org/x", "ask"),
        ("wget -q https://a.example.org/x", "ask"),
        # Another host, or a way to one.
        ("curl https://a.example.org https://evil.test/", "ask"),
        ("curl -x evil.test https://a.example.org/", "ask"),
        ("curl --connect-to ::evil.test: https://a.example.org/", "ask"),
        ("curl -K more https://a.example.org/", "ask"),
        ("curl -o", "ask"),
        ("curl https://a.example.org@evil.test/", "ask"),
        ("curl https://evil.test#.example.org", "ask"),
        ("curl 'https://evil.test\\.example.org/'", "ask"),
        ("curl 'https://{evil.test,a.example.org}/'", "ask"),
        ("curl https://$host.example.org/", "ask"),
        ("curl evil.test a.example.org", "ask"),
        ("nc evil.test 80 a.example.org", "ask"),
        ("wget -i list.example.org", "ask"),
        ("https_proxy=evil.test curl https://a.example.org/", "ask"),
        ("env https_proxy=evil.test curl https://a.example.org/", "ask"),
        ("git push https://a.example.org/x", "ask"),
        # A refusal finds the host in any position.
        ("curl https://bad.example.org/x", "deny"),
        ("curl -x bad.example.org https://a.example.org/", "deny"),
        ("git clone git@bad.example.org:x/y", "deny"),
        ("ssh ann@bad.example.org", "deny"),
        ("bash -c 'curl https://bad.example.org'", "deny"),
        ("nc bad.example.org 80", "deny"),
        ("cat </dev/tcp/bad.example.org/80", "deny"),
        ("curl https://'bad.example'.org/", "deny"),
    ],
)
def test_what_is_said_of_a_command_by_the_hosts_in_it(session: Session, command: str, decision: str) -> None:
    accesses = [
        access for access in session.prepare("Bash", {"command": command}).accesses if access.action == "network"
    ]
    assert accesses, "its use of the network is not seen"
    assert session.policy.judge(accesses).decision == decision


@pytest.mark.parametrize(
    "command", ["pip install requests", "git push", "curl https://other.test/x", "ssh other.test ls"]
)
def test_an_answer_for_good_is_read_back_for_that_command_alone(tmp_path: Path, command: str) -> None:
    settings = Settings(sandbox="off")
    with Session(tmp_path, mode="ask", settings=settings) as session:
        accesses = [
            access for access in session.prepare("Bash", {"command": command}).accesses if access.action == "network"
        ]
        line = session.policy.judge(accesses).allow
    rules = [parse(f"rules = [{line!r}]", "approved.toml", "user")]
    with Session(tmp_path, mode="ask", setup=Setup(rules=rules), settings=settings) as session:
        assert session.policy.judge(accesses).decision == "allow"
        other = session.prepare("Bash", {"command": "ssh elsewhere.test ls"}).accesses
        assert session.policy.judge([access for access in other if access.action == "network"]).decision == "ask"
