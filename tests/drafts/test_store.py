"""The directory of drafts: workspaces that can have none, named drafts, and files that must not grow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handrail.drafts import layout, store
from handrail.drafts.store import DraftStore, NoDraft


@pytest.fixture
def drafts(tmp_path: Path) -> DraftStore:
    (tmp_path / "workspace").mkdir()
    try:
        return DraftStore.open(str(tmp_path / "state"), str(tmp_path / "workspace"))
    except NoDraft as error:
        pytest.skip(f"there can be no draft here: {error}")


def test_there_is_no_draft_with_files_of_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").touch()
    store._require_own_files(str(tmp_path))
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.raises(NoDraft, match="deep belongs to another user or group"):
        store._require_own_files(str(tmp_path))


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
    with pytest.raises(BlockingIOError):
        again.open_named("kept")
    held.drop()
    with pytest.raises(FileNotFoundError):
        again.open_named("kept")


def test_the_list_of_own_periods_is_bounded(drafts: DraftStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_MOST_PERIOD_BYTES", 200)
    monkeypatch.setattr(layout, "_MOST_PERIODS", 3)
    draft = drafts.create()
    for number in range(500):
        draft.directory.add_own_period(number, number + 1)
    assert os.path.getsize(os.path.join(drafts.path, layout.OWN_PERIODS)) <= 220
    assert draft.directory.read_own_periods() == [(497, 498), (498, 499), (499, 500)]
    draft.drop()
