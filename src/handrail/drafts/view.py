"""Show a draft to a process and its children in the place of the workspace.

The process gets mounts of its own, and as an ordinary user a user namespace for that. It is called between fork and
exec: a process with several threads cannot enter a user namespace. A second process has the view look at the workspace
again from time to time, as long as the first one lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal

from handrail.drafts.layout import DraftDirectory

_NEW_MOUNTS, _NEW_USERS = 0x20000, 0x10000000
_PRIVATE, _RECURSIVE, _REMOUNT, _READ_ONLY, _NO_SET_USER, _NO_DEVICES = 1 << 18, 1 << 14, 32, 1, 2, 4
_REFRESH_SECONDS = 0.5
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
    for covered in {os.path.dirname(draft.path), *([os.path.dirname(draft.info.layers)] if draft.copies else [])}:
        _mount("tmpfs", covered, "tmpfs", _READ_ONLY | _NO_SET_USER | _NO_DEVICES, "mode=000,size=4k")
    os.chdir(workspace)
    _start_refreshing()


def _start_refreshing() -> None:
    """Have the view show what others create, replace and delete in the workspace, as `_refresh` of a launcher does.

    The process for it is no child of this one, which may wait for its children.
    """
    owner = os.pidfd_open(os.getpid())
    child = os.fork()
    if child == 0:
        try:
            if os.fork() == 0:
                _refresh_until_end(owner)
        finally:
            os._exit(0)
    os.close(owner)
    os.waitpid(child, 0)


def _refresh_until_end(owner: int) -> None:
    """Remount the overlay on the working directory again and again, until the process ``owner`` has ended."""
    os.setsid()
    for fd in map(int, os.listdir("/proc/self/fd")):  # who reads from a pipe sees its end with that process
        if fd != owner:
            with contextlib.suppress(OSError):  # the listing's own
                os.close(fd)
    ended = select.poll()
    ended.register(owner, select.POLLIN)
    while not ended.poll(_REFRESH_SECONDS * 1000):
        _libc.mount(b"none", b".", None, ctypes.c_ulong(_REMOUNT | _NO_SET_USER), None)


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    what = [os.fsencode(text) if text else None for text in (source, target, kind, options)]
    _check(_libc.mount(what[0], what[1], what[2], ctypes.c_ulong(flags), what[3]), f"mount {kind or 'private'}")


def _check(result: int, step: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def _escape(path: str) -> str:
    return "".join("\\" + sign if sign in "\\:," else sign for sign in path)
