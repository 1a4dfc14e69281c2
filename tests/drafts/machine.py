"""Whether drafts can be used on this machine, for tests that need them."""

from __future__ import annotations

import os
import tempfile

import pytest

from handrail.drafts.store import DraftStore
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.mount_plan import DraftLayers
from handrail.shell.sandbox.namespaces import NamespaceBoundary


def _find_obstacle() -> str:
    """Why no command can run in a draft here; empty if one can."""
    with tempfile.TemporaryDirectory(prefix="handrail-test-") as folder:
        workspace = os.path.join(os.path.realpath(folder), "workspace")
        os.mkdir(workspace)
        try:
            store = DraftStore.open(os.path.join(folder, "state"), workspace)
            boundary = NamespaceBoundary(Confinement((workspace,), drafts=store.layers_directory))
        except OSError as error:
            return str(error)
        draft = store.create()
        try:
            return (
                ""
                if boundary.spawn(["true"], cwd=workspace, draft=DraftLayers(workspace, draft.name)).wait() == 0
                else "a command failed"
            )
        except OSError as error:
            return str(error)
        finally:
            boundary.close()
            draft.drop()


_OBSTACLE: list[str] = []


def find_obstacle() -> str:
    """Why no command can run in a draft here; empty if one can. Looked for once."""
    if not _OBSTACLE:
        _OBSTACLE.append(_find_obstacle())
    return _OBSTACLE[0]


def require_drafts() -> None:
    """Skip the test if no command can run in a draft here."""
    if find_obstacle():
        pytest.skip(f"no command can run in a draft here: {find_obstacle()}")
