"""The directory of drafts: workspaces that can have none, named drafts, and files that must not grow."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from handrail.drafts import WORKERS, foreign_files, layout, store
from handrail.drafts.foreign_files import find_foreign_files
from handrail.drafts.places import get_mount
from handrail.drafts.store import DraftStore, NoDraft


@pytest.fixture
def drafts(tmp_path: Path) -> DraftStore:
    (tmp_path / "workspace").mkdir()
    try:
        return DraftStore.open(str(tmp_path / "state"), str(tmp_path / "workspace"))
    except NoDraft as error:
        pytest.skip(f"there can be no draft here: {error}")


@pytest.mark.parametrize(("limit", "most"), [("_MOST_COPIED", 1), ("_MOST_BYTES", 5)])
def test_there_is_no_draft_with_much_of_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_text("contents\n", encoding="ascii")
    assert find_foreign_files(str(tmp_path)) == []
    group = os.getegid()
    monkeypatch.setattr(os, "getegid", lambda: group + 1)
    assert find_foreign_files(str(tmp_path)) == ["deep", "deep/file"]
    monkeypatch.setattr(foreign_files, limit, most)
    with pytest.raises(OSError, match="belong to other users or groups, such as deep/file"):
        find_foreign_files(str(tmp_path))


def test_the_directory_of_drafts_is_out_of_sight_for_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workspace may be a part of a larger repository, and the state directory on another mount."""
    (tmp_path / "workspace").mkdir()
    place = get_mount
    monkeypatch.setattr(store, "get_mount", lambda path: "other" if "state" in path else place(path))
    try:
        drafts = DraftStore.open(str(tmp_path / "state"), str(tmp_path / "workspace"))
    except NoDraft as error:
        pytest.skip(f"there can be no draft here: {error}")
    assert Path(drafts.path) == tmp_path / f".handrail-drafts-{os.geteuid()}"
    assert (Path(drafts.path) / ".gitignore").read_text(encoding="ascii") == "*\n"
    drafts.create().drop()


def test_only_the_last_drafts_that_could_not_be_kept_stay(drafts: DraftStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_MOST_LEFT", 2)
    drafts.create("mine").close()
    names = [drafts.create().leave() for _ in range(3)]
    DraftStore(drafts.path, drafts.workspace).create().drop()
    assert [draft.info.name for draft in drafts.list_named()] == ["mine", *names[1:]]
    for name in ("mine", *names[1:]):
        drafts.open_named(name).drop()


def test_named_drafts_outlive_a_sweep_and_others_do_not(drafts: DraftStore) -> None:
    drafts.create("kept").close()
    drafts.create().close()
    with pytest.raises(FileExistsError):
        drafts.create("kept")
    again = DraftStore(drafts.path, drafts.workspace)
    again.create().drop()
    assert [draft.info.name for draft in again.list_named()] == ["kept"]
    assert len([path for path in Path(drafts.path).iterdir() if path.is_dir()]) == 1
    held = again.open_named("kept")
    with pytest.raises(BlockingIOError, match="another process works in this draft: 'kept'"):
        again.open_named("kept")
    held.drop()
    with pytest.raises(FileNotFoundError):
        again.open_named("kept")


def test_the_list_of_own_periods_is_bounded(drafts: DraftStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MOST_ROWS", 3)
    draft = drafts.create()
    for number in range(500):
        draft.directory.notes.add_own_period(number, number + 1)
    assert os.path.getsize(os.path.join(drafts.path, layout.OWN_PERIODS)) <= 1220
    assert draft.directory.notes.read_own_periods() == [(497, 498), (498, 499), (499, 500)]
    draft.drop()


def test_what_is_noted_beside_a_draft_goes_with_it(drafts: DraftStore) -> None:
    for name in ("dropped", "removed"):
        opened = drafts.create(name)
        layout.append_row(opened.directory.path + WORKERS, ("claude", os.getpid(), 5, 0))
        assert opened.directory.notes.read_work() == {("claude", 5): sys.maxsize}
        if name == "dropped":
            opened.drop()
        else:
            opened.close()
            layout.remove_tree(opened.directory.path)
    DraftStore(drafts.path, drafts.workspace).create().drop()
    assert not list(Path(drafts.path).glob("*workers*"))


def test_who_worked_in_a_draft_is_known_for_the_newest_work(
    drafts: DraftStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = drafts.create("way").directory
    me = os.getpid()
    for row in ("claude", me, 10, 0), ("codex", me, 15, 0), ("claude", me, 10, 20), ("killed", 1 << 30, 50, 0):
        layout.append_row(directory.path + WORKERS, row)
    layout.append_row(directory.path + WORKERS, ("sh", me, 60, 70))
    work = {("claude", 10): 20, ("codex", 15): sys.maxsize, ("killed", 50): 60, ("sh", 60): 70}
    assert directory.notes.read_work() == work
    monkeypatch.setattr(layout, "_MOST_ROWS", 1)
    assert directory.notes.read_work() == {("sh", 60): 70}


def test_drafts_share_a_copy_of_the_git_index_until_it_changes(drafts: DraftStore) -> None:
    index = Path(drafts.workspace, ".git", "index")
    index.parent.mkdir()
    index.write_bytes(b"first")
    fresh = drafts.create()
    time.sleep(2.1)  # a file that was just written may change again within its time stamp
    one, other = drafts.create(), drafts.create()
    index.write_bytes(b"again")
    later = drafts.create()
    copies = [Path(draft.directory.path, layout.INDEX) for draft in (fresh, one, other, later)]
    assert [copy.read_bytes() for copy in copies] == [b"first", b"first", b"first", b"again"]
    assert not copies[0].samefile(copies[1])
    assert copies[1].samefile(copies[2])
    layout.save_index(drafts.workspace, one.directory.path)
    assert [copy.read_bytes() for copy in copies[1:3]] == [b"again", b"first"]
    for draft in (fresh, one, other, later):
        draft.drop()
