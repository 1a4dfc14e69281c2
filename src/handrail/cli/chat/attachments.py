"""Files that a message names with `@path`: a remark for the model, and the picture itself where it is one."""

from __future__ import annotations

import base64
import os
import re
import stat
from collections.abc import Mapping, Sequence

from handrail.errors import ToolError
from handrail.errors.extras import MissingExtra
from handrail.media import HEAD, detect_kind
from handrail.media.images import read_picture

_NAMED = re.compile(r"(?:^|(?<=\s))@(\S+)")
_MOST_PICTURES = 10
_MOST_BYTES = 64 << 20


def find_paths(text: str, workspace: str) -> list[str]:
    """The paths of the project that a message names."""
    paths = dict.fromkeys(path.rstrip(".,;:!?)") for path in _NAMED.findall(text))
    return [path for path in paths if path and os.path.lexists(os.path.join(workspace, path))]


def describe_named_files(text: str, workspace: str) -> list[str]:
    """Return a remark for the model about each `@path` in a message: that it is the name of a file."""
    return [
        f"[@{path} is the name of a file or directory of the project: {path}]" for path in find_paths(text, workspace)
    ]


def load_pictures(text: str, workspace: str) -> Sequence[Mapping[str, object]]:
    """The pictures that a message names, scaled as Read does it: `base64` and `mime_type` of each."""
    pictures = (_load_picture(os.path.join(workspace, path), workspace) for path in find_paths(text, workspace))
    return [one for one in pictures if one][:_MOST_PICTURES]


def _load_picture(path: str, workspace: str) -> Mapping[str, object] | None:
    """A picture inside the workspace; None for anything else, or if pictures are not installed."""
    real, root = os.path.realpath(path), os.path.realpath(workspace)
    if not real.startswith(root + os.sep):
        return None
    try:
        fd = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        state = os.fstat(fd)
        if (
            not stat.S_ISREG(state.st_mode)
            or state.st_size > _MOST_BYTES
            or not (detect_kind(os.pread(fd, HEAD, 0)) or "").startswith("image/")
        ):
            return None
        shown = read_picture(fd, state.st_size)
    except (ToolError, MissingExtra, OSError):  # the model can still read the file, and gets the reason
        return None
    finally:
        os.close(fd)
    return {"type": "image", "base64": base64.b64encode(shown.raw).decode("ascii"), "mime_type": shown.mime_type}
