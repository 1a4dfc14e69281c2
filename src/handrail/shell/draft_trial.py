"""Try whether commands can run in drafts of a workspace, in that very workspace."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import subprocess
from collections.abc import Sequence

from handrail.drafts.compare import compare
from handrail.drafts.keep import DraftConflict, keep, undo
from handrail.drafts.store import DraftStore, NoDraft, OpenDraft
from handrail.programs import get_program, make_search_path
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.environment import scrub_environment
from handrail.shell.sandbox.launcher_client import SetUpFailed
from handrail.shell.sandbox.mount_plan import DraftLayers
from handrail.shell.sandbox.namespace_errors import explain_draft
from handrail.shell.sandbox.namespaces import NamespaceBoundary

_SECONDS = 60.0


def try_draft(store: DraftStore, boundary: NamespaceBoundary) -> None:
    """Run a command in a draft, and drop it; raises `OSError` with the reason why that is not possible."""
    draft = store.create()
    try:
        _run([get_program("true")], draft, boundary)
    finally:
        draft.drop()


def check_drafts(state: str, workspace: str) -> str:
    """Carry out the whole chain: run a command in a draft, keep its changes in the workspace, and take them back.

    Returns a remark on what does not work in drafts; raises `OSError` with the reason why there can be none.
    """
    store = DraftStore.open(state, workspace)
    store.look_at_owners()
    boundary = NamespaceBoundary(Confinement((store.workspace,), drafts=store.layers_directory))
    name = f".handrail-{secrets.token_hex(8)}"
    with contextlib.closing(boundary):
        draft = store.create()
        try:
            _run([get_program("sh"), "-c", f"mkdir {name} && echo 1 > {name}/file"], draft, boundary)
            _keep_and_undo(draft, name)
        except DraftConflict as error:
            raise NoDraft(errno.EBUSY, f"the workspace was changed during the trial: {error}", workspace) from None
        finally:
            draft.drop()
        remarks = [] if boundary.renames_directories else ["directories of the workspace cannot be renamed in them"]
        if store.layers:
            remarks.append(_describe_layers(store.layers))
        return "; ".join(remarks)


def _describe_layers(layers: str) -> str:
    free = os.statvfs(layers)
    room = free.f_bavail * free.f_frsize >> 20
    place = os.path.dirname(layers)
    return f"the workspace is on overlayfs: keeping changes copies them from {place} ({room:,} MB free)"


def _run(words: Sequence[str], draft: OpenDraft, boundary: NamespaceBoundary) -> None:
    workspace, quiet = draft.directory.info.workspace, subprocess.DEVNULL
    layers = DraftLayers(workspace, draft.name)
    env = scrub_environment(set={"PATH": make_search_path()})
    try:
        tried = boundary.spawn(words, cwd=workspace, env=env, stdin=quiet, stdout=quiet, stderr=quiet, draft=layers)
    except SetUpFailed as error:
        raise explain_draft(error, workspace) from None
    if tried.wait(_SECONDS) != 0:
        raise NoDraft(0, f"a trial command ended with {tried.returncode}", workspace)


def _keep_and_undo(draft: OpenDraft, name: str) -> None:
    directory = draft.directory
    place = os.path.join(directory.info.workspace, name)
    comparison = compare(directory)
    if [step.path for step in comparison.steps if step.action == "create"] != [name] or os.path.lexists(place):
        raise NoDraft(errno.EIO, "the changes of a trial command are not what it did", place)
    keep(directory, comparison)
    is_kept = os.path.exists(os.path.join(place, "file"))
    undo(directory)
    if not is_kept or os.path.lexists(place):
        raise NoDraft(errno.EIO, "the changes of a trial command were not kept, or not taken back", place)
