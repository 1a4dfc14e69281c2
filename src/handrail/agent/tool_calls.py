"""Make the tool calls of one reply: in parallel where their files differ, in the model's order where they do not."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

from handrail.agent.messages import CallFinished, CallStarted, Event, ToolCall, ToolResult
from handrail.errors import ToolError
from handrail.frozen import frozen
from handrail.model import CommandAccess, Result
from handrail.pipeline.any_session import AnySession

_THREADS = 8
_HINT, _END = 3, 5
"""After so many identical calls with the same result the model gets a hint, and the run ends."""
_FAILED = "\n(This call has failed {times} times. It will fail again: check the current state, and try something else.)"
_SAME = "\n(You have made this call {times} times with the same result. Use what you have, or try something else.)"
_LOOP = "stopped: the model made the same call {times} times and got the same result: {call}"
_LONGEST_CALL = 200
_CANCELLED = "The user stopped this call before it ran."


@frozen
class _Plan:
    """The files that a call will read and write."""

    call: ToolCall
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    runs_read_only: bool = False
    """A read-only command: it may read any file."""
    alone: bool = False
    """Any other command, or a function of the host's own: it may change anything."""

    def conflicts(self, other: _Plan) -> bool:
        if (
            self.alone
            or other.alone
            or (self.runs_read_only and other.writes)
            or (other.runs_read_only and self.writes)
        ):
            return True
        mine, theirs = (*self.reads, *self.writes), (*other.reads, *other.writes)
        return _overlap(self.writes, theirs) or _overlap(other.writes, mine)


class Caller(Protocol):
    """Makes one call: `Session.call`, or a wrapper of it."""

    def __call__(self, tool: str, arguments: str, /, *, id: str, cancel: threading.Event) -> Result: ...


class ToolCallRunner:
    """Makes the calls of a reply and reports them as events."""

    def __init__(self, session: AnySession, notice: Callable[[Event], None], call: Caller | None = None) -> None:
        self._session = session
        self._notice = notice
        self._caller: Caller = call or session.call
        self._repeated: dict[tuple[str, str], tuple[bytes, int]] = {}
        """By name and arguments, a digest of the last result and how many times in a row it was returned."""
        self._counting = threading.Lock()
        self._loop = ""

    def run(self, calls: Sequence[ToolCall], cancel: threading.Event) -> tuple[ToolResult, ...]:
        """Make the calls; return their results in order. Ctrl-C stops running calls, and each still gets a result."""
        results: list[ToolResult] = []
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="handrail-call") as pool:
            for batch in self._group_calls(calls):
                try:
                    futures = [pool.submit(self._call, call, cancel) for call in batch]
                    results += [
                        self._wait_for(call, future, cancel) for call, future in zip(batch, futures, strict=True)
                    ]
                except BaseException:  # whatever it is: no call continues after it
                    cancel.set()
                    raise
        return tuple(results)

    def _wait_for(self, call: ToolCall, future: Future[ToolResult], cancel: threading.Event) -> ToolResult:
        while True:
            try:
                return future.result()
            except KeyboardInterrupt:  # in this thread: cancel the call, which ends soon; or raised by the call itself
                cancel.set()
                if future.done() and future.exception() is not None:
                    return ToolResult(call.id, call.name, _CANCELLED, ok=False)

    def _group_calls(self, calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
        """Group the calls into batches that can run in parallel."""
        batches: list[list[_Plan]] = []
        for call in calls:
            plan = self._plan(call) if len(calls) > 1 else _Plan(call)
            if batches and not any(plan.conflicts(other) for other in batches[-1]):
                batches[-1].append(plan)
            else:
                batches.append([plan])
        return [[plan.call for plan in batch] for batch in batches]

    def _plan(self, call: ToolCall) -> _Plan:
        try:
            accesses = self._session.prepare(call.name, call.arguments).accesses
        except (ToolError, OSError):  # the call itself will say why
            return _Plan(call, alone=True)
        reads = tuple(access.path for access in accesses if access.action == "read")
        writes = tuple(access.path for access in accesses if access.action in ("write", "delete"))
        runs = [access for access in accesses if isinstance(access, CommandAccess)]
        alone = any(access.tier != "read_only" or access.doubt for access in runs)
        own = any(access.action == "call" for access in accesses)
        return _Plan(call, reads, writes, bool(runs), alone or own)

    def _call(self, call: ToolCall, cancel: threading.Event) -> ToolResult:
        if cancel.is_set():
            return ToolResult(call.id, call.name, _CANCELLED, ok=False)
        self._notice(CallStarted(call))
        result = self._caller(call.name, call.arguments, id=call.id, cancel=cancel)
        text = result.full_text + self._suggest_next(call, result)
        self._notice(_report_end(call, result, text, result.time_ms / 1000))
        images = tuple(block for block in result.blocks if block["type"] == "image")
        return ToolResult(call.id, call.name, text, result.ok, images)

    def find_loop(self) -> str:
        """Why the run must end, if the model repeats itself; empty if it does not."""
        return self._loop

    def forget_repetitions(self) -> None:
        """Count anew, for a new task."""
        self._repeated.clear()
        self._loop = ""

    def _suggest_next(self, call: ToolCall, result: Result) -> str:
        """A hint for the model if it makes the same call again and again, and no call changes anything in between."""
        key = call.name, call.arguments
        digest = hashlib.sha256(result.text.encode("utf-8", "replace")).digest()
        with self._counting:
            if result.data.get("diff"):  # something is different now: a test may fail in the same way once more
                self._repeated.clear()
            before, count = self._repeated.get(key, (b"", 0))
            count = count + 1 if before == digest else 1
            self._repeated[key] = digest, count
        if count >= _END:
            self._loop = _LOOP.format(times=count, call=f"{call.name} {call.arguments}"[:_LONGEST_CALL])
        if count < _HINT:
            return ""
        return (_SAME if result.ok else _FAILED).format(times=count)


def _report_end(call: ToolCall, result: Result, text: str, seconds: float) -> CallFinished:
    data = result.data
    diff, code = data.get("diff"), data.get("exit_code")
    return CallFinished(
        call,
        result.status,
        text,
        seconds,
        diff if isinstance(diff, str) else "",
        command=any(access.action == "run" for access in result.accesses),
        exit_code=code if isinstance(code, int) else None,
        stopped=bool(data.get("cancelled") or data.get("timed_out")),
    )


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether a path of one list equals, contains or lies inside a path of the other."""
    return any(a == b or a.startswith(b + "/") or b.startswith(a + "/") for a in some for b in others)
