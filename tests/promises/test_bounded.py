"""Promise 8: every call ends, in bounded memory, whatever the file is.

Each case runs in a process of its own that is ended after 60 s; what it held at its peak, above an idle session, must
stay under 60 MB.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import sizes

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("bounded_driver.py")
MOST = 60 << 20
SECONDS = 60
TERABYTE = 1 << 40


@pytest.fixture
def run(tmp_path: Path, figure: Callable[..., None]) -> Callable[..., list[dict[str, Any]]]:
    """Make calls in a process of its own; answers with what they came to."""

    def run(*calls: tuple[str, dict[str, Any]], growing: str = "") -> list[dict[str, Any]]:
        command = [sys.executable, str(DRIVER), str(tmp_path), json.dumps(calls), growing]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=True)
        idle, *answers, end = map(json.loads, done.stdout.splitlines())
        above = end["peak"] - idle["peak"]
        figure(megabytes_above_idle=round(above / (1 << 20), 1), ends=[a["code"] or a["status"] for a in answers])
        assert above < MOST, f"{above >> 20} MB"
        return answers

    return run


EDIT = {"old_string": "a", "new_string": "b"}


def every_tool(name: str) -> list[tuple[str, dict[str, Any]]]:
    rest: dict[str, dict[str, Any]] = {"Read": {}, "Edit": EDIT, "Write": {"content": "x"}}
    return [(tool, {"file_path": name, **arguments}) for tool, arguments in rest.items()]


def sparse(path: Path, head: bytes, size: int) -> None:
    with open(path, "wb") as file:
        file.write(head)
        try:
            file.truncate(size)
        except OSError as error:
            pytest.skip(f"this file system cannot hold a file of {size >> 30} GB, not even a sparse one: {error}")


def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path, run: Callable[..., Any]) -> None:
    os.mkfifo(tmp_path / "f")
    answers = run(*every_tool("f"))
    assert [answer["code"] for answer in answers] == ["not_regular"] * 3


@pytest.mark.parametrize("linked", [False, True])
def test_an_endless_device_is_refused(tmp_path: Path, run: Callable[..., Any], linked: bool) -> None:
    try:
        os.mknod(tmp_path / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root can make a device node")
    name = "zero"
    if linked:
        (tmp_path / "link").symlink_to("zero")
        name = "link"
    answers = run(*every_tool(name))
    assert [answer["code"] for answer in answers] == ["not_regular"] * 3


def test_a_link_to_a_device_outside_is_denied(tmp_path: Path, run: Callable[..., Any]) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    assert [answer["code"] for answer in run(("Read", {"file_path": "link"}))] == ["outside_workspace"]


def test_a_sparse_terabyte_behind_text_is_paged_and_not_edited(tmp_path: Path, run: Callable[..., Any]) -> None:
    sparse(tmp_path / "f", b"first line\nsecond line\n" + b"text\n" * 4000, TERABYTE)
    first, far, tail, edit, write = run(
        ("Read", {"file_path": "f", "limit": 2}),
        ("Read", {"file_path": "f", "offset": 1_000_000}),
        ("Read", {"file_path": "f", "offset": -3}),
        ("Edit", {"file_path": "f", "old_string": "first", "new_string": "1st"}),
        ("Write", {"file_path": "f", "content": "small\n"}),
    )
    assert "second line" in first["text"]
    assert far["code"] == "timed_out" and tail["status"] in ("partial", "error")
    assert edit["code"] == write["code"] == "too_large_to_change"
    assert (tmp_path / "f").stat().st_size == TERABYTE


def test_a_sparse_terabyte_of_nothing_is_binary(tmp_path: Path, run: Callable[..., Any]) -> None:
    sparse(tmp_path / "f", b"", TERABYTE)
    answers = run(("Read", {"file_path": "f"}), ("Edit", {"file_path": "f", **EDIT}))
    assert [answer["code"] for answer in answers] == ["binary_file", "too_large_to_change"]


def test_an_endless_line_is_cut(tmp_path: Path, run: Callable[..., Any]) -> None:
    with open(tmp_path / "f", "wb") as file:
        for _ in range(300):
            file.write(b"a" * (1 << 20))
    first, further, tail, edit = run(
        ("Read", {"file_path": "f"}),
        ("Read", {"file_path": "f", "offset": 1, "limit": 1, "column": 100_000_000}),
        ("Read", {"file_path": "f", "offset": -1}),
        ("Edit", {"file_path": "f", **EDIT}),
    )
    assert first["status"] == "partial" and "column=2001" in first["text"]
    assert further["status"] in ("partial", "error") and tail["status"] in ("partial", "error")
    assert edit["code"] == "too_large_to_change"


def test_a_sparse_line_of_four_gigabytes_is_cut(tmp_path: Path, run: Callable[..., Any]) -> None:
    sparse(tmp_path / "f", b"a" * 100_000, 4 << 30)
    (answer,) = run(("Read", {"file_path": "f"}))
    assert answer["status"] == "partial" and "column=2001" in answer["text"]


def test_a_file_that_grows_while_it_is_read_is_left_behind(tmp_path: Path, run: Callable[..., Any]) -> None:
    (tmp_path / "f").write_bytes(b"one line\n" * 10)
    reads = [("Read", {"file_path": "f", "offset": offset}) for offset in (1, -5, 1, 500, -5)]
    answers = run(*reads, growing="f")
    assert answers[0]["status"] in ("ok", "partial") and answers[1]["status"] in ("ok", "partial")
    assert {answer["code"] for answer in answers} <= {"", "past_end", "timed_out"}


def test_any_page_of_millions_of_lines_is_found(tmp_path: Path, run: Callable[..., Any]) -> None:
    lines = sizes.pick(3_000_000, 10_000_000)  # more than 100 MB, and more line numbers than the limit would hold
    with open(tmp_path / "f", "wb") as file:
        for start in range(1, lines, 100_000):
            file.write(b"".join(b"line %d, which is not short\n" % number for number in range(start, start + 100_000)))
    assert (tmp_path / "f").stat().st_size > 1.5 * MOST
    half = lines // 2
    middle, next_page, tail, past = run(
        ("Read", {"file_path": "f", "offset": half, "limit": 2}),
        ("Read", {"file_path": "f", "offset": half + 2, "limit": 2}),
        ("Read", {"file_path": "f", "offset": -2}),
        ("Read", {"file_path": "f", "offset": lines + 1}),
    )
    assert f"line {half}," in middle["text"] and f"line {half + 1}," in middle["text"]
    assert middle["data"]["next_offset"] == half + 2 and f"line {half + 2}," in next_page["text"]
    assert f"line {lines - 1}," in tail["text"] and f"line {lines}," in tail["text"]
    assert past["code"] == "past_end"
