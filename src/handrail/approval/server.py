"""The side that is attached: takes the questions of other processes, one after the other, and gives answers back.

A thread for each process that asks keeps the connection alive, and notices when the question is taken back.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from queue import SimpleQueue

from handrail.approval import messages, unix_socket
from handrail.approval.unix_socket import Broken, Line
from handrail.pipeline.prepared import Answer

_BEAT = 5.0
"""Seconds between signs of life."""
_MOST_OPEN = 64


class Incoming:
    """A question of another process, until it is answered or taken back."""

    def __init__(self, line: Line, question: messages.Question, pid: int) -> None:
        self.question = question
        self.pid = pid
        self.over = ""
        """Why it need not be answered any more."""
        self._line = line
        self._answered = False
        self._gone, self._end = os.pipe()

    def fileno(self) -> int:
        """Can be read from as soon as the question is over."""
        return self._gone

    def answer(self, answer: Answer) -> bool:
        """Give the answer; False if nobody waits for it any more. Raises `ValueError` for one that is too long."""
        if self.over:
            return False
        try:
            self._line.send({"answer": messages.answer(answer)})
        except Broken:
            return False
        self._answered = True
        return True

    def close(self) -> None:
        """It will not be answered, or has been."""
        os.close(self._gone)
        self._gone = -1

    def attend(self) -> None:
        """Wait with whoever asks, until that is over."""
        try:
            while not self.over:
                try:
                    said = self._line.wait(_BEAT)
                except TimeoutError:
                    self._line.send({"waiting": True})
                else:
                    over = said.get("over")
                    self.over = over[:200] if isinstance(over, str) and over else "it was taken back"
        except Broken:
            self.over = "whoever asked has gone"
        finally:
            os.close(self._end)


class Desk:
    """Where questions arrive. ``workspace`` None: from all workspaces of this user."""

    def __init__(self, state: str, workspace: str | None) -> None:
        self.questions: SimpleQueue[Incoming] = SimpleQueue()
        self._workspace = workspace
        self._open: set[Line] = set()
        self._lock = threading.Lock()
        self._listening, self._path = unix_socket.listen(state)
        threading.Thread(target=self._listen, name="handrail-approve", daemon=True).start()

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nobody is asked here any more; who waits for an answer is told so."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # which wakes the thread
        self._listening.close()
        with self._lock:
            waiting = list(self._open)
        for line in waiting:
            line.shut()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # closed
                return
            line = Line(connection)
            with self._lock:
                room = len(self._open) < _MOST_OPEN
                if room:
                    self._open.add(line)
            if room:
                threading.Thread(target=self._serve, args=(line, connection), daemon=True).start()
            else:
                line.close()

    def _serve(self, line: Line, connection: socket.socket) -> None:
        try:
            pid = unix_socket.require_apart(connection, answers=False)
            line.send({"handrail": unix_socket.VERSION, "workspace": self._workspace})
            incoming = Incoming(line, messages.asked(line.wait(unix_socket.PATIENCE).get("ask") or {}), pid)
            self.questions.put(incoming)
            incoming.attend()
        except (Broken, TimeoutError):
            return
        finally:
            with self._lock:
                self._open.discard(line)
            line.close()
