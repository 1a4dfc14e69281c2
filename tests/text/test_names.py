"""Many expressions at once match exactly the names that one of them matches."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from handrail.text.globs import translate_name
from handrail.text.names import NameMatcher

PIECES = ["a", "b", ".env", "-", "~", " ", "é", "*", "*", "?", "[ab]", "\\*", "{", "#", "x.y", "\n"]
patterns = st.lists(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), max_size=5)
names = st.lists(st.sampled_from(["a", "b", ".env", "-", "~", " ", "é", "*", "?", "{", "#", "x.y", "\n", "z"])).map(
    "".join
)


@given(patterns, names)
def test_a_name_matches_if_it_matches_one_of_the_patterns(patterns: list[str], name: str) -> None:
    expressions = [translate_name(pattern, hidden=True) for pattern in patterns]
    bodies = [expression.removeprefix("(?s:").removesuffix(r")\Z") for expression in expressions]
    expected = any(re.match(expression, name) for expression in expressions)
    assert NameMatcher(bodies).match(name) == expected


def test_without_patterns_nothing_matches() -> None:
    assert not NameMatcher([])
    assert not NameMatcher([]).match("")
