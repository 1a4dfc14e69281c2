"""The order of the pipeline is checked by types: a step that is skipped or moved does not pass mypy."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = """
from handrail.model import Result
from handrail.pipeline.call_state import (
    Approved, Declared, Done, Judged, Parsed, Progress, Ran, Received, Rendered, Resolved
)
from handrail.pipeline.context import ToolContext
from handrail.pipeline.prepare import judge
from handrail.pipeline.prepare import parse
from handrail.pipeline.prepare import declare, resolve
from handrail.pipeline.session import commit, run, run_and_commit
from handrail.pipeline.services import Services

def call(received: Received, services: Services, progress: Progress, context: ToolContext) -> object:
"""
RIGHT = {
    "all_steps": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    return run_and_commit(services.approvals.approve(judged), services, progress)
""",
    "run_and_commit_apart": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    return commit(run(services.approvals.approve(judged), context), None, services, progress)
""",
}
WRONG = {
    "without_parse": "    return declare(received)",
    "without_declare": """
    return resolve(parse(received, services.dialect, services.redaction), services.workspace)
""",
    "without_resolve": """
    return judge(declare(parse(received, services.dialect, services.redaction)), services)
""",
    "without_judge": """
    parsed = parse(received, services.dialect, services.redaction)
    return services.approvals.approve(resolve(declare(parsed), services.workspace))
""",
    "without_approve": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    return run_and_commit(judged, services, progress)
""",
    "run_before_approve": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    return services.approvals.approve(run(judged, context))
""",
    "commit_before_run": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    return run(commit(services.approvals.approve(judged), None, services, progress), context)
""",
    "judge_before_resolve": """
    declared = declare(parse(received, services.dialect, services.redaction))
    return resolve(judge(declared, services), services.workspace)
""",
    "record_before_render": """
    parsed = parse(received, services.dialect, services.redaction)
    judged = judge(resolve(declare(parsed), services.workspace), services)
    done = run_and_commit(services.approvals.approve(judged), services, progress)
    return services.recorder.record(done)
""",
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The errors of mypy, by snippet."""
    folder = tmp_path_factory.mktemp("snippets")
    for name, body in {**RIGHT, **WRONG}.items():
        (folder / f"{name}.py").write_text(HEAD + body, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    files = sorted(str(path) for path in folder.iterdir())
    env = {**os.environ, "MYPYPATH": str(ROOT / "src")}
    done = subprocess.run([*command, *files], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    return {name: [line for line in lines if f"/{name}.py:" in line] for name in {**RIGHT, **WRONG}}


@pytest.mark.slow
@pytest.mark.parametrize("name", RIGHT)
def test_the_steps_in_their_order_pass_the_type_checker(errors: dict[str, list[str]], name: str) -> None:
    assert errors[name] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_step_that_is_skipped_or_moved_is_a_type_error(errors: dict[str, list[str]], name: str) -> None:
    assert any("[arg-type]" in line for line in errors[name]), errors[name]
