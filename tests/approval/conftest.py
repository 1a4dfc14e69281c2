"""A project, and sessions on it in which a person is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Settings, Setup
from handrail.policy.files import load
from tests.approval.asked import Say


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)), encoding="utf-8")
    return directory


@pytest.fixture
def opened(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def make(approve: Say | None, root: Path = project, mode: Any = "ask", bugs: bool = True, **more: Any) -> Session:
        settings = Settings(state=str(tmp_path / "state"), durable=False, raise_bugs=bugs, sandbox="off")
        rules = load(str(root), os.environ, str(tmp_path / "state"))
        return Session(root, mode=mode, setup=Setup(rules=rules), approve=approve, settings=settings, **more)

    return make
