"""Every page on a telephone and on a screen: nothing is wider than the page, and the console has no errors."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from handrail import Session, Settings
from tests.chromium.accessibility import find_problems
from tests.chromium.browser import open_page, serve_page, set_width
from tests.web.test_every_tool import CALLS

WIDTHS = (390, 1280)
LONG = "a-name-that-is-much-longer-than-a-telephone-is-wide-and-has-no-place-to-break-it-" * 2 + ".txt"


def make_calls(project: Path) -> int:
    """A call of every tool, and calls with every end; returns the number of the last."""
    (project / "docs").mkdir()
    (project / "app.py").write_text("import os\n", encoding="utf-8")
    count = 0
    for dialect, tool, arguments in CALLS.values():
        with Session(project, dialect=dialect, mode="full", settings=Settings(durable=False)) as session:
            session.name_source("claude-code", "a-model-with-quite-a-long-name-2026")
            session.record_prompt(f"Please use {tool}. " * 20)
            session.call(tool, arguments)
            count += 2
        shutil.rmtree(project / "pages", ignore_errors=True)
        (project / "docs").mkdir(exist_ok=True)
    with Session(project, mode="accept-edits", settings=Settings(durable=False)) as session:
        session.call("Write", {"file_path": LONG, "content": "word " * 400 + "\n" + "x" * 900 + "\n"})
        session.call("Write", {"file_path": "many.txt", "content": "".join(f"line {n}\n" for n in range(500))})
        session.call("Bash", {"command": f"echo {'x' * 600}; rm many.txt"})
        session.call("Bash", {"command": "echo 1 > .bashrc"})  # changes that are not kept
        session.call("Bash", {"command": "rm -rf /"})
        session.call("Bash", {"command": "exit 3"})
        session.call("Read", {"file_path": f"/etc/{LONG}"})
        session.undo()
        session.redo()
        session.undo()
        count += 10
    return count


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_is_wider_than_its_window(project: Path, chromium: Chrome, width: int) -> None:
    last = make_calls(project)
    with serve_page(project) as (_, address):
        chromium.get(address)
        start = chromium.current_url
        set_width(chromium, width)
        chromium.get_log("browser")
        pages = ["", f"?before={last - 20}", "?q=docs&days=1", "?tool=none", "approvals", "drafts", "statistics"]
        pages += [f"files?path={project}/{LONG}", "nothing", "undo?call=1&call=2"]
        pages += [f"calls/{seq}{rest}" for seq in range(1, last + 1) for rest in ("", "?view=split", "/undo")]
        wrong = [one for path in pages for one in _find_wrong(chromium, start, path)]
        assert wrong == []
        chromium.get("about:blank")


def _find_wrong(page: Chrome, start: str, path: str) -> list[str]:
    open_page(page, start + path)
    wider = page.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    wrong = [f"{path}: {wider} px too wide"] if wider > 0 else []
    for entry in page.get_log("browser"):
        expected = "404" in entry["message"] and path in ("nothing", "undo?call=1&call=2")
        wrong += [] if expected else [f"{path}: {entry['message']}"]
    return wrong


def test_every_end_of_a_call_is_accessible(project: Path, chromium: Chrome) -> None:
    last = make_calls(project)
    with serve_page(project) as (_, address):
        chromium.get(address)
        start = chromium.current_url
        set_width(chromium, WIDTHS[0])
        for path in ("", *(f"calls/{seq}" for seq in range(last - 9, last + 1))):
            open_page(chromium, start + path)
            assert find_problems(chromium) == [], path
        chromium.get("about:blank")
