"""What the numbers were measured on: facts that matter, and nothing that names the machine."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def facts(folder: str) -> str:
    """One line about the machine, and about the file system that holds ``folder``."""
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), {_memory()}{platform.system()} {_kernel()}, "
        f"Python {platform.python_version()} ({sys.implementation.name}), {_file_system(folder)}"
    )


def _kernel() -> str:
    return ".".join(platform.release().split("-")[0].split(".")[:2])


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / (1 << 30):.0f} GB of memory, "
    except (ValueError, OSError):
        return ""


def _file_system(folder: str) -> str:
    """The type of the file system: the longest mount point that holds the folder."""
    mounts = Path("/proc/self/mounts")
    if not mounts.exists():
        return "file system unknown"
    best, kind = "", "unknown"
    for row in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        _, place, actual, *_ = row.split(" ")
        inside = place == "/" or folder == place or folder.startswith(place + "/")
        if inside and len(place) >= len(best):
            best, kind = place, actual
    return f"{kind} file system"
