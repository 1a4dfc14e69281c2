"""Tokens that tie a person's answer to the question it was given for.

The server hands a token to the client with a question, and gets it back with the answer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import time
from typing import TYPE_CHECKING, Any

from handrail.frozen import frozen

if TYPE_CHECKING:
    from handrail.approval.ask_attached import BackgroundQuestion

_MOST_OPEN = 256


@frozen
class OpenQuestion:
    """A question that a client has not answered yet."""

    issued: float
    background: BackgroundQuestion | None
    """The same question at other terminals."""

    def answered_within(self, seconds: float) -> bool:
        """Whether it is not older than that."""
        return time.monotonic() - self.issued < seconds


class AnswerTokens:
    """Issues tokens, each good for one answer to one question."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._open: dict[str, OpenQuestion] = {}
        self._lock = threading.Lock()

    def issue(self, *shown: object, background: BackgroundQuestion | None = None) -> str:
        """Issue a token for the question that is shown now, and in the ``background`` at other terminals."""
        number = os.urandom(16).hex()
        with self._lock:
            self._open[number] = OpenQuestion(time.monotonic(), background)
            forgotten = [self._open.pop(next(iter(self._open))) for _ in range(len(self._open) - _MOST_OPEN)]
        for question in forgotten:
            if question.background:
                question.background.withdraw()
        signed = f"{number}.{self._compute_mac(number, *shown)}"
        return f"{signed}.{self._compute_mac(signed)}"

    def is_genuine(self, token: object) -> bool:
        """Whether ``token`` was issued here, and nobody has changed it."""
        signed, _, proof = token.rpartition(".") if isinstance(token, str) else ("", "", "")
        return hmac.compare_digest(proof.encode("utf-8", "replace"), self._compute_mac(signed).encode("ascii"))

    def redeem(self, token: Any, *shown: Any) -> OpenQuestion | None:
        """The question that ``token`` was issued for; None if it was not this one, or when it comes a second time."""
        if not self.is_genuine(token):
            return None
        number, mark, _ = token.split(".")
        if not hmac.compare_digest(mark, self._compute_mac(number, *shown)):
            return None
        with self._lock:
            return self._open.pop(number, None)

    def _compute_mac(self, *parts: object) -> str:
        return hmac.new(self._key, json.dumps(parts, sort_keys=True).encode("ascii"), hashlib.sha256).hexdigest()
