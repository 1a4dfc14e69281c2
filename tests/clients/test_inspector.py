"""The MCP Inspector on its command line: it lists and calls every tool, on stdio and over HTTP, in both eras.

On stdio every call of the Inspector starts a server of its own, which has not read anything yet; over HTTP all of them
meet one server, so that a file that was read can be edited.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail.mcp import tool_list
from tests.mcp.http_server import TOKEN, serving
from tests.mcp.test_stdio_sdk import EVERY_TOOL, NOTEBOOK

ERAS = ["legacy", "modern"]
NAMES = [spec["name"] for spec in tool_list.list_specs("native", ["all"])]
OF_THIS_SERVER = {"NotebookEdit": "read it first", "Undo": "nothing to undo in this session"}
"""What a tool answers in a server that has not made the calls before it."""
TOOL_FAILED = 5
"""What the Inspector's command exits with when a result is marked as an error."""
NOT_LOGGED_IN = 3

Inspect = Callable[..., dict[str, Any]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (root / "n.ipynb").write_text(NOTEBOOK, encoding="utf-8")
    return root


@pytest.fixture
def inspect(program: Callable[[str], list[str]], project: Path, tmp_path: Path) -> Inspect:
    start = program("inspector")
    home = {"HOME": str(tmp_path), "HANDRAIL_STATE": os.environ["HANDRAIL_STATE"], "PATH": os.environ["PATH"]}

    def ask(server: list[str], *words: str, code: int = 0) -> dict[str, Any]:
        command = [*start, "--cli", "--format", "json", *words, *server]
        done = subprocess.run(
            command,
            cwd=project,
            env=home,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        answered: dict[str, Any] = json.loads(done.stdout or done.stderr.splitlines()[-1])
        return answered

    return ask


def on_stdio(*words: str) -> list[str]:
    return ["--", str(Path(sys.executable).with_name("handrail")), "mcp", "--tools", "all", "--mode", "full", *words]


@pytest.fixture
def over_http(project: Path) -> Iterator[list[str]]:
    with serving("--token", TOKEN, "--tools", "all", "--mode", "full", cwd=project) as served:
        yield ["--server-url", served.url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]


def called(inspect: Inspect, server: list[str], era: str, tool: str, arguments: dict[str, Any], **more: Any) -> Any:
    words = ["--protocol-era", era, "--method", "tools/call", "--tool-name", tool]
    result = inspect(server, *words, "--tool-args-json", json.dumps(arguments), **more)["result"]
    assert "structuredContent" not in result
    return result


def text_of(result: Any) -> str:
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_every_tool_and_finds_no_fault_with_a_schema(inspect: Inspect, era: str) -> None:
    listed = inspect(on_stdio(), "--protocol-era", era, "--method", "tools/list", "--strict")["result"]
    assert [tool["name"] for tool in listed["tools"]] == NAMES


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_calls_every_tool_on_stdio(inspect: Inspect, project: Path, era: str) -> None:
    for tool, arguments, expected in EVERY_TOOL:
        unread = tool == "NotebookEdit"
        result = called(inspect, on_stdio(), era, tool, arguments, code=TOOL_FAILED if unread else 0)
        assert result["isError"] is unread
        assert OF_THIS_SERVER.get(tool, expected) in text_of(result), tool
    # The job has ended with the server that had started it.
    for tool, arguments in (("BashInput", {"job": "job1", "text": "x"}), ("BashKill", {"job": "job1"})):
        gone = called(inspect, on_stdio(), era, tool, arguments, code=TOOL_FAILED)
        assert "job1" in text_of(gone)
    assert "no background" in text_of(called(inspect, on_stdio(), era, "BashOutput", {}))
    assert (project / "a.txt").read_text(encoding="utf-8") == "1\n2\n3\n"


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_lists_and_calls_every_tool_over_http(
    inspect: Inspect, over_http: list[str], project: Path, era: str
) -> None:
    listed = inspect(over_http, "--protocol-era", era, "--method", "tools/list")["result"]
    assert [tool["name"] for tool in listed["tools"]] == NAMES
    used = set()
    for tool, arguments, expected in EVERY_TOOL:
        result = called(inspect, over_http, era, tool, arguments)
        assert expected in text_of(result), tool
        used.add(tool)
    job = result["_meta"]["handrail/result"]["data"]["job"]
    for tool, arguments in (("BashInput", {"text": "hello\n"}), ("BashOutput", {}), ("BashKill", {})):
        called(inspect, over_http, era, tool, {"job": job, **arguments})
        used.add(tool)
    assert used == set(NAMES)
    assert (project / "a.txt").read_text(encoding="utf-8") == "1\n2\n3\n"


def test_the_inspector_with_a_wrong_token_is_told_to_log_in(inspect: Inspect, over_http: list[str]) -> None:
    wrong = [*over_http[:-1], "Authorization: Bearer wrong", "--stored-auth-only"]
    refused = inspect(wrong, "--method", "tools/list", code=NOT_LOGGED_IN)
    assert refused["error"]["code"] == "auth_required"
