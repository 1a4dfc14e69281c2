"""Read in the native dialect: pages, long lines, the tail, and an answer of its own for whatever is not text."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Result, Session

Make = Callable[..., Session]


def read(session: Session, name: str, **rest: int) -> Result:
    return session.call("Read", {"file_path": name, **rest})


def bodies(result: Result) -> list[str]:
    """The lines of a page without their numbers."""
    return [row.split("\t", 1)[1] for row in result.text.split("\n") if re.match(r" *-?\d+\t", row)]


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def test_lines_are_numbered_behind_a_tab(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ttwo\n\nfour", encoding="utf-8")
    result = read(make_session(), "a.txt")
    assert result.text == "1\tone\n2\t\ttwo\n3\t\n4\tfour"
    assert result.data["total_lines"] == 4
    assert (result.status, result.data["next_offset"]) == ("ok", None)


def test_every_line_is_reached_by_following_the_named_offset(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 5001)), encoding="utf-8")
    session = make_session()
    result = read(session, "a.txt")
    lines = bodies(result)
    while result.status == "partial":
        (note,) = result.notes
        match = re.search(r"offset=(\d+)", note.text)
        assert match and int(match[1]) == result.data["next_offset"] == len(lines) + 1
        result = read(session, "a.txt", offset=int(match[1]))
        lines += bodies(result)
    assert lines == [f"line {n}" for n in range(1, 5001)]


def test_the_note_names_how_many_lines_are_left(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 2500, encoding="utf-8")
    assert read(make_session(), "a.txt").text.endswith(
        "\n(more lines follow; 500 left of 2500: continue with offset=2001)"
    )


def test_a_page_that_was_asked_for_is_whole_and_still_names_the_next_offset(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n", encoding="utf-8")
    result = read(make_session(), "a.txt", offset=2, limit=2)
    assert (result.status, bodies(result), result.data["next_offset"]) == ("ok", ["2", "3"], 4)
    assert result.text.endswith("(more lines follow: offset=4)")
    assert read(make_session(), "a.txt", offset=3, limit=2).data["next_offset"] is None


def test_a_page_is_bounded_by_its_characters_too(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 1500 + "\n") * 100, encoding="utf-8")
    result = read(make_session(), "a.txt", limit=100)
    assert result.status == "partial"
    assert len(result.text) < 62_000
    assert bodies(read(make_session(), "a.txt", offset=result.data["next_offset"]))


def test_a_negative_offset_counts_from_the_end(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n", encoding="utf-8")
    session = make_session()
    assert read(session, "a.txt", offset=-2).text == "3\t3\n4\t4"
    assert bodies(read(session, "a.txt", offset=-99)) == ["1", "2", "3", "4"]
    assert bodies(read(session, "a.txt", offset=-3, limit=1)) == ["2"]


def test_the_tail_of_a_file_without_final_newline_ends_with_its_last_line(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\r\n2\r\n3")
    assert read(make_session(), "a.txt", offset=-1).text == "3\t3"


def test_offset_zero_is_the_first_line(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n", encoding="utf-8")
    assert bodies(read(make_session(), "a.txt", offset=0)) == ["1", "2"]


def test_a_long_line_is_read_to_its_end_by_following_the_named_column(make_session: Make, tmp_path: Path) -> None:
    line = "".join(chr(0x4E00 + n) for n in range(5000))
    (tmp_path / "a.txt").write_text(f"short\n{line}\nlast\n", encoding="utf-8")
    session = make_session()
    parts: list[str] = []
    result = read(session, "a.txt")
    for _ in range(9):
        row = bodies(result)[1] if not parts else bodies(result)[0]
        parts.append(re.sub(r" \[line cut.*", "", row))
        if not result.notes:
            break
        match = re.search(r"offset=(\d+), limit=(\d+), column=(\d+)", result.notes[0].text)
        assert match
        result = read(session, "a.txt", offset=int(match[1]), limit=int(match[2]), column=int(match[3]))
    assert "".join(parts) == line
    assert len(parts) == 3


def test_a_column_behind_the_end_of_the_line_is_said(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abc\n", encoding="utf-8")
    result = read(make_session(), "a.txt", column=50)
    assert result.text.strip() != "1", "an empty row looks like an empty line"


def test_several_cut_lines_are_one_note(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 2500 + "\n") * 3, encoding="utf-8")
    result = read(make_session(), "a.txt")
    assert [note.code for note in result.notes] == ["long_lines"]
    assert result.notes[0].text.startswith("(3 long lines")
    assert result.text.count("[line cut: continue with column=2001]") == 3


def test_only_three_endings_end_a_line(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("a\fb\x0bc\u2028d\u0085e\x1cf\rg\r\nh\n".encode())
    assert bodies(read(make_session(), "a.txt")) == ["a\fb\x0bc\u2028d\u0085e\x1cf", "g", "h"]


def test_an_empty_file_is_said_to_be_empty_and_counts_as_read(make_session: Make, tmp_path: Path) -> None:
    for name, raw in (("a.txt", b""), ("bom.txt", b"\xef\xbb\xbf")):
        (tmp_path / name).write_bytes(raw)
        session = make_session(durable=False)
        result = read(session, name)
        assert (result.status, result.text) == ("ok", f"{name} is empty: 0 lines.")
        assert session.call("Write", {"file_path": name, "content": "x"}).status == "ok"


def test_an_offset_behind_the_end_names_the_last_line(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n", encoding="utf-8")
    result = read(make_session(), "a.txt", offset=3)
    assert (code(result), result.text) == ("past_end", "a.txt has 2 lines; there is no line 3.")


def test_a_directory_is_said_to_be_one(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("src", "src/", "."):
        assert code(read(make_session(), name)) == "is_directory"


def test_a_missing_file_gets_the_nearest_names(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / "README.md").touch()
    session = make_session()
    assert read(session, "src/mian.py").text == "src/mian.py does not exist. Did you mean: src/main.py?"
    assert "README.md" in read(session, "readme.md").text
    assert "src" in read(session, "srcs/main.py").text
    assert read(session, "zzzzzz").text == "zzzzzz does not exist."
    absolute = str(tmp_path / "src" / "mian.py")
    assert str(tmp_path / "src" / "main.py") in read(session, absolute).text


def test_the_nearest_names_can_be_used_as_they_stand(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "main.py").write_text("x", encoding="utf-8")
    (tmp_path / "link").symlink_to("a/b")
    session = make_session()
    for wrong in ("a/b/mian.py", "./a/b/mian.py", "a/../a/b/mian.py", "link/mian.py", "a//b/mian.py", "a/b/mian.py/"):
        match = re.search(r"Did you mean: (\S+)\?", read(session, wrong).text)
        assert match, wrong
        assert read(session, match[1]).status == "ok", (wrong, match[1])


def test_a_binary_file_is_refused_with_its_size(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\x7fELF\0\0\0\0")
    result = read(make_session(), "a.bin")
    assert (code(result), "8 bytes" in result.text) == ("binary_file", True)


def test_a_nul_behind_the_first_eight_kilobytes_is_not_binary(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x\n" * 5000 + b"\0\n")
    assert read(make_session(), "a.txt", offset=5001).status == "ok"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32", "cp1252", "gbk", "big5", "shift_jis"])
def test_text_in_other_encodings_is_read(make_session: Make, tmp_path: Path, encoding: str) -> None:
    text = {
        "cp1252": "Straße, naïve café – “größer”\n",
        "gbk": "这是一个简单的中文文本文件，用于测试编码。\n",
        "big5": "這是一個簡單的中文文字檔案，用來測試編碼。\n",
        "shift_jis": "これは日本語のテキストファイルです。カタカナとひらがな。\n",
    }.get(encoding, "Grüße, 世界 \U0001f600\n")
    (tmp_path / "a.txt").write_bytes((text * 5).encode(encoding))
    result = read(make_session(), "a.txt")
    assert bodies(result) == [text.rstrip("\n")] * 5


def test_pipes_sockets_and_devices_are_not_opened(make_session: Make, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        short = os.path.relpath(tmp_path / "sock")
        server.bind(short if len(short) < len(str(tmp_path / "sock")) else str(tmp_path / "sock"))
        session = make_session()
        assert "a named pipe" in read(session, "pipe").text
        assert "a socket" in read(session, "sock").text
    assert code(read(make_session(Path("/dev")), "null")) == "not_regular"


def test_a_name_with_control_characters_is_shown_escaped(make_session: Make, tmp_path: Path) -> None:
    name = "a\nb\x1b[31m\u202e.txt"
    (tmp_path / name).touch()
    text = read(make_session(), name).text
    assert text == "a\\nb\\x1b[31m\\u202e.txt is empty: 0 lines."
    assert "a\\nb" in read(make_session(), "a\nb\x1b[31m.txt").text


def test_stray_bytes_are_shown_as_replacement_characters(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("größer, schöner, weiter\n".encode() * 3 + b"bad \xff byte\n")
    result = read(make_session(), "a.txt")
    result.text.encode("utf-8")
    assert bodies(result)[3] == "bad \ufffd byte"


def test_a_line_of_a_big_file_that_begins_like_a_byte_order_mark_is_still_a_line(
    make_session: Make, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(b"plain text\n" * 200_000 + b"\xff\xfe odd\n" + b"plain text\n" * 3)
    rows = bodies(read(make_session(), "a.txt", offset=200_001))
    assert rows[1:] == ["plain text"] * 3
    assert rows[0].endswith(" odd")


def test_a_big_file_is_read_in_the_middle_and_at_the_end(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"".join(b"line %d\n" % n for n in range(1, 300_001)))
    session = make_session()
    assert bodies(read(session, "a.txt", offset=150_000, limit=2)) == ["line 150000", "line 150001"]
    assert bodies(read(session, "a.txt", offset=-1)) == ["line 300000"]
    assert code(read(session, "a.txt", offset=300_001)) == "past_end"


def test_the_tail_of_a_file_that_is_too_big_to_count_has_usable_numbers(make_session: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(80 << 20)  # sparse: NULs behind the first 8 KB, so text by definition
        file.write(b"x\n" * 5000)
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + b"".join(b"tail %d\n" % n for n in range(1, 101)))
    session = make_session()
    result = read(session, "a.txt", offset=-3, limit=1)
    assert bodies(result) == ["tail 98"]
    assert bodies(read(session, "a.txt", offset=result.data["next_offset"])) == ["tail 99", "tail 100"]
