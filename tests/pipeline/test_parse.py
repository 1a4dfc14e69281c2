"""Bad input gets a clear answer that names every mistake; sloppy input is taken where it is unambiguous."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session

Make = Callable[..., Session]


@pytest.fixture
def session(make_session: Make, tmp_path: Path) -> Session:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    opened = make_session(durable=False)
    opened.call("Read", {"file_path": "a.txt"})
    return opened


def refused(result: Result, code: str = "bad_arguments") -> str:
    assert (result.status, result.error and result.error.code) == ("error", code), result.text
    return result.text


def test_stringified_numbers_are_taken(session: Session) -> None:
    result = session.call("Read", {"file_path": "a.txt", "offset": "2", "limit": "1"})
    assert result.data["first"] == result.data["last"] == 2


def test_a_whole_number_written_as_a_float_is_taken(session: Session) -> None:
    assert session.call("Read", {"file_path": "a.txt", "offset": 2.0}).data["first"] == 2


@pytest.mark.parametrize("yes", ["true", "True", True])
def test_stringified_booleans_are_taken(session: Session, tmp_path: Path, yes: Any) -> None:
    arguments = {"file_path": "a.txt", "old_string": "t", "new_string": "T", "replace_all": yes}
    assert session.call("Edit", arguments).status == "ok"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\nTwo\nThree\n"


def test_a_stringified_false_is_false(session: Session) -> None:
    arguments = {"file_path": "a.txt", "old_string": "t", "new_string": "T", "replace_all": "false"}
    refused(session.call("Edit", arguments), "many_matches")


def test_stringified_json_arrays_are_taken(session: Session, tmp_path: Path) -> None:
    edits = json.dumps([{"old_string": "one", "new_string": "1"}, {"old_string": "two", "new_string": "2"}])
    assert session.call("MultiEdit", {"file_path": "a.txt", "edits": edits}).status == "ok"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "1\n2\nthree\n"


def test_text_that_looks_like_json_stays_text(session: Session, tmp_path: Path) -> None:
    assert session.call("Write", {"file_path": "b.json", "content": "[1, 2]"}).status == "ok"
    assert (tmp_path / "b.json").read_text(encoding="utf-8") == "[1, 2]"


def test_arguments_may_be_one_json_string(session: Session) -> None:
    assert session.call("Read", '{"file_path": "a.txt"}').status == "ok"


@pytest.mark.parametrize("sent", ["{", "", "[1]", "3", '"a.txt"', "null x", "nul"])
def test_a_string_that_is_no_json_object_is_refused_with_the_reason(session: Session, sent: str) -> None:
    assert "JSON object" in refused(session.call("Read", sent), "bad_json")


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_json_that_is_nested_without_end_is_bad_json_and_not_our_fault(session: Session, opening: str) -> None:
    refused(session.call("Read", opening * 100_000), "bad_json")


def test_a_stringified_array_that_is_nested_without_end_is_a_bad_argument(session: Session) -> None:
    refused(session.call("MultiEdit", {"file_path": "a.txt", "edits": "[" * 100_000}))


def test_every_mistake_is_named_at_once(session: Session) -> None:
    text = refused(session.call("Read", {"path": "a.txt", "offset": "soon", "limit": 0, "colour": "red"}))
    for name in ("path", "file_path", "offset", "limit", "colour"):
        assert f"- {name}: " in text
    assert "'soon'" in text
    assert "greater than or equal to 1" in text


def test_a_missing_argument_is_described(session: Session) -> None:
    text = refused(session.call("Read", {}))
    assert "file_path: missing" in text
    assert "The file to read" in text


def test_a_missing_argument_inside_a_list_is_described_at_its_place(session: Session) -> None:
    text = refused(session.call("MultiEdit", {"file_path": "a.txt", "edits": [{"old_string": "one"}]}))
    assert "edits[0].new_string: missing" in text
    assert "The new text (string)" in text


def test_an_unknown_argument_inside_a_list_is_named(session: Session, tmp_path: Path) -> None:
    edits = [{"old_string": "one", "new_string": "1", "all": True}]
    assert "edits[0].all" in refused(session.call("MultiEdit", {"file_path": "a.txt", "edits": edits}))
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_an_unknown_argument_gets_the_nearest_name(session: Session) -> None:
    assert "did you mean file_path?" in refused(session.call("Read", {"filepath": "a.txt"}))


def test_an_unknown_argument_like_none_gets_all_names(session: Session) -> None:
    text = refused(session.call("Write", {"file_path": "x", "content": "", "zzz": 1}))
    assert "the arguments are file_path, content" in text


def test_an_unknown_argument_cannot_forge_lines_of_the_answer(session: Session) -> None:
    text = refused(session.call("Read", {"file_path": "a.txt", "x\n- file_path: fine\u202e": 1}))
    assert "\\n" in text
    assert "\n- file_path" not in text
    assert "\u202e" not in text


def test_null_for_an_optional_argument_is_as_if_it_were_not_given(session: Session) -> None:
    assert session.call("Read", {"file_path": "a.txt", "offset": None, "limit": None}).data["last"] == 3


def test_null_for_a_required_argument_is_named(session: Session) -> None:
    assert "file_path" in refused(session.call("Read", {"file_path": None}))


def test_a_bad_call_writes_nothing(session: Session, tmp_path: Path) -> None:
    refused(session.call("Write", {"file_path": "new.txt", "content": "x", "mode": "a"}))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt"]


def test_an_unknown_tool_gets_the_tools_that_there_are(session: Session) -> None:
    text = refused(session.call("Cat", {}), "unknown_tool")
    assert "Read, Write, Edit, MultiEdit" in text


def test_the_name_of_an_unknown_tool_is_shown_escaped(session: Session) -> None:
    assert "a\\nb" in refused(session.call("a\nb", {}), "unknown_tool")


def test_a_long_wrong_value_is_not_repeated_in_full(session: Session) -> None:
    assert len(refused(session.call("Read", {"file_path": "a.txt", "offset": "x" * 10_000}))) < 400


@pytest.mark.parametrize("value", [1.5, "1.5", [], {}, "", "two", 10**40, -(10**40), True])
def test_no_value_of_a_number_breaks_the_session(session: Session, value: Any) -> None:
    for name in ("offset", "limit", "column"):
        result = session.call("Read", {"file_path": "a.txt", name: value})
        assert result.error is None or result.error.code in ("bad_arguments", "past_end", "past_column"), (
            name,
            result.text,
        )


@pytest.mark.parametrize(
    "value", [3, None, [], {}, True, "", "\0", "a\0b", "\ud800", "x" * 5000, "a/" * 3000], ids=lambda it: repr(it)[:9]
)
def test_no_value_of_a_path_breaks_the_session(session: Session, value: Any) -> None:
    for tool, rest in (("Read", {}), ("Write", {"content": "x"}), ("Edit", {"old_string": "a", "new_string": "b"})):
        result = session.call(tool, {"file_path": value, **rest})
        assert result.error and result.error.code in ("bad_arguments", "bad_path", "not_found"), (tool, result.text)
