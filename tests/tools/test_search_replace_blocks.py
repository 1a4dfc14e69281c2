"""SEARCH/REPLACE blocks in an envelope: the divider is a line of exactly seven `=`, and several are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session

BEFORE = "Intro.\n\n{heading}\n{line}\n\nFirst words.\nMore words.\n\nEnd\n---\n"
LENGTHS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 40]
PATCH = "*** Begin Patch\n*** Update File: notes.rst\n{block}\n*** End Patch\n"
EDITS = {  # the old text and the new one
    "words below a heading": ("{heading}\n{line}\n\nFirst words.", "{heading}\n{line}\n\nOther words."),
    "the heading": ("{heading}\n{line}\n", "Other heading\n{line}\n"),
    "the line below it": ("{heading}\n{line}\n\nFirst", "{heading}\n-----\n\nFirst"),
    "a heading is added": ("First words.", "Another\n{line}\n\nFirst words."),
    "a heading is removed": ("{heading}\n{line}\n\nFirst words.", "First words."),
}


def apply(session: Session, root: Path, before: str, patch: str) -> str:
    path = root / "notes.rst"
    path.write_text(before, encoding="utf-8")
    session.call("Read", {"file_path": "notes.rst"})
    result = session.call("ApplyPatch", {"patch": patch})
    after = path.read_text(encoding="utf-8")
    assert result.ok or after == before
    return after if result.ok else result.text


@pytest.mark.parametrize("edit", EDITS)
def test_a_line_below_a_heading_is_no_divider(make_session: Callable[..., Session], tmp_path: Path, edit: str) -> None:
    session = make_session(durable=False)
    for length in LENGTHS:
        names = {"heading": f"Heading {length}", "line": "=" * length}
        before = BEFORE.format(**names)
        old, new = (text.format(**names) for text in EDITS[edit])
        end = "" if old.endswith("\n") else " words.\n" if old.endswith("First") else "\n"
        block = f"<<<<<<< SEARCH\n{old}{end}=======\n{new}{end}>>>>>>> REPLACE"
        after = apply(session, tmp_path, before, PATCH.format(block=block))
        if length == 7:
            assert "exactly seven '='" in after
        else:
            assert after == before.replace(old, new)


@pytest.mark.parametrize("length", LENGTHS)
def test_no_other_line_is_taken_for_the_divider(
    make_session: Callable[..., Session], tmp_path: Path, length: int
) -> None:
    """A block whose divider has another length has none: nothing is guessed."""
    session = make_session(durable=False)
    before = BEFORE.format(heading="Heading", line="~~~")
    block = f"<<<<<<< SEARCH\nFirst words.\n{'=' * length}\nOther words.\n>>>>>>> REPLACE"
    after = apply(session, tmp_path, before, PATCH.format(block=block))
    assert after == before.replace("First", "Other") if length == 7 else "exactly seven '='" in after


def test_a_block_that_holds_a_conflict_is_refused(make_session: Callable[..., Session], tmp_path: Path) -> None:
    session = make_session(durable=False)
    conflict = "<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
    block = f"<<<<<<< SEARCH\n{conflict}=======\nboth\n>>>>>>> REPLACE"
    assert "exactly seven '='" in apply(session, tmp_path, f"a\n{conflict}b\n", PATCH.format(block=block))
