"""No command reads or changes what Handrail keeps for itself, by whatever name, in each boundary of this machine."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Setup
from handrail.policy.files import find_approved_file
from handrail.shell.sandbox.choose import choose
from handrail.shell.sandbox.confinement import Confinement, find_all_names
from tests.shell.own_places import BOUNDARIES, SECRET, User, made_user, run, shows

READINGS = {
    "by its path": "cat {path}",
    "by a relative path": "cat ../{relative}",
    "by a redirection": "cat <{path}",
    "by a computed path": "python3 -c \"print(open(bytes.fromhex('{hex}')).read())\"",
    "by the root of this process": "cat /proc/self/root{path}",
    "by the root of Handrail": "cat /proc/{pid}/root{path}",
    "by the directory of Handrail": "cat /proc/{pid}/cwd/../../../../../../..{path}",
    "by an open file of Handrail": "cat /proc/{pid}/fd/{fd} /proc/{pid}/task/*/fd/{fd}",
    "by a link": "ln -s {path} link; cat link",
    "by a link to the directory": "ln -s {folder} way; cat way/*",
    "by a hard link": "ln {path} hard; cat hard",
    "by moving it": "mv {path} here; cat here",
    "by moving the directory": "mv {folder} moved; cat moved/*",
    "by a mount": "mkdir m; mount --bind {folder} m; cat m/*",
    "by a mount in a new namespace": "mkdir m; unshare -Urm sh -c 'mount --bind {folder} m; cat m/*'",
    "by looking for the name": "find {top} /proc/self/root{top} -name {name} -exec cat {{}} +",
    "by an archive": "tar cf - {folder} | cat",
    "by a copy": "cp -r {folder} copy; cat copy/*",
    "from the directory itself": "cd {folder} && cat *",
    "after opening it to all": "chmod -R 777 {folder}; cat {path}",
    "by a new process": "setsid -w sh -c 'cat {path}'",
}


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> Iterator[User]:
    with made_user(monkeypatch) as result:
        yield result


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_nothing_of_handrails_own_can_be_read_by_whatever_name(user: User, sandbox: str) -> None:
    with user.session(sandbox, mode="full") as session:
        for path in user.files():
            text = path.read_bytes()
            assert shows(path, text.decode("utf-8", "replace")), f"{path} holds no secret to be found"
            fd = os.open(path, os.O_RDONLY)
            facts = {
                "path": path,
                "relative": os.path.relpath(path, user.work.parent),
                "hex": str(path).encode().hex(),
                "folder": path.parent,
                "name": path.name,
                "top": user.work.parent,
                "pid": os.getpid(),
                "fd": fd,
            }
            tries = [f"echo; echo '{how}:'; ({command.format(**facts)}); rm -rf *" for how, command in READINGS.items()]
            try:
                output = run(session, "\n".join(tries))
            finally:
                os.close(fd)
            assert len(READINGS) == sum(f"{how}:" in output.splitlines() for how in READINGS)
            assert not shows(path, output), f"{path.name} was read: {output}"
            assert path.read_bytes() == text


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_search_through_the_whole_disk_does_not_open_the_journal(user: User, sandbox: str) -> None:
    mine = f"'*/{user.work.parent.name}/*'"  # other users of this machine may have journals of their own
    wanted = f"-path {mine} -path '*/contents/*' -type f"
    find = f"timeout 30 find / -maxdepth 9 -path /proc -prune -o {wanted} -exec cat {{}} +"
    with user.session(sandbox, mode="full") as session:
        output = run(session, f"{find}; echo over")
    assert output.endswith("over\n")
    assert not shows(Path("contents"), output)


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_what_lies_beside_is_read_as_before_and_what_is_made_there_later_too(user: User, sandbox: str) -> None:
    beside = user.state.parent / "beside.txt"
    beside.write_text("plain", encoding="utf-8")
    with user.session(sandbox, mode="full") as session:
        assert run(session, f"cat {beside}") == "plain"
        later = user.state.parent / "later.txt"
        later.write_text("later", encoding="utf-8")
        folder = user.config.parent / "other"
        folder.mkdir()
        (folder / "settings").write_text("other", encoding="utf-8")
        assert run(session, f"cat {later} {folder}/settings") == "laterother"
        assert run(session, "python3 -c 'import json; print(json.dumps(1))'; ls / >/dev/null && echo listed") == (
            "1\nlisted\n"
        )


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_command_reads_the_long_output_of_its_own_session(user: User, sandbox: str) -> None:
    with user.session(sandbox, mode="full") as session:
        first = session.call("Bash", {"command": "seq 1 30000"})
        if first.error and first.error.code == "no_sandbox":
            pytest.skip(f"this boundary cannot be had on this machine: {first.text}")
        log = first.data["log"]
        again = session.call("Bash", {"command": f"tail -n 1 {log}"})
        if again.data["exit_code"]:  # without mounts the answer names the real place
            place = again.text.partition("Commands find these files in ")[2].rpartition(".)")[0]
            again = session.call("Bash", {"command": f"tail -n 1 {place}/{os.path.basename(log)}"})
        assert again.text.strip() == "30000"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
@pytest.mark.parametrize(
    "command",
    [
        "echo 'rules = []' >{config}/approved.toml",
        "echo x >>{config}/policy.toml",
        "mkdir -p {config} && echo x >{config}/new.toml",
        "rm -rf {config}",
        "mv {config} away",
        "mkdir -p {state}/trust && echo x >{state}/trust/x",
        "mkdir -p {state}/approvers; python3 -c \"import socket; socket.socket(1).bind('{state}/approvers/1-a.sock')\"",
        "rm -rf {state}",
        "truncate -s 0 {state}/journal/journal.db",
    ],
)
def test_nothing_of_handrails_own_can_be_changed(user: User, sandbox: str, command: str) -> None:
    with user.session(sandbox, mode="full") as session:
        assert session.services.command_host().boundary  # makes a private home for commands, and records the remotes
        before = _tree(user)
        run(session, command.format(config=user.config, state=user.state))
        assert _tree(user) == before


def _tree(user: User) -> dict[str, bytes]:
    collected = {}
    for top in (user.state, user.config):
        for path in sorted(top.rglob("*")):
            if not {"locks", "drafts"} & set(path.parts) and "test" not in path.name:  # these two are Handrail's work
                is_file = stat.S_ISREG(path.lstat().st_mode)
                collected[str(path)] = path.read_bytes() if is_file else b""
    return {name: data for name, data in collected.items() if "artefacts/" not in name or "1-2-3" in name}


@pytest.mark.parametrize("sandbox", ["namespaces"])
def test_inside_the_workspace_mounts_hide_it(monkeypatch: pytest.MonkeyPatch, sandbox: str) -> None:
    with made_user(monkeypatch, inside=True) as user, user.session(sandbox, mode="full") as session:
        for path in user.files():
            output = run(session, f"cat {path}; echo x >>{path}; rm -f {path}")
            assert not shows(path, output)
            assert shows(path, path.read_bytes().decode("utf-8", "replace"))


@pytest.mark.parametrize("sandbox", ["namespaces"])
def test_settings_that_are_not_there_yet_cannot_be_made_inside_the_workspace(
    monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    with made_user(monkeypatch, inside=True) as user:
        for path in user.files()[-2:]:
            path.unlink()
        user.config.rmdir()
        user.config.parent.rmdir()
        with user.session(sandbox, mode="full") as session:
            run(session, f"mkdir -p {user.config}; echo 'rules = []' >{find_approved_file(os.environ)}")
        assert not os.path.exists(find_approved_file(os.environ))


def test_inside_the_workspace_landlock_cannot_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with made_user(monkeypatch, inside=True) as user, user.session("landlock", mode="accept-edits") as session:
        run(session, "true")
        assert "so every command is asked about" in session.services.command_host().boundary.description


def test_landlock_is_no_reason_to_ask_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives no drafts, so whatever does not only read is asked about, as without a sandbox."""
    with made_user(monkeypatch) as user, user.session("landlock", mode="accept-edits") as session:
        for command in ("make", "mkdir x", "./tool", "python3 -c 1"):
            verdict = session.prepare("Bash", {"command": command}).verdict
            assert (verdict.decision, verdict.rule) == ("ask", "mode accept-edits: ordinary")
            assert verdict.advice.startswith("in a draft it could be undone")
        for command in ("ls", "cat a.txt | head -3", "git status"):
            assert session.prepare("Bash", {"command": command}).verdict.decision == "allow"
    with made_user(monkeypatch) as user, user.session("landlock", mode="full") as session:
        assert session.prepare("Bash", {"command": "make"}).verdict.decision == "allow"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_workspace_inside_the_state_directory_works_and_hides_the_rest(
    monkeypatch: pytest.MonkeyPatch, sandbox: str
) -> None:
    with made_user(monkeypatch) as user:
        work = user.state / "scratch" / "work"
        work.mkdir(parents=True)
        moved = User(work, user.state, user.config)
        with moved.session(sandbox, mode="full") as session:
            assert run(session, "echo here >x; cat x") == "here\n"
            for path in user.files():
                assert not shows(path, run(session, f"cat {path}"))


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_a_path_that_a_rule_denies_outside_of_the_workspace_is_hidden_from_programs(user: User, sandbox: str) -> None:
    from handrail.policy.files import parse

    outside = user.state.parent / "others"
    outside.mkdir()
    (outside / "principals.toml").write_text(SECRET, encoding="utf-8")
    rules = [parse(f'rules = ["deny Read(/{outside})"]', "p.toml", "user")]
    with user.session(sandbox, mode="full", setup=Setup(rules=rules)) as session:
        assert SECRET not in run(session, f"python3 -c \"print(open('{outside}/principals.toml').read())\"")


def test_settings_inside_the_workspace_are_asked_about_under_landlock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command could write `approved.toml` there, so none runs unasked."""
    with made_user(monkeypatch) as user:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(user.work))
        with user.session("landlock", mode="accept-edits") as session:
            run(session, "true")
            assert session.prepare("Bash", {"command": "make"}).verdict.decision == "ask"
        monkeypatch.setenv("XDG_CONFIG_HOME", str(user.config.parent))
        monkeypatch.setenv("HANDRAIL_CONFIG", str(user.work / "settings.toml"))
        with user.session("landlock", mode="accept-edits") as session:
            assert session.prepare("Bash", {"command": "make"}).verdict.decision == "ask"


@pytest.mark.parametrize("sandbox", BOUNDARIES)
def test_handrail_itself_is_out_of_reach(user: User, sandbox: str) -> None:
    """Its memory, its open files, its limits and its life."""
    code = f"""
import ctypes, os, resource
pid = {os.getpid()}
libc = ctypes.CDLL(None, use_errno=True)
def tried(work):
    try:
        return "done" if work() not in (-1, False) else "refused"
    except OSError:
        return "refused"
class Vec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
room = ctypes.create_string_buffer(64)
ours, theirs = Vec(ctypes.addressof(room), 64), Vec({id(SECRET)}, 64)
print(tried(lambda: open(f"/proc/{{pid}}/mem", "rb").read(1)))
print(tried(lambda: open(f"/proc/{{pid}}/environ", "rb").read(1)))
print(tried(lambda: libc.ptrace(16, pid, 0, 0)))
print(tried(lambda: libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)))
print(tried(lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (3600000, 3600000))))
print(tried(lambda: os.readlink(f"/proc/{{pid}}/fd/1")))
print(tried(lambda: libc.ioctl(0, 0x5412, b"x")))
"""
    (user.work / "attack.py").write_text(code, encoding="utf-8")
    with user.session(sandbox, mode="full") as session:
        assert run(session, "python3 attack.py").split() == ["refused"] * 7


def test_a_second_mount_of_the_same_files_is_another_name(tmp_path: Path) -> None:
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        "2 1 8:2 / /srv rw - ext4 /dev/sda2 rw\n"
        "3 1 8:2 /ann /mnt/an\\040n rw - ext4 /dev/sda2 rw\n"
        "4 1 8:2 /bob /mnt/bob rw - ext4 /dev/sda2 rw\n"
        "5 1 8:1 / /old rw - ext4 /dev/sda1 rw\n",
        encoding="utf-8",
    )
    state = "/srv/ann/.local/state/handrail"
    assert find_all_names([state], str(table)) == (state, "/mnt/an n/.local/state/handrail")
    assert find_all_names(["/opt/x"], str(table)) == ("/opt/x", "/old/opt/x")
    assert find_all_names([state], str(tmp_path / "none")) == (state,)


def test_many_files_beside_a_hidden_one_do_not_use_up_descriptors(user: User) -> None:
    for number in range(1500):
        (user.state.parent / f"file-{number}").touch()
    (user.state.parent / "file-1499").write_text("last", encoding="utf-8")
    before = len(os.listdir("/proc/self/fd"))
    with user.session("landlock", mode="full") as session:
        assert run(session, f"cat {user.state.parent}/file-1499") == "last"
        assert len(os.listdir("/proc/self/fd")) < before + 100


def test_without_a_boundary_nothing_is_claimed(tmp_path: Path) -> None:
    boundary = choose("off", False, Confinement((str(tmp_path),)))
    assert not boundary.hides_own
    boundary.close()
