"""S4-20 to S4-24 and S4-26: Read, the optimistic lock and the envelope itself, in the dialect `envelope`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import put

Make = Callable[..., Session]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def session(make_session: Make) -> Session:
    return make_session(dialect="envelope", durable=False)


@pytest.fixture
def ask(session: Session) -> Ask:
    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(session.call(tool, arguments).text)
        return result

    return call


def lines(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_s4_20_500_numbered_lines_unless_more_are_asked_for(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", lines(2500))
    page = ask("Read", path="a.txt")
    rows = page["data"]["content"].split("\n")
    assert (rows[0], rows[-1], len(rows)) == ("   1 | line 1", " 500 | line 500", 500)
    assert page["status"] == "partial" and "go on with start_line=501" in page["text"]
    assert len(ask("Read", path="a.txt", limit=2000)["data"]["content"].split("\n")) == 2000
    most = ask("Read", path="a.txt", limit=9999)
    assert len(most["data"]["content"].split("\n")) == 2000 and most["data"]["truncated"] is True


def test_s4_20_from_a_line_on(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", lines(12))
    actual = ask("Read", path="a.txt", start_line=11, limit=10)
    assert actual["data"]["content"] == "  11 | line 11\n  12 | line 12"
    assert actual["status"] == "success" and "truncated" not in actual["data"]


def test_s4_21_a_null_byte_in_the_first_8_kb_is_refused(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"x" * 8191 + b"\0" + b"y" * 100)
    actual = ask("Read", path="a.bin")
    assert (actual["status"], actual["error"]["code"]) == ("error", "BINARY_FILE")


def test_s4_21_even_if_it_would_be_a_picture_or_another_encoding(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("text".encode("utf-16"))
    assert ask("Read", path="a.txt")["error"]["code"] == "BINARY_FILE"


def test_s4_22_what_is_not_utf_8_is_replaced_and_flagged(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\nplain\n")
    actual = ask("Read", path="a.txt")
    assert actual["data"]["content"] == "   1 | caf\ufffd\n   2 | plain"
    assert (actual["status"], actual["data"]["fallback_encoding"]) == ("partial", "replace")
    assert "not valid UTF-8" in actual["text"]


def test_s4_23_a_change_by_another_program_is_told(ask: Ask, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    assert "modified_externally" not in ask("Read", path="a.txt")["data"]
    path.write_text("two\n", encoding="utf-8")
    actual = ask("Read", path="a.txt")
    assert actual["data"]["modified_externally"] is True and "modified_externally" in actual["text"]
    assert "modified_externally" not in ask("Read", path="a.txt")["data"]


def test_s4_24_the_time_of_the_last_change_is_told_and_guards_later_writes(ask: Ask, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    os.utime(path, ns=(10**18, 1_700_000_000_123_000_000))
    assert ask("Read", path="a.txt")["data"]["file_mtime_ms"] == 1_700_000_000_123
    assert ask("Edit", path="a.txt", old_string="one", new_string="two")["data"]["applied"] is True
    assert path.read_text(encoding="utf-8") == "two\n"
    os.utime(path, ns=(10**18, 1_800_000_000_000_000_000))
    for tool, arguments in (
        ("Edit", {"old_string": "two", "new_string": "six"}),
        ("Write", {"content": "six"}),
        ("MultiEdit", {"edits": [{"old_string": "two", "new_string": "six"}]}),
    ):
        actual = ask(tool, path="a.txt", **arguments)
        assert (actual["status"], actual["error"]["code"]) == ("error", "CONFLICT"), tool
    assert path.read_text(encoding="utf-8") == "two\n"


def test_s4_26_an_envelope_has_these_keys_and_no_others(session: Session, tmp_path: Path) -> None:
    put(tmp_path, "ä.txt", "grün\n")
    text = session.call("Read", {"path": "ä.txt"}).text
    actual = json.loads(text)
    assert list(actual) == ["status", "data", "text", "stats", "context"]
    assert text == json.dumps(actual, ensure_ascii=False, indent=2) and "grün" in text
    assert actual["context"] == {"cwd": str(tmp_path), "params_input": {"path": "ä.txt"}, "path_resolved": "ä.txt"}
    assert isinstance(actual["stats"]["time_ms"], int)
    failed = json.loads(session.call("Read", {"path": "missing"}).text)
    assert list(failed) == ["status", "data", "text", "error", "stats", "context"]
    assert failed["error"] == {"code": "NOT_FOUND", "message": failed["text"]}


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("Read", {"path": "missing"}, "NOT_FOUND"),
        ("Read", {"path": "../x"}, "ACCESS_DENIED"),
        ("Read", {"path": "src"}, "IS_DIRECTORY"),
        ("Read", {}, "INVALID_PARAM"),
        ("Read", {"path": "a.txt", "start_line": "x"}, "INVALID_PARAM"),
        ("LS", {"path": "a.txt"}, "INVALID_PARAM"),
        ("LS", {"path": "missing"}, "NOT_FOUND"),
        ("Nope", {}, "INVALID_PARAM"),
        ("Edit", {"path": "a.txt", "old_string": "a", "new_string": "b"}, "CONFLICT"),
        ("Write", {"path": "../x", "content": ""}, "ACCESS_DENIED"),
    ],
)
def test_s4_26_every_failure_has_a_code_of_the_protocol(
    ask: Ask, tmp_path: Path, tool: str, arguments: dict[str, Any], code: str
) -> None:
    put(tmp_path, "a.txt", "a\n")
    (tmp_path / "src").mkdir()
    actual = ask(tool, **arguments)
    assert (actual["status"], actual["error"]["code"], actual["data"]) == ("error", code, {})


def test_s4_26_a_bug_is_an_internal_error(make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session(dialect="envelope", raise_bugs=False)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(session.workspace), "stat", broken)
    assert json.loads(session.call("LS", {}).text)["error"]["code"] == "INTERNAL_ERROR"
