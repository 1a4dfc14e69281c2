"""A program that found a file before it was replaced, and opens it only afterwards: what it writes is not lost.

A descriptor opened with `O_PATH` stands for such a program: it knows the file, and has not opened it yet.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, system_calls
from handrail.files import commit, versions
from tests.command import TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="O_PATH and /proc are Linux's")

Make = Callable[..., Session]


def find(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_NOFOLLOW)


def write_late(handle: int, data: bytes, flags: int = os.O_APPEND) -> None:
    fd = os.open(f"/proc/self/fd/{handle}", os.O_WRONLY | flags)
    os.write(fd, data)
    os.close(fd)
    os.close(handle)


def edit(session: Session, old: str, new: str) -> None:
    result = session.call("Edit", {"file_path": "f.txt", "old_string": old, "new_string": new})
    assert result.error is None, result.text


def opened(tmp_path: Path) -> tuple[Session, Path]:
    path = tmp_path / "f.txt"
    path.write_text("one\ntwo\n", encoding="ascii")
    session = Session(tmp_path)
    session.call("Read", {"file_path": "f.txt"})
    return session, path


def test_what_is_appended_to_the_replaced_file_is_in_the_new_one(tmp_path: Path) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    write_late(fd, b"three\n")
    session.close()
    assert path.read_bytes() == b"1\ntwo\nthree\n"
    assert os.listdir(tmp_path) == ["f.txt"]


def test_it_goes_to_the_file_that_has_the_name_after_further_edits(tmp_path: Path) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    edit(session, "two", "2")
    write_late(fd, b"three\n")
    session.close()
    assert path.read_bytes() == b"1\n2\nthree\n"


def test_the_next_edit_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    write_late(fd, b"three\n")
    commit.check_replaced()
    session.call("Read", {"file_path": "f.txt"})
    edit(session, "three", "3")
    assert path.read_bytes() == b"1\ntwo\n3\n"
    session.close()


@pytest.mark.parametrize("late", [b"", b"four\n"])
def test_a_file_that_grew_while_it_was_read_is_no_other_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bytes
) -> None:
    session, path = opened(tmp_path)
    read_all, grown = versions.read_all, list[int]()

    def grow(fd: int, most: int, size: int | None = None) -> bytes | None:
        with path.open("ab") as file:  # the size was taken, and the file is not read yet
            grown.append(file.write(b"three\n"))
        return read_all(fd, most, size)

    monkeypatch.setattr(versions, "read_all", grow)
    handle = find(path)
    edit(session, "one", "1")
    write_late(handle, late)
    session.close()
    assert grown
    assert path.read_bytes() == b"1\ntwo\n" + b"three\n" * len(grown) + late
    assert os.listdir(tmp_path) == ["f.txt"]


def test_a_fork_leaves_the_rescue_to_its_parent(tmp_path: Path) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    write_late(fd, b"three\n")
    child = multiprocessing.get_context("fork").Process(target=commit.check_replaced)
    child.start()
    child.join(TIMEOUT)
    assert child.exitcode == 0
    session.close()
    assert path.read_bytes() == b"1\ntwo\nthree\n"


@pytest.mark.parametrize("late", [b"ONE", b"a quite different and longer text\n"])
def test_a_version_written_in_place_is_saved_beside_the_file(tmp_path: Path, late: bytes) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "two", "2")
    write_late(fd, late, 0)
    session.close()
    assert path.read_bytes() == b"one\n2\n"
    (kept,) = tmp_path.glob("f.txt.kept-*")
    assert kept.read_bytes() == late + b"one\ntwo\n"[len(late) :]


def test_where_the_name_is_gone_the_version_is_saved_beside_it(tmp_path: Path) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    path.unlink()
    write_late(fd, b"three\n")
    session.close()
    (kept,) = tmp_path.iterdir()
    assert kept.read_bytes() == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("moments", [(1,), (1, 2), (1, 2, 3), (2,), (2, 3)])
def test_versions_that_another_program_has_replaced_itself_are_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moments: tuple[int, ...]
) -> None:
    """``moments``: before which exchanges of names another program renames a file of its own over ours.

    An edit exchanges once; a second time to undo that, and again for each version that it meets there.
    """
    session, path = opened(tmp_path)
    exchange, calls = system_calls.exchange, list[int]()
    newest = b"one\ntwo\n"

    def meet(one: str, other: str, directory: int) -> bool:
        nonlocal newest
        calls.append(1)
        if len(calls) in moments:
            newest += b"%d\n" % len(calls)
            (tmp_path / "theirs").write_bytes(newest)
            (tmp_path / "theirs").rename(path)
        return exchange(one, other, directory)

    monkeypatch.setattr(system_calls, "exchange", meet)
    if moments[0] == 2:
        monkeypatch.setattr(commit.Exchange, "wanted", lambda exchange: exchange.exchanged)
    result = session.call("Edit", {"file_path": "f.txt", "old_string": "one", "new_string": "1"})
    session.close()
    if result.error is None:  # it was tried again, on the newest version
        newest = newest.replace(b"one", b"1")
    assert path.read_bytes() == newest
    assert os.listdir(tmp_path) == ["f.txt"]


def test_other_metadata_is_no_write(tmp_path: Path) -> None:
    session, path = opened(tmp_path)
    fd = find(path)
    edit(session, "one", "1")
    os.chmod(f"/proc/self/fd/{fd}", 0o600)
    os.utime(f"/proc/self/fd/{fd}", (1, 1))
    os.close(fd)
    session.close()
    assert path.read_bytes() == b"1\ntwo\n" and os.listdir(tmp_path) == ["f.txt"]


def test_the_number_of_open_replaced_files_is_bounded(tmp_path: Path) -> None:
    session, _ = opened(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(200):
        edit(session, "two" if number % 2 == 0 else "2", "2" if number % 2 == 0 else "two")
    assert len(os.listdir("/proc/self/fd")) <= before + 2 * 66
    session.close()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Edit", {"file_path": "d/f.txt", "old_string": "one", "new_string": "1"}),
        ("Write", {"file_path": "d/new.txt", "content": "1\ntwo\n"}),
        ("Move", {"source_path": "g.txt", "target_path": "d/g.txt"}),
        ("Move", {"source_path": "sub", "target_path": "d/sub"}),
        ("Trash", {"path": "d/f.txt"}),
    ],
)
def test_a_change_in_a_directory_that_was_just_replaced_is_made_in_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, str]
) -> None:
    """As the keep of a draft does it: the old directory goes elsewhere, and a copy with other files has its name."""
    workspace, away = tmp_path / "workspace", tmp_path / "away"
    for place in (workspace / "d", tmp_path / "copy", workspace / "sub"):
        place.mkdir(parents=True)
        (place / "f.txt").write_text("one\ntwo\n", encoding="ascii")
    (workspace / "g.txt").write_text("one\ntwo\n", encoding="ascii")
    rename_new, exchange = system_calls.rename_new, system_calls.exchange

    def replace_directory() -> None:
        if not away.exists():
            os.rename(workspace / "d", away)
            os.rename(tmp_path / "copy", workspace / "d")

    def rename_late(*words: Any) -> None:
        replace_directory()
        rename_new(*words)

    def exchange_late(*words: Any) -> bool | None:
        replace_directory()
        return exchange(*words)

    with Session(workspace, mode="full") as session:
        session.call("Read", {"file_path": "d/f.txt"})
        monkeypatch.setattr(system_calls, "rename_new", rename_late)
        monkeypatch.setattr(system_calls, "exchange", exchange_late)
        result = session.call(tool, arguments)
    assert away.exists() and os.listdir(away) == ["f.txt"]
    assert (away / "f.txt").read_text(encoding="ascii") == "one\ntwo\n"
    target = (
        workspace / next(reversed(arguments.values())) if tool == "Move" else workspace / next(iter(arguments.values()))
    )
    if result.ok:
        assert target.exists() == (tool != "Trash") and (tool != "Edit" or "1" in target.read_text(encoding="ascii"))
    else:
        assert tool not in ("Edit", "Write"), result.text
        assert all((workspace / name).exists() for name in ("d/f.txt", "g.txt", "sub/f.txt"))
