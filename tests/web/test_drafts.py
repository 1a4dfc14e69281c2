"""Named drafts on the page: the list, the diff, keep by file, drop. Their changes are written by hand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail.drafts.store import DraftStore, NoDraft


@pytest.fixture
def draft(project: Path) -> tuple[DraftStore, Path]:
    """A draft in which one file was created and one was replaced."""
    try:
        store = DraftStore.open(os.environ["HANDRAIL_STATE"], str(project))
    except NoDraft as error:
        pytest.skip(f"no drafts here: {error.strerror}")
    created = store.create("try")
    upper = Path(created.directory.upper)
    created.close()
    (upper / "new <b>.txt").write_text("hello\n", encoding="utf-8")
    (upper / "app.py").write_text("import sys\n", encoding="utf-8")
    return store, project


def form(project: Path, do: str, *paths: str) -> dict[str, object]:
    return {"workspace": str(project), "do": do, "path": list(paths)}


def test_a_draft_is_listed_and_compared_as_text(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    assert "1 created, 1 changed" in browser.get("/drafts").text
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    assert "new &lt;b&gt;.txt" in page and "new <b>" not in page and 'class="added"' in page
    assert browser.get("/drafts/none", params={"workspace": str(project)}).status_code == 404
    assert browser.get("/drafts/try", params={"workspace": "/"}).status_code == 404


def test_one_file_is_kept_and_the_other_stays_in_the_draft(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    before = (project / "app.py").read_bytes()
    assert "Kept: 1 created" in browser.post("/drafts/try", data=form(project, "keep", "new <b>.txt")).text
    assert (project / "new <b>.txt").read_text(encoding="utf-8") == "hello\n"
    assert (project / "app.py").read_bytes() == before
    assert "1 changed" in browser.get("/drafts").text
    assert "<b>Draft</b>" in browser.get("/").text
    assert "is undone" in browser.post("/calls/1/undo").text
    assert not (project / "new <b>.txt").exists()


def test_a_draft_is_kept_as_a_whole_and_gone(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    answer = browser.post("/drafts/try", data=form(project, "keep", "new <b>.txt", "app.py"))
    assert answer.status_code == 200
    assert (project / "app.py").read_text(encoding="utf-8") == "import sys\n"
    assert "There are no drafts" in browser.get("/drafts").text


def test_a_draft_is_dropped_and_the_project_stays(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    assert "is dropped" in browser.post("/drafts/try", data=form(project, "drop")).text
    assert not (project / "new <b>.txt").exists()
    assert browser.post("/drafts/try", data=form(project, "drop")).status_code == 409


def test_a_draft_in_use_and_a_form_without_a_choice_change_nothing(
    browser: TestClient, draft: tuple[DraftStore, Path]
) -> None:
    store, project = draft
    assert browser.post("/drafts/try", data=form(project, "keep")).status_code == 409
    assert browser.post("/drafts/try", data=form(project, "else")).status_code == 400
    held = store.open_named("try")
    try:
        assert "Another process" in browser.post("/drafts/try", data=form(project, "drop")).text
    finally:
        held.close()
    assert len(store.list_named()) == 1
