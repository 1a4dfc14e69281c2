"""A yes to `git push` gives it the keys and the agent of ssh, which are hidden from every other command, and no more.

The server is a real sshd on this machine's loopback; the key lies in `~/.ssh` of a home directory made for the test, or
only a real ssh-agent has it.
"""

from __future__ import annotations

import contextlib
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
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (SSHD and shutil.which("ssh") and shutil.which("ssh-keygen") and shutil.which("git")),
        reason="needs sshd, ssh, ssh-keygen and git on this machine",
    ),
]


def _run(*words: str, cwd: Path | None = None) -> None:
    subprocess.run(words, cwd=cwd, check=True, capture_output=True, timeout=TIMEOUT)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home directory with a key that opens a server on loopback, which ssh knows as `git.example`."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as result:
        home = Path(os.path.realpath(result))
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


@pytest.fixture
def work(home: Path) -> Path:
    """A repository with a commit to push. Its hook looks for other credentials than git's, and for other sockets."""
    work, remote = home / "work", home / "remote.git"
    _run("git", "init", "-q", "--bare", str(remote))
    _run("git", "init", "-q", "-b", "main", str(work))
    (work / "a.txt").write_text("x\n", encoding="utf-8")
    _run("git", "add", ".", cwd=work)
    _run("git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "-qm", "m", cwd=work)
    _run("git", "remote", "add", "origin", f"git.example:{remote}", cwd=work)
    for name in OTHERS:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(f"token of {name}\n", encoding="utf-8")
    hook = work / ".git/hooks/pre-push"
    hook.write_text(
        f"#!/bin/bash\ncd {home}; cat {' '.join(OTHERS)}\n"
        "python3 - <<END\nimport os, socket\n"
        "for name in ('other.sock', os.environ.get('SSH_AUTH_SOCK', '')):\n"
        "  for family in (socket.SOCK_STREAM, socket.SOCK_DGRAM):\n"
        "    try:\n      socket.socket(socket.AF_UNIX, family).connect(name)\n"
        "    except OSError as error:\n      print(f'connect {name}: {error}')\n"
        "    else:\n      print(f'connected to {name}.')\nEND\n",
        encoding="utf-8",
    )
    hook.chmod(0o755)
    return work


OTHERS = (".aws/credentials", ".config/gcloud/token", ".npmrc", ".pypirc", ".cargo/credentials.toml")


@contextlib.contextmanager
def opened(work: Path, sandbox: Sandbox, asked: list[str]) -> Iterator[Session]:
    """A session in which a person says yes to everything."""

    def approve(question: Question) -> bool:
        asked.append(question.command or "")
        return True

    settings = Settings(
        state=str(work.parent / "state"),
        sandbox=sandbox,
        sandbox_required=True,
        keep_env=("GIT_SSH_COMMAND",),
        raise_bugs=True,
    )
    with Session(work, mode="accept-edits", settings=settings, approve=approve) as session:
        try:
            assert session.services.command_host().sandbox.confined
        except NoSandbox as error:
            pytest.skip(f"{sandbox} cannot be used on this machine: {error}")
        yield session


def require_pushed(work: Path) -> None:
    remote = str(work.parent / "remote.git")
    heads = subprocess.run(
        ["git", "--git-dir", remote, "rev-parse", "main"], capture_output=True, check=True, timeout=TIMEOUT
    )
    assert len(heads.stdout.strip()) == 40


@pytest.mark.parametrize("sandbox", ["namespaces", "landlock"])
def test_a_yes_to_a_push_gives_it_the_keys_and_nothing_else_sees_them(home: Path, work: Path, sandbox: Sandbox) -> None:
    asked: list[str] = []
    with opened(work, sandbox, asked) as session:
        key = "python3 -c \"import os; print(open(os.path.expanduser('~/.ssh/id_' + 'ed25519')).read())\""
        assert "PRIVATE KEY" not in session.call("Bash", {"command": key}).text
        assert asked == []
        pushed = session.call("Bash", {"command": "git push origin main"})
        assert asked == ["git push origin main"]
        assert pushed.ok and not pushed.data["exit_code"], pushed.text
        # Landlock cannot hide single files of the home directory, which its description says.
        hidden = [name for name in OTHERS if sandbox != "landlock" or name.startswith((".aws", ".config"))]
        assert [name for name in hidden if f"token of {name}" in pushed.text] == []
        assert "PRIVATE KEY" not in session.call("Bash", {"command": key}).text
    require_pushed(work)


@pytest.mark.skipif(not shutil.which("ssh-agent"), reason="needs ssh-agent on this machine")
@pytest.mark.parametrize("sandbox", ["namespaces", "landlock"])
def test_a_push_reaches_the_agent_and_no_other_socket(
    home: Path, work: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    agent = str(home / "agent.sock")
    with (
        subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.DEVNULL) as running,
        socket.socket(socket.AF_UNIX) as other,
    ):
        try:
            other.bind(str(home / "other.sock"))
            other.listen()
            monkeypatch.setenv("SSH_AUTH_SOCK", agent)
            until = time.monotonic() + TIMEOUT
            while subprocess.run(
                ["ssh-add", "-q", str(home / ".ssh/id_ed25519")], capture_output=True, check=False
            ).returncode:
                assert time.monotonic() < until and running.poll() is None
                time.sleep(0.05)
            (home / ".ssh/id_ed25519").unlink()  # from now on only the agent has it
            with opened(work, sandbox, asked) as session:
                if not session.services.command_host().network.filters:
                    pytest.skip("connections of commands cannot be made by Handrail on this machine")
                reach = f"python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{agent}')\""
                assert session.call("Bash", {"command": reach}).data["exit_code"]
                pushed = session.call("Bash", {"command": "git push origin main"})
                assert pushed.ok and not pushed.data["exit_code"], pushed.text
                assert f"connected to {agent}." in pushed.text and "connected to other.sock." not in pushed.text
                assert session.call("Bash", {"command": reach}).data["exit_code"]
            require_pushed(work)
        finally:
            running.terminate()
