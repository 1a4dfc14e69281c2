"""strace for tests: system calls named by what they do, whatever this kind of machine calls them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache

ACCESS = ("access", "faccessat", "faccessat2")
OPEN = ("open", "openat", "openat2", "creat")
RENAME = ("rename", "renameat", "renameat2")
MKDIR = ("mkdir", "mkdirat")
UNLINK = ("unlink", "unlinkat")
SYNC = ("fsync", "fdatasync")

# Yama lets a process be attached to by its own ancestors alone, unless it allows others.
_WAITS = """
import ctypes, sys
try:
    ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)
except (OSError, AttributeError):
    pass
print("ready", flush=True)
sys.stdin.read()
"""


def only(*families: tuple[str, ...]) -> list[str]:
    """The option for these calls. An older machine has names that a newer one lacks: `?` lets strace pass them over."""
    return ["-e", "trace=" + ",".join(f"?{name}" for family in families for name in family)]


@cache
def why_not() -> str:
    """Why no process can be traced here; empty if one can."""
    strace = shutil.which("strace")
    if strace is None:
        return "strace is not installed: no system call can be seen or failed"
    pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen([sys.executable, "-c", _WAITS], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin and process.stdout
        process.stdout.readline()
        attached = [strace, "-f", "-o", "/dev/null", "-p", str(process.pid)]
        with subprocess.Popen(attached, stderr=subprocess.PIPE, stdout=quiet, text=True) as tracer:
            assert tracer.stderr
            output = tracer.stderr.readline()
            process.stdin.close()
            output += tracer.stderr.read()
    return "" if "attached" in output else f"strace may not trace here: {output.strip()}"
