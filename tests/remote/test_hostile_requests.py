"""Requests that a client makes up: a read-only server changes nothing, and no message ends a server."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail import Session, Settings
from handrail.pipeline.remote_server import _REQUESTS
from handrail.remote.client import Connection
from tests.drafts.machine import require_drafts
from tests.remote.conftest import Connect
from tests.sizes import pick

DRAFT = "mine"
WORDS = [*_REQUESTS, "open", "call", "page", "cancel", "answer", "ping", "nonsense", ""]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
WHICH = st.fixed_dictionaries(
    {},
    optional={
        "call": st.integers(1, 3) | JSON,
        "since": st.integers(1, 3) | JSON,
        "any_session": st.booleans(),
        "dry_run": st.booleans() | JSON,
    },
)
PARTS = {
    "draft": st.sampled_from(["", DRAFT, "other"]),
    "key": st.text("abc", min_size=1, max_size=3),
    "again": st.booleans(),
    "which": WHICH,
    "paths": st.lists(st.sampled_from(["b.txt", ".", "/"]), max_size=2),
    "tool": st.sampled_from(["Write", "Bash", "Trash", "Read"]),
    "arguments": st.sampled_from(
        [{"file_path": "a.txt", "content": "three"}, {"command": "rm a.txt"}, {"path": "a.txt"}]
    ),
    "restriction": st.just({"mode": "full", "rules": []}),
    "protocol": st.just(1),
    "dialect": st.just("native"),
    "client": st.text(max_size=3),
    "model": st.text(max_size=3),
}
GOOD = st.fixed_dictionaries({"do": st.sampled_from(WORDS)}, optional=PARTS)
BAD = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(PARTS, JSON) | {"do": JSON | st.sampled_from(WORDS), "id": JSON, "answer": JSON}
)
MANY = settings(max_examples=pick(60, 3000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ask(connection: Connection, message: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, after events and parts."""
    request = connection.start(message)
    try:
        while True:
            reply = request.next(60)
            if "value" in reply or "error" in reply:
                return reply
    finally:
        request.close()


def read_tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.fixture
def worked(tmp_path: Path) -> Path:
    """A workspace with changes that could be undone."""
    with Session(tmp_path, mode="full", settings=Settings(durable=False)) as session:
        for content in ("one", "two"):
            assert session.call("Write", {"file_path": "a.txt", "content": content}).ok
    return tmp_path


@pytest.fixture
def read_only(connect: Connect, serve: list[str], worked: Path) -> Connection:
    session: Any = connect([word if word != "full" else "read-only" for word in serve])
    connection: Connection = session._link.find_connection()
    return connection


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize(
    "which", [{}, {"call": 2}, {"since": 1}, {"any_session": True}, {"any_session": True, "dry_run": 1}]
)
def test_a_read_only_server_undoes_nothing(
    read_only: Connection, worked: Path, keyed: bool, which: dict[str, Any]
) -> None:
    message = {"do": "undo", "which": which} | ({"key": "k"} if keyed else {})
    assert "read-only" in ask(read_only, message)["error"]["text"]
    assert read_tree(worked) == {"a.txt": b"two"}
    shown = ask(read_only, {"do": "undo", "which": {"any_session": True, "dry_run": True}})
    assert [one["path"] for one in shown["value"]["restored"]] == [str(worked / "a.txt")]


def test_a_read_only_server_keeps_and_drops_no_draft(read_only: Connection, worked: Path) -> None:
    require_drafts()
    with Session(worked, mode="full", settings=Settings(durable=False)) as session:
        draft = session.draft(DRAFT)
        assert draft.session.call("Write", {"file_path": "b.txt", "content": "drafted"}).ok
        draft.close()
        for do in [do for do in _REQUESTS if do.startswith("draft ")]:
            for key in ({}, {"key": f"k {do}"}):
                answer = ask(read_only, {"do": do, "draft": DRAFT, "paths": [], **key})
                assert "read-only" in answer["error"]["text"]
        assert read_tree(worked) == {"a.txt": b"two"}
        assert [one.path for one in session.draft(DRAFT).changes()] == ["b.txt"]


def test_no_request_changes_the_files_of_a_read_only_server(read_only: Connection, worked: Path) -> None:
    @MANY
    @given(GOOD)
    def check(message: dict[str, Any]) -> None:
        if message["do"] in ("cancel", "answer", "ping"):
            read_only.send({"id": 1, **message})  # these have no answer
        else:
            ask(read_only, message)
        assert read_tree(worked) == {"a.txt": b"two"}

    check()


def test_no_message_ends_a_server(connect: Connect) -> None:
    session: Any = connect()
    connection = session._link.find_connection()

    @MANY
    @given(BAD)
    def check(message: dict[str, Any]) -> None:
        connection.send(message)

    check()
    assert len(ask(connection, {"do": "specs"})["value"]) == len(session.specs())
    assert session._link.find_connection() is connection and not connection.is_lost


NO_NUMBERS: list[Any] = [[1], {}, None, "1", 1.5, True, [[]]]
NO_REQUESTS: list[Any] = [None, [], {}, 3, ["specs"]]
MALFORMED = [
    *(json.dumps({"do": "specs", "id": number}).encode() for number in NO_NUMBERS),
    *(json.dumps({"do": do, "id": 1}).encode() for do in NO_REQUESTS),
    *(b"{}", b"[]", b"[1]", b"null", b"3", b'"x"', b"", b"{", b"\xff\xfe", b"[" * 30_000, b"9" * 5000),
]


def test_a_malformed_message_is_refused_and_the_next_is_answered(connect: Connect) -> None:
    session: Any = connect()
    connection = session._link.find_connection()
    for body in MALFORMED:
        connection._pipe.send_bytes(struct.pack(">IIB", len(body), 99, 1) + body)
        assert ask(connection, {"do": "specs"})["value"], body
        assert not connection.is_lost
