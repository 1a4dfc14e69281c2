"""Mask secrets in records: values with names such as `password`, and strings that look like keys, become placeholders.

A placeholder is the same for the same secret within one journal, so that one can see that two calls used one key. It
has six digits of a salted hash: too few to prove a guess. Masking is not complete: a secret that looks like ordinary
text and has an ordinary name is not recognised.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from handrail.secrets.spans import DEEPEST, Span, replace_spans

MOST_CHARS = 1 << 16
_KEPT_CHARS = 1 << 12
_TELLING = "password|passwd|passphrase|secret|token|api_?key|access_?key|private_?key|credential|authorization|cookie"
_NAME = re.compile(rf"(?:^|_)(?:{_TELLING})s?(?:$|_(?!count|limit|budget|type|file|path|name)\w*)|^(?:auth|pwd)$")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORDS = ("passw", "passphrase", "secret", "token", "credential", "authorization", "cookie", "key")
_KEYS = ("api", "api_", "api-", "access_", "access-", "private_", "private-")
"""What comes before the word "key" where that is a secret."""

# What a key begins with, and what follows. A pattern that begins with fixed text is found fast.
_KEY_SHAPES = (
    ("gh", r"[pousr]_\w{20,}"),
    ("github_pat_", r"\w{20,}"),
    ("glpat-", r"[\w-]{16,}"),
    ("AKIA", r"[0-9A-Z]{16}(?!\w)"),
    ("ASIA", r"[0-9A-Z]{16}(?!\w)"),
    ("AIza", r"[\w-]{30,}"),
    ("xox", r"[abeoprs]-[\w-]{10,}"),
    ("npm_", r"\w{30,}"),
    ("hf_", r"\w{30,}"),
    ("eyJ", r"[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
)
_PEM = r"(-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?:(?!-----END)[\s\S])*(?:-----END [A-Z0-9 ]+-----)?)"
# A mark that is found fast, and the pattern that is tried only where the mark is; group 1 is what is hidden.
_SHAPES = (
    ("-----BEGIN ", re.compile(_PEM)),
    ("sk-", re.compile(r"(sk-(?<![\w-]sk-)[\w-]{16,})")),
    ("k_live_", re.compile(r"(?<![\w-])([sr]k_live_\w{16,})")),
    ("k_test_", re.compile(r"(?<![\w-])([sr]k_test_\w{16,})")),
    *((mark, re.compile(rf"({mark}(?<!\w{mark}){rest})")) for mark, rest in _KEY_SHAPES),
    ("earer ", re.compile(r"(?i:bearer) ([\w.~+/=-]{8,})")),
    ("asic ", re.compile(r"(?i:authorization: *basic) ([\w+/=]{8,})")),
    ("://", re.compile(r"://[^\s/:@\"']*:([^\s/@\"']{3,})@")),
)
# After a telling word: the rest of its name, and a value: quoted, or bare as in a shell or after an option.
_VALUE = re.compile(
    r"""[\w-]*["']?\s{0,3}(?::=|=>|[:=])\s{0,3}(?:"([^"\n\\]{4,})"|'([^'\n\\]{4,})')"""
    r"""|[\w]*=([^\s"'`$(;&|<>\[{]{4,})(?![\w(])"""
    r"""|[\w-]*[ =](?!-)([^\s"'`$(;&|<>\[{]{4,})"""
)

_FEWEST_DIFFERENT = 10
"""Different characters in a value that looks random."""
_BEGINNING = 40
"""Bytes of a value in which a telling word says that it is made up. In all of a long key, such a word may be chance."""
_MADE_UP = re.compile(
    rb"example|sample|xxxx|0000|1234|abcd|test|fake|dummy|your|placeholder|redacted|changeme|secret", re.IGNORECASE
)
_PRIVATE_KEY = (
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\n|\s)*(?:[A-Z][\w-]*: [^\n]*\n\s*)*([\w+/=\s\\]{60,})"
)
_PUBLIC = re.compile(
    rb"-----BEGIN (?:TRUSTED |X509 )?(?:CERTIFICATE|(?:[A-Z]+ )?PUBLIC KEY|X509 CRL|[A-Z0-9]+ PARAMETERS)"
)
_CERTAIN_SHAPES = tuple(
    (mark, re.compile(pattern))
    for mark, pattern in (
        # The mark is found fast; group 1 of the pattern is the value.
        (b"PRIVATE KEY", _PRIVATE_KEY),
        (b"Private-Lines", rb"PuTTY-User-Key-File-\d[\s\S]*?Private-Lines: \d+\s+([\w+/=\s]{40,})"),
        (b"AGE-SECRET-KEY-", rb"AGE-SECRET-KEY-1([0-9A-Z]{50,})"),
        (b"AKIA", rb"(?<!\w)AKIA([0-9A-Z]{16})(?!\w)"),
        (b"gh", rb"gh[pousr]_(\w{36,})"),
        (b"github_pat_", rb"(?<!\w)github_pat_(\w{60,})"),
        (b"glpat-", rb"(?<!\w)glpat-([\w-]{20,})"),
        (b"sk-ant-", rb"(?<![\w-])sk-ant-([\w-]{40,})"),
        (b"sk-proj-", rb"(?<![\w-])sk-proj-([\w-]{40,})"),
        (b"T3BlbkFJ", rb"(?<![\w-])sk-(\w{20}T3BlbkFJ\w{20})"),
        (b"k_live_", rb"(?<!\w)[sr]k_live_(\w{20,})"),
        (b"AIza", rb"(?<!\w)AIza([\w-]{35})(?![\w-])"),
        (b"xox", rb"(?<!\w)xox[abeoprs]-(\d[\w-]{20,})"),
        (b"npm_", rb"(?<!\w)npm_([A-Za-z0-9]{36})(?!\w)"),
        (b"hf_", rb"(?<!\w)hf_([A-Za-z]{34})(?!\w)"),
        (b"pypi-AgEI", rb"(?<!\w)pypi-(AgEI[\w-]{50,})"),
        (b"SG.", rb"(?<!\w)SG\.([\w-]{22}\.[\w-]{43})(?![\w-])"),
        (b"dop_v1_", rb"(?<!\w)dop_v1_([0-9a-f]{64})"),
        (b"shpat_", rb"(?<!\w)shpat_([0-9a-fA-F]{32})"),
        (b"AccountKey=", rb"AccountKey=([\w+/=]{80,})"),
    )
)


class Mask:
    """Hides secrets, each behind its own placeholder."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._mask_again = lru_cache(256)(self._mask)
        """For texts that are not long: a session names the same paths, and reads the same files, again and again."""

    def value(self, value: object, depth: int = 0) -> Any:
        """Mask the secrets in arguments; long strings are cut, and values that are not JSON are described."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth >= DEEPEST:
            return "[too deep]"
        if isinstance(value, Mapping):
            return {
                str(key): self.whole(item) if _names_secret(str(key)) else self.value(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(item, depth + 1) for item in value]
        return self.text(repr(value))

    def whole(self, value: object) -> Any:
        """Mask a whole value whose name says that it is secret."""
        if isinstance(value, str):
            return self._make_placeholder(value) if value else value
        if value is None or isinstance(value, bool | int | float):
            return value  # max_tokens and the like
        return self._make_placeholder(repr(value))

    def text(self, text: str) -> str:
        """Mask strings in a text that look like secrets."""
        if not text:
            return text
        left_out = len(text) - MOST_CHARS
        if left_out > 0:
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            return f"{self._mask(text[:MOST_CHARS])}[{left_out} more characters; sha256 of all: {digest}]"
        return self._mask_again(text) if len(text) < _KEPT_CHARS else self._mask(text)

    def _mask(self, text: str) -> str:
        for mark, shape in _SHAPES:
            if mark in text:
                text = shape.sub(self._hide, text)
        return self._mask_after_words(text)

    def _mask_after_words(self, text: str) -> str:
        """A secret name and its value: `API_KEY=...`, `"password": "..."`, `--token ...`."""
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose small form is two
            lower = text
        spans: list[Span] = []
        for word in _WORDS:
            at = lower.find(word)
            while at >= 0:
                end = at + len(word)
                match = _VALUE.match(text, end) if word != "key" or lower.endswith(_KEYS, 0, at) else None
                group = match.lastindex if match else None
                if match and group and (group <= 2 or _is_unquoted_secret(text, at, group, match[group])):
                    spans.append(match.span(group))
                at = lower.find(word, end)
        if not spans:  # nearly always, and this is called for all texts
            return text
        unmasked = (span for span in spans if not text.startswith("[masked:", span[0]))
        return replace_spans(text, unmasked, self._make_placeholder)

    def _hide(self, match: re.Match[str]) -> str:
        start, end = (place - match.start() for place in match.span(1))
        return match[0][:start] + self._make_placeholder(match[1]) + match[0][end:]

    def _make_placeholder(self, secret: str) -> str:
        digest = hashlib.sha256(self._salt + secret.encode("utf-8", "surrogatepass")).hexdigest()
        return f"[masked:{digest[:6]}]"


@lru_cache(1024)
def _names_secret(name: str) -> bool:
    return _NAME.search(_CAMEL.sub("_", name).replace("-", "_").lower()) is not None


def _is_unquoted_secret(text: str, at: int, group: int, value: str) -> bool:
    """Whether a value without quotes is one: of a variable in capitals, of an option, or plainly no name of code."""
    start = at
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        start -= 1
    name = text[start : at + 3]
    if name.startswith("--"):
        return True
    return group == 3 and (name.isupper() or (len(value) >= 8 and any(char.isdigit() for char in value)))


def has_secret(raw: bytes) -> bool:
    """Whether a file holds a private key or an access token.

    Only shapes that nothing else has count, and values that look random: those in examples and tests are made up.
    """
    for mark, shape in _CERTAIN_SHAPES:  # read at every call, so without generators
        if mark in raw and any(_looks_random(match[1]) for match in shape.finditer(raw)):
            return True
    return False


def has_only_certificates(raw: bytes) -> bool:
    """Whether a text holds certificates or public keys, and no private key."""
    return b"PRIVATE" not in raw and _PUBLIC.search(raw) is not None


def _looks_random(value: bytes) -> bool:
    return len(set(value)) >= _FEWEST_DIFFERENT and not _MADE_UP.search(value[:_BEGINNING])
