"""Pictures that a call read or wrote, for its page: the files as they are now."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any

from handrail.frozen import frozen
from handrail.media import HEAD, detect_kind

_MOST_BYTES = 20 << 20
_MOST_SHOWN = 12
_ACTIONS = ("read", "write")


@frozen
class ShownPicture:
    """A picture among the accesses of a call."""

    number: int
    """The position of its access."""
    name: str


def list_pictures(row: Any) -> list[ShownPicture]:
    """The files among the accesses of a call that are pictures now."""
    pictures: list[ShownPicture] = []
    for number, access in enumerate(row.accesses[:200]):
        if len(pictures) < _MOST_SHOWN and (path := _find_path(row, access)) and _read(path, HEAD)[0]:
            pictures.append(ShownPicture(number, str(access[1])))
    return pictures


def read_picture(row: Any, number: int) -> tuple[str, bytes]:
    """The type and the bytes of a picture; empty if the file is none, or no longer there."""
    path = _find_path(row, row.accesses[number]) if 0 <= number < len(row.accesses) else ""
    return _read(path, _MOST_BYTES) if path else ("", b"")


def _find_path(row: Any, access: Sequence[Any]) -> str:
    """The file of an access, below the project of the call; empty if it is elsewhere."""
    if len(access) < 2 or access[0] not in _ACTIONS or not isinstance(access[1], str):
        return ""
    home = os.path.realpath(row.workspace)
    try:
        path = os.path.realpath(os.path.join(home, access[1]))
    except ValueError:  # a NUL
        return ""
    return path if path.startswith(home + os.sep) else ""


def _read(path: str, most: int) -> tuple[str, bytes]:
    """The type and the first bytes of a picture; empty for anything else, directories and pipes included."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return "", b""
    try:
        raw = _read_regular(fd, most)
    except OSError:
        return "", b""
    finally:
        os.close(fd)
    kind = detect_kind(raw) or ""
    return (kind, raw) if kind.startswith("image/") else ("", b"")


def _read_regular(fd: int, most: int) -> bytes:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST_BYTES:
        return b""
    with open(fd, "rb", closefd=False) as file:
        return file.read(most)
