"""Sessions in named drafts, for programs: `Session(root, draft=...)` and `session.draft()`."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import Pipe
from pathlib import Path

import pytest

from handrail import (
    AllowAll,
    Answer,
    DraftConflict,
    Question,
    Session,
    SessionEvent,
    Settings,
    Setup,
    ToolFinished,
    ToolOutput,
)
from handrail.pipeline.draft_server import _serve_call
from tests.command import TIMEOUT, handrail
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe


@pytest.fixture
def project(tmp_path: Path) -> Path:
    require_drafts()
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "a.txt").write_text("one\n", encoding="utf-8")
    (project / "src" / "b.txt").write_text("two\n", encoding="utf-8")
    return project


@pytest.fixture
def session(project: Path) -> Iterator[Session]:
    with Session(project, mode="full", settings=Settings(durable=False)) as session:
        yield session


def test_all_tools_of_the_session_see_the_draft_and_undo_takes_back_what_was_kept(
    session: Session, project: Path
) -> None:
    before = describe(str(project), times=False)
    with session.draft() as draft:
        inner = draft.session
        assert inner.call("Read", {"file_path": "a.txt"}).ok
        edit = {"file_path": "a.txt", "old_string": "one", "new_string": "1"}
        assert inner.call("Edit", edit).status == "ok"
        assert inner.call("Bash", {"command": "cat a.txt; mv src lib; echo new > new.txt"}).text.startswith("1")
        assert "new.txt" in inner.call("LS", {"path": "."}).text
        assert "lib/b.txt" in inner.call("Grep", {"pattern": "two"}).text
        assert describe(str(project), times=False) == before
        assert inner.undo(dry_run=True).restored
        assert {one.path for one in draft.changes()} >= {"a.txt", "new.txt", "lib/b.txt", "src/b.txt"}
        assert "-one\n+1\n" in draft.diff()
        assert {one.path for one in draft.keep("a.txt", "new.txt")} == {"a.txt", "new.txt"}
        assert (project / "a.txt").read_text(encoding="utf-8") == "1\n"
        assert (project / "src" / "b.txt").exists()
        draft.keep()
        assert (project / "lib" / "b.txt").exists() and not (project / "src").exists()
        with pytest.raises(ValueError, match="kept or dropped"):
            draft.diff()
    for _ in range(2):
        report = session.undo()
        assert not (report.conflicts or report.missing)
    assert describe(str(project), times=False) == before


def test_a_draft_shows_what_another_program_does_in_the_workspace(session: Session, project: Path) -> None:
    with session.draft() as draft:
        inner = draft.session
        looks = [{"file_path": name} for name in ("new.txt", "src/b.txt", "a.txt")]
        assert [inner.call("Read", look).ok for look in looks] == [False, True, True]
        (project / "new.txt").touch()
        (project / "src" / "b.txt").unlink()
        (project / "other").write_text("other\n", encoding="utf-8")
        (project / "other").rename(project / "a.txt")
        grep = {"pattern": "o", "path": "a.txt", "output_mode": "content"}
        expected = [True, False, True], True
        end = time.monotonic() + TIMEOUT
        while (
            seen := ([inner.call("Read", look).ok for look in looks], "other" in inner.call("Grep", grep).text)
        ) != expected:
            assert time.monotonic() < end, seen
            time.sleep(0.05)
        assert not draft.changes()


def test_a_named_draft_stays_and_one_without_a_name_is_dropped(session: Session, project: Path) -> None:
    for name in ("mine", ""):
        with session.draft(name) as draft:
            assert draft.session.call("Write", {"file_path": "n.txt", "content": "x\n"}).ok
        assert not (project / "n.txt").exists()
        with session.draft(draft.name) as again:
            assert bool(again.changes()) is bool(name)
            again.drop()


def test_the_callbacks_of_the_program_are_called_from_the_draft(project: Path) -> None:
    asked: list[Question] = []
    events: list[SessionEvent] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(len(asked) > 1, "not yet")

    with Session(project, mode="ask", approve=approve, setup=Setup(on_event=events.append, draft="mine")) as session:
        write = {"file_path": "n.txt", "content": "x\n"}
        refused = session.call("Write", write, id="1")
        assert refused.status == "denied" and "not yet" in refused.text
        assert session.call("Write", write, id="2").ok
        assert "+x" in asked[0].preview()
        assert [event.result.id for event in events if isinstance(event, ToolFinished)] == ["1", "2"]
        session.set_mode("read-only")
        assert session.call("Write", {"file_path": "m.txt", "content": "x\n"}).status == "denied"
        assert len(asked) == 2
    assert not (project / "n.txt").exists()
    assert session.call("LS", {"path": "."}).error is not None
    with Session(project) as other:
        other.draft("mine").drop()


def test_a_server_in_a_draft_is_started_again_by_a_rebase(session: Session, project: Path) -> None:
    lines = [f"line {number}\n" for number in range(9)]
    config = project / "config"
    config.write_text("".join(lines), encoding="utf-8")
    with session.draft("way") as draft:
        inner = draft.session
        assert inner.call("Edit", {"file_path": "config", "old_string": "line 1\n", "new_string": "ours\n"}).ok
        assert inner.call("Bash", {"command": "sleep 0", "background": True}).ok
        serve = {"command": "cat ../config >> read; exec sleep 300", "workdir": "src", "background": True}
        assert inner.call("Bash", serve).ok
        _wait_for(lambda: inner.call("Bash", {"command": "tail -n1 src/read"}).text == "line 8")
        _wait_for(lambda: inner.list_background_calls() == [("Bash", serve)])

        lines[7] = "theirs\n"
        config.write_text("".join(lines), encoding="utf-8")
        assert draft.rebase() == ["config"]
        lines[1] = "ours\n"
        _wait_for(lambda: draft.session.call("Bash", {"command": "tail -n9 src/read"}).text == "".join(lines).rstrip())
        assert draft.session.list_background_calls() == [("Bash", serve)]

        lines[1] = "theirs\n"
        config.write_text("".join(lines), encoding="utf-8")
        with pytest.raises(DraftConflict):
            draft.rebase()
        assert draft.session.list_background_calls() == [("Bash", serve)]


def _wait_for(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_several_sessions_work_in_one_draft_and_see_what_the_others_do(session: Session, project: Path) -> None:
    with (
        Session(project, mode="full", setup=Setup(draft="ours")) as one,
        Session(project, mode="full", setup=Setup(draft="ours")) as other,
    ):
        assert one.call("Write", {"file_path": "n.txt", "content": "x\n"}).ok
        assert "x" in other.call("Read", {"file_path": "n.txt"}).text
        assert other.call("Bash", {"command": "cat n.txt; echo two >> n.txt"}).text.startswith("x")
        assert "two" in one.call("Bash", {"command": "cat n.txt"}).text
        with pytest.raises(BlockingIOError):
            session.draft("ours").changes()
    with Session(project, mode="full", setup=Setup(draft="ours")) as later, session.draft("ours") as draft:
        assert "two" in later.call("Bash", {"command": "cat n.txt"}).text
        assert "two" in draft.session.call("Bash", {"command": "cat n.txt"}).text
    assert not (project / "n.txt").exists()
    with session.draft("ours") as draft:
        draft.keep()
    assert (project / "n.txt").read_text(encoding="utf-8") == "x\ntwo\n"


def test_what_a_killed_session_leaves_in_a_draft_is_ended(project: Path, tmp_path: Path) -> None:
    """Nothing may change the layers of a draft that is being kept."""
    mark = tmp_path / "pid"
    words = ["draft", "run", "way", "--", "sh", "-c", f"sleep 600 & echo $! > {mark}; exit 3"]
    assert handrail("draft", "start", "way", cwd=project).returncode == 0
    assert handrail(*words, cwd=project).returncode == 3
    assert handrail("draft", "keep", "way", cwd=project).returncode == 0
    with contextlib.suppress(FileNotFoundError):
        status = Path(f"/proc/{mark.read_text(encoding='ascii').strip()}/stat").read_text(encoding="utf-8")
        assert ") Z " in status, "it still runs"


def test_directories_are_moved_and_deleted_in_a_draft(session: Session, project: Path) -> None:
    """The kernel refuses the rename of a directory of the lower layer."""
    with session.draft() as draft:
        inner = draft.session
        moved = inner.call("Move", {"source_path": "src", "target_path": "lib"})
        assert moved.ok, moved.text
        assert inner.call("Read", {"file_path": "lib/b.txt"}).ok
        assert not inner.undo().conflicts
        assert inner.call("Read", {"file_path": "src/b.txt"}).ok
        assert inner.call("Trash", {"path": "src"}).ok
        assert {str(one) for one in draft.changes()} == {"deleted src (directory deleted)", "deleted src/b.txt (-1)"}


def test_a_call_in_a_draft_can_be_cancelled(project: Path) -> None:
    cancel = threading.Event()
    with Session(project, policy=AllowAll(), setup=Setup(draft="mine")) as session:

        def stop(event: SessionEvent) -> None:
            if isinstance(event, ToolOutput):
                cancel.set()

        result = session.call("Bash", {"command": "echo begun; sleep 600"}, cancel=cancel, on_event=stop)
        assert result.data["cancelled"] is True


def test_a_conflict_is_raised_and_nothing_is_kept(session: Session, project: Path) -> None:
    with session.draft() as draft:
        draft.session.call("Bash", {"command": "echo draft > a.txt"})
        draft.close()
        (project / "a.txt").write_text("foreign\n", encoding="utf-8")
        with pytest.raises(DraftConflict, match=r"a\.txt"):
            draft.keep()
        assert (project / "a.txt").read_text(encoding="utf-8") == "foreign\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"setup": Setup(draft="a/b")}, "a name has letters"),
        ({"setup": Setup(draft=1)}, "draft must be"),  # type: ignore[arg-type]
        ({"setup": Setup(draft="a"), "tools": [print]}, "takes no tools"),
    ],
)
def test_options_that_cannot_go_together_are_refused(project: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Session(project, **options)  # type: ignore[arg-type]


def test_a_connection_stays_open_until_the_other_side_has_closed_it(session: Session) -> None:
    """Closed earlier, its number could go to the connection of another call, whose bytes would be taken."""
    ours, theirs = Pipe()
    thread = threading.Thread(target=_serve_call, args=(session, theirs), daemon=True)
    with ours:
        thread.start()
        ours.send(("call", ("Read", {"file_path": "a.txt"}, "1")))
        while (message := ours.recv())[0] != "result":
            pass
        assert message[1].ok
        thread.join(0.2)
        assert thread.is_alive() and not theirs.closed
    thread.join(TIMEOUT)
    assert theirs.closed


def test_a_command_in_a_draft_does_not_see_the_drafts(session: Session) -> None:
    """They are read-only for everything in the view, and hidden from commands."""
    with session.draft() as draft:
        place = os.path.dirname(draft._store.list_named()[0].path)
        for command in (f"ls -A {place}", f"touch {place}/x", f"d={place}; ls -A $d; touch $d/x"):
            assert draft.session.call("Bash", {"command": command}).data.get("exit_code") != 0, command
    assert not os.path.exists(os.path.join(place, "x"))
