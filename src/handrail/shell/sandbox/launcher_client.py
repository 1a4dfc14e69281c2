"""Start commands through a launcher (`launcher.py`), in the words of `subprocess.Popen`."""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from handrail.drafts.store import NoDraft
from handrail.shell.runner.process_tree import VARIABLE
from handrail.shell.sandbox.mount_plan import CommandMount, Mount, as_data
from handrail.shell.sandbox.system_call_numbers import get_call_number
from handrail.shell.start_process import ProcessOptions, SweepingProcess, start_process

_FLAGS = ("-I", "-S", "-B") if sys.dont_write_bytecode else ("-I", "-S")
_START = "import sys; sys.path.append(sys.argv[2]); import launcher"
_NUMBERS = ("clone", "mount_setattr", "move_mount", "open_tree", "pivot_root", "seccomp")
_START_SECONDS = 60.0
"""A bound for what never starts at all, not for a busy machine: a start that fails is noticed at once."""


class SetUpFailed(OSError):
    """A view could not be built, or a command could not be put into it; `step` says where."""

    def __init__(self, number: int, step: str, path: str) -> None:
        super().__init__(number, f"{step}: {os.strerror(number)}" + (f" ({path})" if path else ""))
        self.step = step


class LauncherGone(OSError):
    """The launcher has ended, and every command of it."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a launcher treats one command."""

    view: Sequence[CommandMount] = ()
    """Mounts on top of the base view that many commands share. The launcher builds them once."""
    mounts: Sequence[CommandMount] = ()
    """Mounts for this command alone, on top of these."""
    most_processes: int | None = None
    capabilities: int = 0
    """The capabilities that the command keeps, a bit each."""
    filter: bytes = b""
    """A seccomp program."""


class Launcher:
    """A process that holds a view of the file system and starts commands in it.

    It ends with this object's `close`, and with this process; its commands end with it.
    """

    def __init__(
        self, mounts: Sequence[Mount], *, own_network: bool, capabilities: int = 0, listen: bytes = b""
    ) -> None:
        """``own_network``: a network of its own with nothing but loopback. ``capabilities``: the most that a command
        may keep, a bit each. ``listen``: a seccomp program whose notifications arrive at `listener`.
        """
        self.listener = -1
        self._sending = threading.Lock()
        self._taking = threading.RLock()
        self._spare: Prepared | None = None
        self._closed = False
        self._socket, theirs = socket.socketpair()
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with theirs:
                # The marks of the runs around us stay on it; nothing else is its business.
                env = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
                self._process = start_process(
                    [sys.executable, *_FLAGS, "-c", _START, str(theirs.fileno()), os.path.dirname(__file__)],
                    cwd="/",
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            numbers = {name: get_call_number(name) for name in _NUMBERS}
            at = os.path.realpath(tempfile.gettempdir())
            self._send((as_data(mounts), at, own_network, capabilities, listen, numbers))
            self.pid = self._process.pid
            _, fds = _receive(self._socket)
            self.listener = fds[0] if fds else -1
        except BaseException:
            self.close()
            raise

    def _send(self, message: object, fds: Sequence[int] = ()) -> None:
        with self._sending:
            _send(self._socket, message, fds)

    def start(self, args: Sequence[str], how: Start, **options: Unpack[ProcessOptions]) -> ContainedProcess:
        """Start a command, in the words of `subprocess.Popen`. It gets a new session."""
        return ContainedProcess(self, how, args, **options)

    def take_prepared(self, view: Sequence[CommandMount]) -> Prepared:
        """The init of one command, in a view. The next one is made meanwhile."""
        with self._taking:
            taken, self._spare = self._spare, None
            if taken and taken.view != view:
                taken.close()
                taken = None
            taken = taken or self._order(view)
            try:
                taken.receive()
            except BaseException:
                taken.close()
                raise
            return taken

    def prepare(self, view: Sequence[CommandMount]) -> None:
        """Have the init of the next command made, without waiting for it."""
        with self._taking, contextlib.suppress(LauncherGone):
            if self._spare is None and not self._closed:
                self._spare = self._order(view)

    def refresh(self, pid: int, drafts: Sequence[int]) -> None:
        """Have a command's drafts look at the workspace from time to time; takes over the descriptors."""
        if drafts:
            fds = [os.pidfd_open(pid), *drafts]
            with contextlib.suppress(LauncherGone):  # then the command ends, too
                self._send(None, fds)
            for fd in fds:
                os.close(fd)

    def _order(self, view: Sequence[CommandMount]) -> Prepared:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._send(as_data(view), [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return Prepared(ours, view)

    def close(self) -> None:
        """End the launcher and its commands. May be called again."""
        with self._taking:
            self._closed = True
            if self._spare is not None:
                self._spare.close()
                self._spare = None
            self._socket.close()
            if self._process is not None:
                self._process.wait()
                self._process = None
            if self.listener >= 0:
                os.close(self.listener)
                self.listener = -1


class Prepared:
    """The init of a command that is not known yet."""

    def __init__(self, control: socket.socket, view: Sequence[CommandMount]) -> None:
        self.control = control
        self.view = view
        self.pid = -1
        """The init's process number."""

    def receive(self) -> None:
        """Wait until it is there."""
        self.pid = _receive(self.control)[0][1]

    def run(
        self, args: Sequence[str], cwd: str, env: Mapping[str, str], how: Start, fds: Mapping[int, int]
    ) -> list[int]:
        """Have it start the command ``args`` with the descriptors ``fds`` (ours by theirs); wait until that begins.

        Returns what `Launcher.refresh` takes. Raises `LauncherGone` only if it cannot have begun.
        """
        command = (list(map(os.fsdecode, args)), dict(env), cwd, list(fds))
        held = (as_data(how.mounts), how.most_processes, how.capabilities, how.filter)
        _send(self.control, (*command, *held), list(fds.values()))
        _receive(self.control)
        try:
            return _receive(self.control)[1]
        except LauncherGone:
            raise OSError(errno.ESRCH, "the process of the command was killed when it began") from None

    def close(self) -> None:
        """End it, and its command if that has begun, and wait for that."""
        with contextlib.suppress(OSError):
            if self.pid < 0:
                self.receive()
        self.control.close()
        if self.pid > 0:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.pid, signal.SIGKILL)  # nobody else waits for it: the number is its own
                os.waitpid(self.pid, 0)


def _send(sock: socket.socket, message: object, fds: Sequence[int] = ()) -> None:
    raw = marshal.dumps(message)  # type: ignore[arg-type]
    head = struct.pack("=Q", len(raw))
    try:
        sent = socket.send_fds(sock, [head], fds)
        sock.sendall(head[sent:] + raw)
    except OSError as error:
        raise LauncherGone(error.errno, "the launcher of commands has ended") from None


def _receive(sock: socket.socket) -> tuple[tuple[Any, ...], list[int]]:
    """A message and its descriptors. Raises what the other side reports."""
    waiting = select.poll()
    waiting.register(sock, select.POLLIN)
    if not waiting.poll(_START_SECONDS * 1000):
        raise TimeoutError(f"the launcher of commands did not answer within {_START_SECONDS:.0f} seconds")
    head, fds, flags = b"", list[int](), 0
    with contextlib.suppress(ConnectionResetError):  # it was killed with something unread
        head, fds, flags, _ = socket.recv_fds(sock, 8, 4, socket.MSG_CMSG_CLOEXEC | socket.MSG_WAITALL)
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    size = struct.unpack("=Q", head)[0] if len(head) == 8 else 0
    raw = sock.recv(size, socket.MSG_WAITALL) if size else b""
    if not raw:
        raise LauncherGone(0, "the launcher of commands has ended")
    message = marshal.loads(raw)  # noqa: S302 - our own code wrote it
    if message[0] == "error":
        _raise(*message[1:])
    return message, fds


def _raise(step: str, number: int, path: str) -> None:
    if step in ("exec", "chdir"):
        raise OSError(number, os.strerror(number), path)
    raise SetUpFailed(number, step, path)


class ContainedProcess(SweepingProcess):
    """A command that a launcher started. Its process number is that of its init; its exit code is the command's."""

    def __init__(self, launcher: Launcher, how: Start, args: Sequence[str], **options: Unpack[ProcessOptions]) -> None:
        self._launcher = launcher
        self._how = how
        self._control: socket.socket | None = None
        super().__init__(args, **options)

    def _execute_child(self, args: Any, *rest: Any) -> None:
        """Ask the launcher where `subprocess` would fork. The first sixteen arguments are the same in every version."""
        _, _, _, pass_fds, cwd, env, _, _, _, given, _, _, printed, _, complained = rest[:15]
        standard = [0 if given < 0 else given, 1 if printed < 0 else printed, 2 if complained < 0 else complained]
        fds = {**{fd: fd for fd in pass_fds}, **dict(enumerate(standard))}
        try:
            place = os.path.realpath(os.fsdecode(cwd)) if cwd else os.getcwd()
            prepared = self._launcher.take_prepared(self._how.view)
            try:
                drafts = prepared.run(args, place, os.environ if env is None else env, self._how, fds)
            except BaseException:
                prepared.close()
                self._launcher.prepare(self._how.view)
                raise
            self.pid, self._control = prepared.pid, prepared.control
            self._launcher.refresh(prepared.pid, drafts)
            self._child_created = True
        finally:
            self._close_pipe_fds(*rest[9:15])  # type: ignore[attr-defined]

    def _handle_exitstatus(self, *status: object, **rest: object) -> None:
        super()._handle_exitstatus(*status, **rest)  # type: ignore[misc]
        with contextlib.suppress(OSError):
            if self._control:
                self.left = _receive(self._control)[0][1]
        self._give_back()
        self._launcher.prepare(self._how.view)  # now, and not while the command needs the processors

    def _give_back(self) -> None:
        if self._control:
            self._control.close()
            self._control = None

    def __del__(self, *rest: object) -> None:
        self._give_back()
        super().__del__(*rest)


_APPARMOR = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns"
_DEBIAN = "/proc/sys/kernel/unprivileged_userns_clone"


class NoNamespaces(OSError):
    """Namespaces cannot be used here; `fix` says what would help."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f"namespaces: {why}")
        self.why = why
        self.fix = fix


_USER_NAMESPACE = ("unshare", "setgroups", "uid_map", "gid_map")
_REFUSED = (errno.EPERM, errno.EACCES)
_BY_STEP: dict[tuple[str, int], tuple[str, str]] = {
    **dict.fromkeys(
        ((step, errno.ENOSPC) for step in _USER_NAMESPACE),
        ("the limit of user namespaces is reached, or is 0", "sysctl user.max_user_namespaces=15000"),
    ),
    **dict.fromkeys(
        ((step, errno.EINVAL) for step in _USER_NAMESPACE),
        (
            "the kernel has no user namespaces, or this process runs in a chroot",
            "a kernel with CONFIG_USER_NS, and a start outside of the chroot",
        ),
    ),
    **dict.fromkeys(
        ((step, number) for step in _USER_NAMESPACE for number in _REFUSED),
        (
            "new namespaces are refused here, as in a container or inside another sandbox",
            "in Docker: --security-opt seccomp=unconfined, or a profile that allows unshare and mount",
        ),
    ),
    ("proc", errno.EPERM): (
        "/proc is partly covered here, as in a container, so that no new one can be mounted",
        "in Docker: --security-opt systempaths=unconfined",
    ),
    ("pivot_root", errno.EINVAL): (
        "the root directory is the initial one of the kernel",
        "a system that starts from a disk",
    ),
}
"""Why a step of the set-up fails with an error, and what helps."""
_BY_APPARMOR = (
    "AppArmor keeps programs of ordinary users from using user namespaces",
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile that allows userns",
)
_BY_DEBIAN = ("the kernel lets only root create user namespaces", "sysctl kernel.unprivileged_userns_clone=1")


def explain(error: SetUpFailed, read: Callable[[str], str] | None = None) -> NoNamespaces:
    """The reason behind a step of the set-up that failed. ``read``: returns the value of a setting of the kernel."""
    step, number, read = error.step, error.errno or 0, read or _read_value
    if number in _REFUSED and step != "proc" and read(_APPARMOR) == "1":
        return NoNamespaces(*_BY_APPARMOR)
    if number == errno.EPERM and step in _USER_NAMESPACE and read(_DEBIAN) == "0":
        return NoNamespaces(*_BY_DEBIAN)
    if number == errno.ENOSYS:
        return NoNamespaces(f"the kernel does not know {step}", "Linux 5.12 or later")
    return NoNamespaces(*_BY_STEP.get((step, number), (str(error.strerror), "")))


_OVERLAY = {
    errno.EPERM: "the kernel lets only root mount overlays; users may since Linux 5.11",
    errno.EACCES: "a security module, such as SELinux or AppArmor, forbids overlays",
    errno.EINVAL: "the file system of the workspace cannot be a layer of an overlay",
    errno.ENODEV: "the kernel has no overlayfs",
    errno.ENOSPC: "the limit of mounts is reached, or the disk of the workspace is full",
    errno.ELOOP: "the workspace lies on too many overlays already",
}


def explain_draft(error: SetUpFailed, workspace: str) -> NoDraft:
    """The reason why a command could not be put into a draft."""
    why = _OVERLAY.get(error.errno or 0) if error.step == "overlay" else None
    return NoDraft(error.errno, why or explain(error).why, workspace)


def _read_value(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()
    return ""
