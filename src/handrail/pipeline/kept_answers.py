"""Answers of calls that had an effect, kept for a while, so that a call which is repeated has its effect once.

Each call has a key. Before it changes a file or starts a command, a file named by the key says what it is about to do;
when it is over, the same file has its answer. The file is locked for as long as the call runs, so that a repeat which
comes meanwhile waits. A repeat takes the file first, and a call that finds it taken has no effect any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence

from handrail.errors import CallCancelled, Interrupted
from handrail.files.versions import Change
from handrail.frozen import frozen
from handrail.journal import BeforeImage, MovedEntry
from handrail.journal.records import ABSENT, plan_files, read_state
from handrail.json_types import JsonObject

MOST_ANSWERS = 4096
MOST_BYTES = 256 << 20
MOST_SECONDS = 24 * 3600.0
_CLEAN_EVERY = 256
_WAIT_SECONDS = 60.0
"""How long a repeat waits for the first call, which may still run in a server that lost its client."""
_POLL_SECONDS = 0.05
_MOST_PATHS = 20
_DROPPED = "It ran in a draft, which was dropped: the workspace is as before."
_UNKNOWN = "It may have had a part of its effects: look at the workspace before you run it again."
_BETWEEN = "The files that it was to change are neither as before nor as planned: {paths}. Read them first."


@frozen
class ChangeMade:
    """The change of an earlier call was made, and its answer is lost."""

    paths: tuple[str, ...]


class KeptAnswers:
    """The answers below a directory; several servers may share it."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._kept = 0

    def guard(self, key: str, *, again: bool, durable: bool, recover: Callable[[], object]) -> KeyGuard:
        """The guard of one call. ``again``: the call may have been made before. ``recover`` ends half-made commits."""
        name = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]
        os.makedirs(self._directory, mode=0o700, exist_ok=True)
        return KeyGuard(os.path.join(self._directory, name), again, durable, recover, self._count)

    def _count(self) -> None:
        if self._kept % _CLEAN_EVERY == 0:
            self.clean(time.time())
        self._kept += 1

    def clean(self, now: float) -> None:
        """Remove the oldest answers beyond the bounds. A call that still runs keeps its file."""
        with os.scandir(self._directory) as entries:
            files = [(status.st_mtime, status.st_size, one.path) for one in entries if (status := _stat(one))]
        size = 0
        for number, (changed, bytes_, path) in enumerate(sorted(files, reverse=True)):
            size += bytes_
            if number >= MOST_ANSWERS or size > MOST_BYTES or now - changed > MOST_SECONDS:
                _remove_unused(path)


class KeyGuard:
    """Holds the key of one call, and hears what the call is about to do (`CallGuard`)."""

    def __init__(
        self, path: str, again: bool, durable: bool, recover: Callable[[], object], count: Callable[[], None]
    ) -> None:
        self._path, self._durable, self._recover, self._count = path, durable, recover, count
        self._again = again
        self._fd = -1
        self._intent: JsonObject = {}

    def find_answer(self, wait: float = _WAIT_SECONDS) -> JsonObject | ChangeMade | None:
        """What an earlier call with this key has left: its answer, or that its change was made; None: it may run.

        Raises `Interrupted` if it was a command, or its effects are unknown.
        """
        if not self._again:
            return None
        self._fd = _open_locked(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, wait)
        self._intent = intent = _read(self._fd)
        if not intent:
            return None
        if "answer" in intent:
            answer: JsonObject = intent["answer"]
            return answer
        if intent.get("command"):
            in_draft = intent.get("draft") and "files" not in intent
            raise Interrupted(effects=_DROPPED if in_draft else _UNKNOWN)
        self._recover()
        files = [tuple(one) for one in intent["files"]]
        now = [read_state(path)[0] for path, _, _ in files]
        if now == [planned for _, _, planned in files]:
            return ChangeMade(tuple(path for path, _, _ in files))
        if now == [before for _, before, _ in files]:
            self._intent = {}
            return None
        raise Interrupted(effects=_BETWEEN.format(paths=", ".join(path for path, _, _ in files[:_MOST_PATHS])))

    def before_commit(self, changes: Sequence[Change | BeforeImage | MovedEntry]) -> None:
        rows = [file.row for file in plan_files(changes)]
        files = [[os.fsdecode(row[1]), row[3] or ABSENT, row[5]] for row in rows]
        self._write({**self._intent, "files": files})

    def before_command(self, in_draft: bool) -> None:
        self._write({**self._intent, "command": True, "draft": in_draft})

    def keep(self, answer: JsonObject) -> None:
        """Keep the answer of a call that had an effect, now or when it was made first; one without leaves nothing."""
        if self._intent:
            self._write({"answer": answer}, sync=False)
            self._count()
        elif self._fd >= 0:
            os.unlink(self._path)

    def close(self) -> None:
        """Release the key."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, intent: JsonObject, *, sync: bool = True) -> None:
        if self._fd < 0:
            try:
                self._fd = _open_locked(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0.0)
            except FileExistsError:  # a repeat has taken over: the client no longer waits for this one
                raise CallCancelled from None
        self._intent = intent
        # A new line each time: one that a kill cut off leaves the line before it valid.
        data = memoryview(b"\n" + json.dumps(intent).encode("ascii") + b"\n")
        while data:
            data = data[os.write(self._fd, data) :]
        if sync and self._durable:
            os.fdatasync(self._fd)


def _open_locked(path: str, flags: int, wait: float) -> int:
    """The file at a path, which nobody else holds; raises `Interrupted` if its holder does not end in time."""
    deadline = time.monotonic() + wait
    while True:
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(fd)
                    raise Interrupted(effects="It is still running in another server.") from None
                time.sleep(_POLL_SECONDS)
        if os.fstat(fd).st_nlink:
            return fd
        os.close(fd)  # removed meanwhile


def _read(fd: int) -> JsonObject:
    """The last whole line of a file; empty if there is none."""
    raw = os.pread(fd, os.fstat(fd).st_size, 0)
    for line in reversed(raw[: raw.rfind(b"\n") + 1].split(b"\n")):
        with contextlib.suppress(ValueError):
            if line and isinstance(value := json.loads(line), dict):
                return value
    return {}


def _stat(entry: os.DirEntry[str]) -> os.stat_result | None:
    with contextlib.suppress(OSError):
        return entry.stat(follow_symlinks=False)
    return None


def _remove_unused(path: str) -> None:
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(fd)
