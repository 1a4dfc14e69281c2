"""Grep through a session: with ripgrep and, where `engine` is "plain", without it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail import Result, Session
from handrail.model import Access, Verdict
from tests import tracing

Make = Callable[..., Session]


@pytest.fixture(params=["rg", "plain"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "plain":
        monkeypatch.setenv("HANDRAIL_RG", "")
    return str(request.param)


@pytest.fixture
def grep(engine: str, make_session: Make) -> Callable[..., Result]:
    session = make_session(durable=False)

    def call(pattern: Any = "needle", **arguments: Any) -> Result:
        result = session.call("Grep", {"pattern": pattern, **arguments})
        if result.error is None:
            assert result.data["fallback_used"] is (engine == "plain")
        return result

    return call


Grep = Callable[..., Result]


def write(root: Path, files: dict[str, str | bytes]) -> None:
    """Files, each one second newer than the one before."""
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, ns=(1_600_000_000_000_000_000 + number * 10**9,) * 2)


def first_lines(result: Result) -> list[str]:
    return [line for line in result.text.split("\n") if not line.startswith("(")]


def test_files_come_newest_first_and_by_path_on_demand(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "needle\n", "c/d.txt": "needle\n", "b.txt": "needle\n", "x.txt": "hay\n"})
    assert first_lines(grep()) == ["b.txt", "c/d.txt", "a.txt"]
    assert first_lines(grep(sort="path")) == ["a.txt", "b.txt", "c/d.txt"]
    assert grep().status == "ok"


def test_files_of_one_age_are_ordered_by_path_name_by_name(tmp_path: Path, grep: Grep) -> None:
    names = ["a/b.txt", "a-b.txt", "a.txt", "a/a/z.txt", "b"]
    write(tmp_path, dict.fromkeys(names, "needle\n"))
    for name in names:
        os.utime(tmp_path / name, ns=(10**18, 10**18))
    assert first_lines(grep()) == ["a/a/z.txt", "a/b.txt", "a-b.txt", "a.txt", "b"]
    assert first_lines(grep(sort="path")) == ["a/a/z.txt", "a/b.txt", "a-b.txt", "a.txt", "b"]


def test_content_gives_path_line_and_text(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "one\nneedle two\nthree\n", "b.txt": "x needle\n"})
    result = grep(output_mode="content", sort="path")
    assert first_lines(result) == ["a.txt", "2:needle two", "b.txt", "1:x needle"]
    assert result.data["matches"] == [
        {"file": "a.txt", "line": 2, "text": "needle two"},
        {"file": "b.txt", "line": 1, "text": "x needle"},
    ]


def test_context_lines_stand_around_and_groups_are_parted(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "1\n2\nneedle 3\n4\n5\n6\n7\nneedle 8\n9", "b.txt": "needle\nend\n"})
    shown = "a.txt 2-2 3:needle_3 4-4 -- 7-7 8:needle_8 9-9 -- b.txt 1:needle 2-end"
    assert "\n".join(first_lines(grep(output_mode="content", context=1, sort="path"))) == shown.replace(
        " ", "\n"
    ).replace("_", " ")
    only_after = first_lines(grep(output_mode="content", after=2, path="b.txt"))
    assert only_after == ["b.txt", "1:needle", "2-end"]
    before = first_lines(grep(output_mode="content", before=1, path="a.txt"))
    assert before == ["a.txt", "2-2", "3:needle 3", "--", "7-7", "8:needle 8"]


def test_count_gives_the_lines_of_each_file(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "needle needle\nneedle\n", "b.txt": "needle\r\n", "c.txt": "none\n"})
    result = grep(output_mode="count", sort="path")
    assert first_lines(result) == ["a.txt:2", "b.txt:1"]
    assert result.data["counts"] == [{"file": "a.txt", "count": 2}, {"file": "b.txt", "count": 1}]


def test_a_page_is_followed_by_the_next_until_all_is_seen(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {f"f{number:02d}.txt": "needle\n" * 3 for number in range(10)})
    for mode, each, kind in (("content", 3, "matches"), ("files_with_matches", 1, "files"), ("count", 1, "counts")):
        for sort in ("newest", "path"):
            whole = grep(output_mode=mode, sort=sort)
            assert not whole.data["truncated"]
            seen: list[object] = []
            offset: int | None = 0
            while offset is not None:
                page = grep(output_mode=mode, sort=sort, head_limit=4, offset=offset)
                assert page.data["truncated"] is (page.data["next_offset"] is not None)
                seen += page.data[kind]
                offset = page.data["next_offset"]
            assert seen == whole.data[kind]
            assert len(seen) == 10 * each


def test_a_page_that_was_not_asked_for_is_partial_and_says_how_to_go_on(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "needle\n" * 250})
    result = grep(output_mode="content")
    assert result.status == "partial"
    assert result.notes[0].code == "more_results"
    assert len(result.data["matches"]) == 100
    assert result.data["next_offset"] == 100
    assert result.data["aborted_reason"] == "count_limit"
    assert "offset=100" in result.text
    asked = grep(output_mode="content", head_limit=7)
    assert asked.status == "ok"
    assert "offset=7" in asked.text


def test_more_matches_than_are_held_still_give_the_right_page(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {f"d{n % 7}/f{n:03d}.txt": "a needle here\n" * 60 for n in range(200)})
    by_path = grep(output_mode="content", sort="path", head_limit=130, offset=30)
    names = sorted((f"d{n % 7}/f{n:03d}.txt" for n in range(200)), key=lambda name: name.split("/"))
    expected = [(name, line) for name in names for line in range(1, 61)]
    assert [(match["file"], match["line"]) for match in by_path.data["matches"]] == expected[30:160]
    newest = grep(output_mode="content", head_limit=130, offset=30)
    names = [f"d{n % 7}/f{n:03d}.txt" for n in reversed(range(200))]
    expected = [(name, line) for name in names for line in range(1, 61)]
    assert [(match["file"], match["line"]) for match in newest.data["matches"]] == expected[30:160]


def test_an_offset_behind_the_end_finds_nothing_and_says_so(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "needle\n"})
    result = grep(offset=5)
    assert result.data["files"] == []
    assert "from result 5 on" in result.text


def test_an_empty_answer_says_that_the_search_was_complete_and_what_was_left_out(tmp_path: Path, grep: Grep) -> None:
    write(
        tmp_path,
        {"a.txt": "hay\n", ".gitignore": "out/\n*.log\n", "out/x.txt": "needle\n", "y.log": "needle", ".env": "needle"},
    )
    result = grep()
    assert result.status == "ok"
    assert result.data["files"] == []
    assert result.data["receipt"] == {"searched": 1, "skipped": {"ignored": 2, "hidden": 2}, "complete": True}
    assert "No match for needle in . (1 file searched)" in result.text
    assert "include_ignored / include_hidden: true" in result.text
    assert first_lines(grep(include_ignored=True, sort="path")) == ["out/x.txt", "y.log"]
    assert first_lines(grep(include_hidden=True, sort="path")) == [".env"]
    assert first_lines(grep(include_hidden=True, include_ignored=True, sort="path")) == [".env", "out/x.txt", "y.log"]


def test_the_rules_above_the_directory_hold_in_it(tmp_path: Path, grep: Grep) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "/src/gen/\n*.tmp\n!keep.tmp\n",
            "src/a.py": "needle\n",
            "src/gen/b.py": "needle\n",
            "src/c.tmp": "needle\n",
            "src/keep.tmp": "needle\n",
        },
    )
    assert first_lines(grep(path="src", sort="path")) == ["src/a.py", "src/keep.tmp"]


def test_git_is_searched_only_from_inside(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {".git/config": "needle\n", "a.txt": "needle\n"})
    assert first_lines(grep(include_hidden=True)) == ["a.txt"]
    assert first_lines(grep(path=".git")) == [".git/config"]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["a.py", "src/b.py", "src/sub/c.py"]),
        ("*.{py,ts}", ["a.py", "src/b.py", "src/d.ts", "src/sub/c.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/sub/c.py"]),
        ("**/c.py", ["src/sub/c.py"]),
        ("!*.py", ["src/d.ts"]),
        ("!src", ["a.py"]),
        ("!src/sub/**", ["a.py", "src/b.py", "src/d.ts"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("nothing*", []),
    ],
)
def test_a_glob_only_narrows(tmp_path: Path, grep: Grep, glob: str, expected: list[str]) -> None:
    names = ["a.py", "src/b.py", "src/sub/c.py", "src/d.ts", ".hidden.py", "src/ignored.py", ".dir/e.py", "out/f.py"]
    write(tmp_path, {**dict.fromkeys(names, "needle\n"), ".gitignore": "ignored.py\nout\n"})
    assert grep(glob=glob, sort="path").data["files"] == expected


def test_a_hidden_file_that_an_ignore_file_calls_for_is_found_with_a_glob_too(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {".gitignore": "!.keep.py\n", ".keep.py": "needle\n", ".other.py": "needle\n", "a.py": "needle\n"})
    assert grep(sort="path").data["files"] == [".keep.py", "a.py"]
    assert grep(sort="path", glob="*.py").data["files"] == [".keep.py", "a.py"]
    assert grep(sort="path", type="py").data["files"] == [".keep.py", "a.py"]


def test_a_type_narrows_and_goes_together_with_a_glob(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, dict.fromkeys(["a.py", "b.pyi", "c.ts", "d/Makefile"], "needle\n"))
    assert grep(type="py", sort="path").data["files"] == ["a.py", "b.pyi"]
    assert grep(type="py", glob="*.pyi").data["files"] == ["b.pyi"]
    assert grep(type="make").data["files"] == ["d/Makefile"]
    unknown = grep(type="klingon")
    assert unknown.error and unknown.error.code == "unknown_type"
    assert "rust" in unknown.text


def test_literal_case_and_crlf(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.py": "def __init__(self):\r\n    pass\r\n", "b.py": "DEF\n"})
    assert grep("def __init__(self):", literal=True).data["files"] == ["a.py"]
    assert grep("def", ignore_case=True, sort="path").data["files"] == ["a.py", "b.py"]
    assert grep("def").data["files"] == ["a.py"]
    assert grep("pass$", output_mode="content").data["matches"] == [{"file": "a.py", "line": 2, "text": "    pass"}]
    assert grep(r"\r$").data["files"] == ["a.py"]


def test_multiline_matches_span_lines(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "zero\nstart one\nmid\nend two\nlast\n"})
    result = grep("start.*end", multiline=True, output_mode="content")
    assert first_lines(result) == ["a.txt", "2:start one", "3:mid", "4:end two"]
    assert grep("one\nmid", multiline=True).data["files"] == ["a.txt"]
    assert grep("start.*end").data["files"] == []


def test_a_long_line_is_shown_around_its_match(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"min.js": "a" * 300_000 + "needle" + "b" * 300_000 + "\nneedle\n", "é.txt": "é" * 9000 + "needle"})
    result = grep(output_mode="content", sort="path")
    texts = [match["text"] for match in result.data["matches"]]
    assert texts[0] == "…" + "a" * 75 + "needle" + "b" * 219 + "…"
    assert texts[1] == "needle"
    assert texts[2] == "…" + "é" * 294 + "needle"


def test_odd_names_are_shown_escaped_and_can_be_used_again(tmp_path: Path, grep: Grep) -> None:
    (tmp_path / "new\nline.txt").write_text("needle\n", encoding="utf-8")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("needle\n", encoding="utf-8")
    names = grep(sort="path").data["files"]
    assert names == ["caf\\xe9.txt", "new\\nline.txt"]
    for name in names:
        assert grep(path=name, output_mode="content").data["matches"] == [{"file": name, "line": 1, "text": "needle"}]


def test_utf16_is_found_and_legacy_encodings_are_found_by_path(tmp_path: Path, grep: Grep) -> None:
    write(
        tmp_path,
        {
            "u16.txt": "\ufeffzweite Größe\n".encode("utf-16-le"),
            "gbk.txt": "第一行\n中文的内容\n".encode("gbk"),
            "latin.txt": "naïve Größe\n".encode("latin-1"),
            "u32.txt": "\ufeffGröße\n".encode("utf-32-le"),
        },
    )
    assert grep("Größe", sort="path").data["files"] == ["u16.txt"]
    for path in ("latin.txt", "u16.txt", "u32.txt"):
        assert len(grep("Größe", path=path, output_mode="content").data["matches"]) == 1, path
    assert grep("中文", path="gbk.txt", output_mode="content").data["matches"] == [
        {"file": "gbk.txt", "line": 2, "text": "中文的内容"}
    ]
    shown = grep("na", path=".", glob="latin.txt", output_mode="content").data["matches"]
    assert shown == [{"file": "latin.txt", "line": 1, "text": "naïve Größe"}]


def test_binary_files_are_passed_over_and_counted(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"b.bin": b"needle\0\1\2", "a.txt": "needle\n"})
    result = grep()
    assert result.data["files"] == ["a.txt"]
    assert result.data["receipt"]["skipped"] == {"binary": 1}
    single = grep(path="b.bin")
    assert single.data["files"] == []
    assert single.data["receipt"]["skipped"] == {"binary": 1}


def test_links_are_not_followed_and_a_loop_ends(tmp_path: Path, grep: Grep) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "inside"
    write(outside, {"s.txt": "needle\n"})
    write(inside, {"a/b.txt": "needle\n"})
    (inside / "a" / "loop").symlink_to(inside)
    (inside / "out").symlink_to(outside)
    (inside / "file").symlink_to(outside / "s.txt")
    result = grep(path="inside")
    assert result.data["files"] == ["inside/a/b.txt"]
    assert result.data["receipt"]["skipped"]["links"] >= 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_an_unreadable_directory_is_counted_and_makes_the_answer_partial(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "needle\n", "no/b.txt": "needle\n"})
    (tmp_path / "no").chmod(0)
    try:
        result = grep()
    finally:
        (tmp_path / "no").chmod(0o755)
    assert result.status == "partial"
    assert result.data["files"] == ["a.txt"]
    assert result.data["receipt"]["skipped"] == {"unreadable": 1}
    assert result.data["receipt"]["complete"] is False


BAD: Sequence[tuple[dict[str, Any], str, str]] = [
    ({"pattern": ""}, "bad_arguments", "pattern"),
    ({"pattern": None}, "bad_arguments", "pattern"),
    ({"pattern": "foo(bar"}, "bad_pattern", "at character 4: unclosed group"),
    ({"pattern": "foo)(bar"}, "bad_pattern", "at character 4: unopened group"),
    ({"pattern": "foo(?=bar)"}, "bad_pattern", "look-around"),
    ({"pattern": r"(a)\1"}, "bad_pattern", "at character 4: backreferences"),
    ({"pattern": "interface{}"}, "bad_pattern", "at character 10"),
    ({"pattern": "*.py"}, "bad_pattern", "at character 1: repetition operator missing"),
    ({"pattern": "[a-"}, "bad_pattern", "at character 1: unclosed character class"),
    ({"pattern": "[z-a]"}, "bad_pattern", "range"),
    ({"pattern": r"\p{Klingon}"}, "bad_pattern", "literal: true"),
    ({"pattern": r"a\nb"}, "bad_pattern", "multiline"),
    ({"pattern": "a\nb", "literal": True}, "bad_pattern", "multiline"),
    ({"pattern": "a\0b"}, "bad_pattern", "NUL"),
    ({"pattern": "a" * 100_000}, "bad_pattern", "100000 characters"),
    ({"pattern": "a", "glob": "../*.py"}, "bad_glob", ".."),
    ({"pattern": "a", "glob": "{a,b}" * 20}, "bad_glob", "1000"),
    ({"pattern": "a", "path": "missing"}, "not_found", "missing"),
    ({"pattern": "a", "path": "/etc"}, "outside_workspace", "/etc"),
    ({"pattern": "a", "head_limit": 0}, "bad_arguments", "head_limit"),
    ({"pattern": "a", "offset": -1}, "bad_arguments", "offset"),
    ({"pattern": "a", "output_mode": "all"}, "bad_arguments", "output_mode"),
    ({"pattern": "a", "line_numbers": False}, "bad_arguments", "line_numbers"),
]


@pytest.mark.parametrize(("arguments", "code", "says"), BAD, ids=[repr(bad[0])[:40] for bad in BAD])
def test_bad_input_is_refused_with_a_reason(
    tmp_path: Path, engine: str, make_session: Make, arguments: dict[str, Any], code: str, says: str
) -> None:
    (tmp_path / "a.txt").write_text("aaa\n", encoding="utf-8")
    result = make_session(durable=False).call("Grep", arguments)
    assert result.error is not None, result.text
    assert (result.error.code, says in result.text) == (code, True), result.text


def test_a_refused_pattern_shows_the_place_and_offers_literal(tmp_path: Path, grep: Grep) -> None:
    result = grep("foo(bar")
    assert "  foo(bar\n     ^\n" in result.text
    assert "literal: true" in result.text


def test_a_pattern_that_begins_with_a_dash_is_no_option(tmp_path: Path, grep: Grep) -> None:
    write(tmp_path, {"a.txt": "use --files here\n"})
    assert grep("--files").data["files"] == ["a.txt"]
    assert grep("-f", literal=True).data["files"] == ["a.txt"]


def test_a_catastrophic_pattern_ends_within_the_budget(
    tmp_path: Path, make_session: Make, engine: str, short: str
) -> None:
    write(tmp_path, {"a.txt": "a" * 50_000 + "\n"})
    result = make_session(durable=False, dialect=short).call("Grep", {"pattern": "(a|aa)+$b|(a*)*c"})
    assert result.error is None
    if engine == "plain" and result.status == "partial":
        assert result.data["aborted_reason"] == "time_limit"
        assert result.data["receipt"]["complete"] is False
        assert "the search is incomplete" in result.text


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dialect whose Grep has little time."""
    folder = tmp_path_factory.mktemp("dialect")
    (folder / "tools.toml").write_text('[tools.Grep]\nid = "grep"\nlimits = { seconds = 0.5 }\n', encoding="utf-8")
    (folder / "messages.toml").write_text("", encoding="utf-8")
    return str(folder)


class Hiding:
    """Denies reading what has `secret` in its name."""

    def __init__(self, hides: Sequence[str] | None) -> None:
        self.hides = hides

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        if any("/secret" in access.path for access in accesses):
            return Verdict("deny", "secrets", "it is secret")
        return Verdict("allow")


SECRETS: dict[str, str | bytes] = {
    "a.txt": "needle\n",
    "secret.txt": "needle\n",
    "sub/secret.key": "needle\n",
    "secrets/b.txt": "needle\n",
    "sub/c.txt": "needle\n",
}


@pytest.mark.parametrize("hides", [("secret*",), None, ("**/secret*",)])
@pytest.mark.parametrize("mode", ["files_with_matches", "content", "count"])
def test_what_policy_denies_is_not_there_to_be_found(
    tmp_path: Path, make_session: Make, engine: str, hides: Sequence[str] | None, mode: str
) -> None:
    write(tmp_path, SECRETS)
    session = make_session(durable=False, policy=Hiding(hides))
    result = session.call("Grep", {"pattern": "needle", "output_mode": mode, "include_ignored": True})
    assert "secret" not in result.text
    assert len(first_lines(result)) == (4 if mode == "content" else 2)  # each match below its file
    assert result.data["receipt"]["skipped"] == {"withheld": 3}
    if hides is None and engine == "rg":
        assert result.data["fallback_reason"] == "policy"
    assert session.call("Grep", {"pattern": "needle", "path": "secret.txt"}).status == "denied"
    assert "secret" not in session.call("Grep", {"pattern": "needle", "path": "sub"}).text


@pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
@pytest.mark.parametrize("hides", ['("secret*",)', "None"])
def test_what_policy_denies_is_never_opened(tmp_path: Path, engine: str, hides: str) -> None:
    write(tmp_path / "work", SECRETS)
    script = f"""
import sys
from handrail import Session
from tests.search.test_grep import Hiding
with Session({str(tmp_path / "work")!r}, policy=Hiding({hides})) as session:
    result = session.call("Grep", {{"pattern": "needle", "output_mode": "content"}})
    assert len(result.data["matches"]) == 2, result.text
"""
    log = tmp_path / "calls.log"
    watched = ["strace", "-f", *tracing.only(tracing.OPEN), "-o", str(log), sys.executable, "-c", script]
    done = subprocess.run(watched, capture_output=True, text=True, encoding="utf-8", cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    program = str(Path(handrail.__file__).parent)  # has a package of that name
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    calls = "\n".join(line for line in lines if program not in line)
    assert "c.txt" in calls
    for name in ("secret.txt", "secret.key", "secrets/b", '"secrets"', '/secrets"'):
        assert name not in calls


def test_the_configuration_of_the_user_is_not_read(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"rc": "--ignore-case\n--hidden\n", "a.txt": "needle\n", "b.txt": "NEEDLE\n", ".c": "needle\n"})
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    assert make_session(durable=False).call("Grep", {"pattern": "needle"}).data["files"] == ["a.txt"]


def test_a_broken_ripgrep_gives_the_answer_all_the_same(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"a.txt": "needle\n"})
    session = make_session(durable=False)
    for broken in ("/nonexistent/rg", shutil.which("false") or "/bin/false"):
        monkeypatch.setenv("HANDRAIL_RG", broken)
        result = session.call("Grep", {"pattern": "needle"})
        if broken.endswith("false"):
            assert result.data["fallback_used"] or result.data["files"] == []
        else:
            assert result.data["fallback_reason"] == "rg_failed"
            assert result.data["files"] == ["a.txt"]


def test_the_claude_names_work(tmp_path: Path, make_session: Make, engine: str) -> None:
    write(tmp_path, {"a.txt": "one\nNeedle\nthree\n"})
    session = make_session(durable=False, dialect="claude")
    path = str(tmp_path / "a.txt")
    arguments = {"pattern": "needle", "-i": True, "output_mode": "content", "-C": 1, "path": str(tmp_path)}
    assert first_lines(session.call("Grep", arguments)) == [f"{path}-1-one", f"{path}:2:Needle", f"{path}-3-three"]
    bare = session.call("Grep", {**arguments, "-n": False, "-C": 0})
    assert first_lines(bare) == [f"{path}:Needle"]
    assert first_lines(session.call("Grep", {"pattern": "Needle"})) == [path]
    assert first_lines(session.call("Grep", {"pattern": "Needle", "output_mode": "count"})) == [f"{path}:1"]


def test_the_deepagents_pattern_is_literal(tmp_path: Path, make_session: Make, engine: str) -> None:
    write(tmp_path, {"a.py": "class A:\n    def __init__(self):\n        pass\n", "b.txt": "def __init__(self):\n"})
    session = make_session(durable=False, dialect="deepagents")
    path = str(tmp_path / "a.py")
    arguments = {"pattern": "def __init__(self):", "path": None, "glob": "*.py"}
    assert first_lines(session.call("grep", arguments)) == [path]
    content = session.call("grep", {**arguments, "output_mode": "content"})
    assert first_lines(content) == [f"{path}-1-class A:", f"{path}:2:    def __init__(self):", f"{path}-3-        pass"]
    assert first_lines(session.call("grep", {**arguments, "output_mode": "count"})) == [f"{path}:1"]
    assert session.call("grep", {"pattern": "nowhere"}).text.startswith("No matches found")
