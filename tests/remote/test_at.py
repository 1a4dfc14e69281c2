"""`handrail --at URL COMMAND` through stand-ins for docker and kubectl, which run the command on this machine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pexpect
import pytest
from starlette.testclient import TestClient

from handrail.web.access import PageAccess
from handrail.web.remote_pages import RemotePages
from handrail_demo.scripted_server import Line, ScriptedServer, in_order
from tests.command import HANDRAIL, TIMEOUT, handrail, surroundings
from tests.docs.pages import blocks_of
from tests.forked import as_fork
from tests.mcp.stdio_client import RawClient
from tests.remote.conftest import Connect
from tests.remote.test_kept_answers import kill_server
from tests.terminal import spawn_in_terminal

STAND_IN = """#!/bin/sh
echo "$@" >> {log}
[ "$1" != -T ] || eval "set -- $6"  # ssh: the far shell splits the command
[ "$2" = sh ] && shift && exec "$@"
while [ "$1" != handrail ]; do shift; done
shift
exec {python} -m handrail "$@"
"""


@pytest.fixture
def stand_ins(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with programs `docker` and `kubectl`, first on the search path; returns the log of their words."""
    folder, log = tmp_path_factory.mktemp("bin"), tmp_path / "log"  # those of the current directory are not started
    for name in ("docker", "kubectl", "ssh"):
        (folder / name).write_text(STAND_IN.format(log=log, python=sys.executable))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (folder / "handrail").write_text(f'#!/bin/sh\nexec {sys.executable} -m handrail "$@"\n')
    (folder / "handrail").chmod(0o755)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    return log


def test_the_example_of_the_page(stand_ins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = [one for one in blocks_of("python") if one.page == "fleet.md" and "ssh://" in one.text]
    (tmp_path / "work" / "README.md").write_text("# App\n")
    exec(block.text.replace("/srv/app", f"{tmp_path}/work"), {})
    assert capsys.readouterr().out == "1\t# App\n"
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
    assert done.stdout == b"1\tone\n", done.stderr
    assert stand_ins.read_text().startswith("exec -i -n team pod-1 -- handrail serve")
    gone = handrail("--at", f"{at}/none", "call", "Read", "file_path=a.txt", cwd=tmp_path)
    assert gone.returncode == 1
    assert b"none does not exist" in gone.stderr


def test_what_was_changed_over_ssh_is_undone_and_redone_over_ssh(stand_ins: Path, tmp_path: Path) -> None:
    at, file = ["--at", f"ssh://build-host{tmp_path}/work"], tmp_path / "work" / "a.txt"
    words = ["--read-first", "file_path=a.txt", "old_string=one", "new_string=1"]
    assert handrail(*at, "call", "--mode", "accept-edits", "Edit", *words, cwd=tmp_path).returncode == 0
    for more, left in ((["undo", "--dry-run"], "1\n"), (["undo", "--file", "a.txt"], "one\n"), (["redo"], "1\n")):
        done = handrail(*at, *more, cwd=tmp_path)
        assert (done.returncode, file.read_text()) == (0, left), done.stderr
        assert str(file).encode() in done.stdout
    assert handrail(*at, "undo", cwd=tmp_path).returncode == 0
    nothing = handrail(*at, "undo", cwd=tmp_path)
    assert nothing.returncode == 2 and b"there is nothing to undo" in nothing.stderr


def test_log_show_diff_draft_try_and_doctor_work_on_another_machine(stand_ins: Path, tmp_path: Path) -> None:
    at = ["--at", f"ssh://build-host{tmp_path}/work"]
    words = ["--read-first", "file_path=a.txt", "old_string=one", "new_string=1"]
    assert handrail(*at, "call", "--mode", "accept-edits", "Edit", *words, cwd=tmp_path).returncode == 0

    def run(*words: str) -> str:
        done = subprocess.run(
            [*HANDRAIL, *at, *words],
            cwd=tmp_path,
            env=surroundings({}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "Edit" in run("log")
    number = json.loads(run("log", "--json").splitlines()[-1])["seq"]
    assert run("show", str(number), "a.txt") == "1\n"
    assert "-one" in run("diff", f"{number - 1}..{number}")
    assert json.loads(run("doctor", "--json"))["purposes"]
    assert isinstance(json.loads(run("draft", "list", "--json") or "[]"), list | dict)
    assert "a.txt" in run("try", "--drop", "cat a.txt; echo a.txt")


def test_an_mcp_client_works_on_another_machine(stand_ins: Path, tmp_path: Path) -> None:
    at = f"ssh://build-host{tmp_path}/work"
    with RawClient("--dialect", "claude", cwd=tmp_path, at=at) as client:
        about = client.shake()
        assert at in about["instructions"]
        names = [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]]
        assert {"Read", "Edit"} <= set(names)
        path = str(tmp_path / "work" / "a.txt")
        assert "one" in client.call("Read", file_path=path)["content"][0]["text"]
        assert not client.call("Edit", file_path=path, old_string="one", new_string="1").get("isError")
    assert (tmp_path / "work" / "a.txt").read_text() == "1\n"
    assert "build-host" in stand_ins.read_text()


def test_an_mcp_server_reports_a_machine_that_cannot_be_reached(stand_ins: Path, tmp_path: Path) -> None:
    with RawClient(cwd=tmp_path, at=f"docker://box{tmp_path}/none") as client:
        client.shake()
        answer = client.ask("tools/call", name="Read", arguments={"file_path": "a.txt"})
        assert "cannot connect to docker://box" in json.dumps(answer)


READ = ("Read", {"file_path": "a.txt"})
EDIT = ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})


def test_a_task_is_done_on_another_machine(stand_ins: Path, tmp_path: Path) -> None:
    at = f"kubectl://team/pod-1{tmp_path}/work"
    with ScriptedServer(in_order([Line("", [READ]), Line("", [EDIT]), Line("Both are done.")])) as server:
        done = handrail(
            *("--at", at, "run", "finish it", "--model", "scripted", "--mode", "accept-edits"),
            cwd=tmp_path,
            variables={"OPENAI_BASE_URL": server.url},
        )
        assert str(tmp_path / "work") in str(server.requests[0].body)  # the model knows where it works
    assert (done.returncode, done.stdout) == (0, b"Both are done.\n"), done.stderr
    assert (tmp_path / "work" / "a.txt").read_text() == "1\n"


def test_a_chat_about_another_machine(stand_ins: Path, tmp_path: Path) -> None:
    words = ["--at", f"docker://box{tmp_path}/work", "chat", "--model", "scripted"]
    with ScriptedServer(in_order([Line("", [READ]), Line("", [EDIT]), Line("All done.")])) as server:
        command, env = [*HANDRAIL, *words], surroundings({"OPENAI_BASE_URL": server.url})
        child = spawn_in_terminal(command, cwd=tmp_path, env=env, dimensions=(40, 160))
        try:
            child.send("finish it\r")
            child.expect_exact("[y]es")
            assert (tmp_path / "work" / "a.txt").read_text() == "one\n"
            child.send("y")
            child.expect_exact("All done.")
            assert (tmp_path / "work" / "a.txt").read_text() == "1\n"
            child.send("!ls\r")
            child.expect_exact("commands of your own")
            child.send("/undo\r")
            child.expect_exact("reverted")
            assert (tmp_path / "work" / "a.txt").read_text() == "one\n"
            child.send("/quit\r")
            child.expect(pexpect.EOF)
        finally:
            child.close(force=True)


class Browser:
    """The pages of another machine, as the browser of this one gets them."""

    def __init__(self, session: Any) -> None:
        self._closing = threading.Event()
        app = PageAccess(RemotePages(session, self._closing), 8790, "token", lambda *_: False)
        self.client = TestClient(app, base_url="http://127.0.0.1:8790", headers={"Origin": "http://127.0.0.1:8790"})
        assert self.client.get("/", params={"token": "token"}).status_code == 200


def test_pages_of_another_machine(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    session = connect()
    session.call(*READ)
    assert session.call(*EDIT).ok
    client = Browser(session).client
    page = client.get("/")
    assert "Edit" in page.text
    assert page.headers["content-security-policy"]
    number = max(map(int, re.findall(r"/calls/(\d+)", page.text)))
    assert "+1" in client.get(f"/calls/{number}").text
    assert client.get("/static/none.js").status_code == 404
    assert client.post(f"/calls/{number}/undo").status_code < 400
    assert (tmp_path / "a.txt").read_text() == "one\n"
    kill_server(session)
    assert client.get("/").status_code in (200, 502)  # 502: it was killed before this side noticed
    assert client.get("/").status_code == 200


def test_pages_need_a_server_in_mode_full(connect: Connect, serve: list[str]) -> None:
    words = ["read-only" if word == "full" else word for word in serve]
    session: Any = connect(words)
    with pytest.raises(ValueError, match="mode full"):
        session.request("pages")
    with pytest.raises(ValueError, match="read-only"):
        session.undo()


def test_the_web_command_serves_them_and_ends_with_a_signal(stand_ins: Path, tmp_path: Path) -> None:
    command, env = [*HANDRAIL, "--at", f"docker://box{tmp_path}/work", "web", "--no-open"], surroundings()
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, env=env, preexec_fn=as_fork(command, env)
    ) as process:
        assert process.stdout
        try:
            address = process.stdout.readline().decode().split()[1]
            with httpx.Client(follow_redirects=True) as client:
                assert "<title>Timeline" in client.get(address).text
                with client.stream("GET", address.partition("?")[0] + "events?since=0") as stream:
                    lines = stream.iter_lines()
                    assert next(lines) == "event: questions"
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(TIMEOUT) == 0
        finally:
            process.kill()  # a check that fails must not wait for a server that nobody ends


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--at"], b"needs a URL"),
        (["--at", "docker://box/srv"], b"needs a URL and a command"),
        (["--at", "docker://box/srv", "config"], b"it works with call"),
        (["--at", "docker://box/srv", "undo", "-w", "/tmp"], b"-w is for this machine"),
        (["--at", "box:/srv", "call", "Read"], b"not the address"),
        (["--at", "docker://box/srv", "call", "Read", "-w", "/tmp"], b"-w is for this machine"),
        (["--at", "docker://box/srv", "web", "--journal", "x"], b"--journal is for this machine"),
        (["--at", "docker://box/srv", "mcp", "--draft", "d"], b"--draft is for this machine"),
    ],
)
def test_wrong_usage(tmp_path: Path, words: list[str], reason: bytes) -> None:
    done = handrail(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
