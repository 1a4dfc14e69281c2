"""`handrail --at URL COMMAND` through stand-ins for docker and kubectl, which run the command on this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from tests.command import handrail
from tests.docs.pages import blocks_of

STAND_IN = """#!/bin/sh
echo "$@" >> {log}
[ "$1" != -T ] || eval "set -- $6"  # ssh: the far shell splits the command
while [ "$1" != handrail ]; do shift; done
shift
exec {python} -m handrail "$@"
"""


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs `docker` and `kubectl`, first on the search path; returns the log of their words."""
    folder, log = tmp_path / "bin", tmp_path / "log"
    folder.mkdir()
    for name in ("docker", "kubectl", "ssh"):
        (folder / name).write_text(STAND_IN.format(log=log, python=sys.executable))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    return log


def test_the_example_of_the_page(stand_ins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [one for one in blocks_of("python") if one.page == "fleet.md" and "ssh://" in one.text]
    (tmp_path / "work" / "README.md").write_text("# App\n")
    exec(block.text.replace("/srv/app", f"{tmp_path}/work"), {})
    assert capsys.readouterr().out == "     1\t# App\n"
    assert stand_ins.read_text().startswith("-T -o BatchMode=yes -- build-host exec handrail serve")


def test_batch_in_a_container(stand_ins: Path, tmp_path: Path) -> None:
    lines = [
        {"id": 1, "tool": "Read", "arguments": {"file_path": "a.txt"}},
        {"id": 2, "tool": "Edit", "arguments": {"file_path": "a.txt", "old_string": "one", "new_string": "1"}},
    ]
    stdin = "".join(json.dumps(line) + "\n" for line in lines).encode()
    done = handrail("--at", f"docker://box{tmp_path}/work", "batch", cwd=tmp_path, stdin=stdin)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["id"], one["status"]) for one in answers] == [(1, "ok"), (2, "ok")], done.stderr
    assert (tmp_path / "work" / "a.txt").read_text() == "1\n"
    assert stand_ins.read_text().startswith("exec -i box handrail serve --stdio --mode accept-edits -- ")


def test_a_call_in_a_pod_and_a_path_that_is_not_there(stand_ins: Path, tmp_path: Path) -> None:
    at = f"kubectl://team/pod-1{tmp_path}"
    done = handrail(f"--at={at}/work", "call", "Read", "file_path=a.txt", cwd=tmp_path)
    assert done.stdout == b"     1\tone\n", done.stderr
    assert stand_ins.read_text().startswith("exec -i -n team pod-1 -- handrail serve")
    gone = handrail("--at", f"{at}/none", "call", "Read", "file_path=a.txt", cwd=tmp_path)
    assert gone.returncode == 1
    assert b"none does not exist" in gone.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--at"], b"needs a URL"),
        (["--at", "docker://box/srv"], b"needs a URL and a command"),
        (["--at", "docker://box/srv", "undo"], b"it works with call"),
        (["--at", "box:/srv", "call", "Read"], b"not the address"),
        (["--at", "docker://box/srv", "call", "Read", "-w", "/tmp"], b"-w is for this machine"),
        (["--at", "docker://box/srv", "mcp", "--draft", "d"], b"--draft is for this machine"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: list[str], reason: bytes) -> None:
    done = handrail(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
