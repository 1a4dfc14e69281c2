"""Names cannot forge structure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.text.display import escape, replace_surrogates
from tests import sizes


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain-name_1.txt", "plain-name_1.txt"),
        ("with space.txt", "with space.txt"),
        ("文件.txt", "文件.txt"),
        ("naïve café", "naïve café"),
        ("e\u0301te\u0301", "e\u0301te\u0301"),
        ("\U0001f600.png", "\U0001f600.png"),
        ("", ""),
        ("a\nb", "a\\nb"),
        ("a\r\tb", "a\\r\\tb"),
        ("a\\nb", "a\\\\nb"),
        ("\x00\x07\x7f", "\\x00\\x07\\x7f"),
        ("\x85", "\\u0085"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\u009b31m"),
        ("a\u202egnp.exe", "a\\u202egnp.exe"),
        ("\u2066a\u2069", "\\u2066a\\u2069"),
        ("\u200fa\u061c", "\\u200fa\\u061c"),
        ("a\u200bb\u200dc\ufeff", "a\\u200bb\\u200dc\\ufeff"),
        ("soft\xadhyphen", "soft\\u00adhyphen"),
        ("a\U000e0041\U000e007f", "a\\U000e0041\\U000e007f"),
        ("a\ufe0f\U000e0100\u180b", "a\\ufe0f\\U000e0100\\u180b"),
        ("\u0301a", "\\u0301a"),
        ("a\n\u0301", "a\\n\\u0301"),
        ("a\u20dd", "a\\u20dd"),
        ("\udcff\udc80", "\\xff\\x80"),
        ("\ud800", "\\ud800"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("a\xa0b\u3000c\u2003d\u202fe\u1680", "a\\u00a0b\\u3000c\\u2003d\\u202fe\\u1680"),
        ("\u3164\u115f\u2800", "\\u3164\\u115f\\u2800"),
        ("\uff0e\uff0e\uff0fetc", "\\uff0e\\uff0e\\uff0fetc"),
        ("\u2025\u2215a\u2044b\u2024", "\\u2025\\u2215a\\u2044b\\u2024"),
        ("a\uff3cb", "a\\uff3cb"),
        ("\ue000\U0010ffff", "\\ue000\\U0010ffff"),
    ],
)
def test_names_are_shown_so_that_they_cannot_lie(name: str, escaped: str) -> None:
    assert escape(name) == escaped


@settings(deadline=None, max_examples=sizes.pick(75, 300))
@given(st.text(st.one_of(st.characters(), st.sampled_from("\\nx\udc80")), max_size=8), st.text(max_size=8))
def test_what_is_shown_is_one_visible_line_and_no_two_names_look_alike(name: str, other: str) -> None:
    out = escape(name)
    assert out.replace(" ", "").isprintable()
    assert (escape(other) == out) == (other == name)
    assert replace_surrogates(out) == out


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("abc", "abc"),
        ("中\U0001f600", "中\U0001f600"),
        ("a\udcffb", "a\ufffdb"),
        ("\ud83d", "\ufffd"),
        ("\ud83dx", "\ufffdx"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ufeffa", "\ufeffa"),
    ],
)
def test_text_for_an_encoder_holds_no_surrogates(text: str, after: str) -> None:
    assert replace_surrogates(text) == after
    replace_surrogates(text).encode("utf-8")
