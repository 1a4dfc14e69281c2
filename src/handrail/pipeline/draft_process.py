"""The calls of a session that works in a named draft: another process makes them, which sees the draft.

A process sees a draft by mounts of its own, and these cannot be had for one object in a program. So the program that
opened the session asks a process that has them (`draft_server.py`). Each call has a connection of its own, by which its
events and the questions to a person come back.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from handrail.drafts import IN_DRAFT
from handrail.drafts.store import DraftStore, OpenDraft, check_name
from handrail.drafts.three_way import BaseSaver, save_bases
from handrail.errors import SessionOver, ToolError
from handrail.model import Approve, Question, Result
from handrail.pipeline.approve import resolve_answer
from handrail.pipeline.events import naming

if TYPE_CHECKING:
    from handrail.pipeline.events import Events, OnEvent

_POLL_SECONDS = 0.1
_END_SECONDS = 30.0


def open_draft(store: DraftStore, name: str) -> OpenDraft:
    """The draft of a name to work in, created if there is none. Others may work in it, too.

    Raises `OSError`, `BlockingIOError` if somebody keeps or merges it, and `ValueError` for a wrong name.
    """
    check_name(name)
    with contextlib.suppress(FileNotFoundError):
        return store.open_named(name, shared=True)
    store.look_at_owners()
    with contextlib.suppress(FileExistsError):  # another process was faster
        store.create(name).close()
    return store.open_named(name, shared=True)


class DraftProcess:
    """A process with a session in a draft."""

    def __init__(
        self, draft: OpenDraft, options: Mapping[str, object], approve: Approve | None, *, closes: bool = True
    ) -> None:
        """``options``: those of its session; raises `ValueError` if they cannot be sent, and `OSError`.

        ``closes``: whether the draft is closed with the process.
        """
        self._closes = closes
        self._draft = draft
        self._approve = approve
        self._lock = threading.Lock()
        try:
            start = pickle.dumps((draft.directory.path, {**options, "approve": approve is not None}))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(f"a session in a draft needs options that another process can read: {error}") from None
        with contextlib.ExitStack() as undo:  # the process comes last: nothing can fail once it runs
            self._control, theirs = socket.socketpair()
            undo.callback(self._control.close)
            with theirs:
                self._bases = BaseSaver(draft.directory)
                undo.callback(self._bases.stop)
                words = [sys.executable, "-P", "-m", "handrail.pipeline.draft_server", str(theirs.fileno())]
                environment = {**os.environ, IN_DRAFT: draft.name}
                self._process = subprocess.Popen(words, pass_fds=(theirs.fileno(),), env=environment)  # noqa: S603
            undo.pop_all()
        try:
            draft.begin_view(os.path.basename(sys.argv[0]) or "python")
            self._ask(Connection.send_bytes, start)
        except BaseException:
            self.close()
            raise

    def _ask(self, send: Any, message: Any) -> object:
        """Send the first message and wait for the answer; raises what the other side raised."""
        with self._connect() as connection:
            send(connection, message)
            return _result(*_receive(connection))

    def _connect(self) -> Connection:
        """A connection for one call."""
        ours, theirs = socket.socketpair()
        with theirs, self._lock:
            try:
                socket.send_fds(self._control, [b"c"], [theirs.fileno()])
            except OSError:
                ours.close()
                raise SessionOver from None
        return Connection(ours.detach())

    def request(self, method: str, *arguments: object) -> Any:
        """Call a method of the session that asks nobody; raises what it raises."""
        return self._ask(Connection.send, (method, arguments))

    def call(
        self, arguments: tuple[object, ...], cancel: threading.Event | None, events: Events, on_event: OnEvent | None
    ) -> Result:
        """Make one tool call; returns its result."""
        with self._connect() as connection:
            connection.send(("call", arguments))
            is_cancelled = False
            while True:
                while cancel and not is_cancelled and not connection.poll(_POLL_SECONDS):
                    if cancel.is_set():
                        connection.send(("cancel", None))
                        is_cancelled = True
                kind, value = _receive(connection)
                if kind == "event":
                    events.send(value, on_event)
                elif kind == "question":
                    assert self._approve
                    question = replace(Question.from_json(value), cancel=cancel)
                    try:
                        with naming("approve"):
                            answer = resolve_answer(self._approve(question))
                    except ToolError as refused:  # the call fails where it is made
                        connection.send(("refused", refused))
                    else:
                        connection.send(("answer", answer.as_json()))
                else:
                    result: Result = _result(kind, value)
                    return result

    def close(self) -> None:
        """End the session and everything that runs in the draft. May be called again."""
        self._control.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._bases.stop()
        save_bases(self._draft.directory)
        self._draft.leave_view()
        if self._closes:
            with contextlib.suppress(OSError):
                self._draft.close()


def _receive(connection: Connection) -> tuple[str, Any]:
    try:
        kind, value = connection.recv()
    except (EOFError, OSError):
        raise SessionOver from None
    return kind, value


def _result(kind: str, value: Any) -> Any:
    if kind == "error":
        raise value
    return value
