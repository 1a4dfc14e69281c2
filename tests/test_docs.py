"""The README is true: its Python runs, its commands run, and the commands it names are in the Makefile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "path" / "to" / "project"
    root.mkdir(parents=True)
    (root.parent / "library").mkdir()
    (root / "README.md").write_text("# A project\n", encoding="utf-8")
    (root / "notes.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    return root


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_of_the_readme_runs(code: str, project: Path, tmp_path: Path) -> None:
    code += (
        '\nanswer = session.call("Read", {"file_path": __import__("os").path.abspath("path/to/project/README.md")})\n'
    )
    code += 'assert answer.status == "ok" and "# A project" in answer.text\n'
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_readme_run_in_the_order_given(project: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 6
    answers = []
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        answers.append(done.stdout)
    assert "one" in answers[0] and "three" not in answers[0]
    assert json.loads(answers[1])["status"] == "ok"
    assert "Goodbye" in answers[2] and any("hello.txt:1:Goodbye" in answer for answer in answers)
    assert (project / "hello.txt").read_text(encoding="utf-8") == "Hello\n"  # the edit was taken back
    assert json.loads(answers[-1])["id"] == 1


def test_the_configuration_of_the_readme_is_accepted(project: Path, tmp_path: Path) -> None:
    (block,) = blocks("toml")
    config = tmp_path / "config.toml"
    config.write_text(block, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "handrail", "call", "Read", "file_path=notes.txt"],
        cwd=project,
        env={**os.environ, "HANDRAIL_CONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_names_exactly_the_commands_that_set_up_and_run() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z]+)\b", README)) - {"it"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), (page.name, target)
