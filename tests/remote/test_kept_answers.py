"""A call that is repeated has its effect once, wherever its server was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import AnySession, Session, SessionEvent, ToolOutput
from handrail.errors import CallCancelled, Interrupted
from handrail.model import Call
from handrail.pipeline.call_state import CallClock, Received
from handrail.pipeline.kept_answers import MOST_ANSWERS, ChangeMade, KeptAnswers, KeyGuard
from handrail.pipeline.remote_server import RemoteServer
from tests.command import TIMEOUT
from tests.drafts.machine import require_drafts
from tests.remote.conftest import Connect


class Killed(BaseException):
    """Stands for the end of the server at this moment: nothing runs after it."""


@pytest.fixture
def answers(tmp_path: Path) -> KeptAnswers:
    return KeptAnswers(str(tmp_path.parent / f"{tmp_path.name}-answers"))


def guard(answers: KeptAnswers, key: str = "k", again: bool = False, session: Session | None = None) -> KeyGuard:
    recover = session.services.locks.sweep if session else lambda: None
    return answers.guard(key, again=again, durable=False, recover=recover)


def make(session: Session, guard: KeyGuard, tool: str, arguments: dict[str, Any]) -> Any:
    received = Received(Call(tool, {}), CallClock(), guard=guard)
    return session.make_call(arguments, received)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "one more"}),
    ("Write", {"file_path": "new.txt", "content": "new\n"}),
    ("Move", {"source_path": "a.txt", "target_path": "b.txt"}),
    ("Trash", {"path": "a.txt"}),
    ("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "one", "new_string": "one more"}]}),
]


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("tool", "arguments"), CHANGES, ids=[tool for tool, _ in CHANGES])
@pytest.mark.parametrize("moment", ["before the commit", "after the commit", "after the answer"])
def test_a_change_is_made_once(
    make_session: Callable[..., Session],
    answers: KeptAnswers,
    tmp_path: Path,
    tool: str,
    arguments: dict[str, Any],
    moment: str,
) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    session = make_session()
    if tool not in session.dialect.entries:
        pytest.skip(f"the dialect has no {tool}")
    session.call("Read", {"file_path": "a.txt"})
    before = contents(tmp_path)
    first = guard(answers)
    if moment == "before the commit":
        record = first.before_commit

        def die(changes: Any) -> None:
            record(changes)
            raise Killed

        first.before_commit = die  # type: ignore[method-assign]
        with pytest.raises(Killed):
            make(session, first, tool, arguments)
        assert contents(tmp_path) == before
    else:
        result = make(session, first, tool, arguments)
        assert result.ok, result.text
        if moment == "after the answer":
            first.keep({"text": result.text})
    first.close()
    after = contents(tmp_path)

    second = guard(answers, again=True, session=session)
    earlier = second.find_answer()
    if moment == "after the answer":
        assert earlier == {"text": result.text}
    elif moment == "after the commit":
        assert isinstance(earlier, ChangeMade)
        assert earlier.paths
    else:
        assert earlier is None
        assert make(session, second, tool, arguments).ok
        assert contents(tmp_path) != before
    if moment != "before the commit":
        assert contents(tmp_path) == after
    second.close()


def test_files_that_others_have_changed_meanwhile_are_left_alone(
    make_session: Callable[..., Session], answers: KeptAnswers, tmp_path: Path
) -> None:
    session = make_session()
    first = guard(answers)
    assert make(session, first, "Write", {"file_path": "new.txt", "content": "x"}).ok
    first.close()
    (tmp_path / "new.txt").write_text("somebody else's")
    with pytest.raises(Interrupted) as raised:
        guard(answers, again=True, session=session).find_answer()
    assert "new.txt" in raised.value.effects


@pytest.mark.parametrize(("in_draft", "word"), [(True, "dropped"), (False, "look at the workspace")])
def test_a_command_is_never_run_again(answers: KeptAnswers, in_draft: bool, word: str) -> None:
    first = guard(answers)
    first.before_command(in_draft)
    first.close()
    for _ in range(2):
        second = guard(answers, again=True)
        with pytest.raises(Interrupted) as raised:
            second.find_answer()
        assert word in raised.value.effects
        second.close()


def test_a_call_that_was_taken_over_has_no_effect(
    make_session: Callable[..., Session], answers: KeptAnswers, tmp_path: Path
) -> None:
    """The first server lives on behind a cut connection, and commits after the repeat has begun."""
    session = make_session()
    first, second = guard(answers), guard(answers, again=True)
    assert second.find_answer() is None
    late = make(session, first, "Write", {"file_path": "new.txt", "content": "late"})
    assert late.error.code == "cancelled"
    assert not (tmp_path / "new.txt").exists()
    assert make(session, second, "Write", {"file_path": "new.txt", "content": "once"}).ok
    with pytest.raises(CallCancelled):
        first.before_command(False)


def test_a_repeat_waits_for_the_call_that_still_runs(answers: KeptAnswers) -> None:
    first = guard(answers)
    first.before_command(False)
    with pytest.raises(Interrupted, match="still running"):
        guard(answers, again=True).find_answer(wait=0.0)
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(guard(answers, again=True).find_answer()))
    thread.start()
    first.keep({"text": "done"})
    first.close()
    thread.join()
    assert results == [{"text": "done"}]


def test_an_answer_that_was_cut_off_leaves_the_intent(answers: KeptAnswers) -> None:
    first = guard(answers)
    first.before_command(False)
    os.write(first._fd, b'\n{"answer": {"text": "half')
    first.close()
    with pytest.raises(Interrupted):
        guard(answers, again=True).find_answer()


def test_calls_without_effect_leave_nothing(
    make_session: Callable[..., Session], answers: KeptAnswers, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    session = make_session()
    for again in (False, True):
        one = guard(answers, again=again)
        assert one.find_answer() is None
        one.keep({"text": make(session, one, "Read", {"file_path": "a.txt"}).text})
        one.close()
    assert os.listdir(answers._directory) == []


def test_old_answers_are_removed(answers: KeptAnswers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.pipeline.kept_answers.MOST_ANSWERS", 3)
    assert MOST_ANSWERS > 3
    running = guard(answers, "running")
    running.before_command(False)
    os.utime(running._path, (1, 1))
    for number in range(6):
        one = guard(answers, f"k{number}")
        one.before_command(False)
        one.keep({"number": number})
        os.utime(one._path, (1000 + number, 1000 + number))
        one.close()
    answers.clean(2000.0)
    assert len(os.listdir(answers._directory)) == 4  # three, and the one that runs
    answers.clean(2000.0 + 10 * 24 * 3600)
    assert len(os.listdir(answers._directory)) == 1
    running.close()


def kill_server(session: Any) -> None:
    os.kill(session._link._connection.pid, signal.SIGKILL)


@pytest.mark.parametrize("drafts", [False, True], ids=["in the workspace", "in a draft"])
def test_a_killed_server_is_replaced_and_its_command_is_not_run_again(
    connect: Connect,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    drafts: bool,
) -> None:
    if drafts:
        require_drafts()
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.write_text(f"[settings]\ndrafts = {json.dumps(drafts)}\n", encoding="utf-8")
    monkeypatch.setenv("HANDRAIL_CONFIG", str(config))
    session = connect()
    call = {"command": "echo ran >> count.txt; echo started; sleep 600"}
    started = threading.Event()
    results: list[Any] = []

    def notice(event: SessionEvent) -> None:
        if isinstance(event, ToolOutput):
            started.set()

    thread = threading.Thread(target=lambda: results.append(session.call("Bash", call, on_event=notice)))
    thread.start()
    assert started.wait(TIMEOUT)
    kill_server(session)
    thread.join()
    assert results[0].error.code == "interrupted"
    assert ("draft" in results[0].text) == drafts
    count = tmp_path / "count.txt"
    assert not count.exists() if drafts else count.read_text() == "ran\n"
    assert session.call("Write", {"file_path": "new.txt", "content": "x\n"}).ok
    kill_server(session)
    assert session.call("Edit", {"file_path": "new.txt", "old_string": "x", "new_string": "y"}).ok
    assert [one.path for one in session.undo().restored] == [str(tmp_path / "new.txt")]


def test_a_named_session_that_starts_over_gets_the_first_answers(connect: Connect, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Bash", {"command": "echo ran >> log.txt"}),
        ("Bash", {"command": "echo ran >> log.txt"}),  # the same call again is another call
        ("Write", {"file_path": "new.txt", "content": "one\n"}),
        ("Edit", {"file_path": "new.txt", "old_string": "one", "new_string": "one and two"}),
    ]

    def work(session: AnySession) -> list[str]:
        return [session.call(tool, arguments).text for tool, arguments in calls]

    first = work(connect(name="task 1"))
    assert work(connect(name="task 1")) == first
    assert log.read_text() == "ran\n" * 2
    assert (tmp_path / "new.txt").read_text() == "one and two\n"
    connect(name="task 2").call(*calls[0])
    assert log.read_text() == "ran\n" * 3


class KilledAfter:
    """Kills the server of a session once a file is as wanted: its effect was had, and its answer does not come."""

    def __init__(self, session: Session, is_done: Callable[[], bool]) -> None:
        self._session, self._is_done = session, is_done
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._is_done():
            time.sleep(0.001)
        kill_server(self._session)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def test_an_undo_whose_answer_was_lost_is_not_made_again(connect: Connect, tmp_path: Path) -> None:
    """Made again, it would take back the change before."""
    session: Any = connect()
    file = tmp_path / "a.txt"
    for text in ("one", "two", "three"):
        assert session.call("Write", {"file_path": "a.txt", "content": text}).ok
    # Interrupted: killed before the answer was kept, so that nobody knows.
    with KilledAfter(session, lambda: file.read_text() == "two"), contextlib.suppress(Interrupted):
        report = session.undo()
        assert [one.path for one in report.restored] == [str(file)]
    assert file.read_text() == "two"
    assert [one.path for one in session.undo().restored] == [str(file)]
    assert file.read_text() == "one"


@pytest.mark.parametrize("do", ["undo", "draft keep"])
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_repeated_request_has_its_effect_once(
    make_session: Callable[..., Session],
    answers: KeptAnswers,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    do: str,
    moment: str,
) -> None:
    """Requests as a server gets them: the first one, whose server ends, and its repeat."""
    session = make_session()
    if do == "draft keep":
        require_drafts()
    assert session.call("Write", {"file_path": "a.txt", "content": "one"}).ok
    assert session.call("Write", {"file_path": "a.txt", "content": "two"}).ok
    collected: list[str] = []

    class Server(RemoteServer):
        def _answer(self, do: str, message: Any) -> Any:
            if len(collected) == 0 and moment == "during":
                collected.append("died")
                raise Killed
            collected.append(do)
            return super()._answer(do, message)

    server = Server(None, lambda *_: session, answers)  # type: ignore[arg-type]
    request.addfinalizer(server._close)
    server._session = session
    message: dict[str, Any] = {"which": {}} if do == "undo" else {"draft": "d", "paths": []}
    if do == "draft keep":
        server._find_draft("d").session.call("Write", {"file_path": "b.txt", "content": "kept"})
    message = {"do": do, "key": "k", **message}
    if moment == "during":
        with pytest.raises(Killed):
            server._serve(1, do, message)
        with pytest.raises(Interrupted):
            server._serve(2, do, {**message, "again": True})
        assert collected == ["died"]
    else:
        first = server._serve(1, do, message) if moment == "after" else None
        repeated = server._serve(2, do, {**message, "again": True})
        assert first is None or json.loads(json.dumps(first)) == repeated
        assert collected == [do]
        assert (tmp_path / "a.txt").read_text() == ("one" if do == "undo" else "two")
        assert do == "undo" or (tmp_path / "b.txt").read_text() == "kept"


def test_a_request_that_failed_fails_again_in_the_same_way(
    make_session: Callable[..., Session], answers: KeptAnswers, tmp_path: Path
) -> None:
    server = RemoteServer(None, lambda *_: make_session(), answers)  # type: ignore[arg-type]
    server._session = make_session()
    message = {"which": {"call": 4444}, "key": "k"}
    first = server._serve(1, "undo", message)
    assert first["error"]["name"] == "CannotUndo"  # there is no journal yet
    assert server._serve(2, "undo", {**message, "again": True}) == first


def test_requests_without_an_effect_are_made_again(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    specs = session.specs()
    for _ in range(2):
        kill_server(session)
        assert session.specs() == specs
    assert session.prepare("Write", {"file_path": "a.txt", "content": ""}).verdict.decision == "allow"


@pytest.mark.parametrize("drafts", [False, True], ids=["in the workspace", "in a draft"])
def test_a_command_that_was_cut_off_is_answered_as_interrupted_and_not_run_again(
    connect: Connect,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    drafts: bool,
) -> None:
    """Only the connection is lost: the server kills the command itself, as behind an ssh client that is gone."""
    if drafts:
        require_drafts()
    config = tmp_path_factory.mktemp("config") / "config.toml"
    config.write_text(f"[settings]\ndrafts = {json.dumps(drafts)}\n", encoding="utf-8")
    monkeypatch.setenv("HANDRAIL_CONFIG", str(config))
    session: Any = connect()

    def cut(event: SessionEvent) -> None:
        if isinstance(event, ToolOutput):
            pipe = session._link._connection._pipe
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), pipe._source)  # no answer arrives any more
            pipe.close_sink()

    result = session.call("Bash", {"command": "echo ran >> count.txt; echo started; sleep 600"}, on_event=cut)
    assert result.error.code == "interrupted"
    assert "look at the workspace" in result.text
    assert (tmp_path / "count.txt").read_text() == "ran\n"
    assert session.call("LS", {"path": "."}).ok


def test_a_command_of_a_stopped_server_is_answered_and_not_run_again(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGSTOP: the pipe stays open, and only heartbeats notice it."""
    monkeypatch.setattr("handrail.remote.client.HEARTBEAT_SECONDS", 0.05)
    session: Any = connect()
    stopped = session._link._connection.pid

    def stop(event: SessionEvent) -> None:
        if isinstance(event, ToolOutput) and session._link._connection.pid == stopped:
            os.kill(stopped, signal.SIGSTOP)
            monkeypatch.setattr("handrail.remote.client.SILENT_SECONDS", 0.5)

    def restore() -> None:
        while session._link._connection.pid == stopped:
            time.sleep(0.01)
        monkeypatch.setattr("handrail.remote.client.SILENT_SECONDS", 600.0)

    thread = threading.Thread(target=restore)
    thread.start()
    result = session.call("Bash", {"command": "echo ran >> count.txt; echo started; sleep 600"}, on_event=stop)
    thread.join()
    assert result.error.code == "interrupted"
    count = tmp_path / "count.txt"
    assert not count.exists() or count.read_text() == "ran\n"  # none where commands run in drafts


def test_a_silent_server_is_given_up(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.remote.client.HEARTBEAT_SECONDS", 0.05)
    session: Any = connect()
    stopped = session._link._connection.pid
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr("handrail.remote.client.SILENT_SECONDS", 0.5)
    while not session._link._connection.is_lost:
        time.sleep(0.01)
    monkeypatch.setattr("handrail.remote.client.SILENT_SECONDS", 600.0)
    assert session.call("Write", {"file_path": "a.txt", "content": ""}).ok
    assert session._link._connection.pid != stopped
