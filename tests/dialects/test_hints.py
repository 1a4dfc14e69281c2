"""Follow every hint: each next step that an answer names can be taken in the dialect that names it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from handrail import Session, dialects
from handrail.model import Question, Result

Make = Callable[..., Session]
NAMES = dialects.names()
MARK = "the very last line"
READS, LISTS = ("read", "view", "text_editor"), ("ls", "view", "text_editor")
TOOLS = {name for one in NAMES for name in dialects.load(one).entries if not name.islower() or "_" in name}
"""Names that are no words of English."""
ARGUMENTS = {
    argument
    for one in NAMES
    for name in dialects.load(one).entries
    for argument in dialects.load(one).spec(name).schema["properties"]
}

_STEP = re.compile(r"(?<![\w.])(\w+)=(?:\"([^\"]+)\"|(\d+))|view_range \[(\d+), -1\]")
_SWITCH = re.compile(r"\b[Ss]et (\w+)|\b(\w+): true|[Ss]et a longer (\w+)")
_TOOL = re.compile(r"\b(?:use|with|from|or|call) `?(\w+)")


def _tool(session: Session, *ids: str) -> str | None:
    return next((name for name, entry in session.dialect.entries.items() if entry.id in ids), None)


def _say(result: Result) -> str:
    return "\n".join(str(block.get("text", "")) for block in result.blocks) or result.text


def _path_argument(session: Session, tool: str) -> str:
    return next(name for name in ("file_path", "path", "dir_path") if name in _schema(session, tool))


def _schema(session: Session, tool: str) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = session.dialect.spec(tool).schema["properties"]
    return properties


def _look(session: Session, tool: str, path: str) -> dict[str, Any]:
    named = {_path_argument(session, tool): path}
    return {"command": "view", **named} if session.dialect.entry(tool).id == "text_editor" else named


def _check_names(session: Session, tool: str, answer: str) -> None:
    """Every tool that an answer names is offered, and every switch is one of the tool."""
    for name in _TOOL.findall(answer):
        assert name not in TOOLS or name in (*session.dialect.core, tool), (name, answer[-300:])
    for switch in _SWITCH.findall(answer):
        name = next(filter(None, switch))
        assert name not in ARGUMENTS or name in _schema(session, tool), (name, answer[-300:])


def _next_step(session: Session, tool: str, answer: str) -> dict[str, Any]:
    """The arguments that an answer names; each has to be one of the tool."""
    step: dict[str, Any] = {}
    for name, text, number, start in _STEP.findall(answer):
        if start:
            step["view_range"] = [int(start), -1]
        elif name in ARGUMENTS:
            assert name in _schema(session, tool), (name, answer[-300:])
            step[name] = text or int(number)
    return step


def _follow(session: Session, tool: str, arguments: dict[str, Any]) -> str:
    """All that a model sees of something if it takes each next step that it is told of."""
    seen, asked = "", []
    for _ in range(100):
        result = session.call(tool, arguments)
        assert not result.error, (arguments, result.text)
        answer = _say(result)
        seen += answer + "\n"
        _check_names(session, tool, answer[-600:])
        step = _next_step(session, tool, answer[-600:])
        asked.append(arguments)
        if not step or {**arguments, **step} in asked:
            return seen
        arguments = {**arguments, **step}
    raise AssertionError(f"no end after {len(asked)} calls: {arguments}")


LINES = {
    "short": [f"row {number}" for number in range(6_000)],
    "long": ["x" * 1_500] * 300,
    "Chinese": ["好" * 100] * 500,
    "few": ["one", "two"],
}


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("dialect", [name for name in NAMES if name not in ("codex", "hello")])
def test_a_file_is_read_to_its_end_by_the_steps_that_answers_name(
    make_session: Make, tmp_path: Path, dialect: str, kind: str
) -> None:
    lines = LINES[kind]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in [*lines, MARK]), encoding="utf-8")
    session = make_session(dialect=dialect, durable=False)
    tool = _tool(session, *READS)
    assert tool
    result = session.call(tool, _look(session, tool, str(tmp_path / "a.txt")))
    if result.error:  # a document that refuses large files: its sentence names the arguments to use
        assert dialect == "claude" and "offset and limit parameters" in result.text
        assert {"offset", "limit"} <= set(_schema(session, tool))
        arguments = {**_look(session, tool, str(tmp_path / "a.txt")), "offset": len(lines) + 1, "limit": 1}
        assert MARK in session.call(tool, arguments).text
    elif dialect == "claude" and "lines are truncated" in result.text:
        left = re.search(r"more (\d+) lines are truncated", result.text)
        assert left and int(left[1]) == len(lines) + 1 - 2000
    else:
        assert MARK in _follow(session, tool, _look(session, tool, str(tmp_path / "a.txt")))


@pytest.mark.parametrize("count", [3, 2_500, 20_000])
@pytest.mark.parametrize("dialect", NAMES)
def test_the_whole_output_of_a_command_is_one_step_away(
    make_session: Make, tmp_path: Path, dialect: str, count: int
) -> None:
    session = make_session(dialect=dialect, durable=False, mode="full")
    shell, reader = _tool(session, "bash", "fresh_bash"), _tool(session, *READS)
    assert shell
    middle = f"fact {count // 2} of {count}"
    result = session.call(shell, {"command": f"for n in $(seq {count}); do echo fact $n of {count}; done"})
    answer = _say(result)
    _check_names(session, shell, answer[-2_000:])
    if middle in answer:
        return
    path = re.search(r"/large_tool_results/[\w.-]+", answer)
    assert path, answer[-500:]
    if reader is None:  # commands are the only tool
        again = session.call(shell, {"command": f"grep '{middle}' {path[0]}"})
        assert middle in again.text, again.text
        return
    step = _look(session, reader, path[0])
    at = count // 2 - 1
    if "view_range" in _schema(session, reader):
        step["view_range"] = [at, at + 3]
    elif "start_line" in _schema(session, reader):
        step |= {"start_line": at}
    else:
        step |= {"offset": at}
    assert middle in _say(session.call(reader, step))


@pytest.mark.parametrize("dialect", NAMES)
def test_listings_and_searches_are_complete_by_the_steps_that_answers_name(
    make_session: Make, tmp_path: Path, dialect: str
) -> None:
    for number in range(1_200):
        (tmp_path / f"file{number:04}.txt").write_text("needle\n", encoding="utf-8")
    session = make_session(dialect=dialect, durable=False)
    calls = {
        _tool(session, *LISTS): lambda tool: _look(session, tool, str(tmp_path)),
        _tool(session, "glob"): lambda _: {"pattern": "*.txt"},
        _tool(session, "grep"): lambda _: {"pattern": "needle"},
    }
    for tool, arguments in calls.items():
        if tool is None or (session.dialect.entry(tool).id == "read"):
            continue
        seen = _follow(session, tool, arguments(tool))
        names = set(re.findall(r"file\d{4}\.txt", seen))
        narrower = re.search(r"narrow|more specific|further down|raise|head_limit|not shown", seen)
        assert len(names) == 1_200 or narrower, (tool, len(names), seen[-300:])


@pytest.mark.parametrize("dialect", NAMES)
def test_a_refusal_names_only_what_the_dialect_has(make_session: Make, tmp_path: Path, dialect: str) -> None:
    (tmp_path / "a.txt").write_text("one\none\n" + "x" * 9_000 + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("b\n", encoding="utf-8")
    session = make_session(dialect=dialect, durable=False)
    patch = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-one\n+two\n*** End Patch\n"
    for name, entry in session.dialect.entries.items():
        fields = _schema(session, name)
        tries: list[dict[str, Any]] = [{}, {"command": f"apply_patch '{patch}'"}, {"input": patch}, {"patch": patch}]
        tries.append({"command": "echo foo; apply_patch <<'E'\n" + patch + "E"})
        if "timeout_ms" in fields:
            tries.append({"command": "sleep 60", "timeout_ms": 200})
        for path in ("a.txt", "none.txt", ".", "../x", "b.txt"):
            named = {key: path for key in ("file_path", "path", "dir_path", "source_path") if key in fields}
            for old, new in (("one", "two"), ("zzz", "y"), ("", "y"), ("one", "one")):
                texts = {"old_string": old, "old_str": old, "old_text": old}
                texts |= {"new_string": new, "new_str": new, "new_text": new, "content": new, "file_text": new}
                texts |= {"pattern": old or "(", "replacement": new, "target_path": "b.txt", "command": "str_replace"}
                tries.append({**named, **{key: text for key, text in texts.items() if key in fields}})
        if entry.id in ("bash", "fresh_bash"):
            tries = [one for one in tries if "command" in one and one["command"] != "str_replace"]
        for arguments in tries:
            result = session.call(name, {key: value for key, value in arguments.items() if key in fields})
            _check_names(session, name, _say(result)[-600:])


@pytest.mark.parametrize("dialect", NAMES)
def test_sentences_name_only_tools_that_are_offered(dialect: str) -> None:
    whole = dialects.load(dialect)
    used = set(re.findall(r"\{(tool_\w+)", "\n".join(map(str, whole.templates.messages.values()))))
    for offered in (whole.core, *([name] for name in whole.entries), ["all"]):
        narrowed = whole if offered is whole.core else whole.offering(offered)
        named = {narrowed.find_name(fact) for fact in used} - {None}
        assert named <= set(whole.entries if offered == ["all"] else offered)
        for key, text in narrowed.templates.messages.items():  # the others are in passages that can be left out
            bare = re.sub(r"\[\[.*?\]\]", "", str(text), flags=re.DOTALL)
            assert not re.search(r"\{tool_", bare), key


@pytest.mark.parametrize("offered", [(), ("Trash",), ("Trash", "Undo"), ("all",)])
def test_a_deletion_names_undo_if_it_is_offered(make_session: Make, tmp_path: Path, offered: tuple[str, ...]) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    native = dialects.load("native")
    session = make_session(
        dialect=native.offering(offered) if offered else native,
        durable=False,
        journal="auto",
        state=str(tmp_path.parent / "state"),
    )
    assert ("Undo takes it back" in session.call("Trash", {"path": "a.txt"}).text) is bool({"Undo", "all"} & {*offered})
    assert session.call("Undo", {}).ok and (tmp_path / "a.txt").exists()


def test_a_replace_without_a_number_is_the_dry_run_and_names_the_call_that_replaces(
    make_session: Make, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("one\n" * 40, encoding="utf-8")
    session = make_session(durable=False)
    call: dict[str, Any] = {"pattern": "one", "replacement": "two"}
    result = session.call("Replace", call)
    assert result.ok and result.data["dry_run"] is True
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "one\n" * 40
    expected = re.search(r"with expected: (\d+)", result.text)
    assert expected
    assert session.call("Replace", {**call, "expected": int(expected[1])}).ok
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two\n" * 40


@pytest.mark.parametrize("dialect", NAMES)
def test_no_sentence_for_the_model_tells_it_to_run_a_command_of_the_operator(dialect: str) -> None:
    messages = dialects.load(dialect).templates.messages
    operators = re.compile(r"`handrail [^`]*`|\b[Ss]ettings?\b|\ballow [A-Z]\w+\(")
    named = {key: operators.findall(str(text)) for key, text in messages.items()}
    assert not {key: commands for key, commands in named.items() if commands}


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("Trash", {"path": "a.txt"}, "run `handrail policy trust`"),
        ("Bash", {"command": "git reset --hard"}, "`handrail doctor` says how to get one"),
        ("Bash", {"command": "make"}, "This rule would allow it: allow Bash(make)"),
    ],
)
def test_a_refusal_tells_the_operator_what_to_do_and_the_model_what_would_happen(
    make_session: Make, tmp_path: Path, tool: str, arguments: dict[str, Any], advice: str
) -> None:
    (tmp_path / "a.txt").write_text("one\n", encoding="utf-8")
    (tmp_path / "handrail.toml").write_text('rules = ["allow Delete(a.txt)"]\n', encoding="utf-8")
    options = {"mode": "ask", "drafts": False, "sandbox": "off", "durable": False, "state": str(tmp_path.parent / "s")}
    seen: list[Question] = []
    result = make_session(approve=lambda question: bool(seen.append(question)), **options).call(tool, arguments)
    assert result.status == "denied"
    result = make_session(**options).call(tool, arguments)
    assert advice in result.advice and "handrail " not in result.full_text, result.full_text
    if tool == "Trash":
        assert "a.txt would be deleted" in result.text and advice in seen[0].verdict.why
