"""Output of commands: passing tests and progress are folded, everything else stays, and the rest is one call away."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session
from handrail.tools.shared.fold_output import fold

Make = Callable[..., Session]
PASSED = {
    "pytest": [f"tests/test_a.py {'.' * 40} [{n}%]" for n in range(10, 100, 5)],
    "pytest -v": [f"tests/test_a.py::test_one[{n} x] PASSED      [ {n}%]" for n in range(20)],
    "unittest": [f"test_{n} (tests.test_a.Case) ... ok" for n in range(20)],
    "cargo": ["running 20 tests", *(f"test tests::case_{n} ... ok" for n in range(20))],
    "go": [line for n in range(10) for line in (f"=== RUN   TestA{n}", f"--- PASS: TestA{n} (0.00s)")],
    "jest": [f"  ✓ adds {n} (1 ms)" for n in range(20)],
    "node": [f"✔ case {n} (0.1ms)" for n in range(20)],
    "tap": [f"ok {n} - case" for n in range(20)],
}
FAILED = (
    "tests/test_a.py::test_two FAILED [ 4%]",
    "test_3 (tests.test_a.Case) ... FAIL",
    "test tests::case ... FAILED",
    "--- FAIL: TestB (0.01s)",
    "  ✕ breaks (2 ms)",
    "✖ broken (1ms)",
    "not ok 5 - case",
    "tests/test_a.py ...F.. [ 40%]",
    "E       assert 1 == 2",
    "warning: unused variable `ok`",
)


@pytest.mark.parametrize("runner", PASSED)
@pytest.mark.parametrize("failed", FAILED)
def test_a_failure_among_passing_tests_stays_to_the_letter(runner: str, failed: str) -> None:
    rows = PASSED[runner]
    folded = fold("\n".join([*rows[:7], failed, *rows[7:], "summary of it all"]))
    assert folded.text == f"{failed}\nsummary of it all"
    assert folded.left == len(rows)


def test_few_lines_and_lines_of_other_kinds_are_shown() -> None:
    for text in ("\n".join(PASSED["cargo"][:5]), "one\ntwo\n\n\nthree", "", "\n" * 30, "50% of it\nis here"):
        assert fold(text) == (text, 0)


def test_repeated_lines_are_counted_and_progress_keeps_its_first_and_last_line() -> None:
    assert fold("a\n" + "same\n" * 12 + "b") == ("a\nsame\n(repeated 12 times)\nb", 0)
    progress = "\n".join(f"[{n}/40] Building src/x.o {n * 100 // 40}%" for n in range(1, 41))
    folded = fold(f"start\n{progress}\nwarning: here\nend")
    assert folded.text.splitlines()[0] == "start" and folded.left == 38
    assert "[1/40]" in folded.text and "[40/40]" in folded.text and folded.text.endswith("warning: here\nend")


def test_long_lines_stay_as_they_are_and_cost_little() -> None:
    text = "\n".join(["::" * 500_000, "a.py " + "." * 400_000, "1/1 " * 200_000, "9" * 1_000_000] * 8)
    assert fold(text) == (text, 0)


def test_all_green_is_one_line_and_the_rest_one_call_away(make_session: Make, tmp_path: Path) -> None:
    tests = "\n".join(f"def test_{n}(): assert {n} == {n}" for n in range(300))
    (tmp_path / "test_all.py").write_text(tests, encoding="utf-8")
    session = make_session(durable=False)
    result = session.call(
        "Bash", {"command": f"{sys.executable} -m pytest -v -p no:cacheprovider -p no:hypothesispytest test_all.py"}
    )
    assert "300 passed" in result.text and len(result.text) < 400, result.text
    log = re.search(r"/large_tool_results/[\w.-]+", result.text)
    assert log
    again = session.call("Grep", {"pattern": "test_137", "path": log[0], "output_mode": "content"})
    assert "PASSED" in again.text
