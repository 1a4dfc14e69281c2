"""A session over a pipe has the methods of a session, and what they do happens beside the files."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any, Literal

import pytest

import handrail
from handrail import (
    Answer,
    AnySession,
    AsyncSession,
    DraftConflict,
    Question,
    Session,
    SessionDraft,
    ToolError,
    ToolOutput,
    UnknownCall,
    parse_rules,
)
from handrail.errors import ConnectionLost
from tests.remote.conftest import Connect


def test_calls_events_and_undo(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    events: list[Any] = []
    session = connect(on_event=events.append)
    assert session.call("Read", {"file_path": "a.txt"}, id="r1").id == "r1"
    edited = session.call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "TWO"})
    assert edited.ok
    assert edited.accesses[0].path == str(tmp_path / "a.txt")
    assert "-two\n+TWO" in edited.data["diff"]
    assert (tmp_path / "a.txt").read_text() == "one\nTWO\n"
    assert [type(event).__name__ for event in events] == ["ToolStarted", "ToolFinished"] * 2
    assert events[-1].call.arguments["new_string"] == "TWO"
    report = session.undo()
    assert [one.path for one in report.restored] == [str(tmp_path / "a.txt")]
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    with pytest.raises(UnknownCall, match="4444"):
        session.undo(call=4444)


def test_definitions_and_failures_are_those_of_a_local_session(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    far = connect(dialect="claude")
    with Session(tmp_path, dialect="claude", mode="full") as near:
        assert far.specs() == near.specs()
        for arguments in ({"file_path": "none.txt"}, {"file_path": "/etc/hostname"}, {"path": 3}, {}, "{", None):
            ours, theirs = near.call("Read", arguments), far.call("Read", arguments)
            assert (theirs.status, theirs.text, theirs.error) == (ours.status, ours.text, ours.error)
        assert far.describe_project() == near.describe_project()


def test_names_that_are_no_unicode_and_large_results_pass(connect: Connect, tmp_path: Path) -> None:
    odd = "odd-\udcff.txt"
    (tmp_path / odd).write_text("x\n")
    (tmp_path / "large.txt").write_text(("é" * 500 + "\n") * 400)
    session = connect()
    assert session.call("Glob", {"pattern": "odd*"}).ok
    large = session.call("Read", {"file_path": "large.txt"})
    with Session(tmp_path, mode="full") as near:
        assert large.text == near.call("Read", {"file_path": "large.txt"}).text


def test_a_preview_changes_nothing(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    session = connect(mode="ask")
    prepared = session.prepare("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})
    assert prepared.verdict.decision == "ask"
    assert prepared.written_paths == [str(tmp_path / "a.txt")]
    assert "-one\n+1" in prepared.preview()
    assert (tmp_path / "a.txt").read_text() == "one\n"
    with pytest.raises(ToolError):
        session.prepare("Edit", {"file_path": "../a.txt", "old_string": "a", "new_string": "b"})


@pytest.mark.parametrize("yes", [True, False])
def test_a_person_at_the_client_is_asked(connect: Connect, tmp_path: Path, yes: bool) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes, "" if yes else "not today")

    session = connect(mode="ask", approve=approve)
    result = session.call("Write", {"file_path": "new.txt", "content": "x\n"})
    assert (tmp_path / "new.txt").exists() == result.ok == yes
    assert asked[0].files[0].after == "x\n"
    assert yes or "not today" in result.text


def test_without_a_person_a_question_is_a_refusal(connect: Connect, tmp_path: Path) -> None:
    result = connect(mode="ask").call("Write", {"file_path": "new.txt", "content": "x\n"})
    assert result.error and result.error.code == "needs_approval"
    assert not (tmp_path / "new.txt").exists()


WRITE = ("Write", {"file_path": "kept/new.txt", "content": "x\n"})
DENY = '[[rules]]\naction = "write"\npath = "kept/**"\ntier = "deny"\n'


@pytest.mark.parametrize(
    ("server", "client", "rules", "ok"),
    [
        ("full", "full", "", True),
        ("read-only", "full", "", False),
        ("full", "read-only", "", False),
        ("full", "full", "client", False),
        ("full", "full", "server", False),
    ],
)
def test_the_stricter_of_both_policies_wins(
    connect: Connect, serve: list[str], tmp_path: Path, server: str, client: str, rules: str, ok: bool
) -> None:
    line = '[permissions]\ndeny = ["Edit(kept/**)"]\n'
    if rules == "server":
        (tmp_path / "handrail.toml").write_text(line)
    more = {"rules": [parse_rules(line)]} if rules == "client" else {}
    words = [server if word == "full" else word for word in serve]
    session = connect(words, mode=client, **more)
    result = session.call(*WRITE)
    assert result.ok == ok, result.text
    assert result.status == ("ok" if ok else "denied")


def test_an_allow_rule_of_one_side_does_not_open_the_other(connect: Connect, tmp_path: Path) -> None:
    rule = parse_rules('[permissions]\nallow = ["Edit(**)"]\n')
    loose = connect(mode="ask", rules=[rule])
    assert loose.call(*WRITE).ok  # this side's mode asks, and this side's rule allows; the other side's mode allows
    loose.set_mode("read-only")
    assert loose.call("Write", {"file_path": "kept/other.txt", "content": ""}).status == "denied"


def test_output_comes_while_a_command_runs_and_cancel_ends_it(connect: Connect) -> None:
    cancel = threading.Event()
    seen: list[str] = []

    def listen(event: object) -> None:
        if isinstance(event, ToolOutput):
            seen.append(event.text)
            cancel.set()

    session = connect()
    result = session.call("Bash", {"command": "echo started; sleep 600"}, cancel=cancel, on_event=listen)
    assert seen[0] == "started\n"
    assert result.data["cancelled"]


def test_calls_run_beside_each_other(connect: Connect, tmp_path: Path) -> None:
    """A command waits for a file that the call after it creates: that works only if both run at once."""
    session = connect()
    waiting = "while [ ! -e go.txt ]; do sleep 0.05; done; echo went"
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(session.call("Bash", {"command": waiting})))
    thread.start()
    assert session.call("Write", {"file_path": "go.txt", "content": ""}).ok
    thread.join()
    assert results[0].text == "went"


def test_async_sessions_work_over_a_connection(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")

    async def read() -> list[str]:
        calls = AsyncSession(connect())
        results = await asyncio.gather(*(calls.call("Read", {"file_path": "a.txt"}) for _ in range(8)))
        return [result.text for result in results]

    assert asyncio.run(read()) == ["1\tone"] * 8


def open_draft(session: AnySession) -> SessionDraft[AnySession]:
    try:
        return session.draft()
    except OSError as error:
        pytest.skip(f"no drafts on this machine: {error}")


def test_a_draft_of_a_remote_workspace(connect: Connect, tmp_path: Path) -> None:
    session = connect()
    draft = open_draft(session)
    with draft:
        assert draft.session.call("Write", {"file_path": "new.txt", "content": "x\n"}).ok
        assert not (tmp_path / "new.txt").exists()
        assert [one.path for one in draft.changes()] == ["new.txt"]
        assert "+x" in draft.diff()
        assert len(draft.keep()) == 1
    assert (tmp_path / "new.txt").read_text() == "x\n"
    session.undo()
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize(
    ("side", "marked", "kept"), [("ours", [], "draft\n"), ("theirs", [], "other\n"), ("merge", ["a.txt"], "")]
)
def test_conflicts_in_a_draft_of_a_remote_workspace_are_resolved(
    connect: Connect, tmp_path: Path, side: Literal["ours", "theirs", "merge"], marked: list[str], kept: str
) -> None:
    (tmp_path / "a.txt").write_text("base\n")
    session = connect()
    draft = open_draft(session)
    with draft:
        assert draft.session.call("Bash", {"command": "echo draft > a.txt"}).ok
        draft.close()
        (tmp_path / "a.txt").write_text("other\n")
        with pytest.raises(DraftConflict):
            draft.keep()
        assert draft.resolve(side) == marked
        if marked:
            assert "<<<<<<< draft" in draft.diff()
        else:
            draft.keep()
            assert (tmp_path / "a.txt").read_text() == kept


def test_a_rebase_of_a_remote_draft_starts_its_server_again(connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5\n")
    session = connect()
    with open_draft(session) as draft:
        serve = {"command": "echo start >> log; exec sleep 300", "background": True}
        assert draft.session.call("Bash", {"command": "sed -i s/1/one/ a.txt"}).ok
        draft.close()  # by then it has the base of what it has changed
        assert draft.session.call("Bash", serve).ok
        (tmp_path / "a.txt").write_text("1\n2\n3\n4\nfive\n")
        assert draft.rebase() == ["a.txt"]
        assert draft.session.call("Read", {"file_path": "a.txt"}).text.count("five") == 1
        assert draft.session.list_background_calls() == [("Bash", serve)]


@pytest.mark.parametrize(
    ("options", "match"),
    [({"mode": "wild"}, "mode must be"), ({"dialect": "none-such"}, "none-such"), ({"rules": ["x"]}, "rules must")],
)
def test_wrong_options_are_refused_before_a_server_starts(
    connect: Connect, options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        connect(["/bin/false"], **options)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["/none/such"], "No such file"),
        (["/bin/sh", "-c", "echo handrail: not found >&2; exit 127"], "not found"),
        (["/bin/sh", "-c", "echo Welcome; exec cat"], "Welcome|closed"),
    ],
)
def test_a_command_that_is_no_server_is_reported_with_its_words(
    monkeypatch: pytest.MonkeyPatch, words: list[str], match: str
) -> None:
    monkeypatch.setattr("handrail.remote.client.START_SECONDS", 1.0)
    with pytest.raises(ConnectionLost, match=match):
        handrail.connect(words)


@pytest.mark.parametrize("address", ["ssh://host/w", "docker://box/w"])
def test_an_address_whose_program_is_missing_here_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, address: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConnectionLost, match=f"{address.partition(':')[0]}: No such file"):
        handrail.connect(address)


def test_nothing_of_this_machine_is_read_for_a_remote_path(connect: Connect, tmp_path: Path) -> None:
    """The far workspace and this machine share paths in this test: even so nothing is opened from here."""
    session = connect()
    with pytest.raises(ToolError):
        session.workspace.resolve("a.txt")
    session.close()
    assert session.call("Read", {"file_path": "a.txt"}).error
    assert os.path.isdir(tmp_path)
