"""S2-9 to S2-16: the page that Read answers with, and the ways in which it is cut or refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import REMINDER, TAIL, rows

READ_AND_MEASURE = """
import json, resource, sys
from handrail import Session
root, path = sys.argv[1:3]
with Session(root, dialect="claude") as session:
    first = session.call("Read", {"file_path": path, "limit": 2}).text
    far = session.call("Read", {"file_path": path, "offset": 2_000_001, "limit": 2}).text
    last = session.call("Read", {"file_path": path, "offset": 4_000_000}).text
try:  # the peak of this program alone; ru_maxrss also counts the process that started it
    with open("/proc/self/status", encoding="ascii") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)
print(json.dumps([peak, first, far, last]))
"""


def _read(session: Session, path: str, **more: Any) -> str:
    return session.call("Read", {"file_path": path, **more}).text


def _numbered(count: int, first: int = 1) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


@pytest.mark.slow
def test_s2_9_a_page_of_a_huge_file_is_read_without_loading_it(tmp_path: Path) -> None:
    path = tmp_path / "huge.log"
    with path.open("wb") as out:
        for start in range(1, 4_000_001, 100_000):
            out.write(b"".join(b"%07d %s\n" % (number, b"." * 41) for number in range(start, start + 100_000)))
    try:
        assert path.stat().st_size == 200_000_000
        command = [sys.executable, "-c", READ_AND_MEASURE, str(tmp_path), str(path)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    finally:
        path.unlink()
    peak, first, far, last = json.loads(done.stdout)
    dots = " " + "." * 41
    assert first == f"     1→0000001{dots}\n     2→0000002{dots}" + REMINDER
    assert far == f"2000001→2000001{dots}\n2000002→2000002{dots}" + REMINDER
    assert last == f"4000000→4000000{dots}" + REMINDER
    assert peak < 120 * 1024, f"{peak} KB at the peak for a file of 195313 KB"


def test_s2_10_lines_are_numbered_from_one_in_six_places_before_an_arrow(
    claude: Session, file: Callable[..., str]
) -> None:
    path = file("a.txt", "修改后的行\n修改后的行\n不同的行\n修改后的行\n")
    assert _read(claude, path) == "     1→修改后的行\n     2→修改后的行\n     3→不同的行\n     4→修改后的行" + REMINDER


def test_s2_10_numbers_grow_to_the_left_and_lines_are_shown_as_they_are(
    claude: Session, file: Callable[..., str]
) -> None:
    lines = [*_numbered(99), "", "\tindented  ", "{braces} [[x]] →", "trailing "]
    path = file("a.txt", "\n".join(lines))
    expected = "    99→line 99\n   100→\n   101→\tindented  \n   102→{braces} [[x]] →\n   103→trailing "
    assert _read(claude, path, offset=99) == expected + REMINDER


def test_s2_10_a_final_newline_is_not_a_line(claude: Session, file: Callable[..., str]) -> None:
    assert _read(claude, file("with.txt", "one\n")) == "     1→one" + REMINDER
    assert _read(claude, file("without.txt", "one")) == "     1→one" + REMINDER
    assert _read(claude, file("blank.txt", "\n")) == "     1→" + REMINDER
    assert _read(claude, file("two_blank.txt", "one\n\n")) == "     1→one\n     2→" + REMINDER


def test_s2_11_every_page_ends_with_the_reminder_and_no_error_does(claude: Session, file: Callable[..., str]) -> None:
    long, wide = file("long.txt", "x\n" * 2100), file("wide.txt", "y" * 3000)
    pages: list[dict[str, Any]] = [
        {"file_path": long},
        {"file_path": long, "offset": 5, "limit": 1},
        {"file_path": wide},
    ]
    for arguments in pages:
        text = claude.call("Read", arguments).text
        assert text.endswith(REMINDER) and text.count("<system-reminder>") == 1
    failures: list[dict[str, Any]] = [{"file_path": long + "x"}, {"file_path": long, "offset": 2101}]
    for arguments in failures:
        assert "malicious" not in claude.call("Read", arguments).text


@pytest.mark.parametrize(
    ("total", "arguments", "first", "shown", "truncated"),
    [
        (1999, {}, 1, 1999, 0),
        (2000, {}, 1, 2000, 0),
        (2001, {}, 1, 2000, 1),
        (5000, {}, 1, 2000, 3000),
        (5000, {"offset": 1}, 1, 2000, 3000),
        (5000, {"offset": 1001}, 1001, 2000, 2000),
        (5000, {"offset": 3001}, 3001, 2000, 0),
        (5000, {"offset": 3000}, 3000, 2000, 1),
        (5000, {"offset": 5000}, 5000, 1, 0),
        (5000, {"limit": 10}, 1, 10, 0),
        (5000, {"limit": 2000}, 1, 2000, 0),
        (5000, {"limit": 2001}, 1, 2000, 1),
        (5000, {"limit": 9999}, 1, 2000, 3000),
        (5000, {"offset": 1001, "limit": 2500}, 1001, 2000, 500),
        (5000, {"offset": 2901, "limit": 2500}, 2901, 2000, 100),
        (5000, {"offset": 4990, "limit": 2500}, 4990, 11, 0),
        (5000, {"offset": 7, "limit": 3}, 7, 3, 0),
    ],
)
@pytest.mark.parametrize("final", ["\n", ""])
def test_s2_12_more_than_2000_selected_lines_are_cut_and_counted(
    claude: Session,
    file: Callable[..., str],
    total: int,
    arguments: dict[str, int],
    first: int,
    shown: int,
    truncated: int,
    final: str,
) -> None:
    path = file("a.txt", "\n".join(_numbered(total)) + final)
    note = f"\n... (more {truncated} lines are truncated)" if truncated else ""
    assert _read(claude, path, **arguments) == rows(_numbered(shown, first), first) + note + REMINDER


def test_s2_12_the_remaining_lines_of_a_file_of_many_megabytes_are_counted_exactly(
    claude: Session, file: Callable[..., str]
) -> None:
    path = file("a.txt", "\n".join(_numbered(300_000)))
    expected = rows(_numbered(2000), 1) + "\n... (more 298000 lines are truncated)" + REMINDER
    assert _read(claude, path, offset=1) == expected


def test_s2_13_a_line_over_2000_characters_is_cut_and_counted(claude: Session, file: Callable[..., str]) -> None:
    path = file("a.txt", "\n".join(["短", "a" * 2000, "行" * 2001, "b" * 12_000, "end"]))
    expected = [
        "短",
        "a" * 2000,
        "行" * 2000 + "... (more 1 characters in this line are truncated)",
        "b" * 2000 + "... (more 10000 characters in this line are truncated)",
        "end",
    ]
    assert _read(claude, path) == rows(expected) + REMINDER


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_s2_13_the_line_ending_is_no_character_of_the_line(
    claude: Session, file: Callable[..., str], ending: str
) -> None:
    assert _read(claude, file("fits.txt", "x" * 2000 + ending)) == rows(["x" * 2000]) + REMINDER
    cut = "x" * 2000 + "... (more 1 characters in this line are truncated)"
    assert _read(claude, file("cut.txt", "x" * 2001 + ending)) == rows([cut]) + REMINDER


def test_s2_13_a_line_of_seventy_million_characters_is_counted_to_the_last(
    claude: Session, file: Callable[..., str]
) -> None:
    path = file("a.json", b"j" * 70_000_000 + b"\nend\n")
    cut = "j" * 2000 + "... (more 69998000 characters in this line are truncated)"
    assert _read(claude, path, offset=1) == rows([cut, "end"]) + REMINDER


@pytest.mark.parametrize(("size", "shown"), [(262_145, "256.0"), (300_000, "293.0"), (2_621_440, "2560.0")])
def test_s2_14_a_file_over_256_kb_is_refused_without_offset_and_limit(
    claude: Session, file: Callable[..., str], size: int, shown: str
) -> None:
    path = file("big.txt", (b"x" * 9 + b"\n") * (size // 10) + b"y" * (size % 10))
    result = claude.call("Read", {"file_path": path})
    assert result.text == f"File content ({shown}KB) exceeds maximum allowed size (256KB). {TAIL}"
    assert result.status == "error"


def test_s2_14_exactly_256_kb_is_not_over(claude: Session, file: Callable[..., str]) -> None:
    lines = ["a" * 26_214] * 9 + ["b" * 26_209]
    path = file("edge.txt", "\n".join(lines))
    assert os.path.getsize(path) == 262_144
    assert "exceeds maximum allowed size" not in _read(claude, path)


@pytest.mark.parametrize("arguments", [{"offset": 1, "limit": 3}, {"offset": 30_000}, {"limit": 3}])
def test_s2_14_one_of_offset_and_limit_is_enough(
    claude: Session, file: Callable[..., str], arguments: dict[str, int]
) -> None:
    path = file("big.txt", "\n".join(_numbered(30_002)))
    assert os.path.getsize(path) > 262_144
    first = arguments.get("offset", 1)
    assert _read(claude, path, **arguments) == rows(_numbered(3, first), first) + REMINDER


@pytest.mark.parametrize("final", ["\n", ""])
def test_s2_15_more_than_60000_characters_are_refused_and_counted(
    claude: Session, file: Callable[..., str], final: str
) -> None:
    contents = "\n".join(["行" * 99] * 700) + final
    path = file("wide.txt", contents)
    result = claude.call("Read", {"file_path": path})
    assert result.text == f"File content ({len(contents)} chars) exceeds maximum allowed tokens (60000). {TAIL}"
    assert result.status == "error"


def test_s2_15_exactly_60000_characters_are_shown_and_one_more_is_not(
    claude: Session, file: Callable[..., str]
) -> None:
    fits = ["z" * 1999] * 29 + ["z" * 2000]
    assert len("\n".join(fits)) == 60_000
    assert _read(claude, file("fits.txt", "\n".join(fits))) == rows(fits) + REMINDER
    over = [*fits[:-1], "z" * 1999, ""]
    path = file("over.txt", "\n".join(over) + "z")
    assert _read(claude, path) == f"File content (60001 chars) exceeds maximum allowed tokens (60000). {TAIL}"


def test_s2_15_only_what_offset_and_limit_select_is_counted(claude: Session, file: Callable[..., str]) -> None:
    lines = ["w" * 999] * 200
    path = file("wide.txt", "\n".join(lines))
    assert _read(claude, path, limit=60) == rows(lines[:60]) + REMINDER
    assert _read(claude, path, offset=141) == rows(lines[:60], 141) + REMINDER
    for arguments in [{"limit": 61}, {"offset": 140}, {"offset": 5, "limit": 100}]:
        text = _read(claude, path, **arguments)
        assert text.startswith("File content (") and text.endswith(f"exceeds maximum allowed tokens (60000). {TAIL}")


@pytest.mark.parametrize(
    ("contents", "arguments", "offset", "total"),
    [
        ("", {}, 1, 1),
        ("", {"offset": 1}, 1, 1),
        ("x\n" * 264, {"offset": 1000}, 1000, 264),
        ("x\n" * 264, {"offset": 265}, 265, 264),
        ("x\n" * 263 + "x", {"offset": 265, "limit": 10}, 265, 264),
        ("x", {"offset": 2}, 2, 1),
        ("\n", {"offset": 2}, 2, 1),
        ("x\n" * 200_000, {"offset": 200_001}, 200_001, 200_000),
    ],
)
def test_s2_16_an_offset_beyond_the_end_is_answered_with_the_number_of_lines(
    claude: Session, file: Callable[..., str], contents: str, arguments: dict[str, int], offset: int, total: int
) -> None:
    assert _read(claude, file("a.txt", contents), **arguments) == (
        f"<system-reminder>Warning: the file exists but is shorter than the provided offset ({offset})."
        f" The file has {total} lines.</system-reminder>"
    )


def test_s2_16_an_empty_file_counts_as_read(claude: Session, file: Callable[..., str]) -> None:
    path = file("empty.txt", "")
    _read(claude, path)
    assert claude.call("Write", {"file_path": path, "content": "one\n"}).status == "ok"
    assert Path(path).read_text(encoding="utf-8") == "one\n"
