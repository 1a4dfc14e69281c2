"""Glob: files by the pattern of their paths, newest first, and what was not looked at."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from tests.tools.test_ls import Hides, put

MakeSession = Callable[..., Session]


def aged(top: Path, *paths: str) -> None:
    """Files, each a second older than the one before."""
    put(top, *paths)
    for age, path in enumerate(paths):
        os.utime(top / path, ns=(0, (1_000_000 - age) * 10**9))


def test_the_newest_come_first_and_ties_in_the_order_of_paths(make_session: MakeSession, tmp_path: Path) -> None:
    aged(tmp_path, "z.py", "a/b.py", "a.py", "x.txt")
    put(tmp_path, "t2.py", "t1.py")
    for name in ("t1.py", "t2.py"):
        os.utime(tmp_path / name, ns=(0, 5))
    result = make_session().call("Glob", {"pattern": "**/*.py"})
    assert result.text == "z.py\na/b.py\na.py\nt1.py\nt2.py"
    assert result.data["paths"] == result.text.split("\n")
    assert result.data["receipt"] == {"searched": 5, "skipped": {}, "complete": True}


def test_a_star_does_not_go_deeper_and_an_empty_answer_says_how_to(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "agents/a.py", "agents/deep/b.py")
    session = make_session()
    assert session.call("Glob", {"pattern": "agents/*.py"}).data["paths"] == ["agents/a.py"]
    empty = session.call("Glob", {"pattern": "*.py"})
    assert "**/*.py" in empty.text
    assert "(searched all 1 entries)" in empty.text
    assert empty.status == "ok" and empty.data["receipt"]["complete"]


def test_pages_hold_every_path_once(make_session: MakeSession, tmp_path: Path) -> None:
    names = [f"f{number:02}.py" for number in range(25)]
    aged(tmp_path, *names)
    session = make_session()
    collected: list[str] = []
    offset: int | None = 0
    while offset is not None:
        result = session.call("Glob", {"pattern": "*.py", "offset": offset, "limit": 10})
        collected += result.data["paths"]
        assert (result.status, result.data["total"]) == ("partial" if result.data["next_offset"] else "ok", 25)
        offset = result.data["next_offset"]
    assert collected == names
    assert "No results at this offset" in session.call("Glob", {"pattern": "*.py", "offset": 25}).text


def test_hidden_and_ignored_files_are_counted_and_can_be_asked_for(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "a.py", ".h.py", "out/b.py", ".d/c.py")
    (tmp_path / ".gitignore").write_text("out/\n", encoding="utf-8")
    session = make_session()
    result = session.call("Glob", {"pattern": "**/*.py"})
    assert result.data["paths"] == ["a.py"]
    assert result.data["receipt"]["skipped"] == {"ignored": 1, "hidden": 3}
    everything = session.call("Glob", {"pattern": "**/*.py", "include_hidden": True, "include_ignored": True})
    assert sorted(everything.data["paths"]) == [".d/c.py", ".h.py", "a.py", "out/b.py"]
    assert session.call("Glob", {"pattern": ".d/*.py"}).data["paths"] == [".d/c.py"]


def test_alternatives_and_sets(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "a.ts", "b.tsx", "c.js", "d1", "d2")
    session = make_session()
    assert sorted(session.call("Glob", {"pattern": "*.{ts,tsx}"}).data["paths"]) == ["a.ts", "b.tsx"]
    assert session.call("Glob", {"pattern": "d[!1]"}).data["paths"] == ["d2"]


def test_links_to_files_are_found_and_links_to_directories_not_entered(
    make_session: MakeSession, tmp_path: Path
) -> None:
    put(tmp_path, "d/a.py")
    (tmp_path / "b.py").symlink_to("d/a.py")
    (tmp_path / "out.py").symlink_to("/etc/hostname")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "dir.py").symlink_to("d")
    assert sorted(make_session().call("Glob", {"pattern": "**/*.py"}).data["paths"]) == ["b.py", "d/a.py"]


def test_a_pattern_may_begin_with_the_workspace(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "src/a.py", "src/x/b.py")
    top = os.path.realpath(tmp_path)
    session = make_session()
    assert session.call("Glob", {"pattern": f"{top}/src/*.py"}).data["paths"] == ["src/a.py"]
    assert session.call("Glob", {"pattern": f"{top}/src/**/b.py"}).data["paths"] == ["src/x/b.py"]
    assert session.call("Glob", {"pattern": "*.py", "path": "src"}).data["paths"] == ["src/a.py"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "bad_arguments"),
        ({"pattern": ""}, "bad_arguments"),
        ({"pattern": "x" * 5000}, "bad_arguments"),
        ({"pattern": "../*.py"}, "bad_glob"),
        ({"pattern": "a/../../b"}, "bad_glob"),
        ({"pattern": "{a,b}" * 30}, "bad_glob"),
        ({"pattern": "*\0"}, "bad_glob"),
        ({"pattern": "/etc/*"}, "outside_workspace"),
        ({"pattern": "/*"}, "outside_workspace"),
        ({"pattern": "*", "path": "missing"}, "not_found"),
        ({"pattern": "*", "path": "file"}, "not_directory"),
        ({"pattern": "*", "path": "../"}, "outside_workspace"),
        ({"pattern": "*", "limit": 0}, "bad_arguments"),
    ],
)
def test_bad_input_is_an_error_that_says_why(
    make_session: MakeSession, tmp_path: Path, arguments: dict[str, object], code: str
) -> None:
    put(tmp_path, "file")
    result = make_session().call("Glob", arguments)
    assert result.error and result.error.code == code


@pytest.mark.parametrize("name", [b"new\nline.py", b"\xff.py", b"a\\b.py"])
def test_an_odd_name_is_escaped_and_can_be_read(make_session: MakeSession, tmp_path: Path, name: bytes) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"content\n")
    session = make_session()
    result = session.call("Glob", {"pattern": "*.py"})
    assert "\n" not in result.text
    assert "content" in session.call("Read", {"file_path": result.data["paths"][0]}).text


def test_what_policy_denies_is_not_found(make_session: MakeSession, tmp_path: Path) -> None:
    put(tmp_path, "secret/a.py", "b.py", "c_secret.py")
    (tmp_path / "link.py").symlink_to("secret/a.py")
    result = make_session(policy=Hides("secret")).call("Glob", {"pattern": "**/*.py"})
    assert result.data["paths"] == ["b.py"]
    assert result.data["receipt"]["skipped"] == {"withheld": 2}


def test_a_changed_tree_is_seen_at_once(make_session: MakeSession, tmp_path: Path) -> None:
    session = make_session()
    aged(tmp_path, "a.py", "b.py")
    assert session.call("Glob", {"pattern": "*.py"}).data["paths"] == ["a.py", "b.py"]
    os.utime(tmp_path / "b.py", ns=(0, 2_000_000 * 10**9))
    assert session.call("Glob", {"pattern": "*.py"}).data["paths"] == ["b.py", "a.py"]
    (tmp_path / "a.py").unlink()
    assert session.call("Glob", {"pattern": "*.py"}).data["paths"] == ["b.py"]
