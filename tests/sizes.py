"""How much a test tries: a bounded sample in `make test`, everything in `make test-long` (HANDRAIL_LONG=1).

A bounded sample is spread evenly over the whole, so that each kind of fault, each part of a call and each kind of input
stays in it. Tests marked `long` have no smaller form: they run in `make test-long` only.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

LONG = os.environ.get("HANDRAIL_LONG", "") not in ("", "0")


def pick(bounded: int, long: int) -> int:
    """A count: of repetitions, of processes, of examples for hypothesis."""
    return long if LONG else bounded


def spread(items: Sequence[T], bounded: int) -> Sequence[T]:
    """At most ``bounded`` items at even distances, the first and the last among them; all of them in the long run."""
    if LONG or len(items) <= bounded:
        return items
    step = (len(items) - 1) / (bounded - 1)
    return [items[round(number * step)] for number in range(bounded)]
