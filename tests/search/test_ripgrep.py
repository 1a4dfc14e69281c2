"""What ripgrep prints, read in pieces of any size; and how it is found, watched and ended."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail import Session
from handrail.search import ripgrep
from handrail.search.query import FileMatches, load_types
from handrail.search.regex import translate
from handrail.search.ripgrep_output import KEPT, Contents, Counts, OutputReader, Paths
from handrail.search.tree import SearchTree
from handrail.text.globs import compile_filter

Make = Callable[..., Session]
STATS = b"\n7 matches\n7 matched lines\n2 files contained matches\n11 files searched\n0 bytes printed\n"


def read(reader: OutputReader, output: bytes, cuts: Sequence[int] = ()) -> list[FileMatches]:
    collected: list[FileMatches] = []
    at = 0
    for cut in (*sorted(cut % (len(output) + 1) for cut in cuts), len(output)):
        collected += reader.read(output[at:cut])
        at = cut
    return [*collected, *reader.end()]


@given(st.lists(st.integers(0, 10**6), max_size=6))
def test_contents_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    output = (
        b"./a\nb.txt\x001:3:x needle\n./a\nb.txt\x002-12:34:context\n./c\x007:1:needle\n"
        b'./c: WARNING: stopped searching binary file after match (found "\\0" byte around offset 9)\n'
        b"./d\x001:1:needle\r\n" + STATS
    )
    reader = Contents()
    actual = read(reader, output, cuts)
    assert [(one.path, one.count) for one in actual] == [("./a\nb.txt", 1), ("./c", 1), ("./d", 1)]
    assert [(hit.line, hit.matched, hit.raw) for hit in actual[0].hits] == [
        (1, True, b"x needle"),
        (2, False, b"12:34:context"),
    ]
    assert (reader.searched, reader.binary) == (11, 1)


@given(st.lists(st.integers(0, 10**6), max_size=6), st.sampled_from([0, 5, 70_000, 199_000]))
def test_of_an_endless_line_only_what_is_around_the_match_is_kept(cuts: list[int], column: int) -> None:
    line = b"a" * column + b"needle" + b"b" * (200_000 - column)
    output = b"./a\x001:%d:%s\n./b\x002:1:needle\n" % (column + 1, line) + STATS
    actual = read(Contents(), output, cuts)
    hit = actual[0].hits[0]
    assert len(hit.raw) <= 2 * KEPT
    assert hit.raw[hit.column :].startswith(b"needle")
    assert hit.before is (column > KEPT)
    assert hit.after is (column < 190_000)
    assert actual[1].hits[0].raw == b"needle"


@given(st.lists(st.integers(0, 10**6), max_size=6))
def test_names_and_counts_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    names, counts = Paths(), Counts()
    assert [one.path for one in read(names, b"./a\nb\0./c\0" + STATS, cuts)] == ["./a\nb", "./c"]
    assert names.searched == 11
    actual = read(counts, b"./a\nb\x0012\n./none\x000\n./c\x003\r\n", cuts)
    assert [(one.path, one.number) for one in actual] == [("./a\nb", 12), ("./c", 3)]
    assert counts.searched == 3


def test_statistics_that_are_not_known_count_nothing() -> None:
    reader = Paths()
    assert [one.path for one in read(reader, b"./a\0\nsearched: many\n")] == ["./a"]
    assert reader.searched == 0


def test_our_own_ripgrep_comes_before_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "rg"
    other.write_text("#!/bin/sh\n", encoding="utf-8")
    other.chmod(other.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", "")
    beside = ripgrep.find_program()
    assert beside is None or os.path.dirname(beside) != str(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ripgrep.find_program() == (beside or str(other))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert ripgrep.find_program() == beside
    monkeypatch.setenv("HANDRAIL_RG", "")
    assert ripgrep.find_program() is None


def fake(folder: Path, body: str) -> str:
    """A program in place of ripgrep. In files that it gets as open descriptors it always finds something."""
    path = folder / "fake-rg"
    opened = (
        "given = [word for word in sys.argv if word.startswith('/dev/fd/')]\n"
        "if given:\n    os.write(1, ''.join(word + '\\0' for word in given).encode())\n    sys.exit(0)\n"
    )
    path.write_text(f"#!{sys.executable}\nimport os, sys, time\n{opened}{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def test_a_slow_ripgrep_is_ended_when_time_is_up_and_what_it_found_is_shown(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("needle\n", encoding="utf-8")
    pid = tmp_path / "pid"
    body = f"open({str(pid)!r}, 'w').write(str(os.getpid()))\nos.write(1, b'./a.txt\\0')\ntime.sleep(60)"
    monkeypatch.setenv("HANDRAIL_RG", fake(tmp_path, body))
    folder = tmp_path / "dialect"
    folder.mkdir()
    limits = '[tools.Grep]\nid = "grep"\nlimits = { seconds = 1.5 }\n'
    (folder / "tools.toml").write_text(limits, encoding="utf-8")
    (folder / "messages.toml").write_text("", encoding="utf-8")
    result = make_session(tmp_path / "work", dialect=str(folder), durable=False).call("Grep", {"pattern": "needle"})
    assert result.status == "partial"
    assert result.notes[0].code == "time_limit"
    assert result.data["files"] == ["a.txt"]
    assert result.data["aborted_reason"] == "time_limit"
    assert result.data["receipt"]["complete"] is False
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text(encoding="ascii")), 0)


def test_what_ripgrep_complains_about_makes_the_answer_partial(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("needle\n", encoding="utf-8")
    body = (
        "os.write(2, b'rg: ./secret/dir: Permission denied (os error 13)\\n' * 5000)\n"
        "os.write(2, b'rg: ./gone: No such file or directory (os error 2)\\n')\n"
        "os.write(1, b'./a.txt\\0')\nsys.exit(2)"
    )
    monkeypatch.setenv("HANDRAIL_RG", fake(tmp_path, body))
    result = make_session(durable=False).call("Grep", {"pattern": "needle"})
    assert result.status == "partial"
    assert result.data["files"] == ["a.txt"]
    assert result.data["receipt"]["skipped"]["unreadable"] == 5000
    assert "Permission denied" in result.text
    assert "secret" not in result.text


def test_a_search_by_name_in_a_large_tree_gives_up_counting_and_finds_each_file_once(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("a.py", "b.py"):
        (work / name).write_text("needle\n", encoding="utf-8")
    runs = tmp_path / "runs"
    body = (
        f"open({str(runs)!r}, 'a').write('debug ' if '--debug' in sys.argv else 'quiet ')\n"
        "os.write(1, b'./a.py\\0')\n"
        "if '--debug' in sys.argv:\n"
        "    os.write(2, b'rg: DEBUG|ignoring ./x: Ignore(IgnoreMatch(Hidden))\\n' * 5000)\n"
        "    time.sleep(60)\n"
        "os.write(1, b'./b.py\\0')\n"
    )
    monkeypatch.setenv("HANDRAIL_RG", fake(tmp_path, body))
    session = make_session(work, durable=False)
    for _ in range(2):
        result = session.call("Grep", {"pattern": "needle", "glob": "*.py", "include_hidden": True})
        assert sorted(result.data["files"]) == ["a.py", "b.py"]
        assert result.data["receipt"]["skipped"] == {}
        assert result.data["receipt"]["uncounted"] == ["ignored", "binary", "withheld"]
        assert "not counted in a tree of this size: ignored, binary, withheld" in result.text
        assert "include_ignored" in result.text and "include_hidden" not in result.text
    assert runs.read_text(encoding="ascii").split() == ["debug", "quiet", "quiet"]


@pytest.mark.skipif(ripgrep.find_program() is None, reason="ripgrep is not there")
@pytest.mark.parametrize("mode", ["files_with_matches", "count", "content"])
@pytest.mark.parametrize("names", [{"glob": "*.py"}, {"type": "py"}, {"glob": "d/**/*.py"}, {"glob": "[ab].py"}])
def test_a_search_without_counting_finds_the_same(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch, mode: str, names: dict[str, str]
) -> None:
    for number, name in enumerate((".gitignore", "a.py", "d/e/b.py", "d/.c.py", "i/x.py", "t.md", ".env.py", "id_rsa")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("i/\n" if name == ".gitignore" else "needle\nneedle\n", encoding="utf-8")
        os.utime(path, ns=(10**18 + number * 10**9,) * 2)
    session = make_session(durable=False)
    call = {"pattern": "needle", "output_mode": mode, **names}
    counted = session.call("Grep", call).data
    monkeypatch.setattr(SearchTree, "is_large", True)
    uncounted = session.call("Grep", call).data
    assert counted["receipt"]["skipped"]
    for key in ("files", "matches", "counts"):
        assert uncounted.get(key) == counted.get(key)
    assert uncounted["receipt"]["searched"] == counted["receipt"]["searched"]


def test_a_ripgrep_that_dies_is_replaced(tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("needle\n", encoding="utf-8")
    monkeypatch.setenv("HANDRAIL_RG", fake(tmp_path, "os.kill(os.getpid(), 9)"))
    result = make_session(durable=False).call("Grep", {"pattern": "needle", "glob": "*.txt"})
    assert result.data["files"] == ["a.txt"]
    assert result.data["fallback_reason"] == "rg_failed"


@pytest.mark.parametrize(
    ("pattern", "text", "actual"),
    [
        (r"\<need", "a needle", True),
        (r"\b{end}s", "as s", False),
        (r"a**b", "aab", True),
        (r"a++b", "aab", True),
        (r"\x{6e}eedle$", "needle", True),
        (r"[[:alpha:]]+\d", "ab1", True),
        (r"[a-z&&[^b]]", "b", False),
        (r"[]x]", "]", True),
        (r"a(?i)B", "ab", True),
        (r"(?i)straße", "STRASSE", False),
        (r"[|]", "&", False),
        (r"\pL\p{Greek}", "aα", True),
        (r"x{2,3}y", "xxy", True),
        (r"(?P<n>a)(?<m>b)", "ab", True),
    ],
)
def test_a_pattern_means_in_python_what_it_means_to_ripgrep(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch, pattern: str, text: str, actual: bool
) -> None:
    (tmp_path / "a.txt").write_text(text + "\n", encoding="utf-8")
    session = make_session(durable=False)
    for program in (None, ""):
        if program is not None:
            monkeypatch.setenv("HANDRAIL_RG", program)
        result = session.call("Grep", {"pattern": pattern})
        assert result.error is None, result.text
        assert bool(result.data["files"]) is actual, program


def test_ordinary_patterns_are_left_as_they_are() -> None:
    for pattern in (r"def \w+\(", "a|b", r"^\s*import (os|sys)$", "[^a-z]+?", r"x{2,}"):
        assert re.compile(translate(pattern, multiline=False).text).pattern == pattern


def test_every_type_has_globs_that_are_understood() -> None:
    assert len(load_types()) > 50
    for globs in load_types().values():
        assert all(compile_filter(glob)[0] and "/" not in glob for glob in globs)
