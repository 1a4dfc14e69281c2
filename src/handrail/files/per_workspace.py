"""What the state directory keeps for one workspace, the same in every session."""

from __future__ import annotations

import contextlib
import hashlib
import os


def make_private_home(state: str, workspace: str) -> str:
    """The directory that commands find in the place of the home directory; empty if it cannot be made.

    What they leave there runs nowhere else.
    """
    path = locate(state, "homes", workspace)
    with contextlib.suppress(OSError):
        os.makedirs(path, 0o700, exist_ok=True)
        return path
    return ""


def record_once(state: str, kind: str, workspace: str, contents: bytes) -> bytes:
    """What was first recorded: ``contents``, unless an earlier session has done so; empty if that is not possible.

    Without a state directory nothing is recorded.
    """
    if not state:
        return contents
    path = locate(state, kind, workspace)
    with contextlib.suppress(OSError):
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            new = f"{path}.{os.getpid()}"
            with open(new, "wb") as file:
                file.write(contents)
            with contextlib.suppress(FileExistsError):  # by another session, just now
                os.link(new, path)
            os.unlink(new)
        with open(path, "rb") as file:
            return file.read()
    return b""


def locate(state: str, kind: str, workspace: str) -> str:
    """Where the state directory keeps something of this kind for a workspace."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
    return os.path.join(os.path.realpath(state), kind, name)
