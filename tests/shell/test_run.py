"""A command always comes back, with what it printed and how it ended."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from handrail.errors import BadCommand
from handrail.shell.runner import process_tree
from handrail.shell.runner.explain_exit import explain_exit_code, find_interactive_program
from handrail.shell.runner.process_tree import Process
from handrail.shell.runner.run import CommandEnd, CommandOrder, Runs
from handrail.shell.sandbox.environment import make_unattended
from handrail.shell.start_process import start_process
from tests.command import TIMEOUT
from tests.patience import until_it_got_far_enough

linux = pytest.mark.skipif(sys.platform != "linux", reason="what a command leaves behind is known on Linux only")
Go = Callable[..., CommandEnd]


@pytest.fixture
def runs() -> Iterator[Runs]:
    runs = Runs()
    yield runs
    runs.close()


@pytest.fixture
def order(tmp_path: Path) -> Callable[..., CommandOrder]:
    number = itertools.count()
    (tmp_path / "logs").mkdir()
    (tmp_path / "here").mkdir()

    def make(command: str, **options: Any) -> CommandOrder:
        log = str(tmp_path / "logs" / str(next(number)))
        settings = {"env": make_unattended(os.environ), "cwd": str(tmp_path / "here"), "grace": 0.3, **options}
        return CommandOrder(command, log, **settings)

    return make


@pytest.fixture
def go(runs: Runs, order: Callable[..., CommandOrder]) -> Go:
    def run(
        command: str, timeout: float | None = 60, cancel: threading.Event | None = None, **options: Any
    ) -> CommandEnd:
        return runs.run(order(command, **options), timeout, cancel)

    return run


def read_log(ended: CommandEnd) -> bytes:
    return Path(ended.log).read_bytes()


def test_what_is_printed_is_in_the_log_in_order(go: Go) -> None:
    ended = go("for i in 1 2 3; do echo out $i; echo err $i >&2; done")
    assert read_log(ended) == b"out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"
    assert (ended.exit_code, ended.signal, ended.reason, ended.strays) == (0, "", "", ())
    assert ended.output_bytes == 36 and ended.duration > 0


def test_opening_dev_stderr_does_not_empty_the_log(go: Go) -> None:
    assert read_log(go("echo a; echo b > /dev/stderr; echo c | tee /dev/stderr > /dev/null; echo d")) == b"a\nb\nc\nd\n"


def test_raw_bytes_stay_as_they_are(go: Go) -> None:
    assert read_log(go(r"printf '\x00\xff\x1b[31m\r'")) == b"\0\xff\x1b[31m\r"


@pytest.mark.parametrize(
    ("command", "code", "name", "meaning"),
    [
        ("exit 3", 3, "", ""),
        ("grep x /dev/null", 1, "", "no line matched"),
        ("no-such-program a b", 127, "", "no-such-program: there is no such command here"),
        ("kill -9 $$", None, "SIGKILL", "ended by SIGKILL"),
        ("bash -c 'kill -TERM $$'; exit $?", 143, "", "ended by SIGTERM"),
        ("if", 2, "", ""),
    ],
)
def test_how_it_ended_is_told(go: Go, command: str, code: int | None, name: str, meaning: str) -> None:
    ended = go(command)
    assert (ended.exit_code, ended.signal, ended.meaning) == (code, name, meaning)


def test_stdin_is_empty(go: Go) -> None:
    assert read_log(go("cat; read x; echo $?")) == b"1\n"


def test_the_command_runs_in_a_session_of_its_own_and_in_its_directory(go: Go, tmp_path: Path) -> None:
    ended = go("pwd; ps -o sid= -p $$; echo $$")
    where, session, pid = read_log(ended).split()
    assert where.decode() == str(tmp_path / "here") and session == pid


def test_an_open_directory_may_be_where_it_runs(go: Go, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "here", os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert read_log(go("pwd -P", cwd=f"/proc/self/fd/{fd}")).decode().strip() == str(tmp_path / "here")
    finally:
        os.close(fd)


def test_nothing_of_the_start_is_left_in_the_shell(go: Go) -> None:
    text = read_log(go('echo "[$BASH_ENV]" "$0" $#; echo "$-"; ls /proc/self/fd'))
    assert text.split(b"\n")[0] == b"[] bash 0" and b"c" in text.split(b"\n")[1]
    assert set(text.split()[4:]) == {b"0", b"1", b"2", b"3"}  # 3: the directory that ls reads


def test_a_command_too_long_for_an_argument_runs(go: Go) -> None:
    ended = go("cat <<'END' | wc -c\n" + "x" * 300_000 + "\nEND\n")
    assert read_log(ended).split() == [b"300001"]


def test_a_command_with_nul_is_refused_and_leaves_nothing_open(runs: Runs, order: Callable[..., CommandOrder]) -> None:
    def refuse_both() -> int:
        with pytest.raises(ValueError, match="null"):
            runs.start(order("echo \0"))
        with pytest.raises(FileNotFoundError):
            runs.start(order("true", cwd="/no/such/directory"))
        return len(os.listdir("/dev/fd"))

    before = refuse_both()  # the first command of a session opens what stays open until its end
    assert refuse_both() == before


def test_a_log_that_exists_is_not_overwritten(runs: Runs, order: Callable[..., CommandOrder]) -> None:
    wanted = order("echo x")
    Path(wanted.log).write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        runs.run(wanted)
    assert Path(wanted.log).read_bytes() == b"mine"


def test_a_timeout_keeps_what_was_printed(go: Go) -> None:
    ended, _ = until_it_got_far_enough(
        lambda seconds: go("echo first; sleep 1000; echo never", timeout=seconds), lambda ended: ended.output_bytes
    )
    assert ended.timed_out and not ended.cancelled and ended.exit_code is None and ended.signal == "SIGTERM"
    assert read_log(ended) == b"first\n"


def test_last_words_after_term_are_kept(go: Go) -> None:
    command = "trap 'head -c 300000 /dev/zero; echo bye; exit 4' TERM; sleep 1000 & echo hi; wait"
    ended, _ = until_it_got_far_enough(lambda seconds: go(command, timeout=seconds), lambda ended: ended.output_bytes)
    assert ended.timed_out and ended.exit_code == 4
    assert read_log(ended) == b"hi\n" + b"\0" * 300_000 + b"bye\n"


def test_an_event_ends_it(go: Go) -> None:
    cancel = threading.Event()
    timer = threading.Timer(0.2, cancel.set)
    timer.start()
    assert go("sleep 1000", cancel=cancel).cancelled
    timer.join()


def test_a_command_may_be_kept_when_its_time_is_up(runs: Runs, order: Callable[..., CommandOrder]) -> None:
    run = runs.start(order("echo early; sleep 0.5; echo late"))
    assert run.wait(timeout=0.1, keep=True) is None
    ended = run.wait(timeout=TIMEOUT)
    assert ended is not None and ended.exit_code == 0 and read_log(ended) == b"early\nlate\n"


def test_output_over_the_budget_ends_the_command(go: Go) -> None:
    ended = go("yes", budget=3_000_000)
    assert ended.overflowed and len(read_log(ended)) == 3_000_000
    assert ended.lost_bytes == ended.output_bytes - 3_000_000


@linux
def test_a_child_in_the_background_is_named_and_not_waited_for(go: Go, runs: Runs) -> None:
    ended = go("sleep 1234.5 & echo started $!; exit 5")
    assert ended.exit_code == 5
    [stray] = ended.strays
    assert read_log(ended) == b"started %d\n" % stray.pid
    assert stray.command == "sleep 1234.5"
    os.kill(stray.pid, 0)
    runs.close()
    with pytest.raises(ProcessLookupError):
        os.kill(stray.pid, 0)


@linux
def test_a_child_that_let_go_of_the_output_is_named_too(go: Go) -> None:
    [stray] = go("setsid sleep 1234.5 >/dev/null 2>&1 </dev/null & exit 0").strays
    assert stray.command == "sleep 1234.5"


def test_the_last_words_of_a_process_substitution_are_not_lost(go: Go) -> None:
    assert read_log(go("echo hi > >(sleep 0.02; cat)")) == b"hi\n"


@linux
def test_what_a_stray_prints_later_is_in_the_log(go: Go) -> None:
    ended = go("(sleep 0.3; echo later) & echo now")
    until = time.monotonic() + TIMEOUT
    while read_log(ended) != b"now\nlater\n":
        assert time.monotonic() < until
        time.sleep(0.01)


@linux
def test_a_stray_cannot_fill_the_disk(go: Go) -> None:
    ended = go("yes & exit 0", budget=2_000_000)
    [stray] = ended.strays
    until = time.monotonic() + TIMEOUT
    while Path(f"/proc/{stray.pid}").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert len(read_log(ended)) == 2_000_000


def test_a_hundred_commands_at_once_keep_to_themselves(go: Go) -> None:
    ends: dict[int, CommandEnd] = {}

    def one(number: int) -> None:
        ends[number] = go(f"echo {number}; sleep 0.05; echo {number} >&2; exit {number}")

    threads = [threading.Thread(target=one, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: (end.exit_code, read_log(end), end.strays) for number, end in ends.items()} == {
        number: (number, b"%d\n%d\n" % (number, number), ()) for number in range(100)
    }


def test_many_commands_leave_no_descriptor_and_no_thread(go: Go) -> None:
    go("true")
    before, threads = len(os.listdir("/dev/fd")), threading.active_count()
    for _ in range(20):
        go("echo x")
        go("sleep 100", timeout=0)
    assert len(os.listdir("/dev/fd")) == before and threading.active_count() == threads


def test_after_the_close_nothing_is_started(runs: Runs, order: Callable[..., CommandOrder]) -> None:
    runs.close()
    runs.close()
    with pytest.raises(BadCommand):
        runs.start(order("true"))


def test_a_close_brings_back_whoever_waits(runs: Runs, order: Callable[..., CommandOrder]) -> None:
    run = runs.start(order("sleep 1000"))
    ends: list[CommandEnd | None] = []
    waiting = threading.Thread(target=lambda: ends.append(run.wait()))
    waiting.start()
    time.sleep(0.1)
    runs.close()
    waiting.join(TIMEOUT)
    assert ends[0] is not None and ends[0].reason == "closed"


MEMORY = """
import os, resource, sys
from handrail.shell.runner.run import CommandOrder
from handrail.shell.runner.run import Runs
runs = Runs()
runs.run(CommandOrder("true", sys.argv[1] + "/a", os.environ))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ended = runs.run(CommandOrder(sys.argv[2], sys.argv[1] + "/b", os.environ))
from handrail.shell.runner import output
fd = os.open(ended.log, os.O_RDONLY)
seen = output.view(fd, 15000, 15000)
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(ended.output_bytes, len(seen.head), len(seen.tail), grown // (1 if sys.platform == "linux" else 1024))
"""


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ("yes | head -c 300000000", 300_000_000),
        ("head -c 300000000 /dev/zero", 300_000_000),
        pytest.param("yes | head -c 2000000000", 2_000_000_000, marks=pytest.mark.long),
    ],
)
def test_memory_stays_flat_whatever_is_printed(tmp_path: Path, command: str, size: int) -> None:
    if size > 10**9 and not os.environ.get("HANDRAIL_SLOW_TESTS"):
        pytest.skip("writes 2 GB: set HANDRAIL_SLOW_TESTS=1")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path), command], capture_output=True, encoding="utf-8", check=True
    )
    printed, head, tail, grown = map(int, done.stdout.split())
    (tmp_path / "b").unlink()
    assert (printed, head, tail) == (size, 15_000, 15_000)
    assert grown < 40_000, f"{grown} KiB more than idle"


def test_a_sandbox_may_start_the_process(go: Go) -> None:
    seen: list[Any] = []

    def spawn(args: Any, **options: Any) -> subprocess.Popen[bytes]:
        seen.append((list(args), options["start_new_session"]))
        return start_process(["env", "WRAPPED=1", *args], **options)

    assert read_log(go("echo $WRAPPED", spawn=spawn)) == b"1\n"
    assert seen == [(["bash", "-c", "echo $WRAPPED"], True)]


@linux
def test_a_daemon_below_a_sandbox_that_forks_is_found(go: Go, runs: Runs) -> None:
    def spawn(args: Any, **options: Any) -> subprocess.Popen[bytes]:
        return start_process(["sh", "-c", '"$@" & wait', "sh", *args], **options)

    [stray] = go("env -i setsid -f sleep 1234.5 >/dev/null 2>&1", spawn=spawn).strays
    assert stray.command.endswith("sleep 1234.5")  # it may not have got beyond `setsid` yet
    runs.close()
    assert not Path(f"/proc/{stray.pid}").exists()


@linux
def test_a_process_in_the_middle_of_exec_is_named_and_one_that_exits_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def process(pid: int, exiting: bool = False) -> Process:
        return Process(pid, 1, 1, 1, 1, dead=False, exiting=exiting)

    lines = {1: ["[sh]", "[sleep]", "sleep 1"], 2: ["cat"], 3: ["[cat]"], 4: ["[kworker]"] * 10_000}
    now = {1: process(1), 2: process(2), 3: process(3, exiting=True), 4: process(4)}
    monkeypatch.setattr(process_tree, "look", now.get)
    monkeypatch.setattr(process_tree, "read_command_line", lambda pid: lines[pid].pop(0))
    ticks = iter(range(20_000))  # a millisecond for each look, however busy the machine is
    clock = SimpleNamespace(monotonic=lambda: next(ticks) / 1000, sleep=lambda _: None)
    monkeypatch.setattr(process_tree, "time", clock)
    named = process_tree.name_running([process(pid) for pid in (4, 3, 2, 1, 5)])
    assert named == [(1, "sleep 1"), (2, "cat"), (4, "[kworker]")]


def test_a_shell_that_is_gone_at_once_is_no_trouble(go: Go) -> None:
    assert {go("exit 0").exit_code for _ in range(50)} == {0}


def test_programs_are_told_that_nobody_is_there(go: Go) -> None:
    base = {**os.environ, "PAGER": "less", "EDITOR": "vim", "GIT_SSH_COMMAND": "ssh -i key", "BASH_ENV": "/x", "A": "1"}
    env = make_unattended(base)
    assert (env["PAGER"], env["EDITOR"], env["GIT_TERMINAL_PROMPT"], env["A"]) == ("cat", "true", "0", "1")
    assert env["GIT_SSH_COMMAND"] == "ssh -i key" and "BASH_ENV" not in env and base["PAGER"] == "less"
    ended = go("echo a | ${PAGER}; ${EDITOR} file && echo edited", env=env)
    assert read_log(ended) == b"a\nedited\n"


@pytest.mark.parametrize(
    ("line", "program"),
    [
        ("vim a.py", "vim"),
        ("cd x && less file", "less"),
        ("python3", "python3"),
        ("python3 a.py", ""),
        ("/usr/bin/top", "top"),
        ("FOO=1 nano x", "nano"),
        ("echo vim", ""),
        ("grep 'a; vim b' x", ""),
        ("echo 'unfinished", ""),
        ("echo 'print(1)' | python3", ""),
        ("python3 <<'X'\nprint(1)\nX", ""),
    ],
)
def test_a_program_that_wants_a_person_is_named(line: str, program: str) -> None:
    assert find_interactive_program(line) == program


@pytest.mark.parametrize(
    ("line", "code", "expected"),
    [
        ("grep a b", 0, ""),
        ("grep a b", 1, "no line matched"),
        ("cat x | grep -v a", 1, "no line matched"),
        ("LC_ALL=C /bin/grep a b", 1, "no line matched"),
        ("echo; rg a", 1, "no line matched"),
        ("cd /x && grep a b", 1, ""),  # may be the code of cd
        ("! grep a b", 1, ""),
        ("set -o pipefail; a | grep b", 1, ""),
        ("diff a b", 1, "the files differ"),
        ("[ -e x ]", 1, "the condition is false"),
        ("timeout 3 sleep 5", 124, "the time given to `timeout` was over"),
        ("pytest -q", 5, "no tests were collected"),
        ("foo", 127, "foo: there is no such command here"),
        ("a && foo", 127, "a command was not found"),
        ("./readme.md", 126, "readme.md: found, but it cannot be run"),
        ("foo", 128 + signal.SIGSEGV, "ended by SIGSEGV"),
        ("cat <<X\n'\nX\ngrep a b", 1, "no line matched"),
        ("env A=1 timeout 3 grep a b", 1, "no line matched"),
        ("grep a b; (exit 1)", 1, ""),
        ("if grep a b; then c; fi", 1, ""),
        ("grep '(' b", 1, "no line matched"),
        ("foo", 1, ""),
        ("foo", 255, ""),
    ],
)
def test_well_known_codes_are_explained_only_when_sure(line: str, code: int, expected: str) -> None:
    assert explain_exit_code(line, code) == expected
