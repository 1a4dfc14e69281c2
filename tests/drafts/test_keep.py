"""Kept files carry nothing of the draft with them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from handrail.drafts.keep import keep
from handrail.drafts.layout import DraftDirectory
from tests.drafts.scenarios import ENTER

_CHANGES = ("echo more >> a", "chmod 600 a", "touch -d @1000000000 a")
_WAYS = ("ln a new/b", "ln a new/b; rm a", "mv a new/b", "ln a c; mv c new/b", "mv a new/b; mv new n2; chmod 555 n2")


def _run_as_user(draft: DraftDirectory, command: str) -> None:
    """Run a command in an overlay of a user namespace, also as root: the kernel finds no origins of files there."""
    words = ["unshare", "-Ur", sys.executable, ENTER, draft.info.workspace, draft.upper, draft.work]
    try:
        subprocess.run([*words, "sh", "-c", command], check=True, timeout=600)
    except FileNotFoundError:
        pytest.skip("the program unshare is not installed")
    except subprocess.CalledProcessError:
        pytest.skip("no overlay can be mounted here: the reason is in the output of this test")


@pytest.mark.parametrize("change", _CHANGES)
@pytest.mark.parametrize("way", _WAYS)
def test_a_kept_file_has_no_marks_of_the_kernel(tmp_path: Path, change: str, way: str) -> None:
    """Overlayfs marks the files that it has copied, but the directory that one is moved to not always."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "a").write_text("one\n", encoding="ascii")
    draft = DraftDirectory.create(str(tmp_path / "draft"), str(workspace))
    _run_as_user(draft, change)
    _run_as_user(draft, f"mkdir -p new/deep; {way}; chmod 444 n*/b")  # a new mount remembers less than a running one
    keep(draft)
    for path in (workspace, *workspace.rglob("*")):
        assert not [name for name in os.listxattr(path) if name.startswith("user.overlay.")], path
