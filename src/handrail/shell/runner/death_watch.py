"""End the commands of a session if Handrail itself is killed: a shell beside it waits for the end of a pipe.

Nobody writes to the pipe before the session closes, so it ends without a word only if this process has died. Then every
process with the mark of the session is killed. (`PR_SET_PDEATHSIG` would not do: it is about the end of the thread that
started a command, and reaches none of the processes that the command starts.)
"""

from __future__ import annotations

import contextlib
import resource
import subprocess
import threading

from handrail.shell.runner.process_tree import LIMIT_LINE, LINUX, Mark

_SCRIPT = r"""
trap '' HUP INT QUIT TERM
read -r -n 1 word
[ -z "$word" ] || exit 0
for round in 1 2 3 4 5 6 7 8 9 10; do
    found=
    for file in /proc/[0-9]*/limits; do
        while read -r one two three soft rest; do
            [ "$one $two $three" = "$3" ] || continue
            case $soft in *[!0-9]*) continue ;; esac
            if [ "$soft" -ge "$1" ] && [ "$soft" -le "$2" ]; then
                pid=${file#/proc/}
                kill -KILL "${pid%/limits}" && found=yes
            fi
        done < "$file"
    done
    [ -n "$found" ] || exit 0
    sleep 0.2
done
"""
_ANSWER_SECONDS = 5.0


class DeathWatch:
    """Kills the processes with a mark if this process dies; `close` ends the watch."""

    def __init__(self, mark: Mark) -> None:
        self._mark = mark
        self._lock = threading.Lock()
        self._popen: subprocess.Popen[bytes] | None = None
        self._closed = False

    def start(self, shell: str) -> None:
        """Begin to watch, once; ``shell`` is bash. Where no such shell can be started there is no watch."""
        with self._lock:
            if self._popen or self._closed or not LINUX:
                return
            with contextlib.suppress(OSError):
                self._popen = subprocess.Popen(  # noqa: S603 - a script of ours
                    [shell, "-p", "-c", _SCRIPT, "handrail-watch", *map(str, self._mark.range), LIMIT_LINE],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                )
        if self._popen:  # a Handrail around this one must not take it for a process of its own command
            with contextlib.suppress(OSError, ValueError):
                _, hard = resource.prlimit(self._popen.pid, resource.RLIMIT_RTTIME)
                resource.prlimit(self._popen.pid, resource.RLIMIT_RTTIME, (hard, hard))

    def close(self) -> None:
        """Nothing is killed from now on."""
        with self._lock:
            popen, self._popen, self._closed = self._popen, None, True
        if popen is None or popen.stdin is None:
            return
        with contextlib.suppress(OSError):
            popen.stdin.write(b".")
            popen.stdin.close()
        try:
            popen.wait(_ANSWER_SECONDS)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
