"""Tokens that tie a person's answer to the question it was given for.

The server hands a token to the client with a question, and gets it back with the answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
from typing import Any

_MOST_OPEN = 1024


class AnswerTokens:
    """Issues tokens, each good for one answer to one question."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._open: dict[str, None] = {}
        self._lock = threading.Lock()

    def issue(self, *shown: Any) -> str:
        """Issue a token for the question that is shown now."""
        number = os.urandom(16).hex()
        with self._lock:
            self._open[number] = None
            while len(self._open) > _MOST_OPEN:
                del self._open[next(iter(self._open))]
        signed = f"{number}.{self._mac(number, *shown)}"
        return f"{signed}.{self._mac(signed)}"

    def is_genuine(self, token: Any) -> bool:
        """Whether ``token`` was issued here, and nobody has changed it."""
        signed, _, proof = token.rpartition(".") if isinstance(token, str) else ("", "", "")
        return hmac.compare_digest(proof.encode("utf-8", "replace"), self._mac(signed).encode("ascii"))

    def redeem(self, token: Any, *shown: Any) -> bool:
        """Whether ``token`` was issued for this; true only once."""
        if not self.is_genuine(token):
            return False
        number, mark, _ = token.split(".")
        if not hmac.compare_digest(mark, self._mac(number, *shown)):
            return False
        with self._lock:
            return self._open.pop(number, self) is None

    def _mac(self, *parts: Any) -> str:
        return hmac.new(self._key, json.dumps(parts, sort_keys=True).encode("ascii"), hashlib.sha256).hexdigest()
