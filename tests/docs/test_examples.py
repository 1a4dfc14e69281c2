"""The programs of `examples/` do what their page says; the one on Ray is run by `make test-fleet`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from handrail_demo.scripted_server import Line, ScriptedServer, in_order
from tests.docs.pages import ROOT, TIMEOUT, Place
from tests.docs.test_course import run_program

EXAMPLES = ROOT / "examples"
PROGRAMS = sorted([*EXAMPLES.glob("*.py"), *EXAMPLES.glob("*/run.py")])
RAY = EXAMPLES / "evaluation_on_ray.py"


def test_the_page_links_every_example() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(PROGRAMS) == 5
    assert all(f"](../{path.relative_to(ROOT)})" in page for path in PROGRAMS)


def test_the_examples_have_types() -> None:
    for path in PROGRAMS:
        words = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(path)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, encoding="utf-8", timeout=10 * TIMEOUT, check=False)
        assert (done.stdout, done.stderr) == ("", ""), path


def test_functions_become_tools_that_are_undone(place: Place) -> None:
    printed = run_program(place, EXAMPLES / "own_tool.py").splitlines()
    assert printed == [
        "without a licence: new.py",
        "1 files have a licence now.",
        "outside: denied",
        "after undo: ['old.py']",
    ]


def test_a_dialect_has_its_own_names_limits_and_sentences(place: Place) -> None:
    printed = run_program(place, EXAMPLES / "own_dialect" / "run.py")
    assert "tools: view change sh\n" in printed and "view takes: file from_line lines" in printed
    assert "(more lines follow: from_line=2)" in printed
    assert "That text is in menu.txt 2 times. Send more lines." in printed
    assert "2\tcoffee 2.60" in printed
    assert place.handrail("dialects", "check", str(EXAMPLES / "own_dialect")).returncode == 0


def test_the_rules_of_a_team_allow_ask_and_refuse(place: Place) -> None:
    rows = [line.split(maxsplit=3) for line in run_program(place, EXAMPLES / "team_rules" / "run.py").splitlines()]
    assert {row[2].rstrip(":"): row[0] for row in rows} == {
        "src/app.py": "ok",
        "migrations/001.sql": "denied",
        "migrations/002.sql": "ok",
        "generated/api.py": "denied",
        "customers/list.csv": "denied",
    }


def test_a_project_takes_the_rules_of_the_team_from_its_file(place: Place) -> None:
    shutil.copy(EXAMPLES / "team_rules" / "handrail.toml", place.project)
    explained = place.handrail("policy", "explain", "Write", '{"file_path": "generated/a.py", "content": "x"}')
    assert "deny Edit(generated/**)" in explained.stdout


def test_the_reviewer_changes_nothing(place: Place) -> None:
    printed = run_program(place, EXAMPLES / "reviewer.py").splitlines()
    assert [line.split()[0] for line in printed[:4]] == ["ok", "ok", "denied", "denied"]
    assert printed[-1] == "unchanged: True"


def test_the_reviewer_reviews_a_project_with_a_model(place: Place) -> None:
    place.write("a.py", "x = 1\n")
    script = [Line("", [("Read", {"file_path": "a.py"})]), Line("a.py:1: nothing is wrong.")]
    path = str(EXAMPLES / "reviewer.py")
    code = f"import runpy, sys; sys.argv[1:] = ['.']; runpy.run_path({path!r}, run_name='__main__')"
    with ScriptedServer(in_order(script)) as server:
        printed = place.python(code, OPENAI_BASE_URL=server.url, HANDRAIL_MODEL="scripted")
    assert printed.splitlines() == ["ok      Read", "a.py:1: nothing is wrong."]


@pytest.mark.skipif(not os.environ.get("HANDRAIL_FLEET"), reason="needs Ray: `make test-fleet` installs it")
def test_a_hundred_workspaces_on_ray(tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, str(RAY)],
        env=environ,
        capture_output=True,
        encoding="utf-8",
        timeout=10 * TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "  25 as sent: ok, as expected",
        "  25 gone: no_match, as expected",
        "  25 indented: ok, as expected",
        "  25 twice: many_matches, as expected",
    ]
