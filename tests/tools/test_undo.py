"""Undo: a model takes back its own last change, under the rules that hold for the change itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.model import Question

Make = Callable[..., Session]


@pytest.fixture
def make(make_session: Make, tmp_path: Path) -> Make:
    root = tmp_path / "w"
    root.mkdir()
    (root / "a.txt").write_text("one\n", encoding="utf-8")

    def open_session(**options: object) -> Session:
        return make_session(root, **{"journal": "auto", "state": str(tmp_path / "state"), "durable": False, **options})

    return open_session


def test_each_call_takes_back_the_change_before(make: Make, tmp_path: Path) -> None:
    root, session = tmp_path / "w", make()
    session.call("Read", {"file_path": "a.txt"})
    assert session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}).ok
    assert session.call("Write", {"file_path": "new.txt", "content": "new\n"}).ok
    assert session.call("Trash", {"path": "a.txt"}).ok
    first = session.call("Undo", {})
    assert first.text == "Took back your last change:\nrestored a.txt", first.text
    assert (root / "a.txt").read_text(encoding="utf-8") == "two\n"
    assert session.call("Undo", {}).text.endswith("deleted new.txt") and not (root / "new.txt").exists()
    assert session.call("Undo", {}).text.endswith("reverted a.txt")
    assert (root / "a.txt").read_text(encoding="utf-8") == "one\n"
    last = session.call("Undo", {})
    assert last.ok and last.text.startswith("Nothing was taken back")


def test_only_changes_of_the_own_session_are_taken_back(make: Make, tmp_path: Path) -> None:
    other = make()
    assert other.call("Write", {"file_path": "other.txt", "content": "x\n"}).ok
    assert make().call("Undo", {}).text.startswith("Nothing was taken back")
    assert (tmp_path / "w" / "other.txt").exists()


def test_a_file_that_was_changed_since_is_left_alone(make: Make, tmp_path: Path) -> None:
    session, path = make(), tmp_path / "w" / "new.txt"
    assert session.call("Write", {"file_path": "new.txt", "content": "mine\n"}).ok
    path.write_text("theirs\n", encoding="utf-8")
    answer = session.call("Undo", {}).text
    assert "new.txt" in answer and "left alone" in answer
    assert path.read_text(encoding="utf-8") == "theirs\n"


def test_an_undo_of_one_file_leaves_the_others(make: Make, tmp_path: Path) -> None:
    session = make()
    for name in ("b.txt", "c.txt"):
        assert session.call("Write", {"file_path": name, "content": "x\n"}).ok
    assert session.call("Undo", {"file_path": "b.txt"}).ok
    assert not (tmp_path / "w" / "b.txt").exists() and (tmp_path / "w" / "c.txt").exists()


@pytest.mark.parametrize("answer", [True, False])
def test_an_undo_is_asked_about_where_a_change_would_be(make: Make, tmp_path: Path, answer: bool) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return answer or len(asked) == 1

    session = make(mode="ask", approve=approve)
    assert session.call("Write", {"file_path": "new.txt", "content": "x\n"}).ok
    assert session.call("Undo", {}).ok is answer
    assert len(asked) == 2 and "new.txt" in asked[1].preview()
    assert (tmp_path / "w" / "new.txt").exists() is not answer


def test_without_a_journal_nothing_is_taken_back(make: Make) -> None:
    session = make(journal=None)
    assert session.call("Write", {"file_path": "new.txt", "content": "x\n"}).ok
    assert session.call("Undo", {}).text.startswith("Nothing was taken back")
