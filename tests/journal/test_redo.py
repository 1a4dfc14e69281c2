"""Undo and redo against a model that stores whole trees; and which calls they take back."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.journal import Record
from handrail.journal.queries import JournalReader
from handrail.journal.undo import UnknownCall
from handrail.model import Call, Result, Verdict
from tests.command import handrail
from tests.journal.wired import Wired, tree
from tests.sizes import pick

NAMES = ("a", "b", "c", "d/e", "d/f")
SEQUENCES = pick(12, 2_000)
Make = Callable[..., Wired]
Tree = dict[str, tuple[int, bytes | None]]


@dataclass
class Change:
    """What a call did: the trees before and after it, and the paths that are not undone yet."""

    before: Tree
    after: Tree
    moved: tuple[str, str] | None
    left: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        paths = self.before.keys() | self.after.keys()
        self.left = {path for path in paths if self.before.get(path) != self.after.get(path)}

    def group(self, path: str) -> set[str]:
        """The paths that are undone together with this one."""
        return set(self.moved) if self.moved and path in self.moved else {path}


@dataclass
class Model:
    """The files of a project, the changes that were made, and the undos that can be redone."""

    files: Tree
    changes: list[Change] = field(default_factory=list)
    undos: list[tuple[Change, set[str]]] = field(default_factory=list)

    def change(self, after: Tree, moved: tuple[str, str] | None) -> None:
        if after != self.files:
            self.changes.append(Change(self.files, after, moved))
            self.undos.clear()
        self.files = after

    def undo(self, file: str = "") -> bool:
        """Undo the newest change, or that of one file; False if there is none, or it is in conflict."""
        for change in reversed(self.changes):
            if change.left and (not file or file in change.left):
                paths = change.group(file) & change.left if file else set(change.left)
                if any(self.files.get(path) != change.after.get(path) for path in paths):
                    return False
                self._set(paths, change.before)
                change.left -= paths
                self.undos.append((change, paths))
                return True
        return False

    def redo(self) -> bool:
        if not self.undos:
            return False
        change, paths = self.undos.pop()
        self._set(paths, change.after)
        change.left |= paths
        return True

    def _set(self, paths: set[str], source: Tree) -> None:
        self.files = {path: one for path, one in self.files.items() if path not in paths}
        self.files |= {path: source[path] for path in paths if path in source}


def read_files(project: Path) -> Tree:
    """The files of a project, without its directories."""
    return {path: one for path, one in tree(project).items() if one[1] is not None}


def make_call(session: Session, chance: random.Random) -> tuple[str, str] | None:
    """Change something, or fail to; returns the two paths of a move."""
    path, other, text = chance.choice(NAMES), chance.choice(NAMES), f"{chance.random()}\n"
    kind = chance.choice(("write", "write", "edit", "command", "move", "trash"))
    if kind == "write":
        session.call("Read", {"file_path": path})
        session.call("Write", {"file_path": path, "content": f"one\n{text}"})
    elif kind == "edit":
        session.call("Read", {"file_path": path})
        session.call("Edit", {"file_path": path, "old_string": "one\n", "new_string": f"one\n{text}"})
    elif kind == "command":
        command = chance.choice((f"echo {text.strip()} > {path}", f"rm -f {path} {other}", f"cp {path} {other}"))
        session.call("Bash", {"command": command})
    elif kind == "trash":
        session.call("Trash", {"path": path})
    elif path != other:
        session.call("Move", {"source_path": path, "target_path": other})
        return path, other
    return None


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_any_sequence_of_changes_undos_and_redos_is_that_of_a_model(tmp_path: Path, seed: int) -> None:
    chance, project = random.Random(seed), tmp_path / "project"
    (project / "d").mkdir(parents=True)
    (project / "a").write_text("one\ntwo\n", encoding="utf-8")
    (project / "d" / "keep").write_text("one\n", encoding="utf-8")
    model = Model(read_files(project))
    with Session(project, mode="full", settings=Settings(durable=False, raise_bugs=True)) as session:
        session.call("LS", {})
        for step in range(12):
            kind = chance.choice(("change", "change", "undo", "redo", "file"))
            if kind == "change":
                moved = make_call(session, chance)
                model.change(read_files(project), moved)
                continue
            file = chance.choice(NAMES) if kind == "file" else ""
            expected = model.redo() if kind == "redo" else model.undo(file)
            try:
                report = session.redo() if kind == "redo" else session.undo(file=file)
                carried_out = bool(report.restored) and not report.conflicts
            except UnknownCall:
                carried_out = False
            assert (carried_out, read_files(project)) == (expected, model.files), f"step {step}: {kind} {file}"
    with JournalReader(session.journal.path) as reader:  # type: ignore[attr-defined] # a SQLite journal
        assert reader.verify() is None


def test_redo_brings_back_all_that_one_undo_took_back(wired: Make, project: Path) -> None:
    session = wired()
    for name in ("x", "y", "deep/z"):
        session.call("Write", {"file_path": name, "content": "new"})
    then = tree(project)
    session.undo(since=1)
    assert tree(project) == {}
    report = session.undo(redo=True)
    assert tree(project) == then and not report.conflicts
    assert [row.tool for row in session.rows()][-2:] == ["Undo", "Redo"]
    session.undo()
    assert not (project / "deep").exists() and (project / "y").exists()


def test_after_another_change_nothing_is_redone_but_an_undo_by_number_is(wired: Make, project: Path) -> None:
    session = wired()
    session.call("Write", {"file_path": "x", "content": "new"})
    session.undo()
    undone = session.rows()[-1].seq
    session.call("Write", {"file_path": "y", "content": "new"})
    with pytest.raises(UnknownCall, match=f"nothing to redo after call {undone + 1}"):
        session.undo(redo=True)
    session.undo(call=undone)
    assert (project / "x").read_text(encoding="utf-8") == "new"
    assert session.rows()[-1].tool == "Redo"
    session.undo(call=session.rows()[-1].seq)  # and that is an undo again
    assert session.rows()[-1].tool == "Undo" and not (project / "x").exists()
    session.undo(redo=True)
    assert (project / "x").exists()


def test_a_redo_leaves_alone_what_has_changed_since(wired: Make, project: Path) -> None:
    session = wired()
    session.call("Write", {"file_path": "x", "content": "new"})
    session.undo()
    (project / "x").write_text("mine", encoding="utf-8")
    report = session.undo(redo=True)
    assert [Path(one.path).name for one in report.conflicts] == ["x"] and not report.restored
    assert (project / "x").read_text(encoding="utf-8") == "mine"


def prompt(session: Wired, text: str) -> None:
    session.both.record(
        Record(Call("Prompt", {"text": text}), (), Verdict("allow", "", ""), result=Result("Prompt", "ok", ""))
    )


def test_a_turn_is_undone_and_then_the_turn_before_it(wired: Make, project: Path) -> None:
    session = wired()
    for turn in ("first", "second"):
        prompt(session, turn)
        for name in ("x", "y"):
            session.call("Read", {"file_path": name})
            session.call("Write", {"file_path": name, "content": turn})
    assert session.undo(turn=True, dry_run=True).restored
    session.undo(turn=True)
    assert {path.read_text(encoding="utf-8") for path in project.iterdir()} == {"first"}
    session.undo(turn=True)
    assert not any(project.iterdir())
    session.undo(redo=True)
    session.undo(redo=True)
    assert {path.read_text(encoding="utf-8") for path in project.iterdir()} == {"second"}


def test_without_a_prompt_a_turn_is_not_guessed(wired: Make, project: Path) -> None:
    session = wired()
    session.call("Write", {"file_path": "x", "content": "new"})
    with pytest.raises(UnknownCall, match="no prompt is recorded before call 1"):
        session.undo(turn=True)
    assert (project / "x").exists()


PATCH = "*** Begin Patch\n*** Add File: x\n+x\n*** Add File: d/y\n+y\n*** Add File: d/z\n+z\n*** End Patch\n"


@pytest.mark.parametrize(("file", "left"), [("x", {"d/y", "d/z"}), ("d", {"x"}), ("d/y", {"x", "d/z"})])
def test_one_file_or_directory_of_a_call_is_undone_and_the_rest_stays(
    wired: Make, project: Path, file: str, left: set[str]
) -> None:
    session = wired()
    session.call("ApplyPatch", {"patch": PATCH})
    assert session.undo(file=file).restored
    assert read_files(project).keys() == left
    with pytest.raises(UnknownCall, match="there is no change of"):
        session.undo(file=file)
    session.undo()  # what is left of the call
    assert not read_files(project)
    session.undo(redo=True)
    session.undo(redo=True)
    assert read_files(project).keys() == {"x", "d/y", "d/z"}


def test_the_log_says_which_call_was_taken_back(project: Path) -> None:
    handrail("call", "Write", "file_path=x", "content=new", cwd=project)
    assert handrail("undo", cwd=project).returncode == 0
    preview = handrail("redo", "--dry-run", cwd=project)
    assert b"would be restored" in preview.stdout and not (project / "x").exists()
    assert handrail("redo", cwd=project).returncode == 0
    assert (project / "x").exists()
    assert handrail("redo", cwd=project).returncode == 2
    assert handrail("undo", "--file", "x", cwd=project).returncode == 0
    assert handrail("undo", "--file", "x", "--turn", cwd=project).returncode == 2
    lines = handrail("log", cwd=project).stdout.decode("utf-8").splitlines()
    texts = [text for line in lines for text in ("undo of 1", "redo of 1") if text in line]
    assert texts == ["undo of 1", "redo of 1", "undo of 1"]
