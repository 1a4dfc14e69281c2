"""Fixtures of the golden tests: a session in the dialect of the document, and files with absolute paths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from tests.agent.conftest import stage as stage  # an agent with a scripted model, for the items on the loop


@pytest.fixture
def claude(make_session: Callable[..., Session]) -> Session:
    """A session in the dialect of the second document. Syncing to disk is not the point here."""
    return make_session(dialect="claude", durable=False)


@pytest.fixture
def codex(make_session: Callable[..., Session]) -> Session:
    """A session in the dialect of patches."""
    return make_session(dialect="codex", durable=False)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., str]:
    """`file("a.txt", "text or bytes")`: a file that exists, as an absolute path."""

    def make(name: str, contents: str | bytes = "") -> str:
        path = tmp_path / name
        path.write_bytes(contents.encode("utf-8") if isinstance(contents, str) else contents)
        return str(path)

    return make


@pytest.fixture
def seen(claude: Session, file: Callable[..., str]) -> Callable[..., str]:
    """`seen("a.txt", "text")`: a file that exists and that the session has read."""

    def make(name: str, contents: str | bytes) -> str:
        path = file(name, contents)
        claude.call("Read", {"file_path": path})
        return path

    return make
