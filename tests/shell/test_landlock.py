"""Confined threads: what they can reach, and that nobody else notices; and the filter, run as the kernel runs it."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.shell.git.settings import make_git_environment, run_git
from handrail.shell.sandbox import seccomp
from handrail.shell.sandbox.confinement import Confinement, TooWide, list_usual_protected, split_trees
from handrail.shell.sandbox.landlock import LEAST, ConfinedThreads, get_version

needs_landlock = pytest.mark.skipif(
    get_version() < LEAST, reason=f"landlock {LEAST} or later is needed, this kernel has {get_version()}"
)


@pytest.fixture
def confine(tmp_path: Path) -> Iterator[Callable[..., ConfinedThreads]]:
    collected: list[ConfinedThreads] = []
    tmp = tmp_path / "private"
    tmp.mkdir()

    def confined(confinement: Confinement, threads: int = 2) -> ConfinedThreads:
        collected.append(ConfinedThreads(confinement, str(tmp), threads))
        return collected[-1]

    yield confined
    for each in collected:
        each.close()


def folders(tmp_path: Path) -> tuple[Path, Path]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("kept", encoding="utf-8")
    return inside, outside


@needs_landlock
def test_a_confined_thread_writes_inside_and_not_outside_and_others_do_both(
    tmp_path: Path, confine: Callable[..., ConfinedThreads]
) -> None:
    inside, outside = folders(tmp_path)
    confined = confine(Confinement(writable=(str(inside),)))
    assert confined.run(lambda: (inside / "a").write_text("a", encoding="utf-8")) == 1
    for attack in (
        lambda: (outside / "new").write_text("x", encoding="utf-8"),
        lambda: (outside / "file").unlink(),
        lambda: os.truncate(outside / "file", 0),
        lambda: os.rename(outside / "file", inside / "stolen"),
        lambda: os.link(outside / "file", inside / "second"),
        lambda: os.rename(inside / "a", outside / "moved"),
        lambda: os.mkdir(outside / "new"),
        lambda: os.symlink("a", outside / "new"),
    ):
        with pytest.raises(OSError, match=r"denied|Invalid cross-device") as refused:
            confined.run(attack)
        assert refused.value.errno in (errno.EACCES, errno.EXDEV)
    assert os.listdir(outside) == ["file"]
    (outside / "file").write_text("from the main thread", encoding="utf-8")
    other = threading.Thread(target=lambda: (outside / "other").write_text("x", encoding="utf-8"))
    other.start()
    other.join()
    assert (outside / "other").exists()


@needs_landlock
def test_what_the_file_tools_keep_for_themselves_is_theirs_to_write(
    tmp_path: Path, confine: Callable[..., ConfinedThreads]
) -> None:
    inside, outside = folders(tmp_path)
    confined = confine(Confinement(writable=(str(inside),), own=(str(outside),)))
    confined.run(lambda: (outside / "lock").write_text("x", encoding="utf-8"))
    assert (outside / "lock").exists()


@needs_landlock
def test_a_call_of_a_session_runs_in_a_confined_thread(tmp_path: Path, confine: Callable[..., ConfinedThreads]) -> None:
    inside, _ = folders(tmp_path)
    state = tmp_path / "state"
    state.mkdir()
    (inside / "a.txt").write_text("one\n", encoding="utf-8")
    confined = confine(Confinement(writable=(str(inside),), own=(str(state),)))
    with Session(inside, settings=Settings(state=str(state), raise_bugs=True)) as session:
        assert confined.run(lambda: session.call("Read", {"file_path": "a.txt"})).status == "ok"
        edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
        result = confined.run(lambda: session.call("Edit", edit))
        assert result.status == "ok", result.text
    assert (inside / "a.txt").read_text(encoding="utf-8") == "two\n"


@needs_landlock
def test_work_that_asks_for_a_confined_thread_again_does_not_wait_for_itself(
    tmp_path: Path, confine: Callable[..., ConfinedThreads]
) -> None:
    confined = confine(Confinement(writable=(str(tmp_path),)), threads=1)
    assert confined.run(lambda: confined.run(lambda: threading.current_thread().name)).startswith("handrail-confined")


@needs_landlock
def test_a_workspace_that_was_removed_and_made_anew_can_be_written_again(
    tmp_path: Path, confine: Callable[..., ConfinedThreads]
) -> None:
    inside, outside = folders(tmp_path)
    confined = confine(Confinement(writable=(str(inside), str(tmp_path / "later"))))
    confined.run((inside / "a").touch)
    os.rename(inside, tmp_path / "old")
    inside.mkdir()
    (tmp_path / "later").mkdir()
    confined.run((inside / "b").touch)
    confined.run((tmp_path / "later" / "c").touch)
    for place in (outside / "d", tmp_path / "old" / "d"):
        with pytest.raises(PermissionError):
            confined.run(place.touch)


@needs_landlock
def test_more_work_than_threads_is_all_done(tmp_path: Path, confine: Callable[..., ConfinedThreads]) -> None:
    confined = confine(Confinement(writable=(str(tmp_path),)), threads=2)
    names = [str(number) for number in range(20)]
    work = [threading.Thread(target=confined.run, args=((tmp_path / name).touch,)) for name in names]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert all((tmp_path / name).exists() for name in names)


@needs_landlock
def test_an_error_inside_comes_out_as_it_is(tmp_path: Path, confine: Callable[..., ConfinedThreads]) -> None:
    confined = confine(Confinement(writable=(str(tmp_path),)))
    with pytest.raises(ZeroDivisionError):
        confined.run(lambda: 1 // 0)
    assert confined.run(lambda: 1) == 1


@needs_landlock
def test_two_fences_hold_side_by_side(tmp_path: Path, confine: Callable[..., ConfinedThreads]) -> None:
    inside, outside = folders(tmp_path)
    one, two = confine(Confinement(writable=(str(inside),))), confine(Confinement(writable=(str(outside),)))
    one.run(lambda: (inside / "a").touch())
    two.run(lambda: (outside / "a").touch())
    for confined, place in ((one, outside), (two, inside)):
        with pytest.raises(PermissionError):
            confined.run((place / "b").touch)


@needs_landlock
def test_what_our_own_git_is_made_to_run_can_neither_write_nor_connect(tmp_path: Path) -> None:
    inside, _ = folders(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"!echo ran; echo x >made; rm -f kept; (echo x >/dev/tcp/127.0.0.1/{port}) && echo connected"
        (inside / "kept").touch()
        words = ["-c", f"alias.look={script}", "look"]
        code, output = run_git(words, str(inside), make_git_environment())
    assert code > 0 and output == b"ran\n"
    assert os.listdir(inside) == ["kept"]


def test_the_neighbours_of_a_hidden_path_stand_for_the_tree(tmp_path: Path) -> None:
    for name in ("a/b/secret", "a/b/open", "a/c", "d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    trees, split = split_trees([str(tmp_path)], [str(tmp_path / "a/b/secret")])
    assert sorted(trees) == [str(tmp_path / name) for name in ("a/b/open", "a/c", "d")]
    assert split == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/b")]
    assert split_trees([str(tmp_path / "a")], [str(tmp_path)]) == ([], [])
    assert split_trees([str(tmp_path)], []) == ([str(tmp_path)], [])


def test_hiding_beside_too_many_neighbours_is_refused(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / str(number)).touch()
    with pytest.raises(TooWide):
        split_trees([str(tmp_path)], [str(tmp_path / "3")], most=10)


def test_a_path_with_a_nul_is_no_path() -> None:
    with pytest.raises(ValueError, match=r"NUL|null"):
        Confinement(writable=("a\0b",))


def test_hooks_and_start_up_files_are_protected_where_they_are_inside(tmp_path: Path) -> None:
    repository, worktree, plain = (tmp_path / name for name in ("repository", "worktree", "plain"))
    (repository / ".git").mkdir(parents=True)
    worktree.mkdir()
    (worktree / ".git").write_text("gitdir: elsewhere", encoding="utf-8")
    plain.mkdir()
    roots = [str(path) for path in (repository, worktree, plain)]
    listed = list_usual_protected(roots, home=str(plain))
    assert listed[:3] == (f"{repository}/.git/hooks/", f"{repository}/.git/config", f"{worktree}/.git")
    assert f"{plain}/.bashrc" in listed
    assert list_usual_protected(roots, home=str(tmp_path))[3:] == ()


# The filter on system calls


def verdict(code: bytes, machine: int, number: int, *arguments: int) -> int:
    """What the kernel would answer: a small reading of its small language."""
    data = struct.pack("=IIQ6Q", number, machine, 0, *(*arguments, *[0] * (6 - len(arguments))))
    lines = list(struct.iter_unpack("=HBBI", code))
    at = value = 0
    while True:
        kind, yes, no, operand = lines[at]
        at += 1
        if kind == 0x20:
            value = int(struct.unpack_from("=I", data, operand)[0])
        elif kind == 0x54:
            value &= operand
        elif kind == 0x06:
            return int(operand)
        else:
            met = {0x15: value == operand, 0x35: value >= operand, 0x45: bool(value & operand)}[kind]
            at += yes if met else no


ALLOW, KILL = 0x7FFF0000, 0x80000000
DENIED, NOT_PERMITTED, NOT_THERE = (0x50000 | number for number in (errno.EACCES, errno.EPERM, errno.ENOSYS))
X86, ARM = 0xC000003E, 0xC00000B7


@pytest.mark.parametrize(("machine", "name", "column"), [(X86, "x86_64", 0), (ARM, "aarch64", 1)])
def test_the_filter_answers_on_both_kinds_of_machine(machine: int, name: str, column: int) -> None:
    off, on = seccomp.build_program("off", name), seccomp.build_program("on", name)
    socket, pair, clone, ioctl, ptrace, read, openat, execve = (
        numbers[column]
        for numbers in ((41, 198), (53, 199), (56, 220), (16, 29), (101, 117), (0, 63), (257, 56), (59, 221))
    )
    for code in (off, on):
        assert {verdict(code, machine, number) for number in (read, openat, execve)} == {ALLOW}
        assert verdict(code, machine, ptrace) == NOT_PERMITTED
        assert verdict(code, machine, 435) == NOT_THERE
        assert verdict(code, machine, 425) == NOT_PERMITTED
        assert verdict(code, machine, clone, 0x3D0F00) == ALLOW  # a thread
        assert verdict(code, machine, clone, 0x10000000 | 17) == NOT_PERMITTED
        assert [verdict(code, machine, ioctl, 1, request) for request in (0x5401, 0x5412, 0x541C)] == [
            ALLOW,
            NOT_PERMITTED,
            NOT_PERMITTED,
        ]
        assert verdict(code, 0x40000003, 4) == KILL  # 32 bit
        assert verdict(code, X86 if machine == ARM else ARM, read) == KILL
    families = (1, 2, 10, 16, 17, 38, 40)
    assert {verdict(off, machine, socket, family) for family in families} == {DENIED}
    assert [verdict(on, machine, socket, family) for family in families] == [ALLOW] * 4 + [DENIED] * 3
    assert [verdict(off, machine, pair, 1, kind) for kind in (1, 0x80001, 5, 2, 0x80002)] == [ALLOW] * 3 + [DENIED] * 2


def test_the_other_way_into_a_64_bit_kernel_is_closed() -> None:
    assert verdict(seccomp.build_program("on", "x86_64"), X86, 0x40000000 | 1) == NOT_THERE
