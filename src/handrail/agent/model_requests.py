"""Send a request to a model, with retries.

The request runs in a thread of its own, so that cancelling need not wait for a server that does not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from itertools import count

from handrail.agent.history import size
from handrail.agent.messages import Event, ModelReplied, Reply, Retrying, Usage
from handrail.agent.providers import Cancelled, Model, ModelError, Request

_LOOK = 0.05


def request_with_retries(
    model: Model, request: Request, tokens: int, attempts: int, pause: float, notice: Callable[[Event], None]
) -> Reply:
    """Return the model's reply; raises `ModelError` when retries cannot help or did not, and `Cancelled`.

    ``tokens``: an estimate of the request, for servers that do not count.
    """
    for attempt in count(1):
        started = time.monotonic()
        try:
            reply = _request_in_thread(model, request)
            if reply.turn.text.strip() or (reply.turn.calls and request.tools):
                if not reply.usage.input:
                    reply = replace(reply, usage=Usage(tokens, size(reply.turn), is_estimated=True))
                text = reply.turn.text if request.tools else ""  # notes for the model are shown to nobody
                notice(ModelReplied(text, reply.usage, time.monotonic() - started))
                return reply
            error = ModelError(f"{model.name} sent an empty reply", "empty", retry=True)
        except ModelError as failed:
            error = failed
        if not error.retry or attempt >= attempts:
            raise error
        seconds = error.after if error.after is not None else pause * 2 ** (attempt - 1)
        notice(Retrying(str(error), seconds, attempt))
        if request.cancel.wait(seconds):
            raise Cancelled
    raise AssertionError("unreachable")


def _request_in_thread(model: Model, request: Request) -> Reply:
    """Make one request. A cancelled request is not awaited: its thread ends with the next piece of the stream or with
    the connection, and its text is dropped."""
    over = threading.Event()

    def forward(receive: Callable[[str], None], text: str) -> None:
        if over.is_set():
            raise Cancelled
        receive(text)

    say, reason = partial(forward, request.say), partial(forward, request.reason)

    future: Future[Reply] = Future()

    def run() -> None:
        try:
            future.set_result(model.reply(replace(request, say=say, reason=reason)))
        except BaseException as fault:  # noqa: BLE001 - the caller gets it, as without a thread
            future.set_exception(fault)

    threading.Thread(target=run, name="handrail-model", daemon=True).start()
    try:
        while not wait([future], _LOOK).done:
            if request.cancel.is_set():
                raise Cancelled
        return future.result()
    finally:
        over.set()
