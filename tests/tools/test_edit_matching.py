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
    opened = make_session(durable=False)
    opened.call("Read", {"file_path": "a.go"})
    return opened


def edit(session: Session, old: str, new: str, **more: object) -> str:
    return session.call("Edit", {"file_path": "a.go", "old_string": old, "new_string": new, **more}).text


def test_spaces_for_tabs_land_as_tabs_with_the_line_endings_of_the_file(session: Session, tmp_path: Path) -> None:
    message = edit(session, "    if x {\n        return 1", "    if x {\n        y()\n        return 1")
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"\t\treturn", b"\t\ty()\r\n\t\treturn")
    assert "matched by: indentation" in message


def test_the_reading_is_told(session: Session, tmp_path: Path) -> None:
    message = edit(session, "     5\t\t\treturn 1", "     5\t\t\treturn 2")
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"return 1", b"return 2")
    assert "line numbers" in message


def test_a_refusal_shows_the_line_that_differs(session: Session, tmp_path: Path) -> None:
    message = edit(session, "func f() {\n    if x {\n        return 7\n", "func f() {\n")
    assert (tmp_path / "a.go").read_bytes() == GO
    assert "starts at line 3; line 5 differs:" in message
    assert "old_string: ········return 7" in message
    assert "the file:   →→return 1" in message


def test_a_refusal_without_anything_near_is_short(session: Session) -> None:
    assert "nearest" not in edit(session, "completely unrelated words", "x")


def test_an_unsure_depth_says_what_to_do(session: Session, tmp_path: Path) -> None:
    message = edit(session, "if x {\nreturn 1\n}", "if x {\nfor {\ny()\n}\nreturn 1\n}")
    assert (tmp_path / "a.go").read_bytes() == GO
    assert "line 4" in message and "indentation" in message


def test_a_multi_edit_tells_which_edit_was_read_how(session: Session, tmp_path: Path) -> None:
    edits = [
        {"old_string": "if x { \n", "new_string": "if z {\n"},
        {"old_string": "return 1", "new_string": "return 2"},
    ]
    output = session.call("MultiEdit", {"file_path": "a.go", "edits": edits}).text
    assert (tmp_path / "a.go").read_bytes() == GO.replace(b"if x", b"if z").replace(b"return 1", b"return 2")
    assert "1: " in output


PY = b"class A:\n    def m(self):\n        x = prettyForm(1)\n        return x\n"


@pytest.fixture
def python(make_session: Make, tmp_path: Path) -> Callable[..., tuple[str, bytes]]:
    """`python(old, new)`: what Edit answers, and what the file holds afterwards."""
    (tmp_path / "a.py").write_bytes(PY)
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.py"})

    def make(old: str, new: str, **more: object) -> tuple[str, bytes]:
        asked = {"file_path": "a.py", "old_string": old, "new_string": new, **more}
        return session.call("Edit", asked).text, (tmp_path / "a.py").read_bytes()

    return make


def test_further_lines_as_the_file_has_them_are_literal(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("return x", "return x\n\n    def n(self):\n        return 3")
    assert result == PY + b"\n    def n(self):\n        return 3\n"
    assert "matched by" not in message


def test_lines_that_were_indented_are_named_in_the_answer(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("x = prettyForm(1)", "x = prettyForm(1)\nx += 1")
    assert result == PY.replace(b"(1)\n", b"(1)\n        x += 1\n")
    assert "(matched by: exact, new lines indented like line 3)" in message


def test_lines_that_may_belong_to_two_depths_are_refused(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("return x", "return x\nprint(1)")
    assert result == PY
    assert (
        "line 4" in message and "without its full indentation" in message and "Copy old_string with its ind" in message
    )


def test_a_part_of_the_indentation_is_a_match_of_whole_lines(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("    x = prettyForm(1)", "    x = prettyForm(1)\n    x += 1")
    assert result == PY.replace(b"(1)\n", b"(1)\n        x += 1\n")
    assert "(matched by: indentation)" in message


def test_a_piece_of_a_word_is_refused_and_says_what_to_quote(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("x = prettyF", "x = prettyG")
    assert result == PY
    assert "inside a longer word (prettyForm)" in message and "Use whole words" in message


def test_a_piece_of_every_word_is_replaced_and_named(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("prettyF", "prettyG", replace_all=True)
    assert result == PY.replace(b"prettyForm", b"prettyGorm")
    assert "1 inside longer words" in message


def test_deleted_lines_take_their_line_end_along(python: Callable[..., tuple[str, bytes]]) -> None:
    message, result = python("        x = prettyForm(1)", "")
    assert result == PY.replace(b"        x = prettyForm(1)\n", b"")
    assert "line end removed as well" in message


def test_a_multi_edit_names_the_edit_whose_lines_were_indented(session: Session, tmp_path: Path) -> None:
    edits = [
        {"old_string": "package a", "new_string": "package b"},
        {"old_string": "return 1", "new_string": "y()\nreturn 1"},
    ]
    output = session.call("MultiEdit", {"file_path": "a.go", "edits": edits}).text
    assert b"\t\ty()\r\n\t\treturn 1\r\n" in (tmp_path / "a.go").read_bytes()
    assert "2: exact, new lines indented like line 5" in output


def test_quotes_that_are_half_typographic_are_named_and_the_lines_are_shown(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('print("a", "“b”")\n', encoding="utf-8")
    session.call("Read", {"file_path": "a.py"})
    edit = {"old_string": 'print(“a”, "“b”")', "new_string": "print(“a”, “c”)"}
    result = session.call("Edit", {"file_path": "a.py", **edit})
    assert result.error
    assert result.error.code == "unsure_indent"
    assert "typographic" in result.text
    assert result.text.endswith('1\tprint("a", "“b”")')
