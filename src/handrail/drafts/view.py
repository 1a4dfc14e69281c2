"""Show a draft to a process and its children in the place of the workspace.

The process gets mounts of its own, and as an ordinary user a user namespace for that. It is called between fork and
exec: a process with several threads cannot enter a user namespace.
"""

from __future__ import annotations

import ctypes
import os
import signal

from handrail.drafts.layout import DraftDirectory

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_PRIVATE, _RECURSIVE, _READ_ONLY, _NO_SET_USER, _NO_DEVICES = 1 << 18, 1 << 14, 1, 2, 4
_DIE_WITH_PARENT = 1

_libc = ctypes.CDLL(None, use_errno=True)


def enter_view(draft: DraftDirectory, die_with_parent: bool = True) -> None:
    """Mount the draft over its workspace for this process; raises `OSError` with the step that failed.

    The directory of all drafts is covered, so that nothing changes the layers below the mount.
    """
    workspace = draft.info.workspace
    if die_with_parent:
        _libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    user, group = os.geteuid(), os.getegid()
    if user != 0 or _libc.unshare(_NEW_MOUNTS) != 0:  # real root needs no user namespace
        _check(_libc.unshare(_NEW_MOUNTS | _NEW_USERS), "new namespaces")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount("none", "/", "", _PRIVATE | _RECURSIVE, "")
    layers = (("lowerdir", workspace), ("upperdir", draft.upper), ("workdir", draft.work))
    options = ",".join(f"{name}={_escape(path)}" for name, path in layers)
    _mount("overlay", workspace, "overlay", _NO_SET_USER, f"{options},userxattr")
    _mount("tmpfs", os.path.dirname(draft.path), "tmpfs", _READ_ONLY | _NO_SET_USER | _NO_DEVICES, "mode=000,size=4k")
    os.chdir(workspace)


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    what = [os.fsencode(text) if text else None for text in (source, target, kind, options)]
    _check(_libc.mount(what[0], what[1], what[2], ctypes.c_ulong(flags), what[3]), f"mount {kind or 'private'}")


def _check(result: int, step: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def _escape(path: str) -> str:
    return "".join("\\" + sign if sign in "\\:," else sign for sign in path)
