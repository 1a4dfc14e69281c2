"""The HTTP door under clients that behave badly: limits that cannot be walked around, principals that stay apart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult

from handrail.mcp.http.principals import BadPrincipals, load, separating_rules
from handrail.model import Access
from handrail.policy.judge import RulePolicy
from handrail.workspace import Root
from tests.mcp.http_server import TOKEN, Served, call, envelope, serving
from tests.mcp.stdio_client import said


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


def test_a_call_that_hides_its_name_is_counted_like_any_other(project: Path) -> None:
    """The gate looks for the word before the body is parsed; JSON can write it in more than one way."""
    body = json.dumps(call("LS")).replace("tools/call", "tools\\/call").encode()

    async def use(door: Served) -> None:
        async with door.client("2026-07-28") as client, anyio.create_task_group() as group:
            command = "touch begun; until [ -e go ]; do sleep 0.1; done"
            group.start_soon(client.call_tool, "Bash", {"command": command, "timeout": 300})
            while not (project / "begun").exists():
                await anyio.sleep(0.05)
            answer = await anyio.to_thread.run_sync(lambda: door.post(body, **envelope("LS")))
            assert answer.json()["error"]["code"] == -32000
            (project / "go").touch()

    with serving(str(project), "--token", TOKEN, "--mode", "full", "--most-calls", "1", cwd=project) as door:
        asyncio.run(use(door))
        assert door.post(body, **envelope("LS")).json()["result"]["isError"] is False


@contextlib.contextmanager
def asking(project: Path) -> Iterator[Served]:
    with serving(str(project), "--token", TOKEN, "--mode", "ask", cwd=project) as door:
        yield door


def test_a_client_that_gives_up_while_a_person_is_asked_leaves_nothing_behind(project: Path) -> None:
    async def use(door: Served) -> Any:
        asked = anyio.Event()

        async def person(_: Any, params: Any) -> ElicitResult:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        async with door.client("legacy", elicitation_callback=person) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "Write", {"file_path": "new.txt", "content": "made\n"})
                await asked.wait()
                group.cancel_scope.cancel()
            return await client.call_tool("LS", {"path": "."})

    with asking(project) as door:
        assert not asyncio.run(use(door)).is_error
        assert door.end() == 0
    assert not (project / "new.txt").exists()


def test_the_server_ends_although_a_person_is_still_asked(project: Path) -> None:
    async def use(door: Served) -> None:
        asked = anyio.Event()

        async def person(_: Any, params: Any) -> ElicitResult:
            asked.set()
            await anyio.sleep_forever()
            raise AssertionError

        async with door.client("legacy", elicitation_callback=person) as client, anyio.create_task_group() as group:

            async def write() -> None:
                with contextlib.suppress(MCPError):
                    await client.call_tool("Write", {"file_path": "new.txt", "content": "made\n"})

            group.start_soon(write)
            await asked.wait()
            assert await anyio.to_thread.run_sync(lambda: door.end(signal.SIGTERM)) == 0
            group.cancel_scope.cancel()

    with asking(project) as door:
        asyncio.run(use(door))
    assert not (project / "new.txt").exists()


def test_a_workspace_that_is_gone_is_told_in_words(project: Path, tmp_path: Path) -> None:
    with serving(str(project), "--token", TOKEN, cwd=tmp_path) as door:
        shutil.rmtree(project)
        result = door.post(call("LS", path="."), **envelope("LS")).json()["result"]
    assert result["isError"] is True and "project" in said(result)


# Several principals.


def principals(tmp_path: Path, **roots: Path) -> Path:
    file = tmp_path / "principals.toml"
    tmp_path.mkdir(exist_ok=True)
    rows = []
    for name, root in roots.items():
        root.mkdir(parents=True, exist_ok=True)
        (root / "note.txt").write_text(f"the secret of {name}\n", encoding="utf-8")
        token = f"token-of-{name}-0123456789"
        rows.append(
            f'[[principal]]\nname = "{name}"\ntoken = "{token}"\nroot = {json.dumps(str(root))}\nmode = "full"\n'
        )
    file.write_text("\n".join(rows), encoding="utf-8")
    file.chmod(0o600)
    return file


def test_a_root_inside_the_root_of_another_principal_is_refused(tmp_path: Path) -> None:
    file = principals(tmp_path, ann=tmp_path / "srv", bob=tmp_path / "srv" / "bob")
    with pytest.raises(BadPrincipals, match="bob is inside that of ann"):
        load(str(file))


def test_the_file_of_principals_is_not_to_be_read_by_one_of_them(tmp_path: Path) -> None:
    """It may well lie in the root of one, and has the tokens of all."""
    file = principals(tmp_path / "ann", ann=tmp_path / "ann", bob=tmp_path / "bob")
    with serving("--principals", str(file), cwd=tmp_path) as door:
        for tool, arguments in (
            ("Read", {"file_path": "principals.toml"}),
            ("Grep", {"pattern": "token", "output_mode": "content"}),
            ("Bash", {"command": "cat principals.toml"}),
            ("Bash", {"command": "cat *.toml"}),
        ):
            answer = door.post(call(tool, **arguments), "token-of-ann-0123456789", **envelope(tool))
            assert "token-of-bob" not in answer.text, tool


@pytest.mark.parametrize("bob", ["bob", "b[o]b {x,y} *"])
def test_the_root_of_another_principal_is_hidden_from_commands_by_the_boundary(tmp_path: Path, bob: str) -> None:
    """Not only where a command names it: what a script opens, no rule can see."""
    other = tmp_path / bob
    known = load(str(principals(tmp_path, ann=tmp_path / "ann", bob=other)))
    policy = RulePolicy([Root(known.known[0].root)], "full", separating_rules(known.known[0], known))
    (Path(os.environ["HANDRAIL_STATE"]) / "journal").mkdir()
    hidden = [str(other), str(tmp_path / "principals.toml"), f"{os.environ['HANDRAIL_STATE']}/journal"]
    assert policy.unreadable(9) == hidden
    assert policy.judge([Access("read", str(other / "note.txt"), str(other / "note.txt"))]).decision == "deny"
