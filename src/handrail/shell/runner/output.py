"""Prepare the output of a command: clean it line by line, and keep the beginning and end of a long one.

The log keeps the raw bytes; this is how they look. Escape sequences go, a carriage return and a backspace move back as
on a terminal, so that of a progress bar only the last state is left, other control characters are written as escapes,
and bytes that are not UTF-8 become U+FFFD. Each line is cleaned on its own, since neither a character nor a sequence
that matters reaches over its end. A line without end is taken in pieces. So memory is bounded, whatever the log holds.

`Pipes` has the descriptors of a running command, and moves what it prints into the log.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import select
import threading
import time
from collections.abc import Iterator

from handrail.frozen import frozen

PIECE = 1 << 16
"""Longer lines are taken in pieces of so many bytes."""
WHOLE = 4 << 20
"""Up to so many bytes are cleaned as a whole. Of a longer log only the beginning and the end are looked at."""
COUNTED = 128 << 20
"""Up to so many bytes are read to count the lines in them."""

_WHOLE_ESCAPE = (
    r"\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, erasing
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC: titles, links
    r"|[PX^_][^\x1b]*\x1b\\"  # DCS and other strings
    r"|[ -/]+[0-~]"  # character sets
    r"|[0-OQ-WYZ\\`-~]"  # the short ones
)
_COMPLETE = re.compile(rf"\x1b(?:{_WHOLE_ESCAPE})".encode())
_ESCAPES = re.compile(rf"\x1b(?:{_WHOLE_ESCAPE}|[\]PX^_][^\x1b]*$|\[[0-?]*[ -/]*$|[ -/]*$)")
_MOVES = re.compile(r"[\r\b]|\x1b\[[0-2]?K|[^\r\b\x1b]+|\x1b")
_ERASE = re.compile(r"\x1b\[[0-2]?K")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROL_BYTES = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
_C1 = re.compile("[\x80-\x9f]")


def clean(raw: bytes) -> str:
    """One line, or a piece of one, as a reader would see it."""
    plain = _decode_plain(raw)
    if plain is not None:
        return plain
    text = raw.decode("utf-8", "replace")
    end = "\n" if text.endswith("\n") else ""
    text = text[:-1].rstrip("\r") if end else text
    if "\x1b" in text:  # erasing stays for now: it says what a carriage return leaves behind
        text = _ESCAPES.sub(lambda match: match[0] if _ERASE.fullmatch(match[0]) else "", text)
    if "\r" in text or "\b" in text or "\x1b" in text:
        text = _overwrite(text)
    return _CONTROLS.sub(_show_control, text) + end


def _decode_plain(raw: bytes) -> str | None:
    """The text, if nothing has to be done to it: any number of lines."""
    if _CONTROL_BYTES.search(raw):
        return None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if not text.isascii() and _C1.search(text) else text


def _overwrite(text: str) -> str:
    """Apply the carriage returns, backspaces and erasures of a line."""
    line, at = list[str](), 0
    for match in _MOVES.finditer(text):
        move = match[0]
        if move == "\r":
            at = 0
        elif move == "\b":
            at = max(0, at - 1)
        elif move in ("\x1b[K", "\x1b[0K"):
            del line[at:]
        elif move == "\x1b[2K":  # the whole line: it is written anew from here
            line, at = [], 0
        elif move != "\x1b[1K":
            line[at : at + len(move)] = move
            at += len(move)
    return "".join(line)


def _show_control(match: re.Match[str]) -> str:
    return "" if match[0] == "\a" else f"\\x{ord(match[0]):02x}"


@frozen
class OutputView:
    """The beginning and the end of a log. All of it is in ``head`` if nothing was left out."""

    head: str
    tail: str = ""
    omitted_bytes: int = 0
    omitted_lines: int | None = 0
    """Lines left out between the two, cut ones included; None if there is too much of it to be counted."""
    size: int = 0
    torn: bool = False
    """Whether the tail begins inside a line, which then counts as left out as well."""

    @property
    def truncated(self) -> bool:
        return self.omitted_bytes > 0

    def text(self, gap: str = "\n...\n") -> str:
        """Both parts, with ``gap`` between them if something was left out."""
        return self.head + (gap if self.truncated else "") + self.tail


def read_pieces(fd: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The lines between two offsets, each with the offset behind it; long ones in pieces."""
    held, at = b"", start
    while at < end:
        block = os.pread(fd, min(PIECE, end - at), at)
        if not block:  # the log is shorter than it was
            break
        at += len(block)
        held += block
        offset = at - len(held)
        begin = 0
        while newline := held.find(b"\n", begin) + 1:
            yield offset + newline, held[begin:newline]
            begin = newline
        held = held[begin:]
        if len(held) >= PIECE:
            cut = find_cut(held)
            yield at - len(held) + cut, held[:cut]
            held = held[cut:]
    if held:
        yield at, held


def find_cut(raw: bytes) -> int:
    """Where ``raw`` can be cut so that neither a character nor, as a rule, an escape sequence is torn."""
    back = raw.rfind(b"\r", 1, len(raw) - 1) + 1  # what stands before it will hardly be seen
    if back > len(raw) // 2:
        return back
    escape = raw.rfind(b"\x1b", max(1, len(raw) - 200))
    if escape > 0 and not _COMPLETE.match(raw, escape):
        return escape
    for length in range(1, min(4, len(raw) - 1) + 1):
        byte = raw[-length]
        if byte & 0xC0 != 0x80:  # the first byte of the last character
            wanted = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return len(raw) - length if wanted > length else len(raw)
    return len(raw)


def shorten(text: str, head: int, tail: int, size: int) -> OutputView:
    """A text of ``size`` bytes, or ``head`` characters of its beginning and ``tail`` characters of its end."""
    if len(text) <= head + tail:
        return OutputView(text, size=size)
    gap = text[head : len(text) - tail]
    torn = not gap.endswith("\n")
    left = len(gap.encode("utf-8", "replace"))
    return OutputView(text[:head], text[len(text) - tail :], left, gap.count("\n") + torn, size, torn)


def view(fd: int, head: int, tail: int, start: int = 0, end: int | None = None) -> OutputView:
    """The log between two offsets, as ``head`` characters of its beginning and ``tail`` characters of its end."""
    end = os.fstat(fd).st_size if end is None else end
    size = max(0, end - start)
    if size <= WHOLE:
        return shorten(_read(fd, start, end), head, tail, size)
    at = start + find_cut(os.pread(fd, WHOLE // 2, start))
    back = end - WHOLE // 2
    back += _find_line_start(os.pread(fd, 2 * PIECE, back))
    first, last = _read(fd, start, at), _read(fd, back, end)
    behind = max(0, len(last) - tail)
    cut = first[head:] + last[:behind]
    torn = bool(cut) and not cut.endswith("\n")
    lines = _count(fd, at, back)
    left = None if lines is None else lines + cut.count("\n") + torn
    return OutputView(first[:head], last[behind:], back - at + len(cut.encode("utf-8")), left, size, torn)


def _read(fd: int, start: int, end: int) -> str:
    plain = _decode_plain(os.pread(fd, end - start, start)) if end > start else ""
    return "".join(clean(raw) for _, raw in read_pieces(fd, start, end)) if plain is None else plain


def _find_line_start(raw: bytes) -> int:
    """Where a line begins in ``raw``, or at least a character."""
    if newline := raw.find(b"\n") + 1:
        return newline
    if back := raw.find(b"\r") + 1:
        return back
    return next((at for at, byte in enumerate(raw[:4]) if byte & 0xC0 != 0x80), 0)


def _count(fd: int, start: int, end: int) -> int | None:
    if end - start > COUNTED:
        return None
    count = 0
    while start < end:
        block = os.pread(fd, min(1 << 20, end - start), start)
        if not block:
            break
        count += block.count(b"\n")
        start += len(block)
    return count


# The way from a running command to its log

SETTLE = 0.1
"""Seconds that the last words of a command may take to arrive when the shell has ended before the writer."""
_BLOCK = 1 << 20


class Pipes:
    """Moves what a command prints into its log, and closes its descriptors when nobody waits on them."""

    def __init__(self, log: str, budget: int) -> None:
        """``budget``: so many bytes of output are written to the log."""
        self.bytes = 0
        """All that was printed so far."""
        self.lost = 0
        """Bytes that are not in the log: over the budget, or the disk is full."""
        self.eof = False
        """Whether nothing more can come."""
        self.closing = self.closed = False
        self.stdin = -1
        self._path = log
        self._budget = budget
        self._waiting = 0
        self._lock = threading.Lock()
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._owned = [self._log]
        try:
            self.read, self.write = os.pipe()
            self._owned.append(self.read)
            self.waker, self._wake = os.pipe()
            self._owned += [self.waker, self._wake]
        except OSError:
            self._shut()
            raise
        os.set_blocking(self.read, False)
        with contextlib.suppress(OSError, AttributeError):  # fewer and larger blocks, where the kernel can
            fcntl.fcntl(self.read, fcntl.F_SETPIPE_SZ, _BLOCK)

    def own(self, fd: int) -> None:
        """Close this descriptor with the others."""
        self._owned.append(fd)

    @contextlib.contextmanager
    def hold(self) -> Iterator[bool]:
        """While somebody waits on the descriptors nobody else closes them: their numbers would be given away."""
        with self._lock:
            entered = not self.closed
            self._waiting += entered
        try:
            yield entered
        finally:
            with self._lock:
                self._waiting -= entered
                if self.closing:
                    self._shut()

    def pump(self) -> bool:
        """Move a block from the pipe to the log; False if there is none now."""
        with self._lock:
            if self.closed or self.eof:
                return False
            try:
                block = os.read(self.read, _BLOCK)
            except BlockingIOError:
                return False
            self.eof = not block
            self._keep(block)
            return bool(block)

    def _keep(self, block: bytes) -> None:
        kept = block[: max(0, self._budget - self.bytes)]
        self.bytes += len(block)
        at = 0
        with contextlib.suppress(OSError):  # the disk is full: go on, so that the command is not stuck, and say so
            while at < len(kept):
                at += os.write(self._log, memoryview(kept)[at:])
        self.lost += len(block) - at

    def settle(self, *, wait: bool) -> None:
        """Take what is in the pipe. ``wait``: if somebody still holds it, give last words a moment to arrive."""
        until = time.monotonic() + SETTLE
        while self.pump() and time.monotonic() < until:
            pass
        while wait and not self.eof and (left := until - time.monotonic()) > 0:
            self.idle(min(left, 0.005))

    def idle(self, seconds: float) -> None:
        """Let time pass, and take what the dying still write, so that none of them waits for it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if self.eof or self.closed:
                time.sleep(left)
            elif not self.pump():
                with contextlib.suppress(OSError, ValueError):
                    select.select([self.read], [], [], left)

    def feed(self, data: bytes, seconds: float) -> int:
        """Write to stdin as much as it takes in that time. Raises `BrokenPipeError` if that is closed."""
        sent, until = 0, time.monotonic() + seconds
        while True:
            with self._lock:
                if self.stdin < 0:
                    raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
                with contextlib.suppress(BlockingIOError):
                    sent += os.write(self.stdin, data[sent : sent + (1 << 16)])
            if sent >= len(data) or time.monotonic() >= until:
                return sent
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile: seen above
                select.select([], [self.stdin], [], 0.02)

    def close_stdin(self) -> None:
        """Say that no more is coming."""
        with self._lock:
            if self.stdin >= 0:
                os.close(self.stdin)
                self.stdin = -1

    def view(self, head: int, tail: int) -> OutputView:
        """The output so far."""
        fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return view(fd, head, tail)
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give the descriptors back, as soon as nobody waits on them."""
        with self._lock:
            if not self.closed:
                self.closing = True
                os.write(self._wake, b"!")
                self._shut()

    def _shut(self) -> None:
        if self.closed or self._waiting:
            return
        self.closed = True
        for fd in (*self._owned, self.stdin):
            if fd >= 0:
                os.close(fd)
        self.stdin = -1
