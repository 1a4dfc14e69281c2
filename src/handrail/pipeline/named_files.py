"""The files that the words of a command name, as they were when a person was asked about it.

A script that changes while its command waits for an answer is not what the person allowed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from handrail.files.versions import hash_bytes, take_stamp
from handrail.model import Access, CommandAccess, FileAccess

_MOST_BYTES = 4 << 20
_MOST_FILES = 200
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

FileState = tuple[object, ...]


def read_named_files(accesses: Sequence[Access], home: str) -> dict[str, FileState]:
    """The state of each file that a command names, by its path; links are followed."""
    paths = dict.fromkeys(os.path.join(home, os.path.expanduser(name)) for name in _list_names(accesses))
    return {path: state for path in list(paths)[:_MOST_FILES] if (state := _read_state(path)) is not None}


def _list_names(accesses: Sequence[Access]) -> Iterator[str]:
    for access in accesses:
        if isinstance(access, CommandAccess):
            yield from (name.path for name in access.mentions if name.kind in ("path", "program"))
        elif isinstance(access, FileAccess) and access.by_command and not access.glob:
            yield access.target


def _read_state(path: str) -> FileState | None:
    """Where the file really is and its contents, or the times of a large one; None for anything else."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(os.open(path, _READ), "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_size > _MOST_BYTES:
                return os.path.realpath(path), *take_stamp(status)
            return os.path.realpath(path), status.st_mode, hash_bytes(file.read(_MOST_BYTES))
    except (OSError, ValueError):
        return None
