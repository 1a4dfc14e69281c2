"""Script: tools as functions over one draft, judged once at the end, and nothing beside them."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.journal.postgres_reader import open_reader
from handrail.journal.queries import list_children
from handrail.journal.store import SqliteJournal
from handrail.model import Question, Result

Make = Callable[..., Session]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "w"
    root.mkdir()
    for name in ("a", "b", "c"):
        (root / f"{name}.py").write_text(f"# TODO {name}\nvalue = 1\n", encoding="utf-8")
    return root


@pytest.fixture
def open_session(make_session: Make, root: Path, tmp_path: Path) -> Make:
    def make(**options: object) -> Session:
        given = {
            "journal": "auto",
            "state": str(tmp_path / "state"),
            "durable": False,
            "mode": "accept-edits",
            **options,
        }
        session = make_session(root, **given)
        if not session.services.command_host().drafts.workspace:
            pytest.skip("no drafts here, and so no scripts")
        return session

    return make


def list_processes() -> set[int]:
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for one in lists for pid in one.read_text(encoding="ascii").split()}


def _script(session: Session, code: str) -> Result:
    return session.call("Script", {"code": code})


def test_calls_see_what_earlier_calls_wrote_and_only_prints_come_back(open_session: Make, root: Path) -> None:
    result = _script(
        open_session(),
        'for path in sorted(glob("*.py").data["paths"]):\n'
        "    read(path)\n"
        '    edit(path, "TODO", "DONE")\n'
        'print(grep("DONE", output_mode="count").data["counts"])\n',
    )
    assert result.ok and "'count': 1" in result.text and "value = 1" not in result.text, result.text
    assert [one["tool"] for one in result.data["calls"]] == ["Glob", *["Read", "Edit"] * 3, "Grep"]
    assert all("DONE" in (root / f"{name}.py").read_text(encoding="utf-8") for name in "abc")


def test_one_undo_takes_back_the_whole(open_session: Make, root: Path) -> None:
    session = open_session()
    state = Path(session.settings.state or "") / "journal"
    before = {path.name: path.read_bytes() for path in root.iterdir()}
    assert _script(session, 'write("new.txt", "x\\n")\ntrash("a.py")\nbash("sed -i s/value/other/ b.py")').ok
    assert sorted(path.name for path in root.iterdir()) == ["b.py", "c.py", "new.txt"]
    assert not list(state.glob("draft-*"))  # its calls are recorded beside it
    assert session.call("Undo", {}).ok
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


def test_each_call_is_a_record_below_that_of_the_script(open_session: Make, root: Path) -> None:
    session = open_session()
    code = 'write("new.txt", "x\\n")\ntry:\n    read("/etc/passwd")\nexcept CallFailed:\n    print(grep("TODO"))'
    assert _script(session, code).ok
    assert isinstance(session.journal, SqliteJournal)
    with open_reader(session.journal.path) as reader:
        script, *calls = reader.iterate_calls(session=session.origin.session)
        assert list_children(reader, script) == calls and not script.in_script
        assert [one.tool for one in calls] == ["Write", "Read", "Grep"] and all(one.in_script for one in calls)
        assert [one.status for one in calls] == ["ok", "denied", "ok"] and "+x" in (calls[0].diff or "")
        assert [file.path for file in reader.read_files(script.seq)] == [str(root / "new.txt")]
        assert not any(reader.read_files(one.seq) for one in calls)  # the changes are those of the script
        assert reader.verify() is None


def test_a_script_that_cannot_start_leaves_no_process(open_session: Make) -> None:
    """Descriptors run out at one point after the other: an error, and nothing that goes on running."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    session = open_session()
    assert _script(session, "print(1)").ok  # opens what stays open
    before, free = len(list_processes()), os.dup(0)
    os.close(free)
    for room in (20, 14, 11, 8, 6):
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + room, limits[1]))
        try:
            assert not _script(session, "print(1)").ok
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(list_processes()) <= before


@pytest.mark.parametrize("missing", ["saver", "draft"])
def test_what_fails_before_a_script_starts_leaves_no_process(
    missing: str, open_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = open_session()
    assert _script(session, "print(1)").ok  # opens what stays open
    drafts, before = session.services.command_host().drafts, list_processes()
    left = [drafts.create]  # the changes of the script get the first draft, and the program the second

    def fail(_: object) -> None:
        raise OSError(errno.EAGAIN, "no thread can be started")

    if missing == "draft":
        monkeypatch.setattr(drafts, "create", lambda: left.pop()() if left else None)
    else:
        monkeypatch.setattr("handrail.pipeline.draft_process.BaseSaver", fail)
    assert not _script(session, "print(1)").ok
    assert list_processes() <= before
    monkeypatch.undo()
    assert _script(session, "print(1)").ok


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("mode", ["ask", "accept-edits"])
def test_a_person_is_asked_once_at_the_end_about_the_whole_diff(
    open_session: Make, root: Path, mode: str, yes: bool
) -> None:
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.preview())
        return yes

    code = 'write("one.txt", "1\\n")\nwrite(".github/workflows/ci.yml", "2\\n")\nprint(read("one.txt"))'
    result = _script(open_session(mode=mode, approve=approve), code)
    assert len(asked) == 1 and "ci.yml" in asked[0] and ("one.txt" in asked[0] or mode == "accept-edits")
    assert (root / "one.txt").exists() is yes and (root / ".github" / "workflows" / "ci.yml").exists() is yes
    assert "1\t1" in result.text and result.data["kept"] is yes


def test_looks_alone_are_never_asked_about(open_session: Make) -> None:
    asked: list[Question] = []
    session = open_session(mode="ask", approve=lambda question: bool(asked.append(question)))
    assert "a.py" in _script(session, 'print(grep("TODO"))').text and not asked


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ('read("/etc/passwd")', "outside"),
        ('read("../secret.txt")', "outside"),
        ('read(".env")', "secret"),
        ('write(".env", "x")', "secret"),
        ('bash("cat ../secret.txt")', "secret"),
        ('bash("cat .env")', ""),
        ('bash("curl -m 3 http://192.0.2.1/")', "a script asks nobody"),
        ('script("print(1)")', "not defined"),
        ("undo()", "not defined"),
    ],
)
def test_what_a_call_is_refused_a_script_is_refused(
    open_session: Make, root: Path, tmp_path: Path, call: str, why: str
) -> None:
    (tmp_path / "secret.txt").write_text("outer-secret-value\n", encoding="utf-8")
    (root / ".env").write_text("inner-secret-value\n", encoding="utf-8")
    result = _script(
        open_session(), f"try:\n    print({call})\nexcept Exception as error:\n    print('refused:', error)"
    )
    assert "refused:" in result.text and why in result.text, result.text
    assert "secret-value" not in result.text and "the user refused" not in result.text


def test_the_program_itself_has_no_network_and_its_own_writes_are_dropped(open_session: Make, root: Path) -> None:
    code = (
        "import socket\n"
        'open("direct.txt", "w").write("x")\n'
        'open("a.py", "w").write("gone")\n'
        "try:\n"
        '    socket.create_connection(("192.0.2.1", 80), 2)\n'
        "except OSError as error:\n"
        '    print("no network:", error)\n'
    )
    result = _script(open_session(), code)
    assert "no network" in result.text, result.text
    assert not (root / "direct.txt").exists() and "TODO" in (root / "a.py").read_text(encoding="utf-8")


def test_a_program_that_fails_says_where_and_a_read_only_session_keeps_nothing(open_session: Make, root: Path) -> None:
    failed = _script(open_session(), "print('before')\n1 / 0")
    assert "before" in failed.text and "ZeroDivisionError" in failed.text and "exit code 1" in failed.text
    refused = _script(open_session(mode="read-only"), 'write("x.txt", "x")')
    assert "would be changed" in refused.text and not (root / "x.txt").exists()


def test_without_drafts_there_is_no_script(make_session: Make, root: Path) -> None:
    result = make_session(root, drafts=False, mode="full", durable=False).call("Script", {"code": "print(1)"})
    assert result.error and result.error.code == "no_sandbox"
