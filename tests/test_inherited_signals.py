"""Signals that were ignored or blocked at the start: `nohup`, a job in the background, a careless parent."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from handrail.shell.start_process import start_process
from tests.command import HANDRAIL, TIMEOUT, surroundings

NEVER = {signal.SIGKILL, signal.SIGSTOP}
ALL: list[int] = sorted(signal.valid_signals() - NEVER)
NAMED: list[int] = [
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGPIPE,
    signal.SIGTSTP,
    signal.SIGCHLD,
]
OF_CHILD = "grep -E '^Sig(Blk|Ign):' /proc/self/status"

needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no /proc to see the signals in")

WRAPPER = """
import os, signal, sys
which = [int(word) for word in sys.argv[2].split(",")]
if sys.argv[1] == "ignored":
    for number in which:
        signal.signal(number, signal.SIG_IGN)
else:
    signal.pthread_sigmask(signal.SIG_SETMASK, which)
os.execv(sys.argv[3], sys.argv[3:])
"""


def with_signals(state: str, numbers: list[int], words: list[str]) -> list[str]:
    """The words of a process that is started with these signals ignored or blocked."""
    return [sys.executable, "-c", WRAPPER, state, ",".join(str(int(number)) for number in numbers), *words]


def set_signals(text: str) -> list[int]:
    """The numbers of all masks that `OF_CHILD` has printed, of those that a program can set.

    The C library keeps 32 and 33 to itself: what a parent did to them by a bare system call stays.
    """
    collected: list[int] = []
    masks = [line.split()[1] for line in text.splitlines() if line.startswith("Sig")]
    assert len(masks) == 2, text
    for mask in masks:
        collected += [number for number in signal.valid_signals() if int(mask, 16) >> (number - 1) & 1]
    return collected


def run(words: list[str], cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, env=surroundings(), capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_proc
@pytest.mark.parametrize("state", ["ignored", "blocked"])
def test_a_command_starts_with_default_signals(tmp_path: Path, state: str) -> None:
    words = [*HANDRAIL, "call", "Bash", "--mode", "full", f"command={OF_CHILD}"]
    assert set_signals(run(with_signals(state, ALL, words), tmp_path)) == []


PLAIN = f"""
import subprocess
from handrail.shell.start_process import start_process
start_process(["/bin/sh", "-c", {OF_CHILD!r}]).wait()
"""


@needs_proc
@pytest.mark.parametrize("state", ["ignored", "blocked"])
@pytest.mark.parametrize("number", NAMED, ids=str)
def test_one_inherited_signal_is_enough_to_be_reset(tmp_path: Path, state: str, number: int) -> None:
    words = [sys.executable, "-c", PLAIN]
    assert set_signals(run(with_signals(state, [number], words), tmp_path)) == []


@needs_proc
def test_the_wrapper_of_these_tests_sets_what_it_says(tmp_path: Path) -> None:
    for state in ("ignored", "blocked"):
        words = [str(shutil.which("grep")), *shlex.split(OF_CHILD)[1:]]
        assert set(set_signals(run(with_signals(state, NAMED[:3], words), tmp_path))) >= set(NAMED[:3])


@needs_proc
def test_a_command_of_a_job_in_the_background_starts_with_default_signals(tmp_path: Path) -> None:
    words = shlex.join([*HANDRAIL, "call", "Bash", "--mode", "full", f"command={OF_CHILD}"])
    assert set_signals(run(["/bin/sh", "-c", f"{words} & wait $!"], tmp_path)) == []


@pytest.mark.parametrize("state", ["ignored", "blocked"])
@pytest.mark.parametrize("code", [0, 7])
def test_the_exit_code_of_a_command_is_known_whatever_was_inherited(tmp_path: Path, state: str, code: int) -> None:
    words = [*HANDRAIL, "call", "Bash", "--json", "--mode", "full", f"command=exit {code}"]
    done = subprocess.run(
        with_signals(state, ALL, words), cwd=tmp_path, env=surroundings(), capture_output=True, text=True
    )
    assert f'"exit_code": {code}' in done.stdout, done.stdout + done.stderr


@contextlib.contextmanager
def ignored(number: int) -> Iterator[None]:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(number, before)


@needs_proc
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_host_that_ignores_a_signal_keeps_doing_so_and_its_commands_do_not(in_thread: bool) -> None:
    collected: list[str] = []

    def start() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        try:
            with start_process(["/bin/sh", "-c", OF_CHILD], stdout=subprocess.PIPE) as child:
                collected.append(child.communicate(timeout=TIMEOUT)[0].decode("ascii"))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])

    with ignored(signal.SIGUSR1):
        if in_thread:
            thread = threading.Thread(target=start)
            thread.start()
            thread.join(TIMEOUT)
        else:
            start()
        assert signal.getsignal(signal.SIGUSR1) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGUSR1)
    assert set_signals(collected[0]) == []


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., pexpect.spawn]]:
    """A terminal in which `handrail` runs with signals that were ignored before."""
    started = []

    def start(words: list[str]) -> pexpect.spawn:
        env = {**surroundings(), "XDG_CONFIG_HOME": str(tmp_path / "config")}
        child = pexpect.spawn(
            words[0], words[1:], cwd=str(tmp_path), env=env, encoding="utf-8", timeout=TIMEOUT, dimensions=(40, 120)
        )
        child.delaybeforesend = None
        started.append(child)
        return child

    yield start
    for child in started:
        child.close(force=True)


IN_BACKGROUND = "background"
IGNORED = [[signal.SIGINT], [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT], IN_BACKGROUND]


def ignoring(numbers: list[int] | str, words: list[str]) -> list[str]:
    """Ignored by a wrapper, or as a shell without job control does for every job in the background.

    Such a shell also gives the job an empty stdin, where only a terminal is asked at.
    """
    if isinstance(numbers, str):
        return ["/bin/sh", "-c", f"trap : INT; {shlex.join(words)} < /dev/tty & wait $!; wait $!"]
    return with_signals("ignored", numbers, words)


@pytest.mark.parametrize("numbers", IGNORED, ids=str)
def test_ctrl_c_detaches_who_waits_for_questions(
    terminal: Callable[..., pexpect.spawn], numbers: list[int] | str
) -> None:
    child = terminal(ignoring(numbers, [*HANDRAIL, "approve"]))
    child.expect("Ctrl-C detaches")
    child.sendintr()
    child.expect("detached")
    child.expect(pexpect.EOF)


@pytest.mark.parametrize("numbers", IGNORED, ids=str)
def test_ctrl_c_at_a_question_makes_no_change(
    terminal: Callable[..., pexpect.spawn], tmp_path: Path, numbers: list[int] | str
) -> None:
    words = [*HANDRAIL, "call", "Write", "--mode", "ask", "file_path=new.txt", "content=text"]
    child = terminal(ignoring(numbers, words))
    child.expect(r"\[y\]es")
    child.sendintr()
    child.expect(pexpect.EOF)
    assert not (tmp_path / "new.txt").exists()


def test_the_end_of_the_terminal_ends_who_waits_for_questions(terminal: Callable[..., pexpect.spawn]) -> None:
    child = terminal(with_signals("ignored", [signal.SIGHUP], [*HANDRAIL, "approve"]))
    child.expect("Ctrl-C detaches")
    child.kill(signal.SIGHUP)
    child.expect(pexpect.EOF)
    child.close()
    assert child.signalstatus == signal.SIGHUP
