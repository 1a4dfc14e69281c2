"""Files that change without the agent, noticed at its next event."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterable

from handrail.attach.conversation import AttachedConversation
from handrail.errors import JournalFailed
from handrail.frozen import frozen
from handrail.journal import Record
from handrail.journal.call_changes import find_last_change
from handrail.journal.records import read_state
from handrail.model import Call, Result, Verdict

OUTSIDE = "Changed outside"
"""The name under which changes of others are in the journal."""
_MOST_WATCHED = 2000
_Stamp = tuple[int, int, int] | None


@frozen
class _Known:
    """A file as an agent knows it."""

    stamp: _Stamp
    digest: str | None
    call: int
    """The call of the agent that left it so; 0 if the agent has only read it."""


class WatchedFiles:
    """The files that an agent has read or changed, as they were then."""

    def __init__(self, conversation: AttachedConversation) -> None:
        self._conversation = conversation
        self._known: dict[str, _Known] = {}
        self._lock = threading.RLock()  # hooks run in parallel

    def watch(self, paths: Iterable[str], call: int = 0) -> None:
        """Remember these files as they are now."""
        with self._lock:
            for path in paths:
                known = self._known.pop(path, None)  # the newest are kept
                self._known[path] = _Known(_read_stamp(path), read_state(path)[0], call or (known.call if known else 0))
            while len(self._known) > _MOST_WATCHED:
                del self._known[next(iter(self._known))]

    def record_changes(self, apart: Collection[str]) -> None:
        """Record the files that somebody else has changed, each once; ``apart`` are being changed by the agent now."""
        for path in self._list_changed(apart):
            call = Call(OUTSIDE, {"path": self._conversation.locate(path) or path})
            record = Record(
                call,
                (),
                Verdict("allow", "", ""),
                origin=self._conversation.origin,
                result=Result(OUTSIDE, "ok", ""),
            )
            with contextlib.suppress(JournalFailed):
                self._conversation.session.journal.record(record)

    def _list_changed(self, apart: Collection[str]) -> list[str]:
        with self._lock:
            before = {
                path: known
                for path, known in self._known.items()
                if path not in apart and _read_stamp(path) != known.stamp
            }
            self.watch(before)
            return [path for path, known in before.items() if self._is_changed(path, known)]

    def _is_changed(self, path: str, known: _Known) -> bool:
        digest = self._known[path].digest
        return digest != known.digest and not (digest and self._is_recorded(path, digest, known.call))

    def _is_recorded(self, path: str, digest: str, after: int) -> bool:
        """Whether a later call, of whoever, has left a file with these contents."""
        with contextlib.suppress(JournalFailed), self._conversation.open_journal() as reader:
            return find_last_change(reader, path, digest, after) is not None
        return False


def _read_stamp(path: str) -> _Stamp:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
