"""Statistics, the history of a file with restore, and the export of a session."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail import Session
from handrail.web.plots import plot_bars
from tests.web.test_pages import HOSTILE, edit


def test_statistics_are_plots_and_tables(browser: TestClient, session: Session, project: Path) -> None:
    assert "No calls yet" in browser.get("/statistics").text
    edit(session)
    session.call("Read", {"file_path": "missing.txt"})
    page = browser.get("/statistics").text
    assert page.count('role="img"') == 5 and "<svg" in page and "style=" not in page
    assert 'aria-label="Calls per tool: Read 2, Edit 1"' in page
    assert 'aria-label="Failures and refusals: failed 1, refused 0"' in page
    assert f'title="{project}/app.py"' in page and "/app.py</a> 1 call" in page


def test_names_in_plots_are_text() -> None:
    svg = str(plot_bars("<b>", ["</text>"], {'"><script>': [3.0]}))
    assert "<b>" not in svg and "<script>" not in svg and svg.count("</text>") == 6


@pytest.mark.parametrize("value", [0.0, 0.5, 4.0, 9.99, 12345.0, 8e8])
def test_no_bar_leaves_the_plot(value: float) -> None:
    svg = str(plot_bars("t", ["a"], {"s": [value]}))
    assert all(float(y) >= 0 for y in re.findall(r'\by="([-\d.]+)"', svg))


def test_the_history_of_a_file_has_every_change(browser: TestClient, session: Session, project: Path) -> None:
    edit(session)
    edit(session, "'Goodbye '", "'Welcome '")
    page = browser.get("/files", params={"path": str(project / "app.py")}).text
    assert re.findall(r'<a href="/calls/(\d+)">', page) == ["4", "2"]
    assert "No call in the journal" in browser.get("/files", params={"path": "/nowhere"}).text


def test_an_older_version_is_restored_and_that_can_be_undone(
    browser: TestClient, session: Session, project: Path
) -> None:
    path = project / "app.py"
    first = path.read_bytes()
    edit(session)
    edit(session, "'Goodbye '", "'Welcome '")
    newest = path.read_bytes()
    form = {"path": str(path), "before": "2"}
    assert "The file is restored" in browser.post("/files", data=form).text
    assert path.read_bytes() == first
    assert "has these contents already" in browser.post("/files", data=form).text
    assert "restored" in browser.get("/").text
    assert "is undone" in browser.post("/calls/5/undo").text
    assert path.read_bytes() == newest
    for wrong in ({"path": str(path), "before": "3"}, {"path": "/etc/passwd", "before": "2"}, {}):
        assert browser.post("/files", data=wrong).status_code == 404


def test_a_path_that_became_a_link_is_not_restored(browser: TestClient, session: Session, project: Path) -> None:
    path = project / "app.py"
    edit(session)
    (project / "other").write_text("mine", encoding="utf-8")
    path.unlink()
    path.symlink_to("other")
    page = browser.post("/files", data={"path": str(path), "before": "2"}).text
    assert "a link now points to another place" in page
    assert (project / "other").read_text(encoding="utf-8") == "mine"


def test_the_export_of_a_session_is_one_file_without_secrets(
    browser: TestClient, session: Session, project: Path
) -> None:
    edit(session)
    secret = "ghp_" + "a1B2" * 9
    session.call("Write", {"file_path": HOSTILE, "content": f"token = '{secret}'\n<script>alert(1)</script>\n"})
    answer = browser.get(f"/sessions/{session.origin.session}/export")
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    assert "Goodbye" in answer.text and answer.text.count("<details>") == 3
    assert secret not in answer.text and "<script" not in answer.text and "<link" not in answer.text
    assert answer.text.rstrip().endswith("</html>")
    assert browser.get("/sessions/none/export").status_code == 404
