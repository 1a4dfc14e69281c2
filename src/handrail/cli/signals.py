"""Signals of a process that inherited odd ones: started by `nohup`, in the background, or by a careless parent."""

from __future__ import annotations

import contextlib
import signal


def repair_signals() -> None:
    """Undo what keeps a command from working: blocked signals, and an ignored SIGCHLD, which hides exit codes.

    Other signals that are ignored stay so: `nohup` and a job in the background of a script mean it.
    """
    with contextlib.suppress(AttributeError, ValueError):  # another system, or not the main thread
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
