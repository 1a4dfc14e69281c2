"""Functions of the host's own as tools: arguments, files, rules, failures and names."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pydantic
import pytest

from handrail import (
    Question,
    ReadFile,
    RunContext,
    Session,
    SessionEvent,
    Setup,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    WriteFile,
    parse_rules,
    tool,
)
from handrail.integrations.common import CallOrder
from handrail.integrations.openai import chat_tools
from handrail.tools.functions import NoLimits
from handrail.tools.tool import Arguments, Hints, Outcome, Tool

Make = Callable[..., Session]


@tool(read_only=True)
def count_words(file: ReadFile) -> int:
    """Count the words of a text file.

    Words are separated by blanks.

    Args:
        file: The file whose
            words are counted
    """
    return len(file.read_text().split())


@tool
def number_lines(
    file: WriteFile, start: Annotated[int, pydantic.Field(ge=0, description="The first number")] = 1
) -> str:
    """Put a number before each line."""
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(f"{number} {line}" for number, line in enumerate(lines, start)))
    return f"{len(lines)} lines"


@tool(name="say-hello", description="Greet somebody.")
def greet(name: str, tone: Literal["warm", "cold"] = "warm") -> str:
    return f"{tone} hello, {name}"


class Item(TypedDict):
    title: str
    size: NotRequired[Annotated[int, "In metres"]]


def describe(items: list[Item], weights: dict[str, float], note: str | None = None, more: Any = None) -> dict[str, Any]:
    """Return the arguments as they arrive."""
    return {"items": items, "weights": weights, "note": note, "more": more}


def fail(text: str) -> None:
    """Fail."""
    raise LookupError(text)


def test_a_spec_comes_from_the_signature_and_the_docstring(make_session: Make) -> None:
    specs = {spec.name: spec for spec in make_session(tools=[count_words, number_lines, greet, describe]).specs()}
    counted = specs["count_words"]
    assert counted.description == "Count the words of a text file.\n\nWords are separated by blanks."
    assert counted.schema == {
        "type": "object",
        "properties": {"file": {"type": "string", "description": "The file whose words are counted"}},
        "required": ["file"],
        "additionalProperties": False,
    }
    assert counted.hints.read_only and not specs["number_lines"].hints.read_only
    assert specs["number_lines"].schema["properties"]["start"]["description"] == "The first number"
    assert specs["say-hello"].description == "Greet somebody."
    assert specs["say-hello"].schema["properties"]["tone"]["enum"] == ["warm", "cold"]
    item = specs["describe"].schema["properties"]["items"]["items"]
    assert item["required"] == ["title"] and item["properties"]["size"]["description"] == "In metres"
    assert specs["describe"].schema["required"] == ["items", "weights"]


@pytest.mark.parametrize("dialect", ["native", "claude", "envelope"])
def test_a_function_is_called_in_every_dialect(make_session: Make, dialect: str) -> None:
    session = make_session(dialect=dialect, tools=[greet])
    result = session.call("say-hello", '{"name": "Ada"}', id="7")
    assert result.ok and "warm hello, Ada" in result.text and result.id == "7"


def test_arguments_are_converted_and_every_mistake_is_named(make_session: Make) -> None:
    session = make_session(tools=[describe, number_lines])
    result = session.call("describe", {"items": [{"title": "a", "size": "2"}], "weights": {"x": 1}})
    assert result.data["items"] == [{"title": "a", "size": 2}] and result.data["weights"] == {"x": 1.0}
    wrong = session.call("describe", {"items": [{"size": 1}], "weights": [], "nothing": 1})
    assert wrong.error and wrong.error.code == "bad_arguments"
    assert "items[0].title: missing" in wrong.text and "weights: " in wrong.text and "nothing: " in wrong.text
    low = session.call("number_lines", {"file": "a", "start": -1})
    assert low.error and low.error.code == "bad_arguments" and "start" in low.text


def test_an_argument_may_have_the_name_of_a_method(make_session: Make) -> None:
    def repeat(check: str, parse: int = 2) -> str:
        """Repeat a text."""
        return check * parse

    assert make_session(tools=[repeat]).call("repeat", {"check": "ab"}).text == "abab"


def test_a_file_is_read_and_written_in_its_own_encoding_and_can_be_undone(tmp_path: Path, make_session: Make) -> None:
    path, raw = tmp_path / "a.txt", "\ufeffé\r\nb\r\n".encode("utf-16-le")
    path.write_bytes(raw)
    session = make_session(tools=[number_lines, count_words])
    assert session.call("count_words", {"file": "a.txt"}).data["value"] == 2
    result = session.call("number_lines", {"file": "a.txt", "start": "5"})
    assert result.text == "2 lines" and "+5 é" in result.data["diff"]
    assert path.read_bytes() == "\ufeff5 é\r\n6 b\r\n".encode("utf-16-le")
    assert [(one.action, one.target) for one in result.accesses] == [("write", "a.txt"), ("call", "number_lines")]
    session.undo()
    assert path.read_bytes() == raw


def test_several_files_are_written_all_or_none(tmp_path: Path, make_session: Make) -> None:
    def merge(sources: list[ReadFile], target: WriteFile, log: WriteFile | None = None) -> None:
        """Join files."""
        target.write_text("".join(one.read_text() for one in sources))
        if log:
            log.write_text(f"{target.name} at {target.path}\n")

    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}\n", encoding="utf-8")
    session = make_session(tools=[merge])
    assert session.call("merge", {"sources": ["a", "b"], "target": "c"}).text == "Done."
    assert (tmp_path / "c").read_text(encoding="utf-8") == "a\nb\n"
    missing = session.call("merge", {"sources": ["a", "none"], "target": "d", "log": "log"})
    assert missing.error and missing.error.code == "not_found"
    assert not (tmp_path / "d").exists() and not (tmp_path / "log").exists()


def test_a_file_that_nobody_has_read_is_not_overwritten(tmp_path: Path, make_session: Make) -> None:
    def save(file: WriteFile, text: str) -> None:
        """Save a text."""
        file.write_text(text)

    (tmp_path / "old").write_text("old\n", encoding="utf-8")
    session = make_session(tools=[save])
    refused = session.call("save", {"file": "old", "text": "new\n"})
    assert refused.error and refused.error.code == "not_seen"
    session.call("Read", {"file_path": "old"})
    assert session.call("save", {"file": "old", "text": "new\n"}).ok
    again = session.call("Edit", {"file_path": "old", "old_string": "ne", "new_string": "NE"})
    assert again.error and again.error.code == "not_seen"  # the model has not seen what the function wrote


def test_boundary_and_rules_hold_for_a_file_argument(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("KEY=1\n", encoding="utf-8")
    (tmp_path / "a").write_text("a\n", encoding="utf-8")
    rules = [parse_rules('rules = ["deny Edit(a)"]')]
    with Session(tmp_path, tools=[count_words, number_lines], setup=Setup(rules=rules)) as session:
        assert session.call("count_words", {"file": "../x"}).status == "denied"
        assert session.call("count_words", {"file": ".env"}).status == "denied"
        assert session.call("number_lines", {"file": "a"}).status == "denied"
        assert session.call("count_words", {"file": "a"}).ok


@pytest.mark.parametrize(
    ("mode", "statuses"),
    [("read-only", "denied ok"), ("ask", "denied ok"), ("accept-edits", "ok ok"), ("full", "ok ok")],
)
def test_a_function_without_files_is_judged_as_a_call(tmp_path: Path, mode: Any, statuses: str) -> None:
    quiet = tool(name="quiet", description="Say nothing.", read_only=True)(lambda: "")
    with Session(tmp_path, mode=mode, tools=[greet, quiet]) as session:
        actual = [session.call("say-hello", {"name": "Ada"}), session.call("quiet")]
    assert [one.status for one in actual] == statuses.split()


def test_rules_name_a_function(tmp_path: Path) -> None:
    table = '[[rules]]\naction = "call"\ntool = "say-*"\ntier = "deny"\nwhy = "be quiet"\n'
    with Session(tmp_path, tools=[greet, describe], setup=Setup(rules=[parse_rules(table)])) as session:
        denied = session.call("say-hello", {"name": "Ada"})
        assert denied.status == "denied" and "be quiet" in denied.text
        assert session.call("describe", {"items": [], "weights": {}}).ok
    allowed = parse_rules('rules = ["allow Call(say-hello)"]')
    with Session(tmp_path, mode="ask", tools=[greet, describe], setup=Setup(rules=[allowed])) as session:
        assert session.call("say-hello", {"name": "Ada"}).ok
        asked = session.call("describe", {"items": [], "weights": {}})
        assert asked.error and asked.error.code == "needs_approval" and "allow Call(describe)" in asked.advice


def test_a_function_does_not_run_before_a_person_has_agreed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n", encoding="utf-8")
    ran, asked = list[str](), list[Question]()

    def stamp(file: WriteFile, text: str) -> None:
        """Stamp a file."""
        ran.append(text)
        file.write_text(file.read_text() + text + "\n")

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    with Session(tmp_path, mode="ask", tools=[stamp], approve=refuse) as session:
        assert session.call("stamp", {"file": "a", "text": "x"}).status == "denied"
    assert ran == [] and '{"file": "a", "text": "x"}' in asked[0].preview() and asked[0].shortened
    with Session(tmp_path, mode="ask", tools=[stamp], approve=lambda _: True) as session:
        assert session.call("stamp", {"file": "a", "text": "x"}).ok
    assert ran == ["x"] and (tmp_path / "a").read_text(encoding="utf-8") == "a\nx\n"


def test_a_repeatable_function_shows_its_changes_first(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n", encoding="utf-8")
    shown = list[str]()

    @tool(repeatable=True)
    def shout(file: WriteFile) -> None:
        """Write a file in capitals."""
        file.write_text(file.read_text().upper())

    def approve(question: Question) -> bool:
        shown.append(question.preview())
        return True

    with Session(tmp_path, mode="ask", tools=[shout], approve=approve) as session:
        assert session.call("shout", {"file": "a"}).ok
    assert "-a\n+A\n" in shown[0] and (tmp_path / "a").read_text(encoding="utf-8") == "A\n"


def test_a_function_that_raises_ends_in_a_result(make_session: Make) -> None:
    session = make_session(tools=[fail])
    result = session.call("fail", {"text": "no such thing"})
    assert result.error and result.error.code == "tool_failed"
    assert result.text == "fail failed: LookupError: no such thing"


def test_the_names_of_arguments_hide_no_secret(
    tmp_path: Path, make_session: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "hunter2hunter2")
    got = list[str]()

    def login(key: str) -> str:
        """Log in."""
        got.append(key)
        return f"used {key}"

    session = make_session(tools=[login], redact_values_from_env=("MY_SECRET",))
    result = session.call("login", {"key": "hunter2hunter2"})
    assert got == ["hunter2hunter2"] and "hunter2" not in result.text
    placeholder = result.text.removeprefix("used ")
    session.call("login", {"key": placeholder})
    assert got == ["hunter2hunter2"] * 2


async def fetch(ctx: RunContext, steps: int) -> list[int]:
    """Work in steps."""
    for step in range(steps):
        await asyncio.sleep(0)
        ctx.report_progress("fetching", step + 1, steps)
    return list(range(steps))


def test_an_async_function_is_awaited_and_reports_progress(make_session: Make) -> None:
    events = list[object]()
    session = make_session(tools=[fetch], setup=Setup(on_event=events.append))
    result = session.call("fetch", {"steps": 2})
    assert result.text == "[0, 1]" and result.data["value"] == [0, 1]
    reported = [(one.message, one.done, one.total) for one in events if isinstance(one, ToolProgress)]
    assert reported == [("fetching", 1, 2), ("fetching", 2, 2)]


def test_a_cancelled_call_cancels_an_async_function(make_session: Make) -> None:
    cancel = threading.Event()

    async def forever(ctx: RunContext) -> None:
        """Never end."""
        cancel.set()
        assert ctx.cancelled
        await asyncio.sleep(600)

    result = make_session(tools=[forever]).call("forever", cancel=cancel)
    assert result.error and result.error.code == "cancelled"


def test_a_name_that_is_taken_is_refused(make_session: Make) -> None:
    with pytest.raises(ValueError, match="the dialect native has a tool Read already"):
        make_session(tools=[tool(name="Read", description="Another.")(lambda: "")])
    with pytest.raises(ValueError, match="two of the tools are called fail"):
        make_session(tools=[fail, tool(name="fail", description="Another.")(lambda: "")])


def untyped(text) -> str:  # type: ignore[no-untyped-def]
    """Has no types."""
    return str(text)


def variadic(*texts: str) -> str:
    """Takes any number."""
    return "".join(texts)


def odd(when: bytes) -> str:
    """Takes bytes."""
    return str(when)


def mute(text: str) -> str:
    return text


def file_by_default(file: ReadFile = Path("x")) -> str:  # type: ignore[assignment]
    """Has a file as its default."""
    return file.name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (untyped, "text of the tool untyped has no type"),
        (variadic, r"cannot have the argument \*texts"),
        (odd, "when of the tool odd"),
        (mute, "has no description"),
        (file_by_default, "default"),
        ("Read", "functions or Tool objects"),
        (lambda: "", "cannot be called '<lambda>'"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_the_session_opens(make_session: Make, given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_session(tools=[given])


class GreetArgs(Arguments):
    name: str


def test_a_tool_object_is_taken_as_well(make_session: Make) -> None:
    plain: Tool[GreetArgs, Any, str] = Tool(
        id="hello",
        args=GreetArgs,
        limits=NoLimits,
        run=lambda args, _: Outcome("done", f"Hello {args.name}"),
        render=lambda outcome, _: outcome.facts,
        hints=Hints(read_only=True),
        description="Greet.",
    )
    session = make_session(tools=[plain])
    assert session.call("hello", {"name": "Ada"}).text == "Hello Ada"
    with pytest.raises(ValueError, match="built-in"):
        make_session(tools=[replace(plain, id="read")])


def test_integrations_offer_functions_too(make_session: Make) -> None:
    session = make_session(tools=[count_words, greet])
    names = [one["function"]["name"] for one in chat_tools(session)]
    assert names[-2:] == ["count_words", "say-hello"]
    assert "count_words" in CallOrder(session)._read_only


def test_the_function_itself_stays_as_it_is() -> None:
    assert greet("Ada", "cold") == "cold hello, Ada"


def test_listeners_get_calls_of_functions(make_session: Make) -> None:
    seen = list[SessionEvent]()
    make_session(tools=[greet], setup=Setup(on_event=seen.append)).call("say-hello", {"name": "Ada"})
    assert [(type(event), event.call.tool) for event in seen] == [
        (ToolStarted, "say-hello"),
        (ToolFinished, "say-hello"),
    ]
