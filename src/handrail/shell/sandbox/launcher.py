"""The launcher: a small process that builds a view of the file system once, and starts each command inside it.

It runs as a program of its own and imports almost nothing, so that a start copies a few megabytes and one thread,
however large the program is that asks. `launcher_client` has it imported, and not run as a script, because Python
keeps only imported modules compiled. Requests arrive on a socket. Each command gets

    launcher --clone(CLONE_PARENT, CLONE_NEWPID | CLONE_NEWNS)--> init (a child of the asking program, process 1 inside)
                                                      '--posix_spawn--> the command

The init copies the mounts, mounts a `/proc`, reaps orphans and ends with the command; the kernel then ends everything
that is left inside. It also ends when the launcher does, and the launcher ends with the program that started it, so no
command outlives that program, however it dies. While a command works in a draft, the launcher has overlayfs look at the
workspace again from time to time (`_refresh`). The init is prepared before there is a command to run: a start is then a
message to a process that waits, a few mounts, and `posix_spawn`, which copies no memory.

Nothing here may import from the package: there is no package inside.
"""

# mypy: disable-error-code="attr-defined, unused-ignore"
from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import ctypes
import errno
import fcntl
import marshal
import os
import resource
import select
import stat
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Mounts = list[tuple[str, ...]]

_NEWNS, _NEWUSER, _NEWIPC, _NEWNET, _NEWPID = 0x20000, 0x10000000, 0x08000000, 0x40000000, 0x20000000
_CLONE_PARENT, _CHILD_ENDED = 0x8000, 17
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT, _MS_REC, _MS_SLAVE = 1, 2, 4, 8, 32, 1 << 14, 1 << 19
_DETACH = 2
_HERE, _EMPTY_PATH, _RECURSIVE, _NO_FOLLOW, _CLONE_TREE = -100, 0x1000, 0x8000, 0x100, 1
_MOVE_EMPTY_PATH = 4
_ATTR_RDONLY, _ATTR_NOSUID = 1, 2
_SET_DUMPABLE, _BOUNDING_DROP, _SET_SECCOMP, _NO_NEW_PRIVS = 4, 24, 22, 38
_OLD = "/oldroot"
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = (
    ("/proc/self/fd", "fd"),
    ("/proc/self/fd/0", "stdin"),
    ("/proc/self/fd/1", "stdout"),
    ("/proc/self/fd/2", "stderr"),
    ("pts/ptmx", "ptmx"),
)
_MOST_FDS = 253
_HIGH = 256
_LAST_WORDS_SECONDS, _MOST_NAMED, _LONGEST_LINE = 0.1, 50, 300
_MOST_VIEWS = 4
_REFRESH_SECONDS, _REFRESH_SHARE = 0.4, 0.02
"""How often an overlay looks at its lower layer again, and the most of the time that this may take."""

_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: there is one thread


_CapabilityHeader, _CapabilitySets = ctypes.c_uint32 * 2, ctypes.c_uint32 * 6  # made once, and not for each command


class _Step(OSError):
    """A step of the set-up failed."""


def _check(result: int, step: str, path: str = "") -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise _Step(number, step, path)
    return result


def _call(number: int, *arguments: object) -> int:
    plain = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *plain)
    return result


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None, step: str) -> None:
    data = options.encode("utf-8", "surrogateescape") if options is not None else None
    name = kind.encode() if kind else None
    _check(_libc.mount(os.fsencode(source), os.fsencode(target), name, ctypes.c_ulong(flags), data), step, target)


# Mounts


def _open_tree(path: str) -> int:
    """A detached copy of a file or directory with all mounts below it."""
    flags = _CLONE_TREE | os.O_CLOEXEC | _RECURSIVE | _NO_FOLLOW
    return _check(_call(_numbers["open_tree"], _HERE, os.fsencode(path), flags), "bind", path)


def _set_attributes(fd: int, path: str, attributes: int, flags: int) -> None:
    data = struct.pack("=QQQQ", attributes, 0, 0, 0)
    done = _call(_numbers["mount_setattr"], fd, os.fsencode(path), flags, ctypes.create_string_buffer(data), 32)
    _check(done, "mount_setattr", path)


def _move(fd: int, target: str) -> None:
    done = _call(_numbers["move_mount"], fd, b"", _HERE, os.fsencode(target), _MOVE_EMPTY_PATH)
    _check(done, "bind", target)


def _bind(source: str, target: str, read_only: bool) -> None:
    fd = _open_tree(source)
    try:
        attributes = _ATTR_NOSUID | (_ATTR_RDONLY if read_only else 0)
        _set_attributes(fd, "", attributes, _EMPTY_PATH | _RECURSIVE)
        _move(fd, target)
    finally:
        os.close(fd)


def _make_place(target: str, directory: bool) -> None:
    """Make sure that there is something to mount on. What exists stays as it is."""
    above = os.path.dirname(target)
    if above != "/" and not os.path.isdir(above):
        _make_place(above, True)
    try:
        if directory:
            os.mkdir(target, 0o755)
        else:
            os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444))
    except FileExistsError:
        pass
    except OSError as error:
        raise _Step(error.errno, "create a place for a mount", target) from None


def _mount_bind(source: str, target: str, read_only: bool, optional: bool) -> None:
    try:
        mode = os.stat(_OLD + source).st_mode
    except OSError as error:
        if optional:
            return
        raise _Step(error.errno, "bind", source) from None
    try:
        _make_place(target, stat.S_ISDIR(mode))
        _bind(os.path.realpath(_OLD + source) if os.path.islink(_OLD + source) else _OLD + source, target, read_only)
    except OSError:
        if not optional:
            raise


def _mount_tmpfs(target: str, mode: int) -> None:
    _make_place(target, True)
    _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode={mode:o}", "tmpfs")


def _mount_dev(target: str) -> None:
    _mount_tmpfs(target, 0o755)
    for name in _DEVICES:
        if os.path.exists(f"{_OLD}/dev/{name}"):
            _make_place(f"{target}/{name}", False)
            _bind(f"{_OLD}/dev/{name}", f"{target}/{name}", False)
    for text, name in _LINKS:
        os.symlink(text, f"{target}/{name}")
    os.mkdir(f"{target}/pts", 0o755)
    _mount(
        "devpts",
        f"{target}/pts",
        "devpts",
        _MS_NOSUID | _MS_NOEXEC,
        "newinstance,ptmxmode=0666,mode=620",
        "devpts",
    )
    _mount_tmpfs(f"{target}/shm", 0o1777)
    _set_attributes(_HERE, target, _ATTR_RDONLY, 0)


def _mount_overlay(lower: tuple[str, ...], upper: str, work: str, target: str, options: str) -> None:
    _make_place(target, True)
    names = (("lowerdir", lower), ("upperdir", (upper,)), ("workdir", (work,)))
    above = _OLD if os.path.isdir(_OLD) else ""  # a mount for one command finds its directories in the view
    text = ",".join(f"{name}={':'.join(_escape(above + path) for path in paths)}" for name, paths in names)
    _mount("overlay", target, "overlay", _MS_NOSUID, f"{text},{options}" if options else text, "overlay")


def _escape(path: str) -> str:
    return "".join("\\" + sign if sign in "\\:," else sign for sign in path)


def _hide(target: str) -> None:
    try:
        mode = os.lstat(target).st_mode
    except OSError:
        return
    if stat.S_ISDIR(mode):
        _mount("tmpfs", target, "tmpfs", _MS_RDONLY | _MS_NOSUID | _MS_NODEV, "mode=000,size=4k", "hide")
    elif not stat.S_ISLNK(mode):
        _bind("/dev/null", target, True)


def _pin(target: str, read_only: bool) -> None:
    try:
        _bind(target, target, read_only)
    except _Step as error:  # a path that is gone, or hidden from the command
        if error.errno != errno.ENOENT:
            raise


def _narrow(visible: tuple[str, ...], links: tuple[tuple[str, str], ...], home: str, *_: object) -> None:
    """Cover every directory at the top with an empty one, in which only the visible paths are.

    ``home``: where the private home directory is mounted.
    """
    private = [(home, True, _open_tree("/.handrail/home"))] if home else []
    for name in os.listdir("/"):
        top = "/" + name
        if top in visible or os.path.islink(top):
            continue
        if not os.path.isdir(top):
            _hide(top)
            continue
        kept = [path for path in visible if path.startswith(top + "/") and os.path.lexists(path)]
        trees = [one for one in private if home == top or home.startswith(top + "/")]
        trees += [(path, os.path.isdir(path), _open_tree(path)) for path in kept]
        _mount("tmpfs", top, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755", "hide")
        for path, directory, fd in trees:
            _make_place(path, directory)
            _move(fd, path)
            os.close(fd)
        for path, text in links:
            if path.startswith(top + "/") and not os.path.lexists(path):
                _make_place(os.path.dirname(path), True)
                os.symlink(text, path)
        if top != home:
            _set_attributes(_HERE, top, _ATTR_RDONLY, 0)


_MOUNTS = {
    "Bind": _mount_bind,
    "Tmpfs": _mount_tmpfs,
    "Symlink": os.symlink,
    "Dev": _mount_dev,
    "Overlay": _mount_overlay,
    "Hide": _hide,
    "Pin": _pin,
    "Narrow": _narrow,
}


def _mount_all(mounts: Mounts) -> None:
    for kind, *values in mounts:
        try:
            _MOUNTS[kind](*values)  # type: ignore[operator]
        except _Step:
            raise
        except OSError as error:
            raise _Step(error.errno, kind.lower(), str(values)) from None


# Set-up, once


def _enter_namespaces(network: bool) -> None:
    flags = _NEWNS | _NEWIPC | (_NEWNET if network else 0)
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and _libc.unshare(flags) == 0:  # real root needs no user namespace
        return
    _check(_libc.unshare(flags | _NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        try:
            fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
        except OSError as error:
            raise _Step(error.errno, name, "") from None


def _build(mounts: Mounts, at: str) -> None:
    _mount("none", "/", None, _MS_REC | _MS_SLAVE, None, "propagation")
    _mount("tmpfs", at, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755", "tmpfs")
    os.mkdir(at + _OLD, 0o700)
    os.chdir(at)
    _check(_call(_numbers["pivot_root"], b".", _OLD[1:].encode()), "pivot_root", at)
    os.chdir("/")
    _mount_all(mounts)
    os.chdir("/")
    _check(_libc.umount2(_OLD.encode(), _DETACH), "umount", _OLD)
    os.rmdir(_OLD)
    _set_attributes(_HERE, "/", _ATTR_RDONLY, 0)


def _start_loopback() -> None:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        fcntl.ioctl(sock.fileno(), 0x8914, struct.pack("16sh14x", b"lo", 1))
    except OSError as error:
        raise _Step(error.errno, "loopback", "") from None
    finally:
        sock.close()


class _LauncherFilterProgram(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def _listen(code: bytes) -> int:
    """Hand the calls that a filter names to whoever has the returned descriptor."""
    program = _LauncherFilterProgram(len(code) // 8, code)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    return _check(_call(_numbers["seccomp"], 1, 1 << 3 | 1 << 5, ctypes.byref(program)), "seccomp")


def _enter_view(mounts: Mounts) -> None:
    """Enter the view that has these mounts on top, for all commands that want it; the first one has it built."""
    key = marshal.dumps(mounts)
    if key not in _views:
        if len(_views) > _MOST_VIEWS:
            os.close(_views.pop(list(_views)[1]))
        if _views:
            _check(_libc.setns(next(iter(_views.values())), _NEWNS), "setns")
            _check(_libc.unshare(_NEWNS), "unshare")
            _mount_all(mounts)
        _views[key] = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _check(_libc.setns(_views[key], _NEWNS), "setns")


# Messages


def _send(sock: socket.socket, message: tuple[object, ...], *fds: int) -> None:
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))] if fds else []
    raw = marshal.dumps(message)  # type: ignore[arg-type]
    sock.sendmsg([struct.pack("=Q", len(raw)), raw], rights)


def _receive(sock: socket.socket) -> tuple[bytes, list[int]] | None:
    """A message, still packed, and the descriptors that come with it; None at the end."""
    raw, rights, _, _ = sock.recvmsg(8, socket.CMSG_SPACE(_MOST_FDS * 4), 0x40000000)
    fds: list[int] = []
    for level, kind, data in rights:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds += struct.unpack(f"{len(data) // 4}i", data[: len(data) // 4 * 4])
    if len(raw) < 8:
        return None
    (size,) = struct.unpack("=Q", raw)
    pieces = bytearray()
    while len(pieces) < size:
        piece = sock.recv(min(size - len(pieces), 1 << 20))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces), fds


# One command


def _drop_bounding_set(kept: int) -> None:
    """No program that is run from here on gets a capability that is not in ``kept``, a bit each."""
    for number in range(64):
        if not kept >> number & 1 and _libc.prctl(_BOUNDING_DROP, number, 0, 0, 0) != 0:
            if number > 30:  # the last one that the kernel knows is behind us
                return
            _check(-1, "capabilities")


def _drop_capabilities(kept: int) -> None:
    """Keep the capabilities in ``kept`` and lose the others for good."""
    header = _CapabilityHeader(0x20080522, 0)
    sets = _CapabilitySets()
    _check(_libc.capget(header, sets), "capabilities")
    low = kept & 0xFFFFFFFF & sets[1]
    _check(_libc.capset(header, _CapabilitySets(low, low)), "capabilities")


def _limit(kind: int, most: int) -> None:
    hard = resource.getrlimit(kind)[1]
    if hard == resource.RLIM_INFINITY or hard > most:
        resource.setrlimit(kind, (most, most))


def _find_program(name: str, env: dict[str, str]) -> list[str]:
    if "/" in name:
        return [name]
    return [os.path.join(place or ".", name) for place in env.get("PATH", os.defpath).split(":")]


def _start_command(message: bytes, fds: list[int], control: socket.socket) -> tuple[int, list[int]]:
    """Mount what is the command's own, give up what it does not get, and start it.

    Returns its process number, and if it has drafts the descriptors of its mounts and of each draft's overlay.
    """
    args, env, cwd, targets, mounts, most_processes, capabilities, code = _unpack(message)
    _mount_all(mounts)
    places = [values[3] for kind, *values in mounts if kind == "Overlay"]
    drafts = [os.open(place, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for place in places]
    if drafts:
        drafts.insert(0, os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
    try:
        os.chdir(cwd)
    except OSError as error:
        raise _Step(error.errno, "chdir", cwd) from None
    os.umask(_first_umask)
    _limit(resource.RLIMIT_CORE, 0)
    if most_processes:
        _limit(resource.RLIMIT_NPROC, most_processes)
    _drop_capabilities(capabilities)
    _check(_libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    if code:
        program = _LauncherFilterProgram(len(code) // 8, code)
        _check(_libc.prctl(_SET_SECCOMP, 2, ctypes.byref(program), 0, 0), "seccomp")
    # Above the numbers that the command gets: none is replaced before it was copied.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, max(_HIGH, *targets) + 1) for fd in fds]
    files = [(os.POSIX_SPAWN_DUP2, fd, target) for fd, target in zip(high, targets, strict=True)]
    failed: OSError | None = None
    _send(control, ("starting",))
    for path in _find_program(args[0], env):
        try:  # what may be run was judged before
            command = os.posix_spawn(
                path, args, env, file_actions=files, setpgroup=0, setsigmask=(), setsigdef=_ignored
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            failed = failed or error
        except OSError as error:
            failed = error
        else:
            os.chdir("/")
            for fd in (*fds, *high):
                os.close(fd)
            return command, drafts
    raise _Step(failed.errno if failed else errno.ENOENT, "exec", args[0])


def _mount_own_proc() -> None:
    # Read-only: root could change settings of the machine in it, and some belong to every user.
    _mount("proc", "/proc", "proc", _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None, "proc")


def _run_init(control: socket.socket, life: int) -> int:
    """Process 1 of a command: returns the exit code when the command has ended and may be forgotten."""
    os.setsid()
    failed: OSError | None = None
    try:
        _mount_own_proc()
    except OSError as error:  # said when somebody listens
        failed = error
    waiting = select.poll()
    waiting.register(control.fileno(), select.POLLIN)
    waiting.register(life, select.POLLIN)
    if life in {fd for fd, _ in waiting.poll()}:
        return 137
    received = _receive(control)
    if received is None:
        return 127
    if failed:
        raise failed
    woken, wake = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    asked: list[int] = []
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    signal.set_wakeup_fd(wake)
    command, drafts = _start_command(*received, control)
    _send(control, ("begun",), *drafts)
    for fd in drafts:
        os.close(fd)
    code, left = _wait(command, life, woken, asked)
    if left:
        _send(control, ("left", left))
    return code


def _refresh(drafts: dict[int, list[int]]) -> float:
    """Have overlays look at the workspace again; returns the seconds until the next time.

    Overlayfs keeps every name that it has looked up, also those that were not there, and does not notice that another
    program creates, replaces or deletes them in the layer below. To remount it drops the names that nobody uses.
    """
    start = time.monotonic()
    for mounts, *overlays in drafts.values():
        _check(_libc.setns(mounts, _NEWNS), "setns")
        for fd in overlays:  # not by its path: the command may have put something else there
            os.fchdir(fd)
            _libc.mount(b"none", b".", None, ctypes.c_ulong(_MS_REMOUNT | _MS_NOSUID), None)
    _enter_view([])
    return max(_REFRESH_SECONDS, (time.monotonic() - start) / _REFRESH_SHARE)


def _wait(command: int, life: int, woken: int, asked: list[int]) -> tuple[int, list[tuple[int, str]]]:
    """Reap until the command has ended, and give what it has left a moment to say its last words.

    Returns the exit code and what is still running: it ends with this process.
    """
    waiting = select.poll()
    waiting.register(life, select.POLLIN)
    waiting.register(woken, select.POLLIN)
    code, until = -1, 0.0
    while True:
        code, alone = _reap(command, code)
        seconds = None
        if code >= 0:
            until = until or time.monotonic() + _LAST_WORDS_SECONDS
            seconds = until - time.monotonic()
            if alone or asked or seconds <= 0:
                return code, [] if alone or asked else list(_list_running())
        ready = {fd for fd, _ in waiting.poll(None if seconds is None else seconds * 1000)}
        if life in ready:
            return 137, []
        if woken in ready:
            os.read(woken, 4096)


def _reap(command: int, code: int) -> tuple[int, bool]:
    """The exit code of the command, -1 while it runs, and whether no process is left."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code, True
        if pid == 0:
            return code, False
        if pid == command:
            code = os.waitstatus_to_exitcode(status)
            code = code if code >= 0 else 128 - code


def _list_running() -> Iterator[tuple[int, str]]:
    """The other processes of this namespace, with their command lines."""
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal() and name != "1")[:_MOST_NAMED]:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                state = file.read(4096).rpartition(b") ")[2][:1]
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = " ".join(file.read(4 * _LONGEST_LINE).replace(b"\0", b" ").decode("utf-8", "replace").split())
        except OSError:
            continue
        if state not in b"ZX":
            yield pid, line[:_LONGEST_LINE]


def _prepare(control: socket.socket, sock: socket.socket, life: tuple[int, int]) -> None:
    """Make the init of a command; the other end of ``control`` says later which command that is."""
    pid = _call(_numbers["clone"], _NEWPID | _NEWNS | _CLONE_PARENT | _CHILD_ENDED, 0, 0, 0, 0)
    if pid == 0:
        code = 126
        try:
            sock.close()
            os.close(life[1])
            code = _run_init(control, life[0])
        except OSError as error:
            _send(control, ("error", error.strerror, error.errno, error.filename))
        finally:
            os._exit(code)
    _send(control, ("pid", _check(pid, "clone")))


def main() -> int:
    sock = socket.socket(fileno=int(sys.argv[1]))
    fcntl.fcntl(sock.fileno(), fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    parent = os.pidfd_open(os.getppid())
    received = _receive(sock)
    if received is None:
        return 0
    mounts, at, network, capabilities, listen, numbers = _unpack(received[0])
    _numbers.update(numbers)
    listener: list[int] = []
    try:
        _enter_namespaces(network)
        if network:
            _start_loopback()
        _build(mounts, at)
        _enter_view([])
        # From here on no process of the same user can look into this one.
        _check(_libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "dumpable")
        _drop_bounding_set(capabilities)
        if listen:
            listener.append(_listen(listen))
    except OSError as error:
        _send(sock, ("error", error.strerror, error.errno, error.filename))
        return 1
    for name in ("capget", "capset", "mount", "prctl", "setns", "syscall", "unshare"):
        getattr(_libc, name)  # looked up here, once, and not in each process that this one copies
    _send(sock, ("ready",), *listener)
    for fd in listener:
        os.close(fd)
    _serve(sock, parent)
    return 0


def _serve(sock: socket.socket, parent: int) -> None:
    """Prepare inits, and refresh the drafts of commands, until nobody is left who asks."""
    life = os.pipe()
    drafts: dict[int, list[int]] = {}
    """The mounts of commands and the overlays among them, by descriptors of their inits."""
    due = 0.0
    waiting = select.poll()
    waiting.register(sock.fileno(), select.POLLIN)
    waiting.register(parent, select.POLLIN)
    while True:
        left = max(0.0, due - time.monotonic()) if drafts else None
        ready = {fd for fd, _ in waiting.poll(None if left is None else left * 1000 + 1)}
        for process in ready & drafts.keys():
            waiting.unregister(process)
            for fd in (process, *drafts.pop(process)):
                os.close(fd)
        if drafts and time.monotonic() >= due:
            due = time.monotonic() + _refresh(drafts)
        if parent in ready:
            return
        if sock.fileno() not in ready:
            continue
        received = _receive(sock)
        if received is None:
            return
        message, fds = received
        view: Mounts | None = _unpack(message)
        if view is None:  # the drafts of a command, after the descriptor of its init
            due = due if drafts else time.monotonic() + _REFRESH_SECONDS
            drafts[fds[0]] = fds[1:]
            waiting.register(fds[0], select.POLLIN)
            continue
        if not fds:  # the process that asks has run out of descriptors
            continue
        control = socket.socket(fileno=fds[0])
        try:
            _enter_view(view)
            _prepare(control, sock, life)
        except OSError as error:
            _send(control, ("error", error.strerror, error.errno, error.filename))
        control.close()


_numbers: dict[str, int] = {}
_views: dict[bytes, int] = {}
"""The mounts on top of the base view, as bytes, and a descriptor of the namespace that has them. The base is first."""
_unpack = marshal.loads  # only for messages from the program that started us
_ignored = [number for number in signal.valid_signals() if signal.getsignal(number) == signal.SIG_IGN]
_first_umask = os.umask(0o022) if __name__ == "launcher" else 0o022

if __name__ == "launcher":
    sys.exit(main())
