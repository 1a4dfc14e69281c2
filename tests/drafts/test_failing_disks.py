"""A full disk, and files that the system lets nobody change: a draft is kept whole or not at all, and stays."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from handrail import Answer, Question, Session
from handrail.drafts.keep import DraftConflict, keep, undo
from handrail.drafts.layout import DraftDirectory
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.journal.logs import LogWriter
from handrail.shell import command_drafts
from tests.drafts.enter import check, libc
from tests.drafts.machine import require_drafts
from tests.drafts.scenarios import run_in_draft
from tests.drafts.test_keep import run_or_skip
from tests.drafts.test_kills import run_in_namespaces
from tests.drafts.trees import describe

BYTES = 8 << 20
OPAQUE = """python3 -c 'import sys; open(sys.argv[1], "w").close()'"""
COMMAND = "echo more >> a; echo more >> d/c; rm -r gone; mkdir new; for n in $(seq 50); do echo $n > new/$n; done"


def on_small_disk(place: Path, work: Callable[[], object]) -> None:
    """Do something in a process that has a small file system in memory at ``place``."""

    def run() -> None:
        options = f"size={BYTES}".encode("ascii")
        check(libc.mount(b"none", os.fsencode(place), b"tmpfs", ctypes.c_ulong(0), options), "mount tmpfs")
        work()

    run_in_namespaces(run)


def make_workspace(folder: Path) -> Path:
    workspace = folder / "workspace"
    (workspace / "gone").mkdir(parents=True)
    (workspace / "d").mkdir()
    for name in ("a", "d/c", "gone/b"):
        (workspace / name).write_text(f"{name}\n", encoding="ascii")
    return workspace


@contextmanager
def fill_disk(path: Path) -> Iterator[None]:
    """Leave not one byte free."""
    size = 1 << 20
    with path.open("wb", buffering=0) as file:
        while size:
            try:
                if file.write(b"\0" * size) < size:
                    size //= 2
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2
    try:
        yield
    finally:
        path.unlink()


def test_changes_are_kept_and_taken_back_on_a_full_disk(tmp_path: Path) -> None:
    def work() -> None:
        workspace = make_workspace(tmp_path)
        before = describe(str(workspace), times=True)
        draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
        run_in_draft(draft, "sh", "-c", f"{COMMAND}; cat /dev/zero > big 2> /dev/null; true")
        assert os.path.getsize(os.path.join(draft.upper, "big")) > BYTES // 2
        assert describe(str(workspace), times=True) == before
        keep(draft)
        assert (workspace / "new" / "50").exists() and not (workspace / "gone").exists()
        undo(draft)
        assert describe(str(workspace), times=True) == before

    on_small_disk(tmp_path, work)


def test_a_keep_without_any_space_changes_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    def work() -> None:
        workspace = make_workspace(tmp_path)
        before = describe(str(workspace), times=True)
        draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
        run_in_draft(draft, "sh", "-c", COMMAND)
        (tmp_path / "reserve").unlink()
        with fill_disk(tmp_path / "ballast"):
            with pytest.raises(OSError, match="No space left"):
                keep(draft)
            assert describe(str(workspace), times=True) == before
        keep(draft)
        assert (workspace / "new" / "50").exists()
        after = describe(str(workspace), times=True)
        with fill_disk(tmp_path / "ballast"):
            with contextlib.suppress(OSError):
                undo(draft)
            state = draft.state
            assert describe(str(workspace), times=True) == (after if state == "kept" else before), state
        if state == "kept":
            undo(draft)
        assert describe(str(workspace), times=True) == before

    on_small_disk(tmp_path, work)


def test_what_is_left_for_an_undo_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    def work() -> None:
        workspace = make_workspace(tmp_path)
        store = DraftStore.open(str(tmp_path / "state"), str(workspace))
        (workspace / "large").write_bytes(b"\0" * (BYTES * 3 // 4))
        draft = store.create()
        run_in_draft(draft.directory, "rm", "large")
        keep(draft.directory)
        draft.retain(BYTES * 3 // 4)
        store.create().drop()
        assert shutil.disk_usage(tmp_path).free > BYTES // 2

    on_small_disk(tmp_path, work)


def test_a_journal_that_a_full_disk_cannot_take_says_so(tmp_path: Path) -> None:
    """Whatever there is room for: the reason is the full disk."""

    def work() -> None:
        reasons: list[str] = []
        ballast = tmp_path / "ballast"
        with fill_disk(ballast):
            for _ in range(64):  # each time with a little more room
                try:
                    with contextlib.closing(LogWriter(str(tmp_path / "journal"))) as writer:
                        writer.append("note", (["s", "c" * 5000, ""], []))
                except OSError as error:
                    reasons.append(str(error))
                shutil.rmtree(tmp_path / "journal.logs", ignore_errors=True)
                os.truncate(ballast, ballast.stat().st_size - 4096)
        assert 1 < len(reasons) < 64
        assert all(re.search("full|No space|disk I/O error", reason) for reason in reasons), reasons

    on_small_disk(tmp_path, work)


def test_commands_run_in_drafts_again_when_the_disk_has_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_drafts()
    create = DraftStore.create
    full, now = False, 0.0
    monkeypatch.setattr(command_drafts, "time", SimpleNamespace(monotonic=lambda: now))

    def create_or_fail(self: DraftStore, name: str = "") -> OpenDraft:
        if full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
        return create(self, name)

    asked: list[Question] = []

    def allow(question: Question) -> Answer:
        asked.append(question)
        return Answer(True)

    monkeypatch.setattr(DraftStore, "create", create_or_fail)
    with Session(make_workspace(tmp_path), mode="ask", approve=allow) as session:
        assert "diff" in session.call("Bash", {"command": f"{OPAQUE} one"}).data
        full = True
        assert "diff" not in session.call("Bash", {"command": f"{OPAQUE} two"}).data
        full = False
        assert "diff" not in session.call("Bash", {"command": f"{OPAQUE} two"}).data
        now = 60.0
        assert "diff" in session.call("Bash", {"command": f"{OPAQUE} three"}).data
    # With a draft the changes are shown, and without one the command.
    assert [bool(question.files) for question in asked] == [True, False, False, True]


@contextmanager
def set_flag(path: Path, flag: str) -> Iterator[None]:
    """Give a file or directory an attribute of `chattr`; skips where that is impossible."""
    if not shutil.which("chattr"):
        pytest.skip("the program chattr is not installed")
    done = subprocess.run(["chattr", f"+{flag}", path], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"no file can be made immutable here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["chattr", f"-{flag}", path], check=True)


@pytest.mark.parametrize("flag", ["i", "a"])
def test_a_command_cannot_change_an_immutable_file_and_its_other_changes_are_kept(tmp_path: Path, flag: str) -> None:
    workspace = make_workspace(tmp_path)
    draft_path = str(tmp_path / "draft")
    with set_flag(workspace / "a", flag):
        before = describe(str(workspace), times=True)
        draft = DraftDirectory.create(draft_path, str(workspace))
        run_or_skip(draft, "! echo > a && ! rm -f a && ! mv a moved && echo new > new; rm -r gone")
        keep(draft)
        assert sorted(os.listdir(workspace)) == ["a", "d", "new"]
        assert (workspace / "a").read_text(encoding="ascii") == "a\n"
        undo(draft)
        assert describe(str(workspace), times=True) == before


@pytest.mark.parametrize("path", ["a", "d", "gone", "gone/b", "."])
@pytest.mark.parametrize("flag", ["i", "a"])
def test_what_becomes_immutable_meanwhile_stops_the_keep_as_a_whole(tmp_path: Path, path: str, flag: str) -> None:
    workspace = make_workspace(tmp_path)
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    run_or_skip(draft, COMMAND)
    before = describe(str(workspace), times=True)
    with set_flag(workspace / path, flag):
        with pytest.raises((OSError, DraftConflict)):
            keep(draft)
        assert describe(str(workspace), times=True) == before
    assert draft.state == "open"


@pytest.mark.parametrize("path", ["a", "d", "new", "new/7", "."])
@pytest.mark.parametrize("flag", ["i", "a"])
def test_what_becomes_immutable_after_the_keep_stops_the_undo_as_a_whole(tmp_path: Path, path: str, flag: str) -> None:
    workspace = make_workspace(tmp_path)
    before = describe(str(workspace), times=True)
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    run_or_skip(draft, COMMAND)
    keep(draft)
    after = describe(str(workspace), times=True)
    with set_flag(workspace / path, flag):
        with pytest.raises((OSError, DraftConflict)):
            undo(draft)
        assert describe(str(workspace), times=True) == after
        assert draft.state == "kept"
    if path in ("d", "."):  # its own times are no change of what is in it
        undo(draft)
        assert describe(str(workspace), times=True) == before
