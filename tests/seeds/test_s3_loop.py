"""S3-1 and S3-21: one list of tools for the model and for the dispatch, the system prompt, and the verification."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Question, Session
from handrail.agent.messages import CallFinished
from handrail.agent.prompt import system_prompt
from handrail_demo.scripted_server import Line, Seen
from tests.agent.conftest import Setting

UPPERCASE = '''"""A tool of another package."""
from dataclasses import dataclass

from handrail.tools.tool import Arguments, Outcome, Tool


class Args(Arguments):
    text: str


@dataclass(frozen=True, slots=True)
class Limits:
    """None."""


@dataclass(frozen=True, slots=True)
class Facts:
    text: str


def run(args, ctx):
    return Outcome("text", Facts(args.text.upper()))


def render(outcome, templates):
    return outcome.facts.text


TOOL = Tool(id="golden_uppercase", args=Args, limits=Limits, facts=Facts, run=run, render=render)
'''
MODULE = "golden_uppercase_tool"
STEERING = (
    "你是命令行里的编码助手。需要列文件、统计数量、跑测试时,优先用工具获取真实输出,不要编造结果。"
    "若用户明确要求「只转大小写、不访问磁盘」,优先使用 `uppercase` 工具。"
    "如果你需要修改文件,请先使用 `read_file` 工具读取文件,然后使用 `edit_file` 工具修改文件,"
    "最后使用 `write_file` 工具写入文件。"
)
WHOLE_FILES_ONLY = "仅在整文件生成或全新文件时使用 `write_file`。"
TASK = "修改 README.md,把所有 TODO 改为 DONE"


@pytest.fixture
def one_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package that registers a tool, and a dialect that offers it besides those of the document."""
    package = tmp_path / "package"
    info = package / "golden_uppercase-1.0.dist-info"
    info.mkdir(parents=True)
    (package / f"{MODULE}.py").write_text(UPPERCASE, encoding="utf-8")
    (package / f"{MODULE}.md").write_text("把文本转为大写。\n", encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: golden-uppercase\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[handrail.tools]\ngolden_uppercase = {MODULE}:TOOL\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    dialect = tmp_path / "more"
    dialect.mkdir()
    table = 'extends = "hello"\n[tools.shout]\nid = "golden_uppercase"\n'
    (dialect / "tools.toml").write_text(table, encoding="utf-8")
    return str(dialect)


def _offered(seen: Seen) -> list[str]:
    return [tool["function"]["name"] for tool in seen.body["tools"]]


def test_s3_1_a_tool_that_is_added_is_offered_and_dispatched_by_the_same_loop(stage: Setting, one_more: str) -> None:
    script = [Line("", [("shout", {"text": "groß"})], ids=["call-1"]), Line("It says GROSS.")]
    at = stage(script, dialect=one_more)
    assert at.agent.run("shout").text == "It says GROSS."
    assert all(
        _offered(seen) == ["bash", "uppercase", "read_file", "write_file", "edit_file", "shout"]
        for seen in at.server.requests
    )
    assert at.server.requests[1].results == ["GROSS"]
    (tool,) = [one["function"] for one in at.server.requests[0].body["tools"] if one["function"]["name"] == "shout"]
    assert tool["description"] == "把文本转为大写。"
    assert tool["parameters"]["required"] == ["text"]


def test_s3_1_without_it_the_same_call_is_answered_with_the_tools_there_are(stage: Setting) -> None:
    at = stage([Line("", [("shout", {"text": "groß"})]), Line("I see.")], dialect="hello")
    assert at.agent.run("shout").how == "done"
    (answer,) = at.server.requests[1].results
    assert all(name in answer for name in _offered(at.server.requests[0]))


@pytest.mark.parametrize("dialect", ["hello", "native", "claude", "deepagents", "gemini"])
def test_s3_1_what_is_offered_is_exactly_what_can_be_called(stage: Setting, dialect: str) -> None:
    at = stage([Line("Nothing to do.")], dialect=dialect)
    at.agent.run("nothing")
    session = at.agent.session
    assert _offered(at.server.requests[0]) == [spec.name for spec in session.specs()]
    results = [session.call(name, {}) for name in _offered(at.server.requests[0])]
    assert not [result.tool for result in results if result.error and result.error.code == "unknown_tool"]


def test_s3_21_the_system_prompt_steers_to_reading_and_editing(make_session: Callable[..., Session]) -> None:
    session = make_session(dialect="hello")
    prompt = system_prompt(session)
    assert prompt.startswith(STEERING)
    assert WHOLE_FILES_ONLY in prompt
    assert {"read_file", "edit_file", "write_file"} <= {spec.name for spec in session.specs()}


def test_s3_21_every_todo_becomes_done_with_a_read_an_edit_and_a_closing_sentence(stage: Setting) -> None:
    read = ("read_file", {"file_path": "README.md"})
    change = {"file_path": "README.md", "old_string": "TODO", "new_string": "DONE", "replace_all": True}

    def script(seen: Seen) -> Line:
        """Goes on from what the tools say, as a model must."""
        last = seen.results[-1] if seen.results else ""
        if not last:
            return Line("先读取文件。", [read])
        if "TODO" in last:
            return Line("", [("edit_file", change)])
        return Line("", [read]) if '"ok": true' in last else Line("README.md 中的 TODO 已全部替换为 DONE。")

    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.call.tool)
        return True

    at = stage(script, dialect="hello", mode="ask", approve=approve)
    before = "# 说明\n- TODO 一\n- 完成\n- TODO 二,TODO 三\r\nend TODO"
    path = at.project / "README.md"
    path.write_bytes(before.encode("utf-8"))
    ending = at.agent.run(TASK)
    assert (ending.how, ending.text) == ("done", "README.md 中的 TODO 已全部替换为 DONE。")
    assert path.read_bytes() == before.replace("TODO", "DONE").encode("utf-8")
    assert [ended.call.name for ended in at.saw(CallFinished)] == ["read_file", "edit_file", "read_file"]
    assert asked == ["edit_file"]
    assert STEERING in at.server.requests[0].body["messages"][0]["content"]


def test_s3_21_one_edit_at_a_time_comes_to_the_same(stage: Setting) -> None:
    lines = ["TODO one\n", "TODO two\n", "TODO three\n"]
    edits = [
        {"file_path": "README.md", "old_string": line, "new_string": line.replace("TODO", "DONE")} for line in lines
    ]
    script = [
        Line("", [("read_file", {"file_path": "README.md"})]),
        Line("", [("edit_file", edit) for edit in edits]),
        Line("三处 TODO 都已改为 DONE。"),
    ]
    at = stage(script, dialect="hello")
    path = at.project / "README.md"
    path.write_text("".join(lines), encoding="utf-8")
    assert at.agent.run(TASK).how == "done"
    assert path.read_text(encoding="utf-8") == "DONE one\nDONE two\nDONE three\n"
    assert sum('"ok": true' in result for result in at.server.requests[2].results) == 3


def test_s3_22_uppercase_is_registered_and_the_prompt_says_when_to_use_it(make_session: Callable[..., Session]) -> None:
    session = make_session(dialect="hello")
    assert [spec.name for spec in session.specs()] == ["bash", "uppercase", "read_file", "write_file", "edit_file"]
    assert "若用户明确要求「只转大小写、不访问磁盘」,优先使用 `uppercase` 工具。" in system_prompt(session)
    result = session.call("uppercase", {"text": "groß, abc\n"})
    assert (result.text, result.status, result.accesses) == ("GROSS, ABC\n", "ok", ())
