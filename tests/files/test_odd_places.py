"""The command where its directories have odd names: spaces, quotes, other scripts, and paths longer than a socket's."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pexpect
import pytest

from tests.command import TIMEOUT, handrail, surroundings

ODD = ["with spaces", 'it\'s "quoted" $HOME `x` *', "línea 文件", "-n", "x" * 120]


@pytest.fixture(params=ODD, ids=["spaces", "quotes", "letters", "dash", "long"])
def odd(tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables of a user whose directories are all called so; the project is `work`."""
    place = tmp_path / request.param
    for name in ("tmp", "state", "work", "config"):
        (place / name).mkdir(parents=True)
    return {
        "TMPDIR": str(place / "tmp"),
        "HANDRAIL_STATE": str(place / "state"),
        "XDG_CONFIG_HOME": str(place / "config"),
        "HOME": str(place / "missing"),
        "work": str(place / "work"),
    }


def test_calls_work_there(odd: dict[str, str]) -> None:
    work = Path(odd.pop("work"))
    lines = [
        {"id": 1, "tool": "Write", "arguments": {"file_path": "a.txt", "content": "one\n"}},
        {"id": 2, "tool": "Edit", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "two"}},
        {"id": 3, "tool": "Grep", "arguments": {"pattern": "two"}},
        {
            "id": 4,
            "tool": "Bash",
            "arguments": {"command": "cat a.txt; mktemp > /dev/null && echo in; pwd"},
        },
    ]
    sent = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = handrail("batch", "--mode", "full", cwd=work, stdin=sent, variables=odd)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["status"] for answer in answers] == ["ok"] * 4, (answers, done.stderr)
    assert answers[3]["text"] == f"two\nin\n{os.path.realpath(work)}"


def test_a_person_can_be_asked_there(odd: dict[str, str]) -> None:
    work = odd.pop("work")
    asked = pexpect.spawn(
        sys.executable,
        ["-m", "handrail", "approve"],
        cwd=work,
        env=surroundings(odd),
        encoding="utf-8",
        timeout=TIMEOUT,
        dimensions=(40, 250),
    )
    asked.delaybeforesend = None
    asked.expect("Ctrl-C detaches")
    line = json.dumps({"tool": "Write", "arguments": {"file_path": "b.txt", "content": "x\n"}}).encode() + b"\n"
    caller = pexpect.spawn(
        "/bin/sh",
        ["-c", 'printf "%s" "$1" | "$2" -m handrail batch --mode ask', "sh", line.decode(), sys.executable],
        cwd=work,
        env=surroundings(odd),
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    asked.expect(r"\[y\]es")
    asked.send("y")
    caller.expect(pexpect.EOF)
    asked.sendintr()
    asked.expect(pexpect.EOF)
    assert Path(work, "b.txt").read_text(encoding="utf-8") == "x\n"
