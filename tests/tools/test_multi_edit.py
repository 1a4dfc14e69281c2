"""MultiEdit in the native dialect: one after the other, all or none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session

Make = Callable[..., Session]
RAW = b"one\r\ntwo\nthree\n"


@pytest.fixture
def session(make_session: Make, tmp_path: Path) -> Session:
    (tmp_path / "a.txt").write_bytes(RAW)
    opened = make_session(durable=False)
    opened.call("Read", {"file_path": "a.txt"})
    return opened


def edits(session: Session, *pairs: tuple[Any, ...], name: str = "a.txt") -> Result:
    sent = [{"old_string": old, "new_string": new, "replace_all": bool(all_)} for old, new, *all_ in pairs]
    return session.call("MultiEdit", {"file_path": name, "edits": sent})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def test_each_edit_is_made_on_the_result_of_the_last(session: Session, tmp_path: Path) -> None:
    result = edits(session, ("one", "1"), ("1\ntwo", "1\n2"), ("2\nthree", "2\n3"))
    assert result.text == "Applied 3 edits to a.txt:\n1\t1\n2\t2\n3\t3"
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\n3\n"
    assert (result.status, result.data["applied"]) == ("ok", 3)


def test_the_diff_is_one_diff_of_the_whole_change(session: Session) -> None:
    result = edits(session, ("one", "uno"), ("uno", "1"))
    assert result.data["diff"].count("@@ ") == 1
    assert "uno" not in result.data["diff"]


def test_if_one_edit_fails_none_is_made_and_it_is_named(session: Session, tmp_path: Path) -> None:
    result = edits(session, ("one", "1"), ("zwei", "2"), ("three", "3"))
    assert code(result) == "no_match"
    assert result.text.startswith("No edit was applied: edit 2 of 3 failed. ")
    assert (tmp_path / "a.txt").read_bytes() == RAW


def test_the_other_edits_can_be_made_once_the_failing_one_is_mended(session: Session) -> None:
    assert code(edits(session, ("one", "1"), ("zwei", "2"))) == "no_match"
    assert edits(session, ("one", "1"), ("two", "2")).status == "ok"


@pytest.mark.parametrize("dialect", ["native", "claude"])
def test_an_ambiguous_edit_names_how_often_its_text_occurs(make_session: Make, tmp_path: Path, dialect: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\nx\nx\ny\n")
    session = make_session(dialect=dialect)
    session.call("Read", {"file_path": "a.txt"})
    result = edits(session, ("y", "z"), ("x", "z"))
    assert code(result) == "many_matches"
    assert "3 times" in result.text or "Found 3 matches" in result.text


def test_text_that_an_earlier_edit_removed_is_not_found(session: Session, tmp_path: Path) -> None:
    assert code(edits(session, ("two\n", ""), ("two", "2"))) == "no_match"
    assert (tmp_path / "a.txt").read_bytes() == RAW


def test_edits_that_undo_each_other_change_nothing(session: Session, tmp_path: Path) -> None:
    before = (tmp_path / "a.txt").stat()
    edits(session, ("one", "1"), ("1", "one"))
    assert (tmp_path / "a.txt").read_bytes() == RAW
    assert (tmp_path / "a.txt").stat().st_ino == before.st_ino


def test_replace_all_counts_for_its_own_edit_only(session: Session, tmp_path: Path) -> None:
    assert edits(session, ("e", "E", True), ("two", "2")).status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"onE\r\n2\nthrEE\n"


def test_an_empty_list_of_edits_is_a_bad_argument(session: Session) -> None:
    result = session.call("MultiEdit", {"file_path": "a.txt", "edits": []})
    assert (code(result), "edits" in result.text) == ("bad_arguments", True)


def test_an_unread_file_is_refused_and_reading_leads_out(make_session: Make, session: Session, tmp_path: Path) -> None:
    fresh = make_session(durable=False)
    assert code(edits(fresh, ("ne", "1", True))) == "not_seen"
    fresh.call("Read", {"file_path": "a.txt"})
    assert edits(fresh, ("ne", "1", True)).status == "ok"


def test_an_edit_of_another_place_goes_through_and_names_the_lines_that_changed(
    session: Session, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\ndrei\n")
    result = edits(session, ("one", "1"), ("two", "2"))
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["changed_elsewhere"])
    assert "lines 3" in result.notes[0].text and result.notes[0].text in result.text
    assert (tmp_path / "a.txt").read_bytes() == b"1\r\n2\ndrei\n"


def test_text_that_changed_since_is_said_to_have_changed(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\ndrei\n")
    result = edits(session, ("one", "1"), ("three", "3"))
    assert (code(result), "edit 2 of 2" in result.text) == ("changed_since", True)
    session.call("Read", {"file_path": "a.txt"})
    assert edits(session, ("one", "1"), ("drei", "3")).status == "ok"


def test_text_that_the_encoding_cannot_hold_is_refused_as_a_whole(make_session: Make, tmp_path: Path) -> None:
    raw = "Straße\nzwei Öl\n".encode("cp1252")
    (tmp_path / "b.txt").write_bytes(raw)
    session = make_session()
    session.call("Read", {"file_path": "b.txt"})
    assert code(edits(session, ("zwei", "2"), ("Straße", "世"), name="b.txt")) == "cannot_encode"
    assert (tmp_path / "b.txt").read_bytes() == raw


def test_thousands_of_replacements_in_two_edits_are_made(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"x yy\n" * 3000)
    session = make_session(durable=False)
    session.call("Read", {"file_path": "b.txt"})
    result = edits(session, ("x", "zz", True), ("yy", "q", True), name="b.txt")
    assert result.status == "ok"
    assert (tmp_path / "b.txt").read_bytes() == b"zz q\n" * 3000
