"""Specs and results as MCP: the shapes that every door sends, checked against the SDK's own types."""

from __future__ import annotations

import json
from typing import Any

import pytest

from handrail import dialects
from handrail.approval.answer_tokens import AnswerTokens
from handrail.mcp import build_specs, protocol, tool_list
from handrail.mcp.stdio.channel import Channel
from handrail.model import Failure, Note, Result
from handrail.wire import mcp

PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


def test_a_definition_says_what_the_spec_says() -> None:
    hints = {"read_only": False, "destructive": True, "idempotent": True, "open_world": False}
    schema = {"type": "object", "properties": {}}
    spec = {"name": "MultiEdit", "id": "x", "core": False, "hints": hints, "description": "d", "inputSchema": schema}
    assert mcp.build_definition(spec) == {
        "name": "MultiEdit",
        "title": "Multi edit",
        "description": "d",
        "inputSchema": schema,
        "annotations": {
            "title": "Multi edit",
            "readOnlyHint": False,
            "destructiveHint": True,
            "idempotentHint": True,
            "openWorldHint": False,
        },
    }
    assert mcp.build_definition({**spec, "core": True})["_meta"] == {"anthropic/alwaysLoad": True}


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("Read", "Read"),
        ("LS", "LS"),
        ("BashOutput", "Bash output"),
        ("read_file", "Read file"),
        ("str_replace_based_edit_tool", "Str replace based edit tool"),
        ("apply-patch", "Apply patch"),
        ("x", "X"),
        ("", ""),
    ],
)
def test_a_title_is_the_name_for_people(name: str, title: str) -> None:
    assert mcp.make_title(name) == title


@pytest.mark.parametrize("dialect", dialects.names())
@pytest.mark.parametrize("version", ["2025_11_25", "2026_07_28"])
def test_every_definition_of_every_dialect_is_one_by_the_sdks_types(dialect: str, version: str) -> None:
    pytest.importorskip("mcp_types", reason="the official SDK is an extra")
    from importlib import import_module

    types = import_module(f"mcp_types._v{version}")
    for spec in tool_list.list_specs(dialect, ["all"]):
        result = mcp.build_definition(spec)
        actual = types.Tool.model_validate(result)
        assert actual.name == spec["name"]
        assert actual.annotations.read_only_hint is spec["hints"]["read_only"]


def test_the_file_and_the_loaded_dialect_offer_the_same() -> None:
    build_specs.main([])
    for dialect in dialects.names():
        assert tool_list.list_specs(dialect, ["all"]) == tool_list._load_specs(dialect)


def test_a_result_keeps_the_text_for_the_model_apart_from_the_data() -> None:
    result = Result(
        "Read", "partial", "text", ({"type": "text", "text": "text"},), {"lines": 3}, (Note("cut", "more"),)
    )
    actual = mcp.call_result(result)
    assert actual["content"] == [{"type": "text", "text": "text"}]
    assert actual["isError"] is False
    assert "structuredContent" not in actual
    facts = actual["_meta"]["handrail/result"]
    assert facts["status"] == "partial"
    assert facts["data"] == {"lines": 3}
    assert facts["notes"] == [{"code": "cut", "text": "more"}]
    assert facts["error"] is None
    assert mcp.call_result(result, structured=True)["structuredContent"] == facts


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize("status", ["ok", "partial", "error", "denied"])
def test_no_field_holds_text_for_the_operator(status: Any, structured: bool) -> None:
    failure = None if status in ("ok", "partial") else Failure("denied", "no")
    result = Result("Read", status, "no", ({"type": "text", "text": "no"},), error=failure, advice="allow Read(a.txt)")
    assert "allow" not in json.dumps(mcp.call_result(result, structured))


@pytest.mark.parametrize("status", ["error", "denied"])
def test_what_failed_is_an_error_with_our_text(status: Any) -> None:
    result = mcp.call_result(Result("Read", status, "no", error=Failure("not_found", "no")))
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "no"}]
    assert result["_meta"]["handrail/result"]["error"] == {"code": "not_found"}


def test_a_text_always_stands_beside_an_image() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert mcp.build_content([{"type": "text", "text": "a picture"}, PICTURE], "") == [
        {"type": "text", "text": "a picture"},
        image,
    ]
    assert mcp.build_content([PICTURE], "") == [{"type": "text", "text": "(an image)"}, image]
    assert mcp.build_content([{"type": "text", "text": " "}, PICTURE, PICTURE], "") == [
        {"type": "text", "text": "(2 images)"},
        image,
        image,
    ]
    assert mcp.build_content([], "said") == [{"type": "text", "text": "said"}]
    assert mcp.build_content([], "") == [{"type": "text", "text": ""}]


def test_the_tool_that_does_not_exist_is_named_with_those_that_do() -> None:
    with pytest.raises(tool_list.NoSuchOffer, match=r"'Fly'.*Read"):
        tool_list.list_specs("native", ["Read", "Fly"])
    with pytest.raises(tool_list.NoSuchOffer, match="klingon"):
        tool_list.list_specs("klingon")
    with pytest.raises(tool_list.NoSuchOffer):
        tool_list.list_specs("../native")


def test_a_frame_is_one_line_of_ascii_and_well_formed() -> None:
    frame = protocol.encode({"a": "é\n\u2028", "b": "\ud83d", "c": "😀"})
    assert frame.isascii() and frame.count(b"\n") == 1 and frame.endswith(b"\n")
    assert json.loads(frame) == {"a": "é\n\u2028", "b": "\ufffd", "c": "😀"}


def test_frames_are_read_across_chunks_and_a_long_one_is_dropped() -> None:
    import os

    source, feed = os.pipe()
    _, sink = os.pipe()
    channel = Channel(source, sink, most=10)
    for part in (
        b"one\ntw",
        b"o\n\n  \n",
        b"x" * 11,
        b"y" * 40,
        b"\nthree\n",
        b"0123456789\n",
        b"01234567890\nend",
        b"\n",
    ):
        os.write(feed, part)
    os.write(feed, b"unfinished")
    os.close(feed)
    assert list(channel.frames()) == [b"one", b"two", None, b"three", b"0123456789", None, b"end", b"unfinished"]
    assert channel.is_read() is True


def test_a_channel_that_nobody_reads_says_so_and_ends() -> None:
    import os

    source, feed = os.pipe()
    drain, sink = os.pipe()
    channel = Channel(source, sink)
    os.close(drain)
    assert channel.is_read() is False
    channel.send({"a": 1})
    assert list(channel.frames()) == []  # although the other end of stdin is open
    os.close(feed)


def test_a_token_counts_once_and_only_for_the_question_it_was_issued_for() -> None:
    tokens = AnswerTokens()
    state = tokens.issue("Bash", {"command": "a"})
    assert not tokens.redeem(state, "Bash", {"command": "b"})
    assert not AnswerTokens().redeem(state, "Bash", {"command": "a"})
    assert tokens.is_genuine(state) and not AnswerTokens().is_genuine(state)
    for changed in (state + "x", "0" * 32 + state[32:], state[:40] + "x" + state[41:], "", ".", "..", "é.é.é", 3, None):
        assert not tokens.is_genuine(changed)
    assert not tokens.redeem(None, "Bash", {"command": "a"})
    assert not tokens.redeem("\ud800.\ud800", "Bash", {"command": "a"})
    assert tokens.redeem(state, "Bash", {"command": "a"})
    assert not tokens.redeem(state, "Bash", {"command": "a"})
