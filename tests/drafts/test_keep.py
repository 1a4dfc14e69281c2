"""Kept files carry nothing of the draft with them, and what was moved looks as before."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import system_calls
from handrail.drafts import keep as keep_module
from handrail.drafts.compare import find_late_in_moved
from handrail.drafts.keep import DraftConflict, keep, undo
from handrail.drafts.layout import DraftDirectory, remove_tree
from handrail.drafts.store import DraftStore, NoDraft
from tests.drafts.scenarios import ENTER
from tests.drafts.trees import describe

_CHANGES = ("echo more >> a", "chmod 600 a", "touch -d @1000000000 a")
_WAYS = ("ln a new/b", "ln a new/b; rm a", "mv a new/b", "ln a c; mv c new/b", "mv a new/b; mv new n2; chmod 555 n2")


def run_or_skip(draft: DraftDirectory, command: str, *wrapper: str) -> None:
    words = [*wrapper, sys.executable, ENTER, draft.info.workspace, draft.upper, draft.work, "sh", "-c", command]
    try:
        subprocess.run(words, check=True, timeout=600)
    except subprocess.CalledProcessError:
        pytest.skip("no overlay can be mounted here: the reason is in the output of this test")


def _run_as_user(draft: DraftDirectory, command: str) -> None:
    """Run a command in an overlay of a user namespace, also as root: the kernel finds no origins of files there."""
    if not shutil.which("unshare"):
        pytest.skip("the program unshare is not installed")
    run_or_skip(draft, command, "unshare", "-Ur")


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("way", _WAYS)
def test_a_kept_file_has_no_marks_of_the_kernel(tmp_path: Path, change: str, way: str) -> None:
    """Overlayfs marks the files that it has copied, but the directory that one is moved to not always."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a").write_text("one\n", encoding="ascii")
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    _run_as_user(draft, change)
    _run_as_user(draft, f"mkdir -p new/deep; {way}; chmod 444 n*/b")  # a new mount remembers less than a running one
    keep(draft)
    for path in (workspace, *workspace.rglob("*")):
        assert not [name for name in os.listxattr(path) if name.startswith("user.overlay.")], path
    remove_tree(str(workspace))  # with a directory that is read-only


def test_times_of_directories_stay_where_a_move_changes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XFS gives a directory that is moved to another one a new modification time."""
    workspace = tmp_path / "workspace"
    for name in ("deleted", "replaced", "stays"):
        (workspace / name / "inner").mkdir(parents=True)
        (workspace / name / "file").touch()
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    run_or_skip(draft, "rm -r deleted replaced; mkdir replaced new stays/new; touch replaced/x new/x stays/new/x")
    before, upper = describe(str(workspace), times=True), describe(draft.upper, times=True)

    def touch(name: str, directory: int) -> None:
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            os.utime(name, dir_fd=directory)

    def rename_new(old: str, new: str, directory: int, to: int) -> None:
        really_rename(old, new, directory, to)
        touch(new, to)

    def exchange(one: str, other: str, directory: int, to: int) -> bool:
        done = really_exchange(one, other, directory, to)
        touch(one, directory)
        touch(other, to)
        return done

    really_rename, really_exchange = system_calls.rename_new, system_calls.exchange
    monkeypatch.setattr(system_calls, "rename_new", rename_new)
    monkeypatch.setattr(system_calls, "exchange", exchange)
    keep(draft)
    after = describe(str(workspace), times=True)
    assert {path: after[path][-1] for path in upper if path in after} == {
        path: upper[path][-1] for path in upper if path in after
    }
    assert "deleted" not in after and "replaced/x" in after
    undo(draft)
    assert describe(str(workspace), times=True) == before


@pytest.mark.parametrize("place", ["d", "d/inner"])
@pytest.mark.parametrize("command", ["rm -r d", "rm -r d; echo > d", "rm -r d; mkdir d; touch d/new"])
def test_a_file_that_is_created_in_a_directory_after_it_was_taken_away_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, place: str
) -> None:
    """A program may find the directory before, and wait for the processor until it was looked through."""
    workspace = tmp_path / "workspace"
    (workspace / "d" / "inner").mkdir(parents=True)
    (workspace / "d" / "inner" / "file").touch()
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    run_or_skip(draft, command)
    directory = os.open(workspace / place, os.O_RDONLY)

    def look(*words: Any) -> Iterator[str]:
        yield from find_late_in_moved(*words)
        os.close(os.open("foreign", os.O_WRONLY | os.O_CREAT, dir_fd=directory))

    monkeypatch.setattr(keep_module, "find_late_in_moved", look)
    with pytest.raises(DraftConflict, match="created while it was kept"):
        keep(draft)
    assert sorted(os.listdir(workspace)) == ["d"]
    assert (workspace / place / "foreign").exists() and (workspace / "d" / "inner" / "file").exists()
    os.close(directory)


@pytest.fixture
def kept(tmp_path: Path) -> DraftDirectory:
    """A draft that was kept: it has changed a file, created a directory, and deleted another one."""
    workspace = tmp_path / "workspace"
    (workspace / "deleted" / "inner").mkdir(parents=True)
    (workspace / "deleted" / "inner" / "file").touch()
    (workspace / "changed").write_text("old\n", encoding="ascii")
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    run_or_skip(draft, "echo new > changed; mkdir -p created/inner; touch created/inner/file; rm -r deleted")
    keep(draft)
    return draft


@pytest.mark.parametrize("place", ["created", "created/inner"])
def test_a_file_that_is_created_in_a_directory_that_an_undo_takes_away_is_not_lost(
    kept: DraftDirectory, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    workspace = Path(kept.info.workspace)
    before = describe(str(workspace), times=False)
    directory = os.open(workspace / place, os.O_RDONLY)

    def look(*words: Any) -> Iterator[str]:
        yield from find_late_in_moved(*words)
        os.close(os.open("foreign", os.O_WRONLY | os.O_CREAT, dir_fd=directory))

    monkeypatch.setattr(keep_module, "find_late_in_moved", look)
    with pytest.raises(DraftConflict):
        undo(kept)
    os.close(directory)
    (workspace / place / "foreign").unlink()
    assert describe(str(workspace), times=False) == before and kept.state == "kept"


@pytest.mark.parametrize("path", ["changed", "created/inner/file"])
def test_an_undo_leaves_a_file_that_another_program_writes_to(kept: DraftDirectory, path: str) -> None:
    workspace = Path(kept.info.workspace)
    before = describe(str(workspace), times=True)
    with open(workspace / path, "a", encoding="ascii") as file:
        with pytest.raises(DraftConflict):
            undo(kept)
        assert describe(str(workspace), times=True) == before and kept.state == "kept"
        file.write("foreign\n")
    assert (workspace / path).read_text(encoding="ascii").endswith("foreign\n")


def test_a_write_to_an_old_file_that_an_undo_has_put_back_and_takes_away_again_gets_a_name(
    kept: DraftDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program may write to the old version in the moments before the undo meets a conflict elsewhere."""
    workspace = Path(kept.info.workspace)

    def look(*_: Any) -> Iterator[str]:
        for path in ("changed", "deleted/inner/file"):
            with open(workspace / path, "a", encoding="ascii") as file:
                file.write("foreign\n")
        yield "created/inner/file"

    monkeypatch.setattr(keep_module, "find_created_in_moved", look)  # when all steps were taken back
    with pytest.raises(DraftConflict, match="another program wrote to it meanwhile"):
        undo(kept)
    assert (workspace / "changed").read_text(encoding="ascii") == "new\n"
    saved = {path.name.split(".kept-")[0]: path.read_text(encoding="ascii") for path in workspace.glob("*.kept-*")}
    assert saved == {"changed": "old\nforeign\n", "file": "foreign\n"}


@pytest.mark.parametrize("parent", ["", "above/further"])
def test_what_is_written_into_a_deleted_directory_later_comes_back_when_the_draft_goes(
    tmp_path: Path, parent: str
) -> None:
    """A program that works in a directory can go on writing there as long as an undo can bring it back."""
    workspace = tmp_path / "workspace"
    deleted = workspace / parent / "deleted"
    (deleted / "inner").mkdir(parents=True)
    (deleted / "inner" / "old").touch()
    try:
        store = DraftStore.open(str(tmp_path / "state"), str(workspace))
    except NoDraft as error:
        pytest.skip(f"there can be no draft here: {error}")
    draft = store.create()
    run_or_skip(draft.directory, f"rm -r {workspace / parent / 'deleted'}")
    directory = os.open(deleted / "inner", os.O_RDONLY)
    keep(draft.directory)
    with open(os.open("late", os.O_WRONLY | os.O_CREAT, dir_fd=directory), "w", encoding="ascii") as file:
        file.write("foreign\n")
    os.close(directory)
    if parent:
        shutil.rmtree(workspace / "above")
    draft.drop()
    assert not os.path.lexists(draft.directory.path)
    assert [path.read_text(encoding="ascii") for path in workspace.rglob("*.kept-*")] == ["foreign\n"]
    assert not list(workspace.rglob("old*"))


@pytest.mark.parametrize("deleted", [0, 1, 3])
def test_a_failed_keep_takes_back_changes_in_many_directories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    """More directories than stay open."""
    workspace = tmp_path / "workspace"
    changed, emptied = [f"m{number:02}" for number in range(40)], [f"a{number}" for number in range(deleted)]
    for name in changed + emptied:
        (workspace / name).mkdir(parents=True)
        (workspace / name / "f").write_text("old\n", encoding="utf-8")
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    command = "for d in m*; do echo new > $d/f; done; rm -f a*/f"
    run_or_skip(draft, command)
    write = DraftDirectory.write

    def fail(draft: DraftDirectory, name: str, *rest: Any, **how: Any) -> None:
        if name == "kept-at.json":
            raise OSError(errno.ENOSPC, "full")
        write(draft, name, *rest, **how)

    monkeypatch.setattr(DraftDirectory, "write", fail)
    with pytest.raises(OSError, match="full"):
        keep(draft)
    assert all((workspace / name / "f").read_text(encoding="utf-8") == "old\n" for name in changed + emptied)
    assert len(list(workspace.rglob("*"))) == 2 * len(changed + emptied)
