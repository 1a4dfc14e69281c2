"""Confined threads: what they can reach, and that nobody else notices; and the filter, run as the kernel runs it."""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from handrail.shell.git.settings import make_git_environment, run_git
from handrail.shell.sandbox import seccomp
from handrail.shell.sandbox.confinement import Confinement, split_trees
from handrail.shell.sandbox.landlock import LEAST, create_ruleset, get_version, restrict

T = TypeVar("T")

needs_landlock = pytest.mark.skipif(
    get_version() < LEAST, reason=f"landlock {LEAST} or later is needed, this kernel has {get_version()}"
)


def run_confined(confinement: Confinement, tmp: Path, work: Callable[[], T]) -> T:
    """The outcome of ``work`` in a thread of its own, which Landlock confines."""

    def start() -> T:
        ruleset = create_ruleset(confinement, str(tmp))
        try:
            restrict(ruleset)
        finally:
            os.close(ruleset)
        return work()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(start).result()


def folders(tmp_path: Path) -> tuple[Path, Path]:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("kept", encoding="utf-8")
    return inside, outside


@needs_landlock
def test_a_confined_thread_writes_inside_and_not_outside_and_others_do_both(tmp_path: Path) -> None:
    inside, outside = folders(tmp_path)
    tmp = tmp_path / "private"
    tmp.mkdir()

    def confined(work: Callable[[], object]) -> object:
        return run_confined(Confinement(writable=(str(inside),)), tmp, work)

    assert confined(lambda: (inside / "a").write_text("a", encoding="utf-8")) == 1
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
            confined(attack)
        assert refused.value.errno in (errno.EACCES, errno.EXDEV)
    assert os.listdir(outside) == ["file"]
    (outside / "file").write_text("from the main thread", encoding="utf-8")
    other = threading.Thread(target=lambda: (outside / "other").write_text("x", encoding="utf-8"))
    other.start()
    other.join()
    assert (outside / "other").exists()


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
    with pytest.raises(OSError, match="takes over"):
        split_trees([str(tmp_path)], [str(tmp_path / "3")], most=10)


def test_a_path_with_a_nul_is_no_path() -> None:
    with pytest.raises(ValueError, match=r"NUL|null"):
        Confinement(writable=("a\0b",))


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
