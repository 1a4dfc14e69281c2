"""The threads that make the calls: started on demand, limited in number, and ended with the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue


class WorkerPool:
    """A bounded thread pool. Unlike the standard one it never keeps the program from ending."""

    def __init__(self, most: int = 32, waiting: int = 1024) -> None:
        self._most = most
        self._waiting = waiting
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._queued = 0
        self._idle = 0

    def submit(self, task: Callable[[], None]) -> bool:
        """Have it done; False if too much is waiting already, or nobody can do it."""
        with self._lock:
            if self._queued >= self._waiting:
                return False
            self._queued += 1
            self._start_if_needed()
            if not self._threads:
                self._queued -= 1
                return False
            self._queue.put(task)
        return True

    def _start_if_needed(self) -> None:
        if self._idle < self._queued and len(self._threads) < self._most:
            thread = threading.Thread(target=self._work, name="handrail-call", daemon=True)
            self._threads.add(thread)
            try:
                thread.start()
            except RuntimeError:  # the system has no more of them: those that are there do the work
                self._threads.discard(thread)

    def close(self, seconds: float) -> bool:
        """Wait for the workers; True if all have ended in time."""
        with self._lock:
            threads = list(self._threads)
        for _ in threads:
            self._queue.put(None)
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _work(self) -> None:
        try:
            while True:
                with self._lock:
                    self._idle += 1
                task = self._queue.get()
                with self._lock:
                    self._idle -= 1
                    self._queued -= task is not None
                if task is None:
                    return
                task()
        finally:  # also if a task had a fault: what waits gets a new thread
            with self._lock:
                self._threads.discard(threading.current_thread())
                self._start_if_needed()
