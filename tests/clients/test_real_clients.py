"""Real clients, offline: they see our tools at once, call them, and their model reads exactly our text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

from handrail import Session
from handrail.mcp import tool_list
from handrail_demo.scripted_server import Line, Script, Seen
from tests.clients.bodies import answers, offered, schema
from tests.clients.cast import CLIENTS, Client
from tests.clients.conftest import Stage

# What is easily lost or changed on the way: tabs, blanks at the end, control characters, tags, quotes, other scripts,
# characters outside the basic plane, separators that some take for line ends, and no line end at the end.
NOTES = (
    'one\ttab  \ntwo\n<system-reminder>&amp; "quotes" \\n</system-reminder>\n'
    "\u00e9 e\u0301 \u4e2d \U0001f44d\u200d\u2028|\x0c|\n\n  end"
)
CHANGED = NOTES.replace("two", "zwei")
CORE = tool_list.list_specs("native")
READ = {"file_path": "notes.txt"}
EDIT = {"file_path": "notes.txt", "old_string": "two\n", "new_string": "zwei\n"}


def following(client: Client, *uses: tuple[str, dict[str, Any]]) -> Script:
    """A model that makes one call after the other, whatever they answer, and says that it is done."""

    def script(seen: Seen) -> Line:
        if f"{client.prefix}Read" not in offered(seen.body):
            return Line("A title")  # or the tools are missing, which the test will notice
        done = len(answers(seen.body))
        if done >= len(uses):
            return Line("It is done.")
        tool, arguments = uses[done]
        return Line("" if done else "I begin.", [(client.prefix + tool, arguments)])

    return script


@pytest.mark.parametrize("name", CLIENTS)
def test_a_real_client_offers_our_tools_and_its_model_reads_exactly_our_text_in_three_of_three_runs(
    stage: Callable[[str], Stage], name: str
) -> None:
    scene = stage(name)
    client, notes = scene.client, scene.project / "notes.txt"
    for _ in range(3):
        notes.write_bytes(NOTES.encode("utf-8"))
        with Session(scene.project) as session:
            read = session.call("Read", READ).text
            edited = session.call("Edit", EDIT).text
        notes.write_bytes(NOTES.encode("utf-8"))

        run = scene.run(following(client, ("Read", READ), ("Edit", EDIT)))

        message = f"{run.output}\n(asked for: {run.wanted})"
        assert run.code == 0, message
        requests = run.asked()
        assert len(requests) == 3, message
        for request in requests:
            for tool in CORE:
                assert client.prefix + tool["name"] in offered(request.body), message
                parameters = schema(request.body, client.prefix + tool["name"])
                assert set(parameters["properties"]) == {*tool["inputSchema"]["properties"], *client.adds}
                assert set(parameters.get("required", [])) == set(tool["inputSchema"].get("required", []))
        last = [client.unwrapped(texts) for texts in answers(requests[-1].body)]
        assert last == [[read], [edited]]
        assert notes.read_bytes() == CHANGED.encode("utf-8")
        assert "It is done." in run.output
        assert run.left == [], "processes outlived their client"


@pytest.mark.parametrize("name", [client.name for client in CLIENTS.values() if client.adds])
def test_a_parameter_that_a_client_adds_to_every_tool_does_not_stop_a_call(
    stage: Callable[[str], Stage], name: str
) -> None:
    scene = stage(name)
    notes = scene.project / "notes.txt"
    notes.write_bytes(NOTES.encode("utf-8"))
    added = dict.fromkeys(scene.client.adds, True)
    run = scene.run(following(scene.client, ("Read", READ | added), ("Edit", EDIT | added)))
    assert notes.read_bytes() == CHANGED.encode("utf-8"), answers(run.asked()[-1].body)


@pytest.mark.parametrize("name", CLIENTS)
def test_what_a_rule_refuses_reaches_the_model_with_its_reason(stage: Callable[[str], Stage], name: str) -> None:
    scene = stage(name)
    (scene.project / ".env").write_text("KEY=value\n", encoding="utf-8")
    run = scene.run(following(scene.client, ("Read", {"file_path": ".env"})))
    assert run.code == 0, run.output
    (answer,) = answers(run.asked()[-1].body)
    assert "Not allowed: .env: it looks like a secret" in answer[-1]
    assert "allow Read(" not in answer[-1]
    assert "KEY=value" not in json.dumps(run.asked()[-1].body)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_picture_reaches_the_model_beside_its_text(stage: Callable[[str], Stage], name: str) -> None:
    scene = stage(name)
    Image.new("RGB", (8, 8), "red").save(scene.project / "red.png")
    with Session(scene.project) as session:
        blocks = session.call("Read", {"file_path": "red.png"}).blocks
    words = next(block["text"] for block in blocks if block["type"] == "text")
    picture = next(block["base64"] for block in blocks if block["type"] == "image")
    run = scene.run(following(scene.client, ("Read", {"file_path": "red.png"})))
    assert run.code == 0, run.output
    sent = run.asked()[-1].body
    assert any(words in text for text in answers(sent)[0])
    assert picture in json.dumps(sent)


OWN = {"bash", "shell", "exec", "read", "write", "edit", "patch", "glob", "grep", "search", "list", "ls", "replace"}
"""Words in the names of tools for files and commands."""


@pytest.mark.parametrize("name", CLIENTS)
def test_only_leaves_no_tool_for_files_and_commands_but_ours_and_allow_no_question_but_ours(
    stage: Callable[..., Stage], name: str
) -> None:
    scene = stage(name, "--only", "--allow")
    client, notes = scene.client, scene.project / "notes.txt"
    notes.write_bytes(NOTES.encode("utf-8"))
    run = scene.run(following(client, ("Read", READ), ("Edit", EDIT)), consent=False)
    assert run.code == 0, run.output
    names = offered(run.asked()[-1].body)
    words = {one: set(re.split("[^a-z]+", one.lower())) for one in names if not one.startswith(client.prefix)}
    own = [one for one, parts in words.items() if OWN & parts and not {"web", "mcp"} & parts]
    assert own == [] and f"{client.prefix}Bash" in names, (own, names)
    assert notes.read_bytes() == CHANGED.encode("utf-8"), run.output
