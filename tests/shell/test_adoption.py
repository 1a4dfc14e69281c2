"""Orphans come to this process while a command of ours needs it, and no longer."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail.shell.runner import process_tree
from handrail.shell.runner.process_tree import release_orphans
from handrail.shell.runner.run import CommandOrder, Runs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans")


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


def _order(tmp_path: Path, command: str) -> CommandOrder:
    return CommandOrder(command, str(tmp_path / f"log-{os.urandom(4).hex()}"), os.environ)


def _adopts() -> bool:
    """Whether an orphan of a program of the host comes to us."""
    completed = subprocess.run(
        ["sh", "-c", "sleep 300 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True, encoding="ascii"
    )
    orphan = process_tree.look(int(completed.stdout))
    assert orphan is not None
    os.kill(orphan.pid, signal.SIGKILL)
    if orphan.parent == os.getpid():
        os.waitpid(orphan.pid, 0)
        return True
    return False


def test_orphans_of_the_host_are_left_alone_when_no_command_needs_it(tmp_path: Path, runs: Runs) -> None:
    assert not _adopts()
    runs.run(_order(tmp_path, "true"))
    assert not _adopts()


def test_orphans_come_as_long_as_a_command_runs_or_has_left_something(tmp_path: Path, runs: Runs) -> None:
    running = runs.start(_order(tmp_path, "sleep 300"))
    assert _adopts()
    running.end("cancelled")
    runs.done(running)
    assert not _adopts()
    [stray] = runs.run(_order(tmp_path, "sleep 301 >/dev/null 2>&1 &")).strays
    assert _adopts()
    runs.close()
    assert not _adopts() and process_tree.look(stray.pid) is None


def test_a_second_session_keeps_it_when_the_first_one_ends(tmp_path: Path, runs: Runs) -> None:
    other = Runs()
    one, two = runs.start(_order(tmp_path, "sleep 300")), other.start(_order(tmp_path, "sleep 300"))
    other.close()
    assert two.ended is not None and _adopts()
    one.end("cancelled")
    runs.done(one)
    assert not _adopts()


def test_a_command_that_cannot_be_started_does_not_hold_it(tmp_path: Path, runs: Runs) -> None:
    with pytest.raises(FileNotFoundError):
        runs.start(CommandOrder("true", str(tmp_path / "none" / "log"), os.environ))
    assert not _adopts()


def test_many_threads_leave_it_as_it_was(tmp_path: Path, runs: Runs) -> None:
    work = [threading.Thread(target=lambda: runs.run(_order(tmp_path, "true"))) for _ in range(12)]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert not _adopts()


def test_a_host_that_adopts_by_itself_keeps_doing_so(tmp_path: Path, runs: Runs) -> None:
    libc = ctypes.CDLL(None)
    zero = ctypes.c_ulong(0)
    libc.prctl(36, ctypes.c_ulong(1), zero, zero, zero)
    try:
        runs.run(_order(tmp_path, "true"))
        assert _adopts()
    finally:
        libc.prctl(36, zero, zero, zero, zero)


def test_a_process_that_went_elsewhere_is_found_at_the_end_by_its_mark(tmp_path: Path) -> None:
    runs = Runs()
    [stray] = runs.run(_order(tmp_path, "setsid sleep 302 >/dev/null 2>&1 &")).strays
    release_orphans()  # as if it had been let go by mistake
    runs._held.clear()
    runs.close()
    actual = process_tree.look(stray.pid)
    assert actual is None or actual.dead
