"""A fleet on a real Ray: `make test-fleet` installs it and sets HANDRAIL_FLEET."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Fleet, FleetWorkspace, Session
from tests.command import handrail
from tests.docs.pages import blocks_of

pytestmark = pytest.mark.skipif(not os.environ.get("HANDRAIL_FLEET"), reason="needs Ray: `make test-fleet` installs it")


@pytest.fixture
def tree(tmp_path: Path) -> str:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a.txt").write_text("one\n")
    return str(tmp_path / "tree")


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    monkeypatch.setenv("RAY_DISABLE_IMPORT_WARNING", "1")
    with Fleet(mode="full") as one:
        yield one


def edit_and_die_once(session: Session, workspace: FleetWorkspace) -> str:
    """Two commands that leave a line each and an edit; the worker is killed between them, the first time."""
    session.call("Bash", {"command": "echo first >> ledger.txt"})
    session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "one more"})
    mark = Path(workspace.data["marks"], workspace.name)
    if workspace.data["dies"] and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    if workspace.name == "poison":
        raise RuntimeError("poison")
    session.call("Bash", {"command": "echo second >> ledger.txt"})
    return session.call("Bash", {"command": "cat ledger.txt a.txt"}).text


@pytest.mark.slow
def test_killed_workers_and_a_poison_workspace(fleet: Fleet, tree: str, tmp_path: Path) -> None:
    (tmp_path / "marks").mkdir()
    names = [*(f"w{number}" for number in range(8)), "poison"]
    workspaces = [
        FleetWorkspace(name, folder=tree, data={"marks": str(tmp_path / "marks"), "dies": number % 4 == 0})
        for number, name in enumerate(names)
    ]
    results = {one.workspace: one for one in fleet.map(edit_and_die_once, workspaces, concurrency=3)}
    assert sorted(results) == sorted(names)
    assert "poison" in results.pop("poison").error
    assert {one.value for one in results.values()} == {"first\nsecond\none more"}, results
    assert len(list((tmp_path / "marks").iterdir())) >= 2
    with fleet.session(workspaces[0]) as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok


@pytest.mark.slow
def test_the_example_of_the_page(
    tree: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [one for one in blocks_of("python") if one.page == "fleet.md" and "Fleet(" in one.text]
    monkeypatch.chdir(tmp_path)
    exec(block.text.replace('folder="tree"', f"folder={tree!r}"), {"__name__": "__main__"})
    lines = sorted(capsys.readouterr().out.splitlines())
    assert [line.split()[:2] for line in lines] == [[f"copy-{number}", "ok"] for number in range(4)]


@pytest.mark.slow
def test_the_command_runs_tasks(tree: str, tmp_path: Path) -> None:
    lines = [
        {
            "workspace": {"name": name, "folder": tree},
            "calls": [{"tool": "Write", "arguments": {"file_path": "b.txt", "content": name}}],
            "check": f"grep -q {expected} b.txt",
        }
        for name, expected in (("good", "good"), ("bad", "other"))
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = handrail("fleet", "run", "tasks.jsonl", "--mode", "full", cwd=tmp_path)
    answers = {one["workspace"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 1
    assert (answers["good"]["passed"], answers["bad"]["passed"]) == (True, False), done.stderr
    assert b"2 tasks, 1 passed" in done.stderr
