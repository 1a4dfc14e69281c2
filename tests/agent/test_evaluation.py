"""The tasks of `handrail eval`: the scripted model does all of them, and the judgement sees what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail import dialects
from handrail.agent.evaluation.tasks import BadTask, EvalTask, build_tree, judge, load_tasks, read_tree
from handrail.agent.evaluation.workers import OurAgent, TaskResult, do_task
from tests.command import handrail as run_command
from tests.docs.pages import blocks_of
from tests.drafts.machine import find_obstacle

TASKS = load_tasks()
DIALECTS = ("native", "codex", "claude")


def handrail(*words: str) -> tuple[int, str, str]:
    """The exit code of the command, what it prints, and what it says on stderr."""
    done = run_command(*words, cwd=Path.cwd())
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def figures(outcome: TaskResult) -> tuple[object, ...]:
    """Everything about an outcome but its time."""
    return outcome.work, outcome.judgement


def test_there_are_twenty_tasks() -> None:
    assert len(TASKS) == 20
    assert all(task.prompt.strip() and task.steps and (task.expect or task.check) for task in TASKS)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_scripted_model_does_every_task_with_the_tools_of_a_dialect(dialect: str) -> None:
    outcomes = [do_task(OurAgent("scripted", dialects.load(dialect), "full"), task) for task in TASKS]
    assert {one.task: (one.judgement, one.work.ending) for one in outcomes if not one.judgement.passed} == {}
    assert [one.judgement.wrong for one in outcomes] == [()] * 20


def test_a_forgiving_tool_needs_fewer_turns() -> None:
    (task,) = load_tasks(ids=["lost-indentation"])
    forgiving, exact = (
        do_task(OurAgent("scripted", dialects.load(dialect), "full"), task) for dialect in ("native", "claude")
    )
    assert (forgiving.work.turns, exact.work.turns) == (3, 4)


@pytest.mark.parametrize("dialect", ["native", "codex"])
def test_with_the_scripted_model_the_figures_are_the_same_every_time(dialect: str) -> None:
    tasks = load_tasks(ids=["todo-to-done", "stale-patch", "version-in-three-files"])
    worker = OurAgent("scripted", dialects.load(dialect), "full")
    first, second = ([figures(do_task(worker, task)) for task in tasks] for _ in range(2))
    assert first == second


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_an_agent_that_does_nothing_passes_no_task(task: EvalTask, tmp_path: Path) -> None:
    build_tree(task, tmp_path)
    judgement = judge(task, tmp_path, read_tree(tmp_path))
    assert not judgement.passed and judgement.why and not judgement.wrong


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.id)
def test_a_file_that_no_task_names_is_wrong_if_it_changes(task: EvalTask, tmp_path: Path) -> None:
    build_tree(task, tmp_path)
    before = read_tree(tmp_path)
    (tmp_path / "surprise.txt").write_text("I was here\n", encoding="utf-8")
    assert judge(task, tmp_path, before).wrong == ["surprise.txt"]


@pytest.mark.parametrize("task", [task for task in TASKS if task.expect], ids=lambda task: task.id)
def test_an_expected_file_with_other_content_is_wrong(task: EvalTask, tmp_path: Path) -> None:
    build_tree(task, tmp_path)
    before = read_tree(tmp_path)
    for name in task.expect:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("nonsense\n", encoding="utf-8")
    assert sorted(judge(task, tmp_path, before).wrong) == sorted(task.expect)


def test_an_expected_file_that_is_deleted_is_wrong(tmp_path: Path) -> None:
    (task,) = load_tasks(ids=["carriage-returns"])
    build_tree(task, tmp_path)
    before = read_tree(tmp_path)
    (tmp_path / "run.bat").unlink()
    assert judge(task, tmp_path, before).wrong == ["run.bat"]


def test_a_task_with_an_unknown_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('prompt = "x"\nsteps = []\nexpected = {}\n', encoding="utf-8")
    with pytest.raises(BadTask, match="unknown key expected"):
        load_tasks(tmp_path)


OWN = """
prompt = "Write hello.txt."
steps = [{ write = "hello.txt", text = "Hello\\n" }]
expect = { "hello.txt" = "Hello\\n" }
"""


def test_the_task_of_the_page_can_be_done(tmp_path: Path) -> None:
    (block,) = blocks_of("toml", page="evaluation.md")
    (tmp_path / "greet.toml").write_text(block.text, encoding="utf-8")
    assert handrail("eval", "--tasks", str(tmp_path))[0] == 0


def test_own_tasks_and_the_trees_that_are_kept(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "greet.toml").write_text(OWN, encoding="utf-8")
    words = ["--tasks", str(tmp_path / "tasks"), "--keep", str(tmp_path / "kept"), "--json"]
    code, out, _ = handrail("eval", *words)
    line = json.loads(out)
    assert (code, line["worker"], line["task"], line["passed"], line["turns"]) == (0, "native", "greet", True, 2)
    assert (tmp_path / "kept" / "native" / "greet" / "hello.txt").read_text(encoding="utf-8") == "Hello\n"
    assert handrail("eval", *words)[0] == 2  # the directory is there already


AGENT = """
import json, sys, urllib.request
url, prompt, name = sys.argv[1:]
tool = {"type": "function", "function": {"name": "write", "parameters": {"properties": {"path": {}, "content": {}}}}}
messages = [{"role": "user", "content": prompt}]
body = json.dumps({"messages": messages, "tools": [tool]}).encode()
request = urllib.request.Request(url + "/v1/chat/completions", body)
raw = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).read().decode()
chunks = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
parts = [c["function"]["arguments"] for k in chunks for d in k["choices"] for c in d["delta"].get("tool_calls", [])]
arguments = json.loads("".join(parts))
open(name or arguments["path"], "w").write(arguments["content"])
"""


@pytest.mark.parametrize(("name", "code", "wrong"), [("''", 0, "0"), ("other.txt", 1, "1")])
def test_another_agent_is_run_by_its_command_line(tmp_path: Path, name: str, code: int, wrong: str) -> None:
    (tmp_path / "greet.toml").write_text(OWN, encoding="utf-8")
    (tmp_path / "agent.py").write_text(AGENT, encoding="utf-8")
    command = f"{sys.executable} {tmp_path / 'agent.py'} {{model}} {{prompt}} {name}"
    answer, out, err = handrail("eval", "--tasks", str(tmp_path), "--agent", command)
    row = out.splitlines()[1].split()
    assert (answer, row[4], row[6]) == (code, "1", wrong)
    assert ("wrong: other.txt" in err) == bool(code)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--agent", "nobody"], "unknown agent nobody"),
        (["--agent", "nobody {prompt}"], "has no {model}"),
        (["--agent", "/nowhere/agent {model} {prompt}"], "cannot be started"),
        (["--task", "nothing"], "there is no task nothing"),
        (["--dialect", "nothing"], "nothing"),
    ],
)
def test_wrong_usage_says_what_is_wrong(words: list[str], why: str) -> None:
    code, _, err = handrail("eval", *words)
    assert code == 2 and why in err


def test_what_an_agent_reports_of_its_own_model_is_read(tmp_path: Path) -> None:
    report = {"num_turns": 3, "usage": {"input_tokens": 20, "output_tokens": 2, "service_tier": "standard"}}
    (tmp_path / "greet.toml").write_text(OWN, encoding="utf-8")
    program = f"import json; open('hello.txt', 'w').write('Hello\\n'); print(json.dumps({report!r}))"
    command = f'{sys.executable} -c "{program}" {{prompt}}'.replace("\\n", "\\\\n")
    code, out, _ = handrail("eval", "--tasks", str(tmp_path), "--model", "other", "--agent", command, "--json")
    line = json.loads(out)
    assert (code, line["turns"], line["tokens"]) == (0, 3, 22)


@pytest.mark.skipif(bool(find_obstacle()), reason="commands need drafts here to run without a question")
def test_the_trees_of_the_evaluation_leave_nothing_behind(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-m", "handrail", "eval", "--task", "star-and-two-stars"]
    assert subprocess.run(words, env=environ, capture_output=True, check=True).stdout
    assert list(tmp_path.iterdir()) == []
