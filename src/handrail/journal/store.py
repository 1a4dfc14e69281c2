"""The journal as logs on a local disk: one short write for each record, many processes at once.

A process that is killed leaves whole records or none. Records are not synced one by one: a power cut may cost the
newest records, never the older ones. A journal that cannot be opened stops nothing, unless it is required: the result
of each call says why. A full disk stops every change. The sessions of one process share one writer for each journal. A
journal that makes callers wait before it fails (locked by another program, a network file system without locks) is left
alone for a while, so that not every call waits for it again.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from handrail.drafts import IN_DRAFT
from handrail.files.versions import Change, Subtree
from handrail.journal import JournalFailed, PendingRecord, Record, Token
from handrail.journal.log_lines import get_logs_path
from handrail.journal.logs import LogWriter
from handrail.journal.records import (
    begin_row,
    collect_replaced,
    end_row,
    plan_files,
)
from handrail.journal.retention import MOST_CALLS, remove_oldest, trim_contents

T = TypeVar("T")

BUDGET = 1 << 30
_SLOW = 1.0
"""A failure that took this many seconds is not provoked again at once."""
_LONGEST_PAUSE = 30.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def get_default_path(state: str) -> str:
    """Where the journal of a user lies, below the state directory. A process in a named draft has one of its own.

    What happens there does not happen in the workspace, until it is kept.
    """
    draft = os.environ.get(IN_DRAFT, "")
    name = f"draft-{draft}.db" if re.fullmatch(r"[0-9a-f]{16}", draft) else "journal.db"
    return os.path.join(state, "journal", name)


def has_journal(path: str) -> bool:
    """Whether anything was recorded at ``path``."""
    return os.path.exists(get_logs_path(path))


class SqliteJournal:
    """A journal on this machine: logs, and an index in SQLite at ``path``. Made when the first record comes.

    All journals with the same path share one writer. Call `close` when no more records come.
    """

    def __init__(
        self,
        path: str,
        *,
        required: bool = False,
        budget: int = BUDGET,
        most_calls: int = MOST_CALLS,
        ship_to: str = "",
    ) -> None:
        self.path = _resolve_path(path)
        self.required = required
        """Whether changes that cannot be recorded are refused; if not, a failure is only reported."""
        self.budget = budget
        """How many bytes the contents that were replaced may take, and the records as well."""
        self._most_calls = most_calls
        self._shipper = None
        if ship_to:
            from handrail.journal.shipper import find_shipper
            from handrail.settings.journal_address import JournalAddress

            self._shipper = find_shipper(self.path, JournalAddress.parse(ship_to))
        self._writer = _find_writer(self.path)
        self._closed = False

    @property
    def failure(self) -> str:
        """Why the journal could not be used the last time; empty if it could, or was not used yet."""
        return self._writer.failure

    def take_damage(self) -> str:
        """A damaged log that was found since this was asked last; empty if there is none."""
        return self._writer.take_damage()

    def require(self) -> None:
        """Raise `JournalFailed` if the journal cannot be opened now."""
        try:
            self._use(lambda _: None)
        except OSError as error:
            raise JournalFailed(journal=self.path, why=get_reason(error)) from None

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        files = plan_files(pending.changes)
        contents = collect_replaced(files)
        big = self._find_big(contents)
        must = any(isinstance(one, Change) and one.keep for one in pending.changes)
        if must and (big or sum(map(len, contents.values())) > self.budget):
            raise JournalFailed(journal=self.path, why="it is larger than the journal may store")
        unkept = tuple(file.named for file in files if file.digest in big)

        def write(log: LogWriter) -> Token:
            again = token if token and log.has_begun(token.seq) else None
            attempt, seq = (again.attempt + 1, again.seq) if again else (0, 0)
            row = again.row if again else begin_row(pending, time.time_ns(), log.mask)
            seq = self._append(log, f"begin {attempt}", (row, [file.row for file in files]), seq, contents)
            return Token(seq, attempt, files, unkept=unkept, row=row)

        try:
            return self._use(write)
        except OSError as error:
            # On a full disk no file tool can change anything, and no command should.
            if must or self.required or error.errno in _FULL:
                raise JournalFailed(journal=self.path, why=get_reason(error)) from None
            return Token(token.seq if token else 0, -1, (), warning=get_reason(error))

    def record(self, record: Record) -> str:
        try:
            self._use(lambda log: self._record(log, record))
        except OSError as error:
            return get_reason(error)
        return ""

    def retain(self, directory: int, name: str, subtree: Subtree) -> bool:
        """Keep a tree that is deleted for an undo; False if that cannot be done. See `Saving`."""
        from handrail.journal.moved_trees import Trash  # only needed where something is deleted

        return Trash(self.path).retain(directory, name, subtree, self.budget)

    def close(self) -> None:
        """A call that is still under way is recorded nevertheless."""
        if not self._closed:
            self._closed = True
            self._writer.leave()

    def _use(self, work: Callable[[LogWriter], T]) -> T:
        try:
            return self._writer.use(work)
        finally:
            if self._shipper:
                self._shipper.notify()

    def _record(self, log: LogWriter, record: Record) -> None:
        """Write the end of a call, or all of it where no log has its beginning, or another process writes to that."""
        token = record.token or Token(0)
        now = time.time_ns()
        end = end_row(record, now, log.mask)
        if token.row:
            row, files, seq = token.row, token.files, token.seq
        else:
            row = begin_row(record, now - int(record.result.time_ms * 1e6), log.mask)
            files, seq = plan_files(record.changes), 0
        afters = [file.find_after(bool(record.changes), token.withdrawn) for file in files]
        if log.has_begun(seq):
            ends = [(place, *after) for place, after in enumerate(afters)]
            self._append(log, f"end {token.attempt}", (end, ends), seq, {})
            return
        whole = [(*file.row, *after) for file, after in zip(files, afters, strict=True)]
        content = ((*row, *end), whole)
        self._append(log, f"whole {max(token.attempt, 0)}", content, seq, collect_replaced(files))

    def _append(
        self,
        log: LogWriter,
        stage: str,
        content: Sequence[object],
        seq: int,
        contents: dict[str, bytes],
    ) -> int:
        """Write a record after the contents that it replaces, and remove what is too much then."""
        added = 0
        if contents:
            big = self._find_big(contents)
            added = sum([log.contents.store(digest, raw) for digest, raw in contents.items() if digest not in big])
        seq = log.append(stage, content, seq, added)
        counters = log.counters
        if added and counters.content_bytes > self.budget:
            trim_contents(log, self.budget, contents)
        if counters.calls - counters.removed > self._most_calls or counters.log_bytes > self.budget:
            remove_oldest(log, self._most_calls, self.budget)
        return seq

    def _find_big(self, contents: dict[str, bytes]) -> set[str]:
        """The contents that are too large to be stored."""
        return {digest for digest, raw in contents.items() if len(raw) > self.budget // 2}


def _resolve_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # no such path can be: opening it says why
        return path


class Writer:
    """The writer of this process to the journal at a path; its threads take turns."""

    joining = threading.Lock()
    """Held while users come and go."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.failure = ""
        """Why the journal could not be used the last time; empty if it could."""
        self.users = 0
        """How many journals keep it open."""
        self._lock = threading.Lock()
        self._log: LogWriter | None = None
        self._retry_at = 0.0
        self._damage = ""

    def use(self, work: Callable[[LogWriter], T]) -> T:
        """Do ``work`` with the logs, one thread at a time. Raises `OSError` if that fails."""
        with self._lock:
            begun = time.monotonic()
            if begun < self._retry_at:
                raise OSError(errno.EAGAIN, self.failure)
            try:
                if self._log is None:
                    self._log = LogWriter(self.path)
                result = work(self._log)
                self._damage = self._log.damaged or self._damage
                self._log.damaged = ""
            except OSError as error:
                self.failure = get_reason(error)
                if time.monotonic() - begun >= _SLOW:
                    self._retry_at = time.monotonic() + min(10 * (time.monotonic() - begun), _LONGEST_PAUSE)
                if error.errno not in _FULL:
                    self._drop()
                raise
            finally:
                if not self.users:
                    self._drop()
            self.failure = ""
            return result

    def take_damage(self) -> str:
        """A damaged log that was found since this was asked last; empty if there is none."""
        damage, self._damage = self._damage, ""
        return damage

    def leave(self) -> None:
        """One user less: the last one closes the files."""
        with self.joining:
            self.users -= 1
        if not self.users:
            with self._lock:
                self._drop()

    def after_fork(self) -> None:
        """In the child: another thread of the parent may have held the lock, and the log belongs to the parent."""
        self._lock = threading.Lock()
        self._drop()

    def _drop(self) -> None:
        opened, self._log = self._log, None
        if opened:
            with contextlib.suppress(OSError):
                opened.close()


_writers = WeakValueDictionary[str, Writer]()


def _find_writer(path: str) -> Writer:
    """The writer of this process for a journal, with one user more."""
    with Writer.joining:
        writer = _writers.setdefault(path, Writer(path))
        writer.users += 1
        return writer


def _leave_logs_to_parent() -> None:
    """In the child of a fork: another thread of the parent may have held the lock."""
    Writer.joining = threading.Lock()
    for writer in list(_writers.values()):
        writer.after_fork()


os.register_at_fork(after_in_child=_leave_logs_to_parent)


def get_reason(error: OSError) -> str:
    """Return the system's error message."""
    return error.strerror or type(error).__name__
