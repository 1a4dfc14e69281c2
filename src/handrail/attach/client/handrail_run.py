"""The program that hooks and wrapped commands of attached agents start.

It starts with `python -I -S` before every tool call, so it imports few modules, most of them where they are used:
even `__future__` costs. All decisions are made in the helper (`handrail attach service`):

- a hook passes its input on through the helper's socket, and prints the answer;
- a wrapped command may run inside the agent's own sandbox, where `connect()` can be forbidden. It uses the FIFOs that
  the helper made for this one call, and copies its streams through them.
"""

import os
import select
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_PATIENCE = 50.0
"""Seconds to wait for the helper on a busy machine; agents give a hook a minute."""
_GRACE = 5.0
"""Seconds to wait for the helper of another process once ours has ended."""
_BLOCK = 1 << 16
_EVAL, _CWD = "&& eval '", " && pwd -P >| "
"""What Claude Code puts before and after a command."""
_NOT_REACHED = b"handrail: the helper cannot be reached; commands run without undo\n"
_REFUSED = (
    b"handrail: the helper cannot be reached, but it is required; "
    b"run `handrail attach service` to see why it does not start\n"
)
_is_required = False


def main(state: str, required: str, starts: list[str]) -> "NoReturn":
    """`hook AGENT`, `prefix TEXT` or `run COMMAND`; ``starts``: the words that start the helper.

    ``required``: not empty if nothing may run without the helper.
    """
    global _is_required
    _is_required = bool(required)
    directory = get_directory(state)
    mode, *words = sys.argv[1:]
    if mode == "hook":
        os.environ["HANDRAIL_STATE"] = state  # for a helper that this hook starts
        os._exit(_hook(directory, words[0], starts))
    text = words[0]
    if mode == "run":
        _run(directory, name_command(text), text, ["bash", "-c", text])
    shell = "zsh" if "/snapshot-zsh-" in text[:1000] else "bash"
    _run(directory, read_name(text), text, [shell, "-c", text])


def get_directory(state: str) -> str:
    """The directory of the helper. A named draft has its own helper, which sees the same files as the agents in it."""
    draft = os.environ.get("HANDRAIL_DRAFT", "")
    return os.path.join(state, "attach", *([draft] if draft.isalnum() else []))


def read_name(text: str) -> str:
    """The beginning of a call's name, from the words of Claude Code's shell, which contain the command."""
    start, end = text.find(_EVAL), text.rfind(_CWD)
    quoted = text[start + len(_EVAL) - 1 : end].removesuffix(" < /dev/null")
    return name_command(quoted[1:-1].replace("'\"'\"'", "'"))


def name_command(command: str) -> str:
    """The beginning of the names of calls that run this command: a checksum of it."""
    import zlib

    return f"{zlib.crc32(command.encode('utf-8', 'surrogateescape')):08x}-"


# A hook: one request, one answer.


def _hook(directory: str, agent: str, starts: list[str]) -> int:
    given = sys.stdin.buffer.read()
    names = ("CLAUDE_PID", "CLAUDE_PROJECT_DIR")
    facts = [agent, version(starts), *(f"{name}={os.environ[name]}" for name in names if name in os.environ)]
    request = "\0".join(facts).encode("utf-8", "surrogateescape") + b"\n" + given
    answer = _ask(directory, request, starts)
    if answer is None and _is_required and b'"PreToolUse"' in given:
        os.write(2, _REFUSED)
        return 2  # the tool call ends here, and the model reads why
    if answer is None:
        os.write(2, _NOT_REACHED)
        return 1  # shown to the person; the tool call goes on
    os.write(1, answer)
    return 0


def version(starts: list[str]) -> str:
    """Which installation this is: it changes with every upgrade."""
    try:
        status = os.stat(os.path.join(os.path.dirname(__file__), "..", "..", "version.py"))
    except OSError:
        return ""
    return f"{starts[0]} {status.st_ino} {status.st_mtime_ns}"


def _ask(directory: str, request: bytes, starts: list[str]) -> bytes | None:
    """The answer of a helper of this version, which is started if there is none, but only once; None without one."""
    import time

    until, cut = time.monotonic() + _PATIENCE, 0
    helper: int | None = None
    while time.monotonic() < until and cut < 2:
        try:
            answer = _exchange(directory, request)
        except OSError:  # none runs yet, which is like one of another version
            answer = b"old"
        if answer is not None and answer != b"old":
            return answer
        cut += answer is None
        if helper is None:
            helper = _start(starts)
        elif helper and os.waitpid(helper, os.WNOHANG)[0]:  # it cannot start, or another one has come first
            helper, until = 0, min(until, time.monotonic() + _GRACE)
        time.sleep(0.02)
    return None


def _exchange(directory: str, request: bytes) -> bytes | None:
    """Send one request; None if the helper dies before it has answered. Raises `OSError` if none is listening."""
    import _socket

    place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # its path may be too long for a socket
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(f"/proc/self/fd/{place}/socket")
        parts = []
        try:
            connection.sendall(len(request).to_bytes(8, "big") + request)
            while part := connection.recv(_BLOCK):
                parts.append(part)
        except OSError:
            return None
    finally:
        connection.close()
        os.close(place)
    answer = b"".join(parts)  # a real one begins with a newline
    return answer[1:] if answer.startswith(b"\n") else None


def _start(starts: list[str]) -> int:
    """Start the helper, apart from the agent's terminal and process group; returns its process."""
    if helper := os.fork():
        return helper
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.chdir("/")
    os.closerange(3, 256)
    try:
        os.execv(starts[0], starts)  # noqa: S606 - our own helper
    finally:
        os._exit(127)


# A wrapped command: its streams through FIFOs.


def _run(directory: str, name: str, text: str, unwrapped: list[str]) -> "NoReturn":
    calls = os.path.join(directory, "calls")
    call = _claim(calls, name)
    if call is None:
        _execute(unwrapped)
    os._exit(_Wrapped(call, text).run(unwrapped))


def _execute(words: list[str]) -> "NoReturn":
    """Run the command as if Handrail were not attached."""
    try:
        os.execvp(words[0], words)  # noqa: S606 - the command that the agent runs anyway
    except OSError:
        os.execv("/bin/sh", ["sh", "-c", words[-1]])  # noqa: S606
    raise AssertionError("unreachable")


def _claim(calls: str, name: str) -> str | None:
    """Claim a call of this name that is still free; None without one. The lock lasts as long as this process."""
    import fcntl

    try:
        names = sorted(entry for entry in os.listdir(calls) if entry.startswith(name))
    except OSError:
        return None
    for entry in names:
        call = os.path.join(calls, entry)
        try:
            if _is_of_another_agent(call):
                continue
            owner = os.open(os.path.join(call, "owner"), os.O_RDONLY)
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)  # by this one the helper finds our process
            return call
        except OSError:  # it is over, or another process has claimed it
            continue
    return None


def _is_of_another_agent(call: str) -> bool:
    """Whether a call belongs to an agent that is visible from here, and none of whose commands this process is."""
    with open(os.path.join(call, "command"), "rb") as file:
        agent, _, start = file.read().rpartition(b"\0")[2].decode().partition(" ")
    pid = os.getpid()
    while pid > 1 and pid != int(agent):
        pid = int(read_process(pid, 1) or 0)
    return pid != int(agent) and read_process(int(agent), 19) == start


def read_process(pid: int, number: int) -> str:
    """A field of `/proc/PID/stat` after the name (1: parent, 19: start time); empty if the process has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[number].decode()
    except (OSError, IndexError):
        return ""


class _Wrapped:
    """Copies the streams of this process through the FIFOs of a call, and ends as the command does."""

    def __init__(self, call: str, text: str) -> None:
        self._call = call
        self._text = text

    def run(self, unwrapped: list[str]) -> int:
        is_one = _is_same(1, 2)
        try:
            self._status = self._open("status", os.O_RDONLY)
            self._outputs = {self._open("out", os.O_RDONLY): 1}
            if not is_one:
                self._outputs[self._open("err", os.O_RDONLY)] = 2
            self._request = self._open("request", os.O_WRONLY)
            self._input = self._open("in", os.O_WRONLY)
        except OSError:  # the helper is gone
            return _go_on(unwrapped)
        self._pass_signals_on()
        try:
            os.write(self._request, b"1\n" if is_one else b"2\n")
        except BrokenPipeError:
            return _go_on(unwrapped)
        kind, _, rest = self._copy().partition(b"\0")
        if kind == b"unwrapped":
            if rest:
                os.write(2, b"handrail: " + rest + b"\n")
            _execute(unwrapped)
        return self._end(rest) if kind == b"ended" else _lose()

    def _open(self, name: str, flags: int) -> int:
        return os.open(os.path.join(self._call, name), flags | os.O_NONBLOCK | os.O_CLOEXEC)

    def _pass_signals_on(self) -> None:
        import _signal  # type: ignore[import-not-found]

        def send(number: int, _frame: object) -> None:
            try:
                os.write(self._request, b"%d\n" % number)
            except OSError:
                os._exit(128 + number)

        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT):
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, send)

    def _copy(self) -> bytes:
        """Copy until the command has ended and all of its output is here; returns the helper's last word."""
        poll = select.poll()
        for number in (self._status, *self._outputs):
            poll.register(number, select.POLLIN)
        poll.register(0, select.POLLIN)
        message, is_over, pending = b"", False, b""
        while not is_over:
            for number, _ in poll.poll():
                if number == self._status:
                    part = _read_some(number)
                    message += part or b""
                    is_over = part == b""
                elif number in self._outputs:
                    self._forward(number, poll)
                elif number == 0:
                    pending = _read_some(0) or b""
                    poll.unregister(0)
                    if pending:
                        poll.register(self._input, select.POLLOUT)
                    else:
                        os.close(self._input)
                elif number == self._input:
                    try:
                        pending = pending[os.write(number, pending) :]
                    except BlockingIOError:
                        continue
                    except OSError:  # the command reads no more
                        pending = b""
                        poll.unregister(number)
                        continue
                    if not pending:
                        poll.unregister(number)
                        poll.register(0, select.POLLIN)
        for number in list(self._outputs):
            while number in self._outputs and self._forward(number, poll):
                pass
        return message

    def _forward(self, number: int, poll: select.poll) -> bool:
        """Copy a block of output; False if there is none now."""
        part = _read_some(number)
        if part == b"":
            poll.unregister(number)
            del self._outputs[number]
        while part:
            try:
                part = part[os.write(self._outputs[number], part) :]
            except BlockingIOError:
                select.select([], [self._outputs[number]], [])
            except OSError:  # nobody reads it: the command gets the same error
                poll.unregister(number)
                os.close(number)
                del self._outputs[number]
                return False
        return part is not None

    def _end(self, rest: bytes) -> int:
        code, signal, directory, remark = rest.split(b"\0", 3)
        if remark:
            os.write(2, remark + b"\n")
        if directory and (at := self._text.rfind(_CWD)) >= 0:
            place = self._text[at + len(_CWD) :].strip("'\"")
            with open(place, "wb") as file:
                file.write(directory + b"\n")
        if int(signal):
            import _signal

            if int(signal) not in (_signal.SIGKILL, _signal.SIGSTOP):
                _signal.signal(int(signal), _signal.SIG_DFL)
            os.kill(os.getpid(), int(signal))
        return int(code)


def _is_same(one: int, other: int) -> bool:
    """Whether two descriptors are the same file: then the order of what is written there matters."""
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False


def _read_some(number: int) -> bytes | None:
    """A block; empty at the end, None if there is nothing now."""
    try:
        return os.read(number, _BLOCK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _go_on(unwrapped: list[str]) -> int:
    """The helper died before the command began: run it unwrapped, or refuse it if the helper is required."""
    os.write(2, _REFUSED if _is_required else _NOT_REACHED)
    return 125 if _is_required else _execute(unwrapped)


def _lose() -> int:
    os.write(2, b"handrail: the helper ended, and the command with it; `handrail log` shows what was kept\n")
    return 125
