"""The `handrail` command for tests: in this process, as a real process, on a terminal, and with a batch driver.

Starting Python and importing the package costs more than most commands. So `handrail()` calls `handrail.cli.main` here,
and where a process is needed, it is a fork (`forked.py`). Use `handrail_process()` where the start itself matters.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.forked import as_fork

HANDRAIL = [sys.executable, "-m", "handrail.cli"]
KEYS = ["id", "tool", "status", "text", "blocks", "data", "notes", "error", "accesses", "stats", "advice"]
TIMEOUT = 600
ADDED, REMOVED = "\x1b[38;5;194;48;5;22m\x1b[K", "\x1b[38;5;224;48;5;52m\x1b[K"
ADDED_WORD, REMOVED_WORD = "\x1b[38;5;231;48;5;28m", "\x1b[38;5;231;48;5;88m"
"""How the lines and words of a diff begin on the terminal of `surroundings()`, which shows 256 colours."""


def surroundings(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """No configuration of whoever runs the tests, and no word from them about colours."""
    left_out = {"HANDRAIL_CONFIG", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "XDG_CONFIG_HOME": os.environ["HANDRAIL_STATE"], "TERM": "xterm-256color", **(more or {})}


def handrail(
    *words: str, cwd: Path, stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command in this process, with files as its streams."""
    from handrail.cli import main

    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
        files[0].write(stdin)
        files[0].seek(0)
        # Each stream gets a descriptor of its own, since a command may close its streams.
        for name, file, mode in zip(("stdin", "stdout", "stderr"), files, ("r", "w", "w"), strict=True):
            stream = os.fdopen(os.dup(file.fileno()), mode, encoding="utf-8")
            patch.setattr(sys, name, stack.enter_context(stream))
        for name in os.environ.keys() - surroundings(variables).keys():
            patch.delenv(name)
        for name, value in surroundings(variables).items():
            patch.setenv(name, value)
        patch.chdir(cwd)
        code = main(words)
        sys.stdout.flush()
        sys.stderr.flush()
        for file in files[1:]:
            file.seek(0)
        return subprocess.CompletedProcess(["handrail", *words], code, files[1].read(), files[2].read())


def handrail_process(
    *words: str, cwd: Path, stdin: bytes = b"", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a process of its own, with pipes."""
    env = surroundings(variables)
    return subprocess.run([*HANDRAIL, *words], cwd=cwd, input=stdin, capture_output=True, timeout=TIMEOUT, env=env)


def in_terminal(*words: str, cwd: Path, variables: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The command with a real terminal on stdin, stdout and stderr."""
    ours, theirs = pty.openpty()
    command, env = [*HANDRAIL, *words], surroundings(variables)
    with subprocess.Popen(
        command, cwd=cwd, stdin=theirs, stdout=theirs, stderr=theirs, env=env, preexec_fn=as_fork(command, env)
    ) as process:
        os.close(theirs)
        seen = b""
        try:
            while block := os.read(ours, 65536):
                seen += block
        except OSError:  # Linux says so when the other side is closed
            pass
        finally:
            os.close(ours)
        return process.wait(TIMEOUT), seen.decode("utf-8")


class Driver:
    """A driver that waits for each answer before it sends the next call."""

    def __init__(self, *words: str, cwd: Path) -> None:
        pipe = subprocess.PIPE
        command, env = [*HANDRAIL, "batch", *words], surroundings()
        self.process = subprocess.Popen(
            command, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, env=env, preexec_fn=as_fork(command, env)
        )

    def ask(self, line: bytes | dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert list(answer) == KEYS
        return answer

    def end(self) -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, out, err

    def close(self) -> None:
        """Whatever the test came to, no process and no pipe is left."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()
