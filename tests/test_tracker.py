"""What was seen of which file: staleness by content or by time, files that moved, and the ranges that were shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session
from handrail.tracker import SeenFile

Make = Callable[..., Session]


def read(session: Session, name: str, **rest: int) -> Result:
    return session.call("Read", {"file_path": name, **rest})


def edit(session: Session, name: str, old: str, new: str) -> Result:
    return session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})


def write(session: Session, name: str, content: str) -> Result:
    return session.call("Write", {"file_path": name, "content": content})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def seen_of(session: Session, path: Path) -> SeenFile:
    """What the session remembers of a file."""
    entry = session.tracker._paths.get(str(path))
    assert entry is not None
    return entry


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_text("".join(f"line {n}\n" for n in range(1, 101)), encoding="utf-8")
    return file


def keep_time(path: Path, change: Callable[[], Any]) -> None:
    """Make a change that leaves size and modification time as they were."""
    before = path.stat()
    change()
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_a_touched_file_with_the_same_bytes_passes_in_native(make_session: Make, path: Path) -> None:
    session = make_session(durable=False)
    read(session, "a.txt")
    os.utime(path, (1, 1))
    result = edit(session, "a.txt", "line 5\n", "five\n")
    assert (result.status, result.notes) == ("ok", ())
    os.utime(path, (2, 2))
    assert write(session, "a.txt", "all new\n").status == "ok"


def test_a_file_replaced_by_an_equal_one_passes_in_native(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt")
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    other.rename(path)
    assert write(session, "a.txt", "all new\n").status == "ok"


@pytest.mark.parametrize("dialect", ["native", "claude"])
def test_changed_bytes_with_the_same_time_and_size_are_caught(make_session: Make, path: Path, dialect: str) -> None:
    session = make_session(dialect=dialect)
    read(session, str(path))
    changed = path.read_bytes().replace(b"line 50\n", b"LINE 50\n")
    keep_time(path, lambda: path.write_bytes(changed))
    assert code(write(session, str(path), "all new\n")) == "changed_since"
    assert path.read_bytes() == changed


def test_a_touched_file_is_stale_in_claude_and_reading_leads_out(make_session: Make, path: Path) -> None:
    session = make_session(dialect="claude", durable=False)
    read(session, str(path))
    os.utime(path, (1, 1))
    assert code(edit(session, str(path), "line 5\n", "five\n")) == "changed_since"
    read(session, str(path))
    assert edit(session, str(path), "line 5\n", "five\n").status == "ok"


def test_an_edit_of_another_place_goes_through_and_names_the_lines_that_moved(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt")
    path.write_bytes(path.read_bytes().replace(b"line 50\n", b"fifty\nand more\n").replace(b"line 90\n", b""))
    result = edit(session, "a.txt", "line 5\n", "five\n")
    assert (result.status, [note.code for note in result.notes]) == ("partial", ["changed_elsewhere"])
    assert "lines 50-51, 91" in result.text
    assert b"five\nline 6\n" in path.read_bytes() and b"fifty\nand more\n" in path.read_bytes()


def test_the_note_is_given_once_since_the_next_edit_starts_from_what_was_written(
    make_session: Make, path: Path
) -> None:
    session = make_session(durable=False)
    read(session, "a.txt")
    path.write_bytes(path.read_bytes() + b"more\n")
    assert edit(session, "a.txt", "line 5\n", "five\n").status == "partial"
    assert edit(session, "a.txt", "line 6\n", "six\n").status == "ok"


def test_text_that_changed_itself_is_refused_and_reading_leads_out(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt")
    path.write_bytes(path.read_bytes().replace(b"line 5\n", b"Line 5\n"))
    result = edit(session, "a.txt", "line 5\n", "five\n")
    assert (code(result), "(lines 5)" in result.text) == ("changed_since", True)
    read(session, "a.txt", offset=5, limit=1)
    assert edit(session, "a.txt", "Line 5\n", "five\n").status == "ok"


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_the_lines_that_moved_are_counted_as_read_counts_them(make_session: Make, tmp_path: Path, end: str) -> None:
    raw = end.join(f"line {n}" for n in range(1, 21)).encode()
    (tmp_path / "b.txt").write_bytes(raw)
    session = make_session()
    read(session, "b.txt")
    (tmp_path / "b.txt").write_bytes(raw.replace(b"line 15", b"fifteen"))
    assert "lines 15." in edit(session, "b.txt", "line 3\n", "three\n").text


def test_the_lines_that_moved_in_a_wide_encoding_are_counted_as_read_counts_them(
    make_session: Make, tmp_path: Path
) -> None:
    text = "\ufeff" + "".join(f"Ċਊ {n}\n" for n in range(1, 21))  # U+010A and U+0A0A hold the byte of a line feed
    (tmp_path / "b.txt").write_bytes(text.encode("utf-16-le"))
    session = make_session()
    read(session, "b.txt")
    (tmp_path / "b.txt").write_bytes(text.replace(" 15\n", " fifteen\n").encode("utf-16-le"))
    assert "lines 15." in edit(session, "b.txt", " 3\n", " three\n").text


def test_a_file_too_big_to_be_remembered_says_so_in_a_sentence(make_session: Make, tmp_path: Path) -> None:
    big = tmp_path / "b.txt"
    big.write_bytes(b"".join(b"line %d\n" % n for n in range(200_000)))
    session = make_session(durable=False)
    read(session, "b.txt", limit=5)
    with big.open("ab") as file:
        file.write(b"more\n")
    result = edit(session, "b.txt", "line 1\n", "one\n")
    assert result.status == "partial"
    assert "lines an unknown part" not in result.text


def test_a_big_file_that_did_not_change_is_edited_without_a_note(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_bytes(b"".join(b"line %d\n" % n for n in range(200_000)))
    session = make_session(durable=False)
    read(session, "b.txt", limit=5)
    assert edit(session, "b.txt", "line 1\n", "one\n").status == "ok"
    assert edit(session, "b.txt", "line 2\n", "two\n").status == "ok"


def test_a_moved_file_is_known_under_its_new_name(make_session: Make, path: Path) -> None:
    session = make_session(durable=False)
    read(session, "a.txt")
    path.rename(path.with_name("b.txt"))
    assert edit(session, "b.txt", "line 5\n", "five\n").status == "ok"
    assert edit(session, "b.txt", "line 6\n", "six\n").status == "ok"


def test_a_file_read_through_a_link_is_known_under_its_own_name(make_session: Make, path: Path) -> None:
    path.with_name("link").symlink_to("a.txt")
    session = make_session()
    read(session, "link")
    assert write(session, "a.txt", "x\n").status == "ok"


def test_another_file_that_got_the_number_of_a_removed_one_is_not_known(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt")
    number = path.stat().st_ino
    path.unlink()
    other = path.with_name("other.txt")
    for attempt in range(200):
        other.write_bytes(b"line 5 never seen\n")
        if other.stat().st_ino == number:
            break
        other.rename(path.with_name(f"spare-{attempt}"))
    else:
        pytest.skip("this file system does not give inode numbers again")
    assert code(edit(session, "other.txt", "line 5", "five")) == "not_seen"
    assert other.read_bytes() == b"line 5 never seen\n"


def test_one_session_knows_nothing_of_what_another_has_read(make_session: Make, path: Path) -> None:
    read(make_session(), "a.txt")
    assert code(write(make_session(), "a.txt", "x")) == "not_seen"


def test_what_another_session_wrote_is_noticed(make_session: Make, path: Path) -> None:
    one, other = make_session(durable=False), make_session(durable=False)
    read(one, "a.txt")
    read(other, "a.txt")
    assert edit(one, "a.txt", "line 5\n", "five\n").status == "ok"
    assert code(write(other, "a.txt", "x")) == "changed_since"
    assert edit(other, "a.txt", "line 90\n", "ninety\n").status == "partial"
    assert b"five\n" in path.read_bytes() and b"ninety\n" in path.read_bytes()


def test_a_read_that_an_edit_of_the_same_session_overtakes_does_not_make_it_forget(
    make_session: Make, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = make_session(durable=False)
    read(session, "a.txt")
    record_seen = session.tracker.record_seen

    def overtaken(*arguments: Any) -> None:
        monkeypatch.undo()
        assert edit(session, "a.txt", "line 5\n", "five\n").status == "ok"
        record_seen(*arguments)

    monkeypatch.setattr(session.tracker, "record_seen", overtaken)
    assert b"line 5\n" in read(session, "a.txt").text.encode()
    assert edit(session, "a.txt", "five\n", "5\n").status == "ok"
    path.write_bytes(path.read_bytes().replace(b"line 7\n", b"seven\n"))
    assert code(write(session, "a.txt", "x")) == "changed_since"
    read(session, "a.txt")  # nothing overtakes this one: it counts
    assert write(session, "a.txt", "x").status == "ok"


def test_the_record_holds_hash_time_size_and_identity(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt", limit=3)
    version, status = seen_of(session, path).version, path.stat()
    assert (version.dev, version.ino) == (status.st_dev, status.st_ino)
    assert (version.size, version.mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert version.digest


def test_the_ranges_that_were_shown_are_kept_and_merged(make_session: Make, path: Path) -> None:
    session = make_session()
    for offset, limit in ((1, 10), (50, 5), (11, 4), (-2, 2)):
        read(session, "a.txt", offset=offset, limit=limit)
    assert seen_of(session, path).ranges == ((1, 14), (50, 54), (99, 100))


def test_a_range_of_an_older_version_does_not_count_for_a_newer_one(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt", limit=50)
    path.write_bytes(path.read_bytes() + b"more\n")
    read(session, "a.txt", offset=90, limit=5)
    assert seen_of(session, path).ranges == ((90, 94),)


def test_ranges_move_along_with_an_edit(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt", offset=10, limit=1)
    read(session, "a.txt", offset=50, limit=10)
    assert edit(session, "a.txt", "line 10\n", "ten\nten and a bit\n").status == "ok"
    assert seen_of(session, path).ranges == ((7, 14), (51, 60))


def test_lines_that_moved_up_into_a_range_do_not_count_as_shown(make_session: Make, path: Path) -> None:
    session = make_session()
    read(session, "a.txt", offset=50, limit=10)
    gone = "".join(f"line {n}\n" for n in range(50, 60))
    assert edit(session, "a.txt", gone, "").status == "ok"
    shown = {number for first, last in seen_of(session, path).ranges for number in range(first, last + 1)}
    assert shown <= set(range(47, 53)), "only the three lines around the gap were shown"


def test_what_is_remembered_is_bounded(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    for number in range(120):
        (tmp_path / f"{number}.txt").write_bytes(b"%d\n" % number * 60_000)
        read(session, f"{number}.txt", limit=1)
    held = sum(len(seen.raw or b"") for seen in session.tracker._paths.values())
    assert held == session.tracker._held <= 16 << 20
    assert code(write(session, "0.txt", "x")) is None, "the oldest is still known to have been seen"
