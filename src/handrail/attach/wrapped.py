"""The commands of attached agents: each is registered by a hook, claimed by its wrapper, and run in a session.

The wrapper may sit inside the agent's sandbox. It and the helper share a directory made for this one call:

    command   the registered command, for a shell that looks whether its own is one, and the process of its agent
    owner     a file that the wrapper locks; the lock says which process it is
    request   a line that starts the command, and the signals that the wrapper gets
    in, out, err, status    the streams of the command, and how it ended

The channel knows one request: run the registered command, once, within a minute, for a process below the agent that
registered it. Where the agent asks its person first, it waits for the answer. Words, variables and directory of the
command are those of that process as the kernel shows them: another process in the sandbox cannot add any.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import struct
import threading
from collections.abc import Callable, Mapping

from handrail.attach.client.handrail_run import name_command
from handrail.attach.processes import list_ancestors, read_invocation, read_start
from handrail.frozen import frozen

_FIFOS = ("request", "in", "out", "err", "status")
_LOCK = struct.Struct("@hhqqi4x")
_SECONDS_TO_START = 60.0


@frozen
class Started:
    """A command that its wrapper asks to run, with its streams."""

    text: str
    """The words that the agent gave to its shell."""
    cwd: str
    env: Mapping[str, str]
    pid: int
    """The wrapper."""
    stdin: int
    stdout: int
    stderr: int
    cancel: threading.Event


@frozen
class Ended:
    """How a command ended, and what its wrapper has to do."""

    code: int = 0
    signal: int = 0
    directory: str = ""
    """The directory that its shell was in at the end."""
    remark: str = ""
    """A line for the model."""

    def encode(self) -> bytes:
        remark = " ".join(self.remark.split())
        parts = (str(self.code), str(self.signal), self.directory, f"handrail: {remark}" if remark else "")
        return b"ended\0" + "\0".join(parts).encode("utf-8", "surrogateescape")


@frozen
class Unwrapped:
    """The command runs as if Handrail were not attached."""

    why: str
    """For the person who reads its output; empty if there is nothing to say."""

    def encode(self) -> bytes:
        return b"unwrapped\0" + " ".join(self.why.split()).encode("utf-8", "surrogateescape")


class RegisteredCommand:
    """The channel of one call, from its registration until its command has ended."""

    def __init__(
        self, calls: str, number: int, command: str, agent: int, run: Callable[[Started], Ended | Unwrapped]
    ) -> None:
        """``agent``: the process of the agent; ``run``: runs the command, and is called at most once."""
        self.name = f"{name_command(command)}{os.getpid()}-{number:08d}"
        self._path = os.path.join(calls, self.name)
        self._agent = agent
        self._run = run
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.has_started = False
        self._waits_for_person = False
        os.mkdir(self._path, 0o700)
        try:
            for name in _FIFOS:
                os.mkfifo(os.path.join(self._path, name), 0o600)
            with open(self._open("command", os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                file.write(f"{command}\0{agent} {read_start(agent)}".encode("utf-8", "surrogateescape"))
            self._owner = self._open("owner", os.O_RDWR | os.O_CREAT | os.O_EXCL)
            self._request = self._open("request", os.O_RDONLY)
            self._input = self._open("in", os.O_RDONLY)
            self._status = self._open("status", os.O_RDWR)  # the wrapper notices if this process dies
            self._waker, self._wake = os.pipe()
        except BaseException:
            shutil.rmtree(self._path, ignore_errors=True)
            raise
        threading.Thread(target=self._serve, name=f"command {self.name}", daemon=True).start()

    def _open(self, name: str, flags: int) -> int:
        return os.open(os.path.join(self._path, name), flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)

    def withdraw(self) -> bool:
        """Take the registration back, if the command has not started; whether it had not."""
        with self._lock:
            if not self.has_started and not self._is_over.is_set():
                self._is_over.set()
                os.write(self._wake, b"!")
            return not self.has_started

    def wait_for_person(self) -> None:
        """Let the command start at any time: the agent asks its person about it first."""
        self._waits_for_person = True

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        return self._is_over.wait(seconds)

    def _serve(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._request, select.POLLIN)
            poll.register(self._waker, select.POLLIN)
            events = poll.poll(_SECONDS_TO_START * 1000) or (poll.poll() if self._waits_for_person else [])
            ready = [number for number, _ in events]
            with self._lock:
                is_late = self._is_over.is_set() or self._request not in ready
                pid = 0 if is_late else self._find_owner()
                self.has_started = self._agent in list_ancestors(pid)
                if not self.has_started:
                    self._is_over.set()
            why = "it started too late" if is_late else "this process is not the agent's"
            with contextlib.suppress(OSError):  # the wrapper is gone
                end = self._start(pid) if self.has_started else Unwrapped(f"no undo for this command: {why}")
                self._is_over.set()
                os.write(self._status, end.encode()[: select.PIPE_BUF])
        finally:
            self._is_over.set()
            for number in (self._owner, self._request, self._status, self._waker, self._wake):
                os.close(number)
            if self._input >= 0:
                os.close(self._input)
            shutil.rmtree(self._path, ignore_errors=True)

    def _start(self, pid: int) -> Ended | Unwrapped:
        has_one_output = os.read(self._request, 2) == b"1\n"
        text, cwd, env = read_invocation(pid)
        cancel = threading.Event()
        watching = threading.Thread(target=self._watch, args=(cancel,), daemon=True)
        with contextlib.ExitStack() as stack:
            out = self._open("out", os.O_WRONLY)
            stack.callback(os.close, out)
            err = out
            if not has_one_output:
                err = self._open("err", os.O_WRONLY)
                stack.callback(os.close, err)
            source, self._input = self._input, -1
            stack.callback(os.close, source)
            for number in (source, out, err):
                os.set_blocking(number, True)
            watching.start()
            try:
                return self._run(Started(text, cwd, env, pid, source, out, err, cancel))
            finally:
                cancel.set()
                os.write(self._wake, b"!")
                watching.join()

    def _watch(self, cancel: threading.Event) -> None:
        """Cancel the command when its wrapper gets a signal, or ends."""
        poll = select.poll()
        poll.register(self._request, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        poll.poll()
        cancel.set()

    def _find_owner(self) -> int:
        """The process that holds the lock: the kernel says so, and in our numbers."""
        asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        kind, _, _, _, pid = _LOCK.unpack(fcntl.fcntl(self._owner, fcntl.F_GETLK, asked))
        return 0 if kind == fcntl.F_UNLCK else int(pid)


def find_signal(name: str | None) -> int:
    """The number of a signal; 0 for none."""
    return int(getattr(signal, name)) if name and hasattr(signal, name) else 0


def sweep(calls: str) -> None:
    """Remove the directories of calls whose helper was killed."""
    for name in os.listdir(calls):
        helper = name.split("-")[1:2]
        if not helper or not os.path.exists(f"/proc/{helper[0]}"):
            shutil.rmtree(os.path.join(calls, name), ignore_errors=True)
