"""S4-1 to S4-13: LS and Glob in the dialect `envelope`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from tests.seeds.golden import put, run_batch

Make = Callable[..., Session]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(make_session: Make) -> Ask:
    """`ask("LS", path=".")`: the envelope that the model gets."""
    session = make_session(dialect="envelope", durable=False)

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(session.call(tool, arguments).text)
        return result

    return call


def entries(envelope: dict[str, Any]) -> list[tuple[str, str]]:
    return [(entry["path"], entry["type"]) for entry in envelope["data"]["entries"]]


def test_s4_1_a_long_list_is_cut_and_flagged_rather_than_run_away(ask: Ask, tmp_path: Path) -> None:
    for number in range(60):
        put(tmp_path, f"f{number}.py", "")
    actual = ask("Glob", pattern="*.py")
    assert (actual["status"], actual["data"]["truncated"], actual["data"]["aborted_reason"]) == (
        "partial",
        True,
        "count_limit",
    )
    assert len(actual["data"]["paths"]) == 50


@pytest.mark.parametrize("rg", [None, ""], ids=["ripgrep", "fallback"])
def test_s4_1_ls_glob_and_grep_skip_the_same_large_directories(tmp_path: Path, rg: str | None) -> None:
    for name in ("node_modules/a.js", "web/dist/b.js", "web/node_modules/c/d.js", "src/e.js", "dist.js"):
        put(tmp_path, name, "needle\n")
    calls = [
        {"tool": "LS", "arguments": {}},
        {"tool": "Glob", "arguments": {"pattern": "**/*.js"}},
        {"tool": "Grep", "arguments": {"pattern": "needle"}},
        {"tool": "Grep", "arguments": {"pattern": "needle", "include": "*.js"}},
        {"tool": "Grep", "arguments": {"pattern": "needle", "path": "node_modules"}},
    ]
    answers = run_batch(tmp_path, "envelope", calls, {} if rg is None else {"HANDRAIL_RG": rg})
    listed, named, *searched = [json.loads(answer["text"]) for answer in answers]
    assert entries(listed) == [("src", "dir"), ("web", "dir"), ("dist.js", "file")]
    assert set(named["data"]["paths"]) == {"src/e.js", "dist.js"}
    for actual in searched[:2]:
        assert {match["file"] for match in actual["data"]["matches"]} == {"src/e.js", "dist.js"}
        assert "3 ignored" in actual["text"]
    assert [match["file"] for match in searched[2]["data"]["matches"]] == ["node_modules/a.js"]


@pytest.mark.parametrize("rg", [None, ""], ids=["ripgrep", "fallback"])
def test_s4_1_a_match_that_is_cut_is_flagged(tmp_path: Path, rg: str | None) -> None:
    put(tmp_path, "long.txt", f"short needle\n{'x' * 1000}needle{'y' * 1000}\n")
    calls = [{"tool": "Grep", "arguments": {"pattern": pattern}} for pattern in ("needle", "short")]
    cut, whole = run_batch(tmp_path, "envelope", calls, {} if rg is None else {"HANDRAIL_RG": rg})
    envelope = json.loads(cut["text"])
    assert (cut["status"], envelope["status"], envelope["data"]["truncated"]) == ("partial", "partial", True)
    texts = [match["text"] for match in envelope["data"]["matches"]]
    assert texts[0] == "short needle" and len(texts[1]) == 302 and "xneedley" in texts[1]
    assert "1 long line cut to 300 characters" in envelope["text"]
    assert "Read long.txt with start_line=2, limit=1" in envelope["text"]
    assert "truncated" not in json.loads(whole["text"])["data"]


@pytest.mark.parametrize("name", ["node_modules", "dist", ".git"])
def test_s4_2_large_directories_are_left_out(ask: Ask, tmp_path: Path, name: str) -> None:
    put(tmp_path, f"{name}/a.js", "")
    put(tmp_path, "src/b.js", "")
    assert entries(ask("LS", include_hidden=True)) == [("src", "dir")]


def test_s4_3_a_page_holds_at_most_200_entries_and_names_the_next_offset(ask: Ask, tmp_path: Path) -> None:
    for number in range(250):
        put(tmp_path, f"f{number:03}", "")
    first = ask("LS", limit=500)
    assert (first["status"], len(first["data"]["entries"])) == ("partial", 200)
    assert "50 more of 250: go on with offset=200" in first["text"]
    rest = ask("LS", limit=200, offset=200)
    assert (rest["status"], len(rest["data"]["entries"])) == ("success", 50)
    assert entries(first)[-1][0] < entries(rest)[0][0]


def test_s4_3_the_default_is_a_hundred(ask: Ask, tmp_path: Path) -> None:
    for number in range(101):
        put(tmp_path, f"f{number:03}", "")
    assert len(ask("LS")["data"]["entries"]) == 100


def test_s4_4_hidden_names_are_shown_only_if_asked_for(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, ".env", "")
    put(tmp_path, "a", "")
    assert entries(ask("LS")) == [("a", "file")]
    assert entries(ask("LS", include_hidden=True)) == [(".env", "file"), ("a", "file")]


def test_s4_5_the_caller_can_leave_out_more(ask: Ask, tmp_path: Path) -> None:
    for name in ("a.py", "a.log", "b.tmp"):
        put(tmp_path, name, "")
    assert entries(ask("LS", ignore=["*.log", "*.tmp"])) == [("a.py", "file")]


def test_s4_6_a_link_is_a_directory_only_if_it_leads_inside(
    ask: Ask, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (tmp_path / "real").mkdir()
    (tmp_path / "in").symlink_to("real")
    (tmp_path / "out").symlink_to(outside)
    (tmp_path / "broken").symlink_to("nowhere")
    assert entries(ask("LS")) == [("in", "dir"), ("real", "dir"), ("broken", "link"), ("out", "link")]


def test_s4_7_directories_first_then_files_each_by_name_every_time(ask: Ask, tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "z/x", "m/x"):
        put(tmp_path, name, "")
    wanted = [("m", "dir"), ("z", "dir"), ("a.txt", "file"), ("b.txt", "file")]
    assert entries(ask("LS")) == wanted == entries(ask("LS"))


def test_s4_8_an_entry_is_a_path_and_a_type_and_nothing_else(ask: Ask, tmp_path: Path) -> None:
    put(tmp_path, "src/a.py", "")
    assert ask("LS", path="src")["data"]["entries"] == [{"path": "src/a.py", "type": "file"}]


@pytest.mark.parametrize("arguments", [{}, {"pattern": ""}])
def test_s4_9_a_pattern_is_needed(ask: Ask, arguments: dict[str, str]) -> None:
    actual = ask("Glob", **arguments)
    assert (actual["status"], actual["error"]["code"]) == ("error", "INVALID_PARAM")
    assert "pattern" in actual["error"]["message"]


def test_s4_10_at_most_200_paths(ask: Ask, tmp_path: Path) -> None:
    for number in range(230):
        put(tmp_path, f"f{number}.py", "")
    actual = ask("Glob", pattern="*.py", limit=1000)
    assert (actual["status"], len(actual["data"]["paths"])) == ("partial", 200)
    assert "200 of 230 shown, 30 more" in actual["text"]


@pytest.mark.slow
def test_s4_11_the_walk_stops_at_20000_entries_and_says_so(ask: Ask, tmp_path: Path) -> None:
    for folder in range(21):
        (tmp_path / f"d{folder:02}").mkdir()
        for number in range(1000):
            (tmp_path / f"d{folder:02}" / f"f{number}").touch()
    put(tmp_path, "z/wanted.py", "")
    actual = ask("Glob", pattern="**/wanted.py")
    assert actual["data"]["aborted_reason"] in ("count_limit", "time_limit")
    assert actual["status"] == "partial" and "may be incomplete" in actual["text"]
    assert ask("Glob", pattern="**/wanted.py", path="z")["data"]["paths"] == ["z/wanted.py"]


def test_s4_11_the_limits_are_those_of_the_document(make_session: Make) -> None:
    limits = make_session(dialect="envelope").dialect.limits("Glob")
    assert (limits.visits, limits.seconds) == (20_000, 2.0)


def test_s4_12_hidden_and_ignored_directories_are_walked_only_if_asked_for(ask: Ask, tmp_path: Path) -> None:
    for name in (".hidden/a.py", "node_modules/b.py", "ruled/c.py", "src/d.py"):
        put(tmp_path, name, "")
    put(tmp_path, ".gitignore", "ruled/\n")
    assert ask("Glob", pattern="**/*.py")["data"]["paths"] == ["src/d.py"]
    assert set(ask("Glob", pattern="**/*.py", include_hidden=True)["data"]["paths"]) == {".hidden/a.py", "src/d.py"}
    ignored = ask("Glob", pattern="**/*.py", include_ignored=True)["data"]["paths"]
    assert set(ignored) == {"node_modules/b.py", "ruled/c.py", "src/d.py"}


def test_s4_13_a_star_never_crosses_a_slash_and_nothing_is_matched_by_its_end(ask: Ask, tmp_path: Path) -> None:
    for name in ("agents/a.py", "agents/deep/b.py", "other/agents/c.py", "d.py"):
        put(tmp_path, name, "")

    def paths_of(pattern: str) -> set[str]:
        return set(ask("Glob", pattern=pattern)["data"]["paths"])

    assert paths_of("agents/*.py") == {"agents/a.py"}
    assert paths_of("*.py") == {"d.py"}
    assert paths_of("agents/**/*.py") == {"agents/a.py", "agents/deep/b.py"}
    assert paths_of("**/*.py") == {"agents/a.py", "agents/deep/b.py", "other/agents/c.py", "d.py"}


def test_s4_13_newest_first(ask: Ask, tmp_path: Path) -> None:
    for age, name in enumerate(("new.py", "older.py", "oldest.py")):
        os.utime(put(tmp_path, name, ""), ns=(10**18 - age * 10**9,) * 2)
    assert ask("Glob", pattern="*.py")["data"]["paths"] == ["new.py", "older.py", "oldest.py"]
