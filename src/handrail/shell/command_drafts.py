"""The drafts that the commands of a session run in, and a trial whether there can be any of a workspace."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Unpack

from handrail.drafts.compare import compare
from handrail.drafts.hidden_paths import HidingLayer, remove_copies
from handrail.drafts.keep import DraftConflict, keep, undo
from handrail.drafts.store import DraftStore, NoDraft, OpenDraft
from handrail.errors import BadCommand
from handrail.programs import get_program, make_search_path
from handrail.shell.sandbox import Network
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.environment import Logins, scrub_environment
from handrail.shell.sandbox.launcher_client import SetUpFailed, explain_draft
from handrail.shell.sandbox.mount_plan import DraftLayers
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.shell.session_sandbox import SessionSandbox
from handrail.shell.start_process import ProcessOptions
from handrail.system_calls import is_shortage

_FULL = (errno.ENOSPC, errno.EDQUOT)
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


_PAUSE = 30.0
"""Seconds until a draft is tried again on a full disk."""


class CommandDrafts:
    """Creates and drops drafts of the workspace, and hides files in them."""

    def __init__(self, sandbox: SessionSandbox, keep_env: tuple[str, ...]) -> None:
        self._sandbox = sandbox
        self._keep_env = keep_env
        self._lock = threading.Lock()
        self._has_tried = False
        self._stopped = ""
        """Why no more drafts are created."""
        self._stopped_until: float | None = None
        self._dropping: list[threading.Thread] = []
        self._hiding: list[HidingLayer] = []
        """Layers without the hidden paths: that of the newest drafts is the last, and commands may still use others."""

    @property
    def why_none(self) -> str:
        """Why commands run in no draft; known once one was wanted."""
        return self._stopped or self._sandbox.why_no_store

    @property
    def workspace(self) -> str:
        """The real path of the directory of which commands run in drafts; empty if they do not."""
        store = self._try_store()
        return store.workspace if store else ""

    def _try_store(self) -> DraftStore | None:
        """The store, if a command can run in a draft of this very workspace; else None, and `why_none` says why.

        That is tried when the first command may change files: a look at all files of a workspace takes its time.
        """
        boundary, store = self._sandbox.boundary, self._sandbox.store
        with self._lock:
            if self._stopped_until is not None and time.monotonic() >= self._stopped_until:
                self._stopped, self._stopped_until = "", None
            if store and not self._stopped and not self._has_tried:
                assert isinstance(boundary, NamespaceBoundary)
                try:
                    store.look_at_owners()
                    try_draft(store, boundary)
                    self._has_tried = True
                except OSError as error:
                    self._stop(error, error.strerror or str(error))
            return None if self._stopped else store

    def _stop(self, error: OSError, reason: str) -> None:
        """Create no more drafts, or none for some time if the disk is full. A shortage fails this call alone."""
        if is_shortage(error):
            raise error
        self._stopped = reason
        self._stopped_until = time.monotonic() + _PAUSE if error.errno in _FULL else None

    def create(self) -> OpenDraft | None:
        """A new draft of the workspace; None if there can be none, and `why_none` says why.

        Raises `OSError` if the process lacks what a draft needs just now, such as descriptors.
        """
        store = self._try_store()
        if store is None:
            return None
        try:
            return store.create()
        except OSError as error:
            with self._lock:
                self._stop(error, f"a draft cannot be created: {error.strerror}")
            return None

    def drop(self, draft: OpenDraft) -> None:
        """Delete a draft without waiting for it: to free the blocks of its directories takes some disks long."""
        thread = threading.Thread(target=_drop, args=(OpenDraft(draft.directory, draft.lock),))
        draft.lock = -1
        with self._lock:
            self._dropping = [*(one for one in self._dropping if one.is_alive()), thread]
            thread.start()

    def start(
        self, args: Sequence[str], draft: OpenDraft, network: Network | None = None, **how: Unpack[ProcessOptions]
    ) -> subprocess.Popen[bytes]:
        """Start a program in a draft, in the words of `subprocess.Popen`. No file is protected from it."""
        boundary = self._sandbox.boundary
        assert isinstance(boundary, NamespaceBoundary)
        how.setdefault("env", scrub_environment(keep=self._keep_env))
        logins = Logins(all_files=network == "on")
        layers = DraftLayers(draft.directory.info.workspace, draft.name)
        return boundary.spawn(args, network=network, protection="nothing", logins=logins, draft=layers, **how)

    def make_layers(self, draft: OpenDraft) -> DraftLayers:
        """The layers of a draft, with one in which the hidden paths are absent."""
        workspace = draft.directory.info.workspace
        paths = tuple(os.path.relpath(path, workspace) for path in self._sandbox.hidden_files.list_inside(workspace))
        with self._lock:
            hiding = next((layer for layer in self._hiding[-1:] if layer.paths == paths), None)
            if hiding is None and paths and self._sandbox.store and not self._stopped:
                hiding = HidingLayer.create(self._sandbox.store, paths)
                self._hiding.append(hiding)
        if paths and hiding is None:
            raise BadCommand(why="there can be no draft any more", line=None, near=None)
        if draft.hidden is None:
            if paths:
                remove_copies(draft.directory, paths)
            draft.hidden = paths
        return DraftLayers(workspace, draft.name, hiding.holder.name if hiding else "")

    def wait(self) -> None:
        """Wait until the dropped drafts are deleted."""
        with self._lock:
            for thread in self._dropping:
                thread.join()

    def close(self) -> None:
        """Delete the layers of hidden paths. No command runs any more."""
        for layer in self._hiding:
            _drop(layer.holder)


def _drop(draft: OpenDraft) -> None:
    with contextlib.suppress(OSError):  # the next sweep of all drafts deletes the rest
        draft.drop()
