"""Approval: what a person is shown, what the answers mean, and that a yes holds for what was shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from handrail import Question, Session
from handrail.model import Answer
from tests.approval.asked import TWO, edit


def test_the_person_sees_every_file_with_its_hunks(opened: Callable[..., Session], project: Path) -> None:
    seen: list[Question] = []

    def approve(question: Question) -> bool:
        seen.append(question)
        [one] = question.files
        assert one.path == "a.txt" and one.selectable and len(one.hunks) == 2
        assert one.before == (project / "a.txt").read_text(encoding="utf-8")
        assert one.after is not None and "THIRTY" in one.after
        assert "+THREE" in question.preview() and question.verdict.allow.startswith("allow Edit(")
        return True

    with opened(approve) as session:
        assert edit(session, *TWO).status == "ok"
    assert len(seen) == 1


def test_only_the_chosen_hunks_are_applied_and_the_model_is_told(opened: Callable[..., Session], project: Path) -> None:
    with opened(lambda _: Answer(True, hunks={"a.txt": [1]})) as session:
        result = edit(session, *TWO)
    text = (project / "a.txt").read_text(encoding="utf-8")
    assert "line 3\n" in text and "THIRTY\n" in text and "THREE" not in text
    assert result.status == "partial" and "approved 1 of 2 changes" in result.text
    assert "THREE" not in result.data["diff"]


def test_no_hunk_chosen_changes_nothing(opened: Callable[..., Session], project: Path) -> None:
    before = (project / "a.txt").read_bytes()
    with opened(lambda _: Answer(True, hunks={"a.txt": []})) as session:
        result = edit(session, *TWO)
    assert (project / "a.txt").read_bytes() == before
    assert "approved 0 of 2 changes" in result.text


def test_the_person_may_write_the_file_otherwise_and_the_model_is_told(
    opened: Callable[..., Session], project: Path
) -> None:
    raw = (project / "a.txt").read_bytes().replace(b"line 9\n", b"caf\xe9 9\r\n")  # cp1252, and another line ending
    (project / "a.txt").write_bytes(raw)

    def approve(question: Question) -> Answer:
        [one] = question.files
        assert one.editable and one.after
        return Answer(True, contents={one.path: one.after.replace("THREE", "drei")})

    with opened(approve) as session:
        result = edit(session, TWO[0])
    assert (project / "a.txt").read_bytes() == raw.replace(b"line 3\n", b"drei\n")
    assert result.status == "partial" and "edited the content" in result.text and "+drei" in result.data["diff"]


def test_a_no_carries_its_reason_to_the_model(opened: Callable[..., Session], project: Path) -> None:
    before = (project / "a.txt").read_bytes()
    with opened(lambda _: Answer(False, "use tabs, please")) as session:
        result = edit(session, *TWO)
    assert result.status == "denied" and "use tabs, please" in result.text
    assert (project / "a.txt").read_bytes() == before


def test_a_file_that_changes_while_the_person_thinks_is_asked_again(
    opened: Callable[..., Session], project: Path
) -> None:
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.preview())
        if len(asked) == 1:  # somebody else saves the file in the meantime
            text = (project / "a.txt").read_text(encoding="utf-8")
            (project / "a.txt").write_text(text.replace("line 2\n", "line two\n"), encoding="utf-8")
        return True

    with opened(approve) as session:
        result = edit(session, TWO[0])
    assert len(asked) == 2 and "line two" in asked[1] and "line two" not in asked[0]
    assert result.ok and "line two\nTHREE\n" in (project / "a.txt").read_text(encoding="utf-8")


def test_a_call_that_cannot_succeed_bothers_nobody(opened: Callable[..., Session]) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    with opened(approve) as session:
        result = edit(session, ("nowhere to be found", "x"))
    assert result.status == "error" and not asked


def test_yes_for_the_session_is_not_asked_again_for_the_same_file_only(
    opened: Callable[..., Session], project: Path
) -> None:
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        asked.append(question.accesses[0].target)
        return Answer(True, lasting="session")

    with opened(approve) as session:
        assert edit(session, TWO[0]).ok
        assert edit(session, TWO[1]).ok
        assert session.call("Write", {"file_path": "b.txt", "content": "b\n"}).ok
    assert asked == ["a.txt", "b.txt"]
    with opened(None) as session:
        assert session.call("Write", {"file_path": "c.txt", "content": "c\n"}).status == "denied"


def test_yes_for_good_is_written_as_the_narrowest_rule_and_holds_in_the_next_session(
    opened: Callable[..., Session], project: Path, tmp_path: Path
) -> None:
    with opened(lambda _: Answer(True, lasting="always")) as session:
        assert session.call("Bash", {"command": "touch made.txt"}).ok
    written = (tmp_path / "config/handrail/approved.toml").read_text(encoding="utf-8")
    assert '"allow Bash(touch made.txt)"' in written and str(project) in written
    with opened(None) as session:
        assert session.call("Bash", {"command": "touch made.txt"}).ok
        assert session.call("Bash", {"command": "touch other.txt"}).status == "denied"
    with opened(lambda _: Answer(True, lasting="always")) as session:
        assert session.call("Write", {"file_path": 'it\'s "new".txt', "content": "x"}).ok
    with opened(None) as session:
        session.call("Read", {"file_path": 'it\'s "new".txt'})
        assert session.call("Write", {"file_path": 'it\'s "new".txt', "content": "y"}).ok


def test_a_deny_is_never_loosened_by_what_was_approved(opened: Callable[..., Session], project: Path) -> None:
    (project / ".env").write_text("KEY=1\n", encoding="utf-8")
    with opened(lambda _: Answer(True, lasting="session")) as session:
        assert session.call("Bash", {"command": "touch made.txt"}).ok
        assert session.call("Bash", {"command": "touch made.txt; cat .env"}).status == "denied"


def test_a_call_that_the_person_rewrites_runs_as_rewritten_and_the_model_is_told(
    opened: Callable[..., Session], project: Path
) -> None:
    with opened(lambda _: Answer(True, arguments={"command": "echo rewritten > out.txt"})) as session:
        result = session.call("Bash", {"command": "echo first > out.txt"})
    assert (project / "out.txt").read_text(encoding="utf-8") == "rewritten\n"
    assert "The user changed the arguments of this call" in result.text and "echo rewritten" in result.text


def test_a_rewritten_call_is_judged_anew(opened: Callable[..., Session], project: Path) -> None:
    (project / ".env").write_text("KEY=1\n", encoding="utf-8")
    with opened(lambda _: Answer(True, arguments={"command": "cat .env"})) as session:
        assert session.call("Bash", {"command": "touch x"}).status == "denied"


def test_a_command_is_shown_and_has_no_files_to_propose(opened: Callable[..., Session]) -> None:
    with opened(None) as session:
        prepared = session.prepare("Bash", {"command": "echo hi"})
        assert prepared.preview() == "$ echo hi\n" and not prepared.proposed()


def test_a_yes_that_comes_after_the_call_was_cancelled_does_nothing(
    opened: Callable[..., Session], project: Path
) -> None:
    cancel = threading.Event()

    def approve(_: Question) -> bool:
        cancel.set()
        return True

    with opened(approve) as session:
        result = session.call("Write", {"file_path": "new.txt", "content": "x"}, cancel=cancel)
    assert result.error is not None and result.error.code == "cancelled"
    assert not (project / "new.txt").exists()
