"""Commands inside a boundary work, stay apart and end; and the choice of a boundary is honest."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from handrail.errors import NoSandbox
from handrail.shell.runner.ancestry import iterate_ancestors
from handrail.shell.runner.process_tree import list_children, read_command_line
from handrail.shell.sandbox import Mode, launcher_client
from handrail.shell.sandbox import choose as choosing
from handrail.shell.sandbox.choose import Boundary, choose, try_layers
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.launcher_client import NoNamespaces, SetUpFailed, explain
from handrail.shell.sandbox.mount_plan import DraftLayers
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from tests.command import TIMEOUT
from tests.shell.boundaries import MakeBoundary, World, bash, boundary_or_skip, python

# System calls and processes


def test_tracing_mounting_and_new_namespaces_are_refused(make_boundary: MakeBoundary, world: World) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())
print(libc.unshare(0x10000000), ctypes.get_errno())
print(libc.mount(b"none", b"/", None, 0x20 | 0x1000, None), ctypes.get_errno())
print(libc.syscall(425, 8, ctypes.create_string_buffer(120)), ctypes.get_errno())
print(libc.setns(0, 0), ctypes.get_errno())
stack = ctypes.create_string_buffer(1 << 16)
print(open("/proc/self/status").read().split("NoNewPrivs:")[1].split()[0])
"""
    assert python(make_boundary(), code, world.work).splitlines() == ["-1 1"] * 5 + ["1"]


def test_a_process_outside_cannot_be_signalled(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary()
    if "signals reach other processes" in boundary.description:
        pytest.skip("this kernel's landlock knows no signals: the description says so")
    with subprocess.Popen(["sleep", "60"]) as victim:
        bash(boundary, f"kill -9 {victim.pid} {os.getpid()}; kill -9 -1; true")
        assert victim.poll() is None
        victim.kill()


def test_threads_pools_and_pipes_of_commands_work(make_boundary: MakeBoundary, world: World) -> None:
    script = 'diff <(echo a) <(echo a) && cat <<<"here" && echo err >/dev/stderr && echo out | tee /dev/null >/dev/fd/1'
    assert bash(make_boundary(), script, world.work) == (0, "here\nerr\nout\n")


def test_the_usual_devices_work(make_boundary: MakeBoundary, world: World) -> None:
    script = "head -c 3 /dev/zero | wc -c; head -c 2 /dev/urandom | wc -c; echo x >/dev/null; ls -d /proc/self/fd"
    code, output = bash(make_boundary(), script)
    assert code == 0 and output.split() == ["3", "2", "/proc/self/fd"]


def test_a_log_file_outside_is_written_by_its_descriptor_and_by_its_name_dev_stdout(
    make_boundary: MakeBoundary, world: World
) -> None:
    log = world.outside / "log"
    with log.open("ab") as file:
        started = make_boundary().spawn(
            ["bash", "-c", "echo one; echo two >>/dev/stdout; echo three >&2"],
            cwd=str(world.work),  # the tests themselves may be where nothing is inside
            stdout=file,
            stderr=file,
        )
        assert started.wait(TIMEOUT) == 0
    assert log.read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_descriptors_handed_over_arrive_and_no_others(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary()
    read, write = os.pipe()
    try:
        listed = world.work / "fds"
        started = boundary.spawn(
            [
                "bash",
                "-c",
                f"echo sent >&{write}; ls -l /proc/$$/fd >{listed}",  # a pipeline would have pipes of its own
            ],
            cwd=str(world.work),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write,),
        )
        assert started.wait(TIMEOUT) == 0
        assert os.read(read, 99) == b"sent\n"
        assert listed.read_text(encoding="utf-8").count("pipe:") == 1
    finally:
        os.close(read)
        os.close(write)


def test_no_descriptor_of_ours_is_left_open(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary()
    bash(boundary, "true")
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        bash(boundary, "true")
        with pytest.raises(FileNotFoundError):
            boundary.spawn(["there-is-no-such-program"], cwd=str(world.work))
        with pytest.raises(FileNotFoundError):
            boundary.spawn(["true"], cwd=str(world.work / "nowhere"))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_a_command_that_is_known_to_read_alone_can_change_nothing(make_boundary: MakeBoundary, world: World) -> None:
    boundary, file = make_boundary(), world.work / "file"
    file.write_text("kept", encoding="utf-8")
    script = "echo x > file; echo y > new; rm -f file; cat file; echo z > $TMPDIR/own && cat $TMPDIR/own"
    words = {"cwd": str(world.work), "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}
    with boundary.spawn(["bash", "-c", script], protection="workspace", **words) as started:  # type: ignore[arg-type]
        assert started.communicate(timeout=TIMEOUT)[0] == b"keptz\n"
    assert os.listdir(world.work) == ["file"]
    assert bash(boundary, "echo x > file", world.work) == (0, "")


def test_exit_codes_come_through(make_boundary: MakeBoundary, world: World) -> None:
    assert bash(make_boundary(), "exit 37")[0] == 37


def test_an_environment_that_was_forgotten_is_a_scrubbed_one(
    make_boundary: MakeBoundary, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "hush")
    boundary = make_boundary()
    assert "hush" not in bash(boundary, "env")[1]
    assert "given=1" in bash(boundary, "env", env={"given": "1", "PATH": os.environ["PATH"]})[1]


def test_a_gate_of_the_caller_is_waited_at_and_the_limits_are_on_by_then(
    make_boundary: MakeBoundary, world: World
) -> None:
    boundary = make_boundary(most_processes=500)
    entry, gate = os.pipe()
    env = {"PATH": os.environ["PATH"], "BASH_ENV": f"/proc/self/fd/{entry}"}
    script = f"ulimit -u; cat /proc/{os.getpid()}/task/*/environ 2>/dev/null | wc -c; env | grep -c BASH_ENV"
    args = ["bash", "-c", script]
    started = boundary.spawn(
        args, cwd=str(world.work), env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=(entry,)
    )
    os.close(entry)
    time.sleep(0.2)
    assert started.poll() is None
    os.write(gate, b"unset BASH_ENV")
    os.close(gate)
    assert started.communicate(timeout=TIMEOUT)[0].split() == [b"500", b"0", b"0"]


def test_a_script_in_memory_runs(make_boundary: MakeBoundary, world: World) -> None:
    script = os.memfd_create("script")
    try:
        os.write(script, b"echo from memory")
        args = ["bash", f"/proc/self/fd/{script}"]
        started = make_boundary().spawn(args, cwd="/", stdout=subprocess.PIPE, pass_fds=(script,))
        assert started.communicate(timeout=TIMEOUT)[0] == b"from memory\n"
    finally:
        os.close(script)


# Limits


def test_limits_are_on_before_the_command_begins(make_boundary: MakeBoundary, world: World) -> None:
    assert bash(make_boundary(most_processes=500), "ulimit -u; ulimit -c", world.work) == (0, "500\n0\n")


def test_limits_hold_without_a_boundary_too(world: World) -> None:
    boundary = choose("off", False, world.confinement(most_processes=500))
    try:
        assert bash(boundary, "ulimit -u", world.work) == (0, "500\n")
    finally:
        boundary.close()


# Programs


@pytest.mark.parametrize(
    ("program", "script"),
    [
        ("git", "git init -q && git status -s && echo fine"),
        (
            "node",
            'node -e \'require("child_process").execSync("echo >n"); console.log("fine")\'',
        ),
        ("make", "printf 'all:\\n\\t@echo fine\\n' >Makefile && make -s -j2"),
        ("gcc", "echo 'int main(void){return 0;}' >m.c && gcc m.c -o m && ./m && echo fine"),
    ],
)
def test_everyday_programs_work_inside(make_boundary: MakeBoundary, world: World, program: str, script: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    assert bash(make_boundary(), script, world.work) == (0, "fine\n")


def test_pytest_runs_inside(make_boundary: MakeBoundary, world: World) -> None:
    (world.work / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'a').write_text('a')\n", encoding="utf-8"
    )
    code, output = bash(
        make_boundary(), f"{sys.executable} -m pytest -c /dev/null -p no:cacheprovider test_it.py", world.work
    )
    assert code == 0 and "1 passed" in output


# Several, and the end


def test_two_boundaries_with_different_fences_hold_at_once(world: World) -> None:
    one, two = world.folder / "one", world.folder / "two"
    one.mkdir()
    two.mkdir()
    boundaries = [boundary_or_skip("landlock", Confinement(writable=(str(path),))) for path in (one, two)]
    try:

        def both(boundary: Boundary, number: int) -> None:
            bash(boundary, f"for d in {one} {two}; do echo x >$d/by-{number}; done")

        threads = [threading.Thread(target=both, args=(b, n)) for n, b in enumerate(boundaries) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (os.listdir(one), os.listdir(two)) == (["by-0"], ["by-1"])
    finally:
        for boundary in boundaries:
            boundary.close()


def test_many_commands_at_once(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary()
    collected: list[tuple[int, str]] = []
    threads = [
        threading.Thread(target=lambda n=n: collected.append(bash(boundary, f"echo {n} | tee f{n}", world.work)))
        for n in range(30)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(text) for code, text in collected) == list(range(30))
    assert len(os.listdir(world.work)) == 30


@pytest.mark.parametrize("mode", ["namespaces"])
def test_a_command_outlives_the_thread_that_asked_and_ends_with_the_boundary(world: World, mode: Mode) -> None:
    boundary = boundary_or_skip(mode, world.confinement())
    started: list[subprocess.Popen[bytes]] = []
    asking = threading.Thread(target=lambda: started.append(boundary.spawn(["sleep", "600"], cwd=str(world.work))))
    asking.start()
    asking.join()
    time.sleep(0.3)
    assert started[0].poll() is None
    boundary.close()
    assert started[0].wait(TIMEOUT) != 0


def test_a_command_whose_prepared_process_is_killed_is_started_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    boundary = boundary_or_skip("namespaces", world.confinement())
    assert isinstance(boundary, NamespaceBoundary)
    killed: list[int] = []
    run, send = launcher_client.Prepared.run, launcher_client._send

    def stop_first(prepared: launcher_client.Prepared, *rest: Any) -> None:
        if not killed:
            os.kill(prepared.pid, signal.SIGSTOP)
        current.append(prepared)
        run(prepared, *rest)

    def kill_after_sending(*rest: Any) -> None:
        send(*rest)
        if current and not killed and rest[0] is current[0].control:
            killed.append(current[0].pid)
            os.kill(current[0].pid, signal.SIGKILL)

    current: list[launcher_client.Prepared] = []
    monkeypatch.setattr(launcher_client.Prepared, "run", stop_first)
    monkeypatch.setattr(launcher_client, "_send", kill_after_sending)
    assert bash(boundary, "echo here") == (0, "here\n")
    assert len(killed) == 1 and len(current) == 2
    boundary.close()


def test_this_program_stays_free(make_boundary: MakeBoundary, world: World) -> None:
    before = _restrictions()
    boundary = make_boundary()
    bash(boundary, "true")
    assert _restrictions() == before
    world.file.write_text("ours to change", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)):
        pass


def _restrictions() -> list[str]:
    status = Path("/proc/thread-self/status").read_text(encoding="utf-8")
    return [line for line in status.splitlines() if line.startswith(("NoNewPrivs", "Seccomp", "CapEff"))]


# Choosing


def test_off_says_that_nothing_is_held(world: World) -> None:
    boundary = choose("off", False, world.confinement())
    assert boundary.name == "none" and "switched off" in boundary.description
    assert bash(boundary, f"echo x >{world.file}")[0] == 0
    boundary.close()


def test_a_required_boundary_that_cannot_be_had_is_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NoSandbox) as error:
        choose("off", True, world.confinement())
    assert error.value.code == "no_sandbox"
    monkeypatch.setenv("PATH", str(world.work))  # no bash here
    with pytest.raises(NoSandbox) as error:
        choose("landlock", True, world.confinement())
    assert "not installed" in error.value.facts["why"]


def test_auto_takes_namespaces_and_each_weaker_one_says_why(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(boundary_or_skip("namespaces", world.confinement())):
        pass
    with contextlib.closing(choose("auto", True, world.confinement())) as boundary:
        assert boundary.name.startswith("namespaces") and "do not work here" not in boundary.description

    def refuse(_: Confinement) -> Boundary:
        raise NoNamespaces("the kernel lets only root create user namespaces", "")

    monkeypatch.setitem(cast("dict[str, Any]", choosing._BOUNDARIES), "namespaces", refuse)
    with contextlib.closing(choose("auto", False, world.confinement())) as boundary:
        assert not boundary.name.startswith("namespaces")
        assert "the kernel lets only root create user namespaces" in boundary.description
    monkeypatch.setenv("PATH", "/dev/null")
    with contextlib.closing(choose("auto", False, world.confinement())) as boundary:
        assert boundary.name == "none"
        for reason in ("only root create", "bash is not installed"):
            assert reason in boundary.description


def test_each_layer_is_tried_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    layers = {layer.name: layer for layer in try_layers()}
    assert list(layers) == ["namespaces", "landlock"]
    for layer in layers.values():
        assert layer.why and (layer.works or layer.fix), layer
    assert os.listdir(tmp_path) == []


# The launcher


def test_nothing_outlives_a_program_that_is_killed(world: World) -> None:
    """`kill -9` of the program: its launcher and all commands, also those that have left their shell, are gone."""
    boundary_or_skip("namespaces", world.confinement()).close()
    code = f"""
import subprocess, sys, time
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.namespaces import NamespaceBoundary
boundary = NamespaceBoundary(Confinement(writable=({str(world.work)!r},)))
script = "setsid sleep 7777 >/dev/null 2>&1 & touch begun; sleep 7777"
boundary.spawn(["bash", "-c", script], cwd={str(world.work)!r})
print("started", flush=True)
time.sleep(600)
"""
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert program.stdout is not None and program.stdout.readline() == b"started\n"
    until = time.monotonic() + TIMEOUT
    while not (world.work / "begun").exists() and time.monotonic() < until:
        time.sleep(0.01)
    below = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _has_ancestor(pid, program.pid)]
    assert len(below) >= 4  # the launcher, the init, the shell and what it started
    program.kill()
    program.communicate()
    while any(os.path.exists(f"/proc/{pid}") for pid in below) and time.monotonic() < until:
        time.sleep(0.01)
    assert [pid for pid in below if os.path.exists(f"/proc/{pid}")] == []


def _has_ancestor(pid: int, wanted: int) -> bool:
    return wanted in iterate_ancestors(pid)


def test_a_launcher_that_was_killed_is_started_anew(world: World) -> None:
    boundary = boundary_or_skip("namespaces", world.confinement())
    try:
        launchers = [pid for pid in list_children(os.getpid()) or () if "import launcher" in read_command_line(pid)]
        for pid in launchers:
            os.kill(pid, signal.SIGKILL)
        for pid in launchers:  # a command that begins while they die would end with them
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert bash(boundary, "echo again", world.work) == (0, "again\n")
    finally:
        boundary.close()


def test_a_workspace_that_was_replaced_is_the_new_one(world: World) -> None:
    boundary = boundary_or_skip("namespaces", world.confinement())
    try:
        bash(boundary, "echo old >a", world.work)
        world.work.rename(world.folder / "past")
        world.work.mkdir()
        assert bash(boundary, "ls; echo new >b", world.work) == (0, "")
        assert os.listdir(world.work) == ["b"] and os.listdir(world.folder / "past") == ["a"]
    finally:
        boundary.close()


def test_an_overlay_takes_the_place_of_the_workspace(world: World) -> None:
    """As a draft has it: all that a command changes is in the upper directory."""
    boundary_or_skip("namespaces", world.confinement()).close()
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="handrail-test-") as result:
        top = Path(os.path.realpath(result))
        lower, upper = top / "lo,w:er", top / "drafts/one/upper"
        for path in (lower, upper, upper.parent / "work"):
            path.mkdir(parents=True)
        (lower / "a").write_text("kept", encoding="utf-8")
        boundary = NamespaceBoundary(Confinement(writable=(str(lower),), drafts=str(top / "drafts")))
        try:
            words = ["bash", "-c", "cat a; echo changed >a; echo new >b; ls"]
            draft = DraftLayers(str(lower), "one")
            with boundary.spawn(words, cwd=str(lower), draft=draft, stdout=subprocess.PIPE) as started:
                assert started.communicate()[0] == b"kepta\nb\n"
        finally:
            boundary.close()
        assert (lower / "a").read_text(encoding="utf-8") == "kept" and os.listdir(lower) == ["a"]
        assert sorted(os.listdir(upper)) == ["a", "b"]
        subprocess.run(["chmod", "-R", "u+rwx", str(top)], check=True)


@pytest.mark.parametrize(
    ("step", "number", "settings", "why", "fix"),
    [
        ("unshare", errno.ENOSPC, {}, "limit of user namespaces", "max_user_namespaces"),
        ("unshare", errno.EPERM, {}, "container", "seccomp"),
        ("unshare", errno.EPERM, {"unprivileged_userns_clone": "0"}, "only root", "unprivileged_userns_clone"),
        ("unshare", errno.EINVAL, {}, "no user namespaces", "CONFIG_USER_NS"),
        ("uid_map", errno.EPERM, {"apparmor_restrict_unprivileged_userns": "1"}, "AppArmor", "apparmor_restrict"),
        ("propagation", errno.EACCES, {"apparmor_restrict_unprivileged_userns": "1"}, "AppArmor", "apparmor_restrict"),
        ("proc", errno.EPERM, {}, "/proc is partly covered", "systempaths"),
        ("mount_setattr", errno.ENOSYS, {}, "mount_setattr", "Linux 5.12"),
        ("pivot_root", errno.EINVAL, {}, "root directory", "disk"),
    ],
)
def test_each_refusal_has_its_own_reason_and_fix(
    step: str, number: int, settings: dict[str, str], why: str, fix: str
) -> None:
    actual = explain(SetUpFailed(number, step, ""), lambda path: settings.get(path.rpartition("/")[2], ""))
    assert why in actual.why and fix in actual.fix


def test_a_limit_of_namespaces_is_met_for_real(world: World) -> None:
    """In a user namespace whose own limit is 0, as a person without root can set it up."""
    if os.geteuid() == 0 or shutil.which("unshare") is None:
        pytest.skip("root needs no user namespace; or there is no unshare program")
    code = f"""
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.namespaces import NamespaceBoundary
try:
    NamespaceBoundary(Confinement(writable=({str(world.work)!r},)))
except OSError as error:
    print(error)
"""
    script = 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set -all "$@"'
    words = ["unshare", "-Ur", "bash", "-c", script, "bash", sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        pytest.skip(f"no user namespace for the test: {done.stderr.decode()}")
    assert b"limit of user namespaces" in done.stdout
