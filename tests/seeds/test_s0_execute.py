"""S0-1, S0-37 to S0-46 and S0-48: execute in the dialect `deepagents`, and what becomes of too much output."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handrail import Session
from handrail.model import Result
from tests.patience import until_it_got_far_enough
from tests.seeds.golden import put, run_batch, tree

TOO_LARGE = (
    "Tool result too large, the result of this tool call {tool_call_id}\n"
    "was saved in the filesystem at: {file_path}\n"
    "\n"
    "You can read the result using read_file with offset and limit parameters.\n"
    "\n"
    "Here is a preview showing the head and tail of the result:\n"
    "{content_sample}\n"
)
BLOCKED = "Error: Dangerous command blocked"
THRESHOLD = 20_000 * 4
"""Tokens, at four characters each."""


@pytest.fixture
def agent(make_session: Callable[..., Session]) -> Session:
    return make_session(dialect="deepagents", durable=False, sandbox="off", journal=None)


def _execute(session: Session, command: str, call: str = "", **more: float) -> Result:
    return session.call("execute", {"command": command, **more}, id=call)


def test_s0_1_the_atomic_tools_are_offered_beside_the_shell(agent: Session) -> None:
    names = [spec.name for spec in agent.specs()]
    assert set(names) == {"ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep", "execute"}
    assert len({spec.description for spec in agent.specs()}) == len(names)


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /",
        "rm -rf /tmp/nothing-of-that-name",
        "sudo true",
        "echo sudo",
        "shutdown now",
        "touch a; reboot",
        "echo x > /dev/null",
    ],
)
def test_s0_37_a_command_with_one_of_these_texts_is_not_run(agent: Session, tmp_path: Path, command: str) -> None:
    result = _execute(agent, f"touch ran; {command}")
    assert (result.text, result.status) == (BLOCKED, "denied")
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(
    "command",
    ['"su"do x', "s''udo x", "$(echo su''do) x", "rm -fr /", "rm --recursive --force /", "bash -c 'su'\"do x\""],
)
def test_s0_37_another_spelling_of_them_is_not_run_either(agent: Session, tmp_path: Path, command: str) -> None:
    result = _execute(agent, f"touch ran; {command}")
    assert (result.text, result.status) == (BLOCKED, "denied")
    assert tree(tmp_path) == {}


def test_s0_38_a_command_has_120_seconds_and_may_be_given_up_to_3600_of_them(agent: Session) -> None:
    limits = agent.dialect.limits("execute")
    assert (limits.seconds, limits.most_seconds) == (120, 3600)
    assert _execute(agent, "echo done", timeout=3600).text == "done"
    description = agent.dialect.spec("execute").description
    assert "120 seconds" in description and "3600" in description and "{" not in description


@pytest.mark.parametrize(("timeout", "expected"), [(3601, "3601"), (3600.5, "3600.5"), (10**6, "1000000")])
def test_s0_38_more_is_refused_and_nothing_runs(agent: Session, tmp_path: Path, timeout: float, expected: str) -> None:
    result = _execute(agent, "touch ran", timeout=timeout)
    assert (result.text, result.status) == (
        f"Error: timeout {expected}s exceeds maximum allowed (3600s).",
        "error",
    )
    assert tree(tmp_path) == {}


def test_s0_38_a_timeout_of_the_call_ends_the_command_and_keeps_what_it_printed(agent: Session) -> None:
    command = "echo first; sleep 600; echo never"
    result, _ = until_it_got_far_enough(
        lambda seconds: _execute(agent, command, timeout=seconds), lambda result: "first" in result.text
    )
    assert result.text.startswith("first\n") and "never" not in result.text
    assert result.data["timed_out"] is True


def test_s0_39_the_description_forbids_the_shell_where_a_tool_does_it(agent: Session) -> None:
    assert (
        "You MUST avoid using search commands like find and grep. Instead use the grep, glob tools to search. You MUST"
        " avoid read tools like cat, head, tail, and use read_file to read files."
    ) in agent.dialect.spec("execute").description


def test_s0_40_one_call_is_one_act_and_a_command_may_join_several(agent: Session, tmp_path: Path) -> None:
    assert agent.call("write_file", {"file_path": "a.txt", "content": "one\n"}).status == "ok"
    assert _execute(agent, "cp a.txt b.txt && echo two >> b.txt && cat b.txt").text == "one\ntwo"
    assert tree(tmp_path) == {"a.txt": "one\n", "b.txt": "one\ntwo\n"}


def test_s0_40_glob_grep_read_edit_and_execute_work_as_a_chain(agent: Session, tmp_path: Path) -> None:
    put(tmp_path, "src/utils.py", "def total(items):\n    return deprecated_function(items)\n")
    put(tmp_path, "src/other.py", "x = 1\n")
    put(tmp_path, "check.py", "from src.utils import total\nassert total([1, 2]) == 3\nprint('passed')\n")

    globbed = agent.call("glob", {"pattern": "**/*.py"}).text.splitlines()
    assert {Path(line).name for line in globbed} == {"utils.py", "other.py", "check.py"}
    grepped = agent.call("grep", {"pattern": "deprecated_function", "glob": "*.py"})
    assert grepped.text.splitlines() == [str(tmp_path / "src/utils.py")]
    path = grepped.text.splitlines()[0]
    assert "deprecated_function" in agent.call("read_file", {"file_path": path}).text
    failing = _execute(agent, "python3 -B check.py")
    assert "NameError" in failing.text and failing.text.endswith("(exit code 1)")
    edited = agent.call("edit_file", {"file_path": path, "old_string": "deprecated_function", "new_string": "sum"})
    assert edited.status == "ok", edited.text
    assert _execute(agent, "python3 -B check.py").text == "passed"


def test_s0_41_output_up_to_the_threshold_stays_in_the_answer(agent: Session) -> None:
    result = _execute(agent, f"head -c {THRESHOLD} /dev/zero | tr '\\0' x", "call-1")
    assert result.text == "x" * THRESHOLD
    assert result.data["truncated"] is False and result.data["log"] is None


def test_s0_41_output_over_the_threshold_is_in_a_file_and_a_summary_stays(agent: Session) -> None:
    result = _execute(agent, f"seq 20000; head -c {THRESHOLD} /dev/zero | tr '\\0' x; echo", "call-1")
    assert len(result.text) < THRESHOLD // 2
    assert "/large_tool_results/call-1" in result.text and result.data["log"] == "/large_tool_results/call-1"


def test_s0_42_the_message_is_the_one_of_the_document(agent: Session) -> None:
    result = _execute(agent, "seq 100000", "toolu_01")
    sample = "1\n2\n3\n4\n5\n... 99990 lines omitted ...\n99996\n99997\n99998\n99999\n100000"
    assert result.text == TOO_LARGE.format(
        tool_call_id="toolu_01", file_path="/large_tool_results/toolu_01", content_sample=sample
    )


@pytest.mark.parametrize(
    ("id", "call", "name"), [("toolu_01", "toolu_01", "toolu_01"), (7, "7", "7"), ("a/../b", "a/../b", "a_.._b")]
)
def test_s0_42_batch_gives_the_message_with_the_id_of_the_line(
    tmp_path: Path, id: str | int, call: str, name: str
) -> None:
    put(tmp_path, "long.txt", "".join(f"{number}\n" for number in range(1, 100_001)))
    read = {"tool": "read_file", "arguments": {"file_path": f"/large_tool_results/{name}", "offset": 99_999}}
    execute = {"id": id, "tool": "execute", "arguments": {"command": "cat long.txt"}}
    answer, saved = run_batch(tmp_path, "deepagents", [execute, read])
    sample = "1\n2\n3\n4\n5\n... 99990 lines omitted ...\n99996\n99997\n99998\n99999\n100000"
    assert answer["text"] == TOO_LARGE.format(
        tool_call_id=call, file_path=f"/large_tool_results/{name}", content_sample=sample
    )
    assert answer["id"] == id and saved["text"] == "100000\t100000"


def test_s0_42_a_command_that_failed_says_so_behind_the_preview(agent: Session) -> None:
    assert _execute(agent, "seq 100000; exit 3", "call-1").text.endswith("\n100000\n(exit code 3)\n")
    assert _execute(agent, "seq 100000; kill -9 $$", "call-2").text.endswith("\n100000\n(ended by SIGKILL)\n")
    late, _ = until_it_got_far_enough(
        lambda seconds: _execute(agent, "seq 100000; sleep 600", "call-3", timeout=seconds),
        lambda result: "100000" in result.text,
    )
    assert "(all of it was saved at /large_tool_results/call-3)" in late.text


@pytest.mark.parametrize("lines", [30_000, 2_000_000])
@pytest.mark.parametrize("end", ["", "printf last"])
def test_s0_43_five_lines_of_each_end_and_how_many_lie_between(agent: Session, lines: int, end: str) -> None:
    result = _execute(agent, f"seq {lines}; {end}", "call-1")
    shown = result.text.partition("of the result:\n")[2].removesuffix("\n").split("\n")
    total = [str(number) for number in range(1, lines + 1)] + (["last"] if end else [])
    assert shown[:5] == total[:5] and shown[6:] == total[-5:]
    assert shown[5] == f"... {len(total) - 10} lines omitted ..."


def test_s0_43_the_preview_of_one_endless_line_is_short_too(agent: Session) -> None:
    result = _execute(agent, "head -c 3000000 /dev/zero | tr '\\0' x", "call-1")
    assert len(result.text) < THRESHOLD and "\n... 2960000 bytes omitted ...\n" in result.text


def test_s0_44_only_a_command_can_be_evicted(agent: Session, tmp_path: Path) -> None:
    put(tmp_path, "long.txt", "".join(f"line {number} {'x' * 90}\n" for number in range(20_000)))
    read = agent.call("read_file", {"file_path": "long.txt", "limit": 20_000}, id="call-1")
    assert len(read.text) <= THRESHOLD + 500 and "large_tool_results" not in read.text
    assert "/large_tool_results/call-2" in _execute(agent, "cat long.txt", "call-2").text


def test_s0_45_tools_that_bound_themselves_are_never_evicted(agent: Session, tmp_path: Path) -> None:
    long = "".join(f"line {number} {'x' * 90}\n" for number in range(20_000))
    put(tmp_path, "long.txt", long)
    for number in range(1_500):
        put(tmp_path, f"deep/a-rather-long-name-for-a-file-that-is-only-counted-{number}.txt", "line\n")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ls", {"path": str(tmp_path / "deep")}),
        ("glob", {"pattern": "**/*.txt"}),
        ("grep", {"pattern": "line", "output_mode": "content"}),
        ("read_file", {"file_path": "long.txt", "limit": 20_000}),
        ("edit_file", {"file_path": "long.txt", "old_string": "x\n", "new_string": "y\n", "replace_all": True}),
        ("write_file", {"file_path": "long.txt", "content": long}),
    ]
    assert {name for name, _ in calls} == {"ls", "glob", "grep", "read_file", "edit_file", "write_file"}
    for name, arguments in calls:
        result = agent.call(name, arguments, id=f"call-{name}")
        assert result.status in ("ok", "partial"), result.text
        assert "large_tool_results" not in result.text
        assert len(result.text) <= THRESHOLD + 500
    assert agent.call("ls", {"path": "/large_tool_results"}).error is not None
    assert not list(Path(os.environ["HANDRAIL_STATE"]).glob("artefacts/**/*"))


def test_s0_46_each_tool_says_in_its_own_way_how_to_go_on(agent: Session, tmp_path: Path) -> None:
    put(tmp_path, "long.txt", "".join(f"line {number}\n" for number in range(200_000)))
    assert agent.call("read_file", {"file_path": "long.txt"}).text.endswith(
        "(more lines follow: go on with offset=100)"
    )
    result = agent.call("grep", {"pattern": "line", "output_mode": "content"})
    assert result.status == "partial" and "use a more specific pattern" in result.text
    assert _execute(agent, "cat long.txt", "call-1").text.startswith("Tool result too large")


def test_s0_48_what_was_evicted_is_read_in_parts(agent: Session) -> None:
    _execute(agent, "seq 100000", "call-1")
    page = agent.call("read_file", {"file_path": "/large_tool_results/call-1", "offset": 77_776, "limit": 2})
    assert [line.split("\t") for line in page.text.splitlines()[:2]] == [[" 77777", "77777"], [" 77778", "77778"]]


def test_s0_48_what_was_evicted_is_searched(agent: Session) -> None:
    _execute(agent, "seq 100000", "call-1")
    _execute(agent, "seq 200000 300000", "call-2")
    result = agent.call(
        "grep", {"pattern": "234567", "path": "/large_tool_results/", "output_mode": "content", "context": 0}
    )
    assert result.text == "/large_tool_results/call-2:34568:234567"
    listed = agent.call("ls", {"path": "/large_tool_results"})
    assert listed.text.splitlines() == ["/large_tool_results/call-1", "/large_tool_results/call-2"]


def test_s0_48_what_was_evicted_is_all_that_was_printed(agent: Session) -> None:
    _execute(agent, "seq 30000; printf '\\033[31mred\\033[0m\\xff'", "call-1")
    tail = agent.call("read_file", {"file_path": "/large_tool_results/call-1", "offset": 30_000})
    assert "red" in tail.text  # the bytes as they were printed, colours and all
