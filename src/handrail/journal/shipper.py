"""Ship a journal in the background: one thread for each local journal and shared journal in a process.

A call only sets a flag. The thread waits a moment, so that many calls are one batch, and ships. Of all processes that
write to one local journal a single one ships at a time, by a lock of a file beside it; so each machine has one
connection, which is closed when there is nothing to do. If the database cannot be reached, the thread waits, longer
each time; the time of the next attempt is in the local journal, so that all processes keep to it. At the end of the
process outstanding rows get a second; what is left then is shipped by the next process, or by `handrail journal ship`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator

from handrail.errors import MissingExtra
from handrail.journal import JournalFailed
from handrail.journal.postgres import PostgresDatabase
from handrail.journal.retention import ShippingState
from handrail.journal.shipping import LocalJournal, Shipment, note_failure
from handrail.settings.journal_address import JournalAddress
from handrail.system_calls import closing_fd

_PAUSE = 0.5
"""Seconds between the first call and its shipping."""
_IDLE = 10.0
"""A connection without work is closed after so many seconds."""
_OTHERS = 2.0
"""Seconds after which it is looked whether the process that ships has done our rows."""
_EXIT = 1.0
"""Seconds that the end of the process waits for outstanding rows."""


@contextlib.contextmanager
def _hold_shipping(directory: str) -> Iterator[bool]:
    """Be the one process that ships the logs in ``directory``; False if another one is.

    This saves connections. What two processes ship at once, the database puts in order.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with closing_fd(os.open(os.path.join(directory, "shipping"), flags, 0o600)) as fd:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


class Shipper:
    """Ships one local journal to one shared journal, in a thread of its own that starts with the first call."""

    def __init__(self, path: str, address: JournalAddress) -> None:
        self.path = path
        self.address = address
        self.after_fork()

    def after_fork(self) -> None:
        """As new: the thread does not exist in the child, and its connection belongs to the parent."""
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._until = 0.0

    def notify(self) -> None:
        """There may be rows to ship. Returns at once."""
        self._wake.set()
        if self._thread is None:
            with self._lock:
                if self._thread is None and not self._ending.is_set():
                    self._thread = threading.Thread(target=self._run, name="handrail-shipper", daemon=True)
                    self._thread.start()

    def finish(self, seconds: float = _EXIT) -> None:
        """Ship what is outstanding, but wait no longer than that; no more is shipped afterwards."""
        self._until = time.monotonic() + seconds
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        pause = 0.0
        while True:
            self._wake.wait(pause or None)
            self._wake.clear()
            ending = self._ending.wait(_PAUSE)
            pause = self._try(ending)
            if ending:
                return

    def _try(self, ending: bool) -> float:
        """Ship what is there; returns the seconds after which it is looked again without a call, 0 for none."""
        try:
            local = LocalJournal(self.path, self.address)
        except JournalFailed:  # there is none yet, or it cannot be opened, which each call says already
            return 0.0
        try:
            with _hold_shipping(local.directory) as alone:
                if not alone:  # look again later, if the process that ships has not done our rows yet
                    return _OTHERS if local.count_outstanding() else 0.0
                return self._ship(local, ending)
        except (JournalFailed, MissingExtra, OSError) as error:
            why = error.why if isinstance(error, JournalFailed) else str(error)
            with contextlib.suppress(JournalFailed):
                return max(_PAUSE, note_failure(local, why, time.time()).retry - time.time())
            return _OTHERS

    def _ship(self, local: LocalJournal, ending: bool) -> float:
        state = local.read_state()
        if state == ShippingState():  # from now on, images are kept until they are shipped
            local.write_state(state)
        wait = state.retry - time.time()
        if state.failure and 0 < wait < 3600:
            return wait
        if not local.count_outstanding() and not state.failure:
            return 0.0
        database = PostgresDatabase(self.address)
        try:
            shipment = Shipment(local, database)
            while True:
                while not self._is_late() and shipment.ship_next():
                    pass
                if ending or self._ending.is_set() or not self._wake.wait(_IDLE):
                    return 0.0
                self._wake.clear()
                ending = self._ending.wait(_PAUSE)
        finally:
            database.close()

    def _is_late(self) -> bool:
        return self._ending.is_set() and time.monotonic() > self._until


_shippers: dict[tuple[str, str], Shipper] = {}


def find_shipper(path: str, address: JournalAddress) -> Shipper:
    """The shipper of this process for a journal; all sessions share it."""
    return _shippers.setdefault((path, address.key), Shipper(path, address))


def _finish_all() -> None:
    until = time.monotonic() + _EXIT
    for shipper in _shippers.values():
        shipper.finish(max(0.0, until - time.monotonic()))


def _start_anew() -> None:
    """In the child of a fork."""
    for shipper in _shippers.values():
        shipper.after_fork()


atexit.register(_finish_all)
os.register_at_fork(after_in_child=_start_anew)
