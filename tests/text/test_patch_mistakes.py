"""Any file, any patch of it, with any two mistakes: the right file or a refusal, never another.

`python -m tests.text.mangle_patches` tries as many more as one likes.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from handrail.errors import AmbiguousHunk, BadHunk
from handrail.text.document import apply_splices
from handrail.text.patches.locate import locate_hunks
from handrail.text.patches.patch import parse_patch
from tests import sizes
from tests.text.mangle_patches import MISTAKES, describe, judge, make_case

LANGUAGES = ("envelope", "unified", "blocks")


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_patch_with_mistakes_makes_the_right_file_or_none(language: str) -> None:
    rng = Random(language)
    cases = filter(None, (make_case(rng, language=language) for _ in range(1_000_000)))
    verdicts = Counter[str]()
    for case in islice(cases, sizes.pick(300, 10_000)):
        verdict, result = judge(case)
        assert verdict != "wrong", describe(case, result)
        verdicts[verdict] += 1
    assert verdicts["right"] > 0.6 * verdicts.total(), verdicts


def test_every_mistake_is_made_in_a_patch() -> None:
    rng = Random(5)
    assert all(any(make_case(rng, [kind]) for _ in range(500)) for kind in MISTAKES)


def test_lines_that_end_a_file_without_a_final_line_ending_are_a_second_place() -> None:
    (op,) = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n a\n-b\n+c\n*** End Patch\n")
    with pytest.raises(AmbiguousHunk):
        locate_hunks("a\nb\n\na\nb", op.hunks)
    assert apply_splices("x\nb\n\na\nb", locate_hunks("x\nb\n\na\nb", op.hunks).splices) == "x\nb\n\na\nc"


def test_hunks_that_may_share_a_line_of_context_are_placed_in_one_way_only() -> None:
    (op,) = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n-a\n+c\n \n@@\n \n-b\n+d\n*** End Patch\n")
    with pytest.raises(AmbiguousHunk):
        locate_hunks("a\n\nb\n\nb\n", op.hunks)
    assert apply_splices("a\n\nb\n", locate_hunks("a\n\nb\n", op.hunks).splices) == "c\n\nd\n"


def test_numbered_lines_that_are_still_there_were_not_removed_before() -> None:
    (op,) = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n-1 | a b\n-2 | c d\n+a b\n*** End Patch\n")
    assert apply_splices("a b\nc d\n", locate_hunks("a b\nc d\n", op.hunks).splices) == "a b\n"


def test_a_blank_that_may_be_the_number_s_or_the_line_s_own_is_refused() -> None:
    rows = ["       1\t  a", "       2\t   b", "-      3\t  c", "+   d"]
    (op,) = parse_patch("\n".join(["*** Begin Patch", "*** Update File: a", "@@", *rows, "*** End Patch", ""]))
    with pytest.raises(BadHunk):
        locate_hunks("  a\n   b\n  c\n", op.hunks)
    (op,) = parse_patch("*** Begin Patch\n*** Update File: a\n@@\n     1→a\n-    2→    b\n+         b\n*** End Patch\n")
    with pytest.raises(BadHunk):
        locate_hunks("a\n    b\n", op.hunks)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1. a\n\nb c\n", ("-1. q", " ", " b c", " ")),
        ("f() {\n\terr = nil\n}\n", (" f() {", "-\tqrr = nil", "-}", "+\terr = nil")),
    ],
)
def test_a_stale_patch_is_not_one_that_was_applied_before(text: str, rows: tuple[str, ...]) -> None:
    (op,) = parse_patch("\n".join(["*** Begin Patch", "*** Update File: a", "@@", *rows, "*** End Patch", ""]))
    with pytest.raises(BadHunk):
        locate_hunks(text, op.hunks)
