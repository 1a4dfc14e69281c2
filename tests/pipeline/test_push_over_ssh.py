"""A yes to `git push` gives it the keys of the home directory, which are hidden from every other command.

The server is a real sshd on this machine's loopback; the key lies in `~/.ssh` of a home directory made for the test.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.errors import NoSandbox
from handrail.model import Question
from handrail.shell.sandbox import Mode as Sandbox
from tests.command import TIMEOUT

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
pytestmark = pytest.mark.skipif(
    not (SSHD and shutil.which("ssh") and shutil.which("ssh-keygen") and shutil.which("git")),
    reason="needs sshd, ssh, ssh-keygen and git on this machine",
)


def _run(*words: str, cwd: Path | None = None) -> None:
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, timeout=TIMEOUT)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory with a key that opens a server on loopback, which ssh knows as `git.example`."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as made:
        home = Path(os.path.realpath(made))
        keys, server = home / ".ssh", home / "server"
        for folder in (keys, server):
            folder.mkdir(mode=0o700)
        for path in (keys / "id_ed25519", server / "host"):
            _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
        shutil.copy(keys / "id_ed25519.pub", server / "authorized")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (server / "config").write_text(
            f"Port {port}\nListenAddress 127.0.0.1\nHostKey {server}/host\nAuthorizedKeysFile {server}/authorized\n"
            f"PidFile {server}/pid\nStrictModes no\nPasswordAuthentication no\nUsePAM no\nPermitRootLogin yes\n",
            encoding="utf-8",
        )
        (keys / "config").write_text(
            f"Host git.example\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n"
            f" IdentityFile {keys}/id_ed25519\n IdentitiesOnly yes\n UserKnownHostsFile /dev/null\n"
            " StrictHostKeyChecking no\n LogLevel ERROR\n",
            encoding="utf-8",
        )
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GIT_SSH_COMMAND", f"ssh -oBatchMode=yes -F {keys}/config")
        assert SSHD
        separation = Path("/run/sshd")  # sshd of root does not start without it
        made_here = os.geteuid() == 0 and not separation.exists()
        if made_here:
            separation.mkdir(mode=0o755)
        log = (server / "log").open("wb")
        with log, subprocess.Popen([SSHD, "-D", "-e", "-f", str(server / "config")], stderr=log) as running:
            try:
                _wait_for(port, running, server / "log")
                yield home
            finally:
                running.terminate()
                if made_here:
                    separation.rmdir()


def _wait_for(port: int, running: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + TIMEOUT
    while time.monotonic() < until and running.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.skip(f"sshd does not start on this machine: {log.read_text(encoding='utf-8', errors='replace')}")


@pytest.mark.parametrize("sandbox", ["namespaces", "bwrap", "landlock"])
def test_a_yes_to_a_push_gives_it_the_keys_and_nothing_else_sees_them(home: Path, sandbox: Sandbox) -> None:
    work, remote = home / "work", home / "remote.git"
    _run("git", "init", "-q", "--bare", str(remote))
    _run("git", "init", "-q", "-b", "main", str(work))
    (work / "a.txt").write_text("x\n", encoding="utf-8")
    _run("git", "add", ".", cwd=work)
    _run("git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "m", cwd=work)
    _run("git", "remote", "add", "origin", f"git.example:{remote}", cwd=work)
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.command or "")
        return True

    settings = Settings(
        state=str(home / "state"),
        sandbox=sandbox,
        sandbox_required=True,
        keep_env=("GIT_SSH_COMMAND",),
        raise_bugs=True,
    )
    with Session(work, mode="accept-edits", settings=settings, approve=approve) as session:
        try:
            assert session.command_host().confined
        except NoSandbox as error:
            pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
        key = "python3 -c \"import os; print(open(os.path.expanduser('~/.ssh/id_' + 'ed25519')).read())\""
        assert "PRIVATE KEY" not in session.call("Bash", {"command": key}).text
        assert asked == []
        pushed = session.call("Bash", {"command": "git push origin main"})
        assert asked == ["git push origin main"]
        assert pushed.ok and not pushed.data["exit_code"], pushed.text
        assert "PRIVATE KEY" not in session.call("Bash", {"command": key}).text
    heads = subprocess.run(
        ["git", "--git-dir", str(remote), "rev-parse", "main"], capture_output=True, check=True, timeout=TIMEOUT
    )
    assert len(heads.stdout.strip()) == 40
