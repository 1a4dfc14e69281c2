"""Servers of fleets as forks of the test run, where they are started in this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from handrail.remote import client
from tests.forked import as_fork


@pytest.fixture(autouse=True)
def forked_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    start_server = client.start_server

    def start(words: Sequence[str]) -> subprocess.Popen[bytes]:
        if words[0] != "env" or words[2] != sys.executable:
            return start_server(words)
        name, _, value = words[1].partition("=")
        environ = {**os.environ, name: value}
        return start_server(words[2:], env=environ, preexec_fn=as_fork(words[2:], environ))

    monkeypatch.setattr(client, "start_server", start)
