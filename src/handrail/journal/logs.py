"""The logs of a journal: append-only files with one line for each record, and one writer at a time.

The hash of each line covers the hash of the line before it, so changed, missing and added lines are detected. A record
is one `write` with `O_APPEND`. A writer locks its log; when it ends, the next writer continues that log, up to
a megabyte.

Beside the logs lies the file `numbers`: the counters of the journal, and the head of each log (its newest entry). Every
record is written under the lock of this file: the counters first, then the line, then the head. So a number is used
once, a head is ahead of its log only if lines were lost, and the holder of the lock sees every completed record.

The first entry of a log names the heads of earlier logs. The hashes contain no secret: anyone who can write all these
files can recompute every hash undetected.

Old contents are files beside the logs, each named by its hash; equal contents are stored once. If a killed process left
a file half written, its name and contents disagree: it is never returned, and written again when the same contents are
next stored. Contents are exact copies, secrets included, so only their owner can read them.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from handrail.files.versions import hash_bytes
from handrail.journal.log_lines import (
    BLOCK,
    Head,
    get_log_path,
    get_logs_path,
    list_logs,
    parse_head,
    read_start,
    scan_head,
)
from handrail.secrets.masking import Mask
from handrail.system_calls import closing_fd

FORMAT = 4
SEGMENT = 1 << 20
"""A log of this size is not continued."""
_LATE = 1_000_000_000
"""Nanoseconds by which the clock of a file system may lag behind."""
_WAIT = 10.0
_STORING = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
encode = json.JSONEncoder(separators=(",", ":"), default=bytes.hex, check_circular=False).encode


class Counters(NamedTuple):
    """How much has been written to a journal."""

    entries: int = 0
    calls: int = 0
    """The number of the newest call."""
    logs: int = 0
    log_bytes: int = 0
    content_bytes: int = 0
    removed: int = 0
    """Calls up to this number were removed to limit the size of the journal."""


def hash_text(before: str, text: bytes) -> str:
    """The hash of an entry, computed from the hash before it and its own JSON text."""
    return hashlib.sha256(b'["%b",%b' % (before.encode("ascii"), text[1:])).hexdigest()


def lock_file(fd: int, seconds: float, kind: int = fcntl.LOCK_EX) -> None:
    """Lock an open file. Raises `OSError`; `TimeoutError` if it is still locked after ``seconds``."""
    pause, until = 0.0005, 0.0
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            until = until or now + seconds
            if now > until:
                raise TimeoutError(errno.ETIMEDOUT, "it is locked") from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        else:
            return


@functools.cache
def _read_boot() -> bytes:
    """An id of this boot. The counters may be older than the logs only after a restart of the machine."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read().strip() or b"-"
    except OSError:
        return b"-"


class OldContents:
    """The old contents stored beside the logs of a journal."""

    def __init__(self, logs: str) -> None:
        self.directory = os.path.join(logs, "contents")

    def get_path(self, digest: str) -> str:
        """Return the path for contents with this hash, whether or not they are stored."""
        return os.path.join(self.directory, digest[:2], digest[2:])

    def store(self, digest: str, raw: bytes) -> int:
        """Store contents and return the number of bytes added. Raises `OSError`."""
        path = self.get_path(digest)
        try:
            fd = os.open(path, _STORING | os.O_EXCL, 0o600)
        except FileNotFoundError:
            for place in (self.directory, os.path.dirname(path)):
                os.makedirs(place, mode=0o700, exist_ok=True)
            return self.store(digest, raw)
        except FileExistsError:
            if self._read(path) == raw:
                os.utime(path)  # so that `trim` removes others first
                return 0
            self._write(os.open(f"{path}.{os.getpid()}", _STORING | os.O_TRUNC, 0o600), f"{path}.{os.getpid()}", raw)
            os.replace(f"{path}.{os.getpid()}", path)
            return len(raw)
        self._write(fd, path, raw)
        return len(raw)

    def _write(self, fd: int, path: str, raw: bytes) -> None:
        try:
            left = memoryview(raw)
            while left:
                left = left[os.write(fd, left) :]
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def _read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def load(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Load the contents that are still stored and unchanged."""
        contents = {digest: self._read(self.get_path(digest)) for digest in digests}
        return {digest: raw for digest, raw in contents.items() if raw is not None and hash_bytes(raw) == digest}

    def measure(self) -> tuple[int, int]:
        """Return the number of stored contents and their total size."""
        sizes = [size for _, size, _ in self._list()]
        return len(sizes), sum(sizes)

    def trim(self, most: int, needed: Collection[str] = (), *, since: float = float("inf")) -> int:
        """Remove the least recently used contents until ``most`` bytes are left; return the bytes left.

        Contents that are ``needed``, or were used after ``since``, stay.
        """
        stored = sorted(self._list())
        left = sum(size for _, size, _ in stored)
        keep = {self.get_path(digest) for digest in needed}
        for used, size, path in stored:
            if left <= most or used > since:
                break
            if path not in keep:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                left -= size
        return left

    def _list(self) -> list[tuple[float, int, str]]:
        """List the time of last use, the size and the path of each."""
        stored: list[tuple[float, int, str]] = []
        with contextlib.suppress(FileNotFoundError):
            for shard in os.scandir(self.directory):
                for one in os.scandir(shard.path):
                    with contextlib.suppress(FileNotFoundError):
                        status = one.stat(follow_symlinks=False)
                        stored.append((status.st_mtime, status.st_size, one.path))
        return stored


class Numbers:
    """The file with the counters and heads. Call the methods that change it only between `lock` and `unlock`."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.path = os.path.join(directory, "numbers")
        self.fd = -1
        self._written: tuple[bytes | None, Counters] = None, Counters()
        """The counters this process wrote last, as bytes and parsed."""

    def lock(self) -> Counters:
        """Keep out all other writers. Raises `OSError`."""
        while True:
            if self.fd < 0:
                self.fd = os.open(self.path, _FLAGS, 0o600)
            lock_file(self.fd, _WAIT)
            if os.fstat(self.fd).st_nlink:
                break
            self.close()  # removed, together with the journal
        try:
            return self.read() or self._recover()
        except BaseException:
            self.unlock()
            raise

    def unlock(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def locked(self) -> Iterator[Counters]:
        counters = self.lock()
        try:
            yield counters
        finally:
            self.unlock()

    def read(self) -> Counters | None:
        """The counters; None if they are damaged, or were written before the last restart of the machine."""
        raw = os.pread(self.fd, BLOCK, 0)
        if raw == self._written[0]:
            return self._written[1]
        words = raw.split()
        if len(words) != 7 or words[6] != _read_boot():
            return None
        try:
            return Counters(*map(int, words[:6]))
        except ValueError:
            return None

    def write(self, counters: Counters) -> None:
        raw = (b"%d %d %d %d %d %d %b\n" % (*counters, _read_boot())).ljust(BLOCK)
        os.pwrite(self.fd, raw, 0)
        self._written = raw, counters

    def read_head(self, log: int) -> Head:
        """The head of a log; zeros if it has none."""
        return parse_head(os.pread(self.fd, BLOCK, log * BLOCK))

    def write_head(self, log: int, head: Head) -> None:
        text = f"{head.n} {head.hash} {head.size} {head.seq}\n"
        os.pwrite(self.fd, text.encode("ascii").ljust(BLOCK), log * BLOCK)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _recover(self) -> Counters:
        """Recount from the logs: the file is new or damaged, or the machine has restarted since it was written."""
        logs, calls, entries, size = list_logs(self.directory), 0, 0, 0
        os.ftruncate(self.fd, max(os.fstat(self.fd).st_size, BLOCK * (max(logs, default=0) + 1)))
        for number, path in logs.items():
            known = self.read_head(number)
            scanned = known if os.stat(path).st_size == known.size else scan_head(path)
            if scanned.n > known.n:
                self.write_head(number, scanned)
            best = max(scanned, known)
            calls, entries, size = max(calls, best.seq), entries + best.n, size + scanned.size
        counters = Counters(entries, calls, max(logs, default=0), size, OldContents(self.directory).measure()[1])
        self.write(counters)
        return counters


@contextlib.contextmanager
def lock_numbers(directory: str) -> Iterator[None]:
    """Keep writers out (give up after 10 seconds): every record counted is then in its log."""
    try:
        fd = os.open(os.path.join(directory, "numbers"), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    try:
        with contextlib.suppress(TimeoutError):
            lock_file(fd, _WAIT, fcntl.LOCK_SH)
        yield
    finally:
        os.close(fd)


class _OpenLog:
    """The log a writer appends to. While it is locked, nobody else continues or removes it."""

    def __init__(self, number: int, fd: int, head: Head) -> None:
        self.number, self.fd, self.head = number, fd, head
        self.begun: set[int] = set()
        """Calls that began in this log and have not ended."""

    def is_usable(self) -> bool:
        status = os.fstat(self.fd)
        intact = status.st_nlink > 0 and status.st_size == self.head.size  # no partial line, nothing cut off
        return intact and (self.head.size < SEGMENT or bool(self.begun))

    def write(self, line: bytes) -> None:
        """Append a line, or nothing at all."""
        try:
            written = os.write(self.fd, line)
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.fd, self.head.size)
            raise


class LogWriter:
    """Writes the records of a process to the logs of a journal; for one thread at a time. Raises `OSError`."""

    def __init__(self, path: str) -> None:
        require_possible(path)
        self.directory = get_logs_path(path)
        self.numbers = Numbers(self.directory)
        self.contents = OldContents(self.directory)
        for place in (os.path.dirname(path), self.directory):
            os.makedirs(place, mode=0o700, exist_ok=True)
        self.counters = Counters()
        """The counters after the newest record of this process."""
        self.damaged = ""
        """The first log that could not be continued: it cannot be opened, or its end is lost."""
        self._log: _OpenLog | None = None
        try:
            with self.numbers.locked():
                self.mask = Mask(_read_salt(self.directory))
        except BaseException:
            self.numbers.close()
            raise

    def append(self, stage: str, content: Sequence[object], seq: int = 0, added: int = 0) -> int:
        """Write a record and return the number of its call: ``seq``, else the next number.

        ``added``: how many bytes of old contents were stored for it.
        """
        text = encode(content)
        counters = self.numbers.lock()
        try:
            log = self._open_log(counters)
            counters = self.counters
            seq = seq if seq or stage in _WITHOUT_CALL else counters.calls + 1
            self._put(log, stage, seq, text, added)
        finally:
            self.numbers.unlock()
        if stage[0] == "b":
            log.begun.add(seq)
        else:
            log.begun.discard(seq)
        return seq

    def has_begun(self, seq: int) -> bool:
        """Whether the open log has the beginning of this call, and takes its end."""
        return self._log is not None and seq in self._log.begun and self._log.is_usable()

    @property
    def number(self) -> int:
        """The number of the log this writer has open; 0 if none."""
        return self._log.number if self._log else 0

    def close(self) -> None:
        self._drop_log()
        self.numbers.close()

    def _drop_log(self) -> None:
        if self._log:
            os.close(self._log.fd)
            self._log = None

    def _put(self, log: _OpenLog, stage: str, seq: int, content: str, added: int = 0) -> None:
        head, counters = log.head, self.counters
        text = f'[{head.n + 1},{seq},"{stage}",{content}]'.encode("ascii")
        digest = hash_text(head.hash, text)
        line = b"%b %b\n" % (digest.encode("ascii"), text)
        self.counters = counters = Counters(
            counters.entries + 1,
            max(counters.calls, seq),
            counters.logs,
            counters.log_bytes + len(line),
            counters.content_bytes + added,
            counters.removed,
        )
        self.numbers.write(counters)
        log.write(line)
        log.head = Head(head.n + 1, digest, head.size + len(line), max(head.seq, seq))
        self.numbers.write_head(log.number, log.head)

    def _open_log(self, counters: Counters) -> _OpenLog:
        """Return the log to write to. The caller holds the lock; ``counters`` are current."""
        self.counters = counters
        if self._log and self._log.is_usable():
            return self._log
        self._drop_log()
        self._log = self._continue(counters.logs) or self._create(counters)
        return self._log

    def _continue(self, newest: int) -> _OpenLog | None:
        """Open a recent log that nobody writes to, has room and is as long as its head says; None if there is none."""
        for number in range(newest, max(0, newest - 8), -1):
            head = self.numbers.read_head(number)
            if not head.n or head.size >= SEGMENT:
                continue
            path = get_log_path(self.directory, number)
            try:
                fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError:
                self.damaged = self.damaged or path
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:  # in use
                os.close(fd)
                continue
            size = os.fstat(fd).st_size
            if size == head.size and os.pread(fd, 1, size - 1) == b"\n":
                return _OpenLog(number, fd, head)
            os.close(fd)
            if size < head.size:
                self.damaged = self.damaged or path
        return None

    def _create(self, counters: Counters) -> _OpenLog:
        number = counters.logs + 1
        fd = os.open(get_log_path(self.directory, number), _FLAGS | os.O_APPEND, 0o600)
        try:
            lock_file(fd, _WAIT)
            os.ftruncate(self.numbers.fd, max(os.fstat(self.numbers.fd).st_size, (number + 1) * BLOCK))
            log = _OpenLog(number, fd, scan_head(get_log_path(self.directory, number)))
            self.counters = counters._replace(logs=number)
            self._put(log, "start", 0, encode(self._describe_start(number)))
        except BaseException:
            os.close(fd)
            raise
        return log

    def _describe_start(self, number: int) -> list[Any]:
        """The first entry of a log: its start time, and the heads of logs changed since the previous log began."""
        paths, now = list_logs(self.directory), time.time_ns()
        since = read_start(paths[number - 1])[1] - _LATE if number - 1 in paths else 0
        changed = [log for log, path in paths.items() if log < number and os.stat(path).st_mtime_ns >= since]
        heads = [(log, *self.numbers.read_head(log)[:2]) for log in changed]
        return [[FORMAT, os.urandom(16).hex(), now], [head for head in heads if head[1]]]


_WITHOUT_CALL = frozenset(("start", "removed"))
"""Stages of entries that belong to no call."""


def _read_salt(directory: str) -> bytes:
    """The salt for the placeholders of secrets, made once per journal. The caller holds the lock of `numbers`."""
    with closing_fd(os.open(os.path.join(directory, "salt"), _FLAGS, 0o600)) as fd:
        salt = os.pread(fd, 32, 0)
        if len(salt) != 16:
            salt = os.urandom(16)
            os.ftruncate(fd, 0)
            os.pwrite(fd, salt, 0)
        return salt


def require_possible(path: str) -> None:
    """Raise `OSError` for a path no file can have: callers treat it like any other failure of the journal."""
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
