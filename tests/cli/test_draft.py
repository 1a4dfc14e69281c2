"""`handrail draft`: named drafts for whole sessions, compared, kept in whole or in part, dropped and taken back."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest

from handrail.drafts.changes import ChangeReader
from handrail.drafts.store import DraftStore
from handrail.files.locks import state_directory
from tests.command import handrail
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "a.txt").write_text("one\n", encoding="utf-8")
    (project / "src" / "m.py").write_text("x = 1\n", encoding="utf-8")
    return project


def draft(project: Path, *words: str) -> str:
    done = handrail("draft", *words, cwd=project)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_several_drafts_of_one_project_are_compared_and_one_is_kept(project: Path) -> None:
    before = describe(str(project), times=True)
    assert draft(project, "start", "way", "--count", "2") == "way-1\nway-2\n"
    draft(project, "run", "way-1", "--", "sh", "-c", "echo two >> a.txt; rm -r src; mkdir new; echo q > new/q")
    call = ["call", "Write", "--draft", "way-2", "file_path=b.txt", "content=hello"]
    assert handrail(*call, cwd=project).returncode == 0
    assert describe(str(project), times=True) == before, "a draft has changed the workspace"
    listed = json.loads(draft(project, "list", "--json"))
    assert [(row["name"], row["created"], row["changed"], row["deleted"]) for row in listed] == [
        ("way-1", 2, 1, 2),
        ("way-2", 1, 0, 0),
    ]
    assert "+two" in draft(project, "diff", "way-1")
    assert "+hello" in draft(project, "diff", "way-2")
    assert "kept" in draft(project, "keep", "way-1")
    assert not (project / "src").exists()
    assert not (project / "b.txt").exists()
    assert "way-2" in draft(project, "drop", "way-2")
    assert draft(project, "list") == ""
    assert handrail("undo", cwd=project).returncode == 0
    assert describe(str(project), times=True) == before


def test_the_earlier_word_for_start_works(project: Path) -> None:
    assert draft(project, "new", "way", "--count", "2") == "way-1\nway-2\n"
    assert b"new NAME" not in handrail("draft", "--help", cwd=project).stdout


def test_nobody_works_in_a_draft_that_is_being_kept(project: Path) -> None:
    draft(project, "start", "way")
    with contextlib.closing(DraftStore.open(state_directory(), str(project)).open_named("way")):
        assert b"end it first" in handrail("call", "LS", "--draft", "way", cwd=project).stderr
    assert handrail("call", "LS", "--draft", "way", cwd=project).returncode == 0


def test_a_session_in_a_draft_that_does_not_exist_creates_it(project: Path) -> None:
    """As `Session(draft=...)` does; a line says so, since the name may be mistyped."""
    call = ["call", "Write", "--draft", "fresh", "file_path=b.txt", "content=hello"]
    first, second = handrail(*call, cwd=project), handrail(*call[:4], "file_path=c.txt", "content=x", cwd=project)
    assert (first.returncode, second.returncode) == (0, 0)
    assert b"created the draft fresh" in first.stderr
    assert b"created" not in second.stderr
    assert "2 created" in draft(project, "list")
    assert not (project / "b.txt").exists()
    draft(project, "drop", "fresh")
    wrong = handrail("call", "Read", "--draft", "../x", "file_path=a.txt", cwd=project)
    assert wrong.returncode == 2
    assert b"a name has letters" in wrong.stderr


def test_a_command_of_a_session_renames_a_directory_of_a_draft(project: Path) -> None:
    draft(project, "start", "way")
    command = """python3 -c "import os; os.rename('src', 'renamed')" """
    done = handrail("call", "Bash", "--draft", "way", f"command={command}", cwd=project)
    assert done.returncode == 0, done.stdout
    draft(project, "keep", "way")
    assert (project / "renamed" / "m.py").read_text(encoding="utf-8") == "x = 1\n"
    assert not (project / "src").exists()
    assert handrail("undo", cwd=project).returncode == 0
    assert (project / "src" / "m.py").exists()


def test_some_paths_are_kept_and_the_others_stay_in_the_draft(project: Path) -> None:
    before = describe(str(project), times=True)
    draft(project, "start", "way")
    draft(
        project, "run", "way", "--", "sh", "-c", "echo two >> a.txt; rm -r src; mkdir new; echo q > new/q; touch new/r"
    )
    draft(project, "keep", "way", "new/q", "src")
    assert sorted(path.name for path in project.rglob("*")) == ["a.txt", "new", "q"]
    assert (project / "a.txt").read_text(encoding="utf-8") == "one\n"
    rest = json.loads(draft(project, "diff", "way", "--json"))
    assert [one["path"] for one in rest["changes"]] == ["a.txt", "new/r"]
    assert handrail("undo", cwd=project).returncode == 0
    assert describe(str(project), times=True) == before
    draft(project, "keep", "way")
    assert (project / "new" / "r").exists()


def test_a_database_is_kept_as_a_whole_or_not_at_all(project: Path) -> None:
    code = (
        "import os, sqlite3; db = sqlite3.connect('d.db'); db.execute('pragma journal_mode=wal'); "
        "db.execute('create table t (n)'); db.execute('insert into t values (7)'); db.commit(); "
        "open('other', 'w'); os._exit(0)"
    )
    draft(project, "start", "way")
    draft(project, "run", "way", "--", "python3", "-c", code)
    assert handrail("draft", "keep", "way", "d.db", cwd=project).returncode == 2
    draft(project, "keep", "way", "d.db", "d.db-wal", "d.db-shm")
    assert not (project / "other").exists()
    with sqlite3.connect(project / "d.db") as database:
        assert database.execute("select n from t").fetchall() == [(7,)]


def test_a_file_that_changed_in_the_workspace_too_is_a_conflict_and_the_draft_stays(project: Path) -> None:
    draft(project, "start", "way")
    draft(project, "run", "way", "--", "sh", "-c", "echo two >> a.txt; echo new > b.txt")
    (project / "a.txt").write_text("foreign\n", encoding="utf-8")
    for words in (["keep", "way"], ["keep", "way", "a.txt"]):
        done = handrail("draft", *words, cwd=project)
        assert (done.returncode, b"a.txt: both changed these lines" in done.stderr) == (1, True)
    assert (project / "a.txt").read_text(encoding="utf-8") == "foreign\n"
    assert "created" in draft(project, "list")
    draft(project, "keep", "way", "b.txt")
    assert (project / "b.txt").read_text(encoding="utf-8") == "new\n"


def test_a_draft_belongs_to_one_process_at_a_time(project: Path) -> None:
    draft(project, "start", "way")
    inner = handrail("draft", "run", "way", "--", "sh", "-c", "ls -A ..; exit 7", cwd=project)
    assert inner.returncode == 7
    code = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'handrail.cli', 'draft', 'list']))"
    nested = handrail("draft", "run", "way", "--", "python3", "-c", code, cwd=project)
    assert nested.returncode != 0


@pytest.mark.parametrize(
    "words",
    [
        ("new",),
        ("start", "../x"),
        ("start", "a", "--count", "0"),
        ("keep", "missing"),
        ("list", "name"),
        ("drop", "missing"),
        ("run", "missing"),
        ("diff", "a", "--count", "2"),
    ],
)
def test_wrong_usage_is_reported(project: Path, words: tuple[str, ...]) -> None:
    assert handrail("draft", *words, cwd=project).returncode == 2


def test_a_draft_that_cannot_be_read_is_not_one_without_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft(project, "start", "way")
    draft(project, "run", "way", "--", "touch", "new.txt")

    def fail(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "closed")

    with monkeypatch.context() as patch:
        patch.setattr(ChangeReader, "list", fail)
        assert draft(project, "list") == "way  cannot be read: Permission denied: closed\n"
        assert [row["error"] for row in json.loads(draft(project, "list", "--json"))] == ["Permission denied: closed"]
        for word, answer in (("diff", "the changes cannot be read"), ("keep", "nothing was kept")):
            done = handrail("draft", word, "way", cwd=project)
            assert done.returncode == 1
            assert f"{answer}: Permission denied: closed" in done.stderr.decode()
    draft(project, "drop", "way")
