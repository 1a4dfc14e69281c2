"""Have git pass over hidden paths where a mount covers them and cannot remove them.

There git would find a device in the place of an untracked file, and `git add -A` would fail. So it gets a file of
patterns to ignore which only the sandbox knows: `core.excludesFile`, with the patterns of the user's own one in front.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence

from handrail.shell.git.settings import add_settings, run_git
from handrail.shell.sandbox.confinement import find_repository

_MOST_BYTES = 1 << 20
_SPECIAL = re.compile(r"([\\*?\[\]!# ])")


class GitExclude:
    """The file with patterns for hidden paths, written again when these change."""

    def __init__(self) -> None:
        self._paths: tuple[str, ...] = ()
        self._file = ""

    def add_to(self, env: Mapping[str, str], paths: Sequence[str], place: str) -> dict[str, str]:
        """``env`` with the setting, if paths are hidden. ``place``: a directory that the sandbox shows."""
        if not paths:
            return dict(env)
        if tuple(paths) != self._paths or not os.path.exists(self._file):
            patterns = [pattern for path in paths if (pattern := _make_pattern(path))]
            text = _read_own(env) + "".join(f"{pattern}\n" for pattern in dict.fromkeys(patterns)).encode(
                "utf-8", "surrogateescape"
            )
            fd, self._file = tempfile.mkstemp(prefix="git-exclude-", dir=place)
            with open(fd, "wb") as file:
                file.write(text)
            self._paths = tuple(paths)
        return add_settings({"core.excludesFile": self._file}, env)


def _make_pattern(path: str) -> str:
    """The pattern of a path in the nearest repository around it; empty if there is none."""
    top = find_repository(os.path.dirname(path))
    name = os.path.relpath(path, top)
    return "" if "\n" in name or not os.path.lexists(f"{top}/.git") else "/" + _SPECIAL.sub(r"\\\1", name)


def _read_own(env: Mapping[str, str]) -> bytes:
    """The patterns of the user's own file, ended by a line break."""
    _, output = run_git(["config", "--path", "--get", "core.excludesFile"], "/", env)
    above = env.get("XDG_CONFIG_HOME") or os.path.join(env.get("HOME", ""), ".config")
    path = os.fsdecode(output).removesuffix("\n") or os.path.join(above, "git", "ignore")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read(_MOST_BYTES) + b"\n"
    return b""
