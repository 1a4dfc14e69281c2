"""Commands that can run in no draft are compared with a copy of the workspace, where files can share their blocks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import system_calls
from handrail.drafts.layout import DraftDirectory
from handrail.drafts.workspace_copy import WorkspaceCopy
from handrail.files.versions import MOST_SAVED_BYTES
from handrail.journal.undo_selection import UnknownCall
from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests.drafts.scenarios import require_same
from tests.drafts.test_workspace_copy import copy_contents
from tests.drafts.trees import describe
from tests.pipeline.opaque_commands import make_workspace, opaque

pytestmark = pytest.mark.slow  # starts many processes

SETTINGS = Settings(durable=False, sandbox="off")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(system_calls, "clone_file", copy_contents)
    return make_workspace(tmp_path)


@pytest.fixture
def session(workspace: Path) -> Iterator[Session]:
    with Session(workspace, settings=SETTINGS, mode="full") as session:
        yield session


def test_the_answer_lists_the_changes_and_undo_takes_them_back(session: Session, workspace: Path) -> None:
    with (workspace / "large").open("wb") as file:
        file.truncate(MOST_SAVED_BYTES + 1)
    before = describe(str(workspace), times=True)
    code = (
        "import os, shutil; shutil.rmtree('src'); open('a.txt', 'a').write('more\\n'); open('new', 'w').write('1\\n'); "
        "os.truncate('large', 5); os.chmod('b.txt', 0o600)"
    )
    result = session.call("Bash", {"command": opaque(code)})
    assert result.ok, result.text
    assert "changed a.txt (+1)" in result.text and "deleted src/deep/two.py (-2)" in result.text
    assert "+more" in result.data["diff"]
    assert {one["path"] for one in result.data["changes"]} == {
        "a.txt",
        "b.txt",
        "large",
        "new",
        "src",
        "src/deep",
        "src/deep/two.py",
        "src/one.py",
    }
    assert result.notes == ()
    report = session.undo()
    assert not (report.conflicts or report.missing or report.unknown)
    require_same(describe(str(workspace), times=True), before)


def test_a_file_that_the_words_name_is_taken_back_also_if_it_is_too_large_for_the_journal(
    session: Session, workspace: Path
) -> None:
    with (workspace / "large").open("wb") as file:
        file.truncate(MOST_SAVED_BYTES + 1)
    before = describe(str(workspace), times=True)
    result = session.call("Bash", {"command": "rm large; echo more >> b.txt"})
    assert result.notes == () and len(result.data["changes"]) == 2, result.text
    report = session.undo()
    assert not (report.conflicts or report.missing or report.unknown)
    require_same(describe(str(workspace), times=True), before)


def test_several_commands_are_taken_back_one_after_the_other(session: Session, workspace: Path) -> None:
    states = []
    for code in (
        "open('a.txt', 'a').write('1')",
        "import os; os.rename('src', 'moved'); open('a.txt', 'a').write('2')",
        "open('moved/one.py', 'w').write('3'); open('a.txt', 'w').write('3')",
        "import shutil; shutil.rmtree('moved'); shutil.copy('a.txt', 'c.txt')",
    ):
        states.append(describe(str(workspace), times=True))
        assert session.call("Bash", {"command": opaque(code)}).data["changes"]
    session.call("Write", {"file_path": "d.txt", "content": "d\n"})
    session.undo()
    for state in reversed(states):
        report = session.undo()
        assert not (report.conflicts or report.missing or report.unknown)
        require_same(describe(str(workspace), times=True), state)
    with pytest.raises(UnknownCall):
        session.undo()


def test_where_a_file_has_changed_since_the_others_are_set_back_from_the_journal(
    session: Session, workspace: Path
) -> None:
    session.call("Bash", {"command": opaque("open('a.txt', 'w').write('x'); open('b.txt', 'w').write('x')")})
    (workspace / "a.txt").write_text("foreign\n", encoding="utf-8")
    report = session.undo()
    assert [Path(one.path).name for one in report.conflicts] == ["a.txt"]
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "foreign\n"
    assert (workspace / "b.txt").read_text(encoding="utf-8") == "b.txt\nsecond\n"


def test_a_command_that_changes_nothing_lists_nothing(session: Session, workspace: Path) -> None:
    result = session.call("Bash", {"command": opaque("open('a.txt', 'r+').close(); print('read')")})
    assert (result.status, result.text, result.data["changes"]) == ("ok", "read", [])


def test_of_two_commands_at_once_nobody_tells_whose_changes_are_whose(session: Session, workspace: Path) -> None:
    wait = "import os, time; open('{0}', 'w')\nwhile not os.path.exists('{1}'): time.sleep(0.02)"
    other = threading.Thread(target=session.call, args=("Bash", {"command": opaque(wait.format("one", "two"))}))
    other.start()
    while not (workspace / "one").exists():
        pass
    result = session.call("Bash", {"command": opaque(wait.format("two", "one"))})
    other.join()
    assert "changes" not in result.data
    assert session.call("Bash", {"command": opaque("open('three', 'w')")}).data["changes"]
    session.undo()
    assert (workspace / "one").exists() and (workspace / "two").exists()


def test_a_change_that_could_not_be_saved_is_named(
    session: Session, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = WorkspaceCopy.compare
    monkeypatch.setattr(WorkspaceCopy, "compare", lambda copy: (compare(copy)[0], ["private"]))
    result = session.call("Bash", {"command": opaque("open('a.txt', 'w')")})
    assert [note.code for note in result.notes] == ["not_kept"] and "private" in result.text
    report = session.undo()
    assert report.unknown
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "a.txt\nsecond\n"


def test_without_shared_blocks_commands_run_as_before(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, session: Session
) -> None:
    def refuse(source: int, target: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(system_calls, "clone_file", refuse)
    result = session.call("Bash", {"command": opaque("open('new', 'w')")})
    assert "changes" not in result.data
    assert session.command_host().no_copies == "Operation not supported"
    assert (workspace / "new").exists()


def test_the_copy_goes_with_the_session(workspace: Path) -> None:
    with Session(workspace, settings=SETTINGS, mode="full") as session:
        session.call("Bash", {"command": opaque("open('new', 'w')")})
        copy = session.command_host().save_workspace()
        assert copy
        session.command_host().release_copy(whole=True)
    drafts = [DraftDirectory.open(str(path)) for path in Path(copy.store.path).iterdir() if path.is_dir()]
    assert [draft.state for draft in drafts] == ["kept"]
