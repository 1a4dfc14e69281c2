"""Resolve overlaps in the merge tool that a person has set up for git, in a repository made for it alone."""

from __future__ import annotations

import errno
import os
import subprocess
import tempfile
from collections.abc import Mapping

from handrail.frozen import frozen
from handrail.programs import get_program, make_search_path


@frozen
class Unmerged:
    """A file for the merge tool."""

    base: bytes | None
    ours: bytes
    theirs: bytes
    marked: bytes
    """Both sides, with markers around their overlaps."""


def run_merge_tool(files: Mapping[str, Unmerged]) -> dict[str, bytes]:
    """Open the person's tool for each file, on this terminal; returns those that the person has merged.

    Raises `OSError` if git cannot prepare the files.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env["PATH"] = make_search_path()
    git = [get_program("git"), "-c", "mergetool.keepBackup=false", "-c", "core.autocrlf=false"]

    with tempfile.TemporaryDirectory(prefix="handrail-merge-") as place:

        def ask(*words: str, given: bytes = b"") -> bytes:
            done = subprocess.run([*git, *words], cwd=place, env=env, input=given, stdout=subprocess.PIPE, check=False)  # noqa: S603
            if done.returncode:
                raise OSError(errno.EIO, f"git {words[0]} failed in {place}")
            return done.stdout

        ask("init", "--quiet", "--template=")
        entries = b""
        for path, file in files.items():
            target = os.path.join(place, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "xb") as out:
                out.write(file.marked)
            for stage, raw in enumerate((file.base, file.ours, file.theirs), 1):
                if raw is not None:
                    name = ask("hash-object", "-w", "--stdin", given=raw).strip()
                    entries += b"100644 %s %d\t%s\0" % (name, stage, os.fsencode(path))
        ask("update-index", "-z", "--index-info", given=entries)
        subprocess.run([*git, "mergetool"], cwd=place, env=env, check=False)  # noqa: S603 - the person's own tool
        left = ask("ls-files", "-z", "--unmerged").split(b"\0")
        open_paths = {os.fsdecode(row.partition(b"\t")[2]) for row in left}
        return {path: _read(place, path) for path in files if path not in open_paths}


def _read(place: str, path: str) -> bytes:
    with open(os.path.join(place, path), "rb") as file:
        return file.read()
