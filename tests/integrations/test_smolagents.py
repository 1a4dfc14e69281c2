"""smolagents: a real ToolCallingAgent and CodeAgent with a scripted model, real files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from smolagents import AgentLogger, CodeAgent, LogLevel, Model, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
    get_tool_json_schema,
)

from handrail import Session, dialects
from handrail.integrations.smolagents import SmolagentsTool, inputs, show_pictures, tools
from tests.integrations.examples import run_example
from tests.integrations.scripted import chat

Make = Callable[..., Session]


class Scripted(Model):  # type: ignore[misc]
    """A model that wants these calls, or says these texts, one after another; it keeps what it was shown."""

    def __init__(self, *steps: list[tuple[str, dict[str, Any]]] | str) -> None:
        super().__init__()
        self._steps = list(steps)
        self.shown: list[Any] = []

    def generate(self, messages: list[ChatMessage], **_: Any) -> ChatMessage:
        self.shown = messages
        step = self._steps.pop(0)
        if isinstance(step, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=step)
        calls = [
            ChatMessageToolCall(id=f"call-{n}", type="function", function=ChatMessageToolCallFunction(args, name))
            for n, (name, args) in enumerate(step)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=calls)


DONE = [("final_answer", {"answer": "done"})]


def agent(session: Session, *steps: list[tuple[str, dict[str, Any]]], **options: Any) -> ToolCallingAgent:
    quiet = AgentLogger(level=LogLevel.OFF)
    return ToolCallingAgent(tools(session), Scripted(*steps, DONE), logger=quiet, **options)


def seen(running: Any) -> list[str]:
    return [step.observations for step in running.memory.steps if getattr(step, "observations", None)]


def test_an_agent_reads_and_edits_a_file(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "2"}
    running = agent(make_session(), [("Read", {"file_path": "a.txt"})], [("Edit", edit)])
    assert running.run("change it") == "done"
    assert "2\ttwo" in seen(running)[0]
    assert (tmp_path / "a.txt").read_bytes() == b"one\r\n2\r\n"


def test_a_failure_is_an_observation_and_the_agent_goes_on(make_session: Make) -> None:
    running = agent(make_session(), [("Read", {"file_path": "../x"})], [("Bash", {"command": "exit 3"})])
    assert running.run("go") == "done"
    assert "outside" in seen(running)[0]
    assert "3" in seen(running)[1]
    assert not any(getattr(step, "error", None) for step in running.memory.steps)


def test_a_picture_is_shown_to_the_model_with_the_step_that_read_it(make_session: Make, tmp_path: Path) -> None:
    Image.new("RGB", (4, 3), "red").save(tmp_path / "p.png")
    running = agent(make_session(), [("Read", {"file_path": "p.png"})], step_callbacks=[show_pictures])
    assert running.run("look") == "done"
    shown = [part for message in running.model.shown for part in message.content if part["type"] == "image"]
    assert [part["image"].size for part in shown] == [(4, 3)]
    assert "4 x 3" in seen(running)[0]


def test_an_agent_that_writes_code_calls_the_tools_by_position_or_name(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    code = '<code>\nRead("a.txt")\nEdit("a.txt", "one", new_string="two")\nfinal_answer("done")\n</code>'
    running = CodeAgent(tools(make_session()), Scripted(code), logger=AgentLogger(level=LogLevel.OFF))
    assert running.run("change it") == "done"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


@pytest.mark.parametrize("dialect", dialects.names())
def test_every_dialect_is_told_to_the_model_with_what_must_be_given(make_session: Make, dialect: str) -> None:
    session = make_session(dialect=dialect)
    for spec, tool in zip(session.specs(), tools(session), strict=True):
        schema = get_tool_json_schema(tool)["function"]
        assert schema["name"] == spec.name and schema["description"] == spec.description
        assert set(schema["parameters"]["properties"]) == set(spec.schema["properties"])
        assert sorted(schema["parameters"]["required"]) == sorted(spec.schema.get("required", ()))


def test_a_choice_of_types_is_a_list_and_what_may_be_null_is_nullable() -> None:
    schema = {
        "properties": {
            "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {}}], "description": "one or more"},
            "maybe": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "one_of": {"type": "string", "enum": ["a", "b"]},
            "untyped": {"description": "whatever"},
        },
        "required": ["either", "one_of"],
    }
    actual = inputs(schema)
    assert actual["either"]["type"] == ["string", "array"]
    assert actual["maybe"] == {"description": "maybe", "type": "integer", "minimum": 1, "nullable": True}
    assert actual["one_of"]["enum"] == ["a", "b"] and "nullable" not in actual["one_of"]
    assert actual["untyped"]["type"] == "any"


def test_too_many_arguments_are_refused(make_session: Make) -> None:
    write = next(tool for tool in tools(make_session()) if tool.name == "Write")
    assert isinstance(write, SmolagentsTool)
    with pytest.raises(TypeError, match="takes 2"):
        write("a", "b", "c")


def test_with_one_thread_the_calls_of_one_message_keep_their_order(make_session: Make, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0\n", encoding="utf-8")
    session = make_session()
    session.call("Read", {"file_path": "a.txt"})
    steps = [{"file_path": "a.txt", "old_string": f"{n}", "new_string": f"{n + 1}"} for n in range(6)]
    running = agent(session, [("Edit", step) for step in steps], max_tool_threads=1)
    assert running.run("count") == "done"
    assert path.read_text(encoding="utf-8") == "6\n"


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    path = tmp_path / "hello.txt"
    path.write_text("Hello\n", encoding="utf-8")
    edit = {"file_path": "hello.txt", "old_string": "Hello", "new_string": "Goodbye"}
    final = ("final_answer", {"answer": "It is done."})
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    script = [{**chat(call), "usage": usage} for call in (("Read", {"file_path": "hello.txt"}), ("Edit", edit), final)]
    assert run_example("smolagents", tmp_path, *script).splitlines()[-1] == "It is done."
    assert path.read_text(encoding="utf-8") == "Goodbye\n"
