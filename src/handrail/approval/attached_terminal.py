"""Approval server: receives questions from other Handrail processes and returns a person's answers.

One thread for each process that asks keeps the connection alive, and notices when the question is withdrawn.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue

from handrail.approval import json_socket
from handrail.approval.ask_attached import IN_TERMINAL
from handrail.approval.json_socket import Disconnected, JsonSocket
from handrail.model import Answer, Question

_BEAT = 5.0
"""Seconds between signs of life."""
_MOST_OPEN = 64


class IncomingQuestion:
    """A question from another process, until it is answered or withdrawn."""

    def __init__(self, peer: JsonSocket, question: Question, pid: int) -> None:
        self.question = question
        self.pid = pid
        self.over = ""
        """Why it need not be answered any more."""
        self.accepted = False
        """Whether the process that asks has taken our answer, as the first one."""
        self._peer = peer
        self._answered = False
        self._gone, self._end = os.pipe()

    def fileno(self) -> int:
        """Can be read from as soon as the question is over."""
        return self._gone

    def answer(self, answer: Answer) -> bool:
        """Give the answer; False if nobody waits for it any more. Raises `ValueError` for one that is too long."""
        if self.over:
            return False
        self._answered = True
        try:
            self._peer.send({"answer": answer.as_json()})
        except Disconnected:
            return False
        return True

    def abandon(self, why: str) -> None:
        """Hang up on the process that asks: nobody is here to answer."""
        self.over = self.over or why
        self._peer.shut()

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the process that asks has confirmed an answer, or gone."""
        json_socket.is_ready(self._gone, seconds)

    def close(self) -> None:
        """It will not be answered, or has been."""
        os.close(self._gone)
        self._gone = -1

    def keep_alive(self) -> None:
        """Send signs of life to the process that asks, until the question is over."""
        try:
            while not self.over:
                try:
                    message = self._peer.wait(_BEAT)
                except TimeoutError:
                    self._peer.send({"waiting": True})
                else:
                    over = message.get("over")
                    self.accepted = self._answered and message.get("accepted") is True
                    self.over = over[:200] if isinstance(over, str) and over else "it was withdrawn"
        except Disconnected:
            self.over = self.over or "the asking process has ended"
        finally:
            os.close(self._end)


class ApprovalServer:
    """Listens for questions. ``workspace`` None: from all workspaces of this user. ``place``: where the person is.

    ``is_attended``: whether there is a person now; while there is none, no question is taken.
    """

    def __init__(
        self,
        state: str,
        workspace: str | None,
        place: str = IN_TERMINAL,
        is_attended: Callable[[], bool] = lambda: True,
    ) -> None:
        self.questions: SimpleQueue[IncomingQuestion] = SimpleQueue()
        self._workspace = workspace
        self._place = place
        self._is_attended = is_attended
        self.closed = False
        self._open: set[JsonSocket] = set()
        self._lock = threading.Lock()
        self._socket, self._path = json_socket.listen(state)
        threading.Thread(target=self._accept, name="handrail-approve", daemon=True).start()

    def __enter__(self) -> ApprovalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening, and hang up on whoever waits for an answer."""
        self.closed = True
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._socket.close()
        with self._lock:
            waiting = list(self._open)
        for peer in waiting:
            peer.shut()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            peer = JsonSocket(connection)
            with self._lock:
                accepted = len(self._open) < _MOST_OPEN
                if accepted:
                    self._open.add(peer)
            if accepted:
                threading.Thread(target=self._serve, args=(peer, connection), daemon=True).start()
            else:
                peer.close()

    def _serve(self, peer: JsonSocket, connection: socket.socket) -> None:
        try:
            if not self._is_attended():
                return
            pid = json_socket.require_apart(connection, answers=False)
            peer.send({"handrail": json_socket.VERSION, "workspace": self._workspace, "place": self._place})
            question = Question.from_json(peer.wait(json_socket.PATIENCE).get("ask"))
            incoming = IncomingQuestion(peer, question, pid)
            self.questions.put(incoming)
            incoming.keep_alive()
        except (Disconnected, TimeoutError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(peer)
            peer.close()
