"""Replays every patch folder beside this file; README.md says what is in one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/patch.txt"))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_a_patch_leaves_what_it_should(folder: Path, make_session: Callable[..., Session], tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    if (folder / "input").is_dir():
        shutil.copytree(folder / "input", root, dirs_exist_ok=True)
    before = tree(root)
    session = make_session(root, durable=False)
    for name in before:
        session.call("Read", {"file_path": name})
    options = folder / "options.json"
    given = json.loads(options.read_text(encoding="utf-8")) if options.exists() else {}
    patch = (folder / "patch.txt").read_bytes().decode("utf-8")
    arguments = {"patch": patch, **given}
    result = session.call("ApplyPatch", arguments)
    refused = folder / "error.txt"
    if refused.exists():
        assert result.error, result.text
        assert f"{result.error.code}\n{result.text}\n" == refused.read_text(encoding="utf-8")
        assert tree(root) == before
    else:
        assert result.error is None, result.text
        assert tree(root) == tree(folder / "expected")


def test_there_are_enough_folders_and_each_is_complete() -> None:
    assert len(FOLDERS) >= 60
    for folder in FOLDERS:
        assert (folder / "error.txt").is_file() != (folder / "expected").is_dir(), folder.name
