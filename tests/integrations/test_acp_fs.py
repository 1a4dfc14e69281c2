"""Agent Client Protocol, the editor's files: unsaved buffers are read and kept, and the editor is told of changes."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path
from typing import Any

import acp
import pytest

from handrail import Result, Session, Settings
from handrail.agent.acp import Conversation
from handrail.agent.acp.files import EditorClient, EditorSession
from handrail.journal.store import SqliteJournal
from tests.integrations.acp_editor import ScriptedEditor, calls, connected, content, prompted, run

READ = {"file_path": "a.txt"}


def edit(old: str, new: str) -> dict[str, Any]:
    return {**READ, "old_string": old, "new_string": new}


def played(
    root: Path, editor: Any, *wanted: tuple[str, dict[str, Any]], read: bool = True, write: bool = True, **options: Any
) -> list[Result]:
    """What these calls came to in a turn with that editor."""
    collected: list[Result] = []

    async def test() -> None:
        async with connected(calls(*wanted, into=collected), editor, read, write, **options) as connection:
            assert await prompted(connection, root) == "end_turn"

    run(test)
    return collected


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n")
    return path


def test_a_read_shows_what_is_not_saved_yet_and_saves_nothing(path: Path) -> None:
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "one\ntyped\n"
    (read,) = played(path.parent, editor, ("Read", READ))
    assert read.text == "1\tone\n2\ttyped"
    assert path.read_bytes() == b"one\ntwo\n" and not editor.writes


def test_an_edit_is_made_on_the_buffer_and_keeps_what_was_typed(path: Path) -> None:
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "one\ntyped\nand two\n"
    _, edited = played(path.parent, editor, ("Read", READ), ("Edit", edit("two", "2")))
    assert edited.status == "ok"
    assert path.read_bytes() == b"one\ntyped\nand 2\n"
    assert editor.writes == [(str(path), "one\ntyped\nand two\n"), (str(path), "one\ntyped\nand 2\n")]
    assert editor.of("tool_call_update")[-1].content[0].old_text == "one\ntyped\nand two\n"


def test_what_is_typed_after_the_model_read_stops_an_overwrite(path: Path) -> None:
    editor = ScriptedEditor()
    collected: list[Result] = []

    async def drive(conversation: Conversation, _: Any) -> None:
        collected.append(await conversation.call("Read", READ))
        editor.buffers[str(path)] = "one\ntwo\nthe person goes on\n"
        collected.append(await conversation.call("Write", {**READ, "content": "new\n"}))

    async def test() -> None:
        async with connected(drive, editor, read=True, write=True) as connection:
            await prompted(connection, path.parent)

    run(test)
    assert collected[1].error and collected[1].error.code == "changed_since"
    assert path.read_bytes() == b"one\ntwo\n" and not editor.writes


def test_what_the_person_rejects_is_not_saved_either(path: Path) -> None:
    editor = ScriptedEditor("reject_once")
    editor.buffers[str(path)] = "one\ntyped\n"
    _, refused = played(path.parent, editor, ("Read", READ), ("Edit", edit("typed", "x")), mode="ask")
    assert refused.status == "denied"
    assert content(editor.asked[0][0])[0].old_text == "one\ntyped\n"
    assert path.read_bytes() == b"one\ntwo\n" and not editor.writes


def test_a_change_is_told_to_the_editor_and_a_new_file_too(path: Path) -> None:
    editor = ScriptedEditor()
    wanted = [("Read", READ), ("Edit", edit("two", "2")), ("Write", {"file_path": "sub/n.txt", "content": "new\n"})]
    played(path.parent, editor, *wanted)
    assert editor.writes == [(str(path), "one\n2\n"), (str(path.parent / "sub" / "n.txt"), "new\n")]


def test_edits_in_a_row_are_not_held_up_by_the_editors_own_saves(path: Path) -> None:
    wanted = [("Read", {"file_path": str(path)})]
    for old, new in (("two", "2"), ("2", "zwei"), ("zwei", "deux")):
        wanted.append(("Edit", {"file_path": str(path), "old_string": old, "new_string": new}))
    actual = played(path.parent, ScriptedEditor(), *wanted, dialect="claude")  # which goes by the time of a file
    assert [result.status for result in actual] == ["ok"] * 4
    assert path.read_bytes() == b"one\ndeux\n"


def test_bytes_that_an_editor_might_write_otherwise_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    (tmp_path / "b.txt").write_bytes("caf\u00e9 two\n".encode("latin-1"))
    editor = ScriptedEditor()
    other = {**edit("two", "2"), "file_path": "b.txt"}
    wanted = [("Read", READ), ("Edit", edit("two", "2")), ("Read", {"file_path": "b.txt"}), ("Edit", other)]
    actual = played(tmp_path, editor, *wanted)
    assert [result.ok for result in actual] == [True] * 4
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\n2\r\n"
    assert (tmp_path / "b.txt").read_bytes() == "caf\u00e9 2\n".encode("latin-1")
    assert not editor.writes


def test_an_unsaved_buffer_of_a_file_with_carriage_returns_is_seen_and_edited(path: Path) -> None:
    path.write_bytes(b"one\r\ntwo\r\n")

    class Windows(ScriptedEditor):
        """An editor that keeps a file's line endings when it saves."""

        async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
            return await super().write_text_file(session_id, path, content.replace("\n", "\r\n"))

    editor = Windows()
    editor.buffers[str(path)] = "one\ntyped\ntwo\n"
    actual = played(path.parent, editor, ("Read", READ), ("Edit", edit("two", "2")))
    assert [result.status for result in actual] == ["ok", "ok"]
    assert path.read_bytes() == b"one\r\ntyped\r\n2\r\n"


def test_what_the_files_encoding_cannot_hold_is_still_read(path: Path) -> None:
    path.write_bytes("caf\u00e9\n".encode("latin-1"))
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "caf\u00e9 \u2192\n"
    (read,) = played(path.parent, editor, ("Read", READ))
    assert read.text == "1\tcaf\u00e9 \u2192"


def test_without_the_right_to_save_a_dirty_file_is_not_changed(path: Path) -> None:
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "one\ntyped\n"
    _, refused = played(path.parent, editor, ("Read", READ), ("Edit", edit("typed", "x")), write=False)
    assert refused.error and refused.error.code == "busy" and "unsaved changes" in refused.text
    assert path.read_bytes() == b"one\ntwo\n" and not editor.writes


def test_a_client_without_the_capabilities_is_never_asked(path: Path) -> None:
    class Plain(ScriptedEditor):
        async def read_text_file(self, *_: Any, **__: Any) -> Any:
            pytest.fail("it said that it cannot do this")

        write_text_file = read_text_file

    actual = played(path.parent, Plain(), ("Read", READ), ("Edit", edit("two", "2")), read=False, write=False)
    assert [result.status for result in actual] == ["ok", "ok"]
    assert path.read_bytes() == b"one\n2\n"


def test_an_editor_that_fails_to_save_stops_the_change_and_one_that_fails_afterwards_does_not(path: Path) -> None:
    class Full(ScriptedEditor):
        async def write_text_file(self, *_: Any, **__: Any) -> Any:
            raise acp.RequestError.internal_error({"details": "no"})

    editor = Full()
    editor.buffers[str(path)] = "one\ntyped\n"
    _, refused = played(path.parent, editor, ("Read", READ), ("Edit", edit("typed", "x")))
    assert refused.error and refused.error.code == "busy"
    assert path.read_bytes() == b"one\ntwo\n"
    _, result = played(path.parent, Full(), ("Read", READ), ("Edit", edit("two", "2")))
    assert result.status == "ok" and path.read_bytes() == b"one\n2\n"


def test_what_is_typed_in_the_moment_of_the_change_is_not_replaced(path: Path) -> None:
    class Busy(ScriptedEditor):
        """A person types right after the buffer was saved."""

        async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
            answer = await super().write_text_file(session_id, path, content)
            self.buffers[path] = content + "typed meanwhile\n"
            return answer

    editor = Busy()
    editor.buffers[str(path)] = "one\ntyped\n"
    _, edited = played(path.parent, editor, ("Read", READ), ("Edit", edit("typed", "x")))
    assert edited.status == "ok" and path.read_bytes() == b"one\nx\n"
    assert editor.buffers[str(path)] == "one\ntyped\ntyped meanwhile\n" and len(editor.writes) == 1


def test_an_editor_that_cannot_show_its_buffer_is_not_handed_another_text(path: Path) -> None:
    class Blind(ScriptedEditor):
        async def read_text_file(self, *_: Any, **__: Any) -> Any:
            raise acp.RequestError.internal_error({"details": "no"})

    for read in (True, False):
        editor = Blind()
        wanted = [("Read", READ), ("Edit", edit("two", "2") if read else edit("2", "two"))]
        assert [one.status for one in played(path.parent, editor, *wanted, read=read)] == ["ok", "ok"]
        assert not editor.writes


def test_a_formatter_that_runs_on_save_is_noticed(path: Path) -> None:
    class Formats(ScriptedEditor):
        async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> Any:
            return await super().write_text_file(session_id, path, content.upper())

    wanted = [("Read", READ), ("Edit", edit("two", "2")), ("Edit", edit("one", "1"))]
    actual = played(path.parent, Formats(), *wanted)
    assert path.read_bytes() == b"ONE\n2\n"
    assert actual[2].error and actual[2].error.code == "changed_since"


def test_a_dirty_file_that_is_moved_keeps_its_mode_and_what_was_typed(path: Path) -> None:
    path.chmod(0o750)
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "one\ntyped\n"
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-one\n+1\n typed\n*** End Patch"
    actual = played(path.parent, editor, ("Read", READ), ("ApplyPatch", {"patch": patch}), mode="full")
    assert [result.status for result in actual] == ["ok", "ok"]
    moved = path.with_name("b.txt")
    assert moved.read_bytes() == b"1\ntyped\n" and stat.S_IMODE(moved.stat().st_mode) == 0o750
    assert not path.exists()


def test_an_undo_brings_back_what_the_buffer_held(path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    journal = SqliteJournal(str(tmp_path_factory.mktemp("journal") / "j.db"))
    editor = ScriptedEditor()
    editor.buffers[str(path)] = "one\ntyped\n"
    played(path.parent, editor, ("Read", READ), ("Edit", edit("typed", "x")), journal=journal)
    assert path.read_bytes() == b"one\nx\n"
    with Session(path.parent, journal=journal) as session:
        session.undo(call=2)
    assert path.read_bytes() == b"one\ntyped\n"


def test_the_editor_is_told_paths_below_the_folder_that_it_named(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    editor = ScriptedEditor()
    editor.buffers[str(tmp_path / "link" / "a.txt")] = "typed\n"
    (read,) = played(tmp_path / "link", editor, ("Read", READ))
    assert read.text == "1\ttyped"


def test_a_buffer_outside_the_workspace_is_never_asked_for(path: Path) -> None:
    editor = ScriptedEditor()
    outside = path.parent.parent / "secret.txt"
    editor.buffers[str(outside)] = "secret\n"
    (refused,) = played(path.parent, editor, ("Read", {"file_path": str(outside)}))
    assert refused.status == "denied" and "secret\n" not in refused.text


def test_a_call_in_the_loop_itself_is_a_clear_mistake_and_no_deadlock(path: Path) -> None:
    async def test() -> None:
        may = acp.schema.ClientCapabilities(fs=acp.schema.FileSystemCapabilities(read_text_file=True))
        editor: Any = ScriptedEditor()
        with (
            EditorSession(path.parent, EditorClient(editor, "s", may), settings=Settings(raise_bugs=True)) as session,
            pytest.raises(RuntimeError, match="AsyncSession"),
        ):
            session.call("Read", READ)

    asyncio.run(test())
