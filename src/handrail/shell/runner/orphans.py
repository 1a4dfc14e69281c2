"""Adopting orphans: while a command of ours runs or has left something, what it leaves behind comes to this process.

The kernel knows one such switch for the whole process (`PR_SET_CHILD_SUBREAPER`), so there is one count for it here,
whatever number of sessions there are. It is on only as long as somebody needs it: orphans of the host's other programs
come too, nobody waits for them, and we may not take their status, since they cannot be told from the host's own
children. So they would stay as zombies for as long as the host lives, and each command would have to look at all of
them. A host that adopts orphans by itself keeps doing so.
"""

from __future__ import annotations

import ctypes
import os
import threading

from handrail.shell.runner.process_tree import LINUX

_SET, _GET = 36, 37
_ZERO = ctypes.c_ulong(0)
_libc = ctypes.CDLL(None)


class _Adoption:
    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.holders = 0
        self.before = False
        self.works = False


_adoption = _Adoption()


def _of_this_process() -> _Adoption:
    global _adoption
    if _adoption.process != os.getpid():  # a fork begins without the switch
        _adoption = _Adoption()
    return _adoption


def hold() -> bool:
    """From now on orphans below this process become its children; False where that is not to be had."""
    if not LINUX:
        return False
    ours = _of_this_process()
    with ours.lock:
        if ours.holders == 0:
            ours.before = _asked()
            ours.works = ours.before or _switched(True)
        ours.holders += 1
        return ours.works


def release(holders: int = 1) -> None:
    """As many as that need it no more."""
    if not LINUX:
        return
    ours = _of_this_process()
    with ours.lock:
        held, ours.holders = ours.holders, max(0, ours.holders - holders)
        if held and not ours.holders and ours.works and not ours.before:
            _switched(False)


def _switched(on: bool) -> bool:
    return int(_libc.prctl(_SET, ctypes.c_ulong(on), _ZERO, _ZERO, _ZERO)) == 0


def _asked() -> bool:
    answer = ctypes.c_int(0)
    return int(_libc.prctl(_GET, ctypes.byref(answer), _ZERO, _ZERO, _ZERO)) == 0 and bool(answer.value)
