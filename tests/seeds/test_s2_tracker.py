"""S2-3 to S2-8: what a session remembers of files, and the answers for missing files and directories."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import EXISTS, MISSING, MODIFIED, NOT_READ, SAME


def _calls(path: str, old: str = "one", new: str = "two") -> list[tuple[str, dict[str, Any]]]:
    """The same change by Edit and by MultiEdit."""
    edit = {"old_string": old, "new_string": new}
    return [("Edit", {"file_path": path, **edit}), ("MultiEdit", {"file_path": path, "edits": [edit]})]


def _later(path: str, nanoseconds: int = 1_000_000_000) -> None:
    """Move the modification time; the bytes stay."""
    status = os.stat(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + nanoseconds))


def _bytes(path: str) -> bytes:
    return Path(path).read_bytes()


def test_s2_3_each_session_has_its_own_tracker(make_session: Callable[..., Session], file: Callable[..., str]) -> None:
    path = file("a.txt", "one\n")
    reader, other = (make_session(dialect="claude", durable=False) for _ in range(2))
    reader.call("Read", {"file_path": path})
    for tool, arguments in _calls(path):
        assert other.call(tool, arguments).text == NOT_READ
    assert reader.call("Edit", _calls(path)[0][1]).status == "ok"


def test_s2_3_the_tracker_keeps_the_modification_time_of_each_path(claude: Session, seen: Callable[..., str]) -> None:
    first, second = seen("a.txt", "one\n"), seen("b.txt", "one\n")
    _later(first)
    assert claude.call(*_calls(first)[0]).text == MODIFIED
    assert claude.call(*_calls(second)[0]).status == "ok"
    _later(first, -1_000_000_000)  # the very time that was noted when the file was read
    assert claude.call(*_calls(first)[0]).status == "ok"


def test_s2_4_a_file_that_was_not_read_is_not_changed(claude: Session, file: Callable[..., str]) -> None:
    path = file("a.txt", "one\n")
    for tool, arguments in _calls(path):
        result = claude.call(tool, arguments)
        assert (result.text, result.status) == (NOT_READ, "error")
    assert _bytes(path) == b"one\n"


def test_s2_4_reading_one_file_says_nothing_about_another(claude: Session, file: Callable[..., str]) -> None:
    read, unread = file("a.txt", "one\n"), file("b.txt", "one\n")
    claude.call("Read", {"file_path": read})
    assert claude.call(*_calls(unread)[0]).text == NOT_READ
    assert claude.call(*_calls(read)[0]).status == "ok"


def test_s2_4_a_read_that_was_refused_for_its_size_does_not_count(claude: Session, file: Callable[..., str]) -> None:
    whole = file("whole.txt", b"one " + b"x" * 300_000)
    part = file("part.txt", "one\n" + ("y" * 999 + "\n") * 100)
    for path in (whole, part):
        assert "exceeds maximum allowed" in claude.call("Read", {"file_path": path}).text
        for tool, arguments in _calls(path):
            assert claude.call(tool, arguments).text == NOT_READ, path


@pytest.mark.parametrize("step", [1_000_000_000, -1_000_000_000, 1_000_000])
def test_s2_5_another_modification_time_is_refused_even_with_the_same_bytes(
    claude: Session, seen: Callable[..., str], step: int
) -> None:
    path = seen("a.txt", "one\n")
    _later(path, step)
    for tool, arguments in _calls(path):
        result = claude.call(tool, arguments)
        assert (result.text, result.status) == (MODIFIED, "error")
    assert _bytes(path) == b"one\n"


def test_s2_5_other_bytes_are_refused_and_kept(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    Path(path).write_bytes(b"one\nand a line of the user's\n")
    _later(path)
    for tool, arguments in _calls(path):
        assert claude.call(tool, arguments).text == MODIFIED
    assert _bytes(path) == b"one\nand a line of the user's\n"


def test_s2_5_reading_again_leads_out(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    _later(path)
    assert claude.call(*_calls(path)[0]).text == MODIFIED
    claude.call("Read", {"file_path": path})
    assert claude.call(*_calls(path)[0]).status == "ok"
    assert _bytes(path) == b"two\n"


def test_s2_6_own_changes_need_no_second_read(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    chain = ["one", "two", "three", "four", "five"]
    for number, (old, new) in enumerate(pairwise(chain)):
        assert claude.call(*_calls(path, old, new)[number % 2]).status == "ok"
    assert _bytes(path) == b"five\n"


@pytest.mark.parametrize("which", [0, 1])
def test_s2_6_after_an_own_change_a_strangers_is_still_noticed(
    claude: Session, seen: Callable[..., str], which: int
) -> None:
    path = seen("a.txt", "one\n")
    assert claude.call(*_calls(path)[which]).status == "ok"
    _later(path)
    assert claude.call(*_calls(path, "two", "three")[which]).text == MODIFIED


def test_s2_6_a_created_file_counts_as_read(claude: Session, tmp_path: Path) -> None:
    for which, name in enumerate(["by_edit.txt", "by_multi_edit.txt"]):
        path = str(tmp_path / name)
        assert claude.call(*_calls(path, "", "one\n")[which]).status == "ok"
        for old, new in [("one", "two"), ("two", "three")]:
            assert claude.call(*_calls(path, old, new)[which]).status == "ok"
        assert _bytes(path) == b"three\n"


def test_s2_6_a_part_that_was_read_counts(claude: Session, file: Callable[..., str]) -> None:
    path = file("a.txt", "".join(f"line {number}\n" for number in range(1, 101)) + "one\n")
    claude.call("Read", {"file_path": path, "offset": 10, "limit": 5})
    assert claude.call(*_calls(path)[0]).status == "ok"


def test_s2_6_a_refused_edit_does_not_update_the_tracker(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    _later(path)
    for _ in range(3):
        assert claude.call(*_calls(path)[0]).text == MODIFIED


def test_s2_7_a_missing_file_wins_over_every_other_objection(claude: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "gone.txt")
    assert claude.call("Read", {"file_path": path}).text == MISSING
    assert claude.call("Read", {"file_path": path, "offset": 5, "limit": 5}).text == MISSING
    for old, new in [("one", "two"), ("one", "one")]:
        for tool, arguments in _calls(path, old, new):
            result = claude.call(tool, arguments)
            assert (result.text, result.status) == (MISSING, "error")
    assert list(tmp_path.iterdir()) == []


def test_s2_7_a_file_that_was_read_and_then_removed_does_not_exist(claude: Session, seen: Callable[..., str]) -> None:
    path = seen("a.txt", "one\n")
    os.unlink(path)
    for tool, arguments in [("Read", {"file_path": path}), *_calls(path)]:
        assert claude.call(tool, arguments).text == MISSING
    assert not os.path.exists(path)


def test_s2_7_similar_names_are_not_mentioned(claude: Session, file: Callable[..., str], tmp_path: Path) -> None:
    file("settings.txt", "one\n")
    assert claude.call("Read", {"file_path": str(tmp_path / "setting.txt")}).text == MISSING
    assert claude.call("Read", {"file_path": str(tmp_path / "no" / "such" / "dir.txt")}).text == MISSING


def test_s2_8_a_directory_is_named_with_the_operation(claude: Session, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    for path in (str(folder), str(folder) + "/", str(tmp_path)):
        edit, multi_edit = _calls(path)
        for tool, arguments, verb in [
            ("Read", {"file_path": path}, "read"),
            (*edit, "edit"),
            (*multi_edit, "multi_edit"),
        ]:
            result = claude.call(tool, arguments)
            expected = f"<tool_use_error>Illegal operation on a directory. {verb}</tool_use_error>"
            assert (result.text, result.status) == (expected, "error")


def test_s2_8_an_empty_old_string_does_not_create_a_file_over_a_directory(claude: Session, tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    for (tool, arguments), verb in zip(_calls(str(folder), "", "new"), ["edit", "multi_edit"], strict=True):
        assert claude.call(tool, arguments).text not in (EXISTS, SAME, MISSING)
        assert claude.call(tool, arguments).text.endswith(f"directory. {verb}</tool_use_error>")
    assert folder.is_dir()
