"""Edit in the native dialect: what is replaced, what stays, what is refused, and a way out of every refusal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session
from tests.command import TIMEOUT

Make = Callable[..., Session]


def edit(session: Session, name: str, old: str, new: str, **rest: Any) -> Result:
    return session.call("Edit", {"file_path": name, "old_string": old, "new_string": new, **rest})


def seen(make: Make, root: Path, raw: bytes, name: str = "a.txt", **settings: Any) -> Session:
    """A session that has read one file."""
    (root / name).write_bytes(raw)
    session = make(root, durable=False, **settings)
    session.call("Read", {"file_path": name})
    return session


def code(result: Result) -> str | None:
    return result.error.code if result.error else None


def test_an_edit_answers_with_a_numbered_snippet_and_carries_the_diff(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"".join(b"line %d\n" % n for n in range(1, 11)))
    result = edit(session, "a.txt", "line 5\n", "five\nfive and a half\n")
    rows = ["line 2", "line 3", "line 4", "five", "five and a half", "line 6", "line 7", "line 8"]
    assert result.text == "Edited a.txt:\n" + "\n".join(f"{n}\t{row}" for n, row in enumerate(rows, start=2))
    assert result.data["diff"] == (
        "--- a.txt\n+++ a.txt\n@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+five\n+five and a half\n"
        " line 6\n line 7\n line 8\n"
    )
    assert (result.status, result.data["replaced"]) == ("ok", 1)


def test_the_diff_of_one_line_in_fifty_thousand_is_local(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"".join(b"line %d\n" % n for n in range(1, 50_001)))
    result = edit(session, "a.txt", "line 40000\n", "changed\n")
    assert result.data["diff"].startswith("--- a.txt\n+++ a.txt\n@@ -39997,7 +39997,7 @@\n")
    assert result.data["diff"].count("\n") == 11


def test_a_file_without_final_newline_stays_so(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\ntwo")
    result = edit(session, "a.txt", "two", "2")
    assert (tmp_path / "a.txt").read_bytes() == b"one\n2"
    assert result.data["diff"].endswith("\\ No newline at end of file\n")


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_inserted_lines_take_the_ending_of_their_neighbours(make_session: Make, tmp_path: Path, end: bytes) -> None:
    session = seen(make_session, tmp_path, end.join([b"one", b"two", b"three", b""]))
    assert edit(session, "a.txt", "two\n", "2a\n2b\n").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == end.join([b"one", b"2a", b"2b", b"three", b""])


def test_in_a_file_of_mixed_endings_every_other_line_keeps_its_own(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"a\r\nb\nc\rd\r\n")
    assert edit(session, "a.txt", "b\nc\nd", "b\nC\nd").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"a\r\nb\nC\rd\r\n"


def test_text_that_occurs_twice_is_refused_with_its_lines(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"x\ny\nx\n")
    result = edit(session, "a.txt", "x", "z")
    assert (code(result), "2 times in a.txt (lines 1, 3)" in result.text) == ("many_matches", True)
    assert (tmp_path / "a.txt").read_bytes() == b"x\ny\nx\n"


def test_the_ways_out_that_an_ambiguous_edit_names_lead_out(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"x\ny\nx\n")
    assert code(edit(session, "a.txt", "x", "z")) == "many_matches"
    assert edit(session, "a.txt", "y\nx", "y\nz").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"x\ny\nz\n"
    result = edit(seen(make_session, tmp_path, b"x\ny\nx\n"), "a.txt", "x", "z", replace_all=True)
    assert (result.status, result.data["replaced"]) == ("ok", 2)
    assert result.text.startswith("Replaced 2 occurrences in a.txt:")
    assert (tmp_path / "a.txt").read_bytes() == b"z\ny\nz\n"


def test_text_that_is_not_there_is_refused_and_reading_again_leads_out(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    assert code(edit(session, "a.txt", "One", "two")) == "no_match"
    row = session.call("Read", {"file_path": "a.txt"}).text.split("\t")[1]
    assert edit(session, "a.txt", row, "two").status == "ok"


def test_an_edit_that_changes_nothing_is_refused(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    assert code(edit(session, "a.txt", "one", "one")) == "no_change"


def test_an_empty_old_string_is_refused_and_write_leads_out(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"")
    result = edit(session, "a.txt", "", "one\n")
    assert (code(result), "Write" in result.text) == ("empty_old", True)
    assert session.call("Write", {"file_path": "a.txt", "content": "one\n"}).status == "ok"


def test_an_unread_file_is_refused_and_reading_leads_out(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one more\n")
    session = make_session(durable=False)
    assert code(edit(session, "a.txt", "one", "two")) == "not_seen"
    assert (tmp_path / "a.txt").read_bytes() == b"one more\n"
    session.call("Read", {"file_path": "a.txt", "limit": 1})
    assert edit(session, "a.txt", "one", "two").status == "ok"


def test_a_failed_edit_does_not_count_as_reading(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one more\n")
    session = make_session()
    assert [code(edit(session, "a.txt", "one", "two")) for _ in range(2)] == ["not_seen", "not_seen"]


def test_a_missing_file_wins_over_an_unread_one(make_session: Make) -> None:
    assert code(edit(make_session(), "a.txt", "one", "two")) == "not_found"


def test_a_directory_and_a_binary_file_are_refused(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    session = seen(make_session, tmp_path, b"\0one")
    assert code(edit(session, "dir", "one", "two")) == "is_directory"
    assert code(edit(session, "a.txt", "one", "two")) == "binary_file"
    assert (tmp_path / "a.txt").read_bytes() == b"\0one"


def test_a_line_ending_that_is_spelled_out_is_meant(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\r\ntwo\r\n")
    assert edit(session, "a.txt", "one\r\n", "one\n").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\r\n"


@pytest.mark.parametrize(
    ("raw", "old", "new", "wanted"),
    [
        (b"\xef\xbb\xbfone\n", "one", "\u00e9", b"\xef\xbb\xbf\xc3\xa9\n"),
        ("\ufeffone\n".encode("utf-16-le"), "one", "\U0001f600", "\ufeff\U0001f600\n".encode("utf-16-le")),
        ("\ufeffone\n".encode("utf-32-be"), "one", "é", "\ufeffé\n".encode("utf-32-be")),
        ("Straße und Öl\n".encode("cp1252"), "und", "für", "Straße für Öl\n".encode("cp1252")),
        ("größer schöner\n".encode() + b"\xff stray\n", "stray", "é", "größer schöner\n".encode() + b"\xff \xc3\xa9\n"),
    ],
)
def test_an_edit_stays_in_the_encoding_of_the_file(
    make_session: Make, tmp_path: Path, raw: bytes, old: str, new: str, wanted: bytes
) -> None:
    assert edit(seen(make_session, tmp_path, raw), "a.txt", old, new).status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == wanted


def test_text_that_the_encoding_cannot_hold_is_refused(make_session: Make, tmp_path: Path) -> None:
    raw = "Straße und Öl\n".encode("cp1252")
    session = seen(make_session, tmp_path, raw)
    result = edit(session, "a.txt", "und", "世界")
    assert (code(result), (tmp_path / "a.txt").read_bytes()) == ("cannot_encode", raw)
    assert "a.txt" in result.text and "cp1252" in result.text and "U+4E16 (世)" in result.text
    assert edit(session, "a.txt", "und", "fuer").status == "ok"


def test_a_lone_surrogate_is_refused(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    result = edit(session, "a.txt", "one", "\ud800")
    assert (code(result), (tmp_path / "a.txt").read_bytes()) == ("cannot_encode", b"one\n")
    result.text.encode("utf-8")


def test_the_mode_is_kept(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    os.chmod(tmp_path / "a.txt", 0o751)
    assert edit(session, "a.txt", "one", "two").status == "ok"
    assert (tmp_path / "a.txt").stat().st_mode & 0o7777 == 0o751


def test_a_link_is_written_through(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n", "real.txt")
    (tmp_path / "link").symlink_to("real.txt")
    assert edit(session, "link", "one", "two").status == "ok"
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real.txt").read_bytes() == b"two\n"


def test_a_file_that_is_too_large_is_refused_with_advice_for_an_edit(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n" * 10, most_edit_bytes=30)
    result = edit(session, "a.txt", "one", "two", replace_all=True)
    assert (code(result), "40 bytes" in result.text) == ("too_large_to_change", True)
    assert "Read it in parts" not in result.text, "reading in parts does not lead to an edit"


def test_a_claude_edit_of_a_file_that_is_too_large_is_refused_and_not_a_fault(
    make_session: Make, tmp_path: Path
) -> None:
    session = seen(make_session, tmp_path, b"one\n" * 10, most_edit_bytes=30, dialect="claude")
    assert code(edit(session, "a.txt", "one", "two")) == "too_large_to_change"


@pytest.mark.parametrize(("setting", "other"), [("split", b"one\n"), ("through", b"two\n")])
def test_the_settings_that_a_refused_hard_link_names_lead_out(
    make_session: Make, tmp_path: Path, setting: str, other: bytes
) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    os.link(tmp_path / "a.txt", tmp_path / "b.txt")
    refused = edit(session, "a.txt", "one", "two")
    assert (code(refused), f'"{setting}"' in refused.advice, "2 hard links" in refused.text) == (
        "hard_linked",
        True,
        True,
    )
    assert (tmp_path / "a.txt").read_bytes() == b"one\n"
    session = make_session(durable=False, hard_links=setting)
    session.call("Read", {"file_path": "a.txt"})
    assert edit(session, "a.txt", "one", "two").status == "ok"
    assert ((tmp_path / "a.txt").read_bytes(), (tmp_path / "b.txt").read_bytes()) == (b"two\n", other)
    assert edit(session, "a.txt", "two", "three").status == "ok", "the write is known to the session"


def test_a_long_snippet_leaves_out_its_middle(make_session: Make, tmp_path: Path) -> None:
    session = seen(make_session, tmp_path, b"one\n")
    result = edit(session, "a.txt", "one\n", "".join(f"{n}\n" for n in range(1, 201)))
    assert "[140 lines omitted]" in result.text
    assert "\n30\t30\n" in result.text and "\n171\t171\n" in result.text


MILLIONS = """
import resource, sys
from handrail import Session, Settings
session = Session(sys.argv[1], settings=Settings(durable=False))
session.call("Read", {"file_path": "a.txt", "limit": 1})
resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20))
result = session.call("Edit", {"file_path": "a.txt", "old_string": "e", "new_string": "z"})
print(result.error.code, result.text)
"""


def test_millions_of_matches_are_counted_in_bounded_memory(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"eeeeeeee\n" * 1_000_000)
    command = [sys.executable, "-c", MILLIONS, str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=TIMEOUT)
    assert run.stdout.startswith("many_matches"), run.stdout + run.stderr[-500:]
    assert "8000000 times" in run.stdout
