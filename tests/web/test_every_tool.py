"""The page of a call opens, whichever tool was called and whatever its paths are by now."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from handrail import Session, Settings, tools

PATCH = "*** Begin Patch\n*** Update File: app.py\n@@\n-import os\n+import sys\n*** End Patch\n"
CALLS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "apply_patch": ("native", "ApplyPatch", {"patch": PATCH}),
    "bash": ("native", "Bash", {"command": "ls docs"}),
    "bash_input": ("native", "BashInput", {"job": "1", "text": "x\n"}),
    "bash_kill": ("native", "BashKill", {"job": "1"}),
    "bash_output": ("native", "BashOutput", {"job": "1"}),
    "edit": ("native", "Edit", {"file_path": "app.py", "old_string": "import os", "new_string": "import sys"}),
    "edit_lines": ("anchored", "Edit", {"file_path": "app.py", "edits": []}),
    "fresh_bash": ("anthropic", "bash", {"command": "ls docs"}),
    "glob": ("native", "Glob", {"pattern": "**", "path": "docs"}),
    "grep": ("native", "Grep", {"pattern": "a", "path": "docs"}),
    "ls": ("native", "LS", {"path": "docs"}),
    "move": ("native", "Move", {"source_path": "docs", "target_path": "pages"}),
    "multi_edit": (
        "native",
        "MultiEdit",
        {"file_path": "app.py", "edits": [{"old_string": "import os", "new_string": "import sys"}]},
    ),
    "notebook_edit": ("native", "NotebookEdit", {"notebook_path": "a.ipynb", "edit_mode": "insert", "new_source": "x"}),
    "read": ("native", "Read", {"file_path": "docs"}),
    "replace": ("native", "Replace", {"pattern": "import", "replacement": "export", "path": "."}),
    "script": ("native", "Script", {"code": "print(ls(path='docs'))"}),
    "text_editor": ("anthropic", "str_replace_based_edit_tool", {"command": "view", "path": "docs"}),
    "trash": ("native", "Trash", {"path": "docs"}),
    "undo": ("native", "Undo", {}),
    "uppercase": ("hello", "uppercase", {"text": "a"}),
    "view": ("anthropic-agent", "read", {"file_path": "docs"}),
    "write": ("native", "Write", {"file_path": "docs/new/b.md", "content": "b\n"}),
}


def make_directory(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = os.getcwd()
    os.chdir(path.parent)  # the address of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


def make_link_to_directory(path: Path) -> None:
    path.symlink_to(".")


def make_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def make_unreadable(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    path.chmod(0)


def make_cut_picture(path: Path) -> None:
    path.write_bytes(b"\x89PNG\r\n\x1a\n")


def make_nothing(path: Path) -> None:
    pass


LATER = [
    make_directory,
    make_pipe,
    make_socket,
    make_link_to_directory,
    make_link_to_itself,
    make_unreadable,
    make_cut_picture,
    make_nothing,
]


def open_session(root: Path, dialect: str = "native") -> Session:
    return Session(root, dialect=dialect, mode="full", settings=Settings(durable=False, sandbox="off"))


@pytest.mark.parametrize("tool_id", tools.list_ids())
def test_the_page_of_a_call_of_each_tool_opens(browser: TestClient, project: Path, tool_id: str) -> None:
    dialect, name, arguments = CALLS[tool_id]
    (project / "docs").mkdir()
    (project / "docs" / "a.md").write_text("a\n", encoding="utf-8")
    with open_session(project, dialect) as session:
        session.call(name, arguments)
    for address in ("/calls/1", "/calls/1?view=split", "/calls/1/undo"):
        page = browser.get(address)
        assert page.status_code == 200, address
    assert re.search('id="call-1"', browser.get("/").text)


@pytest.mark.parametrize("make", LATER)
@pytest.mark.parametrize("tool_id", ["read", "write", "ls", "grep"])
def test_the_page_opens_whatever_is_at_the_path_by_now(
    browser: TestClient, project: Path, tool_id: str, make: Callable[[Path], None]
) -> None:
    path = project / "docs"
    arguments = {
        "read": {"file_path": "docs"},
        "write": {"file_path": "docs", "content": "a\n"},
        "ls": {"path": "docs"},
        "grep": {"pattern": "a", "path": "docs"},
    }[tool_id]
    if tool_id != "write":
        path.mkdir()
    with open_session(project) as session:
        session.call(CALLS[tool_id][1], arguments)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    make(path)
    assert browser.get("/calls/1").status_code == 200
    assert browser.get("/calls/1/pictures/0").status_code in (200, 404)


@pytest.mark.parametrize("name", [".", "docs/..", "a\0b", "x" * 5000, "docs/" * 1200, "\udcff", "~", "/"])
def test_the_page_opens_for_a_path_of_any_form(browser: TestClient, project: Path, name: str) -> None:
    (project / "docs").mkdir()
    with open_session(project) as session:
        for tool, argument in (("Read", "file_path"), ("LS", "path")):
            session.call(tool, {argument: name})
    for number in (1, 2):
        assert browser.get(f"/calls/{number}").status_code == 200
