"""The process that makes the calls of a session in a draft: `python -m handrail.pipeline.draft_server FD`.

It gets connections over a socket, one for each call, and ends when the program that started it closes that socket.
"""

from __future__ import annotations

import contextlib
import contextvars
import pickle
import queue
import socket
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from handrail.drafts.layout import DraftDirectory
from handrail.drafts.view import enter_view
from handrail.errors import SessionOver, ToolError
from handrail.model import Answer, Question


class _Caller:
    """The other side of one call."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.cancel = threading.Event()
        self._answers: queue.Queue[Answer | ToolError] = queue.Queue()
        self._lock = threading.Lock()

    def send(self, kind: str, value: object) -> None:
        with self._lock, contextlib.suppress(OSError):  # nobody waits for it any more
            self.connection.send((kind, value))

    def listen(self) -> None:
        """Take cancellations and answers until the call is over."""
        with contextlib.suppress(EOFError, OSError):
            while True:
                kind, value = self.connection.recv()
                if kind == "cancel":
                    self.cancel.set()
                else:
                    self._answers.put(Answer.from_json(value) if kind == "answer" else value)
        self.cancel.set()
        self._answers.put(SessionOver())

    def ask(self, question: Question) -> Answer:
        self.send("question", question.as_json())
        answer = self._answers.get()
        if isinstance(answer, ToolError):
            raise answer
        return answer


_CALLER: contextvars.ContextVar[_Caller] = contextvars.ContextVar("caller")


def _serve_call(session: Any, connection: Connection) -> None:
    with connection, contextlib.ExitStack() as stack:
        caller = _Caller(connection)
        _CALLER.set(caller)
        try:
            method, arguments = connection.recv()
            if method == "call":
                listener = threading.Thread(target=caller.listen, daemon=True)
                listener.start()
                # It ends when the other side closes. Closed before that, the number of the descriptor could go to the
                # connection of another call, and the listener would take the bytes of that one.
                stack.callback(listener.join)
                *words, number = arguments
                value = session.call(
                    *words, id=number, cancel=caller.cancel, on_event=lambda event: caller.send("event", event)
                )
            elif method == "undo":
                value = session.undo(**arguments[0])
            else:
                value = getattr(session, method)(*arguments)
            caller.send("result", value)
        except (EOFError, OSError):
            return
        except BaseException as error:  # noqa: BLE001 - the other side raises it
            caller.send("error", _portable(error))


def _portable(error: BaseException) -> BaseException:
    """An exception that another process can read."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own object
    except (pickle.PicklingError, TypeError, AttributeError, ValueError):
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _start(connection: Connection) -> object:
    """Enter the draft and open the session; the connection gets what keeps that from happening."""
    path, options = pickle.loads(connection.recv_bytes())  # noqa: S301 - from the program that started us
    try:
        enter_view(DraftDirectory.open(path), die_with_parent=False)
        from handrail.pipeline.session import reopen  # after the mounts: its imports may start threads

        approve = (lambda question: _CALLER.get().ask(question)) if options.pop("approve") else None
        session = reopen(options, approve)
    except BaseException as error:  # noqa: BLE001 - the other side raises it
        connection.send(("error", _portable(error)))
        return None
    connection.send(("result", None))
    return session


def main() -> None:
    """Serve calls until there is nobody who could make one."""
    session: Any = None
    with socket.socket(fileno=int(sys.argv[1])) as control:
        control.set_inheritable(False)
        while True:
            message, fds, _, _ = socket.recv_fds(control, 1, 1)
            if not message:
                break
            connection = Connection(fds[0])
            if session is None:
                with connection:
                    session = _start(connection)
                if session is None:
                    return
                continue
            threading.Thread(target=_serve_call, args=(session, connection), daemon=True).start()
    if session:
        session.close()


if __name__ == "__main__":
    main()
