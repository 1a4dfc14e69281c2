"""Checks: commands that run in the background after an edit, and whose new problems come with a later result."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session, Settings, Setup, parse_rules
from handrail.pipeline.checks import find_new, find_problems
from handrail.policy.files import trust

GREP = "grep -nH BAD {files}"
"""A check that needs nothing: each line with BAD is a problem."""


def open_session(root: Path, command: str = GREP, glob: str = "*.txt", **options: Any) -> Session:
    rules = [parse_rules(f"[checks]\n'{glob}' = '''{command}'''\n")]
    return Session(root, journal=None, setup=Setup(rules=rules), **options)


def write(session: Session, name: str, content: str) -> Result:
    session.call("Read", {"file_path": name})
    result = session.call("Write", {"file_path": name, "content": content})
    assert result.ok, result.text
    return result


def wait_for_report(session: Session) -> str:
    """The report below the next result that has one; the call itself is answered as ever."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        result = session.call("LS", {"path": "."})
        assert result.status == "ok" and not result.notes
        if len(result.blocks) > 1:
            assert result.full_text == f"{result.text}\n\n{result.blocks[-1]['text']}"
            return str(result.blocks[-1]["text"])
        time.sleep(0.05)
    raise AssertionError("no report came")


def require_drafts(session: Session) -> None:
    if not session.services.command_host().drafts.workspace:
        pytest.skip(f"no drafts here: {session.services.command_host().drafts.why_none}")


def test_only_new_problems_of_edited_files_are_reported_and_each_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BAD old\nfine\n", encoding="utf-8")
    (tmp_path / "other.txt").write_text("BAD other\n", encoding="utf-8")
    with open_session(tmp_path, "grep -rnH BAD .") as session:
        require_drafts(session)
        assert len(write(session, "a.txt", "one more line\nBAD old\nBAD new\n").blocks) == 1
        assert wait_for_report(session) == "New problems by `grep -rnH BAD .`:\n./a.txt:3:BAD new"
        write(session, "a.txt", "BAD old\nBAD new\nBAD newer\n")
        assert wait_for_report(session) == "New problems by `grep -rnH BAD .`:\n./a.txt:3:BAD newer"


def test_a_problem_that_was_repaired_is_reported_when_it_comes_back(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        for content in ("BAD\n", "fine\n", "BAD\n"):
            write(session, "a.txt", content)
            checks = session.services.checks
            while checks is not None and checks._thread:  # the report of this very content
                time.sleep(0.02)
            blocks = session.call("LS", {"path": "."}).blocks[1:]
            assert ("BAD" in str(blocks)) == (content == "BAD\n")


def test_without_a_draft_the_first_report_says_that_problems_may_be_older(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BAD old\n", encoding="utf-8")
    with open_session(tmp_path, settings=Settings(drafts=False)) as session:
        write(session, "a.txt", "BAD old\nBAD new\n")
        report = wait_for_report(session)
        assert "(some may be older: there was nothing to compare with)" in report and "a.txt:2:BAD new" in report
        write(session, "a.txt", "BAD old\nBAD new\nBAD newer\n")
        assert wait_for_report(session).splitlines()[1:] == ["a.txt:3:BAD newer"]


def test_a_report_has_at_most_ten_lines(tmp_path: Path) -> None:
    with open_session(tmp_path) as session:
        write(session, "a.txt", "".join(f"BAD {number} {'x' * 1000}\n" for number in range(30)))
        rows = wait_for_report(session).split("\n")
    assert len(rows) == 10 and rows[-1] == "... and 22 more; run the check to see them all"
    assert max(map(len, rows)) <= 300


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-checker {files}", "it could not be run: "),
        ("yes BAD", "it printed too much"),
    ],
)
def test_a_check_that_cannot_be_run_is_reported_once(tmp_path: Path, command: str, why: str) -> None:
    with open_session(tmp_path, command) as session:
        write(session, "a.txt", "one\n")
        assert why in wait_for_report(session)
        write(session, "a.txt", "two\n")
        while session.services.checks is not None and session.services.checks._thread:
            time.sleep(0.02)
        assert len(session.call("LS", {"path": "."}).blocks) == 1


def test_a_denied_command_is_no_check(tmp_path: Path) -> None:
    rules = [parse_rules(f"rules = ['deny Bash(grep *)']\n[checks]\n'*.txt' = '{GREP}'\n")]
    with Session(tmp_path, journal=None, setup=Setup(rules=rules)) as session:
        write(session, "a.txt", "BAD\n")
        assert "it was not run: " in wait_for_report(session)


def test_other_files_are_not_checked_and_no_call_waits(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with open_session(tmp_path, f"cat {fifo}", settings=Settings(sandbox="off", drafts=False)) as session:
        write(session, "a.md", "BAD\n")
        assert session.services.checks is not None and session.services.checks._thread is None
        write(session, "a.txt", "BAD\n")
        assert session.services.checks._thread is not None  # waits for the pipe, and this call does not
        assert session.call("LS", {"path": "."}).status == "ok"
    # The end of the session ends the check.


def test_a_check_changes_nothing_in_the_workspace_where_drafts_are_possible(tmp_path: Path) -> None:
    with open_session(tmp_path, "touch left; grep -nH BAD {files}") as session:
        require_drafts(session)
        write(session, "a.txt", "BAD\n")
        wait_for_report(session)
    assert not (tmp_path / "left").exists()


def test_a_change_by_a_command_is_checked_too(tmp_path: Path) -> None:
    with open_session(tmp_path, mode="full") as session:
        require_drafts(session)
        write(session, "a.txt", "BAD one\n")
        wait_for_report(session)
        assert session.call("Bash", {"command": "echo BAD two >> a.txt"}).ok
        assert wait_for_report(session).splitlines()[1:] == ["a.txt:2:BAD two"]


def test_checks_of_a_project_run_once_it_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, state = tmp_path / "project", tmp_path / "state"
    root.mkdir()
    monkeypatch.setenv("HANDRAIL_STATE", str(state))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (root / "handrail.toml").write_text(f"[checks]\n'*.txt' = '{GREP}'\n", encoding="utf-8")
    with Session(root, journal=None) as session:
        write(session, "a.txt", "BAD\n")
        assert session.services.checks is None
        file = next(file for file in session.services.rules if file.origin == "project")
    trust(str(root), str(state), file.sha256)
    with Session(root, journal=None) as session:
        write(session, "b.txt", "BAD\n")
        assert "b.txt:1:BAD" in wait_for_report(session)


def test_ruff_reports_what_an_edit_has_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = os.path.dirname(sys.executable)
    if not shutil.which("ruff", path=programs):
        pytest.skip("ruff is not installed beside Python")
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (tmp_path / "a.py").write_text("import os\nprint(1)\n", encoding="utf-8")
    command = "ruff check --isolated --no-cache --output-format concise {files}"
    with open_session(tmp_path, command, "*.py") as session:
        require_drafts(session)
        session.call("Read", {"file_path": "a.py"})
        edit = {"file_path": "a.py", "old_string": "print(1)", "new_string": "import sys\nprint(undefined_name)"}
        assert session.call("Edit", edit).status == "ok"
        report = wait_for_report(session)
    assert "`sys` imported but unused" in report and "undefined_name" in report and "`os`" not in report


FORMS: Mapping[str, str] = {
    "ruff": "{file}:{line}:8: F401 `os` imported but unused",
    "tsc": "{file}({line},5): error TS2304: Cannot find name 'x'.",
    "go vet": "vet: ./{file}:{line}:2: undefined: x",
    "mypy": "{file}:{line}: error: Name is not defined, see line {line}  [name-defined]",
    "absolute": "/srv/project/{file}:{line}:1 - no-undef",
    "colours": "\x1b[1m{file}\x1b[0m:{line}:1: bad",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize("file", ["a.py", "src/deep/a b.ts", "-x.go", "日本.py"])
def test_a_problem_is_the_same_at_another_position(form: str, file: str) -> None:
    old, new = (form.format(file=file, line=line) for line in (3, 1400))
    other = form.format(file=f"{file}x", line=3) + "\n" + form.format(file=f"z/{file}", line=3)
    before = find_problems(f"{old}\n{other}\n", "/srv/project", [file])[file]
    after = find_problems(f"{new}\n{new}\n", "/srv/project", [file])[file]
    assert len(before) == 1 and len(after) == 2
    assert len(find_new(after, Counter(problem.key for problem in before))) == 1
