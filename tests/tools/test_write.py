"""Write in the native dialect: new files, files that were read, and nothing overwritten unseen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Result, Session

Make = Callable[..., Session]


def write(session: Session, name: str, content: str) -> Result:
    return session.call("Write", {"file_path": name, "content": content})


def read(session: Session, name: str) -> Result:
    return session.call("Read", {"file_path": name})


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def test_a_new_file_is_created_with_the_directories_on_the_way(make_session: Make, tmp_path: Path) -> None:
    result = write(make_session(), "src/deep/a.txt", "one\ntwo")
    assert (result.status, result.text) == ("ok", "Created src/deep/a.txt (2 lines).")
    assert (tmp_path / "src/deep/a.txt").read_bytes() == b"one\ntwo"
    assert result.data["created"] is True
    assert result.data["diff"].startswith("--- /dev/null\n+++ src/deep/a.txt\n@@ -0,0 +1,2 @@\n")


def test_a_new_file_gets_the_mode_that_the_umask_leaves(make_session: Make, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(make_session(), "d/a.txt", "x")
    finally:
        os.umask(old)
    assert (tmp_path / "d/a.txt").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o750


def test_own_writes_count_as_seen(make_session: Make, tmp_path: Path) -> None:
    session = make_session(durable=False)
    for content in ("one\n", "two\n", "three\n"):
        assert write(session, "a.txt", content).status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"three\n"


def test_an_unread_file_is_not_overwritten_and_reading_leads_out(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"mine\n" * 5000)
    session = make_session()
    assert code(write(session, "a.txt", "yours")) == "not_seen"
    assert (tmp_path / "a.txt").read_bytes() == b"mine\n" * 5000
    session.call("Read", {"file_path": "a.txt", "offset": 3, "limit": 1})
    assert write(session, "a.txt", "yours").text == "Wrote a.txt (1 line)."


def test_a_changed_file_is_not_overwritten_and_reading_again_leads_out(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    session = make_session()
    read(session, "a.txt")
    (tmp_path / "a.txt").write_bytes(b"one\nzwei\n")
    result = write(session, "a.txt", "yours")
    assert (code(result), "(lines 2)" in result.text) == ("changed_since", True)
    assert (tmp_path / "a.txt").read_bytes() == b"one\nzwei\n"
    read(session, "a.txt")
    assert write(session, "a.txt", "yours").status == "ok"


def test_a_file_that_appeared_after_it_was_missed_is_not_overwritten(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    assert code(read(session, "a.txt")) == "not_found"
    (tmp_path / "a.txt").write_bytes(b"theirs")
    assert code(write(session, "a.txt", "ours")) == "not_seen"
    assert (tmp_path / "a.txt").read_bytes() == b"theirs"


def test_a_file_that_was_read_and_removed_can_be_written_again(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    session = make_session()
    read(session, "a.txt")
    (tmp_path / "a.txt").unlink()
    assert write(session, "a.txt", "two").text.startswith("Created")


def test_the_same_contents_again_are_not_written(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    write(session, "a.txt", "one\n")
    before = (tmp_path / "a.txt").stat()
    result = write(session, "a.txt", "one\n")
    assert (result.status, result.text) == ("ok", "No change: a.txt already has this content.")
    assert (tmp_path / "a.txt").stat().st_ino == before.st_ino
    assert result.data["diff"] == ""


def test_the_endings_of_the_file_are_kept_unless_spelled_out(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    session = make_session()
    read(session, "a.txt")
    write(session, "a.txt", "one\nzwei\nthree\n")
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\nzwei\r\nthree\r\n"
    write(session, "a.txt", "one\rtwo\n")
    assert (tmp_path / "a.txt").read_bytes() == b"one\rtwo\n"


def test_the_encoding_and_the_mark_of_the_file_are_kept(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("\ufeffGrüße\n".encode("utf-16-le"))
    session = make_session()
    read(session, "a.txt")
    assert write(session, "a.txt", "\ufeffÄpfel 世\n").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == "\ufeffÄpfel 世\n".encode("utf-16-le")


def test_contents_that_the_encoding_cannot_hold_are_refused(make_session: Make, tmp_path: Path) -> None:
    raw = "Straße und Öl\n".encode("cp1252")
    (tmp_path / "a.txt").write_bytes(raw)
    session = make_session()
    read(session, "a.txt")
    assert code(write(session, "a.txt", "世界\n")) == "cannot_encode"
    assert (tmp_path / "a.txt").read_bytes() == raw


def test_a_lone_surrogate_creates_nothing(make_session: Make, tmp_path: Path) -> None:
    assert code(write(make_session(), "d/a.txt", "\udcff")) == "cannot_encode"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["text\n", ""])
def test_a_binary_file_that_was_looked_at_can_be_overwritten_knowingly(
    make_session: Make, tmp_path: Path, content: str
) -> None:
    (tmp_path / "a.bin").write_bytes(b"\0\1")
    session = make_session()
    assert code(write(session, "a.bin", content)) == "not_seen"
    assert code(read(session, "a.bin")) == "binary_file"
    result = write(session, "a.bin", content)
    assert (tmp_path / "a.bin").read_bytes() == content.encode()
    assert result.text.startswith("Wrote a.bin"), "what was written must be said"


def test_an_empty_file_can_be_written(make_session: Make, tmp_path: Path) -> None:
    assert write(make_session(), "a.txt", "").text == "Created a.txt (0 lines)."
    assert (tmp_path / "a.txt").read_bytes() == b""


def test_a_directory_and_a_path_through_a_file_are_refused(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "a.txt").touch()
    session = make_session()
    assert code(write(session, "dir", "x")) == "is_directory"
    assert code(write(session, "dir/", "x")) == "is_directory"
    assert code(write(session, ".", "x")) == "is_directory"
    assert code(write(session, "a.txt/b/c.txt", "x")) == "bad_path"


def test_a_name_that_ends_like_a_directory_makes_no_file(make_session: Make, tmp_path: Path) -> None:
    assert write(make_session(), "newdir/", "x").status == "error"
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_not_overwritten(make_session: Make, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert code(write(make_session(), "pipe", "x")) == "not_regular"


def test_a_link_whose_target_is_missing_creates_the_target(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target.txt")
    assert write(make_session(), "link", "x").status == "ok"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target.txt").read_bytes() == b"x"


def test_a_link_that_leads_out_is_not_written_through(make_session: Make, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("../outside.txt")
    result = write(make_session(root), "link", "x")
    assert (code(result), "a symbolic link points there" in result.text) == ("outside_workspace", True)
    assert not (tmp_path / "outside.txt").exists()


def test_a_name_with_control_characters_is_written_and_shown_escaped(make_session: Make, tmp_path: Path) -> None:
    result = write(make_session(), "a\nb.txt", "x\n")
    assert result.text == "Created a\\nb.txt (1 line)."
    assert "+++ a\\nb.txt\n" in result.data["diff"]
    assert (tmp_path / "a\nb.txt").read_bytes() == b"x\n"


def test_a_read_only_file_is_not_replaced(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one")
    (tmp_path / "a.txt").chmod(0o444)
    session = make_session()
    read(session, "a.txt")
    assert code(write(session, "a.txt", "two")) == "permission_denied"
