"""Numbers of thousands of digits, which Python refuses to convert, are answered like any other wrong value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session

_HUGE = "9" * 5000
_GUTTERS = (
    "{}: a",
    "{}| a",
    "{}\ta",
    "L{}: a",
    "[{}] a",
    "({}) a",
    "<{}> a",
    "line {}: a",
    "a.py:{}:a",
    "{}. a\n{}. b",
)
_CALLS = [
    *(("Edit", {"file_path": "a.txt", "old_string": text, "new_string": "x"}, "no_match") for text in _GUTTERS),
    *(("Edit", {"file_path": "a.txt", "old_string": "a\nc", "new_string": text}, "no_match") for text in _GUTTERS),
    ("Edit", {"file_path": "a.txt", "old_string": "&#{};", "new_string": "x"}, "no_match"),
    ("Grep", {"pattern": "a{{{}}}"}, "bad_pattern"),
    ("Grep", {"pattern": "a{{1,{}}}"}, "bad_pattern"),
    ("Bash", {"command": "true", "timeout": "{}"}, "timeout_too_long"),
]


@pytest.mark.parametrize(("tool", "arguments", "code"), _CALLS)
def test_a_number_of_thousands_of_digits_is_no_internal_error(
    make_session: Callable[..., Session], tmp_path: Path, tool: str, arguments: dict[str, str], code: str
) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n", encoding="utf-8")
    session = make_session()
    session.call("Read", {"file_path": "a.txt"})
    filled = {key: value.replace("{}", _HUGE).replace("{{", "{").replace("}}", "}") for key, value in arguments.items()}
    result = session.call(tool, filled)
    assert result.error is not None and result.error.code == code
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "a\nb\n"
