"""A small workspace, and commands whose effects nobody can tell from their words."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def make_workspace(folder: Path) -> Path:
    """Four files, two of them in directories, and a link."""
    workspace = folder / "workspace"
    (workspace / "src" / "deep").mkdir(parents=True)
    for name in ("a.txt", "b.txt", "src/one.py", "src/deep/two.py"):
        (workspace / name).write_text(f"{name}\nsecond\n", encoding="utf-8")
    os.symlink("a.txt", workspace / "link")
    return workspace


def opaque(code: str) -> str:
    """A command that runs this Python code."""
    return f'{sys.executable} -c "{code}"'
