"""Promise 15: whatever the arguments are, a call ends in a result, and bad ones change nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handrail import Session, Settings, dialects
from handrail.model import Access, Verdict, as_json
from handrail.policy import AllowAll
from tests import sizes

CALLS = [(tool, dialect) for dialect in ("native", "claude") for tool in dialects.load(dialect).entries]
NAMES = {tool for tool, _ in CALLS}
KNOWN = sorted(
    {
        argument
        for dialect in ("native", "claude")
        for tool in dialects.load(dialect).entries
        for argument in dialects.load(dialect).spec(tool).schema["properties"]
    }
)
TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["a.txt", "b.ipynb", "sub", "one", "\0", "\ud800", "../x", "/", "~", "", "true", "null", "[]", "-1"]
    ),
    st.text(st.characters(categories=["Cs", "Cc", "Cf"]), max_size=5),
)
VALUE = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(min_value=-(10**30), max_value=10**30),
        st.floats(),
        TEXT,
        st.binary(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
EDITS = st.lists(
    st.dictionaries(st.sampled_from(["old_string", "new_string", "replace_all", "other"]), VALUE, max_size=4),
    max_size=3,
)
ARGUMENTS = st.one_of(
    VALUE,
    st.dictionaries(TEXT, VALUE, max_size=4),
    st.dictionaries(st.sampled_from([*KNOWN, "other", "file path"]), st.one_of(VALUE, EDITS), max_size=6),
)
FILES = {"a.txt": b"one\ntwo\n", "b.ipynb": b'{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'}
profile = settings(max_examples=sizes.pick(7, 150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


class NoCommands(AllowAll):
    """No text of the fuzzer's is run as a command."""

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        if any(access.action == "run" for access in accesses):
            return Verdict("deny", "test", "no commands here")
        return super().judge(accesses)


def in_session(dialect: str, act: Any) -> None:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place, "root")
        (root / "sub").mkdir(parents=True)
        for name, raw in FILES.items():
            (root / name).write_bytes(raw)
        options = Settings(durable=False, raise_bugs=True, state=str(Path(place, "state")), read_seconds=2.0)
        with Session(root, dialect=dialect, settings=options, policy=NoCommands()) as session:
            act(session, root)
        assert {path.name for path in Path(place).iterdir()} <= {"root", "state"}


def valid(tool: str, dialect: str) -> dict[str, Any]:
    """Arguments that the tool accepts."""
    needed = dialects.load(dialect).spec(tool).schema.get("required", [])
    wanted = {
        "file_path": "a.txt",
        "notebook_path": "b.ipynb",
        "content": "new\n",
        "old_string": "one",
        "new_string": "1",
        "new_source": "x",
        "patch": "*** Begin Patch\n*** Add File: c.txt\n+new\n*** End Patch\n",
        "edits": [{"old_string": "one", "new_string": "1"}],
        "pattern": "one",
        "replacement": "1",
        "command": "true",
        "code": "pass",
        "job": "job-1",
        "bash_id": "job-1",
        "shell_id": "job-1",
        "path": ".",
        "source_path": "a.txt",
        "target_path": "c.txt",
    }
    return {name: wanted[name] for name in needed}


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "dialect"), CALLS)
def test_no_arguments_make_a_call_raise(tool: str, dialect: str) -> None:
    @profile
    @given(arguments=ARGUMENTS)
    def check(arguments: Any) -> None:
        def act(session: Session, root: Path) -> None:
            result = session.call(tool, arguments)
            assert result.status in ("ok", "partial", "error", "denied")
            assert (result.error is None) == (result.status in ("ok", "partial"))
            assert (result.status == "partial") == bool(result.notes)
            json.dumps(as_json(result)).encode("utf-8")
            result.text.encode("utf-8")
            if result.status not in ("ok", "partial"):
                assert tree(root) == FILES

        in_session(dialect, act)

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "dialect"), CALLS)
def test_an_unknown_argument_is_refused_and_nothing_is_written(tool: str, dialect: str) -> None:
    known = set(dialects.load(dialect).spec(tool).schema["properties"])

    @settings(profile, max_examples=sizes.pick(7, 40))
    @given(name=TEXT.filter(lambda name: name not in known), value=VALUE)
    def check(name: str, value: Any) -> None:
        def act(session: Session, root: Path) -> None:
            for path in FILES:
                session.call("Read", {"file_path": str(root / path)})
            result = session.call(tool, {**valid(tool, dialect), name: value})
            assert result.error and result.error.code == "bad_arguments", result.text
            assert tree(root) == FILES

        in_session(dialect, act)

    check()


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "dialect"), CALLS)
def test_a_missing_argument_is_refused_by_name(tool: str, dialect: str) -> None:
    def act(session: Session, root: Path) -> None:
        for path in FILES:
            session.call("Read", {"file_path": str(root / path)})
        complete = valid(tool, dialect)
        for name in complete:
            result = session.call(tool, {key: value for key, value in complete.items() if key != name})
            assert result.error and result.error.code == "bad_arguments" and name in result.text
        everything = session.call(tool, {})
        assert all(name in everything.text for name in complete)
        assert tree(root) == FILES

    in_session(dialect, act)


@settings(profile, max_examples=sizes.pick(25, 200))
@given(text=st.one_of(st.text(max_size=40), VALUE.map(repr)))
def test_arguments_that_are_no_json_are_refused(text: str) -> None:
    def act(session: Session, root: Path) -> None:
        result = session.call("Write", text)
        assert result.error and result.error.code in ("bad_json", "bad_arguments")
        assert tree(root) == FILES

    in_session("native", act)


@settings(profile, max_examples=sizes.pick(25, 200))
@given(tool=st.one_of(st.text(max_size=20).filter(lambda name: name not in NAMES)), arguments=ARGUMENTS)
def test_an_unknown_tool_is_refused(tool: str, arguments: Any) -> None:
    def act(session: Session, root: Path) -> None:
        result = session.call(tool, arguments)
        assert result.error and result.error.code in ("unknown_tool", "bad_json")
        assert tree(root) == FILES

    in_session("native", act)
