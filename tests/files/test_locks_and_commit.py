"""Locks and commits seen from one machine: waiting, mending what a dead process left, and putting things back."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session
from handrail.files.locks import Locks
from handrail.files.recovery import recover
from tests.command import TIMEOUT

Make = Callable[..., Session]


def edit(session: Session, name: str, old: str, new: str) -> Result:
    return session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def lock_files() -> list[Path]:
    folder = Path(os.environ["HANDRAIL_STATE"]) / "locks"
    return sorted(folder.iterdir()) if folder.is_dir() else []


def locks(wait: float = 30.0) -> Locks:
    return Locks(os.path.join(os.environ["HANDRAIL_STATE"], "locks"), recover, wait)


def left_behind(part: list[Any] | None = None, doing: str = "swaps") -> Path:
    """The record of a process that was killed in the middle of a commit."""
    folder = Path(os.environ["HANDRAIL_STATE"]) / "locks"
    folder.mkdir(exist_ok=True)
    path = folder / f"{0:016x}"
    path.write_text(json.dumps([{"doing": doing, "parts": [part]}]), encoding="ascii")
    return path


def part(directory: Path, name: str, temp: str, new_ino: int, old: bytes | None, new: bytes = b"new\n") -> list[Any]:
    place, kind = directory.stat(), "exchange" if old is not None else "new"
    digests = [None if raw is None else hashlib.sha256(raw).hexdigest() for raw in (old, new)]
    return [str(directory), place.st_dev, place.st_ino, f"{kind:8}", temp, name, f"{new_ino:016x}", *digests]


def needs_leases(folder: Path) -> None:
    """Without leases an open writer cannot be noticed: then there is nothing to wait for."""
    probe = folder / "probe"
    probe.touch()
    fd = os.open(probe, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except (AttributeError, OSError) as error:
        pytest.skip(f"no file leases here: {error}")
    finally:
        os.close(fd)
        probe.unlink()


TEMP = ".handrail-0123456789abcdef"


@pytest.fixture
def seen(make_session: Make, tmp_path: Path) -> Session:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    return session


def test_nothing_is_left_in_the_tree_and_no_intent_in_the_locks(seen: Session, tmp_path: Path) -> None:
    assert edit(seen, "a.txt", "one", "1").status == "ok"
    assert code(edit(seen, "a.txt", "zero", "0")) == "no_match"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert lock_files()
    assert all(path.stat().st_size == 0 for path in lock_files())
    assert all(path.stat().st_mode & 0o077 == 0 for path in lock_files())


def test_reading_takes_no_lock(seen: Session) -> None:
    assert lock_files() == []


def test_a_call_waits_for_the_lock_and_then_gives_up_with_a_way_out(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\n")
    session = make_session(durable=False, lock_seconds=0.05)
    session.call("Read", {"file_path": "a.txt"})
    assert edit(session, "a.txt", "one", "two").status == "ok"
    with locks().hold([str(tmp_path / "a.txt")]):
        result = edit(session, "a.txt", "two", "three")
        assert (code(result), "a.txt is in use" in result.text) == ("busy", True)
        assert (tmp_path / "a.txt").read_bytes() == b"two\n"
    assert edit(session, "a.txt", "two", "three").status == "ok"


def test_a_call_that_waited_sees_what_the_other_one_wrote(make_session: Make, seen: Session, tmp_path: Path) -> None:
    assert edit(seen, "a.txt", "one", "1").status == "ok"
    done: list[Result] = []
    with locks().hold([str(tmp_path / "a.txt")]):
        thread = threading.Thread(target=lambda: done.append(edit(seen, "a.txt", "two", "2")))
        thread.start()
        (tmp_path / "a.txt").write_bytes(b"1\ntwo\nthree\n")
    thread.join()
    assert [result.error for result in done] == [None]
    assert (tmp_path / "a.txt").read_bytes() == b"1\n2\nthree\n"


def test_the_temporary_file_of_a_killed_process_goes_with_the_next_call(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old\n")
    (tmp_path / TEMP).write_bytes(b"half of the n")
    lock = left_behind(part(tmp_path, "a.txt", TEMP, 0, b"old\n"), "write")
    make_session().call("Read", {"file_path": "a.txt"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"old\n"
    assert not lock.exists()


@pytest.mark.parametrize("doing", ["swaps", "ready"])
def test_killed_after_the_exchange_the_new_file_stays_and_the_old_one_goes(
    make_session: Make, tmp_path: Path, doing: str
) -> None:
    (tmp_path / "a.txt").write_bytes(b"new\n")
    (tmp_path / TEMP).write_bytes(b"old\n")
    left_behind(part(tmp_path, "a.txt", TEMP, (tmp_path / "a.txt").stat().st_ino, b"old\n"), doing)
    make_session().call("Read", {"file_path": "a.txt"})
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_bytes() == b"new\n"


@pytest.mark.parametrize("doing", ["swaps", "ready"])
def test_killed_after_taking_away_a_strangers_write_it_is_put_back(
    make_session: Make, tmp_path: Path, doing: str
) -> None:
    (tmp_path / "a.txt").write_bytes(b"ours\n")
    (tmp_path / TEMP).write_bytes(b"a stranger wrote this\n")
    inode = (tmp_path / "a.txt").stat().st_ino
    left_behind(part(tmp_path, "a.txt", TEMP, inode, b"old\n", b"ours\n"), doing)
    make_session().call("Read", {"file_path": "a.txt"})
    assert (tmp_path / "a.txt").read_bytes() == b"a stranger wrote this\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("doing", ["swaps", "ready"])
def test_two_strangers_writes_are_both_kept(make_session: Make, tmp_path: Path, doing: str) -> None:
    (tmp_path / "a.txt").write_bytes(b"the second stranger\n")
    (tmp_path / TEMP).write_bytes(b"the first stranger\n")
    left_behind(part(tmp_path, "a.txt", TEMP, (tmp_path / TEMP).stat().st_ino + 1_000_000, b"old\n"), doing)
    make_session().call("Read", {"file_path": "a.txt"})
    assert (tmp_path / "a.txt").read_bytes() == b"the second stranger\n"
    assert sorted(path.read_bytes() for path in tmp_path.iterdir())[0] == b"the first stranger\n"


def test_an_intent_for_a_directory_that_was_replaced_touches_nothing(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    left = part(tmp_path / "dir", "a.txt", TEMP, 0, None)
    left[2] += 1
    (tmp_path / "dir" / TEMP).write_bytes(b"not ours")
    left_behind(left)
    make_session().call("Read", {"file_path": "x"})
    assert (tmp_path / "dir" / TEMP).read_bytes() == b"not ours"


@pytest.mark.parametrize("temp", ["precious.txt", "../precious.txt", ".handrail-x/../precious.txt"])
def test_no_intent_removes_a_file_that_is_not_a_temporary_one_of_ours(
    make_session: Make, tmp_path: Path, temp: str
) -> None:
    folder = tmp_path / "dir"
    (folder / ".handrail-x").mkdir(parents=True)
    for place in (folder, tmp_path):
        (place / "precious.txt").write_bytes(b"precious")
    left_behind(part(folder, "a.txt", temp, 0, None))
    make_session().call("Read", {"file_path": "x"})
    assert (folder / "precious.txt").exists() and (tmp_path / "precious.txt").exists()


@pytest.mark.parametrize("raw", [b"{", b"\xff\xfe", b"[", b'[{"directory', b"\0" * 40])
def test_a_lock_file_that_was_cut_short_does_no_harm(make_session: Make, tmp_path: Path, raw: bytes) -> None:
    left_behind().write_bytes(raw)
    assert make_session().call("Write", {"file_path": "a.txt", "content": "x"}).status == "ok"


@pytest.mark.parametrize("raw", [b"5", b"[1]", b"{}", b"[{}]", b'[{"doing": "swaps", "parts": 7}]', b"null", b'"x"'])
def test_a_lock_file_of_another_version_does_not_wedge_every_call(
    make_session: Make, tmp_path: Path, raw: bytes
) -> None:
    left_behind().write_bytes(raw)
    session = make_session()
    assert session.call("Write", {"file_path": "a.txt", "content": "x"}).status == "ok"
    assert session.call("Read", {"file_path": "a.txt"}).status == "ok"


def test_a_stray_directory_among_the_locks_does_not_wedge_every_call(make_session: Make, tmp_path: Path) -> None:
    (left_behind().parent / "strange").mkdir()
    assert make_session().call("Write", {"file_path": "a.txt", "content": "x"}).status == "ok"


def test_an_edit_under_an_open_writer_waits_for_it_or_refuses(seen: Session, tmp_path: Path) -> None:
    needs_leases(tmp_path)
    with (tmp_path / "a.txt").open("r+b") as writer:
        result = edit(seen, "a.txt", "one", "1")
        assert code(result) == "busy"
        assert "open for writing" in result.text
        writer.seek(0)
        writer.write(b"ONE")
    assert (tmp_path / "a.txt").read_bytes() == b"ONE\ntwo\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    seen.call("Read", {"file_path": "a.txt"})
    assert edit(seen, "a.txt", "ONE", "1").status == "ok"


def test_a_formatter_that_saves_while_an_edit_waits_loses_nothing(seen: Session, tmp_path: Path) -> None:
    needs_leases(tmp_path)
    path, done = tmp_path / "a.txt", []
    with path.open("r+b"):
        thread = threading.Thread(target=lambda: done.append(edit(seen, "a.txt", "one", "1")))
        thread.start()
        time.sleep(0.3)
        (tmp_path / "fresh").write_bytes(b"formatted\n")
        (tmp_path / "fresh").rename(path)
        thread.join()
    assert code(done[0]) in ("busy", "changed_since")
    assert path.read_bytes() == b"formatted\n"


def test_a_set_that_fails_leaves_no_directory_behind(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    assert session.call("Write", {"file_path": "new/deep/" + "n" * 300, "content": "x"}).status == "error"
    assert session.call("Write", {"file_path": "new/deep/a", "content": "\ud800"}).status == "error"
    assert list(tmp_path.iterdir()) == []


def test_attributes_are_kept(seen: Session, tmp_path: Path) -> None:
    try:
        os.setxattr(tmp_path / "a.txt", "user.handrail", b"kept")
    except (AttributeError, OSError) as error:
        pytest.skip(f"no extended attributes here: {error}")
    assert edit(seen, "a.txt", "one", "1").status == "ok"
    assert os.getxattr(tmp_path / "a.txt", "user.handrail") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_the_owner_is_kept_and_the_set_user_bit_is_not(seen: Session, tmp_path: Path) -> None:
    os.chown(tmp_path / "a.txt", 1234, 4321)
    os.chmod(tmp_path / "a.txt", 0o4755)
    assert edit(seen, "a.txt", "one", "1").status == "ok"
    status = (tmp_path / "a.txt").stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (1234, 4321, 0o755)


FULL = """
import resource, sys
from handrail import Session, Settings
session = Session(sys.argv[1], settings=Settings(durable=False, hard_links=sys.argv[2]))
session.call("Read", {"file_path": "a.txt"})
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
result = session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1" * 100_000})
print(result.status, result.text)
"""


@pytest.mark.parametrize("hard_links", ["refuse", "split", "through"])
def test_a_write_that_the_system_cuts_short_leaves_the_old_file(tmp_path: Path, hard_links: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_bytes(b"one\ntwo\n")
    if hard_links != "refuse":
        os.link(root / "a.txt", tmp_path / "b.txt")
    command = [sys.executable, "-c", FULL, str(root), hard_links]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT, check=True)
    assert run.stdout.startswith("error ")
    assert (root / "a.txt").read_bytes() == b"one\ntwo\n", run.stdout
    assert [path.name for path in root.iterdir()] == ["a.txt"]
