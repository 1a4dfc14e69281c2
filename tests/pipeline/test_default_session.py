"""What `Session(root)` does without any option: the same as the command line."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path

import pytest

from handrail import AsyncSession, Session, Settings, Setup, UnknownCall
from handrail.journal import JournalFailed, NoJournal
from handrail.journal.undo import CannotUndo
from handrail.policy import AllowAll
from handrail.policy.files import PolicyError, trust
from handrail.policy.modes import MODES
from handrail.settings.config_file import ConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "sub").mkdir(parents=True)
    (root / "sub" / "a.txt").write_text("one\n", encoding="utf-8")
    (root / ".env").write_text("PASSWORD=hunter2\n", encoding="utf-8")
    return root


def write_config(name: str, text: str) -> None:
    path = Path(os.environ["XDG_CONFIG_HOME"], "handrail", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_a_secret_is_not_read(project: Path) -> None:
    with Session(project) as session:
        result = session.call("Read", {"file_path": ".env"})
    assert result.status == "denied" and "hunter2" not in result.text


@pytest.mark.parametrize("drafts", [True, False])
def test_a_directory_is_deleted_unasked_only_where_undo_brings_it_back(project: Path, drafts: bool) -> None:
    with Session(project, settings=Settings(drafts=drafts)) as session:
        result = session.call("Bash", {"command": "rm -rf sub"})
        if session.services.command_host().drafts.workspace:
            assert result.ok and not (project / "sub").exists()
            session.undo()
        else:
            assert result.status == "denied"
    assert (project / "sub" / "a.txt").exists()


def test_a_change_is_undone(project: Path) -> None:
    with Session(project) as session:
        session.call("Read", {"file_path": "sub/a.txt"})
        edit = {"file_path": "sub/a.txt", "old_string": "one", "new_string": "two"}
        assert session.call("Edit", edit).status == "ok"
        assert [one.path for one in session.undo(dry_run=True).restored] == [str(project / "sub" / "a.txt")]
        assert (project / "sub" / "a.txt").read_text(encoding="utf-8") == "two\n"
        session.undo()
    assert (project / "sub" / "a.txt").read_text(encoding="utf-8") == "one\n"


def test_trash_works_and_comes_back(project: Path) -> None:
    with Session(project, approve=lambda _: True) as session:
        assert session.call("Trash", {"path": "sub/a.txt"}).status == "ok"
        assert not (project / "sub" / "a.txt").exists()
        session.undo()
    assert (project / "sub" / "a.txt").read_text(encoding="utf-8") == "one\n"


@pytest.mark.parametrize("mode", [None, *MODES])
def test_rules_of_user_and_project_hold_in_every_mode(project: Path, mode: str | None) -> None:
    write_config("policy.toml", 'rules = ["deny Edit(locked.txt)"]\n')
    (project / "handrail.toml").write_text('rules = ["deny Edit(frozen.txt)"]\n', encoding="utf-8")
    with Session(project, mode=mode, approve=lambda _: True) as session:  # type: ignore[arg-type]
        for name in ("locked.txt", "frozen.txt"):
            assert session.call("Write", {"file_path": name, "content": "x\n"}).status == "denied"
            assert not (project / name).exists()


def test_the_project_loosens_only_what_a_person_trusts(project: Path) -> None:
    rules = project / "handrail.toml"
    rules.write_text('rules = ["allow Delete(sub/**)"]\n', encoding="utf-8")
    settings = Settings(drafts=False)  # in a draft a deletion needs no permission: it can be undone
    with Session(project, settings=settings) as session:
        assert session.call("Bash", {"command": "rm sub/a.txt"}).status == "denied"
        file = next(file for file in session.policy.files if file.origin == "project")  # type: ignore[attr-defined]
    trust(str(project), os.environ["HANDRAIL_STATE"], file.sha256)
    with Session(project, settings=settings) as session:
        assert session.call("Bash", {"command": "rm sub/a.txt"}).status == "ok"


def test_rules_that_a_host_adds_hold_beside_those_of_files(project: Path) -> None:
    from handrail.policy.files import parse

    write_config("policy.toml", 'rules = ["deny Edit(locked.txt)"]\n')
    added = parse('rules = ["deny Edit(more.txt)"]\n', "(host)", "user")
    with Session(project, setup=Setup(rules=[added])) as session:
        for name in ("locked.txt", "more.txt"):
            assert session.call("Write", {"file_path": name, "content": "x\n"}).status == "denied"


def test_the_users_configuration_is_read_unless_settings_are_given(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "b.txt").write_text("b\n", encoding="utf-8")
    write_config("config.toml", f'[settings]\nhard_links = "split"\n[[roots]]\npath = "{other}"\n')
    with Session(project) as session:
        assert session.settings.hard_links == "split"
        assert session.call("Read", {"file_path": str(other / "b.txt")}).status == "ok"
    with Session(project, settings=Settings()) as session:
        assert session.settings.hard_links == "refuse"
        assert session.call("Read", {"file_path": str(other / "b.txt")}).status == "denied"


def test_a_mistake_in_a_file_opens_no_session(project: Path) -> None:
    write_config("policy.toml", 'rules = ["deny Edti(locked.txt)"]\n')
    with pytest.raises(PolicyError, match=r"policy\.toml"):
        Session(project)
    with Session(project, policy=AllowAll()) as session:  # it reads no rules
        assert session.call("Read", {"file_path": ".env"}).ok
    write_config("config.toml", "[settings]\nsandbocks = 1\n")
    with pytest.raises(ConfigError, match="sandbox"):
        Session(project, policy=AllowAll())


def test_opting_out_is_explicit(project: Path) -> None:
    with Session(project, policy=AllowAll(), journal=None) as session:
        assert "hunter2" in session.call("Read", {"file_path": ".env"}).text
        assert session.call("Write", {"file_path": "new.txt", "content": "x\n"}).status == "ok"
        assert isinstance(session.journal, NoJournal)
        with pytest.raises(CannotUndo, match="has no journal"):
            session.undo()
    assert not Path(os.environ["HANDRAIL_STATE"], "journal").exists()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"mode": "yolo"}, "read-only, ask, accept-edits, full, deny-asks"),
        ({"dialect": "nope"}, "claude, claw, codex"),
        ({"journal": "always"}, '"auto", "require", the URL of a shared journal, None or a Journal'),
        ({"policy": AllowAll(), "mode": "full"}, "either a policy, or a mode"),
    ],
)
def test_a_wrong_value_is_answered_with_the_right_ones(
    project: Path, options: dict[str, object], expected: str
) -> None:
    with pytest.raises(ValueError, match=expected.replace(" ", r"\s")):
        Session(project, **options)  # type: ignore[arg-type]


def broken_by_a_file(state: Path) -> None:
    (state / "journal").touch()


def broken_by_a_file_for_its_logs(state: Path) -> None:
    (state / "journal").mkdir(parents=True)
    (state / "journal" / "journal.db.logs").touch()


BROKEN = [broken_by_a_file, broken_by_a_file_for_its_logs]


@pytest.mark.parametrize("break_journal", BROKEN)
def test_a_journal_that_cannot_be_opened_stops_nothing_and_is_named(project: Path, break_journal: object) -> None:
    break_journal(Path(os.environ["HANDRAIL_STATE"]))  # type: ignore[operator]
    with Session(project) as session:
        for call in (("Read", {"file_path": "sub/a.txt"}), ("Write", {"file_path": "new.txt", "content": "x\n"})):
            result = session.call(*call)
            assert (result.status, [note.code for note in result.notes]) == ("partial", ["journal"])
        with pytest.raises(CannotUndo, match=r"the journal cannot be opened: .+; nothing can be undone") as failed:
            session.undo()
    assert "there is no journal yet" not in failed.value.why
    assert (project / "new.txt").exists()


@pytest.mark.parametrize("break_journal", BROKEN)
def test_a_journal_that_is_required_fails_instead(project: Path, break_journal: object) -> None:
    break_journal(Path(os.environ["HANDRAIL_STATE"]))  # type: ignore[operator]
    with pytest.raises(JournalFailed) as failed:
        Session(project, journal="require")
    assert str(failed.value).startswith(f"the journal {failed.value.facts['journal']} cannot be used: ")
    assert failed.value.facts["why"]


def test_the_options_that_are_handed_on_are_those_of_a_session() -> None:
    import inspect

    from handrail.aio import SessionOptions, UndoOptions
    from handrail.journal.undo_selection import UndoSelection

    taken = inspect.signature(Session).parameters
    assert set(SessionOptions.__annotations__) | {"root", "approve"} == set(taken)
    selection = set(inspect.signature(UndoSelection).parameters) - {"only"}
    assert set(UndoOptions.__annotations__) == selection | {"any_session", "dry_run"}


def test_an_async_session_takes_changes_back(project: Path) -> None:
    async def main() -> list[str]:
        async with AsyncSession.open(project) as session:
            assert (await session.call("Write", {"file_path": "new.txt", "content": "x\n"})).ok
            planned = await session.undo(dry_run=True)
            assert (project / "new.txt").exists()
            assert (await session.undo()).restored == planned.restored
            with pytest.raises(UnknownCall, match="there is nothing to undo"):
                await session.undo()
            return [one.path for one in planned.restored]

    assert asyncio.run(main()) == [str(project / "new.txt")]
    assert not (project / "new.txt").exists()


def test_sessions_that_nobody_closes_keep_no_descriptor_open(project: Path) -> None:
    sessions = [Session(project) for _ in range(3)]
    assert all(session.call("Read", {"file_path": "sub/a.txt"}).ok for session in sessions)
    status = os.stat(project)
    root = (status.st_dev, status.st_ino)
    assert root in map(_identity, range(1024))
    sessions.clear()
    gc.collect()
    assert root not in map(_identity, range(1024))


def _identity(fd: int) -> tuple[int, int] | None:
    try:
        status = os.fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def test_undo_leaves_the_changes_of_other_sessions_alone_unless_asked(tmp_path: Path) -> None:
    with Session(tmp_path) as mine, Session(tmp_path) as other:
        mine.call("Write", {"file_path": "mine.txt", "content": "1\n"})
        other.call("Write", {"file_path": "other.txt", "content": "1\n"})
        mine.undo()
        assert not (tmp_path / "mine.txt").exists() and (tmp_path / "other.txt").exists()
        with pytest.raises(UnknownCall, match="in this session"):
            mine.undo()
        mine.undo(any_session=True)
        assert not (tmp_path / "other.txt").exists()
        with pytest.raises(UnknownCall):  # undone already, by another session
            other.undo()
