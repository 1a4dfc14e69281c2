"""The threads and the sessions behind the stdio door."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.mcp.workers import WorkerPool
from tests.command import TIMEOUT


def test_no_more_threads_than_allowed_do_all_that_is_to_be_done() -> None:
    crew, lock, gate = WorkerPool(most=3), threading.Lock(), threading.Event()
    names: set[str] = set()
    at_once = most = done = 0

    def task() -> None:
        nonlocal at_once, most, done
        with lock:
            at_once += 1
            most = max(most, at_once)
            names.add(str(threading.get_ident()))
        gate.wait(TIMEOUT)
        with lock:
            at_once -= 1
            done += 1

    assert all(crew.submit(task) for _ in range(20))
    gate.set()
    assert crew.close(TIMEOUT)
    assert done == 20
    assert most <= 3


def test_too_much_work_is_refused_and_not_kept() -> None:
    crew, gate, begun = WorkerPool(most=1, waiting=2), threading.Event(), threading.Event()

    def task() -> None:
        begun.set()
        gate.wait(TIMEOUT)

    assert crew.submit(task)
    begun.wait(TIMEOUT)
    assert [crew.submit(task) for _ in range(3)] == [True, True, False]
    gate.set()
    assert crew.close(TIMEOUT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the fault is what is tested
def test_a_fault_in_one_task_does_not_stop_the_others() -> None:
    others = set(threading.enumerate())
    crew, done = WorkerPool(most=1), threading.Event()

    def fault() -> None:
        raise RuntimeError

    crew.submit(fault)
    crew.submit(done.set)  # waits behind it
    assert done.wait(TIMEOUT)
    assert crew.close(TIMEOUT)
    for thread in set(threading.enumerate()) - others:  # the fault is reported at the very end of its thread
        thread.join(TIMEOUT)


def test_a_task_that_does_not_end_does_not_hold_up_the_end() -> None:
    crew, gate = WorkerPool(), threading.Event()
    crew.submit(lambda: (gate.wait(TIMEOUT), None)[1])
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
