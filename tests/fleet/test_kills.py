"""The kill test without Ray, on few workspaces: a thread for each, whose worker ends in the middle and starts over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handrail import FleetWorkspace
from handrail.fleet.worker import work_in
from tests.fleet.kill_test import WorkerDied, check_ledgers, die, make_steps, make_tree, read_ledgers


@pytest.mark.slow
def test_edits_are_made_once_and_commands_are_not_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handrail.fleet.workspaces._try_drafts", lambda _: False)  # drafts are in the test with Ray
    tree = make_tree(tmp_path / "tree")
    (tmp_path / "marks").mkdir()
    data = {"seed": 1, "cuts": 3, "marks": str(tmp_path / "marks"), "die": die}
    workspaces = [FleetWorkspace(f"w{number}", folder=tree, data={**data, "dies": number == 0}) for number in range(3)]

    def work(workspace: FleetWorkspace) -> list[str]:
        try:
            value = work_in(workspace, make_steps, "run", {"mode": "full"}).value
        except WorkerDied:  # as Ray does
            value = work_in(workspace, make_steps, "run", {"mode": "full"}).value
        assert isinstance(value, list)
        return value

    with ThreadPoolExecutor(len(workspaces)) as pool:
        ends = list(pool.map(work, workspaces))
    assert list((tmp_path / "marks").iterdir())
    for workspace, one in zip(workspaces, ends, strict=True):
        check_ledgers(one, *work_in(workspace, read_ledgers, "run", {"mode": "full"}).value)
