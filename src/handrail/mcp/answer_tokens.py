"""Seals: what the server hands to a client and gets back with a person's answer, so that the answer is one to this."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from typing import Any

_MOST_OPEN = 1024


class Seals:
    """Ties a person's answer to what was shown: it counts once, and for nothing else."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._open: dict[str, None] = {}
        self._lock = threading.Lock()

    def seal(self, *shown: Any) -> str:
        """A `requestState` for what a person is shown now."""
        number = os.urandom(16).hex()
        with self._lock:
            self._open[number] = None
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        about = f"{number}.{self._mac(number, *shown)}"
        return f"{about}.{self._mac(about)}"

    def genuine(self, state: Any) -> bool:
        """Whether ``state`` is one that was made here, and nobody has changed it."""
        about, _, proof = state.rpartition(".") if isinstance(state, str) else ("", "", "")
        return hmac.compare_digest(proof.encode("utf-8", "replace"), self._mac(about).encode("ascii"))

    def holds(self, state: Any, *shown: Any) -> bool:
        """Whether the answer that came with ``state`` is one to this; true only once."""
        if not self.genuine(state):
            return False
        number, mark, _ = state.split(".")
        if not hmac.compare_digest(mark, self._mac(number, *shown)):
            return False
        with self._lock:
            return self._open.pop(number, self) is None

    def _mac(self, *told: Any) -> str:
        return hmac.new(self._key, json.dumps(told, sort_keys=True).encode("ascii"), hashlib.sha256).hexdigest()
