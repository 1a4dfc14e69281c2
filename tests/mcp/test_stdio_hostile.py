"""The stdio door under clients and machines that behave badly: nothing hangs, nothing is lost, nothing is mixed up."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import AnySession, Session
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.mcp.stdio.channel import Channel
from handrail.mcp.workers import CallThreads
from tests.command import TIMEOUT, surroundings
from tests.mcp.stdio_client import HANDRAIL, RawClient, text_of


def hello(id: int) -> bytes:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}).encode() + b"\n"


@contextlib.contextmanager
def silent_client(root: Path, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server whose answers nobody takes unless the test does."""
    given = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    with subprocess.Popen([*HANDRAIL, "mcp"], cwd=root, env=surroundings(), **given) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_signal_ends_it_although_nobody_reads_its_answers(tmp_path: Path) -> None:
    with silent_client(tmp_path) as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(hello(1))
        listing = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).encode() + b"\n"
        process.stdin.write(listing * 40)  # far more than a pipe holds
        process.stdin.flush()
        process.stdout.read(1)  # it has begun to answer
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT) == 0
        assert process.stderr.read() == b""


def test_frames_come_whole_through_a_pipe_that_is_read_slowly() -> None:
    ours, theirs = os.pipe()
    nothing, end = os.pipe()
    channel = Channel(nothing, theirs)
    message = {"text": "x" * 300_000}
    sender = threading.Thread(target=lambda: [channel.send(message) for _ in range(3)])
    sender.start()
    with open(ours, "rb", buffering=0) as reader:
        got = b""
        while got.count(b"\n") < 3:
            got += reader.read(1000)
    sender.join(TIMEOUT)
    assert [json.loads(line) for line in got.splitlines()] == [message] * 3
    for fd in (theirs, nothing, end):
        os.close(fd)


@pytest.mark.parametrize("expected", [os.pipe, lambda: [end.detach() for end in socket.socketpair()]])
def test_it_is_noticed_that_nobody_reads_any_more(expected: Callable[[], tuple[int, int]]) -> None:
    ours, theirs = expected()  # some clients connect a server by pipes, others by sockets
    nothing, end = os.pipe()
    channel = Channel(nothing, theirs)
    assert channel.is_read()
    os.close(ours)
    assert not channel.is_read()
    for fd in (theirs, nothing, end):
        os.close(fd)


def test_a_client_that_hands_on_thousands_of_descriptors_is_served() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 3000:
        pytest.skip("this system allows fewer open files than the test needs")
    ours, theirs = os.pipe()
    high = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 2000)
    os.write(theirs, b"one\ntwo\n")
    os.close(theirs)
    assert list(Channel(high, 2).frames()) == [b"one", b"two"]
    os.close(ours)
    os.close(high)


def test_calls_are_refused_and_not_lost_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    crew, done = CallThreads(), threading.Event()

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        assert crew.start(done.set) is False
    assert not done.is_set()
    assert crew.start(done.set) is True
    assert done.wait(TIMEOUT) and crew.close(TIMEOUT)


def test_a_session_that_is_slow_to_open_holds_up_no_other(make_session: Callable[..., Session]) -> None:
    gate, begun, fast = threading.Event(), threading.Event(), make_session()
    slow_one = make_session()

    def opened() -> Session:
        if threading.current_thread().name == "slow":
            begun.set()
            gate.wait(TIMEOUT)
            return slow_one
        return fast

    sessions = Sessions(opened)
    collected: list[AnySession] = []

    def use() -> None:
        with sessions.use("slow") as session:
            collected.append(session)

    slow = threading.Thread(target=use, name="slow")
    slow.start()
    assert begun.wait(TIMEOUT)
    with sessions.use("fast") as session:
        assert session is fast
    gate.set()
    slow.join(TIMEOUT)
    assert collected == [slow_one]
    sessions.close()


def test_a_session_that_cannot_be_opened_is_tried_again(make_session: Callable[..., Session]) -> None:
    tries: list[str] = []

    def opened() -> Session:
        tries.append("")
        if len(tries) == 1:
            raise CannotOpen("not now")
        return make_session()

    sessions = Sessions(opened)
    with pytest.raises(CannotOpen), sessions.use("a"):
        pass
    with sessions.use("a") as session:
        assert session.call("LS", {"path": "."}).ok
    sessions.close()


def test_conversations_with_long_names_are_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    first, second = ({"threadId": "t" * 5000 + end} for end in "ab")
    with RawClient("--mode", "full", cwd=tmp_path) as client:
        client.shake()
        client.call("Read", first, file_path="a.txt")
        assert client.call("Write", second, file_path="a.txt", content="2\n")["isError"] is True
        assert client.call("Write", first, file_path="a.txt", content="1\n")["isError"] is False


def test_a_progress_token_that_is_none_is_not_used(tmp_path: Path) -> None:
    with RawClient("--mode", "full", cwd=tmp_path) as client:
        client.shake()
        for token in ({"a": 1}, ["x"], True, 1.5):
            params = {"name": "Bash", "arguments": {"command": "sleep 1.8"}, "_meta": {"progressToken": token}}
            last = client.begin("tools/call", **params)
        assert client.answer_to(last)["result"]["isError"] is False
        assert not any("method" in message for message in client.aside)


def test_a_workspace_that_is_gone_is_told_in_words(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with RawClient(str(root), cwd=tmp_path) as client:
        client.shake()
        assert client.call("LS", path=".")["isError"] is False
        shutil.rmtree(root)
        for meta in (None, {"threadId": "another"}):
            result = client.call("LS", meta, path=".")
            assert result["isError"] is True and "root" in text_of(result)
        assert client.end()[1].count("Traceback") == 0
