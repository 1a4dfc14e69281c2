"""How much the memory of this process grows at most while something runs."""

from __future__ import annotations

import gc
import resource
import sys
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")


def grown(run: Callable[[], object]) -> int:
    """The peak of the resident memory during ``run`` above what was resident before it, in bytes."""
    gc.collect()
    before = resident()
    run()
    return max(0, peak() - before)


def resident() -> int:
    """What is resident now; where the system does not say, the peak so far."""
    return _status("VmRSS") if STATUS.exists() else peak()


def peak() -> int:
    """The most that was resident so far."""
    if STATUS.exists():
        # Not `getrusage` here: a child that was started by a big process begins with that one's peak.
        return _status("VmHWM")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most << 10


def _status(name: str) -> int:
    for row in STATUS.read_text(encoding="ascii", errors="replace").splitlines():
        if row.startswith(name + ":"):
            return int(row.split()[1]) << 10
    raise LookupError(name)
