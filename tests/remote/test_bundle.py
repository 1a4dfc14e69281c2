"""Handrail is sent to a machine that has Python and nothing else: a stand-in for docker starts that Python here."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from handrail import connect
from handrail.errors import ConnectionLost
from handrail.remote import bundle

STAND_IN = """#!/bin/sh
shift 3  # exec -i box
[ "$1" != handrail ] || exit 127
[ "$1" = python3 ] || exit 99
shift
exec env -i HOME={home} PATH=/usr/bin:/bin HANDRAIL_STATE={home}/state {python} "$@"
"""


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a workspace in a container without Handrail."""
    home, folder = tmp_path / "home", tmp_path / "bin"
    for one in (home, folder, tmp_path / "work"):
        one.mkdir()
    (folder / "docker").write_text(STAND_IN.format(home=home, python=sys._base_executable))  # type: ignore[attr-defined]
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    (tmp_path / "work" / "a.txt").write_text("one\ntwo\n")
    return f"docker://box{tmp_path}/work"


def work(session: Any, folder: Path) -> None:
    assert session.call("Read", {"file_path": "a.txt", "limit": "1"}).text.startswith("1\tone")
    assert session.call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "zwei"}).ok
    assert (folder / "work" / "a.txt").read_text() == "one\nzwei\n"
    assert "a.txt" in session.call("Grep", {"pattern": "^z.ei$"}).text
    missing = session.call("Edit", {"file_path": "a.txt", "old_string": "zwie", "new_string": "2"})
    assert missing.error.code == "no_match"
    wrong = session.call("Read", {"file_path": 3, "limit": "many", "other": 1}).text
    assert "file_path: input should be a valid string, got 3" in wrong
    assert "limit: input should be a valid integer" in wrong
    assert session.call("Bash", {"command": "echo $((40 + 2))"}).text == "42"
    session.undo()
    assert (folder / "work" / "a.txt").read_text() == "one\ntwo\n"


def find_place(folder: Path) -> Path:
    (place,) = (folder / "home" / ".cache" / "handrail" / "bundles").iterdir()
    return place


@pytest.mark.slow
def test_a_bundle_is_sent_once_and_checked_at_each_start(box: str, tmp_path: Path) -> None:
    with connect(box, mode="full") as session:
        assert session.sent_bundle
        work(session, tmp_path)
    place = find_place(tmp_path)
    assert place.name.startswith(bundle.build_bundle().digest)
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert (place / "bin" / "rg").exists()
    number = place.stat().st_ino
    with connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert find_place(tmp_path).stat().st_ino == number
    (damaged,) = place.glob("lib/*/site-packages/handrail/version.py")
    damaged.write_text("raise SystemExit('damaged')\n")
    with connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert find_place(tmp_path).stat().st_ino != number


@pytest.mark.parametrize("name", ["abi", "libc", "machine"])
def test_a_machine_with_another_python_is_told_to_install_handrail(
    box: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(bundle, "read_facts", lambda line: {**json.loads(line), name: "other"})
    with pytest.raises(ConnectionLost, match=r"differs from ours \(other instead of .*\)\. Install it there"):
        connect(box)


def test_a_machine_without_python_is_reported(box: str, tmp_path: Path) -> None:
    with pytest.raises(ConnectionLost, match=r"ended|closed"):
        connect(f"{box}?python=/none/such")


@pytest.mark.slow
def test_a_directory_that_others_can_write_to_is_not_used(box: str, tmp_path: Path) -> None:
    cache = tmp_path / "home" / ".cache" / "handrail"
    cache.mkdir(parents=True)
    cache.chmod(0o777)
    stand_in = tmp_path / "bin" / "docker"
    stand_in.write_text(stand_in.read_text().replace("env -i", f"env -i TMPDIR={tmp_path}/other"))
    (tmp_path / "other").mkdir()
    with connect(box) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
    assert not (cache / "bundles").exists() or not list((cache / "bundles").iterdir())
    assert list((tmp_path / "other").glob("handrail-*/bundles/*"))
