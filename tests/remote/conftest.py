"""Fixtures for remote sessions: servers are real processes behind real pipes, as forks of the test run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import handrail
from handrail import AnySession
from handrail.remote import client
from tests.forked import as_fork

Connect = Callable[..., AnySession]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a command that serves `tmp_path` with all that its client asks for."""
    start_server = client.start_server

    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        forked = {"preexec_fn": as_fork(words, dict(os.environ))} if words[0] == sys.executable else {}
        return start_server(words, **forked)

    monkeypatch.setattr(client, "start_server", start)
    return [sys.executable, "-m", "handrail", "serve", "--stdio", "--mode", "full", str(tmp_path)]


@pytest.fixture
def connect(serve: list[str]) -> Iterator[Connect]:
    """`connect(mode=..., ...)`: a session on `tmp_path` through a server; with `words`, through another command."""
    opened: list[AnySession] = []

    def make(words: list[str] | None = None, **options: Any) -> AnySession:
        session = handrail.connect(words or serve, **{"mode": "full", **options})
        opened.append(session)
        return session

    yield make
    for session in opened:
        session.close()
