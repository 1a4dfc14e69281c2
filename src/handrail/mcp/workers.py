"""The threads that make the calls: one for each, a few running at once, and ended with the server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_MOST = 32


class CallThreads:
    """Runs each task in a thread of its own. Unlike a `ThreadPoolExecutor`, they never keep the program from ending."""

    def __init__(self, most: int = _MOST) -> None:
        """``most``: how many tasks may run at once."""
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()

    def start(self, task: Callable[[], None]) -> bool:
        """Start it; False if the system has no more threads."""
        thread = threading.Thread(target=self._work, args=(task,), name="handrail-call", daemon=True)
        with self._lock:
            try:
                thread.start()
            except RuntimeError:
                return False
            self._threads.add(thread)
        return True

    def close(self, seconds: float) -> bool:
        """Wait for the threads; True if all have ended in time."""
        with self._lock:
            threads = list(self._threads)
        deadline = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def _work(self, task: Callable[[], None]) -> None:
        try:
            with self._room:
                task()
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
