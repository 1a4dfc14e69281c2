"""Why there can be no draft of a workspace: each reason has a sentence of its own, and a working one leaves nothing."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from handrail.shell import command_drafts
from handrail.shell.command_drafts import check_drafts
from handrail.shell.sandbox.launcher_client import SetUpFailed, explain_draft
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe


@pytest.mark.parametrize("step", ["unshare", "overlay"])
def test_each_reason_has_a_sentence_of_its_own(step: str) -> None:
    numbers = (errno.ENOSPC, errno.EPERM, errno.EINVAL, errno.ENOSYS, errno.EIO)
    sentences = {str(explain_draft(SetUpFailed(number, step, ""), "/w").strerror) for number in numbers}
    assert len(sentences) == len(numbers)


def test_overlays_that_a_security_module_forbids_are_not_those_of_an_old_kernel() -> None:
    refused = [
        explain_draft(SetUpFailed(number, "overlay", ""), "/w").strerror for number in (errno.EPERM, errno.EACCES)
    ]
    assert refused[0] != refused[1]


def test_the_whole_chain_is_tried_in_the_workspace_and_leaves_it_as_it_was(tmp_path: Path) -> None:
    require_drafts()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "file").write_text("x", encoding="utf-8")
    before = describe(str(workspace), times=True)
    check_drafts(str(tmp_path / "state"), str(workspace))
    assert describe(str(workspace), times=True) == before


def test_a_command_that_fails_in_the_trial_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_drafts()
    (tmp_path / "workspace").mkdir()
    run = command_drafts._run
    monkeypatch.setattr(command_drafts, "_run", lambda words, *more: run(["false"], *more))
    with pytest.raises(OSError, match="ended with 1"):
        check_drafts(str(tmp_path / "state"), str(tmp_path / "workspace"))
