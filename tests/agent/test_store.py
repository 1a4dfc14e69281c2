"""Conversations are kept turn by turn, and what was answered survives a crash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from handrail.agent.history import History
from handrail.agent.scripted import Line
from handrail.agent.store import NoConversation, Store
from handrail.agent.talk import Given, Turn, Use
from tests.agent.conftest import Setting

TURNS = [
    Turn("user", "look, é \ud800"),
    Turn("assistant", "I do.", (Use("1", "Read", '{"file_path": "a"}'),), raw={"api": "chat", "content": [{"a": 1}]}),
    Turn("tools", given=(Given("1", "Read", "text\n", True, ({"type": "image", "base64": "AA=="},)),)),
]


def test_a_conversation_comes_back_as_it_was(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    for turn in TURNS:
        kept.add(turn)
    again, about, turns = store.load(kept.id)
    assert again.path == kept.path and about.workspace == "/project" and about.first == TURNS[0].text
    assert [(turn.role, turn.text, [use.id for use in turn.uses]) for turn in turns] == [
        (turn.role, turn.text, [use.id for use in turn.uses]) for turn in TURNS
    ]
    assert turns[2].given[0].blocks[0]["base64"] == "AA==" and turns[1].raw == TURNS[1].raw


def test_what_replaced_a_conversation_is_what_comes_back(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    for turn in TURNS:
        kept.add(turn)
    kept.replace([Turn("user", "notes")])
    kept.add(Turn("assistant", "on"))
    assert [turn.text for turn in store.load(kept.id)[2]] == ["notes", "on"]


@pytest.mark.parametrize("left", [1, 20, 60])
def test_a_line_that_a_crash_has_cut_is_left_out_and_the_next_one_is_whole(tmp_path: Path, left: int) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    kept.add(TURNS[0])
    size = os.path.getsize(kept.path)
    kept.add(TURNS[1])
    os.truncate(kept.path, size + left)
    again, _, turns = store.load(kept.id)
    assert [turn.role for turn in turns] == ["user"]
    again.add(Turn("assistant", "on"))
    assert [turn.text for turn in store.load(kept.id)[2]] == [TURNS[0].text, "on"]


def test_the_newest_of_a_workspace_is_found_and_ids_may_be_short(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with pytest.raises(NoConversation, match="yet"):
        store.last("/project")
    kept = store.new("/project", "m", "native")
    kept.add(TURNS[0])
    store.new("/other", "m", "native").add(TURNS[0])
    assert store.last("/project") == kept.id
    assert store.load(kept.id[:-2])[0].id == kept.id
    for wrong in ("nope", "../nope"):
        with pytest.raises(NoConversation):
            store.load(wrong)


def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    kept = store.new("/project", "m", "native")
    Path(kept.path).write_text('{"workspace": "/project"}\n{"role": "nobody"}\n', encoding="utf-8")
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
    conversation, _, turns = store.load(kept.id)
    at.agent.history = History(at.agent.history.system, turns, conversation)
    assert at.agent.run("go on").text == "second part"
    said = [message["content"] for message in at.server.requests[-1].body["messages"] if message["role"] == "user"]
    assert said == ["begin", "go on"]
    assert len(store.load(kept.id)[2]) == 6
