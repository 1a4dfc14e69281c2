"""Background jobs: commands that run on while others do, and what a caller may ask of them.

A job is a run that follows itself in a thread. Its log is an ordinary file. Jobs end with the `Runs` they belong to.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handrail.errors import BadFilter, NoSuchJob, SlowFilter, StdinClosed, TooManyJobs
from handrail.frozen import frozen
from handrail.shell.runner import output
from handrail.shell.runner.output import OutputView
from handrail.shell.runner.run import CommandEnd, CommandOrder, Run, Runs

MOST_RUNNING = 32
MOST_KEPT = 64
"""Jobs that are remembered, ended ones included."""
WRITE_SECONDS = 2.0
FILTER_SECONDS = 5.0
_HELD_BACK = 256
_TYPED = 20_000


@dataclass(slots=True)
class Job:
    """A command in the background."""

    id: str
    run: Run
    offset: int = 0
    """Where the next reading begins."""
    asking: threading.Lock = field(default_factory=threading.Lock)
    typed: str = ""
    """Text that was written to its stdin recently."""
    typing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ended(self) -> CommandEnd | None:
        return self.run.ended

    @property
    def running(self) -> bool:
        return self.run.ended is None


@frozen
class JobOutput:
    """Output of a job since the last request."""

    view: OutputView
    start: int
    end: int
    """The part of the log that was looked at."""
    ended: CommandEnd | None
    matched: int | None = None
    """Lines that the filter let through; None without a filter."""
    more: bool = False
    """Whether not all of it was looked at; the next reading goes on from there."""


class Jobs:
    """The jobs of a session."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._jobs: dict[str, Job] = {}
        self._count = 0
        self._lock = threading.Lock()

    def start(self, order: CommandOrder, timeout: float | None = None) -> Job:
        """Start a command in the background."""
        with self._lock:
            self._make_room()
            return self._add(self._runs.start(order), timeout)

    def keep(self, run: Run, timeout: float | None = None, shown: int = 0) -> Job:
        """Let a command that somebody has waited for run on as a job; ``timeout`` counts from its start.

        Its first ``shown`` bytes count as read. If there are too many jobs the caller has to see to its end.
        """
        with self._lock:
            self._make_room()
            job = self._add(run, timeout)
            job.offset = shown
            return job

    def _make_room(self) -> None:
        running = sum(job.running for job in self._jobs.values())
        if running >= MOST_RUNNING:
            raise TooManyJobs(running=running, most=MOST_RUNNING)
        for job in list(self._jobs.values()):
            if not job.running:
                self._runs.done(job.run)
                if len(self._jobs) >= MOST_KEPT:
                    del self._jobs[job.id]

    def _add(self, run: Run, timeout: float | None) -> Job:
        self._count += 1
        job = self._jobs[f"job-{self._count}"] = Job(f"job-{self._count}", run)
        run.follow(timeout)
        return job

    def list(self) -> list[Job]:
        """All jobs that are remembered, oldest first."""
        with self._lock:
            return [*self._jobs.values()]

    def get(self, id: str) -> Job:
        with self._lock:
            job = self._jobs.get(id)
            if job is None:
                raise NoSuchJob(job=id, known=[*self._jobs])
            return job

    def read(self, id: str, head: int, tail: int, filter: str | None = None, all: bool = False) -> JobOutput:
        """The output since the last reading (``all``: from the beginning), or the lines of it that match ``filter``."""
        job, pattern = self.get(id), _compile_filter(filter)
        with job.asking:
            ended = job.ended  # before the size is looked at: what is said to have ended is read to its end
            fd = os.open(job.run.order.log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                start = 0 if all else job.offset
                end = os.fstat(fd).st_size
                if ended is None:
                    end = _find_character_end(fd, start, end)
                if pattern is None:
                    reading = JobOutput(output.view(fd, head, tail, start, end), start, end, ended)
                else:
                    reading = _read_matching_lines(fd, start, end, head, tail, pattern, ended)
            finally:
                os.close(fd)
            job.offset = reading.end
            return reading

    def write(self, id: str, text: str, close: bool = False, check: Callable[[Job], None] | None = None) -> int:
        """Write to the stdin of a job and, with ``close``, end it. Returns how many bytes the job took in time.

        ``check`` may refuse by raising; nothing else is written to the job between it and the writing.
        """
        job, data = self.get(id), text.encode("utf-8", "surrogateescape")
        with job.typing:
            if check is not None:
                check(job)
            try:
                sent = job.run.pipes.feed(data, WRITE_SECONDS)
            except BrokenPipeError:
                raise StdinClosed(job=id, running=job.running, wanted=job.run.order.stdin) from None
            job.typed = (job.typed + data[:sent].decode("utf-8", "surrogateescape"))[-_TYPED:]
            if close and sent == len(data):
                job.run.pipes.close_stdin()
            return sent

    def kill(self, id: str) -> CommandEnd:
        """End a job, all that it started included. A job that has ended keeps the end it had."""
        ended = self.get(id).run.end("cancelled")
        assert ended is not None
        return ended


def _find_character_end(fd: int, start: int, end: int) -> int:
    """An end that tears no character apart: the rest of it is still on its way."""
    raw = os.pread(fd, min(_HELD_BACK, end - start), max(start, end - _HELD_BACK))
    if not raw or raw.endswith(b"\n"):
        return end
    line = raw[raw.rfind(b"\n") + 1 :].replace(b"\r", b" ")  # a return is no reason to wait
    cut = output.find_cut(b" " + line) - 1
    return end - (len(line) - cut)


def _compile_filter(filter: str | None) -> object:
    if filter is None:
        return None
    import regex  # type: ignore[import-untyped]

    try:
        return regex.compile(filter)
    except regex.error as error:
        raise BadFilter(filter=filter, why=str(error)) from None


def _read_matching_lines(
    fd: int, start: int, end: int, head: int, tail: int, pattern: Any, ended: CommandEnd | None
) -> JobOutput:
    """The lines that match, as far as they come in a few seconds, and not more than can be shown as a whole."""
    until, at, size = time.monotonic() + FILTER_SECONDS, start, 0
    matched: list[str] = []
    for behind, raw in output.read_pieces(fd, start, end):
        left, line = until - time.monotonic(), output.clean(raw)
        try:
            if left <= 0 or size > output.WHOLE:
                break
            match = pattern.search(line.rstrip("\n"), timeout=left)
        except TimeoutError:
            if at == start:  # it did not get past the first line: asking again would not help
                raise SlowFilter(filter=pattern.pattern, seconds=FILTER_SECONDS) from None
            break
        at = behind
        if match:
            matched.append(line)
            size += len(line)
    view = output.shorten("".join(matched), head, tail, at - start)
    return JobOutput(view, start, at, ended, len(matched), at < end)
