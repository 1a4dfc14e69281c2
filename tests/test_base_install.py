"""The base install: text files and commands work without any extra, and a tool that needs one names it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from handrail.errors.extras import USES
from tests.command import TIMEOUT, surroundings

ROOT = Path(__file__).parents[1]
MOST_PACKAGES = 28

CALLS = """
import json, sys
sys.path[:] = [place for place in sys.path if "-packages" not in place and place] + json.loads(sys.argv[1])
from handrail import Session
with Session(".", mode="full") as session:
    results = [session.call(tool, arguments) for tool, arguments in json.loads(sys.argv[2])]
print(json.dumps([[one.status, one.error and one.error.code, one.text] for one in results]))
"""

NOTEBOOK = {
    "cells": [{"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "source": "", "execution_count": None}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}


def base_packages() -> dict[str, metadata.Distribution]:
    """The packages that `pip install handrail` installs, by their names."""
    waiting, packages = ["handrail"], {}
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name not in packages:
            packages[name] = metadata.distribution(name)
            for line in packages[name].requires or ():
                requirement = Requirement(line)
                if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                    waiting.append(requirement.name)
    return packages


@pytest.fixture(scope="module")
def base_path(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Directories in which only the packages of the base install can be imported."""
    folder = tmp_path_factory.mktemp("base")
    for name, package in base_packages().items():
        for file in package.files or ():
            top = file.parts[0]
            if name != "handrail" and top != ".." and not (folder / top).exists():
                (folder / top).symlink_to(str(package.locate_file(top)))
    return [str(ROOT / "src"), str(folder)]


def call(folder: Path, base_path: list[str], *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, str | None, str]]:
    """Call tools in a process that finds only the base install: status, error code and text of each."""
    done = subprocess.run(
        [sys.executable, "-c", CALLS, json.dumps(base_path), json.dumps(calls)],
        cwd=folder,
        env=surroundings(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr
    return [tuple(row) for row in json.loads(done.stdout)]


def test_the_base_install_is_small() -> None:
    assert len(base_packages().keys() - {"handrail"}) <= MOST_PACKAGES


def test_text_files_and_commands_need_no_extra(tmp_path: Path, base_path: list[str]) -> None:
    (tmp_path / "a.ipynb").write_text(json.dumps(NOTEBOOK), encoding="utf-8")
    results = call(
        tmp_path,
        base_path,
        ("Write", {"file_path": "a.py", "content": "def one():\n    pass\n"}),
        ("Read", {"file_path": "a.py"}),
        ("Edit", {"file_path": "a.py", "old_string": "nowhere to be seen", "new_string": ""}),
        ("Edit", {"file_path": "a.py", "old_string": "def one():", "new_string": "def two():"}),
        ("Read", {"file_path": "a.py", "outline": True}),
        ("Read", {"file_path": "a.ipynb"}),
        ("Grep", {"pattern": "tw."}),
        ("Glob", {"pattern": "*.py"}),
        ("Bash", {"command": "cat a.py"}),
        ("Bash", {"command": "apply_patch <<'E'\n*** Begin Patch\n*** Add File: b\n+x\n*** End Patch\nE\n"}),
    )
    codes = [code for _, code, _ in results]
    assert codes == [None, None, "no_match", *[None] * 7], results
    assert (tmp_path / "b").read_text(encoding="utf-8") == "x\n"


@pytest.mark.parametrize(
    ("extra", "file", "raw", "tool", "arguments"),
    [
        ("media", "a.png", b"\x89PNG\r\n\x1a\n\0\0\0", "Read", {}),
        ("media", "a.pdf", b"%PDF-1.7\n", "Read", {}),
        ("outline", "a.go", b"package a\n", "Read", {"outline": True}),
        ("media", "a.ipynb", json.dumps(NOTEBOOK).encode(), "NotebookEdit", {"cell_id": "a", "new_source": "x"}),
    ],
)
def test_a_tool_that_needs_an_extra_names_it_and_how_to_install_it(
    extra: str, file: str, raw: bytes, tool: str, arguments: dict[str, Any], tmp_path: Path, base_path: list[str]
) -> None:
    (tmp_path / file).write_bytes(raw)
    name = "notebook_path" if tool == "NotebookEdit" else "file_path"
    *_, (status, code, text) = call(
        tmp_path, base_path, ("Read", {"file_path": file}), (tool, {name: file, **arguments})
    )
    assert (status, code) == ("error", "missing_extra")
    assert f"is not installed; it is needed for {USES[extra]}. Install it with: " in text
    assert f"install '{ROOT}[{extra}]'" in text  # it runs from its source here, without metadata
    assert (tmp_path / file).read_bytes() == raw
