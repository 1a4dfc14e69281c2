"""The dialect `hello` beyond its document: bash, answers as JSON objects, and what the house checks all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import put

Make = Callable[..., Session]


@pytest.fixture
def hello(make_session: Make) -> Session:
    return make_session(dialect="hello", durable=False)


def _bash(session: Session, command: str, **more: Any) -> Any:
    result = session.call("bash", {"command": command, **more})
    assert result.ok, result.text
    return json.loads(result.text)


def test_a_command_answers_with_its_output_and_exit_code(hello: Session) -> None:
    result = hello.call("bash", {"command": "echo 中; echo err >&2"})
    assert result.text == '{\n  "output": "中\\nerr",\n  "exitCode": 0\n}'
    assert [block["text"] for block in result.blocks] == [result.text]


def test_a_command_that_fails_answers_in_the_same_way(hello: Session) -> None:
    assert _bash(hello, "echo out; exit 3") == {"output": "out", "exitCode": 3}
    assert _bash(hello, "false") == {"output": "", "exitCode": 1}


def test_of_long_output_the_first_8000_characters_are_shown_and_the_rest_is_kept(hello: Session) -> None:
    answer = _bash(hello, "seq 1 90000")
    whole = "".join(f"{number}\n" for number in range(1, 90_001))
    shown, _, note = answer["output"].partition("\n...(truncated)")
    assert whole.startswith(shown) and 7_990 <= len(shown) <= 8_000
    assert answer["log"] in note
    read = hello.call("read_file", {"file_path": answer["log"], "offset": 89_999, "limit": 2})
    assert read.text == " 89999→89999\n 90000→90000"


def test_a_command_has_two_minutes_and_models_cannot_ask_for_more(hello: Session) -> None:
    limits = hello.dialect.limits("bash")
    assert (limits.seconds, limits.most_seconds) == (120, 120)
    assert hello.call("bash", {"command": "true", "timeout": 1}).error is not None


def test_files_that_a_command_changed_are_named(hello: Session, tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "one\n")
    hello.call("read_file", {"file_path": "a.txt"})
    assert _bash(hello, "echo two > a.txt") == {"output": "", "exitCode": 0, "changed": ["a.txt"]}


@pytest.mark.parametrize("command", ["", " ", "if", "sudo ls"])
def test_what_is_no_command_or_a_dangerous_one_is_told_in_words(hello: Session, command: str) -> None:
    result = hello.call("bash", {"command": command})
    assert result.text.startswith("错误:") and not result.ok


def test_a_file_that_changed_since_it_was_read_is_not_overwritten(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    hello.call("read_file", {"file_path": "a.txt"})
    path.write_bytes(b"by another program\n")
    result = hello.call("write_file", {"file_path": "a.txt", "content": "mine\n"})
    assert result.text == "错误:文件在读取之后已发生变化,请重新 read_file"
    assert path.read_bytes() == b"by another program\n"


def test_an_edit_beside_a_strangers_change_is_made_and_says_so(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\ntwo\n")
    hello.call("read_file", {"file_path": "a.txt"})
    path.write_bytes(b"one\nzwei\n")
    result = hello.call("edit_file", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})
    answer = json.loads(result.text)
    assert (answer["ok"], result.status, len(answer["notes"])) == (True, "partial", 1)
    assert "第 2 行" in answer["notes"][0]
    assert path.read_bytes() == b"1\nzwei\n"


def test_content_that_is_missing_does_not_empty_a_file_that_was_not_read(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    assert hello.call("write_file", {"file_path": "a.txt"}).text.startswith("错误:目标文件已存在,请先用 read_file")
    assert path.read_bytes() == b"one\n"


def test_an_empty_old_string_is_no_edit(hello: Session, tmp_path: Path) -> None:
    path = put(tmp_path, "a.txt", "one\n")
    hello.call("read_file", {"file_path": "a.txt"})
    for every in (False, True):
        arguments = {"file_path": "a.txt", "old_string": "", "new_string": "x", "replace_all": every}
        assert hello.call("edit_file", arguments).text.startswith("错误:old_string 为空")
    assert path.read_bytes() == b"one\n"
