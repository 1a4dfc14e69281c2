"""`handrail demo`: the story comes true, on a terminal and in a pipe, and leaves nothing behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.command import handrail, in_terminal


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def test_the_demo_comes_out_as_told_and_removes_its_project(temporary: Path, tmp_path: Path) -> None:
    found = handrail("demo", cwd=tmp_path)
    text = found.stdout.decode("utf-8")
    assert (found.returncode, found.stderr) == (0, b"")
    assert "WRONG" not in text and "\x1b" not in text
    for told in (
        "the encoding was recognised: cp1252",
        "read it first",
        "+café noir      2,60 €",
        "bytes before it and",
        "(lines 3, 4)",
        "Edit 2 of 2 failed, so none was made.",
        "../secret.txt is outside the workspace",
        "reached through a link that leads out",
        "ok: 20 are in the file",
        "All 14 checks came out as told.",
        "handrail batch",
    ):
        assert told in text
    assert os.listdir(temporary) == []


def test_the_demo_is_in_colour_on_a_terminal(temporary: Path, tmp_path: Path) -> None:
    code, seen = in_terminal("demo", cwd=tmp_path)
    assert code == 0
    assert "\x1b[32m+café noir" in seen and "\x1b[31m-café noir" in seen
    assert "\x1b[32m  ok: " in seen and "WRONG" not in seen
    assert os.listdir(temporary) == []


def test_the_demo_tells_when_something_does_not_come_out_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another menu than the story counts on: the demo must find out by itself."""
    from handrail.cli import demo

    monkeypatch.setattr(demo, "_MENU", "Carte\ncrème brûlée   6,50 €\ncafé noir      2,40 €\ncafé\n".encode())
    assert demo.run(demo.parser().parse_args([])) == 1
