"""S0-5, S0-26, S0-27 and S0-50: grep in the dialect `deepagents`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session, dialects
from tests.seeds.golden import put

Make = Callable[..., Session]


@pytest.fixture
def agent(make_session: Make, tmp_path: Path) -> Session:
    for age, (name, text) in enumerate(
        [
            ("b.py", "class B:\n    def __init__(self):\n        pass\n"),
            ("a.py", "def __init__(self):\n"),
            ("c.md", "x\n"),
        ]
    ):
        os.utime(put(tmp_path, name, text), ns=(10**18 - age * 10**9,) * 2)
    return make_session(dialect="deepagents", durable=False)


def test_s0_5_grep_gives_path_line_and_content(agent: Session, tmp_path: Path) -> None:
    result = agent.call("grep", {"pattern": "def __init__(self):", "output_mode": "content"})
    assert result.data["matches"] == [
        {"file": f"{tmp_path}/b.py", "line": 2, "text": "    def __init__(self):"},
        {"file": f"{tmp_path}/a.py", "line": 1, "text": "def __init__(self):"},
    ]


def test_s0_26_the_pattern_is_plain_text_and_needs_no_escapes(agent: Session, tmp_path: Path) -> None:
    schema = dialects.load("deepagents").spec("grep").schema
    assert list(schema["properties"]) == ["pattern", "path", "glob", "output_mode", "context", "max_count"]
    assert schema["required"] == ["pattern"]
    assert schema["properties"]["output_mode"]["default"] == "files_with_matches"
    assert agent.call("grep", {"pattern": "def __init__(self):"}).data["files"] == [
        f"{tmp_path}/b.py",
        f"{tmp_path}/a.py",
    ]
    assert agent.call("grep", {"pattern": "def .*"}).data["files"] == []


def test_s0_26_a_path_and_a_glob_narrow_the_search(agent: Session, tmp_path: Path) -> None:
    put(tmp_path, "sub/d.py", "def __init__(self):\n")
    actual = agent.call("grep", {"pattern": "def __init__", "path": f"{tmp_path}/sub"}).data["files"]
    assert actual == [f"{tmp_path}/sub/d.py"]
    assert agent.call("grep", {"pattern": "x", "glob": "*.md"}).data["files"] == [f"{tmp_path}/c.md"]


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("files_with_matches", "{0}/b.py\n{0}/a.py"),
        (
            "content",
            "{0}/b.py-1-class B:\n{0}/b.py:2:    def __init__(self):\n{0}/b.py-3-        pass\n--\n"
            "{0}/a.py:1:def __init__(self):",
        ),
        ("count", "{0}/b.py:1\n{0}/a.py:1"),
    ],
)
def test_s0_27_paths_or_lines_or_counts(agent: Session, tmp_path: Path, mode: str, text: str) -> None:
    result = agent.call("grep", {"pattern": "__init__", "output_mode": mode})
    assert result.text == text.format(tmp_path)


def test_s0_27_max_count_bounds_the_results(agent: Session, tmp_path: Path) -> None:
    put(tmp_path, "many.txt", "hit\n" * 520)
    hits = {"pattern": "hit", "output_mode": "content", "context": 0}
    for given, count in (({"max_count": 3}, 3), ({}, 500), ({"max_count": 520}, 520)):
        assert len(agent.call("grep", {**hits, **given}).data["matches"]) == count


@pytest.mark.parametrize(
    ("given", "shown"),
    [({}, [3, 4, 5, 6, 7]), ({"context": 0}, [5]), ({"context": 1}, [4, 5, 6]), ({"context": 9}, list(range(1, 10)))],
)
def test_s0_50_content_comes_with_the_lines_around_it(
    agent: Session, tmp_path: Path, given: dict[str, int], shown: list[int]
) -> None:
    put(tmp_path, "long.txt", "".join(f"line {number}\n" for number in range(1, 10)))
    result = agent.call("grep", {"pattern": "line 5", "output_mode": "content", **given})
    rows = [f"{tmp_path}/long.txt{':5:' if number == 5 else f'-{number}-'}line {number}" for number in shown]
    assert result.text == "\n".join(rows)
    assert result.data["matches"] == [{"file": f"{tmp_path}/long.txt", "line": 5, "text": "line 5"}]
    assert "context" in dialects.load("deepagents").spec("grep").schema["properties"]
