"""One lock for each path, taken only to commit: unrelated files never wait, and computing a change blocks nobody."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handrail import Result, Session, tools
from handrail.errors import Busy
from handrail.files import locks as locks_module
from handrail.files.locks import KeyFiles, Keys, Locks, Ranges, get_lock_key
from handrail.files.recovery import recover

Make = Callable[..., Session]
KINDS = [pytest.param(kind, id=kind.__name__) for kind in (Ranges, KeyFiles)]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Keys]:
    """Either kind of lock, as if the system had no other."""
    keys: type[Keys] = request.param
    if keys is Ranges and not hasattr(fcntl, "F_OFD_SETLK"):
        pytest.skip("this system has no locks on ranges that belong to a descriptor")
    monkeypatch.setattr("handrail.files.locks.open_keys", keys)
    return keys


def locks(state: Path, wait: float = 30.0) -> Locks:
    return Locks(str(state / "locks"), recover, wait)


def edit(session: Session, name: str, old: str, new: str) -> Result:
    return session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})


def same_stripe(folder: Path) -> tuple[str, str]:
    """Two files that shared one of 256 locks."""
    seen: dict[bytes, str] = {}
    for number in range(10_000):
        path = str(folder / f"f{number}")
        stripe = hashlib.sha256(os.fsencode(path.casefold())).digest()[3:4]
        if stripe in seen:
            return seen[stripe], path
        seen[stripe] = path
    raise AssertionError("no two of them share a stripe")


def test_files_that_once_shared_a_lock_do_not_wait_for_each_other(tmp_path: Path, kind: type[Keys]) -> None:
    one, other = same_stripe(tmp_path)
    with locks(tmp_path).hold([one]), locks(tmp_path, wait=0.0).hold([other]):
        with pytest.raises(Busy), locks(tmp_path, wait=0.0).hold([one]):
            pass
        assert not locks(tmp_path).free([one])
    assert locks(tmp_path).free([one, other])


def test_nothing_to_hold_waits_for_nobody(tmp_path: Path, kind: type[Keys]) -> None:
    with locks(tmp_path, wait=0.0).hold([]), locks(tmp_path, wait=0.0).hold([]):
        assert locks(tmp_path).free([])


def test_threads_with_one_session_exclude_each_other(tmp_path: Path, kind: type[Keys]) -> None:
    shared, inside, most = locks(tmp_path), [0], [0]

    def work(names: list[str]) -> None:
        for _ in range(30):
            with shared.hold(names):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                inside[0] -= 1

    orders = (["/a", "/b", "/c"], ["/c", "/b"], ["/b", "/a"], ["/b"])
    threads = [threading.Thread(target=work, args=(names,)) for names in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_nothing_stays_open_and_no_file_stays_for_a_path(tmp_path: Path, kind: type[Keys]) -> None:
    before = len(os.listdir("/dev/fd"))
    many = [Locks(str(tmp_path / "locks"), recover, 1.0) for _ in range(1000)]
    for number, one in enumerate(many):
        with one.hold([f"/some/file{number}"]):
            pass
    assert len(os.listdir("/dev/fd")) == before
    assert set(os.listdir(tmp_path / "locks")) <= {"ranges"}


@pytest.mark.skipif(not hasattr(fcntl, "F_OFD_SETLK"), reason="no locks on ranges here")
def test_many_files_are_held_with_two_descriptors(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with locks(tmp_path).hold(f"/some/file{number}" for number in range(2000)):
        assert len(os.listdir("/dev/fd")) == before + 2


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_system_without_locks_on_ranges_gets_a_file_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    before = len(os.listdir("/dev/fd"))
    assert isinstance(locks_module.open_keys(str(tmp_path)), KeyFiles)
    assert len(os.listdir("/dev/fd")) == before


HOLDER = """
import os, sys
from handrail.files.recovery import recover
from handrail.files import locks
locks.open_keys = getattr(locks, sys.argv[2])
with locks.Locks(os.path.join(sys.argv[1], "locks"), recover, 30.0).hold(sys.argv[4:]) as held:
    if sys.argv[3]:
        import json
        held.intend(json.loads(sys.argv[3]))
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def holder(state: Path, kind: type[Keys], *paths: str, intents: str = "") -> Iterator[subprocess.Popen[str]]:
    """A process that holds locks until it is ended."""
    command = [sys.executable, "-c", HOLDER, str(state), kind.__name__, intents, *paths]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def test_a_process_excludes_another_and_its_death_lets_go(tmp_path: Path, kind: type[Keys]) -> None:
    with holder(tmp_path, kind, "/a", "/b"):
        for path in ("/a", "/b"):
            with pytest.raises(Busy), locks(tmp_path, wait=0.0).hold([path]):
                pass
        with locks(tmp_path, wait=0.0).hold(["/c"]):
            pass
    with locks(tmp_path, wait=30.0).hold(["/a", "/b"]):
        pass
    assert set(os.listdir(tmp_path / "locks")) <= {"ranges"}


@pytest.mark.parametrize("mine", [["b"], ["a"], ["a", "b", "c"], []])
def test_what_a_dead_process_had_begun_is_ended_by_who_takes_any_of_its_files(
    tmp_path: Path, kind: type[Keys], mine: list[str]
) -> None:
    """Also by who waited for it, and so looked before it died; without a file of it, a sweep does."""
    temp = ".handrail-0123456789abcdef"
    (tmp_path / temp).write_bytes(b"half")
    place = tmp_path.stat()
    part = [str(tmp_path), place.st_dev, place.st_ino, "new     ", temp, "a", f"{0:016x}", None, "digest"]
    intent: dict[str, Any] = {"doing": "write", "parts": [part]}
    paths = [str(tmp_path / name) for name in ("a", "b")]
    with holder(tmp_path, kind, *paths, intents=json.dumps([intent])) as process:
        locks(tmp_path).sweep()
        assert (tmp_path / temp).exists(), "it lives, and nobody may touch what is its own"
        waiting = locks(tmp_path)
        if mine:
            done = threading.Event()

            def take() -> None:
                with waiting.hold([str(tmp_path / name) for name in mine]):
                    assert not (tmp_path / temp).exists()
                    done.set()

            thread = threading.Thread(target=take)
            thread.start()
            process.kill()
            thread.join()
            assert done.is_set()
        else:
            process.kill()
            process.wait()
            waiting.sweep()
    assert not (tmp_path / temp).exists()
    assert set(os.listdir(tmp_path / "locks")) <= {"ranges"} | {f"{get_lock_key(p):016x}.lock" for p in paths}


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"5", b"[1]", b"{}", b'[{"keys": 7}]', b'[{"keys": [-1, "x", null]}]', b"\0" * 9]
)
def test_a_record_that_is_none_stops_nobody(tmp_path: Path, kind: type[Keys], raw: bytes) -> None:
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / f"{get_lock_key('/a'):016x}").write_bytes(raw)
    with locks(tmp_path, wait=1.0).hold(["/a"]):
        pass
    (tmp_path / "locks" / f"{get_lock_key('/b'):016x}").write_bytes(raw)
    locks(tmp_path).sweep()
    assert set(os.listdir(tmp_path / "locks")) <= {"ranges"}


def run_edit(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Callable[[], Any], Any], Any]) -> None:
    """Each run of Edit goes through ``wrap``, which gets the run itself and the arguments."""
    load = tools.load
    real = load("edit")
    wrapped = replace(real, run=lambda args, ctx: wrap(lambda: real.run(args, ctx), args))
    monkeypatch.setattr(tools, "load", lambda name: wrapped if name == "edit" else load(name))


@pytest.mark.parametrize("other", ["b.txt", "a.txt"])
def test_a_change_that_takes_long_to_compute_blocks_no_other(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"one\ntwo\n")
    slow, quick = make_session(durable=False), make_session(durable=False, lock_seconds=0.0)
    for session in (slow, quick):
        session.call("Read", {"file_path": "a.txt"})
        session.call("Read", {"file_path": "b.txt"})
    reached, go = threading.Event(), threading.Event()
    runs: list[str] = []

    def wait(run: Callable[[], Any], _: Any) -> Any:
        outcome = run()
        if threading.current_thread().name == "slow":
            runs.append("slow")
            reached.set()
            go.wait()
        return outcome

    run_edit(monkeypatch, wait)
    done: list[Result] = []
    thread = threading.Thread(target=lambda: done.append(edit(slow, "a.txt", "one", "1")), name="slow")
    thread.start()
    reached.wait()
    result = edit(quick, other, "two", "2")
    go.set()
    thread.join()
    assert (result.error, done[0].error) == (None, None)
    assert (tmp_path / "a.txt").read_bytes() == (b"1\n2\n" if other == "a.txt" else b"1\ntwo\n")
    assert len(runs) == (2 if other == "a.txt" else 1), "overtaken, it computes its change again, and else not"


def test_who_is_overtaken_again_and_again_gets_its_turn(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another call changes the file during every run; then the lock is taken first, and it must wait."""
    (tmp_path / "a.txt").write_bytes(b"one\n0\n")
    slow, quick = make_session(durable=False), make_session(durable=False, lock_seconds=0.0)
    for session in (slow, quick):
        session.call("Read", {"file_path": "a.txt"})
    ends: list[str] = []

    def overtake(run: Callable[[], Any], args: Any) -> Any:
        outcome = run()
        if args.old_string == "one":
            number = len(ends)
            result = edit(quick, "a.txt", f"{number}\n", f"{number + 1}\n")
            ends.append(result.error.code if result.error else "ok")
        return outcome

    run_edit(monkeypatch, overtake)
    assert edit(slow, "a.txt", "one", "1").status in ("ok", "partial")
    assert ends == ["ok", "ok", "ok", "busy"]
    assert (tmp_path / "a.txt").read_bytes() == b"1\n3\n"


def test_a_failure_that_saw_half_of_another_call_is_not_believed(
    make_session: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that another call takes away for a moment and puts back, because it cannot finish, was never gone."""
    (tmp_path / "a.txt").write_bytes(b"one\n")
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    moments = iter([True])

    def disturb(run: Callable[[], Any], _: Any) -> Any:
        if not next(moments, False):
            return run()
        (tmp_path / "a.txt").rename(tmp_path / "away")
        try:
            return run()
        finally:
            (tmp_path / "away").rename(tmp_path / "a.txt")

    run_edit(monkeypatch, disturb)
    assert edit(session, "a.txt", "one", "1").status == "ok"
    assert (tmp_path / "a.txt").read_bytes() == b"1\n"


def test_threads_of_one_session_on_one_file_lose_no_edit(make_session: Make, tmp_path: Path) -> None:
    lines = [f"todo {who}-{number}\n" for number in range(15) for who in range(4)]
    (tmp_path / "a.txt").write_text("".join(lines), encoding="ascii")
    session = make_session(durable=False)
    session.call("Read", {"file_path": "a.txt"})
    ends: list[str | None] = []

    def work(who: int) -> None:
        for number in range(15):
            result = edit(session, "a.txt", f"todo {who}-{number}\n", f"done {who}-{number}\n")
            ends.append(result.error.code if result.error else None)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [None] * 60
    assert (tmp_path / "a.txt").read_text(encoding="ascii") == "".join(lines).replace("todo", "done")
