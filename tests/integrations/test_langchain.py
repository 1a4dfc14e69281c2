"""LangChain and LangGraph: real agents and tool nodes, a scripted chat model, real files."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from PIL import Image

from handrail import Session
from handrail.integrations.langchain import tools
from handrail.journal import NoJournal, Record
from tests.integrations.examples import run_example
from tests.integrations.scripted import message

Make = Callable[..., Session]


class Scripted(GenericFakeChatModel):
    """A chat model that says what it was told to say."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Scripted:
        assert {tool.name for tool in tools} >= {"Read", "Edit"}
        return self


def wants(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    wanted = [{"name": name, "args": args, "id": f"call-{number}"} for number, (name, args) in enumerate(calls)]
    return AIMessage("", tool_calls=wanted)


def agent(session: Session, *replies: AIMessage) -> Any:
    return create_agent(Scripted(messages=iter([*replies, AIMessage("done")])), tools(session))


def answers(state: dict[str, Any]) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


def tool(session: Session, name: str) -> BaseTool:
    return next(one for one in tools(session) if one.name == name)


EDIT = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}


def test_an_agent_reads_and_edits_a_file(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    running = agent(make_session(), wants(("Read", {"file_path": "a.txt"})), wants(("Edit", EDIT)))
    state = running.invoke({"messages": [("user", "change it")]})
    read, edited = answers(state)
    assert (read.status, edited.status) == ("success", "success")
    assert "2\ttwo" in read.content
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\n2\r\n"
    assert read.artifact["data"]["total_lines"] == 2


def test_an_async_agent_makes_the_calls_of_one_message_in_their_order(make_session: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0\n", encoding="utf-8")
    session = make_session()
    session.call("Read", {"file_path": "a.txt"})
    steps = [{"file_path": "a.txt", "old_string": f"{n}", "new_string": f"{n + 1}"} for n in range(6)]
    running = agent(session, wants(*(("Edit", step) for step in steps)))
    state = asyncio.run(running.ainvoke({"messages": [("user", "count")]}))
    assert [message.status for message in answers(state)] == ["success"] * 6
    assert path.read_text(encoding="utf-8") == "6\n"


def test_a_failure_is_a_tool_message_with_the_status_error_and_the_agent_goes_on(make_session: Make) -> None:
    session = make_session()
    bad = wants(("Read", {"file_path": "../x"}), ("Edit", {"file_path": 5}), ("Read", {"nonsense": 1, "config": 2}))
    state = agent(session, bad).invoke({"messages": [("user", "go")]})
    actual = answers(state)
    assert [message.status for message in actual] == ["error"] * 3
    assert actual[0].artifact["error"]["code"] == "outside_workspace"
    assert "nonsense" in actual[2].content and "config" in actual[2].content
    assert state["messages"][-1].content == "done"


def test_the_model_is_told_the_schema_and_words_of_the_dialect(make_session: Make) -> None:
    session = make_session(dialect="claude")
    for spec, one in zip(session.specs(), tools(session), strict=True):
        schema = convert_to_openai_tool(one)["function"]
        assert (schema["name"], schema["description"]) == (spec.name, spec.description)
        assert schema["parameters"]["properties"] == spec.schema["properties"]


def test_a_picture_is_a_content_block_beside_its_text(make_session: Make, tmp_path: Path) -> None:
    Image.new("RGB", (4, 3), "red").save(tmp_path / "p.png")
    session = make_session()
    state = agent(session, wants(("Read", {"file_path": "p.png"}))).invoke({"messages": [("user", "look")]})
    text, picture = answers(state)[0].content_blocks
    assert text["type"] == "text" and "4 x 3" in text["text"]
    assert picture["type"] == "image"
    assert Image.open(io.BytesIO(base64.b64decode(picture["base64"]))).size == (4, 3)


def test_a_tool_called_by_hand_gives_its_content_also_when_it_fails(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi\n", encoding="utf-8")
    session = make_session()
    assert tool(session, "Read").invoke({"file_path": "a.txt"}) == "1\thi"
    assert "does not exist" in tool(session, "Read").invoke({"file_path": "b.txt"})
    assert "does not exist" in asyncio.run(tool(session, "Read").ainvoke({"file_path": "b.txt"}))


def test_the_id_of_a_call_is_the_id_in_the_record(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    call = {"type": "tool_call", "name": "LS", "args": {}, "id": "call-7"}
    assert tool(session, "LS").invoke(call).artifact["id"] == "call-7"


class Recorded(NoJournal):
    """Keeps what calls came to, in memory."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def record(self, record: Record) -> str:
        self.records.append(record)
        return super().record(record)


def test_a_cancelled_task_ends_the_command_before_it_is_over(make_session: Make, tmp_path: Path) -> None:
    journal = Recorded()
    session = make_session(journal=journal, drafts=False)

    async def stopped() -> None:
        task = asyncio.create_task(tool(session, "Bash").ainvoke({"command": "touch begun; sleep 600"}))
        while not (tmp_path / "begun").exists():
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [record.result.data["cancelled"] for record in journal.records] == [True]

    asyncio.run(stopped())


def test_a_tool_that_does_not_exist_is_answered_and_the_agent_goes_on(make_session: Make) -> None:
    state = agent(make_session(), wants(("Nonsense", {}))).invoke({"messages": [("user", "go")]})
    assert answers(state)[0].status == "error" and "Nonsense" in answers(state)[0].content
    assert state["messages"][-1].content == "done"


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    path = tmp_path / "hello.txt"
    path.write_text("Hello\n", encoding="utf-8")
    edit = {"file_path": str(path), "old_string": "Hello", "new_string": "Goodbye"}
    script = [
        message(("Read", {"file_path": str(path)}), ids="a"),
        message(("Edit", edit), ids="b"),
        message(text="It is done."),
    ]
    assert run_example("LangChain and LangGraph", tmp_path, *script) == "It is done.\n"
    assert path.read_text(encoding="utf-8") == "Goodbye\n"
