"""The examples of docs/integrations.md run as they stand there, against a model that follows a script."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.forked import run_python
from tests.integrations.scripted import chat, function, message, response, scripted

PAGE = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text(encoding="utf-8")
EDIT = {"file_path": "hello.txt", "old_string": "Hello", "new_string": "Goodbye"}
READ = {"file_path": "hello.txt"}
EDITOR = "str_replace_based_edit_tool"
DONE = "It is done."

CHAT = [chat(("Read", READ)), chat(("Edit", EDIT)), chat(text=DONE)]
RESPONSES = [response(function("Read", READ, "a")), response(function("Edit", EDIT, "b")), response(text=DONE)]
PATCH = {"type": "update_file", "path": "hello.txt", "diff": "@@\n-Hello\n+Goodbye\n"}
HOSTED = [
    {"type": "apply_patch_call", "id": "p", "call_id": "p", "status": "completed", "operation": PATCH},
    {"type": "shell_call", "id": "s", "call_id": "s", "status": "completed", "action": {"commands": ["cat hello.txt"]}},
]
SCRIPTS: dict[str, list[list[dict[str, Any]]]] = {
    "OpenAI Chat Completions": [CHAT],
    "OpenAI Responses": [RESPONSES, [response(*HOSTED), response(text=DONE)]],
    "Anthropic Messages": [
        [message(("Read", READ), ids="a"), message(("Edit", EDIT), ids="b"), message(text=DONE)],
        [
            message((EDITOR, {"command": "view", "path": "hello.txt"}), ids="a"),
            message(
                (EDITOR, {"command": "str_replace", "path": "hello.txt", "old_str": "Hello", "new_str": "Goodbye"}),
                ids="b",
            ),
            message(text=DONE),
        ],
    ],
    "OpenAI Agents SDK": [RESPONSES],
    "Pydantic AI": [CHAT],
}
"""By heading, for each block of Python, what the model says; the model then has changed hello.txt."""


def examples() -> list[Any]:
    collected = []
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        for number, code in enumerate(re.findall(r"^```python\n(.*?)^```", body, re.DOTALL | re.MULTILINE)):
            collected.append(pytest.param(heading, number, code, id=f"{heading} {number + 1}"))
    return collected


def run(code: str, folder: Path, url: str) -> str:
    """The example in a process of its own, with a server on loopback in place of the providers."""
    environment = {
        **os.environ,
        "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }
    done = run_python("-P", "-c", code, cwd=folder, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("heading", "number", "code"), examples())
def test_an_example_runs_as_it_stands(heading: str, number: int, code: str, tmp_path: Path) -> None:
    (tmp_path / "hello.txt").write_text("Hello\n", encoding="utf-8")
    script = SCRIPTS.get(heading, [])
    with scripted(*(script[number] if number < len(script) else [])) as server:
        output = run(code, tmp_path, server.url)
    if heading in SCRIPTS:
        assert output.splitlines()[-1] == DONE
        assert (tmp_path / "hello.txt").read_text(encoding="utf-8") == "Goodbye\n"
    elif heading == "Async":
        assert "+hello" in output and (tmp_path / "new.txt").read_text(encoding="utf-8") == "hello\n"
    elif heading == "Own tools":
        assert output.splitlines() == ["1", "hello.txt has a heading now.", "denied"]
        assert (tmp_path / "hello.txt").read_text(encoding="utf-8") == "# Greeting\n\nHello\n"
    elif heading == "Events":
        assert output.splitlines() == ["output: one", "output: two", "Bash ok"]
    elif heading == "Claude Agent SDK":
        assert "mcp__handrail__Edit" in output


def test_every_script_belongs_to_an_example() -> None:
    blocks = [example.values[0] for example in examples()]
    assert {heading: len(scripts) for heading, scripts in SCRIPTS.items()} == {
        heading: blocks.count(heading) for heading in SCRIPTS
    }
