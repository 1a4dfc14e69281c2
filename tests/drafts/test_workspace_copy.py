"""A command without a draft is compared with a copy of the workspace, and undo takes it back byte for byte."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import system_calls
from handrail.drafts.keep import undo
from handrail.drafts.layout import DraftDirectory, remove_tree
from handrail.drafts.store import DraftStore, NoDraft, OpenDraft
from handrail.drafts.workspace_copy import WorkspaceCopy
from tests.drafts.scenarios import require_same
from tests.drafts.trees import Program, describe, fill
from tests.sizes import pick

FILE_SYSTEMS = ("plain copy", "xfs", "btrfs")
BYTES = 512 << 20


def copy_contents(source: int, target: int) -> None:
    """In the place of a clone, where the file system has none."""
    with open(source, "rb", closefd=False) as old, open(target, "wb", closefd=False) as new:
        shutil.copyfileobj(old, new)
    os.lseek(source, 0, os.SEEK_SET)


def mount_image(kind: str, folder: Path) -> Path:
    """A new file system with shared blocks, in a file; skips where that is impossible."""
    if os.geteuid() != 0 or not shutil.which(f"mkfs.{kind}"):
        pytest.skip(f"only root can mount a file system, and mkfs.{kind} is needed")
    image, place = folder / f"{kind}.img", folder / kind
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(BYTES)
    for words in ((f"mkfs.{kind}", "-q", str(image)), ("mount", "-o", "loop", str(image), str(place))):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no {kind} can be mounted here: {done.stderr.strip()}")
    return place


@pytest.fixture(params=FILE_SYSTEMS)
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder on a file system with shared blocks, or one where a plain copy replaces the clone."""
    if request.param == "plain copy":
        monkeypatch.setattr(system_calls, "clone_file", copy_contents)
        yield tmp_path
        return
    place = mount_image(request.param, tmp_path)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def open_store(folder: Path) -> DraftStore:
    (folder / "workspace").mkdir(exist_ok=True)
    try:
        return DraftStore.open(str(folder / "state"), str(folder / "workspace"))
    except NoDraft as error:
        pytest.skip(f"there can be no draft here: {error}")


def settle(copy: WorkspaceCopy, store: DraftStore) -> DraftDirectory:
    """Make a kept draft of what has changed in the workspace."""
    comparison, missed = copy.compare()
    assert not missed
    draft: OpenDraft = store.create()
    copy.hand_over(comparison.steps, draft.directory)
    draft.close()
    return draft.directory


@pytest.mark.parametrize("first", range(0, pick(10, 1_000), 10))
def test_random_programs_are_taken_back(folder: Path, first: int) -> None:
    """Several programs one after the other, each compared with the copy that was brought up to date before it."""
    for seed in range(first, first + 10):
        inner = folder / str(seed)
        inner.mkdir()
        store = open_store(inner)
        fill(store.workspace, seed, 60)
        copy = WorkspaceCopy.create(store)
        states = []
        for number in range(3):
            copy.refresh()
            before = describe(store.workspace, times=True)
            require_same(describe(copy.tree, times=False), _open_directories(before))
            Program(store.workspace, seed * 3 + number).run(40)
            states.append((before, settle(copy, store)))
        for before, draft in reversed(states):
            undo(draft)
            require_same(describe(store.workspace, times=True), before)
        copy.drop()
        remove_tree(str(inner))


def _open_directories(tree: dict[str, tuple[object, ...]]) -> dict[str, tuple[object, ...]]:
    """A tree as its copy is: directories get their modes and attributes when they are taken out of it."""
    return {
        path: ("drwx------", *entry[1:3], [], *entry[4:5], 0) if str(entry[0])[0] == "d" else (*entry[:5], 0)
        for path, entry in tree.items()
    }


def test_only_what_has_changed_is_copied_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(folder)
    for number in range(50):
        Path(store.workspace, f"f{number}").write_text("1", encoding="ascii")
    copy = WorkspaceCopy.create(store)
    copied = []
    clone = system_calls.clone_file

    def count(source: int, target: int) -> None:
        copied.append(source)
        clone(source, target)

    monkeypatch.setattr(system_calls, "clone_file", count)
    copy.refresh()
    assert len(copied) == 50
    Path(store.workspace, "f7").write_text("2", encoding="ascii")
    Path(store.workspace, "new").touch()
    Path(store.workspace, "f8").unlink()
    copy.refresh()
    copy.refresh()
    assert len(copied) == 52
    assert not os.path.exists(os.path.join(copy.tree, "f8"))
    assert copy.compare()[0].steps == []
    os.utime(os.path.join(store.workspace, "f9"))
    assert [(step.action, step.path) for step in copy.compare()[0].steps] == [("set", "f9")]
    copy.drop()


def test_a_file_that_cannot_be_copied_is_reported_if_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    Path(store.workspace, "d").mkdir()
    Path(store.workspace, "d", "private").write_text("1", encoding="ascii")
    monkeypatch.setattr(system_calls, "clone_file", copy_contents)
    copy = WorkspaceCopy.create(store)

    def refuse(source: int, target: int) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(system_calls, "clone_file", refuse)
    copy.refresh()
    assert copy.compare()[1] == []
    Path(store.workspace, "d", "private").write_text("2", encoding="ascii")
    assert copy.compare()[1] == ["d/private"]
    shutil.rmtree(os.path.join(store.workspace, "d"))
    assert copy.compare()[1] == ["d/private"]
    copy.drop()


def test_there_is_no_copy_where_files_share_no_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: int, target: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(system_calls, "clone_file", refuse)
    store = open_store(tmp_path)
    with pytest.raises(OSError, match="not supported"):
        WorkspaceCopy.create(store)
    assert [path.name for path in Path(store.path).iterdir() if path.is_dir()] == []
