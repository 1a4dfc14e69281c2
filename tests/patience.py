"""Time limits that are themselves under test, on a machine that may be busy."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until_it_got_far_enough(run: Callable[[float], T], far_enough: Callable[[T], object]) -> tuple[T, float]:
    """Run something that meets its time limit, with a longer limit where it met it too early; the result and the limit.

    A command that is to print a word and then to hang must have had the time to print: how long that takes is not what
    is tested. Nothing is caught here: what the result is like afterwards is up to the test.
    """
    for seconds in (0.5, 2.0, 10.0, 60.0):
        result = run(seconds)
        if far_enough(result):
            break
    return result, seconds
