"""Build workspaces from a folder, a git commit or a tar: one prepared copy on each machine, and drafts of that.

A draft is a copy-on-write view, so that it costs neither time nor space. Where there can be none, a workspace is a
copy, which shares its blocks with the prepared one if the file system can do that (reflinks).
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import field
from typing import Literal, cast

from handrail.drafts.layout import remove_tree
from handrail.drafts.store import DraftStore
from handrail.frozen import frozen
from handrail.json_types import JsonMapping
from handrail.programs import get_program, make_search_path
from handrail.settings import config_file

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GIT_SECONDS = 3600
_TRIAL_SECONDS = 120
WHOLE_DRAFT = "workspace"
_UNUSED_SECONDS = 30 * 24 * 3600
"""A workspace that was last opened or closed that long ago expires."""
Built = Literal["reopened", "draft", "reflink", "copy"]


@frozen
class FleetWorkspace:
    """A workspace by name, and where its files come from: give one of ``folder``, ``git`` and ``tar``."""

    name: str
    folder: str = ""
    """A directory, as it is when the first workspace of it is built on a machine."""
    git: str = ""
    """The URL or path of a repository; ``commit`` is the full hash of a commit in it."""
    commit: str = ""
    tar: str = ""
    """A tar file, compressed or not."""
    after_restart: Literal["reopen", "rebuild"] = "reopen"
    """After a killed worker: go on in the same files, where finished edits are not made again, or build new ones."""

    data: JsonMapping = field(default_factory=dict)
    """Values of yours for the function that works in it."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"the name of a workspace has letters, digits, - _ and . only, not {self.name[:80]!r}")
        if sum(map(bool, (self.folder, self.git, self.tar))) != 1:
            raise ValueError(f"workspace {self.name}: give one of folder, git and tar")
        if bool(self.git) != bool(self.commit) or (self.commit and not _COMMIT.fullmatch(self.commit)):
            raise ValueError(f"workspace {self.name}: git needs commit, the full hash of a commit")
        if self.after_restart not in ("reopen", "rebuild"):
            raise ValueError(f"workspace {self.name}: after_restart must be reopen or rebuild")

    @property
    def source(self) -> str:
        """The same for all workspaces that start with the same files."""
        return self.folder or self.tar or f"{self.git}#{self.commit}"


@frozen
class BuiltWorkspace:
    """A workspace on this machine."""

    path: str
    state: str
    """The state directory of a draft, its own: two drafts of one tree have the same paths, and must not share locks.
    A copy uses that of the user."""
    draft: str
    """The name of the draft; empty for a copy."""
    attempt: int
    """How often it was built."""
    built: Built
    seconds: float
    opened: contextlib.ExitStack = field(compare=False)
    """Close it when nobody works in the workspace any more: until then it does not expire."""


def build_workspace(workspace: FleetWorkspace, base: str) -> BuiltWorkspace:
    """Build a workspace below ``base``, or find the one that an earlier worker has built; raises `OSError`.

    A workspace that was not built to its end, or is to be rebuilt after a restart, is built anew.
    """
    started = time.monotonic()
    fleets = os.path.dirname(base)
    os.makedirs(fleets, mode=0o700, exist_ok=True)
    with _locked(os.path.join(fleets, "lock"), fcntl.LOCK_SH):
        place = _open_workspace(workspace, base, started)
    remove_unused(fleets)
    return place


def _open_workspace(workspace: FleetWorkspace, base: str, started: float) -> BuiltWorkspace:
    folder = os.path.join(base, "work", workspace.name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path, state, built_file = (os.path.join(folder, name) for name in ("files", "state", "built"))
    with _locked(os.path.join(folder, "lock")):
        attempt, kind, place = read_built(built_file)
        is_new = not attempt or workspace.after_restart == "rebuild"
        if is_new:
            for one in (path, state):
                with contextlib.suppress(FileNotFoundError):
                    remove_tree(one)
            os.mkdir(state, 0o700)
            source = _prepare_source(workspace, base)
            if not config_file.load(os.environ).settings.state and _try_drafts(source):  # a draft needs its own
                kind, place = "draft", source
            else:
                kind, place = "reflink" if _copy_tree(source, path) else "copy", path
        if kind == "draft":  # once it was kept or dropped, the workspace is a new one
            with contextlib.suppress(FileExistsError):
                DraftStore.open(state, place).create(WHOLE_DRAFT).close()
                is_new = True
        if is_new:
            attempt += 1
            _write_text(built_file, f"{attempt} {kind} {place}")
        draft, built = WHOLE_DRAFT if kind == "draft" else "", kind if is_new else "reopened"
        opened = _mark_open(built_file)
    return BuiltWorkspace(place, state, draft, attempt, built, time.monotonic() - started, opened)


def _mark_open(built_file: str) -> contextlib.ExitStack:
    """Keep a workspace from expiring until the result is closed; notes the time of both."""
    with contextlib.ExitStack() as opened:
        fd = os.open(built_file, os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, fd)
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.utime(fd)
        opened.callback(os.utime, fd)
        return opened.pop_all()


def remove_unused(fleets: str) -> None:
    """Remove the workspaces that nobody has had open for a month, and the sources of fleets that have none left.

    While a workspace is being built, nothing is removed.
    """
    with contextlib.suppress(OSError), _locked(os.path.join(fleets, "lock"), fcntl.LOCK_EX | fcntl.LOCK_NB):
        for built_file in glob.glob(os.path.join(glob.escape(fleets), "*", "work", "*", "built")):
            with contextlib.suppress(OSError):
                if time.time() - os.stat(built_file).st_mtime > _UNUSED_SECONDS:
                    _remove_workspace(built_file)


def _remove_workspace(built_file: str) -> None:
    """Remove a workspace, and its fleet with the last one; raises `BlockingIOError` if somebody works in it."""
    folder = os.path.dirname(built_file)
    with _locked(built_file, fcntl.LOCK_EX | fcntl.LOCK_NB):
        _, kind, place = read_built(built_file)
        if kind == "draft":  # a shell in it has no session
            with contextlib.suppress(FileNotFoundError):
                DraftStore.open(os.path.join(folder, "state"), place).open_named(WHOLE_DRAFT).close()
        remove_tree(folder)
        os.rmdir(os.path.dirname(folder))
        remove_tree(os.path.dirname(os.path.dirname(folder)))


def _try_drafts(source: str) -> bool:
    """Whether a process can see a draft of this source; tried once, by running one."""
    folder = os.path.dirname(source)
    known, state = os.path.join(folder, "drafts"), os.path.join(folder, "state")
    with _locked(os.path.join(folder, "lock")):
        with contextlib.suppress(FileNotFoundError), open(known, encoding="ascii") as file:
            return file.read() == "yes"
        words = [sys.executable, "-P", "-m", "handrail", "draft"]
        end = ["-w", source]
        steps = [["start", "trial", *end], ["run", "trial", *end, "--", "true"], ["drop", "trial", *end]]
        works = all(
            subprocess.run(  # noqa: S603 - our own command
                [*words, *step],
                env={**os.environ, "HANDRAIL_STATE": state},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TRIAL_SECONDS,
                check=False,
            ).returncode
            == 0
            for step in steps
        )
        _write_text(known, "yes" if works else "no")
        return works


def _prepare_source(workspace: FleetWorkspace, base: str) -> str:
    """The prepared copy of a source on this machine; made by whoever needs it first."""
    name = hashlib.sha256(os.fsencode(workspace.source)).hexdigest()[:32]
    folder = os.path.join(base, "sources", name)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    ready = os.path.join(folder, "files")
    with _locked(os.path.join(folder, "lock")):
        if not os.path.isdir(ready):
            begun = os.path.join(folder, "begun")
            with contextlib.suppress(FileNotFoundError):
                remove_tree(begun)
            if workspace.folder:
                _copy_tree(workspace.folder, begun)
            elif workspace.tar:
                if not hasattr(tarfile, "data_filter"):
                    raise OSError(
                        0, "a tar needs Python 3.11.4, which checks the names in it; unpack it", workspace.tar
                    )
                with tarfile.open(workspace.tar) as archive:
                    archive.extractall(begun, filter="data")
            else:
                _check_out(workspace, begun)
            os.rename(begun, ready)
    return ready


def _check_out(workspace: FleetWorkspace, path: str) -> None:
    for words in (
        ["clone", "--quiet", "--no-checkout", "--", workspace.git, path],
        ["-C", path, "-c", "advice.detachedHead=false", "checkout", "--quiet", "--detach", workspace.commit],
    ):
        done = subprocess.run(  # noqa: S603 - git, with checked words
            [get_program("git"), *words],
            env={**os.environ, "PATH": make_search_path()},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_GIT_SECONDS,
            check=False,
        )
        if done.returncode:
            raise OSError(0, f"git {words[0]} failed: {done.stderr.strip()[-500:]}", workspace.git)


def _copy_tree(source: str, target: str) -> bool:
    """Copy a tree with links, modes and times; returns whether the copies of files share their blocks."""
    shares = True

    def copy(one: str, other: str) -> None:
        nonlocal shares
        if not (shares and _clone_file(one, other)):
            shares = False
            shutil.copyfile(one, other, follow_symlinks=False)
        shutil.copystat(one, other, follow_symlinks=False)

    shutil.copytree(source, target, symlinks=True, copy_function=copy)
    return shares


def _clone_file(source: str, target: str) -> bool:
    """Let a new file share the blocks of another one; returns False where the file system cannot do that."""
    if os.path.islink(source):
        return False
    with open(source, "rb") as old, open(target, "wb") as new:
        try:
            fcntl.ioctl(new.fileno(), _FICLONE, old.fileno())
        except OSError:
            return False
    return True


_FICLONE = 0x40049409


@contextlib.contextmanager
def _locked(path: str, how: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Keep others off; raises `BlockingIOError` if somebody has the lock, and ``how`` says not to wait."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, how)
        yield
    finally:
        os.close(fd)


def read_built(path: str) -> tuple[int, Built, str]:
    """How often a workspace was built, how, and where; 0 if it never was."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            number, kind, place = file.read().split(" ", 2)
    except FileNotFoundError:
        return 0, "copy", ""
    return int(number), cast("Built", kind), place


def _write_text(path: str, text: str) -> None:
    with open(path + ".new", "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.rename(path + ".new", path)
