"""Wrong values in the public API: each is answered at once, with the option, the value, and what would be right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from handrail import (
    Access,
    AllowAll,
    Answer,
    AsyncSession,
    CannotUndo,
    Result,
    Root,
    Session,
    Setup,
    UnknownCall,
    Verdict,
    dialects,
    open_model,
    parse_rules,
)
from handrail.agent.providers import APIS
from handrail.policy.modes import MODES

ODD: tuple[Any, ...] = (3, 0, True, "x", "", b"x", object(), {"a": 1}, ["x"], [None], AllowAll, 1.5)
OPTIONS = ("root", "dialect", "policy", "mode", "approve", "journal", "settings", "setup", "roots", "rules", "on_event")
IN_SETUP = ("roots", "rules", "on_event")
ALSO_RIGHT = {("approve", AllowAll), ("on_event", AllowAll)}
"""A class can be called, so that it may serve as a function."""


def cases() -> list[Any]:
    return [
        pytest.param(option, value, id=f"{option}-{value!r:.20}")
        for option in OPTIONS
        for value in ODD
        if not any(option == name and value is right for name, right in ALSO_RIGHT)
    ]


@pytest.mark.parametrize(("option", "value"), cases())
@pytest.mark.parametrize("opened", [Session, AsyncSession.open], ids=["Session", "AsyncSession"])
def test_an_option_with_a_wrong_value_is_refused_by_name(
    option: str, value: Any, opened: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=rf"\b{option}\b") as refused:
        opened(**{"root": tmp_path, **({"setup": Setup(**{option: value})} if option in IN_SETUP else {option: value})})
    actual = value[0] if isinstance(value, list) and option in ("roots", "rules") else value
    assert repr(actual)[:40] in str(refused.value)


def refused(*words: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        Session(**options)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_root_must_be_a_directory_that_exists(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    for wrong in (tmp_path / "none", tmp_path / "file", "\0", f"{tmp_path}/none"):
        refused("root", "path of an existing directory", repr(wrong)[:60], root=wrong)
    with Session(str(tmp_path)), Session(tmp_path, setup=Setup(roots=[Root(str(tmp_path), writable=False)])):
        pass


def test_the_right_values_are_listed(tmp_path: Path) -> None:
    refused("yolo", *MODES, root=tmp_path, mode="yolo")
    refused("nope", *dialects.names(), root=tmp_path, dialect="nope")
    refused(*dialects.names(), root=tmp_path, dialect=3)
    refused("auto", "require", "None", root=tmp_path, journal="x")
    refused("Root(", root=tmp_path, setup=Setup(roots=["x"]))  # type: ignore[list-item]
    refused("parse_rules", root=tmp_path, setup=Setup(rules=["deny Read"]))  # type: ignore[list-item]
    refused("judge", "Verdict", "AllowAll()", root=tmp_path, policy=object())
    refused("Question", "Answer", root=tmp_path, approve="x")


def test_a_policy_and_a_mode_or_rules_exclude_each_other(tmp_path: Path) -> None:
    refused("either a policy", root=tmp_path, policy=AllowAll(), mode="ask")
    refused("either a policy", root=tmp_path, policy=AllowAll(), setup=Setup(rules=[parse_rules("")]))


def test_another_mode_must_exist(tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        with pytest.raises(ValueError, match=r"yolo.*read-only, ask, accept-edits, full, deny-asks"):
            session.set_mode("yolo")  # type: ignore[arg-type]
        assert session.call("LS", {"path": "."}).status == "ok"


@pytest.mark.parametrize("tool", [123, None, b"Read", "", "Reed", ("Read",), "\ud800"])
def test_a_tool_that_does_not_exist_is_answered_with_those_that_do(tool: Any, tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        result = session.call(tool)
    assert result.status == "error" and result.error and result.error.code == "unknown_tool"
    assert all(spec in result.text for spec in ("Read", "Edit", "Bash"))


@pytest.mark.parametrize("arguments", [5, ["a"], "[]", "{", '"x"', True, b"{}"])
def test_arguments_that_are_no_object_are_answered(arguments: Any, tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        result = session.call("Read", arguments)
    assert result.status == "error" and "JSON object" in result.text


@pytest.mark.parametrize("asked", [{"call": "nope"}, {"since": "nope"}, {"call": 10**9}, {"session": "nope"}])
def test_an_undo_of_a_call_that_does_not_exist_says_where_they_are_listed(asked: Any, tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.call("LS", {"path": "."})
        with pytest.raises(UnknownCall, match=r"unknown (call|session) .*; `handrail log` lists the calls"):
            session.undo(**asked)
        with pytest.raises(UnknownCall, match="nothing to undo"):
            session.undo()


def test_an_undo_without_a_journal_says_so(tmp_path: Path) -> None:
    with Session(tmp_path, journal=None) as session, pytest.raises(CannotUndo, match="has no journal"):
        session.undo()


ANSWERS: tuple[Any, ...] = ("no", "", None, 0, 1, object(), ["no"], Verdict("allow"))


async def later(value: Any) -> Any:
    return value


@pytest.mark.parametrize("value", ANSWERS, ids=lambda value: f"{value!r:.20}")
@pytest.mark.parametrize("awaited", [False, True])
def test_an_answer_that_is_none_does_nothing(value: Any, awaited: bool, tmp_path: Path) -> None:
    """A text such as "no" must not count as a yes."""

    def approve(_: object) -> Any:
        return later(value) if awaited else value

    with Session(tmp_path, mode="ask", approve=approve) as session:
        result = session.call("Write", {"file_path": "a.txt", "content": "x"})
    assert "approve must return True, False or an Answer" in result.text
    assert result.status == "error" and not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("value", ANSWERS, ids=lambda value: f"{value!r:.20}")
def test_an_answer_that_is_none_does_nothing_in_a_loop(value: Any, tmp_path: Path) -> None:
    def approve(_: object) -> Awaitable[Any]:
        return later(value)

    async def main() -> Result:
        async with AsyncSession.open(tmp_path, mode="ask", approve=approve) as session:
            return await session.call("Write", {"file_path": "a.txt", "content": "x"})

    assert "approve must return True, False or an Answer" in asyncio.run(main()).text
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("value", ["no", 1, None])
def test_an_answer_is_a_yes_or_a_no(value: Any) -> None:
    with pytest.raises(ValueError, match="yes must be True or False, not "):
        Answer(value)
    with pytest.raises(ValueError, match="lasting must be 'once', 'session' or 'always', not "):
        Answer(True, lasting=value)


@pytest.mark.parametrize("decision", ["yes", "", None, True, "Allow"])
def test_a_verdict_is_one_of_three(decision: Any) -> None:
    with pytest.raises(ValueError, match="decision must be 'allow', 'ask' or 'deny', not "):
        Verdict(decision)


@pytest.mark.parametrize("value", ["allow", None, True, Answer(True)])
def test_a_policy_that_returns_no_verdict_lets_nothing_through(value: Any, tmp_path: Path) -> None:
    class Wrong:
        hides = None

        def judge(self, accesses: Sequence[Access]) -> Any:
            return value

    with Session(tmp_path, policy=Wrong()) as session:
        result = session.call("Write", {"file_path": "a.txt", "content": "x"})
    assert result.status == "error" and "Wrong.judge must return a Verdict, not" in result.text
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("value", [".", None, Session, 3])
def test_an_async_session_wraps_a_session(value: Any) -> None:
    with pytest.raises(ValueError, match=r"session must be a Session, not .*AsyncSession.open\(root\)"):
        AsyncSession(value)


def test_a_model_is_asked_through_an_api_that_exists() -> None:
    with pytest.raises(ValueError, match="api must be 'chat', 'responses' or 'anthropic', not 'nope'"):
        open_model("gpt-5", {}, "nope")  # type: ignore[arg-type]
    assert APIS == ("chat", "responses", "anthropic")


@pytest.mark.parametrize("value", ["", None, 3, b"gpt-5", ["gpt-5"]])
def test_a_model_has_a_name(value: Any) -> None:
    with pytest.raises(ValueError, match="model must be the name of a model, not "):
        open_model(value, {"OPENAI_API_KEY": "key"})


@pytest.mark.parametrize("names", [("call", "since"), ("call", "session"), ("since", "session")])
def test_an_undo_is_of_one_thing(names: tuple[str, str], tmp_path: Path) -> None:
    with Session(tmp_path) as session:
        session.call("Write", {"file_path": "a.txt", "content": "x"})
        given: dict[str, Any] = {"call": 1, "since": 1, "session": session.origin.session}
        with pytest.raises(ValueError, match=f"give only one of {names[0]}, {names[1]}"):
            session.undo(**{name: given[name] for name in names})
    assert (tmp_path / "a.txt").exists()
