"""An older change is undone although the file changed later, if nobody touched its lines since."""

from __future__ import annotations

import random
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal.undo_merge import apply_diff, take_back
from handrail.programs import find_program
from tests.journal.wired import Wired
from tests.sizes import pick

LINES = "".join(f"line {number}\n" for number in range(20))


def edit(session: Wired, old: str, new: str) -> int:
    assert session.call("Edit", {"file_path": "f", "old_string": old, "new_string": new}).ok
    return session.rows()[-1].seq


@pytest.fixture
def session(wired: Callable[..., Wired], project: Path) -> Wired:
    (project / "f").write_text(LINES, encoding="utf-8")
    session = wired()
    session.call("Read", {"file_path": "f"})
    return session


def test_an_older_change_in_other_lines_is_undone_and_redone(session: Wired, project: Path) -> None:
    older = edit(session, "line 3\n", "three\nand more\n")
    edit(session, "line 15", "fifteen")
    both = (project / "f").read_text(encoding="utf-8")
    preview = session.undo(call=older, dry_run=True)
    assert [one.how for one in preview.restored] == ["changed"] and not preview.conflicts
    assert (project / "f").read_text(encoding="utf-8") == both
    assert not session.undo(call=older).conflicts
    assert (project / "f").read_text(encoding="utf-8") == LINES.replace("line 15", "fifteen")
    assert session.undo(redo=True).restored
    assert (project / "f").read_text(encoding="utf-8") == both


def test_every_change_is_undone_in_any_order(session: Wired, project: Path) -> None:
    calls = [edit(session, f"line {number}\n", f"{number}\n") for number in (1, 5, 9, 13, 17)]
    random.Random(3).shuffle(calls)
    for call in calls:
        assert not session.undo(call=call).conflicts
    assert (project / "f").read_text(encoding="utf-8") == LINES


def test_an_overlap_is_left_alone_and_both_sides_are_shown(session: Wired, project: Path) -> None:
    older = edit(session, "line 3\n", "three\n")
    later = edit(session, "three\nline 4\n", "3\n4\n")
    before = (project / "f").read_bytes()
    (conflict,) = session.undo(call=older).conflicts
    assert f"changed since call {older}, by call {later}" in conflict.why
    assert "now: 3" in conflict.why and "before: line 3" in conflict.why
    assert (project / "f").read_bytes() == before


def test_a_change_by_another_program_in_other_lines_stays(session: Wired, project: Path) -> None:
    older = edit(session, "line 3", "three")
    later = edit(session, "line 15", "fifteen")
    with (project / "f").open("a", encoding="utf-8") as file:
        file.write("foreign\n")
    assert not session.undo(call=older).conflicts
    assert (project / "f").read_text(encoding="utf-8") == LINES.replace("line 15", "fifteen") + "foreign\n"
    assert not session.undo(call=later).conflicts
    assert (project / "f").read_text(encoding="utf-8") == LINES + "foreign\n"


def test_only_lines_that_changed_again_stay(session: Wired, project: Path) -> None:
    session.call(
        "MultiEdit",
        {
            "file_path": "f",
            "edits": [{"old_string": f"line {number}\n", "new_string": f"{number}\n"} for number in (1, 7, 13)],
        },
    )
    older = session.rows()[-1].seq
    later = edit(session, "7\nline 8\n", "seven\n8\n")
    both = (project / "f").read_text(encoding="utf-8")
    report = session.undo(call=older)
    assert [one.how for one in report.restored] == ["changed"]
    (conflict,) = report.conflicts
    assert f"by call {later}, in these lines:" in conflict.why
    assert "now: seven" in conflict.why and "before: line 7" in conflict.why and "13" not in conflict.why
    assert (project / "f").read_text(encoding="utf-8") == LINES.replace("line 7\nline 8\n", "seven\n8\n")
    assert not session.undo(call=older).restored
    assert session.undo(redo=True).restored
    assert (project / "f").read_text(encoding="utf-8") == both


def test_lines_of_others_beside_a_change_stay(session: Wired, wired: Callable[..., Wired], project: Path) -> None:
    edit(session, "line 3\n", "line 3\nours\n")
    other = wired(name="other")
    other.call("Read", {"file_path": "f"})
    edit(other, "line 3\n", "line 3\ntheirs above\n")
    edit(other, "ours\nline 4\n", "ours\ntheirs below\n")
    assert not session.undo(session=session.origin.session).conflicts
    theirs = "line 3\ntheirs above\ntheirs below\n"
    assert (project / "f").read_text(encoding="utf-8") == LINES.replace("line 3\nline 4\n", theirs)


def test_what_is_merged_is_what_git_merges(tmp_path: Path) -> None:
    git = find_program("git")
    if not git:
        pytest.skip("git is not installed")
    choose, merged, beside = random.Random(11), 0, 0
    for _ in range(pick(60, 2_000)):
        texts = [_vary([f"{choose.randrange(4)} {number}\n" for number in range(12)], choose, 0)]
        texts += [_vary(texts[0].splitlines(keepends=True), choose, choose.randrange(3)) for _ in range(2)]
        after, before, now = [text.encode() for text in texts]
        result, overlaps = take_back(after, before, now)
        if overlaps:
            continue
        for name, raw in (("now", now), ("after", after), ("before", before)):
            (tmp_path / name).write_bytes(raw)
        words = [git, "merge-file", "-p", "now", "after", "before"]
        done = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, check=False)
        if done.returncode == 0:
            assert done.stdout == result
            merged += 1
        else:  # changes beside each other are no conflict of an undo: each line is there as often as both sides say
            lines = [Counter(raw.splitlines(keepends=True)) for raw in (result, after, before, now)]
            assert lines[0] + lines[1] == lines[2] + lines[3]
            beside += 1
    assert merged > 20 and beside > 0


@pytest.mark.parametrize("before", ["", "a", "a\n", "a\r\nb\r\n", "\u00e4\n" * 30, "a\x0cb\n" * 12])
def test_the_contents_after_a_change_are_in_its_diff(before: str, wired: Callable[..., Wired], project: Path) -> None:
    (project / "f").write_bytes(before.encode())
    session = wired()
    session.call("Read", {"file_path": "f"})
    for after in (before + "end", "start\n" + before, f"{before}x\n", before.replace("b", "c")):
        raw = (project / "f").read_bytes()
        session.call("Write", {"file_path": "f", "content": after})
        diff = session.rows()[-1].diff
        assert apply_diff(raw, diff or "") == (project / "f").read_bytes()


def _vary(rows: list[str], choose: random.Random, edits: int) -> str:
    for _ in range(edits):
        place = choose.randrange(len(rows) + 1)
        rows[place : place + choose.randrange(3)] = [f"new {choose.randrange(9)}\n"] * choose.randrange(3)
    return "".join(rows)


def test_all_older_changes_of_a_session_are_undone_among_those_of_another(
    session: Wired, wired: Callable[..., Wired], project: Path
) -> None:
    other = wired(name="other")
    other.call("Read", {"file_path": "f"})
    expected = LINES
    for number in range(0, 20, 4):
        edit(session, f"line {number}\n", f"ours {number}\n")
        edit(other, f"line {number + 2}\n", f"theirs {number}\n")
        expected = expected.replace(f"line {number + 2}\n", f"theirs {number}\n")
    both = (project / "f").read_text(encoding="utf-8")
    report = session.undo(session=session.origin.session)
    assert [one.how for one in report.restored] == ["changed"] and not report.conflicts
    assert (project / "f").read_text(encoding="utf-8") == expected
    session.undo(redo=True)
    assert (project / "f").read_text(encoding="utf-8") == both
