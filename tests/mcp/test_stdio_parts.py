"""The threads and the sessions behind the stdio door."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.mcp.workers import CallThreads
from tests.command import TIMEOUT


def test_all_is_done_and_no_more_than_allowed_at_a_time() -> None:
    crew, lock, gate = CallThreads(most=3), threading.Lock(), threading.Event()
    at_once = most = done = 0

    def task() -> None:
        nonlocal at_once, most, done
        with lock:
            at_once += 1
            most = max(most, at_once)
        gate.wait(TIMEOUT)
        with lock:
            at_once -= 1
            done += 1

    assert all(crew.start(task) for _ in range(20))
    gate.set()
    assert crew.close(TIMEOUT)
    assert done == 20
    assert most <= 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the fault is what is tested
def test_a_fault_in_one_task_does_not_stop_the_others() -> None:
    others = set(threading.enumerate())
    crew, done = CallThreads(most=1), threading.Event()

    def fault() -> None:
        raise RuntimeError

    crew.start(fault)
    crew.start(done.set)  # waits behind it
    assert done.wait(TIMEOUT)
    assert crew.close(TIMEOUT)
    for thread in set(threading.enumerate()) - others:  # the fault is reported at the very end of its thread
        thread.join(TIMEOUT)


def test_a_task_that_does_not_end_does_not_hold_up_the_end() -> None:
    crew, gate = CallThreads(), threading.Event()
    crew.start(lambda: (gate.wait(TIMEOUT), None)[1])
    assert crew.close(0.1) is False
    gate.set()


def test_the_longest_unused_session_is_closed_and_never_one_in_use(
    tmp_path: Path, make_session: Callable[..., Session]
) -> None:
    collected: list[Session] = []

    def opened() -> Session:
        collected.append(make_session())
        return collected[-1]

    sessions = Sessions(opened, most=2)
    with sessions.use("a") as first:
        for thread in ("b", "c", "d"):
            with sessions.use(thread):
                pass
        with sessions.use("a") as again:
            assert again is first
    with sessions.use("d") as kept:
        assert kept is collected[3]
    with sessions.use("b") as anew:
        assert anew is collected[4]
    sessions.close()
    with pytest.raises(CannotOpen), sessions.use("a"):
        pass
