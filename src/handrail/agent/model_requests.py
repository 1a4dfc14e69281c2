"""Asking a model: in a thread of its own, so that who cancels need not wait for a server that says nothing; and again,
where trouble on the way passes by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from itertools import count

from handrail.agent.messages import Asked, Event, Reply, Waiting
from handrail.agent.providers import Cancelled, Model, ModelError, Request

_LOOK = 0.05


def patiently(model: Model, request: Request, attempts: int, pause: float, notice: Callable[[Event], None]) -> Reply:
    """The model's reply; raises `ModelError` where waiting does not help, or has not, and `Cancelled`."""
    for attempt in count(1):
        started = time.monotonic()
        try:
            reply = _apart(model, request)
            if reply.turn.text.strip() or (reply.turn.uses and request.tools):
                said = reply.turn.text if request.tools else ""  # notes for the model are not said to anybody
                notice(Asked(said, reply.usage, time.monotonic() - started))
                return reply
            error = ModelError(f"{model.name} answered with nothing at all", "empty", retry=True)
        except ModelError as failed:
            error = failed
        if not error.retry or attempt >= attempts:
            raise error
        seconds = error.after if error.after is not None else pause * 2 ** (attempt - 1)
        notice(Waiting(str(error), seconds, attempt))
        if request.cancel.wait(seconds):
            raise Cancelled
    raise AssertionError("unreachable")


def _apart(model: Model, request: Request) -> Reply:
    """One request. One that is given up is not waited for: it ends by itself, with the next piece or when the server
    goes away, and nothing of it is heard any more."""
    over = threading.Event()

    def heard(text: str) -> None:
        if over.is_set():
            raise Cancelled
        request.say(text)

    future: Future[Reply] = Future()

    def run() -> None:
        try:
            future.set_result(model.reply(replace(request, say=heard)))
        except BaseException as fault:  # noqa: BLE001 - whoever waits gets it, as without a thread
            future.set_exception(fault)

    threading.Thread(target=run, name="handrail-model", daemon=True).start()
    try:
        while not wait([future], _LOOK).done:
            if request.cancel.is_set():
                raise Cancelled
        return future.result()
    finally:
        over.set()
