"""Promise 3: a write is all or nothing, wherever it is killed and whichever system call fails.

A clean run of each call is traced first; then it is run again for every system call in the trace, killed there, or
with that call failing. strace counts from the moment it is attached, which is just before the call under test.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import sizes, tracing
from tests.command import TIMEOUT
from tests.promises.crash_driver import END

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not()),
]

DRIVER = Path(__file__).with_name("crash_driver.py")
OLD = "".join(f"line {number} of the old file\n" for number in range(400)).encode("ascii")
TEXT = OLD.decode("ascii")
WRITE_SIDE = {"write", "pwrite64", "ftruncate", "fchmod", "fchown", "fsetxattr", "fremovexattr", "fsync", "fdatasync"}
WRITE_SIDE |= {"rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "mkdir", "mkdirat", "flock"}
MEMORY = {"mmap", "munmap", "mremap", "brk", "madvise", "mprotect", "futex", "getrandom", "rt_sigaction", "read"}


@dataclass(frozen=True)
class Scene:
    """One call on a file, and what the file holds if it is made."""

    tool: str
    arguments: dict[str, Any]
    after: bytes
    creates: bool = False


def _edited(*pairs: tuple[str, str]) -> bytes:
    text = TEXT
    for old, new in pairs:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text.encode("ascii")


_GROW = ("line 200 of the old file", "line 200\n" + "grown by this line\n" * 300)
_SHRINK = ("".join(TEXT.splitlines(keepends=True)[40:350]), "shrunk\n")
_SMALL = ("line 7 of the old file", "seven")


def _edit(file_path: str, *pairs: tuple[str, str]) -> dict[str, Any]:
    edits = [{"old_string": old, "new_string": new} for old, new in pairs]
    return {"file_path": file_path, "edits": edits} if len(pairs) > 1 else {"file_path": file_path, **edits[0]}


SCENES = {
    "write_grow": Scene("Write", {"file_path": "a.txt", "content": TEXT * 2}, OLD * 2),
    "write_shrink": Scene("Write", {"file_path": "a.txt", "content": TEXT[:100]}, OLD[:100]),
    "write_new": Scene("Write", {"file_path": "new/deep/a.txt", "content": TEXT}, OLD, creates=True),
    "edit_grow": Scene("Edit", _edit("a.txt", _GROW), _edited(_GROW)),
    "edit_shrink": Scene("Edit", _edit("a.txt", _SHRINK), _edited(_SHRINK)),
    "multi_edit_grow": Scene("MultiEdit", _edit("a.txt", _SMALL, _GROW), _edited(_SMALL, _GROW)),
    "multi_edit_shrink": Scene("MultiEdit", _edit("a.txt", _SMALL, _SHRINK), _edited(_SMALL, _SHRINK)),
}


@dataclass(frozen=True)
class Step:
    """One system call of the clean run: the ``nth`` of that name."""

    name: str
    nth: int
    line: str

    @property
    def writes(self) -> bool:
        return self.name in WRITE_SIDE or "O_CREAT" in self.line


class Driver:
    """One driver process; answers one job at a time."""

    def __init__(self, state: Path) -> None:
        self.state = str(state)
        command = [sys.executable, str(DRIVER), self.state]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._busy = threading.Lock()

    def ask(
        self, root: Path, call: tuple[str, dict[str, Any]], strace: list[str], before: str = "", **options: Any
    ) -> dict[str, Any]:
        prior = [("Read", {"file_path": before})] if before else []
        job = {"root": str(root), "state": self.state, "before": prior, "call": call, "strace": strace, **options}
        with self._busy:
            assert self._process.stdin and self._process.stdout
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=TIMEOUT)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Driver]]:
    drivers = [Driver(tmp_path_factory.mktemp("locks")) for _ in range(3)]
    yield drivers
    for driver in drivers:
        driver.close()


def build(root: Path, scene: Scene) -> Path:
    """A workspace with an old file that has an owner, a mode and an attribute to be kept."""
    root.mkdir()
    (root / "other.txt").write_bytes(b"untouched\n")
    target: Path = root / scene.arguments["file_path"]
    if not scene.creates:
        target.write_bytes(OLD)
        target.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(target, 12345, 12345)
        try:
            os.setxattr(target, "user.note", b"kept")
        except OSError as error:
            print(f"no extended attributes here ({error}): fsetxattr is not among the points")
    return target


def traced(driver: Driver, scene: Scene, tmp_path: Path) -> list[Step]:
    """The system calls of a clean run, in order."""
    root, log = tmp_path / "clean", tmp_path / "clean.strace"
    target = build(root, scene)
    answer = driver.ask(root, (scene.tool, scene.arguments), ["-o", str(log)], prior(scene))
    assert answer["result"]["status"] == "ok" and target.read_bytes() == scene.after
    return steps_of(log)


def steps_of(log: Path) -> list[Step]:
    steps: list[Step] = []
    seen: Counter[str] = Counter()
    for line in log.read_text(encoding="utf-8").splitlines():
        match = re.match(r"(?:\d+\s+)?(\w+)\(", line)
        if not match:
            continue
        name = match[1]
        seen[name] += 1
        steps.append(Step(name, seen[name], line))
        if END in line:
            return steps
    raise AssertionError("the end of the call is not in the trace")


def prior(scene: Scene) -> str:
    return "other.txt" if scene.creates else scene.arguments["file_path"]


def strays(root: Path) -> list[str]:
    return [str(path) for path in root.rglob(".handrail-*")]


def points(steps: list[Step]) -> list[tuple[int, str]]:
    """Which faults to try at which step: a kill anywhere, an error wherever something is written, or read back."""
    collected = []
    for place, step in enumerate(steps):
        if step.name == "read":  # the signal to begin
            continue
        collected.append((place, "signal=KILL"))
        if step.writes:
            collected += [(place, "error=ENOSPC"), (place, "error=EIO")]
        if step.name in ("write", "pwrite64"):
            collected.append((place, "retval=5"))
        elif not step.writes and step.name not in MEMORY and END not in step.line:
            collected.append((place, "error=EIO"))
    return collected


def chosen(steps: list[Step]) -> list[tuple[int, str]]:
    """The faults to try in this run: all of them, or a bounded sample.

    The sample has every kill at a step that writes, where a torn file would come from, there one of the two errors in
    turn (`ENOSPC`, `EIO`), every short write, and a few of the kills and errors at all other steps.
    """
    actual = points(steps)
    if sizes.LONG:
        return actual
    writes = [place for place, step in enumerate(steps) if step.writes]
    skipped = {(place, ("error=ENOSPC", "error=EIO")[number % 2]) for number, place in enumerate(writes)}
    others = [point for point in actual if not steps[point[0]].writes]
    kept = set(sizes.spread(others, 10))
    return [point for point in actual if point in kept or (steps[point[0]].writes and point not in skipped)]


def inject(step: Step, fault: str, watched: str, log: Path) -> list[str]:
    """The options for one fault, and a trace that also tells whether the call ``watched`` was made."""
    return ["-e", f"trace={step.name},{watched}", "-e", f"inject={step.name}:{fault}:when={step.nth}", "-o", str(log)]


def was_made(log: Path, watched: str, holding: str = "") -> bool:
    """Whether a call returned before the end of this very run.

    Asked of the run that was killed: how often a lease is tried depends on the moment, so that the same number of a
    call may stand before the decisive one in one run and behind it in the next.
    """
    lines = log.read_text(encoding="utf-8").splitlines()
    return any(f"{watched}(" in line and holding in line and re.search(r"= \d+$", line) for line in lines)


@pytest.mark.parametrize("name", SCENES)
def test_a_write_is_all_or_nothing_wherever_it_is_killed_or_fails(
    name: str, drivers: list[Driver], tmp_path: Path, figure: Callable[..., None]
) -> None:
    scene = SCENES[name]
    steps = traced(drivers[0], scene, tmp_path)
    todo = chosen(steps)
    counts: Counter[str] = Counter()
    wrong: list[str] = []

    def attempt(number: int) -> None:
        place, fault = todo[number]
        step, driver = steps[place], drivers[number % len(drivers)]
        root, log = tmp_path / f"{number}", tmp_path / f"{number}.strace"
        target = build(root, scene)
        answer = driver.ask(root, (scene.tool, scene.arguments), inject(step, fault, "renameat2", log), prior(scene))
        actual = target.read_bytes() if target.exists() else None
        old = None if scene.creates else OLD
        problem = verdict(answer, actual, old, scene.after, after_moment=was_made(log, "renameat2"), left=strays(root))
        mend = driver.ask(root, ("Read", {"file_path": "other.txt"}), [])
        if mend["result"]["status"] != "ok":
            problem = problem or f"the next call failed: {mend['result']['text']}"
        if strays(root):
            problem = problem or f"stray after the next call: {strays(root)}"
        if (target.read_bytes() if target.exists() else None) != actual:
            problem = problem or "the next call changed the file"
        counts[fault] += 1
        counts["write-side"] += step.writes
        if problem:
            text = answer["result"] and answer["result"]["text"]
            wrong.append(f"{problem}: {fault} at {step.line} ({step.nth}); answer {text}")
        shutil.rmtree(root)
        log.unlink()

    with ThreadPoolExecutor(len(drivers)) as pool:
        list(pool.map(attempt, range(len(todo))))
    figure(scene=name, points=len(todo), faults=dict(counts), wrong=len(wrong))
    assert not wrong, "\n".join(wrong)
    assert counts["signal=KILL"] > 10 and counts["error=ENOSPC"] > 5 and counts["retval=5"] >= 3


def test_a_plain_write_is_torn_by_the_same_faults(
    drivers: list[Driver], tmp_path: Path, figure: Callable[..., None]
) -> None:
    """The control: open, empty and write, under the same faults, to show that the test above can fail."""
    scene = Scene("naive", SCENES["write_grow"].arguments, SCENES["write_grow"].after)
    steps = traced(drivers[0], scene, tmp_path)
    torn = 0
    for number, (place, fault) in enumerate(points(steps)):
        root = tmp_path / f"{number}"
        target = build(root, scene)
        step = steps[place]
        inject = ["-e", f"trace={step.name}", "-e", f"inject={step.name}:{fault}:when={step.nth}", "-o", "/dev/null"]
        drivers[0].ask(root, (scene.tool, scene.arguments), inject, "other.txt")
        torn += target.read_bytes() not in (OLD, scene.after)
    figure(points=number + 1, torn_by_the_naive_way=torn)
    assert torn > 0


def test_a_call_killed_while_it_mends_is_mended_by_the_next(
    drivers: list[Driver], tmp_path: Path, figure: Callable[..., None]
) -> None:
    scene, read = SCENES["edit_grow"], ("Read", {"file_path": "other.txt"})
    driver = drivers[0]
    root = tmp_path / "root"  # always the same, so that there is one lock file, and the trace stays the same
    killed = ["-e", "trace=fsync", "-e", "inject=fsync:signal=KILL:when=2", "-o", "/dev/null"]  # after the exchange

    def broken() -> None:
        shutil.rmtree(root, ignore_errors=True)
        target = build(root, scene)
        assert driver.ask(root, (scene.tool, scene.arguments), killed, "a.txt")["exit"] == -9
        assert len(strays(root)) == 1 and target.read_bytes() == scene.after

    log = tmp_path / "mending.strace"
    for _ in range(2):  # the first round creates what later rounds find
        broken()
        driver.ask(root, read, ["-o", str(log)])
    assert not strays(root)
    steps = steps_of(log)
    assert any(step.name in tracing.UNLINK for step in steps)
    for step in sizes.spread(steps, 12):
        if step.name == "read":
            continue
        broken()
        kill = ["-e", f"trace={step.name}", "-e", f"inject={step.name}:signal=KILL:when={step.nth}", "-o", "/dev/null"]
        assert driver.ask(root, read, kill)["exit"] == -9, step.line
        assert driver.ask(root, read, [])["result"]["status"] == "ok"
        assert not strays(root) and (root / "a.txt").read_bytes() == scene.after, step.line
    figure(points=len(steps))


@pytest.mark.parametrize("name", ["write_new", "write_shrink", "edit_grow"])
def test_a_file_system_that_cannot_exchange_is_written_all_the_same(
    name: str, drivers: list[Driver], tmp_path: Path
) -> None:
    scene, root = SCENES[name], tmp_path / "root"
    target = build(root, scene)
    refused = ["-e", "trace=renameat2", "-e", "inject=renameat2:error=EINVAL", "-o", "/dev/null"]
    answer = drivers[0].ask(root, (scene.tool, scene.arguments), refused, prior(scene))
    assert answer["result"]["status"] == "ok", answer
    assert target.read_bytes() == scene.after and not strays(root) and target.stat().st_nlink == 1


def verdict(
    answer: dict[str, Any], actual: bytes | None, old: bytes | None, new: bytes, after_moment: bool, left: list[str]
) -> str:
    """What is wrong with how a call ended, or nothing."""
    if actual not in (old, new):
        return f"TORN, {len(actual or b'')} bytes"
    result = answer["result"]
    if result is None:
        if answer["exit"] != -9:
            return f"the process ended with {answer['exit']}"
        if (actual == new) != after_moment:
            return "killed, and the file is not what it was at that moment"
        return ""
    if left:
        return f"a temporary file was left: {left}"
    if result["status"] == "ok":
        return "" if actual == new else "SILENT SUCCESS: reported as done, and the old file is there"
    return "" if actual == old else "an error was reported, but the file was changed"
