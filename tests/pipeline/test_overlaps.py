"""A change of lines that somebody has changed in another open draft says so at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Setup
from tests.drafts.machine import require_drafts

_LINES = "".join(f"line {number}\n" for number in range(1, 41))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text(_LINES, encoding="utf-8")
    return project


@pytest.fixture
def other(project: Path) -> Iterator[None]:
    """Somebody works in the draft `b`, and has changed line 20."""
    with Session(project, mode="full", setup=Setup(draft="b")) as session:
        assert session.call("Bash", {"command": "sed -i 's/line 20$/twenty/' a.txt"}).ok
        yield


def edit(session: Session, old: str, new: str) -> list[str]:
    """Change a line; returns the notes about drafts."""
    assert session.call("Read", {"file_path": "a.txt"}).ok
    result = session.call("Edit", {"file_path": "a.txt", "old_string": f"{old}\n", "new_string": f"{new}\n"})
    assert result.ok, result.text
    return [note.text for note in result.notes if note.code == "overlaps_draft"]


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize("draft", [None, "a"])
def test_the_same_lines_in_another_draft_are_reported_and_others_are_not(project: Path, draft: str | None) -> None:
    with Session(project, mode="full", setup=Setup(draft=draft)) as session:
        assert edit(session, "line 10", "ten") == []
        (note,) = edit(session, "line 20", "zwanzig")
        assert "changed these lines of a.txt just now in the draft b" in note
        assert edit(session, "line 30", "thirty") == []


@pytest.mark.usefixtures("other")
def test_a_command_that_changes_the_same_lines_is_told(project: Path) -> None:
    with Session(project, mode="full") as session:
        assert not session.call("Bash", {"command": "sed -i 's/line 5$/five/' a.txt"}).notes
        result = session.call("Bash", {"command": "sed -i 's/line 20$/zwanzig/' a.txt"})
        assert [note.code for note in result.notes] == ["overlaps_draft"]


@pytest.mark.usefixtures("other")
def test_the_same_change_is_no_overlap(project: Path) -> None:
    with Session(project, mode="full") as session:
        assert edit(session, "line 20", "twenty") == []


def test_a_draft_that_was_dropped_is_not_named(project: Path) -> None:
    with Session(project, mode="full") as session:
        with session.draft() as draft:
            draft.session.call("Bash", {"command": "sed -i 's/line 20$/twenty/' a.txt"})
        assert edit(session, "line 20", "zwanzig") == []
