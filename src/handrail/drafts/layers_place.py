"""Find a place for the layers of drafts whose workspace lies on an overlay: an overlay cannot be an upper layer.

A volume or a tmpfs is needed. The state directory is tried first, then the usual directories for temporary files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator

from handrail.drafts.places import OVERLAY, get_mount, make_private, read_mounts

_KEY = "layers-key"
"""A file in a store with the name of its directory among those of others in the same place."""
_LEAST_FREE_BYTES = 16 << 20


def find_layers_place(state: str, store: str, workspace: str) -> str:
    """The directory for the layers of the drafts in ``store``; raises `OSError` if there is no place for it."""
    overlays = {mount.number for mount in read_mounts() if mount.kind == OVERLAY}
    for place in _list_places(os.path.realpath(state)):
        if f"{place}/".startswith(f"{workspace}/"):
            continue
        with contextlib.suppress(OSError):
            if get_mount(os.path.dirname(place)) in overlays:
                continue
            make_private(place)
            _try_place(place)
            layers = os.path.join(place, _read_key(store))
            make_private(layers)
            return layers
    raise OSError(
        errno.EINVAL,
        "the workspace lies on an overlay, as in a container, and no directory for its changes is on a volume or tmpfs",
        workspace,
    )


def _list_places(state: str) -> Iterator[str]:
    yield os.path.join(state, "layers")
    for above in ("/var/tmp", "/tmp", os.environ.get("XDG_RUNTIME_DIR", ""), "/dev/shm"):  # noqa: S108 - made private
        if above:
            yield os.path.join(os.path.realpath(above), f".handrail-layers-{os.geteuid()}")


def _try_place(place: str) -> None:
    """Raise `OSError` if a directory cannot hold the marks of an upper layer, or next to nothing."""
    free = os.statvfs(place)
    if free.f_bavail * free.f_frsize < _LEAST_FREE_BYTES:
        raise OSError(errno.ENOSPC, "too little space is free", place)
    name = os.path.join(place, f"trial-{secrets.token_hex(8)}")
    os.mkdir(name, 0o700)
    try:
        os.setxattr(name, "user.overlay.opaque", b"y")
        os.mknod(os.path.join(name, "whiteout"), stat.S_IFCHR, 0)
        os.unlink(os.path.join(name, "whiteout"))
    finally:
        os.rmdir(name)


def _read_key(store: str) -> str:
    """The key of a store, made once: two containers may share a place, and have stores of the same path."""
    path = os.path.join(store, _KEY)
    if not os.path.exists(path):
        key = secrets.token_hex(8)
        new = f"{path}-{key}"
        with open(new, "x", encoding="ascii") as file:
            file.write(key)
        try:
            with contextlib.suppress(FileExistsError):
                os.link(new, path)
        finally:
            os.unlink(new)
    with open(path, encoding="ascii") as file:
        return file.read(64)
