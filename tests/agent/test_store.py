"""Conversations are kept turn by turn, and what was answered survives a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handrail.agent.history import History
from handrail.agent.messages import ToolCall, ToolResult, Turn
from handrail.agent.store import NoConversation, Store
from handrail_demo.scripted_server import Line
from tests.agent.conftest import Setting

TURNS = [
    Turn("user", "look, é \ud800"),
    Turn(
        "assistant", "I do.", (ToolCall("1", "Read", '{"file_path": "a"}'),), raw={"api": "chat", "content": [{"a": 1}]}
    ),
    Turn("tools", results=(ToolResult("1", "Read", "text\n", True, ({"type": "image", "base64": "AA=="},)),)),
]


def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    for turn in TURNS:
        kept.add(turn)
    kept.close()
    again, about, turns = store.load(kept.id)
    assert again.path == kept.path and about.workspace == "/project" and about.first == TURNS[0].text
    assert [(turn.role, turn.text, [use.id for use in turn.calls]) for turn in turns] == [
        (turn.role, turn.text, [use.id for use in turn.calls]) for turn in TURNS
    ]
    assert turns[2].results[0].blocks[0]["base64"] == "AA==" and turns[1].raw == TURNS[1].raw


def test_what_replaced_a_conversation_is_what_comes_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    for turn in TURNS:
        kept.add(turn)
    kept.replace([Turn("user", "notes")])
    kept.add(Turn("assistant", "on"))
    kept.close()
    assert [turn.text for turn in store.load(kept.id)[2]] == ["notes", "on"]


@pytest.mark.parametrize("left", [1, 20, 60])
def test_a_line_that_a_crash_has_cut_is_left_out_and_the_next_one_is_whole(tmp_path: Path, left: int) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    kept.add(TURNS[0])
    size = os.path.getsize(kept.path)
    kept.add(TURNS[1])
    os.truncate(kept.path, size + left)
    kept.close()
    again, _, turns = store.load(kept.id)
    assert [turn.role for turn in turns] == ["user"]
    again.add(Turn("assistant", "on"))
    again.close()
    assert [turn.text for turn in store.load(kept.id)[2]] == [TURNS[0].text, "on"]


def test_of_conversations_begun_in_one_second_the_one_used_last_comes_first(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    begun = [store.new("/project", "m", "native") for _ in range(8)]
    for moment, conversation in enumerate(begun, start=1):
        conversation.add(TURNS[0])
        conversation.close()
        os.utime(conversation.path, ns=(moment, moment))
    assert [one.id for one in store.all()] == [one.id for one in reversed(begun)]
    assert store.last("/project") == begun[-1].id
    os.utime(begun[2].path)
    assert store.last("/project") == begun[2].id


def test_the_last_of_a_workspace_is_found_and_ids_may_be_short(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(NoConversation, match="yet"):
        store.last("/project")
    kept = store.new("/project", "m", "native")
    kept.add(TURNS[0])
    store.new("/other", "m", "native").add(TURNS[0])
    assert store.last("/project") == kept.id
    kept.close()
    assert store.load(kept.id[:-2])[0].id == kept.id
    for wrong in ("nope", "../nope"):
        with pytest.raises(NoConversation):
            store.load(wrong)


def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    Path(kept.path).write_text('{"workspace": "/project"}\n{"role": "nobody"}\n', encoding="utf-8")
    kept.close()
    with pytest.raises(NoConversation, match="cannot be read"):
        store.load(kept.id)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    kept = Store(str(tmp_path)).new("/project", "m", "native")
    assert os.stat(kept.path).st_mode & 0o077 == 0


def test_an_agent_goes_on_where_another_one_was_killed(stage: Setting, tmp_path: Path) -> None:
    store = Store(str(tmp_path / "kept"))
    kept = store.new("/project", "scripted", "native")
    at = stage([Line("", [("LS", {"path": "."})]), Line("first part"), Line("second part")], keeper=kept)
    assert at.agent.run("begin").text == "first part"
    kept.close()
    conversation, _, turns = store.load(kept.id)
    at.agent.history = History(at.agent.history.system, turns, conversation)
    assert at.agent.run("go on").text == "second part"
    texts = [message["content"] for message in at.server.requests[-1].body["messages"] if message["role"] == "user"]
    assert texts == ["begin", "go on"]
    conversation.close()
    assert len(store.load(kept.id)[2]) == 6


def test_two_programs_cannot_go_on_with_one_conversation_at_once(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    kept.add(TURNS[0])
    with pytest.raises(NoConversation, match="open in another program"):
        store.load(kept.id)
    kept.close()
    assert len(store.load(kept.id)[2]) == 1


@pytest.mark.parametrize(
    "line",
    [
        '{"role": "user", "text": 5}',
        '{"role": "assistant", "uses": [{"id": "1", "name": null, "arguments": "{}"}]}',
        '{"role": "assistant", "raw": {"content": 5}}',
        "[" * 100_000,
        "[1]",
    ],
)
def test_a_damaged_file_is_one_sentence_and_the_others_are_still_listed(tmp_path: Path, line: str) -> None:
    store = Store(str(tmp_path))
    whole, damaged = (store.new("/project", "m", "native") for _ in range(2))
    whole.add(TURNS[0])
    damaged.close()
    Path(damaged.path).write_text(f'{{"workspace": "/project"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(NoConversation, match="cannot be read"):
        store.load(damaged.id)
    assert [one.id for one in store.all()] == [whole.id]


def test_a_head_that_is_none_is_left_out_of_the_list(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    damaged = store.new("/project", "m", "native")
    Path(damaged.path).write_text('{"workspace": "/project", "when": null}\n', encoding="utf-8")
    assert list(store.all()) == []


def test_a_conversation_that_two_have_written_is_made_whole() -> None:
    use, other = ToolCall("1", "Read", "{}"), ToolCall("2", "LS", "{}")
    turns = [
        Turn("user", "a"),
        Turn("assistant", "", (use, other)),
        Turn("user", "b"),
        Turn("tools", results=(ToolResult("1", "Read", "late"),)),
        Turn("assistant", "", (other,)),
        Turn("tools", results=(ToolResult("9", "Read", "of another"), ToolResult("2", "LS", "mine"))),
    ]
    kept = History("", turns).turns
    assert [turn.role for turn in kept] == ["user", "assistant", "tools", "user", "assistant", "tools"]
    assert [given.id for given in kept[2].results] == ["1", "2"]
    assert [given.text for given in kept[5].results] == ["mine"]
