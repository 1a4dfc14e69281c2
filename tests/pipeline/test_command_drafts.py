"""Commands run in drafts by default: the answer lists their changes, and undo takes back any of them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Setup
from handrail.cli.chat.changes import undo_calls
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.files.versions import MOST_SAVED_BYTES
from handrail.journal.undo_drafts import KeptDraft
from handrail.journal.undo_selection import UnknownCall
from handrail.model import Answer, Question
from handrail.pipeline import draft_changes
from handrail.pipeline.draft_changes import DraftChanges
from handrail.pipeline.session import Session
from handrail.policy.files import parse_rules
from handrail.policy.modes import Mode
from handrail.settings import Settings
from tests.drafts.machine import require_drafts
from tests.drafts.scenarios import run_in_draft
from tests.drafts.trees import describe
from tests.pipeline.opaque_commands import make_workspace, opaque
from tests.sizes import pick

pytestmark = pytest.mark.slow  # starts many processes


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    require_drafts()
    return make_workspace(tmp_path)


@pytest.fixture
def session(workspace: Path) -> Iterator[Session]:
    with Session(workspace, settings=Settings(durable=False)) as session:
        yield session


def test_the_answer_lists_the_changes_and_undo_takes_them_back(session: Session, workspace: Path) -> None:
    before = describe(str(workspace), times=True)
    code = (
        "import os, shutil; shutil.rmtree('src'); open('a.txt', 'a').write('more\\n'); open('new', 'w').write('1\\n')"
    )
    result = session.call("Bash", {"command": opaque(code)})
    assert result.status == "ok", result.text
    assert "changed a.txt (+1)" in result.text
    assert "created new (+1)" in result.text
    assert "deleted src/deep/two.py (-2)" in result.text
    assert {one["path"] for one in result.data["changes"]} == {
        "a.txt",
        "new",
        "src",
        "src/deep",
        "src/deep/two.py",
        "src/one.py",
    }
    assert "+more" in result.data["diff"]
    assert not (workspace / "src").exists()
    report = session.undo()
    assert not (report.conflicts or report.missing or report.unknown)
    assert describe(str(workspace), times=True) == before


def test_a_command_that_changes_nothing_lists_nothing(session: Session, workspace: Path) -> None:
    before = describe(str(workspace), times=True)
    result = session.call("Bash", {"command": opaque("open('a.txt', 'r+').close(); print('read')")})
    assert (result.status, result.text) == ("ok", "read")
    assert describe(str(workspace), times=True) == before


def test_changes_that_meet_foreign_ones_stay_in_a_draft_and_the_answer_names_it(
    session: Session, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = DraftChanges.observe

    def write_first(draft: OpenDraft) -> DraftChanges:
        (workspace / "a.txt").write_text("foreign\n", encoding="utf-8")
        return observe(draft)

    monkeypatch.setattr(DraftChanges, "observe", write_first)
    result = session.call("Bash", {"command": opaque("open('a.txt', 'w'); open('new', 'w')")})
    assert [note.code for note in result.notes] == ["changes_left"]
    assert "a.txt" in result.text
    assert result.data["kept"] is False
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "foreign\n"
    assert not (workspace / "new").exists()
    assert result.data["draft"] in result.text
    draft = DraftStore.open(os.environ["HANDRAIL_STATE"], str(workspace)).open_named(result.data["draft"])
    try:
        assert [one.path for one in observe(draft).changes] == ["a.txt", "new"]
        run_in_draft(draft.directory, "test", "-e", "new")  # it can be worked in again
    finally:
        draft.drop()


@pytest.mark.parametrize("moment", ["before it is kept", "after it was kept"])
@pytest.mark.parametrize("kind", ["write", "delete", "create", "replace"])
def test_an_undo_leaves_what_another_program_wrote_while_a_command_was_kept(
    session: Session, workspace: Path, monkeypatch: pytest.MonkeyPatch, moment: str, kind: str
) -> None:
    """The journal knows the files as the command left them, and not as they are when the call is over."""
    codes = {
        "write": "open('a.txt', 'w').write('by command\\n')",
        "delete": "import os; os.unlink('a.txt')",
        "create": "open('foreign', 'w').write('by command\\n')",
        "replace": "import shutil; shutil.rmtree('src'); open('src', 'w').write('by command\\n')",
    }
    path = workspace / {"create": "foreign", "replace": "src"}.get(kind, "a.txt")
    name = "keep" if moment == "before it is kept" else "retain"
    really = getattr(DraftChanges, name)

    def write_first(self: DraftChanges, *words: Any) -> object:
        if kind == "replace" and name == "keep":
            (path / "one.py").write_text("foreign\n", encoding="utf-8")
        else:
            path.write_text("foreign\n", encoding="utf-8")
        return really(self, *words)

    with monkeypatch.context() as patched:
        patched.setattr(DraftChanges, name, write_first)
        result = session.call("Bash", {"command": opaque(codes[kind])})
    assert result.data.get("kept", True) == (name == "retain")
    after = describe(str(workspace), times=True)
    with contextlib.suppress(UnknownCall):
        assert session.undo().conflicts
    now = describe(str(workspace), times=True)
    if kind == "replace" and name == "retain":  # the other files of the directory could come back, but not below a file
        assert path.read_text(encoding="utf-8") == "foreign\n"
    else:
        assert now == after


def test_to_take_times_back_does_not_hide_a_later_write(session: Session, workspace: Path) -> None:
    """A file whose time was set and that was written to since keeps its new time, and is not taken for ours."""
    path = workspace / "a.txt"
    session.call("Bash", {"command": opaque("open('a.txt', 'a').write('by command\\n')")})
    session.call("Bash", {"command": opaque("import os; os.utime('a.txt'); os.chmod('b.txt', 0o600)")})
    with path.open("a", encoding="utf-8") as file:
        file.write("foreign\n")
    contents, time = path.read_text(encoding="utf-8"), path.stat().st_mtime_ns
    session.undo()
    assert (workspace / "b.txt").stat().st_mode & 0o777 != 0o600
    assert path.stat().st_mtime_ns == time
    assert not session.undo().conflicts
    assert path.read_text(encoding="utf-8") == contents.replace("by command\n", "")


def test_a_file_that_an_undo_puts_back_may_have_been_written_to_by_another_program(
    session: Session, workspace: Path
) -> None:
    path = workspace / "a.txt"
    append = {"command": opaque("open('a.txt', 'a').write('by command\\n'); open('b.txt', 'a').write('more\\n')")}
    session.call("Bash", append)
    with path.open("a", encoding="utf-8") as file:
        file.write("foreign\n")
    contents = path.read_text(encoding="utf-8")
    session.call("Bash", append)
    assert not session.undo().conflicts
    assert path.read_text(encoding="utf-8") == contents
    assert [Path(one.path) for one in session.undo().conflicts] == [path]
    assert path.read_text(encoding="utf-8") == contents


def test_an_undo_that_met_another_program_is_no_change_that_could_be_undone(
    session: Session, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.call("Bash", {"command": opaque("open('a.txt', 'w').write('by command\\n')")})
    really = KeptDraft.take_back

    def write_first(self: KeptDraft) -> bool:
        (workspace / "a.txt").write_text("foreign\n", encoding="utf-8")
        return really(self)

    monkeypatch.setattr(KeptDraft, "take_back", write_first)
    assert session.undo().conflicts
    with contextlib.suppress(UnknownCall):
        session.undo(call=2)
    assert (workspace / "a.txt").read_text(encoding="utf-8") == "foreign\n"


def test_an_edit_after_a_command_is_undone_before_it(session: Session, workspace: Path) -> None:
    before = describe(str(workspace), times=False)
    session.call("Bash", {"command": opaque("open('a.txt', 'w').write('by command\\n'); open('new', 'w')")})
    assert session.call("Read", {"file_path": "a.txt"}).ok
    edit = {"file_path": "a.txt", "old_string": "command", "new_string": "edit"}
    assert session.call("Edit", edit).ok
    session.call("Bash", {"command": opaque("import os; os.rename('b.txt', 'c.txt')")})
    report = session.undo(session=session.origin.session)
    assert not (report.conflicts or report.missing)
    assert describe(str(workspace), times=False) == before


def test_an_undo_can_be_undone(session: Session, workspace: Path) -> None:
    session.call("Bash", {"command": opaque("import shutil; shutil.rmtree('src'); open('new', 'w').write('x')")})
    after = describe(str(workspace), times=False)
    session.undo(call=1)
    session.undo(call=2)
    assert describe(str(workspace), times=False) == after


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.truncate('large', 0)",
        "import os; os.unlink('large')",
        "import os; os.rename('large', 'src/large')",
        "import os; os.unlink('a.txt'); os.unlink('large')",
        "import os; os.mkfifo('pipe')",
    ],
)
def test_the_newest_change_is_undone_also_if_the_journal_cannot_hold_its_files(
    session: Session, workspace: Path, code: str
) -> None:
    with (workspace / "large").open("wb") as file:
        file.truncate(MOST_SAVED_BYTES + 1)
    session.call("Read", {"file_path": "b.txt"})
    session.call("Edit", {"file_path": "b.txt", "old_string": "second", "new_string": "2"})
    before = describe(str(workspace), times=True)
    result = session.call("Bash", {"command": opaque(code)})
    assert result.ok, result.text
    assert describe(str(workspace), times=True) != before
    session.call("Bash", {"command": opaque("open('a.txt').close() if __import__('os').path.exists('a.txt') else 0")})
    session.call("Read", {"file_path": "b.txt"})
    session.undo()
    assert describe(str(workspace), times=True) == before
    session.undo()
    assert (workspace / "b.txt").read_text(encoding="utf-8") == "b.txt\nsecond\n"
    with pytest.raises(UnknownCall):
        session.undo()


def test_a_chat_is_rewound_past_commands_of_which_the_journal_has_no_file(session: Session, workspace: Path) -> None:
    session.call("Write", {"file_path": "c.txt", "content": "c\n"}, id="1")
    before = describe(str(workspace), times=True)
    session.call("Bash", {"command": opaque("import os; os.mkfifo('one')")}, id="2")
    session.call("Write", {"file_path": "d.txt", "content": "d\n"}, id="3")
    session.call("Bash", {"command": opaque("import os; os.mkfifo('two')")}, id="4")
    session.undo()
    assert not (workspace / "two").exists()
    assert undo_calls(session, ["2", "3", "4"]).calls == (3, 2)
    assert describe(str(workspace), times=True) == before


def test_protected_files_are_not_kept_where_nobody_can_be_asked(session: Session, workspace: Path) -> None:
    result = session.call("Bash", {"command": opaque("open('handrail.' + 'toml', 'w'); open('ok', 'w')")})
    assert "changes_dropped" in [note.code for note in result.notes]
    assert "handrail.toml" in result.text
    assert not (workspace / "ok").exists()
    assert not (workspace / "handrail.toml").exists()


def test_a_file_that_another_session_is_writing_is_not_copied(session: Session, workspace: Path) -> None:
    path = workspace / "src" / ".handrail-0123456789abcdef"
    path.touch()
    other = workspace / "src" / ".handrail-fedcba9876543210" / "inner"
    other.mkdir(parents=True)
    result = session.call("Bash", {"command": opaque("import shutil; shutil.copytree('src', 'new')")})
    assert result.status == "ok", result.text
    assert path.exists() and other.exists()
    assert sorted(os.listdir(workspace / "new")) == ["deep", "one.py"]


def test_a_command_in_the_background_works_on_the_workspace(session: Session, workspace: Path) -> None:
    command = opaque("open('job', 'w')")
    result = session.call("Bash", {"command": command, "background": True})
    job = session.services.command_host().jobs.get(result.data["job"])
    job.run.wait(60)
    assert (workspace / "job").exists()


def test_a_command_beside_a_job_runs_in_a_draft_and_sees_the_files_of_the_job(
    session: Session, workspace: Path
) -> None:
    wait = "import os, time; [time.sleep(0.05) for _ in iter(lambda: os.path.exists('{}'), True)]; open('{}', 'w')"
    job = session.call("Bash", {"command": opaque(wait.format("asked", "answered")), "background": True})
    (workspace / "asked").touch()
    result = session.call("Bash", {"command": opaque(wait.format("answered", "done")), "timeout": 300}, id="beside")
    assert result.data["kept"] is True and (workspace / "done").exists(), result.text
    session.services.command_host().jobs.get(job.data["job"]).run.wait(60)
    session.undo(call="beside")
    assert not (workspace / "done").exists() and (workspace / "answered").exists()


_WAIT = "import os, time; open('begun', 'w')\nwhile {}: time.sleep(0.02)\nopen('seen', 'w')"


@pytest.mark.parametrize(
    ("condition", "act"),
    [
        ("not os.path.exists('flag')", lambda root: (root / "flag").touch()),
        (
            "not os.path.exists('src/new/flag')",
            lambda root: shutil.copytree(root / "src" / "deep", root / "src" / "new"),
        ),
        ("os.path.lexists('a.txt')", lambda root: (root / "a.txt").unlink()),
        ("os.path.exists('src')", lambda root: shutil.rmtree(root / "src")),
        ("open('b.txt').read() != 'x'", lambda root: os.rename(root / "src" / "one.py", root / "b.txt")),
        ("os.readlink('link') == 'a.txt'", lambda root: os.rename(root / "other", root / "link")),
    ],
    ids=["created", "created in a directory", "deleted", "directory deleted", "replaced", "link replaced"],
)
def test_a_command_in_a_draft_sees_what_another_program_does_while_it_runs(
    session: Session, workspace: Path, condition: str, act: Callable[[Path], object]
) -> None:
    (workspace / "src" / "deep" / "flag").touch()
    (workspace / "src" / "one.py").write_text("x", encoding="utf-8")
    os.symlink("b.txt", workspace / "other")
    store = Path(session.services.command_host().drafts.create().directory.path).parent  # type: ignore[union-attr]

    def act_when_it_has_looked() -> None:
        while not any(path.name == "begun" for path in store.glob("*/upper/*")):
            time.sleep(0.01)
        act(workspace)

    other = threading.Thread(target=act_when_it_has_looked)
    other.start()
    result = session.call("Bash", {"command": opaque(_WAIT.format(condition)), "timeout": 300})
    other.join()
    assert result.ok and result.data["kept"], result.text
    assert (workspace / "seen").exists()


def test_a_command_that_timed_out_says_that_others_did_not_see_its_files(session: Session, workspace: Path) -> None:
    result = session.call("Bash", {"command": "echo > asked; exec sleep 99", "timeout": 1})
    assert ("only after the command ends" in result.text) is bool(result.data["changes"])
    assert (workspace / "asked").exists() is bool(result.data["changes"])


@pytest.mark.parametrize("code", ["open('a.txt', 'a').write('x')", "import os; os.chmod('a.txt', 0o600)"])
def test_other_names_of_a_changed_file_stay_as_they_are_and_the_answer_says_so(
    session: Session, workspace: Path, tmp_path: Path, code: str
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    os.link(workspace / "a.txt", store / "shared")
    before = describe(str(store), times=True)
    result = session.call("Bash", {"command": opaque(code)})
    assert [note.code for note in result.notes] == ["links_split"]
    assert "1 changed file had other names" in result.text and "a.txt" in result.text
    assert describe(str(store), times=True) == before
    session.undo()
    assert os.path.samefile(workspace / "a.txt", store / "shared")


def test_one_name_of_a_file_is_changed_and_another_goes_with_its_directory(session: Session, workspace: Path) -> None:
    os.link(workspace / "a.txt", workspace / "src" / "deep" / "a.txt")
    before = describe(str(workspace), times=True)
    code = "import shutil; open('a.txt', 'a').write('more'); shutil.rmtree('src')"
    assert session.call("Bash", {"command": opaque(code)}).data["kept"] is True
    assert not (workspace / "src").exists()
    session.undo()
    assert describe(str(workspace), times=True) == before


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
def test_a_new_repository_needs_no_answer(workspace: Path) -> None:
    asked: list[Question] = []
    with judged_session(workspace, "accept-edits", asked, Answer(False)) as session:
        for command in ("git init -q .", "git init -q inner"):
            result = session.call("Bash", {"command": command})
            assert result.data["kept"] and not result.data["exit_code"], result.text
            assert ".git (" in result.text and ".git/" not in result.text, "parts of a repository are counted"
        assert not asked


def test_drafts_can_be_switched_off(workspace: Path) -> None:
    with Session(workspace, settings=Settings(drafts=False)) as session:
        result = session.call("Bash", {"command": opaque("open('new', 'w')")})
        assert session.services.command_host().drafts.workspace == ""
    assert "changes" not in result.data
    assert (workspace / "new").exists()


def test_without_a_journal_changes_are_kept_and_no_draft_is_left(workspace: Path) -> None:
    with Session(workspace, journal=None) as session:
        assert session.call("Bash", {"command": opaque("open('new', 'w')")}).ok
        store = Path(session.services.command_host().drafts.create().directory.path).parent  # type: ignore[union-attr]
    assert (workspace / "new").exists()
    assert len([path for path in store.iterdir() if path.is_dir()]) == 1  # the one that this test has created


def judged_session(workspace: Path, mode: Mode, asked: list[Question], answer: Answer | None, **more: Any) -> Session:
    """A session whose person gives the same answer to each question; None: there is nobody to ask."""

    def approve(question: Question) -> Answer:
        asked.append(question)
        assert answer is not None
        return answer

    settings = Settings(durable=False)
    return Session(workspace, settings=settings, mode=mode, approve=approve if answer else None, **more)


CHANGE = opaque("import os; os.remove('b.txt'); open('a.txt', 'a').write('more\\n'); print('ran')")


@pytest.mark.parametrize("mode", ["read-only", "deny-asks"])
def test_where_nothing_may_change_a_command_runs_and_its_changes_are_dropped(workspace: Path, mode: Mode) -> None:
    before = describe(str(workspace), times=True)
    asked: list[Question] = []
    with judged_session(workspace, mode, asked, Answer(True)) as session:
        result = session.call("Bash", {"command": CHANGE})
        assert [note.code for note in result.notes] == ["changes_dropped"], result.text
        assert result.text.startswith("ran")
        assert "deleted b.txt (-2)" in result.text
        quiet = session.call("Bash", {"command": opaque("import os; os.utime('a.txt'); print('quiet')")})
        assert (quiet.status, quiet.text) == ("ok", "quiet")
        for command in ("sudo rm -rf /", "curl https://example.com"):
            assert session.call("Bash", {"command": command}).status == "denied"
    assert asked == []
    assert describe(str(workspace), times=True) == before


def test_a_command_that_nobody_has_allowed_sees_nothing_of_the_home_directory(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # /tmp is private to commands in every mode
        home = Path(folder)
        (home / "Documents").mkdir()
        (home / "Documents" / "letter").write_text("private", encoding="utf-8")
        monkeypatch.setenv("HOME", str(home))
        code = f"import os; print(os.path.exists('/'.join({f'{home}/Documents/letter'.split('/')})))"
        modes: dict[Mode, str] = {"read-only": "False", "ask": "False", "accept-edits": "False", "full": "True"}
        for mode, visible in modes.items():
            with judged_session(workspace, mode, [], None) as session:
                assert session.call("Bash", {"command": opaque(code)}).text == visible


def test_a_command_whose_words_tell_that_it_writes_is_denied_in_read_only(workspace: Path) -> None:
    with judged_session(workspace, "read-only", [], None) as session:
        assert session.call("Bash", {"command": "echo x > a.txt"}).status == "denied"


@pytest.mark.parametrize("yes", [True, False])
def test_in_ask_a_person_sees_the_changes_and_keeps_or_drops_them(workspace: Path, yes: bool) -> None:
    before = describe(str(workspace), times=True)
    asked: list[Question] = []
    with judged_session(workspace, "ask", asked, Answer(yes, "" if yes else "not today")) as session:
        result = session.call("Bash", {"command": CHANGE})
        (question,) = asked
        assert "+more" in question.preview()
        assert {file.path for file in question.files} == {"a.txt", "b.txt"}
        assert any(access.target == CHANGE for access in question.accesses)
        assert result.data["kept"] is yes
        assert (workspace / "b.txt").exists() is not yes
        if yes:
            session.undo()
        else:
            assert "the user refused: not today" in result.text
        session.call("Bash", {"command": opaque("print(open('a.txt').read())")})
        assert len(asked) == 1, "a command that changes nothing was asked about"
    assert describe(str(workspace), times=True) == before


def test_a_person_picks_files_and_hunks_and_undo_takes_back_exactly_these(workspace: Path) -> None:
    long = [f"line {number}\n" for number in range(40)]
    (workspace / "a.txt").write_text("".join(long), encoding="utf-8")
    before = describe(str(workspace), times=True)
    code = (
        "import os, shutil; shutil.rmtree('src'); os.remove('b.txt'); os.makedirs('new/deep'); "
        "open('new/deep/file', 'w').write('x'); open('kept', 'w').write('y'); "
        "t = open('a.txt').read(); open('a.txt', 'w').write('first\\n' + t + 'last\\n')"
    )
    hunks = {"a.txt": [1], "b.txt": [], "new/deep/file": [], "src/one.py": []}
    asked: list[Question] = []
    with judged_session(workspace, "ask", asked, Answer(True, hunks=hunks)) as session:
        result = session.call("Bash", {"command": opaque(code)})
        assert result.data["kept"], result.text
        assert "partly_approved" in [note.code for note in result.notes]
        assert (workspace / "a.txt").read_text(encoding="utf-8") == "".join(long) + "last\n"
        assert sorted(path.name for path in workspace.rglob("*")) == ["a.txt", "b.txt", "kept", "link", "one.py", "src"]
        report = session.undo()
        assert not (report.conflicts or report.missing)
    assert describe(str(workspace), times=True) == before


def test_a_person_who_picks_nothing_drops_the_changes(workspace: Path) -> None:
    before = describe(str(workspace), times=True)
    hunks: dict[str, list[int]] = {"a.txt": [], "b.txt": []}
    with judged_session(workspace, "ask", [], Answer(True, hunks=hunks)) as session:
        assert session.call("Bash", {"command": CHANGE}).data["kept"] is False
    assert describe(str(workspace), times=True) == before


def test_an_answer_cannot_rewrite_a_command_that_has_run(workspace: Path) -> None:
    before = describe(str(workspace), times=True)
    with judged_session(workspace, "ask", [], Answer(True, arguments={"command": "true"})) as session:
        result = session.call("Bash", {"command": CHANGE})
    assert result.error is not None
    assert describe(str(workspace), times=True) == before


def test_nobody_to_ask_means_that_changes_are_dropped(workspace: Path) -> None:
    with judged_session(workspace, "ask", [], None) as session:
        result = session.call("Bash", {"command": CHANGE})
    assert "need the user's approval" in result.text
    assert (workspace / "b.txt").exists()


def test_what_git_deletes_of_its_own_is_a_change_of_the_repository(workspace: Path) -> None:
    (workspace / ".git" / "refs").mkdir(parents=True)
    (workspace / ".git" / "AUTO_MERGE").touch()
    with judged_session(workspace, "accept-edits", [], None) as session:
        result = session.call("Bash", {"command": opaque("import os; os.remove('.git/AUTO' + '_MERGE')")})
    assert result.data["kept"], result.text
    assert not (workspace / ".git" / "AUTO_MERGE").exists()


def test_accept_edits_keeps_deletions_since_they_can_be_undone(workspace: Path) -> None:
    before = describe(str(workspace), times=True)
    asked: list[Question] = []
    with judged_session(workspace, "accept-edits", asked, Answer(False)) as session:
        assert session.call("Bash", {"command": "rm -rf src b.txt"}).ok
        assert not (workspace / "src").exists()
        session.undo()
    assert asked == []
    assert describe(str(workspace), times=True) == before


@pytest.mark.parametrize("name", [".env", "handrail.toml", ".github/workflows/ci.yml"])
@pytest.mark.parametrize("yes", [True, False])
def test_secrets_and_protected_files_are_asked_about_with_the_diff(workspace: Path, name: str, yes: bool) -> None:
    code = f"import os; n = '{name}'; os.makedirs(os.path.dirname(n) or '.', exist_ok=True); open(n, 'w').write('# x')"
    asked: list[Question] = []
    with judged_session(workspace, "accept-edits", asked, Answer(yes)) as session:
        result = session.call("Bash", {"command": opaque(code)})
    assert len(asked) == 1, result.text
    assert "+# x" in asked[0].preview()
    assert (workspace / name).exists() is yes
    if name == ".env":
        assert "# x" not in result.data["diff"], "the contents of a secret file"


def test_a_deny_rule_drops_the_changes_and_the_answer_names_it(workspace: Path) -> None:
    rules = [parse_rules('rules = ["deny Edit(src/**)"]', root=workspace)]
    with judged_session(workspace, "full", [], Answer(True), setup=Setup(rules=rules)) as session:
        result = session.call("Bash", {"command": opaque("open('s' + 'rc/new.py', 'w'); open('ok', 'w')")})
    assert "deny Edit(src/**)" in result.text
    assert not (workspace / "src" / "new.py").exists()
    assert not (workspace / "ok").exists()


def test_old_contents_that_cannot_be_left_for_an_undo_are_asked_about(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draft_changes, "MOST_RETAINED_BYTES", 1)
    asked: list[Question] = []
    with judged_session(workspace, "accept-edits", asked, Answer(False)) as session:
        assert session.call("Bash", {"command": opaque("open('new', 'w')")}).ok
        session.call("Bash", {"command": CHANGE})
    assert len(asked) == 1
    assert (workspace / "b.txt").exists()


def test_a_file_that_is_approved_for_the_session_is_not_asked_about_again(workspace: Path) -> None:
    asked: list[Question] = []
    with judged_session(workspace, "ask", asked, Answer(True, lasting="session")) as session:
        for _ in range(2):
            assert session.call("Bash", {"command": opaque("open('a.txt', 'a').write('x')")}).ok
    assert len(asked) == 1
    assert (workspace / "a.txt").read_text(encoding="utf-8").endswith("xx")


def test_where_no_draft_can_be_created_any_more_the_words_are_judged(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with judged_session(workspace, "ask", [], None) as session:
        assert session.services.command_host().drafts.workspace

        def fail(_: DraftStore) -> OpenDraft:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(DraftStore, "create", fail)
        result = session.call("Bash", {"command": CHANGE})
    assert result.status == "denied"
    assert (workspace / "b.txt").exists()


def _commands(rng: random.Random, number: int) -> str:
    """A command of a real kind."""
    git = "git -c user.name=a -c user.email=a@b"
    kinds = [
        f"echo {number} >> a.txt",
        f"sed -i s/second/line{number}/ b.txt",
        f"mkdir -p made/{number} && cp -r src made/{number}/copy",
        "mv src moved && mv moved src",
        "rm -rf made",
        opaque(
            f"import os; os.makedirs('build/{number}', exist_ok=True); "
            f"open('build/{number}/out', 'w').write('x' * 9000)"
        ),
        opaque("import os; [os.chmod(f, 0o600 + (os.stat(f).st_mode & 7) ^ 0o100) for f in ['a.txt']]"),
        opaque(
            "import sqlite3; db = sqlite3.connect('data.db'); db.execute('create table if not exists t (n)'); "
            f"db.execute('insert into t values ({number})'); db.commit()"
        ),
        f"ln -sfn target{number} current",
        f"tar cf archive.tar src && tar xf archive.tar -C build 2>/dev/null; rm -f archive.tar; echo {number} > after",
        "find . -name '*.py' -not -path './.git/*' | xargs sha1sum > sums",
    ]
    if shutil.which("git"):
        kinds += [
            f"{git} add -A . && {git} commit -qm c{number}",
            f"{git} checkout -q -B branch{number % 4}",
            f"{git} stash -q || true; {git} stash pop -q || true",
            f"{git} mv src sources && {git} commit -qam moved && {git} mv sources src && {git} commit -qam back",
            f"{git} gc -q",
            "git status --short > /dev/null",
        ]
    return rng.choice(kinds)


def test_every_command_is_taken_back_one_after_the_other(session: Session, workspace: Path) -> None:
    """Commands of real kinds, then as many undos: after each of them the tree is as it was, byte for byte."""
    session.set_mode("full")
    if shutil.which("git"):
        assert session.call("Bash", {"command": "git init -q"}).ok
    rng = random.Random(pick(1, 2))
    states = []
    for number in range(pick(25, 220)):
        state = describe(str(workspace), times=False)
        command = _commands(rng, number)
        result = session.call("Bash", {"command": command})
        assert result.status != "denied", (command, result.text)
        assert result.data.get("kept", True), f"{command}: {result.text}"
        if any(True for _ in result.data.get("changes", ())):
            states.append((state, command))
    while states:
        state, command = states.pop()
        report = session.undo()
        assert not (report.conflicts or report.missing or report.unknown), (command, report)
        assert describe(str(workspace), times=False) == state, command
