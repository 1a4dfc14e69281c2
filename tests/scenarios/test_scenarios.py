"""Replays every scenario folder beside this file; README.md says what is in one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session

HERE = Path(__file__).parent
SCENARIOS = sorted(path.parent for path in HERE.glob("*/call.json"))


def tree(folder: Path) -> dict[str, bytes | str]:
    """Every file of a folder by its relative path: its bytes, or where a link leads."""
    return {
        str(path.relative_to(folder)): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def rooted(value: Any, root: Path) -> Any:
    """``{root}`` in any text stands for the workspace."""
    if isinstance(value, str):
        return value.replace("{root}", str(root))
    if isinstance(value, list):
        return [rooted(item, root) for item in value]
    return {key: rooted(item, root) for key, item in value.items()} if isinstance(value, dict) else value


def replay(session: Session, root: Path, steps: list[dict[str, Any]]) -> str:
    """What a model reads in the course of a scenario."""
    replies = []
    for step in steps:
        if "stranger" in step:  # somebody else writes this file, knowing nothing of us
            (root / step["stranger"]).write_bytes(step["text"].encode("utf-8"))
            continue
        result = session.call(step["tool"], rooted(step["arguments"], root))
        code = result.error.code if result.error else "-"
        replies.append(f"### {step['tool']} {result.status} {code}\n{result.text.replace(str(root), '{root}')}\n")
    return "".join(replies)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_ends_as_it_should(scenario: Path, make_session: Callable[..., Session], tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    if (scenario / "before").is_dir():
        shutil.copytree(scenario / "before", root, symlinks=True, dirs_exist_ok=True)
    call = json.loads((scenario / "call.json").read_text(encoding="utf-8"))
    session = make_session(root, call.get("dialect", "native"), durable=False)
    replies = replay(session, root, call["calls"])
    assert replies == (scenario / "reply.txt").read_bytes().decode("utf-8")
    assert tree(root) == tree(scenario / "after")


def test_there_are_scenarios_and_each_is_complete() -> None:
    assert len(SCENARIOS) >= 12
    for scenario in SCENARIOS:
        assert (scenario / "reply.txt").is_file(), scenario.name
        assert (scenario / "before").is_dir() or (scenario / "after").is_dir(), scenario.name
