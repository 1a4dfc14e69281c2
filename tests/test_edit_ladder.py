"""Edit and MultiEdit through a session: what is forgiven, what is refused, and what the answer says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session

Make = Callable[..., Session]
GO = b"package a\r\n\r\nfunc f() {\r\n\tif x {\r\n\t\treturn 1\r\n\t}\r\n}\r\n"


@pytest.fixture
def session(make_session: Make, tmp_path: Path) -> Session:
    (tmp_path / "a.go").write_bytes(GO)
    made = make_session(durable=False)
    made.call("Read", {"file_path": "a.go"})
    return made


def edit(session: Session, old: str, new: str, **more: object) -> str:
    return session.call("Edit", {"file_path": "a.go", "old_string": old, "new_string": new, **more}).text


def test_spaces_for_tabs_land_as_tabs_with_the_line_endings_of_the_file(session: Session, tmp_path: Path) -> None:
    said = edit(session, "    if x {\n        return 1", "    if x {\n        y()\n        return 1")
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"\t\treturn", b"\t\ty()\r\n\t\treturn")
    assert "matched by: depth" in said


def test_the_reading_is_told(session: Session, tmp_path: Path) -> None:
    said = edit(session, "     5\t\t\treturn 1", "     5\t\t\treturn 2")
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"return 1", b"return 2")
    assert "line numbers" in said


def test_a_refusal_shows_the_line_that_differs(session: Session, tmp_path: Path) -> None:
    said = edit(session, "func f() {\n    if x {\n        return 7\n", "func f() {\n")
    assert (tmp_path / "a.go").read_bytes() == GO
    assert "begins at line 3; line 5 differs:" in said
    assert "old_string: ········return 7" in said
    assert "the file:   →→return 1" in said


def test_a_refusal_without_anything_near_is_short(session: Session) -> None:
    assert "nearest" not in edit(session, "completely unrelated words", "x")


def test_an_unsure_depth_says_what_to_do(session: Session, tmp_path: Path) -> None:
    said = edit(session, "if x {\nreturn 1\n}", "if x {\nfor {\ny()\n}\nreturn 1\n}")
    assert (tmp_path / "a.go").read_bytes() == GO
    assert "line 4" in said and "indentation" in said


def test_a_multi_edit_tells_which_edit_was_read_how(session: Session, tmp_path: Path) -> None:
    edits = [
        {"old_string": "if x { \n", "new_string": "if z {\n"},
        {"old_string": "return 1", "new_string": "return 2"},
    ]
    said = session.call("MultiEdit", {"file_path": "a.go", "edits": edits}).text
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"if x", b"if z").replace(b"return 1", b"return 2")
    assert "1: " in said
