"""The proof that a boundary holds: a child inside it tries what it must not be able to do, and says how far it got."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass

from handrail.shell.sandbox import landlock, seccomp
from handrail.shell.sandbox.confinement import Confinement, TooWide
from handrail.shell.sandbox.landlock_process import LandlockBoundary
from handrail.shell.sandbox.namespace_errors import NoNamespaces
from handrail.shell.sandbox.namespaces import NamespaceBoundary

_SECONDS = 60.0

_TRIAL = r"""
import ctypes, json, os, socket, sys
inside, outside, hidden, port, abstract, parent = json.loads(sys.argv[1])
def tried(work):
    try:
        work()
    except OSError:
        return False
    return True
def write(path):
    with open(path, "a") as file:
        file.write("x")
def read(path):
    with open(path) as file:
        if not file.read():
            raise OSError
def connect(family, kind, address):
    with socket.socket(family, kind) as sock:
        sock.settimeout(2)
        sock.connect(address)
        sock.send(b"x")
def trace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(0x20000) != 0:
        raise OSError
print(json.dumps({
    "inside": tried(lambda: write(inside)),
    "outside": tried(lambda: write(outside)),
    "truncate": tried(lambda: os.truncate(outside, 0)),
    "hidden": tried(lambda: read(hidden)),
    "environ": tried(lambda: read(f"/proc/{parent}/environ")),
    "tcp": tried(lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))),
    "udp": tried(lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", port))),
    "abstract": tried(lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, abstract)),
    "namespace": tried(trace),
}))
"""
_WORDS = {
    "outside": "a file outside could be written",
    "truncate": "a file outside could be emptied",
    "hidden": "a hidden file could be read",
    "environ": "the environment of this program could be read",
    "tcp": "a TCP connection was made",
    "udp": "a UDP packet was sent",
    "abstract": "a socket of another program was reached",
    "namespace": "a new namespace could be made",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of a boundary on this machine."""

    name: str
    works: bool
    why: str
    """The proof, or the missing part."""
    fix: str = ""


def probe() -> list[Layer]:
    """Each layer, proven by trying it. Costs a few started programs, and leaves nothing behind."""
    return [_probe_namespaces(), _probe_landlock(), _probe_seccomp()]


def _probe_namespaces() -> Layer:
    return _probe_layer("namespaces", NamespaceBoundary, _WORDS, "allow user namespaces")


def _probe_landlock() -> Layer:
    fix = "Linux 6.2 or later, with landlock among the security modules that are switched on at boot (lsm=)"
    version = landlock.get_version()
    if version < landlock.LEAST:
        why = (
            f"version {version} of the kernel's interface, {landlock.LEAST} is needed"
            if version
            else "the kernel has none"
        )
        return Layer("landlock", False, why, fix)
    proven = _probe_layer("landlock", LandlockBoundary, ("outside", "truncate", "hidden", "environ"), fix)
    why = f"version {version} of the kernel's interface; {proven.why}"
    if proven.works:
        why += "; inside the workspace it hides nothing from programs: what may not be read there is up to policy"
    return Layer(proven.name, proven.works, why, proven.fix)


def _probe_seccomp() -> Layer:
    fix = "Linux on x86_64, arm64, riscv64 or loongarch64, with CONFIG_SECCOMP_FILTER"
    if not seccomp.is_supported():
        return Layer("seccomp", False, "there is no filter for this kind of machine", fix)
    return _probe_layer("seccomp", LandlockBoundary, ("tcp", "udp", "abstract", "namespace"), fix)


def _probe_layer(
    name: str,
    make: Callable[[Confinement], NamespaceBoundary | LandlockBoundary],
    forbidden: Iterable[str],
    fix: str,
) -> Layer:
    try:
        got = _try(make)
    except NoNamespaces as error:
        return Layer(name, False, error.why, error.fix or fix)
    except (OSError, TooWide, BrokenExecutor, ValueError, subprocess.SubprocessError) as error:
        return Layer(name, False, str(error), fix)
    checked = list(forbidden)
    broken = [_WORDS[key] for key in checked if got[key]]
    if not got["inside"]:
        broken.append("a file inside could not be written")
    if broken:
        return Layer(name, False, "tried, and it does not hold: " + ", ".join(broken), fix)
    return Layer(name, True, f"tried, and refused as it should be: {', '.join(checked)}")


def _try(make: Callable[[Confinement], NamespaceBoundary | LandlockBoundary]) -> dict[str, bool]:
    with contextlib.ExitStack() as stack:
        folder = os.path.realpath(stack.enter_context(tempfile.TemporaryDirectory(prefix="handrail-probe-")))
        work, outside, hidden = (os.path.join(folder, name) for name in ("work", "outside", "hidden"))
        os.mkdir(work)
        for path in (outside, hidden):
            with open(path, "w", encoding="ascii") as file:
                file.write("kept")
        abstract = f"\0handrail-probe-{os.getpid()}-{os.path.basename(folder)}"
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        named = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        named.bind(abstract)
        named.listen()
        # Named as readable: a namespace has a private directory over /tmp, and what is not there proves nothing.
        boundary = make(Confinement(writable=(work,), readable=("/", folder), hidden=(hidden,)))
        stack.callback(boundary.close)
        facts = json.dumps([os.path.join(work, "a"), outside, hidden, tcp.getsockname()[1], abstract, os.getpid()])
        child = boundary.spawn(
            [sys.executable, "-I", "-S", "-c", _TRIAL, facts],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            output, errors = child.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise
        if child.returncode != 0:
            raise OSError(
                f"the trial ended with {child.returncode}: {errors.decode('utf-8', 'replace').strip()[-300:]}"
            )
        got: dict[str, bool] = json.loads(output)
        with open(outside, encoding="ascii") as file:
            got["outside"] = got["outside"] or file.read() != "kept"
        return got
