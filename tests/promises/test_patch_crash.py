"""Promise 3 for sets of files: a patch is all or nothing, wherever it is killed and whichever system call fails.

The same way as in `test_crash.py`: a clean run is traced, then run again for every system call of it, killed there or
with that call failing. Right after a kill each file is the old or the new one; after the next call the whole set is.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import sizes, tracing
from tests.promises.test_crash import OLD, Driver, Step, chosen, inject, steps_of, strays, was_made

needs_strace = pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())
PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-line 200 of the old file
+line 200
+and one more
*** Add File: deep/added.txt
+added
*** Update File: old.txt
*** Move to: sub/new.txt
@@
-two
+TWO
*** Delete File: gone.txt
*** Update File: b.txt
@@
-b
+B
*** End Patch
"""
BEFORE: dict[str, bytes] = {"a.txt": OLD, "old.txt": b"one\ntwo\n", "gone.txt": b"gone\n", "b.txt": b"b\n"}
AFTER: dict[str, bytes] = {
    "a.txt": OLD.replace(b"line 200 of the old file", b"line 200\nand one more"),
    "deep/added.txt": b"added\n",
    "sub/new.txt": b"one\nTWO\n",
    "b.txt": b"B\n",
}
WARM = "*** Begin Patch\n*** Add File: warm.txt\n+x\n*** End Patch\n"
WARMER = "*** Begin Patch\n*** Update File: warm.txt\n*** Move to: warm2.txt\n@@\n-x\n+y\n*** End Patch\n"
PRIOR = [("ApplyPatch", {"patch": WARM}), ("ApplyPatch", {"patch": WARMER})]
PRIOR += [("Read", {"file_path": name}) for name in BEFORE]
CALL = ("ApplyPatch", {"patch": PATCH})
NEXT = ("Read", {"file_path": "warm2.txt"})


class PatchDriver(Driver):
    """Makes several preparing calls before the one that is traced."""

    def prepared(self, root: Path, strace: list[str]) -> dict[str, Any]:
        job = {"root": str(root), "state": self.state, "before": PRIOR, "call": CALL, "strace": strace}
        with self._busy:
            assert self._process.stdin and self._process.stdout
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[PatchDriver]]:
    drivers = [PatchDriver(tmp_path_factory.mktemp("locks")) for _ in range(3)]
    yield drivers
    for driver in drivers:
        driver.close()


def build(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, raw in BEFORE.items():
        (root / name).write_bytes(raw)
    (root / "old.txt").chmod(0o751)


def state(root: Path) -> dict[str, bytes]:
    names = {*BEFORE, *AFTER}
    return {name: (root / name).read_bytes() for name in names if (root / name).exists()}


def traced(driver: PatchDriver, root: Path, log: Path) -> list[Step]:
    build(root)
    answer = driver.prepared(root, ["-o", str(log)])
    assert answer["result"]["status"] == "ok", answer
    assert state(root) == AFTER and not strays(root)
    assert (root / "sub/new.txt").stat().st_mode & 0o777 == 0o751
    return steps_of(log)


def problem_of(answer: dict[str, Any], actual: dict[str, bytes], left: list[str]) -> str:
    """What is wrong with how the call ended, or nothing."""
    torn = [name for name, raw in actual.items() if raw not in (BEFORE.get(name), AFTER.get(name))]
    if torn:
        return f"TORN: {torn}"
    if answer["result"] is None:
        return "" if answer["exit"] == -9 else f"the process ended with {answer['exit']}"
    if left:
        return f"a temporary file was left: {left}"
    wanted = AFTER if answer["result"]["status"] == "ok" else BEFORE
    return "" if actual == wanted else f"{answer['result']['status']}, but {sorted(actual)} are there"


@pytest.mark.slow
@needs_strace
def test_a_patch_is_all_or_nothing_wherever_it_is_killed_or_fails(
    drivers: list[PatchDriver], tmp_path: Path, figure: Callable[..., None]
) -> None:
    counts: Counter[str] = Counter()
    wrong: list[str] = []

    def work(number: int) -> None:
        # Each driver in a place of its own, traced there: how many locks a patch takes depends on its paths.
        driver, root = drivers[number], tmp_path / f"{number}"
        steps = traced(driver, root, tmp_path / f"{number}.strace")
        for place, fault in chosen(steps)[number :: len(drivers)]:
            attempt(driver, root, steps[place], fault)

    def attempt(driver: PatchDriver, root: Path, step: Step, fault: str) -> None:
        build(root)
        log = root.with_suffix(".killed")
        answer = driver.prepared(root, inject(step, fault, "pwrite64", log))
        problem = problem_of(answer, state(root), strays(root))
        mend = driver.ask(root, NEXT, [])
        if mend["result"]["status"] != "ok":
            problem = problem or f"the next call failed: {mend['result']['text']}"
        actual = state(root)
        if strays(root):
            problem = problem or f"stray after the next call: {strays(root)}"
        if actual not in (BEFORE, AFTER):
            problem = problem or f"half of the patch is left: {sorted(actual)}"
        # From this record on the set counts as done: a kill before it takes everything back, one behind it nothing.
        decided = was_made(log, "pwrite64", holding="ready")
        if answer["result"] is None and (actual == AFTER) != decided:
            problem = problem or f"killed, and it is not {'done' if decided else 'taken back'}"
        if actual == BEFORE and (root / "old.txt").stat().st_mode & 0o777 != 0o751:
            problem = problem or "the mode was lost"
        counts[fault] += 1
        if problem:
            text = answer["result"] and answer["result"]["text"]
            wrong.append(f"{problem}: {fault} at {step.line} ({step.nth}); answer {text}")

    with ThreadPoolExecutor(len(drivers)) as pool:
        list(pool.map(work, range(len(drivers))))
    figure(points=sum(counts.values()), faults=dict(counts), wrong=len(wrong))
    assert not wrong, "\n".join(wrong)
    assert counts["signal=KILL"] > sizes.pick(30, 150) and counts["error=ENOSPC"] > sizes.pick(15, 30)


def restoring(steps: list[Step]) -> list[Step]:
    """A sample of the steps of a clean-up: those that write, and a few of the others."""
    others = sizes.spread([step for step in steps if not step.writes], 5)
    return [step for step in steps if step.writes or step in others]


@pytest.mark.slow
@needs_strace
@pytest.mark.parametrize("moment", [3, 5, 6, 7])
def test_a_call_killed_while_it_takes_a_patch_back_is_mended_by_the_next(
    moment: int, tmp_path: Path, figure: Callable[..., None]
) -> None:
    driver, root = PatchDriver(tmp_path / "locks"), tmp_path / "root"
    log = tmp_path / "clean.strace"
    steps = traced(driver, root, log)
    swaps = [step for step in steps if step.name == "renameat2"]
    # Killed when some names were changed, or all of them, or when the first of the old files was being removed.
    killing = [*swaps, *(step for step in steps[steps.index(swaps[-1]) :] if step.name in ("fsync", *tracing.UNLINK))]
    kill = killing[min(moment, len(killing) - 1)]

    def broken() -> None:
        build(root)
        assert driver.prepared(root, inject(kill, "signal=KILL", "pwrite64", log))["exit"] == -9

    broken()
    mending = tmp_path / "mending.strace"
    driver.ask(root, NEXT, ["-o", str(mending)])
    ended = state(root)
    assert ended in (BEFORE, AFTER) and not strays(root)
    again = [step for step in steps_of(mending) if step.name != "read"]
    for step in again if sizes.LONG else restoring(again):
        broken()
        assert driver.ask(root, NEXT, inject(step, "signal=KILL", "pwrite64", log))["exit"] == -9, step.line
        assert driver.ask(root, NEXT, [])["result"]["status"] == "ok"
        assert state(root) == ended and not strays(root), step.line
    figure(points=len(again), killed_at=kill.line)
    driver.close()
