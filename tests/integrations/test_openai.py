"""OpenAI's SDK against a scripted model: schemas, texts, pictures, errors, and the hosted tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from handrail import Session
from handrail.integrations import openai as export
from tests.integrations.scripted import Script, chat, draw, function, response, scripted

Make = Callable[..., Session]
EDIT = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
UNREAD = {**EDIT, "old_string": "on"}
"""Refused while the file was not read: no whole line of it is quoted."""
BAD_JSON = '{"file_path": '


@contextmanager
def model(*replies: dict[str, Any]) -> Iterator[tuple[openai.OpenAI, Script]]:
    with (
        scripted(*replies) as script,
        openai.OpenAI(base_url=script.url, api_key="none", max_retries=0) as client,
    ):
        yield client, script


def talk(session: Session, *replies: dict[str, Any], hosted: bool = False) -> list[Any]:
    """A conversation with the Responses API; the input of its last request."""
    tools: Any = export.hosted_tools(session) if hosted else export.response_tools(session)
    messages: list[Any] = [{"role": "user", "content": "go"}]
    with model(*replies, response(text="done")) as (client, script):
        while True:
            answer = client.responses.create(model="m", input=messages, tools=tools)
            results = export.response_reply(session, answer.output)
            if not results:
                return list(script.requests[-1]["input"])
            messages += [*answer.output, *results]


def outputs(items: list[Any]) -> list[Any]:
    return [item for item in items if item.get("type", "").endswith("_output")]


def test_chat_completions_get_our_schemas_and_our_texts(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    seen: list[tuple[str, Any]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", EDIT),
        ("Read", BAD_JSON),
        ("Nope", {}),
    ]
    expected = [twin.call(name, arguments).text for name, arguments in seen[:2]]
    messages: list[Any] = [{"role": "user", "content": "go"}]
    with model(*(chat(one) for one in seen), chat(text="done")) as (client, script):
        for _ in seen:
            answer = client.chat.completions.create(model="m", messages=messages, tools=export.chat_tools(session))
            messages += [answer.choices[0].message, *export.chat_reply(session, answer.choices[0].message.tool_calls)]
        client.chat.completions.create(model="m", messages=messages)
    functions = [tool["function"] for tool in script.requests[0]["tools"]]
    assert functions == [
        {"name": spec.name, "description": spec.description, "parameters": spec.schema} for spec in session.specs()
    ]
    texts = [one["content"] for one in script.requests[-1]["messages"] if one["role"] == "tool"]
    assert texts[:2] == expected  # refused, since it was not read yet; then read
    assert texts[3] == twin.call("Read", BAD_JSON).text and texts[4] == twin.call("Nope").text
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"


def test_chat_completions_get_pictures_after_all_tool_messages(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    session = make_session()
    result = session.call("Read", {"file_path": "red.png"})
    asked = chat(("Read", {"file_path": "red.png"}), ("LS", {"path": "."}))
    with model(asked) as (client, _):
        calls = client.chat.completions.create(model="m", messages=[]).choices[0].message.tool_calls
    messages: list[Any] = export.chat_reply(session, calls)
    assert [one["role"] for one in messages] == ["tool", "tool", "user"]
    assert messages[0]["content"] == result.text
    url = messages[2]["content"][1]["image_url"]["url"]
    assert url == f"data:image/png;base64,{result.blocks[1]['base64']}"
    assert export.chat_reply(session, None) == []


def test_the_async_form_keeps_the_order_of_calls_that_change_files(make_session: Make, tmp_path: Path) -> None:
    session = make_session()
    steps = [{"file_path": "a.txt", "content": str(n)} for n in range(20)]

    async def main(url: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            answer = await client.chat.completions.create(model="m", messages=[])
            return list(await export.async_chat_reply(session, answer.choices[0].message.tool_calls))

    reads = [("Read", {"file_path": "a.txt"})] * 3
    with scripted(chat(*(("Write", step) for step in steps), *reads)) as script:
        messages = asyncio.run(main(script.url))
    assert [one["tool_call_id"] for one in messages] == [f"call_{n}" for n in range(1, 24)]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "19"
    assert all("19" in one["content"] for one in messages[-3:])


def test_the_responses_api_gets_our_schemas_texts_and_pictures(make_session: Make, tmp_path: Path) -> None:
    draw(tmp_path / "red.png")
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    session, twin = make_session(), make_session()
    steps: list[tuple[str, Any]] = [
        ("Edit", UNREAD),
        ("Read", {"file_path": "a.txt"}),
        ("Edit", EDIT),
        ("Read", BAD_JSON),
        ("Nope", {}),
    ]
    first = [twin.call(name, arguments).text for name, arguments in steps[:2]]
    picture = twin.call("Read", {"file_path": "red.png"})
    asked = [function(name, arguments, f"c{n}") for n, (name, arguments) in enumerate(steps)]
    actual = outputs(talk(session, *map(response, asked), response(function("Read", {"file_path": "red.png"}, "p"))))
    assert [one["call_id"] for one in actual] == ["c0", "c1", "c2", "c3", "c4", "p"]
    assert [one["output"] for one in actual[:2]] == first
    assert [one["output"] for one in actual[3:5]] == [twin.call("Read", BAD_JSON).text, twin.call("Nope").text]
    assert actual[5]["output"] == [
        {"type": "input_text", "text": picture.text},
        {"type": "input_image", "image_url": f"data:image/png;base64,{picture.blocks[1]['base64']}"},
    ]
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n"
    tools: Any = export.response_tools(session)
    assert [(one["name"], one["parameters"]) for one in tools] == [(s.name, s.schema) for s in session.specs()]


def patch(kind: str, path: str, diff: str | None = None, call: str = "p1") -> dict[str, Any]:
    operation = {"type": kind, "path": path} | ({} if diff is None else {"diff": diff})
    return {"type": "apply_patch_call", "id": call, "call_id": call, "status": "completed", "operation": operation}


def shell(*commands: str, **action: Any) -> dict[str, Any]:
    asked = {"type": "shell_call", "id": "s", "call_id": "s1", "status": "completed"}
    return {**asked, "action": {"commands": list(commands), **action}}


def local(*command: str, **action: Any) -> dict[str, Any]:
    asked = {"type": "local_shell_call", "id": "l", "call_id": "l1", "status": "completed"}
    return {**asked, "action": {"type": "exec", "command": list(command), "env": {}, **action}}


def test_hosted_patches_create_update_and_delete_files(make_session: Make, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ntwo\n", encoding="utf-8")
    (tmp_path / "gone.txt").write_text("x\n", encoding="utf-8")
    steps = [
        patch("create_file", "new.txt", "+hello\n+\n+there\n", "p1"),
        patch("update_file", "a.txt", "@@\n one\n \n-two\n+three\n", "p2"),
        patch("delete_file", "gone.txt", None, "p3"),
        patch("update_file", "a.txt", "@@\n-nowhere\n+x", "p4"),
        patch("create_file", "empty.txt", "", "p5"),
    ]
    actual = outputs(talk(make_session(dialect="codex"), response(*steps), hosted=True))
    assert [one["status"] for one in actual] == ["completed", "completed", "completed", "failed", "completed"]
    assert {one["type"] for one in actual} == {"apply_patch_call_output"}
    assert actual[0]["output"] == "Success. Updated the following files:\nA new.txt"
    assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "hello\n\nthere\n"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n\nthree\n"
    assert (tmp_path / "empty.txt").read_bytes() == b""
    assert not (tmp_path / "gone.txt").exists()


@pytest.mark.parametrize(
    ("path", "diff"),
    [("b.txt", "+b\n*** Delete File: a.txt"), ("b.txt\n+b\n*** Delete File: a.txt", "+b"), ("../b.txt", "+b")],
)
def test_a_hosted_patch_reaches_no_file_but_its_own(make_session: Make, tmp_path: Path, path: str, diff: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("a\n", encoding="utf-8")
    (one,) = outputs(talk(make_session(root, "codex"), response(patch("create_file", path, diff)), hosted=True))
    assert one["status"] == "failed" and one["output"]
    assert [actual.name for actual in root.iterdir()] == ["a.txt"] and not (tmp_path / "b.txt").exists()


def test_hosted_shell_calls_say_how_each_command_ended(make_session: Make, tmp_path: Path) -> None:
    session = make_session(dialect="codex")
    commands = ["echo hi > a.txt; echo out", "exit 3", "rm -rf /", "kill -9 $$", "("]
    (one,) = outputs(talk(session, response(shell(*commands, max_output_length=500)), hosted=True))
    assert one["type"] == "shell_call_output" and one["call_id"] == "s1" and one["max_output_length"] == 500
    printed = one["output"][0].pop("stdout")
    assert printed.startswith("out") and one["output"][0] == {"stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    assert [part["outcome"]["exit_code"] for part in one["output"]] == [0, 3, 126, 137, 126]
    refused = session.call("shell", {"command": ["bash", "-lc", "rm -rf /"]}).text
    assert one["output"][2]["stderr"] == refused and one["output"][2]["stdout"] == ""
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "hi\n"


def test_a_hosted_shell_call_that_takes_too_long_is_a_timeout(make_session: Make) -> None:
    asked = response(shell("sleep 600", timeout_ms=200))
    (one,) = outputs(talk(make_session(dialect="codex"), asked, hosted=True))
    assert one["output"][0]["outcome"] == {"type": "timeout"}
    assert "max_output_length" not in one


def test_local_shell_calls_keep_directory_and_variables_and_refuse_another_user(
    make_session: Make, tmp_path: Path
) -> None:
    (tmp_path / "sub").mkdir()
    session = make_session(dialect="codex")
    asked = local("bash", "-c", "echo $GREETING; pwd", env={"GREETING": "good day"}, working_directory="sub")
    (one,) = outputs(talk(session, response(asked), hosted=True))
    assert one["type"] == "local_shell_call_output" and one["id"] == one["call_id"] == "l1"
    assert one["output"].splitlines() == ["good day", str(tmp_path / "sub")]
    (one,) = outputs(talk(session, response(local("touch", "x", user="root")), hosted=True))
    assert one["output"].startswith("Not run") and not (tmp_path / "x").exists()


def test_hosted_tools_are_offered_by_their_types_and_need_their_dialect(make_session: Make) -> None:
    with pytest.raises(ValueError, match="codex"):
        export.hosted_tools(make_session())
    assert [one["type"] for one in export.hosted_tools(make_session(dialect="codex"))] == ["apply_patch", "shell"]


def test_the_async_form_of_the_responses_api_gives_the_same(make_session: Make, tmp_path: Path) -> None:
    session = make_session(dialect="codex")
    with model(response(patch("create_file", "a.txt", "+a"), shell("cat a.txt"), text="hm")) as (client, _):
        answer = client.responses.create(model="m", input="go")
    result: list[Any] = asyncio.run(export.async_response_reply(session, answer.output))
    assert [one["type"] for one in result] == ["apply_patch_call_output", "shell_call_output"]
    assert result[1]["output"][0]["stdout"] == "a"
