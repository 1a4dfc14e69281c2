"""S0-47: what the system prompt of `deepagents` says of results that were offloaded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from handrail import Session
from handrail.agent.prompt import system_prompt
from handrail_demo.scripted_server import Line, Seen
from tests.agent.conftest import Setting

Make = Callable[..., Session]
PARAGRAPH = (
    "When a tool result is too large, it may be offloaded into the filesystem instead of being returned inline. In"
    " those cases, use read_file to inspect the saved result in chunks, or use grep within /large_tool_results/ if you"
    " need to search across offloaded tool results."
)


def test_s0_47_the_paragraph_is_in_the_system_prompt_to_the_letter(make_session: Make) -> None:
    session = make_session(dialect="deepagents")
    assert PARAGRAPH in system_prompt(session)
    assert {"read_file", "grep"} <= {spec.name for spec in session.specs()}


def test_s0_47_the_model_is_told_with_every_request(stage: Setting) -> None:
    at = stage([Line("", [("ls", {"path": "/"})]), Line("Nothing is here.")], dialect="deepagents")
    assert at.agent.run("look around").how == "done"
    systems = [seen.body["messages"][0] for seen in at.server.requests]
    assert len(systems) == 2
    assert all(one["role"] == "system" and PARAGRAPH in one["content"] for one in systems)


def test_s0_47_what_the_paragraph_advises_works_on_a_result_that_was_offloaded(stage: Setting) -> None:
    """The very path of the answer is given to the tools that the paragraph names."""
    collected: list[str] = []

    def saved(text: str) -> str:
        return next(word for word in text.split() if word.startswith("/large_tool_results/"))

    def script(seen: Seen) -> Line:
        results = seen.results
        collected.extend(results)
        if not results:
            return Line("", [("execute", {"command": "seq 1 90000"})])
        if len(collected) == 1:
            path = saved(results[0])
            look = {"file_path": path, "offset": 70_000, "limit": 1}
            return Line("", [("read_file", look), ("grep", {"pattern": "77777", "path": "/large_tool_results/"})])
        return Line("I have seen it.")

    at = stage(script, dialect="deepagents")
    assert at.agent.run("count to 90000").text == "I have seen it."
    assert "70001" in collected[1] and "/large_tool_results/" in collected[2]


@pytest.mark.parametrize("dialect", ["claw", "hello", "codex", "anthropic"])
def test_s0_47_a_dialect_without_these_tools_is_told_nothing_of_them(make_session: Make, dialect: str) -> None:
    assert "large_tool_results" not in system_prompt(make_session(dialect=dialect))
