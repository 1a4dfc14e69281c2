"""Promise 1, under attack: another process swaps a parent directory for a link to outside, all the time.

In the long run 20,000 reads and 20,000 writes, half of them with the kernel's `openat2` and half with our own walk.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from handrail import system_calls
from handrail.search import ripgrep
from tests import sizes
from tests.command import TIMEOUT
from tests.promises.race_driver import ONLY_OUTSIDE, SECRET

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the attacker exchanges names with Linux's renameat2"),
]

DRIVER = Path(__file__).with_name("race_driver.py")
EACH = sizes.pick(400, 10_000)


@contextlib.contextmanager
def attacked(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A workspace under attack, and the directory outside that it must not reach."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inside").mkdir(parents=True)
    outside.mkdir()
    (root / "inside" / "notes.txt").write_text("inside text\n", encoding="utf-8")
    (outside / "notes.txt").write_text(SECRET + "\n", encoding="utf-8")
    (root / "link").symlink_to(outside)
    command = [sys.executable, str(DRIVER), "attacker", str(root / "inside"), str(root / "link")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin and process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield root, outside
        assert process.poll() is None, "the attacker ended before its time"
    finally:
        process.stdin.close()
        process.wait(timeout=TIMEOUT)
        process.stdout.close()


def run(root: Path, way: str, count: int, side: str = "victim") -> dict[str, int]:
    command = [sys.executable, str(DRIVER), side, str(root), way, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT, check=True)
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize("way", ["openat2", "walk"])
def test_nothing_outside_is_read_or_written_while_a_parent_is_swapped(
    tmp_path: Path, figure: Callable[..., None], way: str
) -> None:
    if way == "openat2" and not system_calls.HAS_OPENAT2:
        pytest.skip("this kernel, or the container, has no openat2; the walk is tested")
    with attacked(tmp_path) as (root, outside):
        ends = run(root, way, EACH)
    figure(way=way, **{code.replace(" ", "_"): count for code, count in sorted(ends.items())})
    assert ends["leaked"] == 0
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"notes.txt": f"{SECRET}\n".encode()}
    for act in ("read", "write", "create"):
        refused = sum(count for code, count in ends.items() if code.startswith(act) and not code.endswith("ok"))
        assert refused > 0 and ends[f"{act} ok"] > 0, f"{act}: the attack did not meet the calls"


def test_a_check_followed_by_an_open_by_name_does_leak(tmp_path: Path, figure: Callable[..., None]) -> None:
    """The control: the same attacker against the usual way, to show that the test above can fail."""
    reads = leaked = 0
    with attacked(tmp_path) as (root, _):
        for _ in range(10):
            ends = run(root, "naive", 5_000)
            reads, leaked = reads + ends.get("read ok", 0), leaked + ends.get("leaked", 0)
            if leaked:
                break
    figure(reads=reads, leaked_by_the_naive_way=leaked)
    assert leaked > 0


@pytest.mark.parametrize("engine", ["ripgrep", "python"])
def test_nothing_outside_is_found_while_a_directory_is_swapped(
    tmp_path: Path, figure: Callable[..., None], engine: str
) -> None:
    if engine == "ripgrep" and ripgrep.find_program() is None:
        pytest.skip("no ripgrep here")
    with attacked(tmp_path) as (root, outside):
        (outside / f"{ONLY_OUTSIDE}.txt").write_text(f"{SECRET}\n", encoding="utf-8")
        ends = run(root, engine, sizes.pick(30, 3_000), "searcher")
    figure(engine=engine, **{code.replace(" ", "_"): count for code, count in sorted(ends.items())})
    assert ends["leaked"] == 0
    assert ends.get("search inside") and ends.get("list inside")


@pytest.mark.skipif(ripgrep.find_program() is None, reason="no ripgrep here")
def test_ripgrep_alone_does_leak(tmp_path: Path, figure: Callable[..., None]) -> None:
    """The control for the searches."""
    searches = leaked = 0
    with attacked(tmp_path) as (root, _):
        for _ in range(20):
            searches, leaked = searches + 100, leaked + run(root, "naive", 100, "searcher")["leaked"]
            if leaked:
                break
    figure(searches=searches, leaked_by_ripgrep_alone=leaked)
    assert leaked > 0
