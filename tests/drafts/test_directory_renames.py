"""Directories of the workspace can be renamed in a draft, and look the same afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.drafts.keep import keep, undo
from handrail.drafts.layout import DraftDirectory
from tests.drafts.scenarios import run_in_draft
from tests.drafts.trees import describe, fill
from tests.sizes import pick

PROJECT = Path(__file__).parents[2]
_RENAME = """
import json, os, sys
sys.path[:0] = [{project!r} + "/src", {project!r}]
from handrail.files.overlay_renames import make_renamable
from tests.drafts.trees import describe
before = describe("dir", times=True)
refused = True
try:
    os.rename("dir", "renamed")
    os.rename("renamed", "dir")
    refused = False
except OSError:
    pass
here = os.open(".", os.O_RDONLY)
top = os.fstat(here).st_mtime_ns
made = make_renamable(here, "dir")
assert made == refused and not make_renamable(here, "dir"), (made, refused)
assert os.fstat(here).st_mtime_ns == top, "its parent has another time"
assert describe("dir", times=True) == before, "it looks different"
os.rename("dir", "renamed")
assert describe("renamed", times=True) == before
assert not [name for name in os.listdir(".") if name.startswith(".handrail-")]
"""


def open_draft(folder: Path, seed: int) -> DraftDirectory:
    workspace = folder / "workspace"
    (workspace / "dir").mkdir(parents=True)
    fill(str(workspace / "dir"), seed, 60)
    draft = DraftDirectory.create(str(folder / "draft"), str(workspace))
    try:
        run_in_draft(draft, "true")
    except subprocess.CalledProcessError:
        pytest.skip("no overlay can be mounted here: the reason is in the output of this test")
    return draft


@pytest.mark.parametrize("seed", range(pick(3, 100)))
def test_a_directory_is_renamed_with_everything_in_it(tmp_path: Path, seed: int) -> None:
    draft = open_draft(tmp_path, seed)
    workspace = draft.info.workspace
    before = describe(workspace, times=True)
    run_in_draft(draft, sys.executable, "-c", _RENAME.format(project=str(PROJECT)))
    assert describe(workspace, times=True) == before
    keep(draft)
    after = describe(workspace, times=True)
    renamed = {path.replace("dir", "renamed", 1): entry[:4] for path, entry in before.items() if path}
    assert {path: entry[:4] for path, entry in after.items() if path} == renamed, json.dumps(sorted(after))
    undo(draft)
    assert describe(workspace, times=True) == before
