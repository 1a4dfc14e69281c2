"""Move and Trash: nothing is ever overwritten, what is moved stays what it is, and what is deleted comes back."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, Setup
from handrail.files.locks import make_intents, make_part
from handrail.files.recovery import recover
from handrail.journal.store import SqliteJournal
from handrail.workspace import Root
from tests.journal.wired import tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def kept(tmp_path: Path, root: Path, make_session: Callable[..., Session]) -> Iterator[Callable[..., Session]]:
    """Sessions with a journal, so that all can be taken back."""
    journals: list[SqliteJournal] = []

    def make(**more: Any) -> Session:
        budget = more.pop("budget", 1 << 30)
        journals.append(SqliteJournal(str(tmp_path / f"journal{len(journals)}.db"), budget=budget))
        return make_session(root=root, journal=journals[-1], **more)

    yield make
    for journal in journals:
        journal.close()


def filled(root: Path) -> Path:
    """A directory with all that a directory may hold."""
    folder = root / "d"
    (folder / "e" / "empty").mkdir(parents=True)
    (folder / "a.txt").write_bytes(b"one\r\ntwo")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\n")
    (folder / "run.sh").chmod(0o751)
    (folder / "e" / "b.bin").write_bytes(bytes(range(256)))
    (folder / "to").symlink_to("a.txt")
    (folder / "out").symlink_to("/nowhere/at/all")
    (folder / "e" / "empty").chmod(0o700)
    folder.chmod(0o750)
    return folder


def moved(session: Session, source: str, target: str) -> Any:
    return session.call("Move", {"source_path": source, "target_path": target})


def test_a_file_is_moved_as_it_stands(root: Path, make_session: Callable[..., Session]) -> None:
    (root / "a.bin").write_bytes(b"\0\xff\r\n")
    (root / "a.bin").chmod(0o640)
    os.utime(root / "a.bin", ns=(1_000_000_000, 2_000_000_000))
    was = (root / "a.bin").stat()
    result = moved(make_session(root=root), "a.bin", "new/deep/b.bin")
    assert (result.status, result.text) == ("ok", "Moved a.bin to new/deep/b.bin.")
    now = (root / "new/deep/b.bin").stat()
    assert (now.st_ino, now.st_mode, now.st_mtime_ns) == (was.st_ino, was.st_mode, was.st_mtime_ns)
    assert not (root / "a.bin").exists() and (root / "new/deep/b.bin").read_bytes() == b"\0\xff\r\n"
    assert [(access.action, access.target) for access in result.accesses] == [
        ("read", "a.bin"),
        ("delete", "a.bin"),
        ("write", "new/deep/b.bin"),
    ]


def test_a_directory_is_moved_with_all_that_is_in_it(root: Path, make_session: Callable[..., Session]) -> None:
    was = tree(filled(root))
    os.utime(root / "d" / "e", ns=(1, 2))
    result = moved(make_session(root=root), "d", "x/y")
    assert result.status == "ok" and tree(root / "x/y") == was and not (root / "d").exists()
    assert (root / "x/y/e").stat().st_mtime_ns == 2 and stat.S_IMODE((root / "x/y").stat().st_mode) == 0o750


@pytest.mark.parametrize("standing", ["file", "directory", "empty directory", "link", "dead link"])
def test_nothing_that_stands_at_the_target_is_overwritten(
    root: Path, make_session: Callable[..., Session], standing: str
) -> None:
    filled(root)
    (root / "a").write_text("a", encoding="utf-8")
    target = root / "t"
    if standing == "file":
        target.write_text("t", encoding="utf-8")
    elif standing.endswith("directory"):
        target.mkdir()
        if standing == "directory":
            (target / "x").write_text("x", encoding="utf-8")
    else:
        target.symlink_to("a" if standing == "link" else "free")
    was, session = tree(root), make_session(root=root)
    for source in ("a", "d"):
        result = moved(session, source, "t")
        assert result.error and result.error.code in ("would_overwrite", "same_file"), result.text
        assert "t" in result.text and tree(root) == was
    if standing == "directory":
        assert "set target_path to t/d" in result.text


def test_what_cannot_be_moved_is_refused_with_the_reason(root: Path, make_session: Callable[..., Session]) -> None:
    filled(root)
    (root / "link").symlink_to("d/a.txt")
    os.mkfifo(root / "d" / "e" / "pipe")
    (root / "one").write_text("1", encoding="utf-8")
    os.link(root / "one", root / "two")
    was, session = tree_names(root), make_session(root=root)
    for source, target, code in (
        ("link", "x", "not_regular"),
        ("d/to", "x", "not_regular"),
        ("d/out", "x", "outside_workspace"),
        ("d", "x", "not_regular"),
        ("one", "x", "hard_linked"),
        ("missing", "x", "not_found"),
        ("d/a.txt", "d/a.txt", "same_file"),
        ("d/a.txt", "../x", "outside_workspace"),
        (".", "x", "bad_path"),
        ("d/a.txt", "d/run.sh/x", "bad_path"),
    ):
        result = moved(session, source, target)
        assert result.error and result.error.code == code, (source, result.text)
        assert tree_names(root) == was
    (root / "d" / "e" / "pipe").unlink()
    assert moved(session, "d", "d/e/x").error.code == "bad_path"


def tree_names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def test_only_the_case_of_a_name_can_change(root: Path, make_session: Callable[..., Session]) -> None:
    (root / "readme.md").write_text("x", encoding="utf-8")
    session = make_session(root=root)
    assert moved(session, "readme.md", "README.md").status == "ok"
    assert os.listdir(root) == ["README.md"]


def test_a_file_is_moved_to_another_root(tmp_path: Path, root: Path, make_session: Callable[..., Session]) -> None:
    other, closed = tmp_path / "other", tmp_path / "closed"
    other.mkdir()
    closed.mkdir()
    (root / "a").write_text("a", encoding="utf-8")
    session = make_session(root=root, setup=Setup(roots=[Root(str(other)), Root(str(closed), writable=False)]))
    assert moved(session, "a", str(closed / "a")).error.code == "read_only_root"
    assert moved(session, "a", str(other / "b")).status == "ok"
    assert (other / "b").read_text(encoding="utf-8") == "a" and not (root / "a").exists()


def test_a_file_moves_to_another_file_system_and_keeps_mode_and_time(
    root: Path, make_session: Callable[..., Session]
) -> None:
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == root.stat().st_dev or not os.access(shm, os.W_OK):
        pytest.skip("there is no second file system here to move to")
    other = shm / f"handrail-test-{os.getpid()}"
    other.mkdir()
    try:
        filled(root)
        os.utime(root / "d" / "run.sh", ns=(1_000_000_000, 2_000_000_000))
        session = make_session(root=root, setup=Setup(roots=[Root(str(other))]))
        assert moved(session, "d/run.sh", str(other / "run.sh")).status == "ok"
        now = (other / "run.sh").stat()
        assert (stat.S_IMODE(now.st_mode), now.st_mtime_ns) == (0o751, 2_000_000_000)
        refused = moved(session, "d", str(other / "d"))
        assert refused.error.code == "bad_path" and "file system" in refused.text and (root / "d").is_dir()
    finally:
        (other / "run.sh").unlink(missing_ok=True)
        other.rmdir()


def test_what_was_read_need_not_be_read_again_after_a_move(root: Path, make_session: Callable[..., Session]) -> None:
    filled(root)
    session = make_session(root=root)
    session.call("Read", {"file_path": "d/a.txt"})
    assert moved(session, "d", "n").status == "ok"
    edit = {"old_string": "one", "new_string": "1"}
    assert session.call("Edit", {"file_path": "n/a.txt", **edit}).status == "ok"
    unseen = session.call("Edit", {"file_path": "n/run.sh", "old_string": "sh", "new_string": "bash"})
    assert unseen.error and unseen.error.code == "not_seen"


def test_a_delete_comes_back_by_undo(root: Path, kept: Callable[..., Session]) -> None:
    filled(root)
    (root / "b.bin").write_bytes(b"\0")
    was, session = tree(root), kept()
    for path in ("b.bin", "d/a.txt", "d"):
        result = session.call("Trash", {"path": path})
        assert result.status == "ok" and "Deleted" in result.text
        assert not os.path.lexists(root / path)
    assert os.listdir(root) == []
    session.undo(session=session.origin.session)
    assert tree(root) == was


def test_moves_come_back_by_undo_and_go_again(root: Path, kept: Callable[..., Session]) -> None:
    filled(root)
    was, session = tree(root), kept()
    assert moved(session, "d", "n/m").ok and moved(session, "n/m/e", "e").ok
    then = tree(root)
    report = session.undo(session=session.origin.session)
    assert tree(root) == was and not report.conflicts
    session.redo()
    assert tree(root) == then


def test_what_others_have_put_there_since_is_left_alone(root: Path, kept: Callable[..., Session]) -> None:
    filled(root)
    session = kept()
    assert moved(session, "d", "n").ok
    (root / "n" / "new.txt").write_text("mine", encoding="utf-8")
    (root / "n" / "a.txt").write_text("changed", encoding="utf-8")
    report = session.undo()
    assert [os.path.basename(one.path) for one in report.conflicts] == ["a.txt", "a.txt"]
    assert (root / "n" / "new.txt").read_text(encoding="utf-8") == "mine"
    assert (root / "n" / "a.txt").read_text(encoding="utf-8") == "changed"
    assert (root / "d" / "e" / "b.bin").read_bytes() == bytes(range(256))


def test_what_cannot_be_kept_is_not_deleted(
    root: Path, kept: Callable[..., Session], make_session: Callable[..., Session]
) -> None:
    filled(root)
    (root / "big").write_bytes(os.urandom(100_000))
    was = tree(root)
    for session, path in (
        (make_session(root=root, journal=None), "d"),
        (make_session(root=root, journal=None), "big"),
        (kept(budget=1000), "big"),
    ):
        result = session.call("Trash", {"path": path})
        assert result.error and result.error.code == "journal_failed", result.text
        assert result.text.startswith("Nothing was deleted") and tree(root) == was
    small = make_session(root=root, most_edit_bytes=200).call("Trash", {"path": "d"})
    assert small.error and small.error.code == "too_large_to_change" and tree(root) == was


def test_too_many_entries_are_refused(root: Path, kept: Callable[..., Session]) -> None:
    (root / "d").mkdir()
    for number in range(2_001):
        (root / "d" / str(number)).touch()
    session = kept()
    for result in (session.call("Trash", {"path": "d"}), moved(session, "d", "x")):
        assert result.error and result.error.code == "too_large_to_change" and "2000 entries" in result.text
    assert len(os.listdir(root / "d")) == 2_001


def test_a_person_is_asked_and_sees_what_goes(root: Path, kept: Callable[..., Session]) -> None:
    filled(root)
    seen: list[str] = []
    session = kept(mode="ask", approve=lambda prepared: bool(seen.append(prepared.preview())))
    assert moved(session, "d", "n").status == "denied"
    assert session.call("Trash", {"path": "d"}).status == "denied"
    assert session.call("Trash", {"path": "d/a.txt"}).status == "denied"
    assert seen[0].startswith("rename from d\nrename to n\n") and "  e/b.bin\n" in seen[0]
    assert seen[1].startswith("delete d\n") and "-one" in seen[2]
    assert (root / "d").is_dir()


def test_a_secret_is_not_moved_out_of_sight(root: Path, kept: Callable[..., Session]) -> None:
    (root / "conf").mkdir()
    (root / "conf" / ".env").write_text("K=1", encoding="utf-8")
    session = kept(mode="full")
    for source in ("conf/.env", "conf"):
        assert moved(session, source, "plain").status == "denied"
    assert (root / "conf" / ".env").exists()
    assert session.call("Trash", {"path": "conf"}).status == "denied"  # nobody there to be asked


@pytest.mark.parametrize("doing", ["swaps", "ready"])
def test_a_removal_that_was_killed_is_ended_by_the_next_call(root: Path, doing: Any) -> None:
    was, temp = tree(filled(root)), ".handrail-0123456789abcdef"
    fd = os.open(root, os.O_RDONLY)
    try:
        begun = make_intents(doing, [make_part(fd, str(root / "d"), "tree", temp, "d", 0, None, None)])
    finally:
        os.close(fd)
    os.rename(root / "d", root / temp)
    recover(begun[0])
    assert not (root / temp).exists()
    if doing == "swaps":
        assert tree(root / "d") == was
    else:
        assert os.listdir(root) == []


LINKS = {"file": "a.txt", "directory": "d", "nowhere": "missing", "outside": "/etc", "loop": "link", "secret": ".env"}


@pytest.mark.parametrize("how", ["Trash", "ApplyPatch"])
@pytest.mark.parametrize("place", ["link", "inner/link"])
@pytest.mark.parametrize("target", LINKS)
def test_of_a_link_only_the_link_is_deleted(
    root: Path, make_session: Callable[..., Session], how: str, place: str, target: str
) -> None:
    (root / "inner").mkdir()
    for above in (root, root / "inner"):
        (above / "d").mkdir()
        for name in ("a.txt", "d/b.txt", ".env"):
            (above / name).write_text("x\n", encoding="utf-8")
    link = root / place
    link.symlink_to(LINKS[target])
    was = tree_names(root)
    session = make_session(root=root)
    patch = f"*** Begin Patch\n*** Delete File: {place}\n*** End Patch\n"
    result = session.call(how, {"path": place} if how == "Trash" else {"patch": patch})
    assert result.status == "ok", result.text
    assert tree_names(root) == [name for name in was if name != place]
    session.undo()
    assert tree_names(root) == was
    assert os.readlink(link) == LINKS[target]


def test_a_link_among_other_changes_of_a_patch_is_refused(root: Path, make_session: Callable[..., Session]) -> None:
    (root / "a.txt").write_text("x\n", encoding="utf-8")
    (root / "link").symlink_to("a.txt")
    patch = "*** Begin Patch\n*** Delete File: link\n*** Add File: new\n+x\n*** End Patch\n"
    result = make_session(root=root).call("ApplyPatch", {"patch": patch})
    assert result.error
    assert result.error.code == "not_regular"
    assert "patch of its own" in result.text
    assert tree_names(root) == ["a.txt", "link"]


def test_a_path_through_a_link_is_deleted_behind_it(root: Path, make_session: Callable[..., Session]) -> None:
    (root / "d").mkdir()
    (root / "d" / "a.txt").write_text("x\n", encoding="utf-8")
    (root / "link").symlink_to("d")
    session = make_session(root=root)
    assert session.call("Trash", {"path": "link/a.txt"}).ok
    assert tree_names(root) == ["d", "link"]
    (root / "out").symlink_to("/etc")
    error = session.call("Trash", {"path": "out/hostname"}).error
    assert error and error.code == "outside_workspace"
