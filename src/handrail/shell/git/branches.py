"""Make a branch with one commit on top of HEAD. The work tree stays as it is, and no program of the repository runs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

from handrail.programs import get_program, make_search_path
from handrail.shell.git.settings import SAFE, make_git_environment
from handrail.shell.sandbox.confinement import find_repository
from handrail.shell.sandbox.landlock_process import start_helper
from handrail.shell.start_process import ProcessOptions

_AT_ONCE = 500
_DELETED = "0"
_LINK, _PROGRAM, _FILE = "120000", "100755", "100644"


class NoBranch(Exception):
    """Why there is no branch now, in git's words."""


def make_branch(workspace: str, name: str, message: str, files: Mapping[str, str]) -> tuple[str, int]:
    """Commit files to a new branch; returns the commit's id and the number of files.

    ``files``: by their path in the workspace, where their contents are; empty for those that are deleted. What git
    ignores is left out. Raises `NoBranch`.
    """
    top = find_repository(os.path.realpath(workspace))
    inside = os.path.relpath(os.path.realpath(workspace), top)
    with tempfile.TemporaryDirectory(prefix="handrail-branch-") as folder:
        git = _Git(top, folder)
        git.writable += (git.ask("rev-parse", "--path-format=absolute", "--git-common-dir"),)
        head = git.ask("rev-parse", "--verify", "HEAD")
        git.ask("check-ref-format", f"refs/heads/{name}")
        git.ask("read-tree", head)
        paths = {os.path.normpath(os.path.join(inside, path)): place for path, place in files.items()}
        ignored = git.list_ignored(list(paths))
        wanted = {path: place for path, place in paths.items() if path not in ignored}
        git.change_index(wanted, "0" * len(head))
        commit = git.ask("commit-tree", git.ask("write-tree"), "-p", head, "-m", message)
        git.ask("update-ref", f"refs/heads/{name}", commit, "0" * len(head))  # there is no such branch yet
    return commit, len(wanted)


class _Git:
    """Git in a repository, with an index of its own. It changes nothing but that and the repository."""

    def __init__(self, top: str, folder: str) -> None:
        self.writable: tuple[str, ...] = (folder,)
        self._top = top
        self._folder = folder
        self._env = {**make_git_environment(), "PATH": make_search_path()}
        self._env["GIT_INDEX_FILE"] = os.path.join(folder, "index")

    def ask(self, *words: str, text: str = "", refuses: int = 1) -> str:
        """The answer of a command; raises `NoBranch` if it fails: from the exit code ``refuses``."""
        pipe = subprocess.PIPE
        command = [get_program("git"), *SAFE, *words]
        options: ProcessOptions = {"cwd": self._top, "env": self._env, "stdin": pipe, "stdout": pipe, "stderr": pipe}
        with start_helper(command, writable=self.writable, **options) as process:
            printed, complaint = process.communicate(os.fsencode(text))
        if not 0 <= process.returncode < refuses:
            raise NoBranch(os.fsdecode(complaint).strip() or f"git {words[0]} failed")
        return os.fsdecode(printed).strip()

    def list_ignored(self, paths: Sequence[str]) -> set[str]:
        """Those paths that are ignored, and not tracked."""
        return set(self.ask("check-ignore", "-z", "--stdin", text="\0".join(paths), refuses=2).split("\0"))

    def change_index(self, files: Mapping[str, str], nothing: str) -> None:
        """Give files of the index other contents; ``nothing``: the id of those that are deleted."""
        places = [place for place in files.values() if place]
        readable = dict(zip(places, map(self._find_contents, places), strict=True))
        ids: dict[str, str] = {}
        for first in range(0, len(places), _AT_ONCE):
            some = places[first : first + _AT_ONCE]
            words = ("hash-object", "-w", "--no-filters", "--", *(readable[place] for place in some))
            ids.update(zip(some, self.ask(*words).split(), strict=True))
        rows = (f"{_find_mode(place)} {ids.get(place, nothing)}\t{path}\0" for path, place in files.items())
        self.ask("update-index", "-z", "--index-info", text="".join(rows))

    def _find_contents(self, place: str) -> str:
        """A file with the contents: of a link, its target."""
        if not os.path.islink(place):
            return place
        descriptor, path = tempfile.mkstemp(dir=self._folder)
        with open(descriptor, "wb") as file:
            file.write(os.fsencode(os.readlink(place)))
        return path


def _find_mode(place: str) -> str:
    if not place:
        return _DELETED
    return _LINK if os.path.islink(place) else _PROGRAM if os.stat(place).st_mode & 0o100 else _FILE
