"""Small notebooks for tests, and a session that has read one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handrail import Result, Session

Make = Callable[..., Session]


def code(source: Any, id: str | None = "a1", **more: Any) -> dict[str, Any]:
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source, **more}
    return dict(sorted({**cell, **({"id": id} if id else {})}.items()))


def prose(source: Any, id: str | None = "m1", kind: str = "markdown", **more: Any) -> dict[str, Any]:
    cell = {"cell_type": kind, "metadata": {}, "source": source, **more}
    return dict(sorted({**cell, **({"id": id} if id else {})}.items()))


def book(*cells: Any, minor: int = 5) -> dict[str, Any]:
    return {
        "cells": list(cells),
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": minor,
    }


RAN = code(
    ["x = 1\n", "x"],
    "ran",
    execution_count=7,
    outputs=[
        {"data": {"text/plain": ["1"]}, "execution_count": 7, "metadata": {}, "output_type": "execute_result"},
        {"name": "stdout", "output_type": "stream", "text": ["hello\n"]},
    ],
    metadata={"tags": ["keep"], "weight": 1.5},
)


class Bench:
    """A session with one notebook in it that has been read."""

    def __init__(self, make: Make, folder: Path, content: Any, dialect: str = "native") -> None:
        self.path = folder / "n.ipynb"
        raw = json.dumps(content, indent=1, ensure_ascii=False) + "\n" if isinstance(content, dict) else content
        self.path.write_bytes(raw if isinstance(raw, bytes) else raw.encode("utf-8"))
        self.before = self.path.read_bytes()
        self.session = make(folder, dialect, durable=False)
        assert self.session.call("Read", {"file_path": "n.ipynb"}).error is None

    def edit(self, **arguments: Any) -> Result:
        return self.session.call("NotebookEdit", {"notebook_path": "n.ipynb", **arguments})

    def refused(self, code: str, **arguments: Any) -> str:
        """Make an edit that must fail with ``code`` and leave the file alone; what it says."""
        at = os.stat(self.path).st_mtime_ns
        result = self.edit(**arguments)
        assert result.error is not None, result.text
        assert result.error.code == code, result.text
        assert self.path.read_bytes() == self.before
        assert os.stat(self.path).st_mtime_ns == at
        return result.text

    @property
    def now(self) -> Any:
        return json.loads(self.path.read_bytes())
