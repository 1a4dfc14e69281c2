"""Alignments are complete and correct at every length, and `difflib` never gets a long stretch."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text import lines
from tests import sizes

ROWS = st.lists(st.sampled_from(["", "}", "a", "b", "c", "d", "e"]), max_size=25)


def check(before: Sequence[str], after: Sequence[str], codes: Sequence[lines.Opcode]) -> None:
    i = j = 0
    for number, (code, i1, i2, j1, j2) in enumerate(codes):
        assert (i1, j1) == (i, j), "without a gap"
        if code == "equal":
            assert before[i1:i2] == after[j1:j2]
        else:
            assert code == ("replace" if i1 < i2 and j1 < j2 else "delete" if i1 < i2 else "insert")
        assert i1 < i2 or j1 < j2
        assert number == 0 or (codes[number - 1][0] == "equal") != (code == "equal")
        i, j = i2, j2
    assert (i, j) == (len(before), len(after))


@settings(deadline=None, max_examples=sizes.pick(75, 300))
@given(ROWS, ROWS)
def test_short_stretches_are_aligned_as_difflib_does(before: list[str], after: list[str]) -> None:
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    codes = lines.get_opcodes(before, after)
    assert codes == [tuple(code) for code in matcher.get_opcodes()]
    assert lines.group_opcodes(codes, 3) == [list(map(tuple, group)) for group in matcher.get_grouped_opcodes(3)]


@settings(deadline=None, max_examples=sizes.pick(75, 300))
@given(ROWS, ROWS, st.integers(0, 12))
def test_long_stretches_are_aligned_without_a_gap(before: list[str], after: list[str], compared: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "COMPARED", compared)
        check(before, after, lines.get_opcodes(before, after))


def test_far_changes_in_a_long_text_are_found_exactly() -> None:
    before = [f"line {number}" if number % 3 else "" for number in range(30_000)]
    after = list(before)
    after[100] = "changed"
    del after[15_001]
    after.insert(29_000, "added")
    codes = lines.get_opcodes(before, after)
    check(before, after, codes)
    changed = [code for code in codes if code[0] != "equal"]
    assert changed == [
        ("replace", 100, 101, 100, 101),
        ("delete", 15_001, 15_002, 15_001, 15_001),
        ("insert", 29_001, 29_001, 29_000, 29_001),
    ]


def test_difflib_is_never_handed_a_long_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[int] = []
    real = difflib.SequenceMatcher

    def counting(junk: None, one: Sequence[str], other: Sequence[str], autojunk: bool) -> difflib.SequenceMatcher[str]:
        handed.append(len(one) + len(other))
        return real(junk, one, other, autojunk=autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", counting)
    before = [["", "}", f"old {number}"][number % 3] for number in range(6_000)]
    after = [["", "}", f"new {number}"][number % 3] for number in range(6_000)]
    check(before, after, lines.get_opcodes(before, after))
    check(before, before[::-1], lines.get_opcodes(before, before[::-1]))
    assert max(handed, default=0) <= lines.COMPARED
