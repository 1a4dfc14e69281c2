"""Commands inside a boundary really try what they must not do, through each layer that this machine has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

from handrail.shell.sandbox import Mode
from handrail.shell.sandbox.confinement import Confinement
from tests.shell.boundaries import MakeBoundary, World, bash, boundary_or_skip, python

# Writing


def test_files_in_the_workspace_are_made_changed_moved_and_removed(make_boundary: MakeBoundary, world: World) -> None:
    script = (
        "mkdir -p a/b && echo one >a/b/x && ln -s x a/b/l && ln a/b/x a/y && mv a/b/x top && rm a/y && cat top a/b/l"
    )
    (world.work / "x").write_text("here", encoding="utf-8")
    code, output = bash(make_boundary(), script + " 2>/dev/null; truncate -s 1 top; chmod +x top; ls", world.work)
    assert (code, output) == (0, "one\na\ntop\nx\n")
    assert (world.work / "top").read_text(encoding="utf-8") == "o"


@pytest.mark.parametrize(
    "attack",
    [
        "echo x >{file}",
        "echo x >>{file}",
        "rm -f {file}",
        "truncate -s 0 {file}",
        ": >{outside}/new",
        "mkdir {outside}/new",
        "mv {file} {work}/stolen",
        "mv {work}/mine {outside}/new",
        "mv -f {work}/mine {file}",
        "ln {work}/mine {outside}/new",
        "ln -s {work}/mine {outside}/new",
        "ln {file} {work}/second && echo x >{work}/second",
        "ln -s {outside} {work}/way; echo x >{work}/way/file.txt",
        "ln -s {file} {work}/link; echo x >{work}/link",
        "cd ..; echo x >outside/file.txt",
        "mkfifo {outside}/new",
        "sh -c 'echo x >{file}' & wait",
        "setsid sh -c 'echo x >{file}'; sleep 0.1",
    ],
)
def test_nothing_outside_can_be_written(make_boundary: MakeBoundary, world: World, attack: str) -> None:
    (world.work / "mine").write_text("mine", encoding="utf-8")
    boundary = make_boundary()
    bash(boundary, attack.format(file=world.file, outside=world.outside, work=world.work), world.work)
    assert world.file.read_text(encoding="utf-8") == "kept"
    assert os.listdir(world.outside) == ["file.txt"]


def test_the_mode_of_an_outside_file_is_held_by_mounts_and_not_by_landlock(
    make_boundary: MakeBoundary, world: World
) -> None:
    world.file.chmod(0o600)
    boundary = make_boundary()
    bash(boundary, f"chmod 644 {world.file}")
    changed = world.file.stat().st_mode & 0o777 == 0o644
    assert changed == boundary.name.startswith("landlock")
    assert changed == ("the mode, owner and times of outside files can be changed" in boundary.description)


def test_temporary_files_have_a_private_place_that_the_file_tools_know_by_the_same_name(
    make_boundary: MakeBoundary, world: World
) -> None:
    boundary = make_boundary()
    code, output = bash(boundary, 'made=$(mktemp); echo kept >"$made"; echo "$made"', world.work)
    assert code == 0
    assert Path(output.strip()).read_text(encoding="utf-8") == "kept\n"
    assert output.startswith(boundary.tmp)
    boundary.close()
    assert not os.path.exists(boundary.tmp)


def test_files_for_everybody_in_tmp_stay_out_of_reach(make_boundary: MakeBoundary, world: World) -> None:
    name = f"/tmp/handrail-test-{os.getpid()}"
    bash(make_boundary(), f"echo x >{name}")
    assert not os.path.exists(name)


# Reading


def test_a_hidden_file_cannot_be_read(make_boundary: MakeBoundary, world: World) -> None:
    keys = world.outside / "keys"
    keys.mkdir()
    (keys / "id").write_text("hush", encoding="utf-8")
    boundary = make_boundary(hidden=(str(keys), str(world.file)))
    (world.outside / "link").symlink_to(keys / "id")
    _, output = bash(
        boundary, f"cat {keys}/id {world.file} {world.outside}/link; cp -r {keys} here; ln {world.file} l; cat l"
    )
    assert "hush" not in output and "kept" not in output
    assert not (world.work / "here" / "id").exists()


def test_what_is_beside_a_hidden_file_can_be_read(make_boundary: MakeBoundary, world: World) -> None:
    (world.outside / "open.txt").write_text("open", encoding="utf-8")
    assert bash(make_boundary(hidden=(str(world.file),)), f"cat {world.outside}/open.txt") == (0, "open")


def test_a_file_hidden_inside_the_workspace_is_held_or_the_description_says_that_it_is_not(
    make_boundary: MakeBoundary, world: World
) -> None:
    secret = world.work / ".env"
    secret.write_text("hush", encoding="utf-8")
    boundary = make_boundary(hidden=(str(secret),))
    _, output = bash(boundary, f"cat {secret}")
    assert ("hush" in output) == ("cannot be hidden inside a writable tree" in boundary.description)
    assert boundary.name.startswith("landlock") or "hush" not in output


def test_the_environment_and_memory_of_this_program_cannot_be_read(make_boundary: MakeBoundary, world: World) -> None:
    boundary = make_boundary()
    threads = f"/proc/{os.getpid()}/task/*"
    for _ in range(5):
        _, output = bash(boundary, f"cat {threads}/environ {threads}/maps /proc/{os.getpid()}/environ | wc -c")
        assert output.splitlines()[-1].strip() == "0"


def test_the_raw_disks_are_not_there(make_boundary: MakeBoundary, world: World) -> None:
    disks = [
        name
        for name in os.listdir("/dev")
        if name.startswith(("sd", "vd", "nvme", "loop")) and os.path.exists(f"/dev/{name}")
    ]
    if not disks:
        pytest.skip("this machine shows no disks in /dev")
    _, output = bash(make_boundary(), f"head -c 1 /dev/{disks[0]} | wc -c")
    assert output.splitlines()[-1].strip() == "0"


def test_a_read_only_tree_inside_the_workspace_is_held_or_the_description_says_that_it_is_not(
    request: pytest.FixtureRequest, world: World
) -> None:
    inner = world.work / "vendor"
    inner.mkdir()
    modes: tuple[Mode, ...] = ("namespaces", "landlock")
    for mode in modes:
        boundary = boundary_or_skip(mode, Confinement(writable=(str(world.work),), readable=("/", str(inner))))
        request.addfinalizer(boundary.close)
        bash(boundary, f"echo x >{inner}/{mode}")
        assert (inner / mode).exists() == ("can be changed, being inside a writable tree" in boundary.description)
    assert os.listdir(inner) == ["landlock"]


# Network


def test_no_socket_reaches_anybody(make_boundary: MakeBoundary, world: World) -> None:
    named = f"\0handrail-test-{os.getpid()}-{time.monotonic_ns()}"
    path = str(world.work / "socket")
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as file,
    ):
        abstract.bind(named)
        file.bind(path)
        for server in (abstract, file):
            server.listen()
        code = f"""
import socket
def tried(family, kind, address):
    try:
        with socket.socket(family, kind) as made:
            made.settimeout(2)
            made.connect(address)
            made.send(b"x")
    except OSError as error:
        return error.errno
    return "sent"
tcp = ("127.0.0.1", {tcp.getsockname()[1]})
ip = [(2, 1, tcp), (2, 2, tcp)]
unix = [(1, 1, {named!r}), (1, 1, {path!r}), (1, 2, {path!r})]
others = [(16, 3, (0, 0)), (17, 3, ("lo", 0)), (40, 1, (2, 1))]
for family, kind, address in ip + unix + others:
    print(tried(family, kind, address))
"""
        output = python(make_boundary(), code, world.work).split()
    assert output == ["13"] * 8


def test_a_pair_of_connected_sockets_works(make_boundary: MakeBoundary, world: World) -> None:
    code = "import socket; a, b = socket.socketpair(); a.send(b'yes'); print(b.recv(3).decode())"
    assert python(make_boundary(), code, world.work) == "yes\n"


def test_an_allowed_network_reaches_loopback(make_boundary: MakeBoundary, world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); print('reached')"
        boundary = make_boundary(network="on")
        assert python(boundary, code, world.work) == "reached\n"
        assert "the network is open" in boundary.description


@pytest.mark.parametrize("mode", ["namespaces"])
def test_a_loopback_of_its_own_comes_first_where_namespaces_can_be_had(world: World, mode: Mode) -> None:
    boundary = boundary_or_skip(mode, world.confinement(network="loopback"))
    try:
        with socket.create_server(("127.0.0.1", 0)) as ours:
            code = f"""
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    socket.create_connection(server.getsockname(), 5).close()
print("own")
try:
    socket.create_connection(("127.0.0.1", {ours.getsockname()[1]}), 2)
    print("ours")
except OSError:
    print("refused")
"""
            reached = "ours" if "TCP services on the loopback of this machine" in boundary.description else "refused"
            assert python(boundary, code, world.work) == f"own\n{reached}\n"
    finally:
        boundary.close()


# Protected files


def _list_git_files(world: World) -> list[str]:
    return [str(path) for name in ("hooks", "config") if (path := world.work / ".git" / name).exists()]


@pytest.mark.parametrize("mode", ["namespaces"])
def test_protected_files_are_read_only_whatever_is_moved_around_them(world: World, mode: Mode) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    config = (world.work / ".git" / "config").read_bytes()
    hooks = sorted(os.listdir(world.work / ".git" / "hooks"))
    boundary = boundary_or_skip(mode, world.confinement(protected=lambda: _list_git_files(world)))
    try:
        for attack in (
            "echo x >.git/hooks/pre-commit",
            "echo x >>.git/config",
            "rm -rf .git",
            "mv .git aside; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit",
            "mv .git/hooks aside; mkdir .git/hooks; echo x >.git/hooks/pre-commit",
            "cp .git/config c; mv -f c .git/config",
            "git config core.fsmonitor evil",
        ):
            bash(boundary, attack, world.work, protection="protected")
        assert (world.work / ".git" / "config").read_bytes() == config
        assert sorted(os.listdir(world.work / ".git" / "hooks")) == hooks
    finally:
        boundary.close()


@pytest.mark.parametrize("mode", ["namespaces"])
def test_a_name_that_is_not_there_is_not_created_to_protect_it(world: World, mode: Mode) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    shutil.rmtree(world.work / ".git" / "hooks")
    (world.work / ".git" / "config").unlink()
    boundary = boundary_or_skip(mode, world.confinement(protected=lambda: _list_git_files(world)))
    try:
        before = sorted(os.listdir(world.work / ".git"))
        with boundary.spawn(["sleep", "60"], cwd=str(world.work), protection="protected") as slow:
            time.sleep(0.3)
            assert sorted(os.listdir(world.work / ".git")) == before
            slow.kill()
        assert sorted(os.listdir(world.work / ".git")) == before
    finally:
        boundary.close()


def test_git_can_commit_with_its_hooks_and_configuration_protected(make_boundary: MakeBoundary, world: World) -> None:
    subprocess.run(["git", "init", "-q", str(world.work)], check=True)
    boundary = make_boundary(protected=lambda: _list_git_files(world))
    person = "-c user.name=n -c user.email=e@example.org"
    script = f"echo a >a && git add a && git {person} commit -qm first && git status -s && git log --format=%s"
    assert bash(boundary, script, world.work, protection="protected") == (0, "first\n")
    assert ("not read-only inside the workspace" in boundary.description) == boundary.name.startswith("landlock")
