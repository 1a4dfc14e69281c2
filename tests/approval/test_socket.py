"""What goes between the process that asks and the terminal that answers: with whom, in which shape, and how much."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Prepared, Session
from handrail.approval import ask_attached, json_socket
from handrail.approval.attached_terminal import ApprovalServer, IncomingQuestion
from handrail.approval.shorten import shorten
from handrail.model import Answer, Call, FileDiff, Question, Verdict
from handrail.pipeline.question import ask_about
from tests.command import TIMEOUT

NOTHING = Question(Call("T", {}), (), Verdict("ask"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)), encoding="utf-8")
    return root


def test_one_that_gives_no_sign_of_life_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask_attached, "SILENCE", 0.2)
    ours, theirs = map(json_socket.JsonSocket, socket.socketpair())
    actual = [ours]
    assert ask_attached.wait_for_answer(actual, NOTHING, threading.Event()) is None
    assert actual == []
    with pytest.raises(json_socket.Disconnected):
        theirs.wait(TIMEOUT)
    theirs.close()


def test_the_kernel_says_who_is_on_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert json_socket.get_peer(ours) == os.getpid()
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        with pytest.raises(json_socket.Disconnected):
            json_socket.get_peer(ours)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_turned_away(tmp_path: Path) -> None:
    with ApprovalServer(str(tmp_path), None):
        place = tmp_path / "approvers"
        (path,) = place.iterdir()
        # The mode bits would keep it out already: they are opened, so that only the kernel's word counts.
        place.chmod(0o777)
        path.chmod(0o777)
        code = (
            "import os, socket, sys; os.chdir(sys.argv[1]); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
            "s.connect(sys.argv[2]); print(s.recv(100))"
        )
        words = [sys.executable, "-c", code, str(place), path.name]
        ended = subprocess.run(words, capture_output=True, timeout=TIMEOUT)
    assert ended.stdout == b"b''\n", ended.stderr


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\n",
        b"[]\n",
        b"nonsense\n",
        b'{"ask": 1}\n',
        b'{"ask": {"call": {"tool": 1}}}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_question_is_hung_up_on_and_the_next_is_taken(tmp_path: Path, frame: bytes) -> None:
    with ApprovalServer(str(tmp_path), None) as server:
        for sent in (frame, frame):
            (connection,) = json_socket.connect_to_listeners(str(tmp_path))
            with connection:
                connection.setblocking(True)
                connection.settimeout(TIMEOUT)
                assert json.loads(connection.recv(1000))["handrail"] == json_socket.VERSION
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):  # hung up on in the middle of what was sent
                    assert connection.recv(1) == b""
        assert server.questions.empty()


def test_a_line_that_never_ends_is_not_kept(tmp_path: Path) -> None:
    with ApprovalServer(str(tmp_path), None):
        (connection,) = json_socket.connect_to_listeners(str(tmp_path))
        with connection:
            connection.setblocking(True)
            connection.settimeout(TIMEOUT)
            line = b"x" * (json_socket.MOST_BYTES + (8 << 20))
            with pytest.raises((BrokenPipeError, ConnectionResetError)):
                connection.sendall(line)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        {},
        {"yes": True},
        {"yes": 1, "reason": "", "lasting": "once", "hunks": None, "contents": None, "arguments": None},
        {"yes": True, "reason": "", "lasting": "ever", "hunks": None, "contents": None, "arguments": None},
        {"yes": True, "reason": "", "lasting": "once", "hunks": {"a": ["0"]}, "contents": None, "arguments": None},
        {"yes": True, "reason": "", "lasting": "once", "hunks": None, "contents": {"a": 1}, "arguments": None},
        {"yes": True, "reason": "", "lasting": "once", "hunks": None, "contents": None, "arguments": []},
    ],
)
def test_what_has_not_the_shape_of_an_answer_is_no_yes(value: Any) -> None:
    with pytest.raises(json_socket.Disconnected):
        ask_attached.read_answer(value, NOTHING)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(True),
        Answer(False, "no \udcff"),
        Answer(True, lasting="always", hunks={"a": [0, 2]}, contents={"a": "x\r\n\udc80"}),
        Answer(True, arguments={"command": ["bash", "-c", "ls"]}),
    ],
)
def test_an_answer_arrives_as_it_was_given(answer: Answer) -> None:
    ours, theirs = map(json_socket.JsonSocket, socket.socketpair())
    ours.send(answer.as_json())
    question = replace(NOTHING, files=(FileDiff("a", selectable=True, editable=True),))
    assert ask_attached.read_answer(theirs.wait(TIMEOUT), question) == answer
    ours.close()
    theirs.close()


def test_a_state_directory_with_a_long_name_can_be_listened_in(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with ApprovalServer(str(deep), None):
        (connection,) = json_socket.connect_to_listeners(str(deep))
        connection.close()


@pytest.mark.parametrize("answer", [Answer(True, hunks={"b": []}), Answer(True, contents={"b": "x"})])
@pytest.mark.parametrize("files", [(), (FileDiff("b"),)])
def test_an_answer_about_what_was_not_asked_is_none(answer: Answer, files: tuple[FileDiff, ...]) -> None:
    with pytest.raises(json_socket.Disconnected):
        ask_attached.read_answer(answer.as_json(), replace(NOTHING, files=files))


def carried(prepared: Prepared) -> tuple[Question, int]:
    """A question as it arrives, and its size on the way."""
    proposed = prepared.proposed()
    sent = shorten(ask_about(prepared, proposed, workspace="/project")).as_json()
    size = len(json.dumps(sent, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return Question.from_json(json.loads(json.dumps(sent))), size


def test_a_small_change_arrives_whole(make_session: Callable[..., Session], project: Path) -> None:
    session = make_session(project, mode="ask")
    session.call("Read", {"file_path": "a.txt"})
    edit = {"file_path": "a.txt", "old_string": "line 3\n", "new_string": "three\n"}
    prepared = session.prepare("Edit", edit)
    question, _ = carried(prepared)
    assert question == ask_about(prepared, prepared.proposed(), workspace="/project")
    assert question.preview() == prepared.preview() and not question.shortened
    assert question.files[0].selectable and question.files[0].editable


def test_a_huge_diff_is_bounded_and_what_is_missing_is_said(
    make_session: Callable[..., Session], project: Path
) -> None:
    session = make_session(project, mode="ask")
    line = "\x01" * 5000
    content = "".join(f"{number} {line}\n" for number in range(5_000))
    question, size = carried(session.prepare("Write", {"file_path": "big.txt", "content": content}))
    (one,) = question.files
    assert size < json_socket.MOST_BYTES
    assert any("big.txt" in missing for missing in question.shortened)
    assert one.after is None and not one.editable and not one.selectable and "not shown" in one.hunks[-1]
    assert question.call.arguments == {}


def test_a_long_line_is_cut_once_and_says_how_much_is_missing(
    make_session: Callable[..., Session], project: Path
) -> None:
    session = make_session(project, mode="ask")
    question, _ = carried(session.prepare("Write", {"file_path": "long.txt", "content": "x" * 10_000 + "\n"}))
    shown = question.preview()
    assert shown.count("characters more]") == 1
    (line,) = [line for line in shown.splitlines() if line.startswith("+x")]
    assert f"[{10_000 - line.count('x')} characters more]" in line


def test_a_command_with_very_many_effects_says_that_not_all_are_shown(
    make_session: Callable[..., Session], project: Path
) -> None:
    session = make_session(project, mode="ask")
    command = "touch " + " ".join(f"f{number}" for number in range(700))
    question, _ = carried(session.prepare("Bash", {"command": command}))
    assert any("effects" in missing for missing in question.shortened)
    assert question.accesses[0].target == command


def test_a_very_long_command_is_cut_and_cannot_be_changed(make_session: Callable[..., Session], project: Path) -> None:
    session = make_session(project, mode="ask")
    command = "echo " + "x" * 300_000 + " > f"
    question, size = carried(session.prepare("Bash", {"command": command}))
    assert size < 2_000_000 and any("characters" in missing for missing in question.shortened)
    assert not question.command_argument


def test_answers_to_many_questions_at_once_find_their_way(tmp_path: Path) -> None:
    """Twenty processes would be slow: twenty connections, one of them withdrawn."""
    with ApprovalServer(str(tmp_path), None) as server:
        lines = []
        for number in range(20):
            (connection,) = json_socket.connect_to_listeners(str(tmp_path))
            line = json_socket.JsonSocket(connection)
            line.wait(TIMEOUT)
            line.send({"ask": replace(NOTHING, workspace=str(number)).as_json()})
            lines.append(line)
        taken: list[IncomingQuestion] = [server.questions.get(timeout=TIMEOUT) for _ in lines]
        lines[7].close()
        for incoming in taken:
            number = int(incoming.question.workspace)
            if number == 7:
                assert json_socket.is_ready(incoming.fileno(), TIMEOUT) and incoming.over
                assert not incoming.answer(Answer(True))
            else:
                assert incoming.answer(Answer(False, str(number)))
            incoming.close()
        for number, line in enumerate(lines):
            if number != 7:
                assert ask_attached.read_answer(line.wait(TIMEOUT)["answer"], NOTHING).reason == str(number)
                line.close()
