"""Clients that start a server for every call, as LangChain's adapters do by default, and `llm`: they can edit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from handrail.journal.browse import CallFilter, read_page, read_source
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from tests.mcp.stdio_client import RawClient, text_of

POEM = "roses are red\nviolets are blue\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "poem.txt").write_text(POEM, encoding="utf-8")
    return tmp_path


def call(root: Path, tool: str, **arguments: Any) -> dict[str, Any]:
    """One call in a session of its own."""
    with RawClient("--mode", "full", cwd=root) as client:
        client.shake()
        return client.call(tool, **arguments)


def test_lines_that_were_read_in_another_session_can_be_edited(root: Path) -> None:
    assert "roses are red" in text_of(call(root, "Read", file_path="poem.txt"))
    answer = call(root, "Edit", file_path="poem.txt", old_string="roses are red", new_string="roses are pink")
    assert not answer["isError"] and "You have not read poem.txt" in text_of(answer)
    again = call(root, "Edit", file_path="poem.txt", old_string="violets are blue\n", new_string="violets\n")
    assert not again["isError"], text_of(again)
    assert (root / "poem.txt").read_text(encoding="utf-8") == "roses are pink\nviolets\n"


def test_the_server_says_where_it_works_and_to_use_its_tools(root: Path) -> None:
    with RawClient(cwd=root) as client:
        about = client.shake()["instructions"]
    assert f"The workspace is {root};" in about and "Use these tools" in about


def test_a_part_of_a_line_is_refused_with_a_way_that_works_without_a_session(root: Path) -> None:
    answer = call(root, "Edit", file_path="poem.txt", old_string="red", new_string="pink")
    assert answer["isError"] and "quote at least one whole line" in text_of(answer)
    assert call(root, "Write", file_path="poem.txt", content="other")["isError"]
    assert (root / "poem.txt").read_text(encoding="utf-8") == POEM


def test_the_journal_names_the_client(root: Path) -> None:
    call(root, "Read", file_path="poem.txt")
    with JournalReader(get_default_path(os.environ["HANDRAIL_STATE"])) as reader:
        assert read_page(reader, CallFilter(client="raw")).calls == [1]
        assert read_page(reader, CallFilter(client="cooked")).calls == []
        (row,) = reader.read_calls()
        assert read_source(reader, row.session) == ("raw", "")


@pytest.mark.parametrize(
    ("meta", "model"),
    [
        ({"x-codex-turn-metadata": {"model": "gpt-9"}, "model": "other"}, "gpt-9"),
        ({"model": "gpt-9"}, "gpt-9"),
        ({"x-codex-turn-metadata": "gpt-9"}, None),
        ({"x-codex-turn-metadata": {"model": ["gpt-9"]}, "model": 9}, None),
    ],
)
def test_the_journal_names_the_model_where_the_client_does(root: Path, meta: dict[str, Any], model: str | None) -> None:
    with RawClient("--mode", "full", cwd=root) as client:
        client.shake()
        number = client.begin("tools/call", name="Read", arguments={"file_path": "poem.txt"}, _meta=meta)
        assert not client.answer_to(number)["result"]["isError"]
    with JournalReader(get_default_path(os.environ["HANDRAIL_STATE"])) as reader:
        (row,) = reader.read_calls()
        assert read_source(reader, row.session)[1] == (model or "")
