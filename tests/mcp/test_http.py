"""The HTTP door: the official client in both eras, who comes in and who does not, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from shlex import quote
from typing import Any

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from handrail import Session
from handrail.wire.mcp import drop_client_arguments
from tests.mcp.http_server import ERAS, TOKEN, Served, call, envelope, serving
from tests.mcp.stdio_client import text_of


@pytest.fixture(scope="module")
def served(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One door for the tests that leave nothing behind: a start takes longer than most of them."""
    state = tmp_path_factory.mktemp("state")
    with serving(str(shared), "--token", TOKEN, cwd=shared, state=state) as door:
        yield door


def texts(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.parametrize("era", ERAS)
def test_the_official_client_lists_and_calls_the_tools(
    served: Served, shared: Path, era: str, make_session: Callable[..., Session]
) -> None:
    (shared / "a.txt").write_text("one\ntwo\n", encoding="utf-8")

    async def use() -> tuple[Any, Any, Any, Any]:
        async with served.client(era) as client:
            listed = await client.list_tools()
            read = await client.call_tool("Read", {"file_path": "a.txt"})
            edit = await client.call_tool("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"})
            wrong = await client.call_tool("Read", {"file_path": "missing.txt"})
            assert era != "legacy" or "Use these tools" in (client.instructions or "")
            return listed, read, edit, wrong

    listed, read, edit, wrong = asyncio.run(use())
    tools = listed.tools
    assert era == "legacy" or (listed.ttl_ms, listed.cache_scope) == (300_000, "private")
    own = make_session(shared)
    assert {tool.name for tool in tools} <= {spec.name for spec in own.specs()}
    by_name = {tool.name: tool for tool in tools}
    assert by_name["Read"].annotations.read_only_hint and not by_name["Bash"].annotations.read_only_hint
    assert texts(read) == "1\tone\n2\ttwo" and not read.is_error and read.structured_content is None
    assert not edit.is_error and (shared / "a.txt").read_text(encoding="utf-8") == "one\n2\n"
    assert wrong.is_error and texts(wrong) == own.call("Read", {"file_path": "missing.txt"}).text


@pytest.mark.parametrize("era", ERAS)
def test_a_tool_that_is_not_offered_cannot_be_called(project: Path, era: str) -> None:
    async def use(door: Served) -> None:
        async with door.client(era) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["Read"]
            with pytest.raises(MCPError, match="unknown tool 'Write'; the tools are Read"):
                await client.call_tool("Write", {"file_path": "b.txt", "content": "x"})

    with serving(str(project), "--token", TOKEN, "--tools", "Read", cwd=project) as door:
        asyncio.run(use(door))
    assert not (project / "b.txt").exists()


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"]
)
def test_without_the_token_nothing_is_answered(served: Served, given: str) -> None:
    for method in ("GET", "POST", "DELETE", "PUT"):
        answer = httpx2.request(method, served.url, headers={"Authorization": given} if given else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer ")
        assert "one" not in answer.text
    assert served.post(call("LS"), **envelope("LS")).status_code == 200


def test_a_foreign_host_is_refused_even_with_the_token(served: Served) -> None:
    for host in ("evil.example", f"evil.example:{served.port}", "localhost:1", f"localhost:{served.port}.evil.example"):
        assert served.post(call("LS"), Host=host, **envelope("LS")).status_code == 421
    assert served.post(call("LS"), Host=f"LocalHost:{served.port}", **envelope("LS")).status_code == 200


def test_a_foreign_origin_is_refused_even_with_the_token(served: Served) -> None:
    for origin in ("http://evil.example", "null", f"https://127.0.0.1:{served.port}", "http://localhost:1"):
        assert served.post(call("LS"), Origin=origin, **envelope("LS")).status_code == 403
    assert served.post(call("LS"), Origin=f"http://localhost:{served.port}", **envelope("LS")).status_code == 200


def test_a_page_that_was_named_may_ask_from_a_browser(project: Path) -> None:
    page = "http://localhost:6274"
    with serving(str(project), "--token", TOKEN, "--allow-origin", page, cwd=project) as door:
        asked = {"Origin": page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "a"}
        before = httpx2.options(door.url, headers=asked)
        assert before.status_code == 200 and before.headers["access-control-allow-origin"] == page
        assert httpx2.options(door.url, headers={**asked, "Origin": "http://x.example"}).status_code == 400
        answer = door.post(call("LS"), Origin=page, **envelope("LS"))
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == page


def test_a_body_that_is_too_large_is_refused_and_the_server_lives(served: Served) -> None:
    assert served.post(b"x" * ((8 << 20) + 1)).status_code == 413
    assert served.post(iter([b"x" * (1 << 20)] * 9)).status_code == 413  # a length that is not declared
    large = call("Write", file_path="big.txt", content="y" * (5 << 20))
    assert served.post(large, **envelope("Write")).json()["result"]["isError"] is False


@pytest.mark.parametrize("body", [b"{", b"[]", b"nothing", b"\xff\xfe", b'{"jsonrpc":"2.0"}', b"[" * 100_000])
def test_malformed_messages_get_the_protocols_error(served: Served, body: bytes) -> None:
    for headers in ({}, envelope("LS")):
        answer = served.post(body, **headers)
        assert 400 <= answer.status_code < 500 and "error" in answer.json()
    assert served.post(call("LS"), **envelope("LS")).status_code == 200


def test_an_unknown_method_and_an_unknown_version_are_named_so(served: Served) -> None:
    unknown = call("LS") | {"method": "tools/dance"}
    answer = served.post(unknown, **{**envelope("LS"), "Mcp_Method": "tools/dance"})
    assert answer.json()["error"]["code"] == -32601
    wrong = served.post(call("LS"), **{**envelope("LS"), "MCP_Protocol_Version": "1999-01-01"})
    assert wrong.status_code == 400 and "error" in wrong.json()


def open_session(served: Served, token: str = TOKEN) -> dict[str, str]:
    """The headers of the calls in a session of the protocol."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    opened = served.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, token=token)
    headers = {"Mcp_Session_Id": opened.headers["mcp-session-id"], "MCP_Protocol_Version": "2025-11-25"}
    served.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, token=token, **headers)
    return headers


PLAIN = [
    ("Read", {"file_path": "plain.txt"}),
    ("Read", {"file_path": "missing.txt"}),
    ("Read", {"file_path": 7, "wait_for_previous": True}),
    ("LS", {}),
    ("Edit", {"file_path": "missing.txt", "old_string": "nowhere", "new_string": "x"}),
    ("Dance", {}),
]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("tool", "arguments"), PLAIN)
def test_a_call_is_answered_with_one_object_and_as_a_session_answers(
    served: Served,
    shared: Path,
    era: str,
    tool: str,
    arguments: dict[str, Any],
    make_session: Callable[..., Session],
) -> None:
    (shared / "plain.txt").write_text("one\n\u00e9 \U0001f600\n", encoding="utf-8")
    request = call(tool, **arguments)
    if era == "legacy":
        headers = open_session(served)
        del request["params"]["_meta"]
    else:
        headers = envelope(tool)
    expected = make_session(shared).call(tool, drop_client_arguments(arguments))
    for number in (1, "text"):
        answer = served.post({**request, "id": number}, **headers)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers.get("mcp-session-id") == headers.get("Mcp_Session_Id")
        assert answer.json()["id"] == number
        if tool == "Dance":
            assert answer.json()["error"]["code"] == -32602
            assert answer.status_code == (200 if era == "legacy" else 400)
        else:
            result = answer.json()["result"]
            assert text_of(result) == expected.text and result["isError"] is not expected.ok


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (406, {"Accept": "text/html"}),
        (415, {"Content-Type": "text/plain"}),
        (400, {"Mcp_Name": "Read"}),
        (400, {"Mcp_Method": "tools/list"}),
        (400, {"MCP_Protocol_Version": "2025-11-25"}),  # the versions with a handshake need a session
        (404, {"MCP_Protocol_Version": "2025-11-25", "Mcp_Session_Id": "invented"}),
        (200, {"Accept": "*/*"}),
        (200, {"Mcp_Name": "=?base64?TFM=?="}),
    ],
)
def test_a_request_has_the_headers_that_proxies_go_by(served: Served, status: int, headers: dict[str, str]) -> None:
    assert served.post(call("LS"), **{**envelope("LS"), **headers}).status_code == status


def test_only_posts_are_served(served: Served) -> None:
    sent = {"Authorization": f"Bearer {TOKEN}"}
    for method in ("GET", "PUT", "PATCH"):
        answer = httpx2.request(method, served.url, headers=sent)
        assert answer.status_code == 405 and answer.headers["allow"] == "POST, DELETE"
    assert httpx2.request("DELETE", served.url, headers=sent).status_code == 404


def test_no_call_is_made_in_a_session_that_has_ended(served: Served) -> None:
    headers, request = open_session(served), call("LS")
    del request["params"]["_meta"]
    assert [served.post(request, **headers).status_code for _ in range(2)] == [200, 200]
    sent = {"Authorization": f"Bearer {TOKEN}", **{name.replace("_", "-"): value for name, value in headers.items()}}
    assert httpx2.request("DELETE", served.url, headers=sent).status_code == 200
    assert served.post(request, **headers).status_code == 404


def test_a_call_needs_a_session_of_its_own_principal(two: tuple[Served, Path, Path]) -> None:
    door, request = two[0], call("LS")
    del request["params"]["_meta"]
    headers = open_session(door, "token-of-ann-0123456789")
    assert [door.post(request, "token-of-ann-0123456789", **headers).status_code for _ in range(2)] == [200, 200]
    assert door.post(request, "token-of-bob-0123456789", **headers).status_code == 404
    assert door.post(request, "token-of-ann-0123456789", Mcp_Session_Id="invented").status_code == 404
    assert door.post(request, "token-of-ann-0123456789").status_code == 400


# Several principals.


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path, Path]]:
    """One door for all tests of principals; who writes a file there has one of its own."""
    tmp_path = tmp_path_factory.mktemp("principals")
    ann, bob = tmp_path / "ann", tmp_path / "bob"
    for root in (ann, bob):
        root.mkdir()
        (root / "note.txt").write_text(f"the secret of {root.name}\n", encoding="utf-8")
    file = tmp_path / "principals.toml"
    digest = hashlib.sha256(b"token-of-bob-0123456789").hexdigest()
    file.write_text(
        f'[[principal]]\nname = "ann"\ntoken = "token-of-ann-0123456789"\nroot = "{ann}"\n\n'
        f'[[principal]]\nname = "bob"\ntoken_sha256 = "{digest}"\nroot = "{bob}"\nmode = "read-only"\n'
        'dialect = "claude"\n\n'
        f'[[principal]]\nname = "carl"\ntoken = "token-of-carl-0123456789"\nroot = "{ann}"\n',
        encoding="utf-8",
    )
    file.chmod(0o600)
    with serving("--principals", str(file), cwd=tmp_path, state=tmp_path_factory.mktemp("state")) as door:
        yield door, ann, bob


@pytest.mark.parametrize("era", ERAS)
def test_principals_do_not_see_each_others_root(two: tuple[Served, Path, Path], era: str) -> None:
    door, ann, bob = two

    async def use() -> list[Any]:
        actual = []
        for name, other in (("ann", bob), ("bob", ann)):
            async with door.client(era, f"token-of-{name}-0123456789") as client:
                own = {"ann": ann, "bob": bob}[name]
                actual.append(await client.call_tool("Read", {"file_path": str(own / "note.txt")}))
                for tool, arguments in (
                    ("Read", {"file_path": str(other / "note.txt")}),
                    ("Read", {"file_path": f"{own}/../{other.name}/note.txt"}),
                    ("Grep", {"pattern": "secret", "path": str(other)}),
                    ("Bash", {"command": f"cat {quote(str(other))}/note.txt"}),
                    ("Bash", {"command": f"cd {quote(str(other))} && cat *"}),
                ):
                    actual.append(await client.call_tool(tool, arguments))
        return actual

    actual = asyncio.run(use())
    assert [result.is_error for result in actual] == [False, True, True, True, True, True] * 2
    assert "the secret of ann" in texts(actual[0]) and "the secret of bob" in texts(actual[6])
    assert not any("the secret of" in texts(result) for result in actual if result.is_error)


def test_each_principal_has_its_own_mode_and_dialect(two: tuple[Served, Path, Path]) -> None:
    door, _, bob = two

    async def use() -> tuple[set[str], set[str], Any]:
        async with door.client("auto", "token-of-ann-0123456789") as client:
            first = {tool.name for tool in (await client.list_tools()).tools}
        async with door.client("auto", "token-of-bob-0123456789") as client:
            second = {tool.name for tool in (await client.list_tools()).tools}
            written = await client.call_tool("Write", {"file_path": str(bob / "b.txt"), "content": "x"})
        return first, second, written

    first, second, written = asyncio.run(use())
    assert first != second and written.is_error and not (bob / "b.txt").exists()


def test_what_one_principal_has_read_another_has_not_seen(two: tuple[Served, Path, Path]) -> None:
    door, ann, _ = two
    (ann / "both.txt").write_text("old\n", encoding="utf-8")

    async def use() -> tuple[Any, Any]:
        async with (
            door.client("auto", "token-of-ann-0123456789") as first,
            door.client("auto", "token-of-carl-0123456789") as second,
        ):
            await first.call_tool("Read", {"file_path": "both.txt"})
            arguments = {"file_path": "both.txt", "content": "new\n"}
            return await second.call_tool("Write", arguments), await first.call_tool("Write", arguments)

    unseen, seen = asyncio.run(use())
    assert unseen.is_error and not seen.is_error and (ann / "both.txt").read_text(encoding="utf-8") == "new\n"


def test_a_session_of_the_protocol_belongs_to_who_opened_it(two: tuple[Served, Path, Path]) -> None:
    door = two[0]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    opened = door.post(
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, token="token-of-ann-0123456789"
    )
    session = opened.headers["mcp-session-id"]
    listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for name, status in (("bob", 404), ("ann", 200)):
        answer = door.post(listing, token=f"token-of-{name}-0123456789", Mcp_Session_Id=session)
        assert answer.status_code == status


def test_many_edits_of_one_file_at_once_are_all_there(served: Served, shared: Path) -> None:
    (shared / "many.txt").write_text("".join(f"line {n}\n" for n in range(24)), encoding="utf-8")

    async def use() -> list[Any]:
        actual: list[Any] = []
        async with served.client("auto") as client:
            await client.call_tool("Read", {"file_path": "many.txt"})

            async def edit(n: int) -> None:
                arguments = {"file_path": "many.txt", "old_string": f"line {n}\n", "new_string": f"LINE {n}\n"}
                actual.append(await client.call_tool("Edit", arguments))

            async with anyio.create_task_group() as group:
                for n in range(24):
                    group.start_soon(edit, n)
        return actual

    actual = asyncio.run(use())
    assert [texts(result) for result in actual if result.is_error] == []
    assert (shared / "many.txt").read_text(encoding="utf-8") == "".join(f"LINE {n}\n" for n in range(24))
