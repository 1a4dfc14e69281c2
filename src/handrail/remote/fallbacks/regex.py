"""What Handrail uses of the library `regex`, by `re`: another syntax in rare places, and a search has no time limit.

A pattern that backtracks for long holds up the whole server, which the client then takes for dead; after a few attempts
the call is answered that the connection was lost.
"""

from __future__ import annotations

import re
from typing import Any

error = re.error
IGNORECASE, MULTILINE, DOTALL, VERBOSE = re.IGNORECASE, re.MULTILINE, re.DOTALL, re.VERBOSE
V1 = REVERSE = 0
escape = re.escape
Match = re.Match


class Pattern:
    """A compiled pattern whose methods take a timeout, and ignore it."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._compiled = re.compile(pattern.removeprefix("(?-f)"), flags)
        self.pattern, self.flags = pattern, self._compiled.flags

    def __class_getitem__(cls, _: object) -> type[Pattern]:
        return cls

    def search(self, text: str, pos: int = 0, *, timeout: float | None = None, **_: Any) -> re.Match[str] | None:  # noqa: ARG002
        return self._compiled.search(text, pos)

    def sub(self, replacement: str, text: str) -> str:
        return self._compiled.sub(replacement, text)


def compile(pattern: str, flags: int = 0) -> Pattern:  # noqa: A001 - the name in regex
    return Pattern(pattern, flags)
