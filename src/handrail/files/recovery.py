"""Recovery: finish or undo the change of a process that was killed.

A single file needs no decision: it is the old or the new one, and its temporary file is removed. A set of files has a
record of its progress. If the process was killed before all names were changed, the whole set is undone; after that,
it stays. A write of another program in the meantime is never undone and never lost.

A record is rewritten in place, so all its versions have the same length: a record that was cut off while being
rewritten still reads as the old or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Sequence

from handrail import system_calls
from handrail.files.locks import Doing, Intent, IntentPart
from handrail.files.versions import READ, keep_version, put_back
from handrail.system_calls import closing_fd
from handrail.workspace import is_temporary_name


def recover(intent: Intent) -> None:
    """Finish the change of a killed process: remove its temporary files, and lose no write of another program."""
    # A record that another version of this program left, or that is none at all, must not stop a call.
    with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
        _recover_set(intent["doing"], [IntentPart(*values) for values in intent["parts"]])


def _recover_set(doing: Doing, parts: Sequence[IntentPart]) -> None:
    # Names are changed only when all new files are known: a record that lacks one was cut off before that.
    known = all(int(one.new_ino, 16) for one in parts if one.kind.strip() in ("exchange", "new"))
    begun = doing != "write" and known
    is_done = doing == "ready" or (len(parts) == 1 and parts[0].kind.strip() not in ("delete", "tree"))
    for one in reversed(parts):
        with contextlib.suppress(OSError), _open_directory(one) as directory:
            if is_done and known:
                _finish(directory, one)
            else:
                _undo(directory, one, begun)


@contextlib.contextmanager
def _open_directory(one: IntentPart) -> Iterator[int]:
    """The directory of a file, if it is still the same one and the names are such as we give."""
    if not is_temporary_name(one.temp) or "/" in one.name:
        raise ValueError(one.temp)
    with closing_fd(os.open(one.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
        status = os.fstat(directory)
        if (status.st_dev, status.st_ino) != (one.dev, one.ino):
            raise FileNotFoundError(one.directory)
        yield directory


def _finish(directory: int, one: IntentPart) -> None:
    """All names are changed: remove the temporary file, unless another program wrote it."""
    if one.kind.strip() == "tree":  # compared before the record said `ready`: what it holds is kept
        if stat.S_ISDIR(os.stat(one.temp, dir_fd=directory, follow_symlinks=False).st_mode):
            shutil.rmtree(one.temp, dir_fd=directory)
        else:
            os.unlink(one.temp, dir_fd=directory)
    elif one.kind.strip() == "delete":
        if _hash_file(directory, one.temp) == one.old:
            os.unlink(one.temp, dir_fd=directory)
        else:
            put_back(one.temp, one.name, directory)
    else:
        _settle(directory, one)


def _undo(directory: int, one: IntentPart, begun: bool) -> None:
    """The file as it was, unless a stranger has made the new one his own."""
    kind, new_ino = one.kind.strip(), int(one.new_ino, 16)
    if kind in ("delete", "tree") and begun:
        put_back(one.temp, one.name, directory)
    if kind == "new" and begun and _is_ours(directory, one):
        os.unlink(one.name, dir_fd=directory)
    if kind == "exchange" and begun and _read_inode(directory, one.temp) not in (new_ino, None):
        if _is_ours(directory, one):
            system_calls.exchange(one.temp, one.name, directory)
        elif _hash_file(directory, one.temp) != one.old:
            keep_version(one.temp, one.name, directory)
    if kind in ("new", "exchange"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(one.temp, dir_fd=directory)


def _settle(directory: int, one: IntentPart) -> None:
    """A file that is new already: its temporary file goes."""
    left, new_ino = _read_inode(directory, one.temp), int(one.new_ino, 16)
    if left is None:
        return
    if left != new_ino and one.old is not None and _hash_file(directory, one.temp) != one.old:
        # Killed right after the exchange: what lies under the temporary name is a stranger's write. Put it back,
        # or, if the stranger has replaced our file by now, keep both.
        if _read_inode(directory, one.name) != new_ino:
            keep_version(one.temp, one.name, directory)
            return
        system_calls.exchange(one.temp, one.name, directory)
    os.unlink(one.temp, dir_fd=directory)


def _is_ours(directory: int, one: IntentPart) -> bool:
    """Whether the name has the new file, as we wrote it."""
    return _read_inode(directory, one.name) == int(one.new_ino, 16) and _hash_file(directory, one.name) == one.new


def _read_inode(directory: int, name: str) -> int | None:
    status = system_calls.stat_at(name, directory)
    return status.st_ino if status else None


def _hash_file(directory: int, name: str) -> str | None:
    with contextlib.suppress(FileNotFoundError), closing_fd(os.open(name, READ, dir_fd=directory)) as fd:
        if stat.S_ISREG(os.fstat(fd).st_mode):
            with open(fd, "rb", closefd=False) as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return None
