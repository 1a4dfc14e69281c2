"""The OpenAI Agents SDK with its own model classes, against a scripted model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import agents
import openai

from handrail import Session
from handrail.integrations import openai_agents as export
from tests.integrations.scripted import Script, draw, function, response, scripted

Make = Callable[..., Session]
EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
UNREAD = {**EDIT, "old_string": "on"}
"""Refused while the file was not read: no whole line of it is quoted."""


def run(session: Session, *replies: dict[str, Any]) -> Script:
    async def main(url: str) -> str:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            model = agents.OpenAIResponsesModel("m", client)
            agent = agents.Agent(name="a", model=model, tools=[*export.tools(session)])
            config = export.run_config(session, tracing_disabled=True)
            return str((await agents.Runner.run(agent, "go", run_config=config)).final_output)

    with scripted(*replies, response(text="done")) as script:
        assert asyncio.run(main(script.url)) == "done"
    return script


def outputs(script: Script) -> list[Any]:
    return [one["output"] for one in script.requests[-1]["input"] if one.get("type") == "function_call_output"]


def test_the_model_gets_our_schemas_and_our_texts(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    steps: list[tuple[str, Any]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt"}),
        ("Read", '{"file'),
        ("Nope", {}),
    ]
    expected = [twin.call(name, arguments).text for name, arguments in steps]
    asked = [response(function(name, arguments, f"c{n}")) for n, (name, arguments) in enumerate(steps)]
    script = run(session, *asked, response(function("Edit", EDIT, "last")))
    assert [(one["name"], one["description"], one["parameters"]) for one in script.requests[0]["tools"]] == [
        (spec.name, spec.description, spec.schema) for spec in session.specs()
    ]
    assert outputs(script)[:4] == expected
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_pictures_reach_the_model(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    session = make_session()
    result = session.call("Read", {"file_path": "red.png"})
    (actual,) = outputs(run(session, response(function("Read", {"file_path": "red.png"}))))
    assert [part["type"] for part in actual] == ["input_text", "input_image"]
    assert actual[0]["text"] == result.text
    assert actual[1]["image_url"] == f"data:image/png;base64,{result.blocks[1]['base64']}"


def test_calls_of_one_turn_change_files_in_their_order(make_session: Make, tmp_path: Path) -> None:
    writes = [function("Write", {"file_path": "a.txt", "content": str(n)}, f"w{n}") for n in range(20)]
    script = run(make_session(), response(*writes, function("Read", {"file_path": "a.txt"}, "r")))
    assert len(outputs(script)) == 21 and "19" in outputs(script)[-1]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "19"
