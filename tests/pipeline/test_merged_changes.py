"""Something else changes a file that a command in a draft has changed: lines are merged, or nothing is kept."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from handrail import Result, Session, Settings
from handrail.drafts.store import DraftStore
from handrail.files.locks import state_directory
from tests.command import TIMEOUT
from tests.drafts.machine import require_drafts

pytestmark = pytest.mark.slow  # starts many processes

LINES = "".join(f"line {number}\n" for number in range(1, 21))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    require_drafts()
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text(LINES, encoding="utf-8")
    return work


@pytest.fixture
def session(work: Path) -> Iterator[Session]:
    with Session(work, mode="full", settings=Settings(durable=False)) as session:
        yield session


def git(work: Path, *words: str) -> str:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    return subprocess.run(["git", *identity, *words], cwd=work, check=True, capture_output=True, text=True).stdout


def run_meanwhile(session: Session, work: Path, command: str, seen: str, change: Callable[[], object]) -> Result:
    """Run a command; once it has changed the file ``seen``, and its base is known, change something else."""
    drafts = Path(DraftStore.open(state_directory(), str(work)).path)

    def follow() -> None:
        until = time.monotonic() + TIMEOUT
        while not list(drafts.glob(f"*/bases/{seen}")) and time.monotonic() < until:
            time.sleep(0.01)
        change()
        (work / "go").touch()

    thread = threading.Thread(target=follow)
    thread.start()
    result = session.call("Bash", {"command": f"{command}; until [ -e go ]; do sleep 0.05; done"})
    thread.join()
    return result


def replace(path: Path, old: str, new: str) -> None:
    """As an editor does that saves a file by renaming another."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    other = path.with_name("saved~")
    other.write_text(text.replace(old, new), encoding="utf-8")
    other.rename(path)


def test_changes_of_different_lines_are_merged_and_undo_leaves_the_other(session: Session, work: Path) -> None:
    file = work / "a.txt"
    change = "sed -i 's/^line 3$/ours/' a.txt"
    result = run_meanwhile(session, work, change, "a.txt", lambda: replace(file, "line 18\n", "theirs\n"))
    both = LINES.replace("line 3\n", "ours\n").replace("line 18\n", "theirs\n")
    assert file.read_text(encoding="utf-8") == both
    assert "have both changes now: a.txt" in result.text
    assert "changed a.txt (+1 -1)" in result.text
    session.undo()
    assert file.read_text(encoding="utf-8") == LINES.replace("line 18\n", "theirs\n")


@pytest.mark.parametrize("line", ["line 3", "line 4"], ids=["the same line", "the next line"])
def test_overlapping_changes_are_a_conflict_that_shows_both_sides(session: Session, work: Path, line: str) -> None:
    file = work / "a.txt"
    change = "sed -i 's/^line 3$/ours/' a.txt; echo new > new.txt"
    result = run_meanwhile(session, work, change, "a.txt", lambda: replace(file, f"{line}\n", "theirs\n"))
    assert file.read_text(encoding="utf-8") == LINES.replace(f"{line}\n", "theirs\n")
    assert not (work / "new.txt").exists(), "half of the changes were kept"
    assert "<<<<<<< draft\nours\n" in result.text
    assert "theirs\n" in result.text


def test_a_deleted_file_is_not_brought_back_by_a_change(session: Session, work: Path) -> None:
    file = work / "a.txt"
    result = run_meanwhile(session, work, "sed -i 's/^line 3$/ours/' a.txt", "a.txt", file.unlink)
    assert not file.exists()
    assert "a.txt: deleted outside the draft" in result.text


def test_a_file_that_was_changed_before_the_command_changed_it_has_no_base(session: Session, work: Path) -> None:
    """The command may have read it before: what it writes may lack the other's lines."""
    file = work / "a.txt"

    def change() -> None:
        replace(file, "line 18\n", "theirs\n")

    command = "cat a.txt > old; echo x >> b.txt; until [ -e go ]; do sleep 0.05; done; { cat old; echo ours; } > a.txt"
    (work / "b.txt").write_text("b\n", encoding="utf-8")
    result = run_meanwhile(session, work, command, "b.txt", change)
    assert "theirs" in file.read_text(encoding="utf-8")
    assert "a.txt: changed on both sides" in result.text


def test_attributes_of_git_and_lock_files_forbid_a_merge_by_lines(session: Session, work: Path) -> None:
    git(work, "init", "-q")
    (work / ".gitattributes").write_text("*.gen -merge\n*.all merge=union\n*.own merge=own\n", encoding="utf-8")
    for name in ("a.gen", "a.own", "some.lock", "a.all"):
        (work / name).write_text(LINES, encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")
    for name, is_merged in (("a.gen", False), ("a.own", False), ("some.lock", False), ("a.all", True)):
        file = work / name
        command = f"sed -i 's/^line 3$/ours/' {name}"
        (work / "go").unlink(missing_ok=True)
        line = "line 3\n" if name == "a.all" else "line 18\n"
        result = run_meanwhile(session, work, command, name, partial(replace, file, line, "theirs\n"))
        text = file.read_text(encoding="utf-8")
        assert ("ours" in text, "theirs" in text) == (is_merged, True), (name, result.text)


def test_ignored_files_are_decided_by_themselves(session: Session, work: Path) -> None:
    git(work, "init", "-q")
    (work / ".gitignore").write_text("*.log\n*.out\ngo\n", encoding="utf-8")
    for name in ("a.log", "a.out", "tracked.txt"):
        (work / name).write_text("first\n", encoding="utf-8")
    git(work, "add", ".")
    git(work, "commit", "-qm", "first")

    def change() -> None:
        with (work / "a.log").open("a", encoding="utf-8") as file:
            file.write("theirs\n")
        (work / "a.out").write_text("theirs\n", encoding="utf-8")

    command = "echo ours >> a.log; echo ours > a.out; echo ours > new.txt; echo ours >> tracked.txt"
    result = run_meanwhile(session, work, command, "tracked.txt", change)
    assert (work / "a.log").read_text(encoding="utf-8") == "first\ntheirs\nours\n"
    assert (work / "a.out").read_text(encoding="utf-8") == "theirs\n"
    assert (work / "new.txt").read_text(encoding="utf-8") == "ours\n"
    assert "versions were dropped: a.out" in result.text
    (work / "go").unlink()

    def append() -> None:
        with (work / "tracked.txt").open("a", encoding="utf-8") as file:
            file.write("theirs\n")

    run_meanwhile(session, work, "echo more >> tracked.txt", "tracked.txt", append)
    assert (work / "tracked.txt").read_text(encoding="utf-8") == "first\nours\ntheirs\n", "git has a conflict there"


def test_an_ignored_file_that_is_too_large_to_merge_does_not_stop_the_rest(session: Session, work: Path) -> None:
    git(work, "init", "-q")
    (work / ".gitignore").write_text("*.log\ngo\n", encoding="utf-8")
    log = work / "a.log"
    log.write_bytes(b"line\n" * 1_000_000)

    def append() -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write("theirs\n")

    result = run_meanwhile(session, work, "echo ours >> a.log; echo x >> a.txt", "a.txt", append)
    assert log.read_bytes().endswith(b"line\ntheirs\n")
    assert (work / "a.txt").read_text(encoding="utf-8") == LINES + "x\n"
    assert "versions were dropped: a.log" in result.text


def test_a_renamed_ignored_file_is_kept_with_both_names_or_not_at_all(session: Session, work: Path) -> None:
    git(work, "init", "-q")
    (work / ".gitignore").write_text("*.out\ngo\n", encoding="utf-8")
    (work / "a.out").write_text("contents\n", encoding="utf-8")
    theirs = work / "b.out"
    command = "mv a.out b.out; echo x >> a.txt"
    result = run_meanwhile(session, work, command, "a.txt", lambda: theirs.write_text("theirs\n", encoding="utf-8"))
    assert (work / "a.out").read_text(encoding="utf-8") == "contents\n", result.text
    assert theirs.read_text(encoding="utf-8") == "theirs\n"
    assert (work / "a.txt").read_text(encoding="utf-8") == LINES


def test_an_ignored_file_that_was_deleted_meanwhile_does_not_stop_the_rest(session: Session, work: Path) -> None:
    (work / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (work / "a.log").write_text("started\n", encoding="utf-8")
    git(work, "init", "-q")
    git(work, "add", "-A")
    git(work, "commit", "-qm", "all")
    command = "echo more >> a.log; echo new > new.txt"
    result = run_meanwhile(session, work, command, "a.log", (work / "a.log").unlink)
    assert not (work / "a.log").exists() and (work / "new.txt").exists(), result.text
    assert "Git ignores these files" in result.text and "a.log" in result.text
