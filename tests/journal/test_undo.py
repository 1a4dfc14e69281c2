"""Undo: exactly what was there, nothing of anybody else's, and itself to be undone."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal import BeforeImage, Origin, PendingRecord, Record
from handrail.journal.store import SqliteJournal
from handrail.journal.undo import Restored, UndoConflict, UnknownCall
from handrail.model import Call, Result
from tests.journal.wired import Wired, tree

Make = Callable[..., Wired]


def ok(session: Wired, tool: str, **arguments: object) -> int:
    """Make a call that must succeed; its number."""
    result = session.call(tool, arguments)
    assert result.status in ("ok", "partial"), result.text
    return session.rows()[-1].seq


def test_an_edit_is_taken_back_byte_for_byte_and_the_mode_stays(wired: Make, project: Path) -> None:
    (project / "a.sh").write_bytes(b"one\r\ntwo\nthree")
    (project / "a.sh").chmod(0o751)
    before = tree(project)
    session = wired()
    ok(session, "Read", file_path="a.sh")
    ok(session, "Edit", file_path="a.sh", old_string="two", new_string="2")
    assert tree(project) != before
    report = session.undo()
    assert report.restored == (Restored(str(project / "a.sh"), "changed"),)
    assert tree(project) == before


def test_a_new_file_goes_again_with_the_directories_that_were_made_for_it(wired: Make, project: Path) -> None:
    (project / "there").mkdir()
    before = tree(project)
    session = wired()
    ok(session, "Write", file_path="there/deep/er/a.txt", content="x\n")
    session.undo()
    assert tree(project) == before


def test_a_directory_that_is_in_use_by_now_stays(wired: Make, project: Path) -> None:
    session = wired()
    ok(session, "Write", file_path="new/a.txt", content="x\n")
    (project / "new" / "mine.txt").write_text("mine", encoding="utf-8")
    session.undo()
    assert os.listdir(project / "new") == ["mine.txt"]


PATCH = """*** Begin Patch
*** Delete File: gone.sh
*** Update File: old.sh
*** Move to: sub/new.sh
@@
-two
+2
*** Add File: added.txt
+hello
*** End Patch
"""


def test_a_patch_with_a_deletion_a_move_and_a_creation_is_taken_back_at_once(wired: Make, project: Path) -> None:
    (project / "gone.sh").write_bytes(b"\xff\x00 not text")
    (project / "gone.sh").chmod(0o640)
    (project / "old.sh").write_bytes(b"one\ntwo\n")
    (project / "old.sh").chmod(0o755)
    os.setxattr(project / "old.sh", "user.kept", b"yes")
    before = tree(project)
    session = wired()
    for name in ("gone.sh", "old.sh"):
        session.call("Read", {"file_path": name})
    ok(session, "ApplyPatch", patch=PATCH.replace("gone.sh", "gone.sh"))
    assert not (project / "gone.sh").exists()
    assert (project / "sub/new.sh").read_bytes() == b"one\n2\n"
    report = session.undo()
    assert not report.conflicts
    assert tree(project) == before
    assert os.getxattr(project / "old.sh", "user.kept") == b"yes"


def test_a_deleted_file_never_stands_there_with_a_wider_mode_than_it_had(wired: Make, project: Path) -> None:
    (project / "key").write_text("k\n", encoding="utf-8")
    (project / "key").chmod(0o600)
    session = wired()
    ok(session, "Read", file_path="key")
    ok(session, "ApplyPatch", patch="*** Begin Patch\n*** Delete File: key\n*** End Patch\n")
    session.undo()
    assert (project / "key").stat().st_mode & 0o777 == 0o600


def test_what_others_have_changed_since_is_left_alone_and_named(wired: Make, project: Path) -> None:
    session = wired()
    first = ok(session, "Write", file_path="a", content="ours\n")
    ok(session, "Write", file_path="b", content="ours\n")
    (project / "a").write_text("theirs\n", encoding="utf-8")
    report = session.undo(since=first)
    assert report.conflicts == (UndoConflict(str(project / "a"), f"changed since call {first}, not by a call"),)
    assert (project / "a").read_text(encoding="utf-8") == "theirs\n"
    assert not (project / "b").exists()


def test_a_later_call_on_the_same_file_is_named_as_the_reason(wired: Make, project: Path) -> None:
    session = wired()
    first = ok(session, "Write", file_path="a", content="one\n")
    second = ok(session, "Edit", file_path="a", old_string="one", new_string="two")
    report = session.undo(call=first)
    assert report.conflicts == (UndoConflict(str(project / "a"), f"changed since call {first}, by call {second}"),)
    assert (project / "a").read_text(encoding="utf-8") == "two\n"


def test_a_move_whose_new_file_was_changed_is_not_taken_back_by_half(wired: Make, project: Path) -> None:
    (project / "a").write_text("one\n", encoding="utf-8")
    session = wired()
    ok(session, "Read", file_path="a")
    ok(
        session,
        "ApplyPatch",
        patch="*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-one\n+two\n*** End Patch\n",
    )
    (project / "b").write_text("theirs\n", encoding="utf-8")
    report = session.undo()
    assert {one.path for one in report.conflicts} == {str(project / "a"), str(project / "b")}
    assert os.listdir(project) == ["b"]


def test_an_undo_can_be_undone(wired: Make, project: Path) -> None:
    (project / "a").write_text("one\n", encoding="utf-8")
    session = wired()
    ok(session, "Read", file_path="a")
    ok(session, "Edit", file_path="a", old_string="one", new_string="two")
    ok(session, "Write", file_path="new/b", content="b\n")
    after = tree(project)
    session.undo(session="s")
    undone = session.rows()[-1]
    assert (undone.tool, undone.status) == ("Undo", "ok")
    session.undo(call=undone.seq)
    assert tree(project) == after


def test_one_undo_after_the_other_goes_further_back(wired: Make, project: Path) -> None:
    session = wired()
    for text in "abc":
        session.call("Read", {"file_path": "f"})
        ok(session, "Write", file_path="f", content=text)
    session.undo()
    assert (project / "f").read_text(encoding="utf-8") == "b"
    session.undo()
    assert (project / "f").read_text(encoding="utf-8") == "a"
    session.undo()
    assert not (project / "f").exists()
    with pytest.raises(UnknownCall, match="nothing to undo"):
        session.undo()


def test_a_session_is_taken_back_also_when_some_of_it_was_already(wired: Make, project: Path) -> None:
    session = wired()
    ok(session, "Write", file_path="f", content="a")
    second = ok(session, "Edit", file_path="f", old_string="a", new_string="b")
    other = wired(name="person")
    other.undo(call=second)
    report = session.undo(session="s")
    assert not report.conflicts
    assert not (project / "f").exists()


def test_a_dry_run_changes_and_records_nothing(wired: Make, project: Path) -> None:
    session = wired()
    ok(session, "Write", file_path="f", content="a")
    before, rows = tree(project), len(session.rows())
    report = session.undo(dry_run=True)
    assert report.restored == (Restored(str(project / "f"), "deleted"),)
    assert (tree(project), len(session.rows())) == (before, rows)


def test_undoing_twice_says_that_nothing_is_to_be_done(wired: Make, project: Path) -> None:
    session = wired()
    seq = ok(session, "Write", file_path="f", content="a")
    session.undo(call=seq)
    report = session.undo(call=seq)
    assert (report.restored, report.conflicts, report.missing) == ((), (), ())


def test_a_file_whose_name_a_directory_has_taken_since_comes_back(wired: Make, project: Path) -> None:
    (project / "x").write_text("file\n", encoding="utf-8")
    before = tree(project)
    session = wired()
    ok(session, "Read", file_path="x")
    ok(session, "ApplyPatch", patch="*** Begin Patch\n*** Delete File: x\n*** End Patch\n")
    ok(session, "Write", file_path="x/y", content="below\n")
    report = session.undo(session="s")
    assert not report.conflicts
    assert tree(project) == before


def test_an_image_that_is_over_the_budget_is_said_to_be_missing(wired: Make, project: Path, tmp_path: Path) -> None:
    small = SqliteJournal(str(tmp_path / "small.db"), budget=2_000)
    session = wired(journal=small)
    (project / "big").write_bytes(os.urandom(1500).hex().encode("ascii"))
    ok(session, "Read", file_path="big")
    ok(session, "Write", file_path="big", content="now small\n")
    report = session.undo()
    assert (report.restored, report.missing) == ((), (str(project / "big"),))
    assert (project / "big").read_text(encoding="utf-8") == "now small\n"
    small.close()


def test_a_file_outside_the_workspace_is_not_reached(wired: Make, project: Path, tmp_path: Path) -> None:
    session = wired()
    seq = ok(session, "Write", file_path="f", content="a")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    stranger = Wired(elsewhere, session.kept)
    report = stranger.undo(call=seq)
    stranger.close()
    assert [one.path for one in report.conflicts] == [str(project / "f")]
    assert (project / "f").exists()


def test_a_link_that_stands_in_place_of_the_file_is_not_followed(wired: Make, project: Path) -> None:
    session = wired()
    seq = ok(session, "Write", file_path="f", content="a")
    (project / "f").rename(project / "g")
    (project / "f").symlink_to("g")
    report = session.undo(call=seq)
    assert [one.why for one in report.conflicts] == ["a link now points to another place"]
    assert (project / "g").read_text(encoding="utf-8") == "a"


def kept(journal: SqliteJournal, project: Path, names: list[str], command: Callable[[], None]) -> None:
    """A command that is about to change files, as the shell tells of it."""
    call, origin = Call("Bash", {"command": "..."}), Origin("s", "native", os.path.realpath(project))
    items = []
    for name in names:
        path = project / name
        there = path.exists()
        mode = path.stat().st_mode & 0o7777 if there else None
        items.append(BeforeImage(str(path), path.read_bytes() if there else None, mode))
    token = journal.begin(PendingRecord(call, (), None, items, origin))
    command()
    assert journal.record(Record(call, (), None, result=Result("Bash", "ok", ""), origin=origin, token=token)) == ""


def test_what_a_command_did_to_files_that_were_kept_is_taken_back(
    wired: Make, journal: SqliteJournal, project: Path
) -> None:
    for name, mode in (("removed", 0o600), ("moved", 0o755), ("written", 0o644), ("mode", 0o640), ("same", 0o644)):
        (project / name).write_text(f"{name}\n", encoding="utf-8")
        (project / name).chmod(mode)
    before = tree(project)

    def command() -> None:
        (project / "removed").unlink()
        (project / "moved").rename(project / "target")
        (project / "written").write_text("other\n", encoding="utf-8")
        (project / "mode").chmod(0o777)

    kept(journal, project, ["removed", "moved", "target", "written", "mode", "same"], command)
    after = tree(project)
    session = wired()
    report = session.undo()
    assert not report.conflicts
    assert str(project / "same") not in {one.path for one in report.restored}
    assert tree(project) == before
    session.undo(call=session.rows()[-1].seq)
    assert tree(project) == after


def test_a_call_that_failed_left_nothing_to_undo(wired: Make, project: Path) -> None:
    session = wired()
    assert session.call("Edit", {"file_path": "f", "old_string": "a", "new_string": "b"}).status == "error"
    with pytest.raises(UnknownCall):
        session.undo()
    with pytest.raises(UnknownCall, match="unknown call 77"):
        session.undo(call=77)


@pytest.mark.parametrize("way", ["moved on", "deleted", "changed and deleted"])
@pytest.mark.parametrize("by_us", [True, False])
def test_what_was_moved_and_is_not_there_any_more_is_not_made_again_at_its_old_place(
    wired: Make, project: Path, way: str, by_us: bool
) -> None:
    session = wired()
    session.call("Write", {"file_path": "a", "content": "one\n"})
    session.call("Move", {"source_path": "a", "target_path": "b"})
    moved = session.rows()[-1].seq
    if way == "changed and deleted":
        session.call("Edit", {"file_path": "b", "old_string": "one\n", "new_string": "two\n"})
    if way == "moved on":
        session.call("Move", {"source_path": "b", "target_path": "c"}) if by_us else (project / "b").rename(
            project / "c"
        )
    else:
        session.call("Trash", {"path": "b"}) if by_us else (project / "b").unlink()
    then = tree(project)
    report = session.undo(call=moved)
    assert report.conflicts and not report.restored and tree(project) == then
    if by_us:
        assert not session.undo(session="s").conflicts and tree(project) == {}
