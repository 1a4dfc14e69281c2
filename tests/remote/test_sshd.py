"""A real sshd on loopback: `make test-fleet` installs it and sets HANDRAIL_FLEET."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import loopback_ssh
from handrail import connect
from tests.command import handrail

pytestmark = pytest.mark.skipif(
    not os.environ.get("HANDRAIL_FLEET"), reason="needs a real sshd: `make test-fleet` installs and starts it"
)


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a workspace behind a real sshd, whose configuration and keys are temporary."""
    work, state = tmp_path / "work", os.environ["HANDRAIL_STATE"]
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    variables = {"HANDRAIL_STATE": state, "XDG_CONFIG_HOME": state, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    monkeypatch.setenv("PATH", f"{tmp_path}/ssh/bin:{os.environ['PATH']}")
    with loopback_ssh.serve(tmp_path / "ssh", variables) as (place, _):
        yield f"ssh://{place}{work}?handrail={Path(sys.executable).with_name('handrail')}"


def test_a_session_over_ssh_survives_a_cut(address: str, tmp_path: Path) -> None:
    session: Any = connect(address, mode="full")
    with session:
        assert session.call("Read", {"file_path": "a.txt"}).text == "1\tone\n2\ttwo"
        assert session.call("Edit", {"file_path": "a.txt", "old_string": "two", "new_string": "2"}).ok
        os.kill(session._link._connection.pid, signal.SIGKILL)  # the ssh client: the pipe is cut
        assert session.call("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"}).ok
        assert (tmp_path / "work" / "a.txt").read_text() == "1\n2\n"
        lines = session.call("Bash", {"command": "seq 1 2000"}).text
        assert lines.startswith("1\n2\n")
        session.undo()
    assert (tmp_path / "work" / "a.txt").read_text() == "one\n2\n"


def test_a_host_that_refuses_the_key_is_reported(address: str, tmp_path: Path) -> None:
    (tmp_path / "ssh" / "authorized").write_text("")
    from handrail.errors import ConnectionLost

    with pytest.raises(ConnectionLost, match="Permission denied"):
        connect(address)


def test_commands_of_handrail_over_ssh(address: str, tmp_path: Path) -> None:
    done = handrail("--at", address, "call", "Read", "file_path=a.txt", cwd=tmp_path)
    assert done.stdout == b"1\tone\n2\ttwo\n", done.stderr


def test_handrail_is_sent_to_a_host_without_it(address: str) -> None:
    python = sys._base_executable  # type: ignore[attr-defined]
    with connect(f"{address.partition('?')[0]}?python={python}") as session:
        assert session.call("Read", {"file_path": "a.txt"}).ok
        assert session.sent_bundle
