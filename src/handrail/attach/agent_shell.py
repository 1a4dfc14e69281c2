"""The words that an agent gives to its shell around a command, and the same words for a shell in a draft."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence

from handrail.frozen import frozen

_MOST_SNAPSHOT = 8 << 20
_WORDS = re.compile(
    r"source (?P<snapshot>\S+/shell-snapshots/snapshot-(?P<shell>bash|zsh)-[\w.-]+\.sh) 2>/dev/null \|\| true && "
    r"(?P<settings>(?:\{ [^{}]*\} >/dev/null 2>&1 \|\| true && )*)"
    r"eval (?P<command>'(?:[^']|'\"'\"')*')(?P<input> < /dev/null)? && pwd -P >\| \S+",
    re.DOTALL,
)
"""Claude Code's: the person's functions and aliases, the command, and a place for the last directory."""


@frozen
class AgentShell:
    """A shell that runs an agent's command in a draft, as the agent's own shell would."""

    script: str
    passed: Sequence[int] = ()
    """The descriptors that the script uses."""
    directory: int = -1
    """Where the script leaves its last directory."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, text: str, command: str) -> Iterator[AgentShell | None]:
        """Read the agent's words; None if they are not known, or run another command."""
        match = _WORDS.fullmatch(text)
        if text == command:
            yield cls(command)
        elif match is None or match["command"][1:-1].replace("'\"'\"'", "'") != command:
            yield None
        else:
            with contextlib.ExitStack() as stack:
                directory, write_end = os.pipe()
                stack.callback(os.close, directory)
                stack.callback(os.close, write_end)
                # A draft need not show the person's home: the shell reads the snapshot from memory.
                snapshot = os.memfd_create("snapshot")
                stack.callback(os.close, snapshot)
                os.write(snapshot, _read_snapshot(match["snapshot"]))
                words = (
                    f"source /proc/self/fd/{snapshot} 2>/dev/null || true && {match['settings']}"
                    f"eval {match['command']}{match['input'] or ''} && pwd -P >&{write_end}"
                )
                if match["shell"] == "zsh":
                    words = f"exec zsh -c {shlex.quote(words)}"
                yield cls(words, (snapshot, write_end), directory)

    def read_directory(self) -> str:
        """The last directory of the shell; empty if it did not come that far."""
        try:
            os.set_blocking(self.directory, False)
            return os.fsdecode(os.read(self.directory, 4096)).rstrip("\n")
        except OSError:  # no pipe, or nothing in it
            return ""


def _read_snapshot(path: str) -> bytes:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # the agent's own shell goes on without it, too
        return b""
    with open(number, "rb") as file:
        return file.read(_MOST_SNAPSHOT)
