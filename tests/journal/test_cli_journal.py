"""`handrail log`, `show`, `stats` and `undo`, as the real command."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail.journal.store import SqliteJournal, get_default_path
from tests.command import HANDRAIL, handrail, in_terminal, surroundings
from tests.journal.lines import find_logs
from tests.journal.wired import Wired, tree


@pytest.fixture
def session(project: Path) -> Wired:
    """Three calls in the user's own journal: a write, a refusal, an edit."""
    journal = SqliteJournal(get_default_path(os.environ["HANDRAIL_STATE"]))
    (project / "a.txt").write_text("one\n", encoding="utf-8")
    with Wired(project, journal, "sess1234") as result:
        result.call("Write", {"file_path": "new.txt", "content": "new\n"})
        result.call("Read", {"file_path": "../outside"})
        result.call("Read", {"file_path": "a.txt"})
        result.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "two"}, id="toolu_9")
    journal.close()
    return result


def run_verb(*words: str, cwd: Path, code: int = 0) -> str:
    run = handrail(*words, cwd=cwd)
    assert run.returncode == code, run.stderr.decode("utf-8")
    return run.stdout.decode("utf-8")


def test_the_log_has_one_line_a_call_and_the_newest_last(session: Wired, project: Path) -> None:
    rows = run_verb("log", cwd=project).splitlines()
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4"]
    assert "denied outside_workspace" in rows[1]
    assert "write a.txt" in rows[3]
    assert run_verb("log", "--limit", "1", cwd=project).splitlines() == rows[3:]
    assert run_verb("log", "--session", "other", cwd=project) == ""


def test_the_log_as_json_has_all_that_is_known(session: Wired, project: Path) -> None:
    rows = [json.loads(line) for line in run_verb("log", "--json", "--limit", "0", cwd=project).splitlines()]
    assert [row["tool"] for row in rows] == ["Write", "Read", "Read", "Edit"]
    assert rows[3]["files"][0]["path"] == str(project / "a.txt")
    assert rows[1]["error"] == "outside_workspace"


def test_show_has_arguments_verdict_files_diff_and_answer(session: Wired, project: Path) -> None:
    text = run_verb("show", "4", cwd=project)
    assert text == run_verb("show", "toolu_9", cwd=project)
    for part in ("Edit", '"old_string": "one"', "allow by AllowAll", "-one\n+two\n", "0644", "answer"):
        assert part in text
    shown = json.loads(run_verb("show", "4", "--json", cwd=project))
    assert (shown["seq"], shown["accesses"][0][:2]) == (4, ["write", "a.txt"])
    assert "unknown call 99" in handrail("show", "99", cwd=project).stderr.decode("utf-8")


def test_stats_count_per_tool_and_code(session: Wired, project: Path) -> None:
    text = run_verb("stats", cwd=project)
    assert "outside_workspace" in text
    figures = json.loads(run_verb("stats", "--json", cwd=project))
    read = next(one for one in figures["tools"] if one["tool"] == "Read")
    assert (read["calls"], read["refusals"]) == (2, 1)
    assert figures["images"]["count"] == 1


def test_undo_goes_back_step_by_step(session: Wired, project: Path) -> None:
    after = tree(project)
    assert "would be reverted" in run_verb("undo", "--dry-run", cwd=project)
    assert tree(project) == after
    assert "reverted" in run_verb("undo", cwd=project)
    assert (project / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert "deleted" in run_verb("undo", cwd=project)
    assert os.listdir(project) == ["a.txt"]
    assert "nothing to undo" in handrail("undo", cwd=project).stderr.decode("utf-8")
    assert "Undo" in run_verb("log", "--limit", "1", cwd=project)
    run_verb("undo", "--since", "5", cwd=project)
    assert tree(project) == after


def test_undo_names_what_it_leaves_alone(session: Wired, project: Path) -> None:
    (project / "a.txt").write_text("mine\n", encoding="utf-8")
    text = run_verb("undo", "--session", "sess1234", "--json", cwd=project, code=1)
    report = json.loads(text)
    assert [one["path"] for one in report["conflicts"]] == [str(project / "a.txt")]
    assert [one["how"] for one in report["restored"]] == ["deleted"]
    assert (project / "a.txt").read_text(encoding="utf-8") == "mine\n"


def test_undo_of_two_kinds_at_once_is_wrong_usage(session: Wired, project: Path) -> None:
    assert handrail("undo", "4", "--session", "x", cwd=project).returncode == 2
    assert handrail("undo", "77", cwd=project).returncode == 2


def test_verify_says_whole_or_names_the_row(session: Wired, project: Path) -> None:
    assert "whole" in run_verb("log", "verify", cwd=project)
    (log,) = find_logs(get_default_path(os.environ["HANDRAIL_STATE"]))
    log.write_bytes(log.read_bytes().replace(b'"denied"', b'"failed"'))
    assert "call 2: the row was changed" in run_verb("log", "verify", cwd=project, code=1)
    assert json.loads(run_verb("log", "verify", "--json", cwd=project, code=1))["seq"] == 2


def test_without_a_journal_each_verb_says_so(project: Path) -> None:
    for words in (["log"], ["log", "verify"], ["show", "1"], ["stats"], ["undo"]):
        run = handrail(*words, cwd=project)
        assert (run.returncode, run.stdout) == (1, b"")
        assert b"there is no journal yet" in run.stderr


def test_a_given_journal_is_used(wired: Callable[..., Wired], journal: SqliteJournal, project: Path) -> None:
    wired().call("Read", {"file_path": "x"})
    assert len(run_verb("log", "--journal", journal.path, cwd=project).splitlines()) == 1


def test_log_and_stats_are_about_this_project_unless_all_is_asked_for(project: Path, tmp_path: Path) -> None:
    """A project is a directory with those above and below it; a name that only begins alike is another one."""
    journal = SqliteJournal(get_default_path(os.environ["HANDRAIL_STATE"]))
    places = [project, project / "below", project.with_name(project.name + "-other"), tmp_path / "elsewhere"]
    for place in places:
        place.mkdir(exist_ok=True)
        with Wired(place, journal) as result:
            result.call("Write", {"file_path": place.name, "content": "x"})
    journal.close()
    names = [place.name for place in places]

    def listed(*words: str, cwd: Path = project) -> list[str]:
        rows = [json.loads(line) for line in run_verb("log", "--json", *words, cwd=cwd).splitlines()]
        return [row["arguments"]["file_path"] for row in rows]

    assert listed() == names[:2]
    assert listed(cwd=places[1]) == names[:2]
    assert listed(cwd=places[2]) == [names[2]]
    assert listed("-w", str(places[3])) == [names[3]]
    assert listed("--all") == names
    every, own = (json.loads(run_verb("stats", "--json", *words, cwd=project)) for words in (["--all"], []))
    assert (own["tools"][0]["calls"], every["tools"][0]["calls"]) == (2, 4)
    empty = handrail("log", "-w", "/usr", cwd=project)
    assert (empty.stdout, empty.returncode) == (b"", 0) and b"--all shows" in empty.stderr


def test_follow_shows_calls_as_they_end(session: Wired, project: Path) -> None:
    command = [*HANDRAIL, "log", "--follow", "--limit", "1", "--json"]
    with subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, env=surroundings()) as process:
        assert process.stdout
        try:
            assert json.loads(process.stdout.readline())["seq"] == 4
            journal = SqliteJournal(session.kept.path)
            with Wired(project, journal, "later") as other:
                other.call("Write", {"file_path": "c", "content": "x"})
                other.call("Read", {"file_path": "c"})
            journal.close()
            assert [json.loads(process.stdout.readline())["tool"] for _ in range(2)] == ["Write", "Read"]
        finally:
            process.terminate()


def test_on_a_terminal_there_are_colours_and_no_raw_controls(project: Path) -> None:
    journal = SqliteJournal(get_default_path(os.environ["HANDRAIL_STATE"]))
    with Wired(project, journal) as result:
        result.call("Write", {"file_path": "a", "content": "\x1b[2Jx\n"})
        result.call("Read", {"file_path": "a\x1b[2J"})
    journal.close()
    for words in (("log",), ("show", "1"), ("show", "2"), ("stats",), ("log", "verify"), ("undo", "--dry-run")):
        code, text = in_terminal(*words, cwd=project)
        assert code == 0
        assert "\x1b[2J" not in text
        assert "\x1b[" in text
