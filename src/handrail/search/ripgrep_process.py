"""Run ripgrep: read its output within a deadline, count its debug messages, and end it in any case.

ripgrep writes thousands of tiny messages to stderr. They go to a file in memory that is read and freed now and then,
because through a pipe each message would wake this process. With a filter of names it writes one for every file, which
takes several times as long as the search itself: the caller can set a limit, beyond which the run is given up.
"""

from __future__ import annotations

import ctypes
import os
import re
import selectors
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from types import TracebackType

from handrail.search.receipt import Budget, Receipt

_BLOCK = 1 << 18
_MOST_MESSAGES = 8 * 1024
_MOST_UNREAD = 8 << 20
_NOW_AND_THEN = 0.2
_SOON = 0.005
"""How soon it is looked after the messages of a run that must not write too many."""
_PUNCH = 3  # FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
_MOST_COMPLAINTS = 3
_DEBUG = re.compile(rb"^rg: DEBUG\|[^\n]*\n", re.MULTILINE)
_LARGE = re.compile(rb"ignoring [^\n]*: \d+ bytes\n")
_COMPLAINT = re.compile(r"^rg: (?!DEBUG\|)(.*): ([^:\n]+ \(os error (\d+)\))$", re.MULTILINE)
_GONE = "2"  # removed while it was searched


class TooManyMessages(Exception):
    """A run has written more messages than the caller has set as the limit."""


class RipgrepProcess:
    """ripgrep at work; it is ended and waited for on the way out, whatever happened."""

    def __init__(
        self,
        command: Sequence[str],
        here: str,
        fds: tuple[int, ...],
        budget: Budget,
        skip: str = "",
        withheld: Sequence[str] = (),
        most_messages: int | None = None,
    ) -> None:
        self._budget = budget
        self._most_messages = most_messages
        self._signs = dict(_SIGNS)
        if skip:  # what this glob leaves out counts as ignored
            self._signs["ignored"] += (_EXCLUDED + skip.encode() + b'"',)
        self._signs["excluded"] = (_EXCLUDED,)
        rules = {f"--glob=!{glob}" for glob in withheld}
        other = [word.removeprefix("--glob=") for word in command if word.startswith("--glob=") and word not in rules]
        self._signs["other"] = tuple(_EXCLUDED + glob.encode("utf-8", "replace") + b'"' for glob in other)
        self._rest = b""
        self._counts: dict[str, int] = {}
        self._complaints: dict[str, int] = {}
        self._messages = bytearray()
        self.expired = False
        self.code: int | None = None
        self._read_up_to = 0
        self._side = os.memfd_create("handrail") if sys.platform == "linux" else _open_unnamed()
        environment = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
        try:
            self._child = subprocess.Popen(  # noqa: S603 - a list of words, no shell
                command,
                cwd=here,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._side,
                env=environment,
                pass_fds=fds,
            )
        except BaseException:
            os.close(self._side)
            raise

    def __enter__(self) -> RipgrepProcess:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def _end(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        assert self._child.stdout
        self._child.stdout.close()
        self.code = self._child.wait()
        os.close(self._side)

    def chunks(self) -> Iterator[bytes]:
        """The output as it comes, until its end or the deadline. Raises `TooManyMessages`."""
        often = _NOW_AND_THEN if self._most_messages is None else _SOON
        assert self._child.stdout
        out = self._child.stdout.fileno()
        with selectors.DefaultSelector() as ready:
            os.set_blocking(out, False)
            ready.register(out, selectors.EVENT_READ)
            while True:
                some = ready.select(min(self._budget.left, often))
                if self._budget.left <= 0:
                    self.expired = True
                    return
                if self._most_messages is not None and os.fstat(self._side).st_size > self._most_messages:
                    raise TooManyMessages
                self._read_messages(_MOST_UNREAD)
                if not some:
                    continue
                chunk = os.read(out, _BLOCK)
                if not chunk:
                    break
                yield chunk
        self.code = self._child.wait()

    def _read_messages(self, at_least: int = 0) -> None:
        """Read what was said on the side, if it is so much, and give its memory back."""
        end = os.fstat(self._side).st_size
        if end - self._read_up_to <= at_least:
            return
        while self._read_up_to < end and (chunk := os.pread(self._side, _BLOCK, self._read_up_to)):
            self._count_messages(chunk)
            self._read_up_to += len(chunk)
        if at_least and sys.platform == "linux":
            ctypes.CDLL(None).fallocate(self._side, _PUNCH, ctypes.c_int64(0), ctypes.c_int64(self._read_up_to))

    def _count_messages(self, chunk: bytes) -> None:
        """Count what was passed over; a format that is not known counts nothing."""
        whole, end, rest = (self._rest + chunk).rpartition(b"\n")
        self._rest = rest[:_BLOCK]
        lines = whole + end
        for name, signs in self._signs.items():
            self._counts[name] = self._counts.get(name, 0) + sum(map(lines.count, signs))
        if b" bytes\n" in lines:
            self._counts["large"] = self._counts.get("large", 0) + len(_LARGE.findall(lines))
        if (other := _DEBUG.sub(b"", lines)).strip():
            text = other.decode("utf-8", "replace")
            for match in _COMPLAINT.finditer(text):
                if match[3] != _GONE:
                    self._complaints[match[2]] = self._complaints.get(match[2], 0) + 1
            self._messages += other[: max(0, _MOST_MESSAGES - len(self._messages))]

    @property
    def complaints(self) -> int:
        """How many places could not be read."""
        self._read_messages()
        return sum(self._complaints.values())

    @property
    def messages(self) -> str:
        """The beginning of its other messages."""
        self._read_messages()
        return (bytes(self._messages) + self._rest).decode("utf-8", "replace")

    def count(self, receipt: Receipt) -> None:
        """Into the receipt."""
        self._read_messages()
        counts = dict(self._counts)
        receipt.withheld = counts.pop("excluded", 0) - counts.pop("other", 0)
        for name, count in counts.items():
            setattr(receipt, name, count)
        receipt.unreadable = self.complaints
        receipt.complaints = list(self._complaints)[:_MOST_COMPLAINTS]
        if self.expired:
            receipt.stopped = "time_limit"


def _open_unnamed() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_EXCLUDED = b'Override(Glob(Matched(Glob { from: None, original: "'
_UNWANTED = ("RIPGREP_CONFIG_PATH", "PWD")
_SIGNS: dict[str, tuple[bytes, ...]] = {
    "hidden": (b": Ignore(IgnoreMatch(Hidden))\n",),
    "ignored": (b": Ignore(IgnoreMatch(Gitignore(",),
    "binary": (b": found binary data at offset ",),
    "links": (
        b"failed to pass haystack filter: file type: Some(FileType { is_file: false, is_dir: false, is_symlink: true",
    ),
}
