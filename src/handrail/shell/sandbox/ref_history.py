"""Tell the commits of people from those that commands of a model made.

Git may bring protected files from a branch, but not from one that a command prepared. So the branches and tags are
compared before and after each command, in every session, and the tips that a command added are written down. Commits
have the same name in every clone and work tree, so one list serves all of them.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from handrail.shell.sandbox.environment import scrub_environment
from handrail.shell.sandbox.git_settings import run_git, with_settings

NAME = "made-commits"
"""The file in the state directory."""
_MOST_REFS = 20_000
_MOST_TRUSTED = 500
_COMMIT = re.compile(r"[0-9a-f]{40,64}")

Stamp = frozenset[tuple[str, int, int, int]]


class RefHistory:
    """The tips of the branches and tags of one repository, as they come."""

    def __init__(self, root: str, state: str) -> None:
        """``state``: the directory to keep the list in; without it, nothing is remembered for other sessions."""
        self._root = root
        self._file = os.path.join(state, NAME) if state else ""
        self._stamp: Stamp | None = None
        self._seen: dict[str, None] = {}
        self._of_commands: set[str] = set()

    def note(self, by_command: bool) -> None:
        """Look at the tips. Those that are new came from a command, or from somebody else."""
        stamp = frozenset(_stamp_refs(self._root))
        if stamp == self._stamp or not os.path.lexists(os.path.join(self._root, ".git")):
            return
        new = [tip for tip in _list_tips(self._root) if tip not in self._seen]
        if by_command and new:
            self._of_commands.update(new)
            self._write(new)
        self._seen.update(dict.fromkeys(new))
        self._stamp = stamp

    def list_trusted(self) -> list[str]:
        """The tips that no command is known to have made."""
        of_commands = self._of_commands | self._read()
        return [tip for tip in self._seen if tip not in of_commands][:_MOST_TRUSTED]

    def _write(self, tips: list[str]) -> None:
        if self._file:
            with contextlib.suppress(OSError):  # remembered in this session
                fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
                with open(fd, "wb", buffering=0) as file:
                    file.write("".join(f"{tip}\n" for tip in tips).encode("ascii"))

    def _read(self) -> set[str]:
        try:
            with open(self._file, encoding="ascii", errors="replace") as file:
                return set(file.read().split())
        except OSError:
            return set()


def _stamp_refs(root: str) -> Iterator[tuple[str, int, int, int]]:
    """Changes whenever a reference may have changed."""
    git = _follow(os.path.join(root, ".git"))
    common = os.path.join(git, _read_line(os.path.join(git, "commondir")))
    yield from _stamp(os.path.join(git, "HEAD"))
    yield from _stamp(os.path.join(common, "packed-refs"))
    for top in ("refs", "reftable"):
        for here, _, files in os.walk(os.path.join(common, top)):
            for path in (here, *(os.path.join(here, name) for name in files)):
                yield from _stamp(path)


def _stamp(path: str) -> Iterator[tuple[str, int, int, int]]:
    with contextlib.suppress(OSError):
        status = os.lstat(path)
        yield path, status.st_ino, status.st_size, status.st_ctime_ns


def _follow(git: str) -> str:
    """The directory that a file `.git` of a work tree or a submodule names."""
    line = _read_line(git)
    return os.path.join(os.path.dirname(git), line.removeprefix("gitdir:").strip()) if line else git


def _read_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(4096).strip()
    except OSError:
        return ""


def _list_tips(root: str) -> list[str]:
    """The commits of HEAD, and of all branches and tags."""
    env = with_settings({}, scrub_environment())
    _, head = run_git(["-c", "safe.directory=*", "rev-parse", "HEAD"], root, env)
    words = ["for-each-ref", f"--count={_MOST_REFS}", "--format=%(objectname)"]
    _, refs = run_git(["-c", "safe.directory=*", *words], root, env)
    names = (head + b"\n" + refs).decode("ascii", "replace").split()
    return list(dict.fromkeys(name for name in names if _COMMIT.fullmatch(name)))
