"""The stdio door, frame by frame: both eras, what it offers, and what bad input gets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from handrail import dialects
from handrail.mcp import build_specs
from tests.command import handrail, surroundings
from tests.mcp.stdio_client import CAPABILITIES_KEY, VERSION_KEY, RawClient, envelope, text_of


@pytest.fixture
def client(tmp_path: Path) -> Iterator[RawClient]:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    with RawClient(str(tmp_path), cwd=tmp_path) as result:
        yield result


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_handshake_speaks_the_version_that_the_client_asks_for(client: RawClient, version: str) -> None:
    result = client.shake(version)
    assert result["protocolVersion"] == version
    assert result["capabilities"] == {"tools": {}}
    assert result["serverInfo"]["name"] == "handrail"
    assert "resultType" not in result
    assert client.ask("ping") == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "zzz"])
def test_a_handshake_in_another_version_is_answered_with_our_latest(client: RawClient, version: str) -> None:
    assert client.shake(version)["protocolVersion"] == "2025-11-25"


def test_the_new_era_needs_no_handshake(client: RawClient) -> None:
    actual = client.ask("server/discover", _meta=envelope())["result"]
    assert actual["supportedVersions"][0] == "2026-07-28"
    assert actual["resultType"] == "complete"
    assert actual["ttlMs"] >= 0 and actual["cacheScope"] == "private"
    listed = client.ask("tools/list", _meta=envelope())["result"]
    assert {"resultType", "ttlMs", "cacheScope", "tools"} <= set(listed)
    read = client.call("Read", envelope(), file_path="a.txt")
    assert "one" in text_of(read)
    assert read["resultType"] == "complete"
    assert read["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "handrail"


def test_an_unknown_version_in_the_new_era_is_told_what_is_spoken(client: RawClient) -> None:
    error = client.ask("tools/list", _meta={**envelope(), VERSION_KEY: "2031-01-01"})["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2031-01-01"
    assert "2026-07-28" in error["data"]["supported"]


@pytest.mark.parametrize(
    "meta", [{VERSION_KEY: "2026-07-28"}, {VERSION_KEY: 3, CAPABILITIES_KEY: {}}, {**envelope(), CAPABILITIES_KEY: []}]
)
def test_half_an_envelope_is_refused(client: RawClient, meta: dict[str, Any]) -> None:
    assert client.ask("tools/list", _meta=meta)["error"]["code"] == -32602


def test_who_has_not_said_a_version_is_told_how(client: RawClient) -> None:
    error = client.ask("tools/list")["error"]
    assert error["code"] == -32602
    assert "initialize" in error["message"] and VERSION_KEY in error["message"]
    client.shake()
    assert client.ask("tools/list")["result"]["tools"]


def test_the_offer_is_the_core_of_the_dialect_and_says_the_same(client: RawClient) -> None:
    client.shake()
    tools = client.ask("tools/list")["result"]["tools"]
    dialect = dialects.load("native")
    assert [tool["name"] for tool in tools] == [name for name in dialect.entries if name in dialect.core]
    for tool in tools:
        spec = dialect.spec(tool["name"])
        assert tool["description"] == spec.description
        assert tool["inputSchema"] == json.loads(json.dumps(spec.schema))
        assert tool["annotations"]["readOnlyHint"] is spec.hints.read_only
        assert tool["annotations"]["destructiveHint"] is spec.hints.destructive
        assert tool["annotations"]["idempotentHint"] is spec.hints.idempotent
        assert tool["annotations"]["openWorldHint"] is spec.hints.open_world
        assert tool["_meta"] == {"anthropic/alwaysLoad": True}
        assert "outputSchema" not in tool


def test_named_tools_are_offered_and_no_others(tmp_path: Path) -> None:
    with RawClient("--tools", "Read,MultiEdit", cwd=tmp_path) as client:
        client.shake()
        tools = {tool["name"]: tool for tool in client.ask("tools/list")["result"]["tools"]}
        assert list(tools) == ["Read", "MultiEdit"]
        assert "_meta" not in tools["MultiEdit"]
        error = client.ask("tools/call", name="Bash", arguments={"command": "true"})["error"]
        assert error["code"] == -32602 and "MultiEdit" in error["message"]


def test_all_tools_of_a_dialect_are_offered_when_asked_for(tmp_path: Path) -> None:
    with RawClient("--tools=all", "--dialect=claude", cwd=tmp_path) as client:
        client.shake()
        tools = client.ask("tools/list")["result"]["tools"]
    assert [tool["name"] for tool in tools] == list(dialects.load("claude").entries)


def test_the_folder_of_a_users_dialect_is_served(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    table = 'core = ["Look"]\n[tools.Look]\nid = "read"\n[tools.Ls]\nid = "ls"\n'
    (own / "tools.toml").write_text(table, encoding="utf-8")
    (own / "messages.toml").write_text("", encoding="utf-8")
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    with RawClient("--dialect", str(own), cwd=tmp_path) as client:
        client.shake()
        assert [tool["name"] for tool in client.ask("tools/list")["result"]["tools"]] == ["Look"]
        assert "one" in text_of(client.call("Look", file_path="a.txt"))


def test_a_result_is_text_for_the_model_and_data_for_machines(client: RawClient) -> None:
    client.shake()
    result = client.call("Read", file_path="a.txt")
    assert result["content"] == [{"type": "text", "text": "1\tone\n2\ttwo"}]
    assert result["isError"] is False
    assert "structuredContent" not in result
    assert result["_meta"]["handrail/result"]["data"]["total_lines"] == 2


def test_structured_results_are_sent_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    with RawClient("--structured", cwd=tmp_path) as client:
        client.shake()
        (read,) = [tool for tool in client.ask("tools/list")["result"]["tools"] if tool["name"] == "Read"]
        result = client.call("Read", file_path="a.txt")
        failed = client.call("Read", file_path="none.txt")
    jsonschema.validate(result["structuredContent"], read["outputSchema"])
    jsonschema.validate(failed["structuredContent"], read["outputSchema"])
    assert result["structuredContent"]["status"] == "ok"
    assert "one" in text_of(result)


def test_a_failure_of_a_tool_is_a_result_that_the_model_reads(client: RawClient) -> None:
    client.shake()
    result = client.call("Read", file_path="none.txt")
    assert result["isError"] is True
    assert "none.txt" in text_of(result)
    assert result["_meta"]["handrail/result"]["error"]["code"] == "not_found"


def test_an_image_comes_with_a_text_beside_it(tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    with RawClient(cwd=tmp_path) as client:
        client.shake()
        kinds = [block["type"] for block in client.call("Read", file_path="red.png")["content"]]
    assert sorted(kinds) == ["image", "text"]


def test_each_conversation_has_read_only_what_it_has_read(client: RawClient) -> None:
    client.shake()
    change = {"file_path": "a.txt", "content": "three\n"}
    assert client.call("Read", {"threadId": "first"}, file_path="a.txt")["isError"] is False
    assert client.call("Write", {"threadId": "second"}, **change)["isError"] is True
    assert client.call("Write", {"threadId": "first"}, **change)["isError"] is False


BAD = [
    (b"{not json", -32700),
    (b"\xff\xfe", -32700),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": {"x": NaN}}', -32700),
    (b"[" * 100_000, -32700),
    (b'[{"jsonrpc": "2.0", "id": 7, "method": "ping"}]', -32600),
    (b'"ping"', -32600),
    (b'{"id": 7, "method": "ping"}', -32600),
    (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 7}', -32600),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 7, "method": 3}', -32600),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": [1]}', -32602),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "resources/list"}', -32601),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call"}', -32602),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "Fly"}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "Read", "arguments": "x"}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"cursor": "x"}}', -32602),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {}}', -32602),
]


def test_bad_frames_get_the_protocols_error_and_the_server_lives(client: RawClient) -> None:
    client.shake()
    for frame, code in BAD:
        client.send(frame)
        answer = client.next()
        assert answer["error"]["code"] == code, frame[:80]
        id_known = b'"id": 7' in frame and code != -32700 and frame.startswith(b"{")
        assert answer["id"] == (7 if id_known else None), frame[:80]
    assert client.ask("ping")["result"] == {}
    assert "one" in text_of(client.call("Read", file_path="a.txt"))


def test_what_needs_no_answer_gets_none(client: RawClient) -> None:
    client.shake()
    client.notify("notifications/nobody/knows/this")
    client.notify("notifications/cancelled", requestId=12345)
    client.notify("notifications/cancelled", requestId=["?"])
    client.send({"jsonrpc": "2.0", "id": "handrail-99", "result": {}})
    client.send(b"")
    assert client.ask("ping")["result"] == {}
    assert client.aside == []


def test_a_frame_that_is_too_long_is_dropped_and_the_next_one_is_read(client: RawClient) -> None:
    client.shake()
    before = _kilobytes(client, "VmRSS")
    client.send(b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "x": "' + b"x" * (65 << 20) + b'"}')
    answer = client.next()
    assert answer["error"]["code"] == -32600 and answer["id"] is None
    assert "64 MB" in answer["error"]["message"]
    assert client.ask("ping")["result"] == {}
    assert _kilobytes(client, "VmHWM") - before < 250 * 1024


def _kilobytes(client: RawClient, field: str) -> int:
    status = Path(f"/proc/{client.process.pid}/status").read_text(encoding="utf-8")
    return int(status.partition(f"{field}:")[2].split()[0])


def test_a_large_frame_is_read_whole(client: RawClient, tmp_path: Path) -> None:
    client.shake()
    text = "é" * (5 << 20)
    assert client.call("Write", file_path="big.txt", content=text)["isError"] is False
    assert (tmp_path / "big.txt").read_text(encoding="utf-8") == text


def test_half_a_character_in_a_call_does_not_make_a_broken_frame(client: RawClient) -> None:
    client.shake()
    client.send(
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/call","params":{"name":"Read","arguments":{"file_path":"\\ud800"}}}'
    )
    answer = client.next()
    json.dumps(answer, ensure_ascii=False).encode("utf-8")
    assert answer["result"]["isError"] is True


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nowhere"], "nowhere"),
        (["--mode", "brave"], "brave"),
        (["--dialect", "klingon"], "klingon"),
        (["--tools", "Fly"], "Fly"),
        (["--frobnicate"], "frobnicate"),
        (["a", "b"], "b"),
        (["--mode"], "--mode"),
        (["--read-root", "nowhere"], "nowhere"),
    ],
)
def test_wrong_usage_is_said_on_stderr_and_stdout_stays_empty(words: list[str], why: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    done = handrail("mcp", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == b""
    assert why in done.stderr.decode("utf-8")
    assert b"Traceback" not in done.stderr


def test_help_names_every_option_that_is_read_quickly(tmp_path: Path) -> None:
    from handrail.cli import mcp
    from handrail.policy.modes import MODES

    done = handrail("mcp", "--help", cwd=tmp_path)
    assert done.returncode == 0
    for option in ("--dialect", "--mode", "--tools", "--root", "--read-root", "--structured"):
        assert option in done.stdout.decode("utf-8")
    for mode in MODES:
        quick = mcp.parse_quickly([".", "--mode", mode, "--root", "x", "--root=y"])
        assert quick and quick.mode == mode and quick.root == ["x", "y"]
    assert mcp.parse_quickly(["--mode", "brave"]) is None


def test_a_session_that_cannot_be_opened_is_said_to_the_model_and_on_stderr(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[settings]\nnonsense = 1\n", encoding="utf-8")
    with RawClient(cwd=tmp_path, variables={"HANDRAIL_CONFIG": str(config)}) as client:
        client.shake()
        assert client.ask("tools/list")["result"]["tools"]
        result = client.call("Read", file_path="config.toml")
        assert result["isError"] is True and "nonsense" in text_of(result)
        code, log = client.end()
    assert code == 0 and "nonsense" in log


def test_nothing_heavy_is_imported_before_the_tool_list_is_answered(tmp_path: Path) -> None:
    script = """
import sys, os, json
from handrail.mcp import tool_list
from handrail.mcp.stdio import channel, server
def opened(approve): raise SystemExit
source, feed = os.pipe()
drain, sink = os.pipe()
door = server.StdioServer(channel.Channel(source, sink), tool_list.list_specs("native"), ".", opened)
door._open_service = lambda: None
for name, params in (("initialize", {"protocolVersion": "2025-06-18"}), ("tools/list", {})):
    os.write(feed, json.dumps({"jsonrpc": "2.0", "id": name, "method": name, "params": params}).encode() + b"\\n")
os.close(feed)
door.run()
os.close(sink)
answers = [json.loads(line) for line in os.fdopen(drain)]
assert [answer["id"] for answer in answers] == ["initialize", "tools/list"], answers
assert answers[1]["result"]["tools"]
heavy = ["pydantic", "typing", "dataclasses", "argparse", "threading", "logging", "asyncio", "hashlib", "inspect",
         "handrail.pipeline.session", "handrail.dialects", "mcp"]
found = [name for name in heavy if name in sys.modules]
assert not found, found
"""
    build_specs.main([])  # as `make` does
    # -S leaves out what the environment's own start-up imports, such as an editable install.
    env = {**surroundings(), "PYTHONPATH": str(Path(dialects.HERE).parent.parent)}
    subprocess.run([sys.executable, "-S", "-c", script], cwd=tmp_path, check=True, env=env)
