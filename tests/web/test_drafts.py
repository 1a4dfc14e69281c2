"""Named drafts on the page: the list, the diff, keep and drop by file and hunk. Their changes are written by hand."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handrail.drafts.store import DraftStore, NoDraft

LINES = [f"line {number}\n" for number in range(60)]
PLACES = (5, 25, 45)
"""Lines that the draft changes: three hunks."""


@pytest.fixture
def draft(project: Path) -> tuple[DraftStore, Path]:
    """A draft in which one file was created, one was replaced and one was changed in three places."""
    try:
        store = DraftStore.open(os.environ["HANDRAIL_STATE"], str(project))
    except NoDraft as error:
        pytest.skip(f"no drafts here: {error.strerror}")
    (project / "long.txt").write_text("".join(LINES), encoding="utf-8")
    created = store.create("try")
    upper = Path(created.directory.upper)
    created.close()
    (upper / "new <b>.txt").write_text("hello\n", encoding="utf-8")
    (upper / "app.py").write_text("import sys\n", encoding="utf-8")
    (upper / "long.txt").write_text(change(PLACES), encoding="utf-8")
    return store, project


def change(places: tuple[int, ...] | list[int]) -> str:
    return "".join(f"LINE {number}\n" if number in places else line for number, line in enumerate(LINES))


def read_choices(page: str) -> dict[str, str]:
    """The labels of the boxes on the page of a draft, with their values."""
    return {
        label.strip(): value
        for value, label in re.findall(r'name="change" value="([\d.]+)" checked> (.*?)</label>', page)
    }


def post(browser: TestClient, project: Path, do: str, *chosen: str, **more: str) -> str:
    """Choose boxes by their labels, as the page shows them now, and press a button."""
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    version = re.findall(r'name="version" value="(\w+)"', page)
    values = [read_choices(page)[label] for label in chosen]
    data = {"workspace": str(project), "do": do, "change": values, "version": version, **more}
    return browser.post("/drafts/try", data=data).text


def hunk(number: int, of: int = 3) -> str:
    return f"Change {number + 1} of {of} in long.txt"


NEW, APP = "All of new &lt;b&gt;.txt", "All of app.py"
ALL = (NEW, APP, hunk(0), hunk(1), hunk(2))


def test_a_draft_is_listed_and_compared_as_text(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    assert "1 created, 2 changed" in browser.get("/drafts").text
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    assert "new &lt;b&gt;.txt" in page and "new <b>" not in page and 'class="added"' in page
    assert set(read_choices(page)) == set(ALL)
    assert browser.get("/drafts/none", params={"workspace": str(project)}).status_code == 404
    assert browser.get("/drafts/try", params={"workspace": "/"}).status_code == 404


def test_one_file_is_kept_and_the_others_stay_in_the_draft(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    before = (project / "app.py").read_bytes()
    assert "Kept: 1 created" in post(browser, project, "keep", NEW)
    assert (project / "new <b>.txt").read_text(encoding="utf-8") == "hello\n"
    assert (project / "app.py").read_bytes() == before
    assert "2 changed" in browser.get("/drafts").text
    assert "kept a draft:" in browser.get("/").text
    assert "is undone" in browser.post("/calls/1/undo").text
    assert not (project / "new <b>.txt").exists()


@pytest.mark.parametrize("chosen", [[*part] for size in (1, 2) for part in itertools.combinations(range(3), size)])
def test_some_hunks_of_a_file_are_kept_and_the_others_after_them(
    browser: TestClient, draft: tuple[DraftStore, Path], chosen: list[int]
) -> None:
    _, project = draft
    assert "Kept: 1 changed" in post(browser, project, "keep", *map(hunk, chosen))
    assert (project / "long.txt").read_text(encoding="utf-8") == change([PLACES[number] for number in chosen])
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    assert "Changed in the project too" not in page
    left = 3 - len(chosen)
    labels = [hunk(number, left) for number in range(left)] if left > 1 else ["All of long.txt"]
    assert set(read_choices(page)) == {NEW, APP, *labels}
    assert "Kept: 1 changed" in post(browser, project, "keep", *labels)
    assert (project / "long.txt").read_text(encoding="utf-8") == change(PLACES)
    assert "1 created, 1 changed" in browser.get("/drafts").text


def test_kept_hunks_are_undone_and_kept_again(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    post(browser, project, "keep", hunk(1))
    assert "is undone" in browser.post("/calls/1/undo").text
    assert (project / "long.txt").read_text(encoding="utf-8") == "".join(LINES)
    post(browser, project, "keep", hunk(0), hunk(1), hunk(2))
    assert (project / "long.txt").read_text(encoding="utf-8") == change(PLACES)


def test_a_file_that_is_changed_outside_after_a_hunk_was_kept_is_a_conflict(
    browser: TestClient, draft: tuple[DraftStore, Path]
) -> None:
    _, project = draft
    post(browser, project, "keep", hunk(1))
    (project / "long.txt").write_text("mine\n", encoding="utf-8")
    assert "Changed in the project too" in browser.get("/drafts/try", params={"workspace": str(project)}).text
    assert "Nothing was kept" in post(browser, project, "keep", "All of long.txt")
    assert (project / "long.txt").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.parametrize("chosen", [[*part] for size in (1, 2, 3) for part in itertools.combinations(range(3), size)])
def test_some_hunks_of_a_file_are_dropped_and_the_others_stay(
    browser: TestClient, draft: tuple[DraftStore, Path], chosen: list[int]
) -> None:
    store, project = draft
    assert "are dropped" in post(browser, project, "drop-chosen", APP, *map(hunk, chosen))
    assert (project / "long.txt").read_text(encoding="utf-8") == "".join(LINES)
    (left,) = store.list_named()
    names = {"new <b>.txt"} | ({"long.txt"} if len(chosen) < 3 else set())
    assert set(os.listdir(left.upper)) == names
    post(browser, project, "keep", *read_choices(browser.get("/drafts/try", params={"workspace": str(project)}).text))
    kept = [place for number, place in enumerate(PLACES) if number not in chosen]
    assert (project / "long.txt").read_text(encoding="utf-8") == change(kept)
    assert "There are no drafts" in browser.get("/drafts").text


@pytest.fixture
def conflict(draft: tuple[DraftStore, Path]) -> Path:
    """The draft's file was changed in the project too: its first place merges, the others overlap."""
    store, project = draft
    (upper,) = (Path(one.upper) for one in store.list_named())
    (upper / "app.py").unlink()
    (upper.parent / "bases").mkdir()
    (upper.parent / "bases" / "long.txt").write_text("".join(LINES), encoding="utf-8")
    theirs = ["<<<<<<< draft\n" if number in PLACES[1:] else line for number, line in enumerate(LINES)]
    theirs[0] = "first\n"
    (project / "long.txt").write_text("".join(theirs), encoding="utf-8")
    return project


def resolve(browser: TestClient, project: Path, sides: dict[str, str]) -> str:
    return post(browser, project, "resolve", **{f"side.{number}": side for number, side in sides.items()})


def test_an_overlap_is_shown_with_three_sides(browser: TestClient, conflict: Path) -> None:
    page = browser.get("/drafts/try", params={"workspace": str(conflict)}).text
    assert "Overlap 1 of 2, line 26" in page and "Overlap 2 of 2, line 46" in page
    for side, line in (("Draft", "LINE 25"), ("Before", "line 25"), ("Project", "&lt;&lt;&lt;&lt;&lt;&lt;&lt; draft")):
        assert re.search(f'<h4>{side}</h4><pre class="text" tabindex="0">{line}</pre>', page)
    assert "Nothing was kept" in post(browser, conflict, "keep", NEW, *map(hunk, range(3)))


@pytest.mark.parametrize("sides", [*itertools.product(["ours", "theirs", "both"], repeat=2)])
def test_each_overlap_gets_the_chosen_side(browser: TestClient, conflict: Path, sides: tuple[str, str]) -> None:
    before = (conflict / "long.txt").read_bytes()
    page = resolve(browser, conflict, {f"0.{number}": side for number, side in enumerate(sides)})
    assert "Resolve</button>" not in page and "Draft try" in page, "the page of the draft again"
    assert (conflict / "long.txt").read_bytes() == before
    assert "Kept" in post(browser, conflict, "keep", *read_choices(page))
    expected = ["first\n", *LINES[1:]]
    expected[5] = "LINE 5\n"
    for place, side in zip(PLACES[1:], sides, strict=True):
        ours, theirs = f"LINE {place}\n", "<<<<<<< draft\n"
        expected[place] = {"ours": ours, "theirs": theirs, "both": ours + theirs}[side]
    assert (conflict / "long.txt").read_text(encoding="utf-8") == "".join(expected)


def test_a_choice_of_sides_is_complete_and_holds_for_what_was_shown(browser: TestClient, conflict: Path) -> None:
    store = DraftStore.open(os.environ["HANDRAIL_STATE"], str(conflict))
    before = Path(store.list_named()[0].upper, "long.txt").read_bytes()
    assert "No side was chosen" in resolve(browser, conflict, {})
    assert "Choose a side for each overlap" in resolve(browser, conflict, {"0.1": "ours"})
    assert "Choose a side for each overlap" in resolve(browser, conflict, {"0.1": "ours", "0.0": "bases"})
    data = {"workspace": str(conflict), "do": "resolve", "version": "0", "side.0.0": "ours", "side.0.1": "ours"}
    assert "Look at it again" in browser.post("/drafts/try", data=data).text
    assert Path(store.list_named()[0].upper, "long.txt").read_bytes() == before


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_a_file_without_lines_to_merge_gets_one_side(browser: TestClient, conflict: Path, side: str) -> None:
    (conflict / "long.txt").write_bytes(b"\0theirs")
    page = browser.get("/drafts/try", params={"workspace": str(conflict)}).text
    assert "There are no lines to merge" in page and "Both" not in page
    page = resolve(browser, conflict, {"0.0": side})
    assert "Kept" in post(browser, conflict, "keep", *read_choices(page))
    expected = change(PLACES).encode() if side == "ours" else b"\0theirs"
    assert (conflict / "long.txt").read_bytes() == expected


def test_changes_that_merge_need_no_choice(browser: TestClient, conflict: Path) -> None:
    (conflict / "long.txt").write_text("first\n" + "".join(LINES[1:]), encoding="utf-8")
    page = browser.get("/drafts/try", params={"workspace": str(conflict)}).text
    assert "Merged with other changes of the project when kept" in page and "Resolve</button>" not in page
    assert "Kept" in post(browser, conflict, "keep", *read_choices(page))
    assert (conflict / "long.txt").read_text(encoding="utf-8") == "first\n" + change(PLACES).partition("\n")[2]


def test_long_diffs_are_folded_and_nothing_is_counted_as_zero(
    browser: TestClient, draft: tuple[DraftStore, Path]
) -> None:
    store, project = draft
    upper = Path(store.list_named()[0].upper)
    (upper / "app.py").write_text("".join(f"x = {number}\n" for number in range(50)), encoding="utf-8")
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    folded = re.findall(r'<details class="file"( open)?>\n<summary><span class="name">(.*?)</span>', page)
    assert ("", "app.py") in folded and (" open", "long.txt") in folded
    assert "+0" not in page and "−0" not in page


@pytest.mark.parametrize("place", ["draft", "project"])
def test_a_choice_holds_only_for_what_was_shown(
    browser: TestClient, draft: tuple[DraftStore, Path], place: str
) -> None:
    store, project = draft
    page = browser.get("/drafts/try", params={"workspace": str(project)}).text
    version = re.findall(r'name="version" value="(\w+)"', page)[0]
    root = Path(store.list_named()[0].upper) if place == "draft" else project
    (root / "app.py").write_text("import evil\n", encoding="utf-8")
    for do in ("keep", "drop-chosen"):
        assert "Look at it again" in post(browser, project, do, APP, version=version)
    assert (project / "app.py").read_text(encoding="utf-8") != "import sys\n"


def test_a_draft_is_kept_as_a_whole_and_gone(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    assert "Kept: 1 created, 2 changed" in post(browser, project, "keep", *ALL)
    assert (project / "app.py").read_text(encoding="utf-8") == "import sys\n"
    assert "There are no drafts" in browser.get("/drafts").text


def test_a_draft_is_dropped_and_the_project_stays(browser: TestClient, draft: tuple[DraftStore, Path]) -> None:
    _, project = draft
    assert "is dropped" in post(browser, project, "drop")
    assert not (project / "new <b>.txt").exists()
    assert "Nothing was changed" in post(browser, project, "drop")


def test_a_draft_in_use_and_a_form_without_a_choice_change_nothing(
    browser: TestClient, draft: tuple[DraftStore, Path]
) -> None:
    store, project = draft
    assert "Nothing was chosen" in post(browser, project, "keep")
    assert "Nothing was chosen" in post(browser, project, "drop-chosen")
    assert "does not say what to do" in post(browser, project, "else")
    held = store.open_named("try")
    try:
        assert "Another process" in post(browser, project, "drop")
    finally:
        held.close()
    assert len(store.list_named()) == 1
