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
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.approval import attached, messages, unix_socket
from handrail.approval.server import Desk, Incoming
from handrail.pipeline.prepared import Answer, Prepared
from tests.command import TIMEOUT


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)), encoding="utf-8")
    return root


def test_one_that_gives_no_sign_of_life_any_more_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached, "SILENCE", 0.2)
    ours, theirs = map(unix_socket.Line, socket.socketpair())
    found = [ours]
    assert attached.first(found, {"files": []}, threading.Event()) is None
    assert found == []
    with pytest.raises(unix_socket.Broken):
        theirs.wait(TIMEOUT)
    theirs.close()


def test_the_kernel_says_who_is_on_the_other_side(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert unix_socket.peer(ours) == os.getpid()
        uid = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: uid + 1)
        with pytest.raises(unix_socket.Broken):
            unix_socket.peer(ours)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user_is_turned_away(tmp_path: Path) -> None:
    with Desk(str(tmp_path), None):
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
        b'{"ask": {"tool": 1}}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
    ],
)
def test_what_is_no_question_is_hung_up_on_and_the_next_is_taken(tmp_path: Path, frame: bytes) -> None:
    with Desk(str(tmp_path), None) as desk:
        for sent in (frame, frame):
            (connection,) = unix_socket.listening(str(tmp_path))
            with connection:
                connection.setblocking(True)
                connection.settimeout(TIMEOUT)
                assert json.loads(connection.recv(1000))["handrail"] == unix_socket.VERSION
                connection.sendall(sent)
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionResetError):  # hung up on in the middle of what was sent
                    assert connection.recv(1) == b""
        assert desk.questions.empty()


def test_a_line_that_never_ends_is_not_kept(tmp_path: Path) -> None:
    with Desk(str(tmp_path), None):
        (connection,) = unix_socket.listening(str(tmp_path))
        with connection:
            connection.setblocking(True)
            connection.settimeout(TIMEOUT)
            line = b"x" * (unix_socket.MOST_BYTES + (8 << 20))
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
    with pytest.raises(unix_socket.Broken):
        messages.answered(value, {"files": []})


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
    ours, theirs = map(unix_socket.Line, socket.socketpair())
    ours.send(messages.answer(answer))
    asked = {"files": [{"path": "a", "parts": True, "text": "x"}]}
    assert messages.answered(theirs.wait(TIMEOUT), asked) == answer
    ours.close()
    theirs.close()


def test_a_state_directory_with_a_long_name_can_be_listened_in(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    with Desk(str(deep), None):
        (connection,) = unix_socket.listening(str(deep))
        connection.close()


@pytest.mark.parametrize("answer", [Answer(True, hunks={"b": []}), Answer(True, contents={"b": "x"})])
@pytest.mark.parametrize("files", [[], [{"path": "b", "parts": False, "text": ""}]])
def test_an_answer_about_what_was_not_asked_is_none(answer: Answer, files: list[dict[str, Any]]) -> None:
    with pytest.raises(unix_socket.Broken):
        messages.answered(messages.answer(answer), {"files": files})


def carried(prepared: Prepared) -> tuple[messages.Question, int]:
    """A question as it arrives, and its size on the way."""
    sent = messages.question(prepared, "/project")
    size = len(json.dumps(sent, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return messages.asked(json.loads(json.dumps(sent))), size


def test_a_small_change_arrives_whole(make_session: Callable[..., Session], project: Path) -> None:
    session = make_session(project, mode="ask")
    session.call("Read", {"file_path": "a.txt"})
    edit = {"file_path": "a.txt", "old_string": "line 3\n", "new_string": "three\n"}
    prepared = session.prepare("Edit", edit)
    question, _ = carried(prepared)
    (there,), (here,) = question.prepared.proposed(), prepared.proposed()
    assert (there.path, list(there.hunks), there.text, there.parts) == (here.path, here.hunks, here.text, here.parts)
    assert question.prepared.call.arguments == edit and question.prepared.verdict == prepared.verdict
    assert not question.shortened


def test_a_huge_diff_is_bounded_and_what_is_missing_is_said(
    make_session: Callable[..., Session], project: Path
) -> None:
    session = make_session(project, mode="ask")
    line = "\x01" * 5000
    content = "".join(f"{number} {line}\n" for number in range(5_000))
    question, size = carried(session.prepare("Write", {"file_path": "big.txt", "content": content}))
    (one,) = question.prepared.proposed()
    assert size < unix_socket.MOST_BYTES
    assert any("big.txt" in missing for missing in question.shortened)
    assert not one.text and not one.parts and one.hunks[-1].left_out
    assert question.prepared.call.arguments == {}


def test_a_long_line_is_cut_once_and_says_how_much_is_missing(
    make_session: Callable[..., Session], project: Path
) -> None:
    from handrail.text.diff import format_unified

    session = make_session(project, mode="ask")
    question, _ = carried(session.prepare("Write", {"file_path": "long.txt", "content": "x" * 10_000 + "\n"}))
    (one,) = question.prepared.proposed()
    shown = format_unified(one.path, one.hunks)
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
    assert question.prepared.accesses[0].target == command


def test_a_very_long_command_is_cut_and_cannot_be_changed(make_session: Callable[..., Session], project: Path) -> None:
    session = make_session(project, mode="ask")
    command = "echo " + "x" * 300_000 + " > f"
    question, size = carried(session.prepare("Bash", {"command": command}))
    assert size < 2_000_000 and any("characters" in missing for missing in question.shortened)
    assert question.prepared.args.command is None  # type: ignore[attr-defined]


def test_answers_to_many_questions_at_once_find_their_way(tmp_path: Path) -> None:
    """Twenty processes would be slow: twenty connections, one of them taken back."""
    value = {
        "tool": "T",
        "arguments": None,
        "command": None,
        "touches": [],
        "verdict": {**dict.fromkeys(("rule", "why", "source", "allow"), ""), "decision": "ask"},
        "files": [],
        "shortened": [],
    }
    with Desk(str(tmp_path), None) as desk:
        lines = []
        for number in range(20):
            (connection,) = unix_socket.listening(str(tmp_path))
            line = unix_socket.Line(connection)
            line.wait(TIMEOUT)
            line.send({"ask": {**value, "workspace": str(number)}})
            lines.append(line)
        taken: list[Incoming] = [desk.questions.get(timeout=TIMEOUT) for _ in lines]
        lines[7].close()
        for incoming in taken:
            number = int(incoming.question.workspace)
            if number == 7:
                assert unix_socket.ready(incoming.fileno(), TIMEOUT) and incoming.over
                assert not incoming.answer(Answer(True))
            else:
                assert incoming.answer(Answer(False, str(number)))
            incoming.close()
        for number, line in enumerate(lines):
            if number != 7:
                assert messages.answered(line.wait(TIMEOUT)["answer"], value).reason == str(number)
                line.close()
