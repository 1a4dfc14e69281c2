"""An undo or redo that is killed at any point is finished by the next one, and counts as done only if it is.

The kill comes before a line of our code: the lines an undo runs are counted first, and the points are spread over them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import handrail
from handrail import Session, Settings
from handrail.journal.queries import JournalReader
from handrail.journal.undo import UnknownCall
from tests.journal.wired import tree
from tests.sizes import pick

OURS = os.path.dirname(handrail.__file__)
POINTS = pick(4, 41)
"""For each kind of change: 205 in all in the long run."""
PATCH = """*** Begin Patch
*** Update File: old
@@
-one
+two
*** Delete File: more
*** Add File: deep/er/new
+new
*** End Patch"""
CHANGES: dict[str, tuple[str, dict[str, Any]]] = {
    "replace": ("Write", {"file_path": "old", "content": "two\n"}),
    "create": ("Write", {"file_path": "deep/er/new", "content": "two\n"}),
    "patch": ("ApplyPatch", {"patch": PATCH}),
    "delete": ("Trash", {"path": "folder"}),
    "command": ("Bash", {"command": "echo two > old; rm -r folder more; mkdir -p deep/er; echo x > deep/er/new"}),
}


def make_change(project: Path, kind: str) -> Session:
    """A session that has just changed something."""
    (project / "folder").mkdir(parents=True)
    for name in ("old", "more", "folder/file"):
        (project / name).write_text("one\n", encoding="utf-8")
    session = Session(project, mode="full", settings=Settings(durable=False, raise_bugs=True))
    tool, arguments = CHANGES[kind]
    for name in ("old", "more"):
        session.call("Read", {"file_path": name})
    was = tree(project)
    result = session.call(tool, arguments)
    assert result.ok, result.text
    assert tree(project) != was
    return session


def run_killed(work: Callable[[], object], kill_at: int) -> int:
    """Undo or redo in a child, and kill it before a line; how many lines it ran if it was not killed."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        lines = 0

        def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
            nonlocal lines
            if not frame.f_code.co_filename.startswith(OURS):
                return None
            lines += event == "line"
            if lines == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            work()
            sys.settrace(None)
            os.write(send, str(lines).encode("ascii"))
        finally:
            os._exit(0)
    os.close(send)
    with open(receive, "rb") as answer:
        lines = int(answer.read() or b"0")
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) == (not lines), status
    return lines


def list_points(lines: int) -> Iterator[tuple[int, int]]:
    """The lines before which a process is killed, with their numbers."""
    for number in range(1, POINTS + 1):
        # The last ones come when the files are restored, and only the record of that is missing.
        yield number, lines * number // (POINTS + 1) if number % 2 else lines - lines * number // (8 * POINTS)


@pytest.mark.parametrize("kind", CHANGES)
def test_a_redo_that_was_killed_anywhere_is_carried_out_by_the_next_one(tmp_path: Path, kind: str) -> None:
    with make_change(tmp_path / "whole", kind) as session:
        changed = tree(tmp_path / "whole")
        session.undo()
        was = tree(tmp_path / "whole")
        lines = run_killed(session.redo, -1)
    assert lines and tree(tmp_path / "whole") == changed
    for number, point in list_points(lines):
        project = tmp_path / f"{number}"
        with make_change(project, kind) as session:
            session.undo()
            run_killed(session.redo, point)
            with contextlib.suppress(UnknownCall):  # it had been carried out
                session.redo()
            assert tree(project) == changed, f"killed before line {point} of {lines}"
            with pytest.raises(UnknownCall):
                session.redo()
            session.undo()
            assert tree(project) == was


@pytest.mark.parametrize("kind", CHANGES)
def test_an_undo_that_was_killed_anywhere_is_carried_out_by_the_next_one(tmp_path: Path, kind: str) -> None:
    with make_change(tmp_path / "whole", kind) as session:
        lines = run_killed(session.undo, -1)
        was = tree(tmp_path / "whole")
    assert lines
    for number, point in list_points(lines):
        project = tmp_path / f"{number}"
        with make_change(project, kind) as session:
            run_killed(session.undo, point)
            with contextlib.suppress(UnknownCall):  # it had been carried out
                session.undo()
            assert tree(project) == was, f"killed before line {point} of {lines}"
            with pytest.raises(UnknownCall):
                session.undo()
    with JournalReader(session.journal.path) as reader:  # type: ignore[attr-defined] # a SQLite journal
        assert reader.verify() is None
