"""A Pydantic AI agent with a scripted model: schemas, texts, pictures, errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import openai
from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from handrail import Session
from handrail.integrations.pydantic_ai import HandrailToolset
from tests.integrations.scripted import chat, draw, scripted

Make = Callable[..., Session]
EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
UNREAD = {**EDIT, "old_string": "on"}
"""Refused while the file was not read: no whole line of it is quoted."""


class Talk:
    """What an agent's model was told while it followed a script."""

    def __init__(self, session: Session, *turns: Sequence[tuple[str, Any]]) -> None:
        self.returns: list[Any] = []
        self.tools: list[Any] = []
        left = list(turns)

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            self.tools = info.function_tools
            parts = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
            self.returns += [part.content for part in parts]
            if not left:
                return ModelResponse([TextPart("done")])
            return ModelResponse([ToolCallPart(name, arguments) for name, arguments in left.pop(0)])

        agent = Agent(FunctionModel(model), toolsets=[HandrailToolset(session)])
        assert asyncio.run(agent.run("go")).output == "done"
        assert not left


def test_the_model_gets_our_schemas_and_our_texts(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    steps: list[tuple[str, Any]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt"}),
        ("Read", '{"file'),
        ("Read", "[1]"),
        ("Read", {"file_path": 7, "nonsense": 1}),
    ]
    expected = [twin.call(name, arguments).text for name, arguments in steps]
    talk = Talk(session, *([step] for step in steps), [("Edit", EDIT)])
    assert [(one.name, one.description, one.parameters_json_schema) for one in talk.tools] == [
        (spec.name, spec.description, spec.schema) for spec in session.specs()
    ]
    assert talk.returns[:5] == expected
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_pictures_are_returned_beside_the_text(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    session = make_session()
    ((text, picture),) = Talk(session, [("Read", {"file_path": "red.png"})]).returns
    result = session.call("Read", {"file_path": "red.png"})
    assert text == result.text
    assert isinstance(picture, BinaryContent) and picture.media_type == "image/png"
    assert picture.base64 == result.blocks[1]["base64"]


def test_calls_of_one_reply_change_files_in_their_order(make_session: Make, tmp_path: Path) -> None:
    writes = [("Write", {"file_path": "a.txt", "content": str(n)}) for n in range(20)]
    talk = Talk(make_session(), [*writes, ("Read", {"file_path": "a.txt"})])
    assert "19" in talk.returns[-1]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "19"


def test_an_unknown_tool_is_answered_by_the_framework_and_the_run_goes_on(make_session: Make) -> None:
    (answer,) = Talk(make_session(), [("Nope", {})]).returns
    assert "Nope" in str(answer)


def test_a_real_model_class_sends_errors_exactly_as_we_word_them(make_session: Make) -> None:
    session = make_session()

    async def main(url: str) -> None:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            model = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
            await Agent(model, toolsets=[HandrailToolset(session)]).run("go")

    with scripted(chat(("Read", {"file_path": "none"})), chat(text="done")) as script:
        asyncio.run(main(script.url))
    texts = [one["content"] for one in script.requests[-1]["messages"] if one["role"] == "tool"]
    assert texts == [session.call("Read", {"file_path": "none"}).text]
    assert [one["function"]["parameters"] for one in script.requests[0]["tools"]] == [s.schema for s in session.specs()]
