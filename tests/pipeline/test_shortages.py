"""Descriptors run out during a command: that call fails, and the next one has its sandbox and its draft again."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests.drafts.machine import require_drafts
from tests.sizes import spread

pytestmark = pytest.mark.slow  # starts many processes

MOST = 600
"""The limit meanwhile; the launcher of commands, which inherits it, needs more than 256."""


@contextlib.contextmanager
def fill_descriptors(room: int) -> Iterator[None]:
    """Leave ``room`` descriptors free."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST, limits[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(room):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.fixture(autouse=True, scope="module")
def import_all(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A module that cannot be opened is another matter."""
    require_drafts()
    top = tmp_path_factory.mktemp("first")
    settings = Settings(state=str(top / "state"), durable=False)
    (top / "w").mkdir()
    with Session(top / "w", mode="full", settings=settings) as session:
        assert session.call("Bash", {"command": "echo 1 > a.txt"}).ok
        with fill_descriptors(0):
            assert not session.call("Bash", {"command": "echo 2 > a.txt"}).ok


@pytest.mark.parametrize("room", spread(range(24), 8))
@pytest.mark.parametrize("is_first", [True, False])
def test_the_next_command_runs_in_a_draft_again(tmp_path: Path, is_first: bool, room: int) -> None:
    path = tmp_path / "w" / "a.txt"
    path.parent.mkdir()
    path.write_text("0\n", encoding="utf-8")
    settings = Settings(state=str(tmp_path / "state"), durable=False)
    with Session(path.parent, mode="full", settings=settings) as session:
        if not is_first:
            assert session.call("Bash", {"command": "true > none.txt"}).ok
        with fill_descriptors(room):
            short = session.call("Bash", {"command": "echo 1 > a.txt"})
        assert path.read_text(encoding="utf-8") == ("1\n" if short.ok else "0\n"), short.text
        assert short.ok or "Too many open files" in short.text
        again = session.call("Bash", {"command": "echo 2 > a.txt"})
        assert again.ok and again.data["diff"].endswith("+2\n"), again.text
        host = session.services.command_host()
        assert host.boundary.namespaced and host.drafts.workspace
