"""Approval, read as an attacker: a yes is for what was shown, where it was shown, and for nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Question, Session, Settings, Setup
from handrail.model import Access, Answer, CommandAccess, Verdict
from handrail.policy.files import PolicyError, load, remember
from handrail.text.display import escape
from tests.approval.asked import TWO, edit
from tests.command import TIMEOUT

# What was shown.


def test_what_the_person_sees_is_what_the_answer_binds_to(opened: Callable[..., Session], project: Path) -> None:
    """A file that is another one only while it is looked at does not get a yes for what it was before."""
    first = (project / "a.txt").read_text(encoding="utf-8")
    seen: list[str] = []

    def approve(question: Question) -> bool:
        (project / "a.txt").write_text(first.replace("line 2\n", "harmless\n"), encoding="utf-8")
        seen.append(question.preview() + repr(question.files))
        (project / "a.txt").write_text(first, encoding="utf-8")
        return True

    with opened(approve) as session:
        edit(session, TWO[0])
    assert not any("harmless" in text for text in seen)


def test_a_link_that_is_turned_while_the_person_thinks_is_asked_about_again(
    opened: Callable[..., Session], project: Path
) -> None:
    (project / ".env").write_text("KEY=1\n", encoding="utf-8")
    (project / "in.txt").symlink_to("a.txt")
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.preview())
        (project / "in.txt").unlink()
        (project / "in.txt").symlink_to(".env")
        return True

    with opened(approve) as session:
        result = session.call("Bash", {"command": "cp in.txt out.txt"})
    assert result.status == "denied" and len(asked) == 1
    assert not (project / "out.txt").exists()


def test_a_pattern_that_comes_to_a_secret_while_the_person_thinks_is_refused(
    opened: Callable[..., Session], project: Path
) -> None:
    def approve(_: Question) -> bool:
        (project / "b.key").write_text("secret\n", encoding="utf-8")
        return True

    with opened(approve) as session:
        assert session.call("Bash", {"command": "cat *.key *.txt > out"}).status == "denied"


def test_a_directory_that_becomes_a_link_between_preview_and_commit_is_not_followed(
    opened: Callable[..., Session], project: Path
) -> None:
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "f").write_text("same\n", encoding="utf-8")

    def approve(_: Question) -> bool:
        if not (project / "one").is_symlink():
            (project / "one").rename(project / "was")
            (project / "one").symlink_to("two")
        return True

    asked: list[str] = []

    def counted(question: Question) -> bool:
        asked.append(question.accesses[0].path)
        return approve(question)

    with opened(counted) as session:
        session.call("Read", {"file_path": "one/f"})
        session.call("Edit", {"file_path": "one/f", "old_string": "same", "new_string": "other"})
    # Whatever came of it, nothing was changed that the person had not been asked about by its real place.
    if (project / "two/f").read_text(encoding="utf-8") != "same\n":
        assert str(project / "two/f") in asked


def test_a_mode_that_becomes_stricter_while_the_person_thinks_holds(
    opened: Callable[..., Session], project: Path
) -> None:
    before = (project / "a.txt").read_bytes()
    sessions: list[Session] = []

    def approve(_: Question) -> bool:
        sessions[0].set_mode("read-only")
        return True

    with opened(approve) as session:
        sessions.append(session)
        assert edit(session, TWO[0]).status == "denied"
    assert (project / "a.txt").read_bytes() == before


def test_hunks_that_were_not_wanted_stay_unwanted_when_the_file_changes_meanwhile(
    opened: Callable[..., Session], project: Path
) -> None:
    asked: list[int] = []

    def approve(_: Question) -> Answer:
        asked.append(1)
        if len(asked) == 1:
            text = (project / "a.txt").read_text(encoding="utf-8")
            (project / "a.txt").write_text(text.replace("line 9\n", "nine\n"), encoding="utf-8")
        return Answer(True, lasting="session", hunks={"a.txt": [1]})

    with opened(approve) as session:
        assert edit(session, *TWO).ok
    text = (project / "a.txt").read_text(encoding="utf-8")
    assert "THREE" not in text and "THIRTY" in text and len(asked) == 2


@pytest.mark.parametrize(
    "answer",
    [
        Answer(True, hunks={"./a.txt": []}),
        Answer(True, hunks={"b.txt": [0]}),
        Answer(True, contents={"./a.txt": "mine\n"}),
    ],
    ids=str,
)
def test_a_choice_about_something_that_was_not_shown_changes_nothing(
    opened: Callable[..., Session], project: Path, answer: Answer
) -> None:
    before = (project / "a.txt").read_bytes()
    with opened(lambda _: answer, bugs=False) as session:
        result = edit(session, *TWO)
    assert result.status == "error" and (project / "a.txt").read_bytes() == before


def test_no_hunk_of_a_new_file_does_not_make_an_empty_one(opened: Callable[..., Session], project: Path) -> None:
    with opened(lambda _: Answer(True, hunks={"new.txt": []}), bugs=False) as session:
        result = session.call("Write", {"file_path": "new.txt", "content": "x\n"})
    assert not result.ok and not (project / "new.txt").exists()


def test_a_move_and_a_removal_are_asked_again_if_what_is_in_the_directory_changes(
    opened: Callable[..., Session], project: Path
) -> None:
    for tool, arguments in (("Move", {"source_path": "d", "target_path": "e"}), ("Trash", {"path": "e"})):
        name = arguments.get("source_path", "e")
        (project / name).mkdir(exist_ok=True)
        asked: list[str] = []

        def approve(question: Question, name: str = name, asked: list[str] = asked) -> bool:
            asked.append(question.preview())
            (project / name / "late.txt").write_text("late\n", encoding="utf-8")
            return True

        from handrail.journal.store import SqliteJournal

        with opened(approve, journal=SqliteJournal(str(project.parent / f"{tool}.db"))) as session:
            assert session.call(tool, arguments).ok
        assert len(asked) == 2 and "late.txt" not in asked[0] and "late.txt" in asked[1], tool
        (project / "e/late.txt").unlink(missing_ok=True)


def test_two_calls_at_once_each_get_their_own_answer(opened: Callable[..., Session], project: Path) -> None:
    both = threading.Barrier(2, timeout=TIMEOUT)

    def approve(question: Question) -> bool:
        both.wait()
        return question.accesses[0].target == "good.txt"

    with opened(approve) as session:
        results: dict[str, Any] = {}

        def call(name: str) -> None:
            results[name] = session.call("Write", {"file_path": name, "content": name})

        threads = [threading.Thread(target=call, args=(name,)) for name in ("good.txt", "bad.txt")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results["good.txt"].ok and results["bad.txt"].status == "denied"
    assert not (project / "bad.txt").exists()


# What lasts.


def test_what_a_person_has_rewritten_is_remembered_and_not_what_the_model_wanted(
    opened: Callable[..., Session], project: Path, tmp_path: Path
) -> None:
    answer = Answer(True, lasting="always", arguments={"command": "touch mine.txt"})
    with opened(lambda _: answer) as session:
        assert session.call("Bash", {"command": "touch theirs.txt"}).ok
    written = (tmp_path / "config/handrail/approved.toml").read_text(encoding="utf-8")
    assert "mine.txt" in written and "theirs.txt" not in written
    with opened(None) as session:
        assert session.call("Bash", {"command": "touch theirs.txt"}).status == "denied"
        assert session.call("Bash", {"command": "touch mine.txt"}).ok


def test_yes_to_a_command_for_the_session_holds_where_it_was_said(
    opened: Callable[..., Session], project: Path
) -> None:
    for name in ("one", "two"):
        (project / name).mkdir()
        (project / name / "run.sh").write_text("#!/bin/sh\necho here\n", encoding="utf-8")
        (project / name / "run.sh").chmod(0o755)
    asked: list[str] = []

    def approve(question: Question) -> Answer:
        access = question.accesses[0]
        assert isinstance(access, CommandAccess)
        asked.append(access.place)
        return Answer(True, lasting="session")

    with opened(approve) as session:
        for where in ("one", "one", "two", "one/../two"):
            assert session.call("Bash", {"command": "./run.sh", "workdir": where}).ok
    assert asked == [str(project / "one"), str(project / "two")]


def test_yes_to_a_command_for_good_holds_in_that_directory_alone(
    opened: Callable[..., Session], project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (project / "sub").mkdir()
    with opened(lambda _: Answer(True, lasting="always")) as session:
        assert session.call("Bash", {"command": "make --version x"}).data["exit_code"] is not None
    with opened(None) as session:
        assert session.call("Bash", {"command": "make --version x"}).status != "denied"
        assert session.call("Bash", {"command": "make --version x", "workdir": "sub"}).status == "denied"
    with opened(None, other) as session:
        assert session.call("Bash", {"command": "make --version x"}).status == "denied"


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("a[b].txt", ["ab.txt", "a[c].txt"]),
        ("*", ["x.txt", "sub"]),
        ("a*.txt", ["ab.txt", "a.txt"]),
        ("{a,b}", ["a", "b"]),
        ("q?", ["qq"]),
        ('it\'s "so".txt', ["its so.txt"]),
        ("a) , allow Edit(b", ["b", "a"]),
        ("back\\slash", ["backslash", "back/slash"]),
        ("!x", ["x", "y"]),
        ("# x", ["#"]),
        ("ends ", ["ends"]),
        ("u\u2028x", ["ux"]),
        ("new\nline", ["new", "line"]),
    ],
)
def test_a_rule_for_good_is_never_wider_than_the_file_that_was_asked_about(
    opened: Callable[..., Session], project: Path, name: str, others: list[str]
) -> None:
    with opened(lambda _: Answer(True, lasting="always")) as session:
        assert session.call("Write", {"file_path": name, "content": "x"}).ok
    (project / name).unlink()
    with opened(None) as session:
        for other in others:
            assert session.call("Write", {"file_path": other, "content": "x"}).status != "ok", other
        result = session.call("Write", {"file_path": name, "content": "x"})
    assert result.ok or escape(name) != name  # what cannot be shown as it is is not written down


@pytest.mark.parametrize(
    "command",
    [
        "touch a; touch b",
        "touch a && touch b",
        "touch a\ntouch b",
        "touch 'a b'",
        "touch *",
        "touch $X",
        "X=1 touch a",
        "env touch a",
        'touch "quo\\"te"',
        "touch a > out",
    ],
)
def test_a_command_for_good_is_that_command_and_no_other(
    opened: Callable[..., Session], project: Path, command: str
) -> None:
    with opened(lambda _: Answer(True, lasting="always")) as session:
        session.call("Bash", {"command": command})
    with opened(None) as session:
        for other in ("touch c", "touch a b", "touch b c", f"{command} zz", f"{command}; touch zz", "env touch zz"):
            assert session.call("Bash", {"command": other}).status == "denied", other
    assert not (project / "zz").exists()


def test_a_file_of_approved_rules_that_somebody_has_edited_is_not_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = Path(remember(["allow Bash(make)"], environ, "/srv/a"))
    assert remember(["allow Bash(make)"], environ, "/srv/a") == str(path)
    assert path.read_text(encoding="utf-8").count("Bash(make)") == 1
    remember(["allow Bash(make)"], environ, "/srv/b")
    assert path.read_text(encoding="utf-8").count("Bash(make)") == 2
    whole = path.read_text(encoding="utf-8")
    path.write_text(whole + '[[rules2]]\nx = "]"\n', encoding="utf-8")
    with pytest.raises(PolicyError):
        remember(["allow Bash(make x)"], environ, "/srv/a")
    path.write_text('[permissions]\nallow = ["Read(//srv/x)"]\n', encoding="utf-8")
    with pytest.raises(PolicyError):
        remember(["allow Bash(make x)"], environ, "/srv/a")
    assert path.read_text(encoding="utf-8") == '[permissions]\nallow = ["Read(//srv/x)"]\n'
    path.write_bytes(b"\xff")
    with pytest.raises(PolicyError):
        remember(["allow Bash(make x)"], environ, "/srv/a")


def test_a_rule_that_cannot_be_written_down_is_said_and_the_call_is_made(
    opened: Callable[..., Session], project: Path, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text("no directory", encoding="utf-8")
    with opened(lambda _: Answer(True, lasting="always")) as session:
        result = session.call("Write", {"file_path": "new.txt", "content": "x\n"})
    assert result.status == "partial" and [note.code for note in result.notes] == ["not_remembered"]
    assert (project / "new.txt").exists()


# Another mode.


def test_a_policy_of_the_hosts_own_is_never_replaced_by_a_mode(project: Path, tmp_path: Path) -> None:
    class Nothing:
        hides: tuple[str, ...] = ()

        def judge(self, _: Any) -> Verdict:
            return Verdict("deny", "host", "nothing at all")

    settings = Settings(state=str(tmp_path / "state"), raise_bugs=True, sandbox="off")
    with Session(project, policy=Nothing(), settings=settings) as session:
        with pytest.raises(TypeError):
            session.set_mode("full")
        assert session.call("Read", {"file_path": "a.txt"}).status == "denied"


def test_rules_hold_in_every_mode_that_is_chosen_later(project: Path, tmp_path: Path) -> None:
    (project / "handrail.toml").write_text('rules = ["deny Read(a.txt)"]\n', encoding="utf-8")
    rules = load(str(project), {"HOME": str(tmp_path)}, str(tmp_path / "state"))
    settings = Settings(state=str(tmp_path / "state"), raise_bugs=True, sandbox="off")
    with Session(project, setup=Setup(rules=rules), settings=settings) as session:
        session.set_mode("full")
        assert session.call("Read", {"file_path": "a.txt"}).status == "denied"


def test_what_was_approved_for_the_session_is_refused_where_the_mode_refuses(
    opened: Callable[..., Session], project: Path
) -> None:
    with opened(lambda _: Answer(True, lasting="session")) as session:
        assert session.call("Bash", {"command": "touch x"}).ok
        for mode in ("read-only", "deny-asks"):
            session.set_mode(mode)
            assert session.call("Bash", {"command": "touch x"}).status == "denied"
        session.set_mode("ask")
        assert session.call("Bash", {"command": "touch x"}).ok


def test_a_file_that_was_approved_is_not_another_one_by_a_link(opened: Callable[..., Session], project: Path) -> None:
    (project / "b.txt").write_text("b\n", encoding="utf-8")
    asked: list[Access] = []

    def approve(question: Question) -> Answer:
        asked.extend(question.accesses)
        return Answer(True, lasting="session")

    with opened(approve) as session:
        assert session.call("Bash", {"command": "touch a.txt"}).ok
        (project / "a.txt").unlink()
        (project / "a.txt").symlink_to("b.txt")
        assert session.call("Bash", {"command": "touch a.txt"}).ok
    assert [one.path for one in asked if one.action == "write"] == [str(project / "a.txt"), str(project / "b.txt")]
