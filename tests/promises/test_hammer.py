"""Promise 6: no edit that was reported is lost between sessions, and no write of a stranger is destroyed by ours.

The strangers add unique lines and never drop one: the appender in place, the renamer by carrying over everything that
it read. So a line of theirs that is missing in the end was destroyed by us. (The renamer may well destroy *our* edits:
it reads, then renames, and nothing can stop it.)
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import sizes
from tests.command import TIMEOUT

pytestmark = pytest.mark.slow

DRIVER = Path(__file__).with_name("hammer_driver.py")
EDITS = sizes.pick(30, 60)


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(DRIVER), *map(str, words)], stdout=subprocess.PIPE, text=True)


def ended(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0
    return output


def lined(root: Path, writers: int, edits: int) -> Path:
    path = root / "f.txt"
    lines = [f"todo {who}-{number} end\n" for number in range(edits) for who in range(writers)]
    path.write_text("".join(lines), encoding="ascii")
    return path


def hammered(root: Path, dialect: str, writers: int, edits: int) -> dict[str, list[str]]:
    """What became of every edit, by the code of its answer."""
    processes = [start("writer", root, dialect, who, edits) for who in range(writers)]
    ends: dict[str, list[str]] = {}
    for process in processes:
        for code, result in json.loads(ended(process)).items():
            ends.setdefault(code, []).extend(result)
    return ends


@pytest.mark.parametrize(("writers", "edits"), [(8, sizes.pick(15, 50)), (4, sizes.pick(40, 150))])
def test_all_edits_of_many_processes_are_in_the_file(
    tmp_path: Path, figure: Callable[..., None], writers: int, edits: int
) -> None:
    path = lined(tmp_path, writers, edits)
    ends = hammered(tmp_path, "native", writers, edits)
    lines = path.read_text(encoding="ascii").splitlines()
    figure(edits=writers * edits, present=sum(line.startswith("done") for line in lines))
    assert {code: len(result) for code, result in ends.items()} == {"ok": writers * edits}
    assert sorted(lines) == sorted(ends["ok"])
    assert [line.split()[1] for line in lines] == [f"{w}-{n}" for n in range(edits) for w in range(writers)]


def test_in_the_claude_dialect_every_edit_is_present_or_was_refused(
    tmp_path: Path, figure: Callable[..., None]
) -> None:
    path = lined(tmp_path, 4, EDITS)
    ends = hammered(tmp_path, "claude", 4, EDITS)
    done = {line for line in path.read_text(encoding="ascii").splitlines() if line.startswith("done")}
    figure(
        edits=4 * EDITS, present=len(done), stale={code: len(result) for code, result in ends.items() if code != "ok"}
    )
    assert set(ends) <= {"ok", "refused", "changed_since"}
    assert done == set(ends["ok"])
    assert len(ends["ok"]) + len(ends.get("changed_since", ())) == 4 * EDITS
    assert ends.get("refused"), "no edit met a file that had changed: nothing was tested"


def against_stranger(root: Path, kind: str, *naive: str) -> tuple[int, int, dict[str, list[str]], list[str]]:
    """Edits beside a stranger: how many lines it wrote, how many are missing, what became of ours, what is there."""
    path, stop = lined(root, 1, 150), root.parent / f"{root.name}.stop"
    stranger = start(kind, path, stop)
    try:
        ends = json.loads(ended(start("writer", root, "native", 0, 150, *naive)))
    finally:
        stop.touch()
        tokens = json.loads(ended(stranger))
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    return len(tokens), len(set(tokens) - set(lines)), ends, lines


@pytest.mark.parametrize("kind", ["appender", "renamer"])
def test_no_write_of_a_program_that_ignores_our_locks_is_destroyed(
    tmp_path: Path, figure: Callable[..., None], kind: str
) -> None:
    wrote = destroyed = collected = rounds = 0
    while rounds < sizes.pick(1, 4) or (
        min(wrote, collected) <= 50 and rounds < 10
    ):  # a busy machine needs more rounds
        root = tmp_path / f"{rounds}"
        rounds += 1
        root.mkdir()
        tokens, missing, ends, lines = against_stranger(root, kind)
        wrote, destroyed, collected = wrote + tokens, destroyed + missing, collected + len(ends.get("ok", ()))
        assert set(ends) <= {"ok", "changed_since", "busy"}
        assert [path.name for path in root.iterdir()] == ["f.txt"], "a version had to be kept aside"
        if kind == "appender":  # it carries nothing over, so that our edits must all be there too
            assert {f"{edit}\n" for edit in ends["ok"]} <= set(lines)
    figure(stranger=kind, wrote=wrote, destroyed=destroyed, edits_made=collected)
    assert destroyed == 0
    assert wrote > 50 and collected > 50, "they hardly met"


@pytest.mark.parametrize("kind", ["appender", "renamer"])
def test_a_check_followed_by_a_rename_does_destroy_such_writes(
    tmp_path: Path, figure: Callable[..., None], kind: str
) -> None:
    """The control: the same stranger against the usual way of writing, to show that the test above can fail."""
    wrote = destroyed = 0
    for number in range(10):
        root = tmp_path / f"{number}"
        root.mkdir()
        tokens, missing, _, _ = against_stranger(root, kind, "naive")
        wrote, destroyed = wrote + tokens, destroyed + missing
        if destroyed:
            break
    figure(stranger=kind, wrote=wrote, destroyed_by_the_naive_way=destroyed)
    assert destroyed > 0
