"""The HTTP door under clients that behave badly: limits that cannot be walked around, principals that stay apart."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
import uvicorn
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult
from uvicorn.server import ServerState

from handrail.mcp.http.access import AccessCheck
from handrail.mcp.http.connections import TimedConnection
from handrail.mcp.http.principals import BadPrincipals, Principal, Principals, hash_token, load, make_separating_rules
from handrail.model import FileAccess
from handrail.policy.judge import RulePolicy
from handrail.workspace import Root
from tests.command import TIMEOUT
from tests.mcp.http_server import TOKEN, Served, call, envelope, need_hiding_sandbox, serving
from tests.mcp.stdio_client import text_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.mark.usefixtures("without_drafts")
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
    assert result["isError"] is True and "project" in text_of(result)


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
        load(str(file), str(tmp_path / "state"))


def test_the_file_of_principals_is_not_to_be_read_by_one_of_them(tmp_path: Path) -> None:
    """It may well lie in the root of one, and has the tokens of all."""
    file = principals(tmp_path / "ann", ann=tmp_path / "ann", bob=tmp_path / "bob")
    need_hiding_sandbox(tmp_path / "ann")
    with serving("--principals", str(file), cwd=tmp_path) as door:
        for tool, arguments in (
            ("Read", {"file_path": "principals.toml"}),
            ("Grep", {"pattern": "token", "output_mode": "content"}),
            ("Bash", {"command": "cat principals.toml"}),
            ("Bash", {"command": "cat *.toml"}),
        ):
            answer = door.post(call(tool, **arguments), "token-of-ann-0123456789", **envelope(tool))
            assert "token-of-bob" not in answer.text, tool


def test_one_principal_cannot_take_the_sessions_of_another(tmp_path: Path) -> None:
    file = principals(tmp_path, ann=tmp_path / "ann", bob=tmp_path / "bob")
    text = file.read_text(encoding="utf-8").replace('mode = "full"', 'tools = ["Read"]')
    file.write_text(text, encoding="utf-8")
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}},
    }
    with serving("--principals", str(file), cwd=tmp_path) as door, httpx2.Client(timeout=TIMEOUT) as http:

        def begin(name: str) -> httpx2.Response:
            headers = {
                "Authorization": f"Bearer token-of-{name}-0123456789",
                "Accept": "application/json, text/event-stream",
            }
            return http.post(door.url, json=hello, headers=headers)

        answers = [begin("ann") for _ in range(130)]
        assert [answer.status_code for answer in answers] == [200] * 128 + [503] * 2
        bobs = begin("bob")
        assert bobs.status_code == 200
        headers = {"Authorization": "Bearer token-of-ann-0123456789", "Mcp-Session-Id": bobs.headers["mcp-session-id"]}
        assert http.delete(door.url, headers=headers).status_code == 404


@pytest.mark.parametrize("second", [TOKEN, "another-token-0123456789", ""])
def test_two_authorization_headers_are_refused(second: str) -> None:
    """A proxy and this server could each believe another one of them."""
    known = Principals([Principal("owner", hash_token(TOKEN), "/")])
    passed: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        passed.append(scope)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    check = AccessCheck({"owner": app}, known, ["server:1"], [], lambda _: False)

    async def status(*tokens: str) -> int:
        sent: list[Any] = []
        headers = [(b"host", b"server:1"), *((b"authorization", f"Bearer {one}".encode()) for one in tokens)]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        await check(scope, receive, send)
        return int(sent[0]["status"])

    assert anyio.run(status, TOKEN) == 204 and len(passed) == 1
    assert anyio.run(status, TOKEN, second) == anyio.run(status, second, TOKEN) == 400 and len(passed) == 1


PIECES = [
    b"",
    b"P",
    b"POST /mcp HTTP/1.1\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf",
    b"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\nGET /mcp HT",
]


@pytest.mark.parametrize("sent", PIECES)
def test_a_connection_with_half_a_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedConnection, "seconds", 0.2)

    async def app(_: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async def use() -> bytes:
        config = uvicorn.Config(app, http=TimedConnection, timeout_keep_alive=600, lifespan="off")
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        async with await loop.create_server(lambda: TimedConnection(config, state, {}), "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(sent)
            received = b""
            with contextlib.suppress(ConnectionResetError):
                received = await asyncio.wait_for(reader.read(), TIMEOUT)
            writer.close()
            return received

    answer = asyncio.run(use())
    assert answer.count(b"204") <= sent.count(b"GET /mcp HTTP/1.1\r\nHost")


def test_an_answer_may_take_longer_than_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TimedConnection, "seconds", 0.05)

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 204})
        await send({"type": "http.response.body"})

    async def use() -> bytes:
        config = uvicorn.Config(app, http=TimedConnection, lifespan="off")
        config.load()
        state, loop = ServerState(), asyncio.get_running_loop()
        async with await loop.create_server(lambda: TimedConnection(config, state, {}), "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            received = await asyncio.wait_for(reader.read(), TIMEOUT)
            writer.close()
            return received

    assert asyncio.run(use()).startswith(b"HTTP/1.1 204")


@pytest.mark.parametrize("bob", ["bob", "b[o]b {x,y} *"])
def test_the_root_of_another_principal_is_hidden_from_commands_by_the_boundary(tmp_path: Path, bob: str) -> None:
    """Not only where a command names it: what a script opens, no rule can see."""
    other = tmp_path / bob
    known = load(str(principals(tmp_path, ann=tmp_path / "ann", bob=other)), os.environ["HANDRAIL_STATE"])
    policy = RulePolicy([Root(known.known[0].root)], "full", make_separating_rules(known.known[0], known))
    (Path(os.environ["HANDRAIL_STATE"]) / "journal").mkdir()
    hidden = [str(other), str(tmp_path / "principals.toml"), f"{os.environ['HANDRAIL_STATE']}/journal"]
    assert policy.unreadable() == hidden
    assert policy.judge([FileAccess("read", str(other / "note.txt"), str(other / "note.txt"))]).decision == "deny"


ANN, BOB = "token-of-ann-0123456789", "token-of-bob-0123456789"
HOSTS: tuple[list[str], ...] = (
    ["server:1"],
    [],
    ["evil.example"],
    ["server:1", "evil.example"],
    ["server:1.evil.example"],
    ["server"],
    ["SERVER:1"],
)
ORIGINS: tuple[list[str], ...] = (
    [],
    ["http://evil.example"],
    ["null"],
    ["http://page", "http://evil.example"],
    ["http://page"],
)
TOKENS: tuple[list[str], ...] = (
    *([f"Bearer {ANN}"], [f"bearer  {ANN} "], [f"Bearer {ANN}", f"Bearer {BOB}"], [f"Bearer {BOB}", f"Bearer {ANN}"]),
    *(
        [f"Bearer {ANN}, Bearer {BOB}"],
        [f"Bearer {ANN},{BOB}"],
        [f"Basic {ANN}"],
        [ANN],
        [],
        [""],
        ["Bearer"],
        ["Bearer "],
    ),
    *([f"Bearer {ANN[:-1]}"], [f"Bearer {ANN}0"], [f"Bearer {ANN.upper()}"], [f"Bearer {ANN}\0"], [f"Token {ANN}"]),
    *([f"Bearer {ANN}", ""], [f"Bearer {ANN}", f"Bearer {ANN}"], [f"Bearer\t{ANN}"]),
)


def test_no_request_reaches_a_principal_but_by_its_own_token_host_and_origin() -> None:
    cases = list(itertools.product(HOSTS, ORIGINS, TOKENS))
    assert len(cases) >= 200
    known = Principals([Principal(name, hash_token(token), "/") for name, token in (("ann", ANN), ("bob", BOB))])
    reached: list[str] = []

    def make_app(name: str) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            reached.append(name)
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        return app

    apps = {name: make_app(name) for name in ("ann", "bob")}
    check = AccessCheck(apps, known, ["server:1"], ["http://page"], lambda _: False)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def status(hosts: list[str], origins: list[str], tokens: list[str]) -> int:
        sent: list[Any] = []
        named = [("host", hosts), ("origin", origins), ("authorization", tokens)]
        headers = [(name.encode(), value.encode("latin-1")) for name, values in named for value in values]

        async def send(message: Any) -> None:
            sent.append(message)

        await check({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
        return int(sent[0]["status"])

    for hosts, origins, tokens in cases:
        del reached[:]
        right = len(hosts) == 1 and hosts[0].lower() == "server:1" and origins in ([], ["http://page"])
        right = right and tokens in ([f"Bearer {ANN}"], [f"bearer  {ANN} "])
        answer = anyio.run(status, hosts, origins, tokens)
        assert (answer, reached) == (204, ["ann"]) if right else answer in (400, 401, 403, 421) and not reached
