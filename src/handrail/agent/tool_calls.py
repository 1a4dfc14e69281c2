"""The calls of one reply: at the same time where they do not touch the same, in the model's order where they do."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from handrail.agent.messages import Began, Ended, Event, Given, Use
from handrail.errors import ToolError
from handrail.model import Result
from handrail.pipeline.session import Session

_THREADS = 8
_TIMES = 3
"""After so many failures of the very same call the model is told to try something else."""
_AGAIN = (
    "\n(This very call has failed {times} times now. It will fail again: look at what is there, and try another way.)"
)
_CANCELLED = "The person stopped this before it was made."


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a call will touch."""

    use: Use
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    looks: bool = False
    """A command that only looks: nobody can say at what."""
    alone: bool = False
    """A command may touch anything."""

    def conflicts(self, other: _Plan) -> bool:
        if self.alone or other.alone or (self.looks and other.writes) or (other.looks and self.writes):
            return True
        mine, theirs = (*self.reads, *self.writes), (*other.reads, *other.writes)
        return _meet(self.writes, theirs) or _meet(other.writes, mine)


class Caller(Protocol):
    """Makes one call: `Session.call`, or what a door puts around it."""

    def __call__(self, tool: str, arguments: str, /, *, id: str, cancel: threading.Event) -> Result: ...


class Hands:
    """Makes calls."""

    def __init__(self, session: Session, notice: Callable[[Event], None], call: Caller | None = None) -> None:
        self._session = session
        self._notice = notice
        self._caller: Caller = call or session.call
        self._failed: Counter[tuple[str, str]] = Counter()

    def make(self, uses: Sequence[Use], cancel: threading.Event) -> tuple[Given, ...]:
        """The results, in the order of the calls. Ctrl-C ends what runs; every call has a result all the same."""
        given: list[Given] = []
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="handrail-call") as pool:
            for batch in self._batches(uses):
                try:
                    futures = [pool.submit(self._call, use, cancel) for use in batch]
                    given += [self._awaited(use, future, cancel) for use, future in zip(batch, futures, strict=True)]
                except BaseException:  # whatever it is: nothing goes on behind it
                    cancel.set()
                    raise
        return tuple(given)

    def _awaited(self, use: Use, future: Future[Given], cancel: threading.Event) -> Given:
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:  # of this thread: the call is told, and ends soon; or of the call's own
                cancel.set()
                if future.done() and future.exception() is not None:
                    return Given(use.id, use.name, _CANCELLED, ok=False)

    def _batches(self, uses: Sequence[Use]) -> list[list[Use]]:
        """Calls that can be made together, batch after batch."""
        batches: list[list[_Plan]] = []
        for use in uses:
            plan = self._plan(use) if len(uses) > 1 else _Plan(use)
            if batches and not any(plan.conflicts(other) for other in batches[-1]):
                batches[-1].append(plan)
            else:
                batches.append([plan])
        return [[plan.use for plan in batch] for batch in batches]

    def _plan(self, use: Use) -> _Plan:
        try:
            accesses = self._session.prepare(use.name, use.arguments).accesses
        except (ToolError, OSError):  # the call itself will say why
            return _Plan(use, alone=True)
        reads = tuple(access.path for access in accesses if access.action == "read")
        writes = tuple(access.path for access in accesses if access.action in ("write", "delete"))
        runs = [access for access in accesses if access.action == "run"]
        return _Plan(use, reads, writes, bool(runs), any(access.tier != "read_only" or access.doubt for access in runs))

    def _call(self, use: Use, cancel: threading.Event) -> Given:
        if cancel.is_set():
            return Given(use.id, use.name, _CANCELLED, ok=False)
        self._notice(Began(use))
        started = time.monotonic()
        result = self._caller(use.name, use.arguments, id=use.id, cancel=cancel)
        text = result.text + self._hint(use, result)
        diff = result.data.get("diff")
        seconds = time.monotonic() - started
        self._notice(Ended(use, result.status, text, seconds, diff if isinstance(diff, str) else ""))
        pictures = tuple(block for block in result.blocks if block["type"] == "image")
        return Given(use.id, use.name, text, result.ok, pictures)

    def _hint(self, use: Use, result: Result) -> str:
        key = use.name, use.arguments
        if result.ok:
            self._failed.pop(key, None)
            return ""
        self._failed[key] += 1
        times = self._failed[key]
        return _AGAIN.format(times=times) if times >= _TIMES else ""


def _meet(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a path of one list is, or holds, or lies in one of the other."""
    return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in some for b in others)
