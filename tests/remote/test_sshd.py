"""A real sshd on loopback: `make test-fleet` installs it and sets HANDRAIL_FLEET."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handrail import Session

pytestmark = pytest.mark.skipif(
    not os.environ.get("HANDRAIL_FLEET"), reason="needs a real sshd: `make test-fleet` installs and starts it"
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("sshd does not listen")


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a workspace behind a real sshd, whose configuration and keys are temporary."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    folder = tmp_path / "ssh"
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    port = free_port()
    state = os.environ["HANDRAIL_STATE"]
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/authorized",
        "StrictModes no",
        "UsePAM no",
        f"PidFile {folder}/pid",
        f"SetEnv HANDRAIL_STATE={state} XDG_CONFIG_HOME={state}",
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([sshd, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    client = folder / "bin"
    client.mkdir()
    words = f"{shutil.which('ssh')} -i {folder}/user -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no"
    (client / "ssh").write_text(f'#!/bin/sh\nexec {words} -o LogLevel=ERROR "$@"\n')
    (client / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{client}:{os.environ['PATH']}")
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("one\ntwo\n")
    program = Path(sys.executable).with_name("handrail")
    try:
        wait_until_listening(port)
        yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}{work}?handrail={program}"
    finally:
        server.terminate()
        server.wait()


def test_a_session_over_ssh_survives_a_cut(address: str, tmp_path: Path) -> None:
    session: Any = Session.connect(address, mode="full")
    with session:
        assert session.call("Read", {"file_path": "a.txt"}).text == "     1\tone\n     2\ttwo"
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
        Session.connect(address)
