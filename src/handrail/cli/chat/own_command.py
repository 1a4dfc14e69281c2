"""Run the person's own command from a chat: `!make test` shows its output, `!!make test` also gives it to the model."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading

from handrail.frozen import frozen
from handrail.programs import resolve_words

_LOOK = 0.05
_MOST_BYTES = 200_000
_MOST_CHARS = 20_000
"""Characters of the output that the model gets: the end of it."""


@frozen
class OwnCommand:
    """A command that has ended."""

    command: str
    output: str
    code: int

    def describe(self) -> str:
        """The remark for the model."""
        output = self.output[-_MOST_CHARS:]
        cut = "(The beginning is left out.)\n" if len(output) < len(self.output) else ""
        return f"[The user ran `{self.command}`, which exited with {self.code} and printed:]\n{cut}{output}"


def run_own_command(command: str, workspace: str, stop: threading.Event) -> OwnCommand:
    """Run a command in the user's shell, without a sandbox: it is theirs. It is ended when ``stop`` is set."""
    shell, *_ = resolve_words([os.environ.get("SHELL") or "/bin/sh"])
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(  # noqa: S603 - the person typed it
            [shell, "-c", command],
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                if stop.wait(_LOOK):
                    _end(process)
        except BaseException:
            _end(process)
            raise
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _MOST_BYTES))
        return OwnCommand(command, output.read(_MOST_BYTES).decode("utf-8", "replace"), process.returncode)


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return
