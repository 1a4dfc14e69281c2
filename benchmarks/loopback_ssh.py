"""A real sshd on loopback with temporary keys, for benchmarks and tests."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
_START_SECONDS = 60


def is_installed() -> bool:
    return os.path.exists(SSHD) and shutil.which("ssh") is not None


@contextmanager
def serve(folder: Path, variables: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Start sshd; gives `USER@127.0.0.1:PORT`, and the words of an ssh client that has the key.

    Sessions get the variables. In ``folder`` are keys, the configuration, and `bin/ssh` with the options of the client.
    """
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    port = _find_port()
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/authorized",
        "StrictModes no",
        "UsePAM no",
        f"PidFile {folder}/pid",
        "SetEnv " + " ".join(f"{name}={value}" for name, value in variables.items()),
    ]
    (folder / "sshd_config").write_text("\n".join(lines) + "\n", encoding="utf-8")
    Path("/run/sshd").mkdir(exist_ok=True)
    words = [str(shutil.which("ssh")), "-i", f"{folder}/user", "-o", "UserKnownHostsFile=/dev/null"]
    words += ["-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"]
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {" ".join(words)} "$@"\n', encoding="utf-8")
    (folder / "bin" / "ssh").chmod(0o755)
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    try:
        _wait_until_listening(port)
        yield f"{getpass.getuser()}@127.0.0.1:{port}", words
    finally:
        server.terminate()
        server.wait()


def _find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_listening(port: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError("sshd does not listen")
