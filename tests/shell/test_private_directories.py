"""The private directory of a session goes with it, also if the session is killed; that of a live one stays."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from handrail import AllowAll, Session, Settings
from handrail.shell.sandbox import Mode
from tests.sizes import pick

SANDBOXES: tuple[Mode, ...] = ("auto", "landlock", "off")
KILLS = pick(3, 30)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that is the test's own."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def make_settings(sandbox: Mode) -> Settings:
    return Settings(durable=False, sandbox=sandbox)


def list_private(temporary: Path) -> set[str]:
    return {path.name for path in temporary.iterdir() if path.name.startswith("handrail-private-")}


def run_and_die(project: Path, sandbox: Mode) -> None:
    """A process that leaves something in its private directory, and is killed."""
    child = os.fork()
    if child == 0:
        try:
            session = Session(project, policy=AllowAll(), settings=make_settings(sandbox))
            session.call("Bash", {"command": "mkdir -p $TMPDIR/a && echo x > $TMPDIR/a/b"})
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("sandbox", SANDBOXES)
def test_the_next_session_removes_what_killed_ones_left_and_nothing_else(
    tmp_path: Path, temporary: Path, sandbox: Mode
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    others = [temporary / name for name in ("handrail-mine", "handrail-private-notes-of-mine", "handrail-0")]
    for other in others:
        other.mkdir()
    settings = make_settings(sandbox)
    with Session(project, policy=AllowAll(), settings=settings) as alive:
        alive.call("Bash", {"command": "true"})
        held = list_private(temporary)
        assert len(held) > 1
        for _ in range(KILLS):
            run_and_die(project, sandbox)
        assert len(list_private(temporary)) >= len(held)
        with Session(project, policy=AllowAll(), settings=settings) as after:
            after.call("Bash", {"command": "true"})
            left = list_private(temporary)
            assert held <= left
            assert len(left) <= 2 * len(held)
        assert list_private(temporary) == held
        assert alive.call("Bash", {"command": "echo x > $TMPDIR/y && cat $TMPDIR/y"}).text.startswith("x")
    assert list_private(temporary) == {"handrail-private-notes-of-mine"}
    assert all(other.exists() for other in others)
