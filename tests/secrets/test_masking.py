"""Secrets do not get into the journal, and ordinary text does."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handrail.secrets.masking import MOST_CHARS, Mask

MASK = Mask(b"salt")
# Put together here, so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "a1B2" * 9
OPENAI = "sk-" + "proj-" + "Zz9_" * 10
STRIPE = "rk_" + "live_" + "Aa1" * 8
AMAZON = "AKIA" + "ABCDEFGH12345678"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJ" + "zdWIiOiIxMjM0NTY3ODkwIn0" + ".c2lnbmF0dXJl"
KEY = "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEabc\ndef==\n-----END RSA " + "PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"git clone https://x:{GITHUB}@example.com/a.git", GITHUB),
        (f"key is {OPENAI}.", OPENAI),
        (f"a restricted key alone: {STRIPE}", STRIPE),
        (f"aws {AMAZON} end", AMAZON),
        (f"jwt={JWT}", JWT),
        (f"cat <<E\n{KEY}\nE", "MIIEabc"),
        (KEY[:50], "MIIE"),
        ("curl -H 'Authorization: Bearer abcdef.123456'", "abcdef.123456"),
        ("psql postgres://me:hunter2@db/x", "hunter2"),
        ("export API_KEY=hunter2222 && run", "hunter2222"),
        ("DB_PASSWORD=correct-horse ./run", "correct-horse"),
        ('{"password": "correct horse"}', "correct horse"),
        ("client_secret = 'abc def'", "abc def"),
        ("login --token s3cr3tvalue now", "s3cr3tvalue"),
        ("login --password=s3cr3tvalue", "s3cr3tvalue"),
        ("url?access_token=abc123def456", "abc123def456"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, secret: str) -> None:
    masked = MASK.text(text)
    assert secret not in masked
    assert re.search(r"\[masked:[0-9a-f]{6}\]", masked)


@pytest.mark.parametrize(
    "text",
    [
        "token = parser.next_token()",
        "for token in tokens: print(token)",
        "password: str",
        "def check(password: str, secret: bytes) -> bool:",
        "max_tokens=4096, tokens=tokens",
        "self.secret = secret",
        "https://example.com:8080/path",
        "the sk-learn package and desk-top",
        "grep -rn TODO src",
        "cookie.set(name)",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert MASK.text(text) == text


@given(st.text())
def test_any_text_can_be_masked(text: str) -> None:
    MASK.text(text)


def test_values_under_telling_names_are_masked_whatever_they_are() -> None:
    given = {"apiKey": "x", "headers": {"Authorization": ["a", "b"], "X-Api-Key": "y"}, "password": "", "max_tokens": 5}
    masked = MASK.value(given)
    assert masked["apiKey"].startswith("[masked:")
    assert all(value.startswith("[masked:") for value in masked["headers"].values())
    assert (masked["password"], masked["max_tokens"]) == ("", 5)


def test_one_secret_has_one_placeholder_in_a_journal_and_another_in_the_next() -> None:
    first, second = MASK.text(f"a {OPENAI}"), MASK.text(f"b {OPENAI}")
    assert first[2:] == second[2:]
    assert Mask(b"other").text(f"a {OPENAI}") != first


def test_a_long_text_is_cut_and_says_so() -> None:
    masked = MASK.text("x" * (MOST_CHARS + 5))
    assert masked.startswith("x" * MOST_CHARS + "[5 more characters; sha256 of all: ")
