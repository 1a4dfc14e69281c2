"""A real PostgreSQL server of the distribution in a temporary folder, on a loopback port, for benchmarks and tests."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SECONDS = 120


def find_programs() -> Path | None:
    """The folder of initdb and pg_ctl, of the newest version that is installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda one: int(one.parent.name), reverse=True)
    on_path = shutil.which("initdb")
    candidates = [*folders, *([Path(os.path.realpath(on_path)).parent] if on_path else [])]
    return next((one for one in candidates if (one / "initdb").exists() and (one / "pg_ctl").exists()), None)


class PostgresServer:
    """Started by the constructor; an unprivileged user runs it if we are root, which PostgreSQL refuses."""

    def __init__(self) -> None:
        programs = find_programs()
        assert programs is not None
        self._programs = programs
        # The user that runs it must reach the folder, and root's own folder for temporary files may be closed to it.
        self._folder = Path(tempfile.mkdtemp(prefix="handrail-postgres-", dir="/tmp" if os.geteuid() == 0 else None))
        self._user: str | None = None
        if os.geteuid() == 0:
            self._user = next(name for name in ("postgres", "nobody") if _exists(name))
            shutil.chown(self._folder, self._user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._data = self._folder / "data"
        (self._folder / "password").write_text("owner-password\n", encoding="ascii")
        self._run(
            "initdb", "--pgdata", self._data, "--auth=scram-sha-256", "--username=owner", "--encoding=UTF8",
            "--locale=C.UTF-8", "--no-sync", f"--pwfile={self._folder / 'password'}",
        )  # fmt: skip
        self.start()

    def start(self) -> None:
        options = f"-c port={self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"
        log = self._folder / "log"
        self._run(
            "pg_ctl", "start", "-w", "-t", str(SECONDS), "-D", self._data, "-l", log, "-o", f"{options} -c fsync=off"
        )

    def stop(self, mode: str = "fast") -> None:
        """``immediate``: as after a crash."""
        self._run("pg_ctl", "stop", "-w", "-t", str(SECONDS), "-D", self._data, "-m", mode)

    def restart(self, mode: str = "fast") -> None:
        self.stop(mode)
        self.start()

    def pause(self) -> None:
        """The server holds still, and its connections hang."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def url(self, database: str = "postgres", user: str = "owner", password: str = "owner-password") -> str:
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        with contextlib.suppress(AssertionError):  # it does not run
            self.stop("immediate")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _signal(self, number: signal.Signals) -> None:
        postmaster = int((self._data / "postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(postmaster)], capture_output=True, text=True, check=False
        )
        for pid in (postmaster, *map(int, listed.stdout.split())):
            os.kill(pid, number)

    def _run(self, program: str, *arguments: object) -> None:
        words = [*self._as_user(), str(self._programs / program), *map(str, arguments)]
        output = self._folder.with_suffix(".out")
        with open(output, "w+b") as file:
            done = subprocess.run(
                words, stdout=file, stderr=file, stdin=subprocess.DEVNULL, cwd="/", timeout=2 * SECONDS, check=False
            )
            file.seek(0)
            text = file.read().decode("utf-8", "replace")
        output.unlink()
        assert done.returncode == 0, text

    def _as_user(self) -> list[str]:
        return (
            ["setpriv", f"--reuid={self._user}", f"--regid={_group(self._user)}", "--clear-groups"]
            if self._user
            else []
        )


def _exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def _group(name: str) -> int:
    return pwd.getpwnam(name).pw_gid


def wait_until(condition: object, seconds: float = SECONDS) -> None:
    """Wait until a function returns something true."""
    until = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.05)
