"""Python programs in a fork of the test run: real processes that need not import everything again.

`subprocess.Popen(command, env=env, preexec_fn=as_fork(command, env))` makes the process, its streams, its directory and
its session as always. Only the last step differs: the interpreter is not started anew. `pexpect.spawn` takes it too.
Do without it where the start itself is tested: what is imported, what is in the list of processes.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

_TIMEOUT = 600
_KEPT: list[object] = []
"""Streams of the test run: one that is dropped would close its descriptor, which is another file in the child."""


def as_fork(command: Sequence[str], env: Mapping[str, str]) -> Callable[[], None]:
    """Run ``command``, which is `python [-P] [-W error] -m handrail ...` or `python ... -c CODE`, and end with it."""
    python, *words = command
    assert python == sys.executable
    strict = words[:3] == ["-P", "-W", "error"]
    words = words[3:] if strict else words[1:] if words[0] == "-P" else words
    if words[0] == "-m":
        assert words[1] in ("handrail", "handrail.cli")
        _import_command(words[2:])
    else:
        assert words[0] == "-c"

    def run() -> None:
        code = 1
        try:
            _start(env, strict)
            code = _run_command(words[2:]) if words[0] == "-m" else _run_code(words[1])
        finally:  # whatever came, the test run must not go on in the child
            error = sys.exc_info()[1]
            if isinstance(error, SystemExit):
                code = error.code if isinstance(error.code, int) else int(error.code is not None)
            elif error:
                traceback.print_exc()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(OSError, ValueError):
                    stream.flush()
            os._exit(code)

    return run


def run_python(*words: str, cwd: Path, env: Mapping[str, str], stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python with these words to its end, in a session of its own: there is no terminal to ask anybody at."""
    command = [sys.executable, *words]
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        timeout=_TIMEOUT,
        check=False,
        start_new_session=True,
        preexec_fn=as_fork(command, env),
    )


def _import_command(words: Sequence[str]) -> None:
    """Import here, once, what each fork would import again."""
    import handrail.pipeline.session  # noqa: F401
    from handrail.cli import COMMANDS

    if words and words[0] in COMMANDS:
        import_module(f"handrail.cli.{COMMANDS[words[0]][0]}")


def _run_command(words: Sequence[str]) -> int:
    from handrail.cli import main

    sys.argv = ["handrail", *words]
    return main()


def _run_code(code: str) -> int:
    sys.argv = ["-c"]
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), module.__dict__)
    return 0


def _start(env: Mapping[str, str], strict: bool) -> None:
    """Forget the test run: its signals, descriptors, streams, handlers and filters."""
    if index := sys.modules.get("handrail.journal.index"):
        index.close_inherited()  # while its descriptors are still its own
    gc.freeze()  # objects of the test run must not close descriptors that are ours now
    faulthandler.disable()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    _KEPT.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
    logging.root.handlers.clear()
    warnings.resetwarnings()
    warnings.simplefilter("error" if strict else "ignore")
    os.environ.clear()
    os.environ.update(env)
    tempfile.tempdir = None
