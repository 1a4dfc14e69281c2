"""Let commands rename and link in a draft what overlayfs refuses to users.

A filter on system calls hands each rename to this process (`loopback.Supervisor`). If its source is a directory, or the
file of another user, in a draft, it is made renamable; then the kernel carries the call out. Nothing is renamed here on
behalf of the command.

In a user's draft, linking a file changes its inode number. `git clone` of a local repository takes that for an attack
and fails; where it cannot link, it copies. So links to git's objects are refused.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import stat
import struct
from collections.abc import Callable, Sequence

from handrail.files.overlay_renames import make_renamable
from handrail.shell.sandbox.mount_plan import DRAFTS
from handrail.shell.sandbox.system_call_numbers import ARCHITECTURES, get_call_number, make_call
from handrail.system_calls import O_PATH, READABLE_DIRECTORY, stat_at

_HERE = -100
_LONGEST_PATH = 4096
_PAGE = 4096
_EXCHANGE = 2
_IN_ROOT = 0x10
_DIRECTORY = READABLE_DIRECTORY & ~os.O_NOFOLLOW
_MOST_MOUNTS = 4 << 20
_GIT_OBJECT = re.compile(rb"/objects/(?:[0-9a-f]{2}|pack|info)/[^/]+$")


def name_calls(machine: str | None = None) -> dict[int, str]:
    """The system calls that rename and link, by their numbers on a kind of machine."""
    kind = machine or os.uname().machine
    calls = {get_call_number(name, kind): name for name in ("renameat", "renameat2", "linkat")}
    if ARCHITECTURES[kind][1] == 0:  # newer architectures have no such calls
        calls |= {82: "rename", 86: "link"}
    return calls


def links_git_object(thread: int, name: str, arguments: Sequence[int], require_waiting: Callable[[], None]) -> bool:
    """Whether a call of ``thread`` links an object of git in a user's draft."""
    directory, pointer = (arguments[0], arguments[1]) if name == "linkat" else (_HERE, arguments[0])
    path = _make_absolute(thread, directory, _read_path(thread, pointer, require_waiting))
    if os.geteuid() == 0 or not _GIT_OBJECT.search(path):
        return False
    parent = open_in_root(thread, os.path.dirname(path), _DIRECTORY, require_waiting)
    try:
        return _is_in_draft(thread, parent)
    finally:
        os.close(parent)


def prepare_rename(thread: int, name: str, arguments: Sequence[int], require_waiting: Callable[[], None]) -> None:
    """Make the entries that a call of ``thread`` renames renamable; raises `OSError` if that fails.

    ``require_waiting`` raises `OSError` if the thread has ended: its number may belong to another one.
    """
    places = [(_HERE, arguments[0]), (_HERE, arguments[1])]
    flags = 0
    if name != "rename":
        places = [(arguments[0], arguments[1]), (arguments[2], arguments[3])]
        flags = arguments[4] if name == "renameat2" else 0
    for directory, pointer in places if flags & _EXCHANGE else places[:1]:
        path = _make_absolute(thread, directory, _read_path(thread, pointer, require_waiting))
        above, _, last = path.rstrip(b"/").rpartition(b"/")
        if last in (b"", b".", b".."):
            continue
        parent = open_in_root(thread, above or b"/", _DIRECTORY, require_waiting)
        try:
            entry = stat_at(os.fsdecode(last), parent)
            if entry and _may_be_refused(entry) and _is_in_draft(thread, parent):
                make_renamable(parent, os.fsdecode(last))
        finally:
            os.close(parent)


def _may_be_refused(entry: os.stat_result) -> bool:
    """Whether it is a directory, or the file of a user or group that the namespace of a draft does not know."""
    mine = os.geteuid(), os.getegid()
    return stat.S_ISDIR(entry.st_mode) or (mine[0] != 0 and (entry.st_uid, entry.st_gid) != mine)


def _read_path(thread: int, pointer: int, require_waiting: Callable[[], None]) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        require_waiting()
        raw = b""
        while b"\0" not in raw and len(raw) < _LONGEST_PATH:  # page by page: what follows may not be mapped
            at = pointer + len(raw)
            raw += os.pread(memory.fileno(), _PAGE - at % _PAGE, at) or b"\0"
    return raw.partition(b"\0")[0]


def _make_absolute(thread: int, directory: int, path: bytes) -> bytes:
    if path.startswith(b"/"):
        return path
    number = ctypes.c_int(directory & 0xFFFFFFFF).value
    link = f"/proc/{thread}/cwd" if number == _HERE else f"/proc/{thread}/fd/{number}"
    return os.fsencode(os.readlink(link)) + b"/" + path


def open_in_root(thread: int, path: bytes, flags: int, require_waiting: Callable[[], None]) -> int:
    """Open a file or directory as the thread would find it, links included."""
    root = os.open(f"/proc/{thread}/root", O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        require_waiting()
        how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, _IN_ROOT)
        return make_call("openat2", root, path, how, len(how))
    finally:
        os.close(root)


def _is_in_draft(thread: int, directory: int) -> bool:
    """Whether a directory lies on an overlay of a draft, in the mounts of that thread."""
    with open(f"/proc/self/fdinfo/{directory}", "rb") as file:
        mount = file.read(_PAGE).partition(b"mnt_id:")[2].split(None, 1)[0]
    with contextlib.suppress(OSError), open(f"/proc/{thread}/mountinfo", "rb") as file:
        for line in file.read(_MOST_MOUNTS).splitlines():
            if line.split(b" ", 1)[0] == mount:
                named = b"/upper,workdir=" in line and b"userxattr" in line  # the view of a named draft
                return named or f"upperdir={DRAFTS}/".encode() in line
    return False
