"""Matching takes a bounded number of steps, whatever the texts are; steps are counted, not seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from handrail.errors import (
    AlreadyApplied,
    CallCancelled,
    NoMatch,
    ToolError,
    TooMuchWork,
)
from handrail.text import lines
from handrail.text.document import EditPlan, apply_splices
from handrail.text.matching.budget import WorkBudget, limit_work
from handrail.text.matching.find import plan_edit
from handrail.text.matching.omission import refuse_omissions
from handrail.text.patches.locate import locate_hunks
from handrail.text.patches.operations import PatchHunk


def count_calls(run: Callable[[], object]) -> int:
    """How many calls of Python functions ``run`` makes; a `ToolError` ends it."""
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    except ToolError:
        pass
    finally:
        sys.setprofile(before)
    return calls


def rows(count: int, indent: str = "    ") -> list[str]:
    return [f"{indent}value_{number} = compute({number})" for number in range(count)]


def added_after_each(count: int) -> Callable[[], object]:
    text = "\n".join(rows(count)) + "\n"
    shifted = rows(count, "  ")
    return lambda: plan_edit(text, "\n".join(shifted), "\n".join(f"{row}\n  added()" for row in shifted))


def repetitive(count: int) -> Callable[[], object]:
    text = "  x = 1\n  y = 2\n" * count + "z\n"
    return lambda: plan_edit(text, "x = 1 \ny = 2\n" * count + "z\n", "y = 2\nx = 1\n" * count + "z\n")


def nowhere(count: int) -> Callable[[], object]:
    text = "\n".join(rows(count)) + "\n"
    return lambda: plan_edit(text, "\n".join(f"nothing like it {number}" for number in range(count)), "x")


def long_line(count: int) -> Callable[[], object]:
    line = "word " * count
    return lambda: plan_edit(f"{line}'a'\n", f"{line}’a’", f"{line.replace('word', 'term', 5)}’b’")


def added_below(count: int) -> Callable[[], object]:
    return lambda: plan_edit("if a:\n    b()\n    c()\n", "b()", "b()\n" + "    d()\n" * count + "    e()")


def numbered(count: int) -> Callable[[], object]:
    text = "\n".join(rows(count)) + "\n"
    old = "\n".join(f"{number:6}\t{row}" for number, row in enumerate(rows(count), 1))
    return lambda: plan_edit(text, old, old.replace("compute", "calculate", 1))


@pytest.mark.parametrize("make", [added_after_each, repetitive, nowhere, long_line, added_below, numbered])
def test_twice_the_text_takes_about_twice_the_steps(make: Callable[[int], Callable[[], object]]) -> None:
    small, large = count_calls(make(500)), count_calls(make(2000))
    assert large < 6 * small + 2000, (small, large)


def test_a_long_text_that_repeats_itself_is_replaced() -> None:
    plan = repetitive(1000)()
    assert isinstance(plan, EditPlan)
    assert apply_splices("  x = 1\n  y = 2\n" * 1000 + "z\n", plan.splices) == "  y = 2\n  x = 1\n" * 1000 + "z\n"


def test_a_long_text_that_is_nowhere_is_not_found() -> None:
    with pytest.raises(NoMatch):
        nowhere(100)()


def test_edits_of_one_file_look_at_each_of_its_lines_once() -> None:
    text = "\n".join(rows(2000)) + "\n"
    known: dict[str, str] = {}
    first, second = (
        count_calls(partial(plan_edit, text, f"{row} ", f"{row}  # x", known=known))
        for row in (rows(9, "")[7], rows(99, "")[70])
    )
    assert first > 2000 > 2 * second, (first, second)


def test_an_exact_patch_does_not_look_at_the_lines_of_the_file() -> None:
    text = "\n".join(rows(5000)) + "\n"
    row = rows(5000)[2500]
    hunk = PatchHunk((("-", row), ("+", row + "  # x")))
    assert [one.new for one in locate_hunks(text, [hunk]).splices] == ["  # x"]
    assert count_calls(lambda: locate_hunks(text, [hunk])) < 200


def escaped(count: int) -> Callable[[], object]:
    return lambda: plan_edit("a\n" * count, "\\n".join(["b"] * count), "c")


def braces(count: int) -> Callable[[], object]:
    return lambda: plan_edit("}\n" * count + "x\n", " }\n" * (count // 2) + "y", "c")


def quotes(count: int) -> Callable[[], object]:
    line = "word " * count
    return lambda: plan_edit(f"{line}'a'\n", f"{line}’a’", f"{line}’b’")


def composed(count: int) -> Callable[[], object]:
    return lambda: plan_edit("e\u0301a\n" * count, "\u00e9b\n" * count, "c")


def entities(count: int) -> Callable[[], object]:
    return lambda: plan_edit("a<b\n" * count, "a&lt;c\n" * count, "c")


def escaped_lines(count: int) -> Callable[[], object]:
    return lambda: plan_edit("a\n" * count, "\\u00e9\\n" * count + "b", "c")


def short_lines(count: int) -> Callable[[], object]:
    return lambda: plan_edit("a\n" * count, "b\n" * count + "c", "d")


@pytest.mark.parametrize("make", [escaped, braces, quotes, composed, entities, escaped_lines, short_lines])
def test_a_text_of_any_length_is_given_up_within_the_budget(
    make: Callable[[int], Callable[[], object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    real = WorkBudget.spend

    def count(self: WorkBudget, more: int) -> None:
        nonlocal steps
        real(self, more)
        steps += more

    monkeypatch.setattr(WorkBudget, "spend", count)
    with pytest.raises(ToolError), limit_work(steps=200_000):
        make(30_000)()
    assert steps <= 200_000


def test_new_lines_beyond_measure_are_not_judged() -> None:
    with pytest.raises(TooMuchWork):
        added_below(300_000)()


def test_a_text_that_repeats_itself_is_not_compared_at_every_place(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = 0
    real = lines.cuts_word

    def count(text: str, position: int) -> bool:
        nonlocal looked
        looked += 1
        return real(text, position)

    monkeypatch.setattr(lines, "cuts_word", count)
    with pytest.raises((AlreadyApplied, NoMatch)):
        plan_edit("ab" * 20_000, "zz", "ab" * 10_000)
    assert looked < 15_000


def test_what_takes_too_long_is_refused_with_its_own_words() -> None:
    with pytest.raises(TooMuchWork), limit_work(steps=10_000):
        escaped(2_000)()
    with pytest.raises(NoMatch):
        escaped(2_000)()


def test_a_cancelled_call_stops_matching() -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(CallCancelled):
        plan_edit("a\n" * 100, "b\nc", "d", cancel=cancel)


def test_many_lines_that_may_be_omissions_read_the_file_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is looked for in the file."""
    read: list[str] = []
    to_feeds = lines.to_feeds
    monkeypatch.setattr(lines, "to_feeds", lambda text: read.append(text) or to_feeds(text))
    text = "# rest of code\n" * 500 + "x = 1\ny = 2\n"
    refuse_omissions(text, "x = 1\n", "# rest of code\n" * 500)
    assert read.count(text) == 1


def test_comparing_deleted_lines_with_new_ones_is_given_up_within_the_budget() -> None:
    old = "\n".join(rows(200))
    new = "\n".join(["# rest unchanged", *(f"{row} + {number}" for number, row in enumerate(rows(10_000)))])
    with pytest.raises(TooMuchWork):
        refuse_omissions(old, old, new)


def test_many_hunks_below_headers_that_repeat_themselves_search_each_header_once() -> None:
    def headed(count: int) -> Callable[[], object]:
        text = "".join(f"line {number % 50}\n" for number in range(10_000))
        hunks = [
            PatchHunk(headers=(f"line {number % 50}",), rows=(("-", f"line {(number + 1) % 50}"), ("+", "z")))
            for number in range(count)
        ]
        return lambda: locate_hunks(text, hunks)

    few, many = count_calls(headed(100)), count_calls(headed(300))
    assert many - few < 200 * 1000
