"""No process outlives the end of its command, however it tries, and no stranger is hit.

Survivors are counted without the code under test: each way ends in a `sleep` whose argument is found nowhere else.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail.shell.runner import process_tree
from handrail.shell.runner.run import CommandOrder, Run, Runs
from handrail.shell.sandbox.environment import make_unattended
from tests import sizes
from tests.command import TIMEOUT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="process trees are followed on Linux only")

DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.closerange(0, 100)
os.execve("/bin/sleep", ["sleep", sys.argv[1]], {})
"""
FORKS_ON_TERM = """
import os, signal, sys, time
def on_term(*_):
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.setsid()
        os.execvp("sleep", ["sleep", sys.argv[1]])
signal.signal(signal.SIGTERM, on_term)
os.spawnlp(os.P_NOWAIT, "sleep", "sleep", sys.argv[1])
while True: time.sleep(100)
"""

WAYS = {
    "nohup": "nohup sleep U & wait",
    "nohup and exit": "nohup sleep U >/dev/null 2>&1 &",
    "setsid": "setsid sleep U & wait",
    "setsid -f": "setsid -f sleep U; sleep U",
    "setsid -f with closed output": "setsid -f sleep U >/dev/null 2>&1 </dev/null",
    "double fork": "( ( sleep U & ) & )",
    "trap '' TERM": "trap '' TERM; sleep U; sleep U",
    "& with the output open": "sleep U & sleep U & exit 0",
    "& with the output closed": "sleep U >&- 2>&- <&- & exit 0",
    "disown": "sleep U & disown; sleep U",
    "a forking loop": "for i in $(seq 100); do (sleep U &) ; done; while :; do sleep U & sleep 0.002; done",
    "a loop that forks new sessions": "while :; do setsid -f sleep U; sleep 0.01; done",
    "a daemon without a name": f"{sys.executable} -c '{DAEMON}' U",
    "a daemon without a name, left alone": f"env -i {sys.executable} -c '{DAEMON}' U; sleep U",
    "a burst of forks": "f(){ [ $1 = 6 ] && exec sleep U; f $(($1 + 1)) & f $(($1 + 1)) & wait; }; f 0",
    "exec -a": "(exec -a innocent sleep U) & wait",
    "coproc": "coproc sleep U; wait",
    "a pipeline in the background": "sleep U | sleep U | cat & sleep U",
    "forks when it gets TERM": f"{sys.executable} -c '{FORKS_ON_TERM}' U",
    "a stopped process": "sleep U & sleep 0.2; kill -STOP $!; wait",
    "env -i setsid": "env -i setsid -f sleep U; wait",
    "a shell below a shell": 'bash -c \'trap "" TERM; setsid bash -c "sleep U; sleep U" & wait\'',
}

# A timeout is tried in every way; a cancel and a close end processes through the same code.
SOME = sizes.spread(list(WAYS), 9)


@pytest.fixture
def unique() -> Iterator[str]:
    number = f"{random.randrange(10**8, 10**9)}.{os.getpid()}"
    yield number
    for pid in sleeping(number):  # only when a test has failed
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


def sleeping(number: str) -> list[int]:
    """All living processes that have that number as an argument of its own."""
    collected = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if number.encode() in words:
            collected.append(int(pid))
    return collected


def name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip().rstrip("0123456789.")
    except OSError:
        return ""


def children() -> set[int]:
    """The children of this process, the dead ones that nobody has reaped too; without the watch of a registry."""
    own, collected = os.getpid(), set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
            watches = b"handrail-watch" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if not watches and int(stat.rpartition(b")")[2].split()[1]) == own:
            collected.add(int(pid))
    return collected


def until(holds: Callable[[], object], seconds: float = TIMEOUT) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def start(runs: Runs, tmp_path: Path, command: str, unique: str) -> Run:
    order = CommandOrder(
        command.replace("U", unique), str(tmp_path / "log"), make_unattended(os.environ), str(tmp_path), grace=0.2
    )
    run = runs.start(order)
    until(lambda: any(name(pid) not in ("", "python") for pid in sleeping(unique)))
    return run


@pytest.mark.parametrize("way", WAYS)
def test_nothing_survives_a_timeout(way: str, runs: Runs, tmp_path: Path, unique: str) -> None:
    before = children()
    run = start(runs, tmp_path, WAYS[way], unique)
    ended = run.wait(timeout=0)
    assert ended and ended.timed_out and not ended.survivors
    assert sleeping(unique) == []
    assert children() <= before


@pytest.mark.parametrize("way", SOME)
def test_nothing_survives_a_cancel(way: str, runs: Runs, tmp_path: Path, unique: str) -> None:
    before = children()
    run = start(runs, tmp_path, WAYS[way], unique)
    cancel = threading.Event()
    cancel.set()
    ended = run.wait(cancel=cancel)
    assert ended and ended.cancelled and not ended.survivors
    assert sleeping(unique) == []
    assert children() <= before


@pytest.mark.parametrize("way", SOME)
def test_nothing_survives_the_close(way: str, runs: Runs, tmp_path: Path, unique: str) -> None:
    before = children()
    run = start(runs, tmp_path, WAYS[way], unique)
    run.follow()
    runs.close()
    assert run.wait() is run.ended is not None
    assert sleeping(unique) == []
    assert children() <= before
    runs.close()


@pytest.mark.parametrize("way", [way for way in SOME if not WAYS[way].startswith("while") and "wait" not in WAYS[way]])
def test_what_a_finished_command_left_is_ended_by_the_close(way: str, runs: Runs, tmp_path: Path, unique: str) -> None:
    """The shell is killed from outside, so that all the rest are orphans when the command is over."""
    before = children()
    run = start(runs, tmp_path, WAYS[way], unique)
    os.kill(run.pid, signal.SIGKILL)
    ended = run.wait()
    assert ended is not None and not ended.reason
    runs.done(run)
    if way != "a forking loop":  # which has started more of them since
        assert {stray.pid for stray in ended.strays} >= set(sleeping(unique)) - {run.pid}
    runs.close()
    assert sleeping(unique) == []
    assert children() <= before


def test_strangers_live_on(runs: Runs, tmp_path: Path, unique: str) -> None:
    """A child of the host, one in its own session, an orphan of the host, and a reader of the log."""
    mine = [
        subprocess.Popen(["sleep", unique]),
        subprocess.Popen(["sleep", unique], start_new_session=True),
    ]
    other = unique[::-1]
    run = start(runs, tmp_path, f"setsid -f sleep {other}; sleep {other}; true U", unique)
    mine.append(subprocess.Popen(["tail", "-f", str(tmp_path / "log")], stdout=subprocess.DEVNULL))
    subprocess.run(["bash", "-c", f"setsid -f sleep {unique}; sleep {unique} &"], check=True)
    until(lambda: len(sleeping(unique)) == 4 and len(sleeping(other)) == 2)
    strangers = sleeping(unique)
    try:
        run.wait(timeout=0)
        assert sleeping(other) == []
        runs.close()
        assert sleeping(unique) == strangers
        assert [process.poll() for process in mine] == [None, None, None]
    finally:
        for pid in strangers:
            os.kill(pid, signal.SIGKILL)
        for pid in set(strangers) - {process.pid for process in mine}:
            os.waitpid(pid, 0)
        mine[2].kill()
        for process in mine:
            process.wait()


def test_too_many_processes_are_ended_without_grace(
    runs: Runs, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_tree, "_MANY", 20)
    run = start(
        runs, tmp_path, "trap 'echo told' TERM; for i in $(seq 40); do setsid sleep U & done; wait; wait", unique
    )
    until(lambda: len(sleeping(unique)) == 40)
    ended = run.wait(timeout=0)
    assert ended and ended.signal == "SIGKILL" and not ended.output_bytes
    assert sleeping(unique) == []


def test_one_run_is_ended_and_the_other_lives(runs: Runs, tmp_path: Path, unique: str) -> None:
    (tmp_path / "a").mkdir()
    other = unique[::-1]
    spared = start(runs, tmp_path, "setsid -f sleep U; sleep U", unique)
    hit = start(runs, tmp_path / "a", f"setsid -f sleep {other}; sleep {other}; sleep U", other)
    until(lambda: len(sleeping(unique)) == 2)
    hit.wait(timeout=0)
    assert sleeping(other) == [] and len(sleeping(unique)) == 2
    spared.end()
    assert sleeping(unique) == []


def test_the_exit_of_a_child_of_the_host_is_left_to_the_host(runs: Runs, tmp_path: Path, unique: str) -> None:
    dead = subprocess.Popen(["bash", "-c", "exit 7"], start_new_session=True)
    run = start(runs, tmp_path, "setsid -f sleep U; sleep U", unique)
    run.wait(timeout=0)
    runs.close()
    assert dead.wait() == 7


@pytest.mark.parametrize("command", ["setsid -f sleep U; exit 0", "sleep U & exit 0"])
def test_a_registry_that_nobody_closes_ends_its_trees_with_the_program(
    tmp_path: Path, unique: str, command: str
) -> None:
    program = f"""
import os
from handrail.shell.runner.run import CommandOrder
from handrail.shell.runner.run import Runs
runs = Runs()
print(runs.run(CommandOrder({command.replace("U", unique)!r}, {str(tmp_path / "log")!r}, os.environ)).strays[0].command)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)
    assert done.stdout.endswith(f"sleep {unique}\n") and not done.stderr
    assert sleeping(unique) == []


@pytest.mark.parametrize("way", sizes.spread(list(WAYS), 5))
def test_nothing_survives_a_kill_of_the_program(way: str, tmp_path: Path, unique: str) -> None:
    """Without a sandbox: where there is a PID namespace, the kernel ends it."""
    program = f"""
import os
from handrail.shell.runner.run import CommandOrder
from handrail.shell.runner.run import Runs
Runs().run(CommandOrder({WAYS[way].replace("U", unique)!r}, {str(tmp_path / "log")!r}, os.environ))
"""
    with subprocess.Popen([sys.executable, "-c", program]) as killed:
        until(lambda: any(name(pid) not in ("", "python") for pid in sleeping(unique)))
        killed.kill()
    until(lambda: not sleeping(unique))


def test_the_watch_ends_with_its_registry(runs: Runs, tmp_path: Path) -> None:
    def watches() -> list[int]:
        return [pid for pid in process_tree.list_children(os.getpid()) or () if pid not in children()]

    before = watches()
    runs.run(CommandOrder("true", str(tmp_path / "log"), make_unattended(os.environ)))
    assert len(watches()) == len(before) + 1
    runs.close()
    assert watches() == before
