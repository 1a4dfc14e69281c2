"""Promise 4: what is reported as done survives a power cut, because everything was synced first, in the right order.

A power cut cannot be had in a test. What can be seen is the order of the system calls: the file's bytes are synced
before it gets its name, the directory is synced after that, and only then does the call answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import tracing
from tests.promises.crash_driver import END
from tests.promises.test_crash import OLD, SCENES, Driver, build, prior

pytestmark = pytest.mark.skipif(bool(tracing.why_not()), reason=tracing.why_not())


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("locks"))
    yield driver
    driver.close()


def trace(driver: Driver, name: str, tmp_path: Path, durable: bool) -> list[str]:
    """What one call did, as `fsync PATH`, `rename`, `mkdir` and `end`, in order."""
    scene, root, log = SCENES[name], tmp_path / "root", tmp_path / "log"
    target = build(root, scene)
    watched = (tracing.SYNC, tracing.RENAME, tracing.MKDIR, tracing.ACCESS)
    strace = ["-y", *tracing.only(*watched), "-o", str(log)]
    answer = driver.ask(root, (scene.tool, scene.arguments), strace, prior(scene), durable=durable)
    assert answer["result"]["status"] == "ok" and target.read_bytes() == scene.after != (None if scene.creates else OLD)
    collected = []
    for line in log.read_text(encoding="utf-8").splitlines():
        if match := re.search(r"f(?:data)?sync\(\d+<(.*?)>\)", line):
            collected.append("fsync " + re.sub(r"\.handrail-\w+", "TEMP", match[1].removeprefix(f"{root}")))
        elif call_of(line) in tracing.RENAME:
            collected.append("rename")
        elif call_of(line) in tracing.MKDIR and str(root) in line:
            collected.append("mkdir")
        elif END in line:
            collected.append("end")
    assert collected[-1] == "end", "the end of the call is not in the trace"
    return collected


def call_of(line: str) -> str:
    match = re.match(r"(?:\d+\s+)?(\w+)\(", line)
    return match[1] if match else ""


@pytest.mark.parametrize("name", ["write_grow", "edit_shrink", "multi_edit_grow"])
def test_the_file_is_synced_before_the_rename_and_the_directory_after_it(
    driver: Driver, tmp_path: Path, name: str
) -> None:
    assert trace(driver, name, tmp_path, durable=True) == ["fsync /TEMP", "rename", "fsync ", "end"]


def test_a_new_file_in_a_new_directory_is_synced_with_all_directories_above_it(driver: Driver, tmp_path: Path) -> None:
    assert trace(driver, "write_new", tmp_path, durable=True) == [
        "mkdir",
        "fsync ",
        "mkdir",
        "fsync /new",
        "fsync /new/deep/TEMP",
        "rename",
        "fsync /new/deep",
        "end",
    ]


@pytest.mark.parametrize("name", ["write_grow", "write_new", "edit_shrink", "multi_edit_grow"])
def test_without_durable_nothing_is_synced(driver: Driver, tmp_path: Path, name: str) -> None:
    assert not [step for step in trace(driver, name, tmp_path, durable=False) if step.startswith("fsync")]
