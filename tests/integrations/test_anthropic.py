"""Anthropic's SDK against a scripted model: custom and predefined tools, pictures, errors, and its tool runner."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.lib.tools import ToolError

from handrail import Session
from handrail.integrations import anthropic as export
from tests.integrations.scripted import Script, draw, message, scripted

Make = Callable[..., Session]
EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
UNREAD = {**EDIT, "old_string": "on"}
"""Refused while the file was not read: no whole line of it is quoted."""


@contextmanager
def model(*replies: dict[str, Any]) -> Iterator[tuple[anthropic.Anthropic, Script]]:
    with (
        scripted(*replies) as script,
        anthropic.Anthropic(base_url=script.url, api_key="none", max_retries=0) as client,
    ):
        yield client, script


def talk(session: Session, tools: Any, *replies: dict[str, Any]) -> Script:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    with model(*replies, message(text="done")) as (client, script):
        while True:
            answer = client.messages.create(model="m", max_tokens=9, messages=messages, tools=tools)
            results = export.reply(session, answer.content)
            if not results:
                return script
            messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": results}]


def results(script: Script, requests: slice = slice(-1, None)) -> list[Any]:
    """The tool results that the last request holds; the tool runner sends each one once, so ask for all requests."""
    return [
        block
        for request in script.requests[requests]
        for one in request["messages"]
        for block in one["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]


def test_the_model_gets_our_schemas_texts_errors_and_pictures(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    steps: list[tuple[str, dict[str, Any]]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", {"file_path": 7, "nonsense": 1}),
        ("Nope", {}),
        ("Read", {"file_path": "red.png"}),
    ]
    expected = [twin.call(name, arguments) for name, arguments in steps]
    script = talk(session, export.tools(session), *map(message, steps), message(("Edit", EDIT)))
    assert script.requests[0]["tools"] == [
        {"name": spec.name, "description": spec.description, "input_schema": spec.schema} for spec in session.specs()
    ]
    actual = results(script)
    assert [one["content"][0] for one in actual[:5]] == [{"type": "text", "text": one.text} for one in expected]
    assert [one.get("is_error", False) for one in actual] == [True, False, True, True, False, False]
    source = {"type": "base64", "media_type": "image/png", "data": expected[4].blocks[1]["base64"]}
    assert actual[4]["content"][1] == {"type": "image", "source": source}
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_the_predefined_editor_and_bash_work_on_real_files(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(dialect="anthropic"), make_session(dialect="anthropic")
    editor, path = "str_replace_based_edit_tool", str(tmp_path / "a.txt")
    replace = {"command": "str_replace", "path": path, "old_str": "one", "new_str": "two"}
    view = twin.call(editor, {"command": "view", "path": path})
    steps = [(editor, {"command": "view", "path": path}), (editor, replace), ("bash", {"command": "cat a.txt"})]
    script = talk(session, export.predefined_tools(session), *map(message, steps))
    assert script.requests[0]["tools"] == [
        {"type": "text_editor_20250728", "name": editor},
        {"type": "bash_20250124", "name": "bash"},
    ]
    actual = results(script)
    assert not any(one.get("is_error") for one in actual)
    assert actual[0]["content"][0]["text"] == view.text and "one" in view.text
    assert actual[2]["content"][0]["text"] == "two"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"
    with pytest.raises(ValueError, match="anthropic"):
        export.predefined_tools(make_session())


def test_calls_of_one_message_are_answered_in_order_without_blocking(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    writes = [("Write", {"file_path": "a.txt", "content": str(n)}) for n in range(10)]
    with model(message(*writes, ("Read", {"file_path": "a.txt"}), ("LS", {"path": "."}))) as (client, _):
        answer = client.messages.create(model="m", max_tokens=9, messages=[])
    actual: list[Any] = asyncio.run(export.async_reply(session, answer.content))
    assert [one["tool_use_id"] for one in actual] == [f"toolu_{n}" for n in range(1, 13)]
    assert "9" in actual[10]["content"][0]["text"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "9"


def test_the_tool_runner_drives_the_session(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    session = make_session()
    steps = [message(("Read", {"file_path": "red.png"})), message(("Read", {"file_path": "none"}), ids="second")]
    with model(*steps, message(text="done")) as (client, script):
        runner = client.beta.messages.tool_runner(
            model="m", max_tokens=9, tools=export.runnable_tools(session), messages=[{"role": "user", "content": "go"}]
        )
        assert runner.until_done().content[0].type == "text"
    assert script.requests[0]["tools"] == export.tools(session)
    picture, missing = results(script, slice(None))
    assert [block["type"] for block in picture["content"]] == ["text", "image"]
    assert missing["is_error"] is True
    assert missing["content"][0]["text"] == session.call("Read", {"file_path": "none"}).text


def test_the_async_tool_runner_drives_the_predefined_tools(make_session: Make, tmp_path: Path) -> None:
    session = make_session(dialect="anthropic")
    create = {"command": "create", "path": str(tmp_path / "a.txt"), "file_text": "hello\n"}
    steps = [message(("str_replace_based_edit_tool", create)), message(("bash", {"command": "exit 3"}), ids="second")]

    async def main(url: str) -> None:
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none", max_retries=0) as client:
            runner = client.beta.messages.tool_runner(
                model="m",
                max_tokens=9,
                tools=export.async_runnable_tools(session, export.predefined_tools(session)),
                messages=[{"role": "user", "content": "go"}],
            )
            await runner.until_done()

    with scripted(*steps, message(text="done")) as script:
        asyncio.run(main(script.url))
    assert [tool["type"] for tool in script.requests[0]["tools"]] == ["text_editor_20250728", "bash_20250124"]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hello\n"
    assert [one["content"][0]["text"] for one in results(script, slice(None))][1] == "(exit code 3)"


def test_the_tools_of_the_agent_toolset_take_the_inputs_that_the_sdk_knows(make_session: Make, tmp_path: Path) -> None:
    from anthropic.lib.tools.agent_toolset import AgentToolContext, beta_agent_toolset_20260401
    from anthropic.types import beta

    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    tools = {tool.name: tool for tool in export.async_runnable_tools(make_session(dialect="anthropic-agent"))}
    theirs = beta_agent_toolset_20260401(AgentToolContext(workdir=str(tmp_path)))
    assert set(tools) == {tool.name for tool in theirs}
    for name, tool in tools.items():
        known = getattr(beta, f"BetaManagedAgentsAgentToolset20260401{name.title()}Input").model_fields
        definition: Any = tool.to_dict()
        assert set(definition["input_schema"]["properties"]) >= set(known), name

    async def main() -> list[Any]:
        read = await tools["read"].call({"file_path": "a.txt", "view_range": [2, 2]})
        await tools["read"].call({"file_path": "a.txt"})
        await tools["edit"].call({"file_path": "a.txt", "old_string": "two", "new_string": "2"})
        await tools["write"].call({"file_path": "b.txt", "content": "b\n"})
        ran = await tools["bash"].call({"command": "cat b.txt", "timeout_ms": 60000})
        with pytest.raises(ToolError, match="nowhere"):
            await tools["read"].call({"file_path": "nowhere"})
        return [*read, *ran]

    read, ran = asyncio.run(main())
    assert "two" in read["text"] and "three" not in read["text"]
    assert ran["text"] == "b"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n2\nthree\n"
