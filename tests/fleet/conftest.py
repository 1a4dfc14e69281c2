"""A real PostgreSQL server; and servers of fleets as forks of the test run, where they are started in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import pytest

from benchmarks.postgres_server import PostgresServer, find_programs
from handrail.remote import client
from tests.forked import as_fork


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    if not os.environ.get("HANDRAIL_FLEET"):
        pytest.skip("needs a real PostgreSQL server: `make test-fleet` installs and starts it")
    assert find_programs(), "PostgreSQL is not installed: `make test-fleet` does that"
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture(autouse=True)
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    start_server = client.start_server

    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        environ = dict(os.environ)
        if words[0] == "env":
            name, _, environ[name] = words[1].partition("=")
            words = words[2:]
        if words[0] != sys.executable or "handrail" not in words:  # ssh, or the relay to a node of Ray
            return start_server(words, env=environ)
        return start_server(words, env=environ, preexec_fn=as_fork(words, environ))

    monkeypatch.setattr(client, "start_server", start)
