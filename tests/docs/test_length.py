"""The documentation stays short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST_WORDS = 35_000
GENERATED = "packages.md"
_CODE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"<!-- measured: begin -->.*?<!-- measured: end -->", re.DOTALL)


def count_words(page: Path) -> int:
    """The words of a page in sentences and tables, without code and what a program writes into it."""
    return len(_CODE.sub("", _MEASURED.sub("", page.read_text(encoding="utf-8"))).split())


def test_the_pages_have_no_more_words_than_their_budget() -> None:
    """All of them but the course and the translations, which are folders of their own."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "decisions").glob("*.md")]
    words = {page.name: count_words(page) for page in pages if page.name != GENERATED}
    print(*sorted(words.items(), key=lambda item: item[1]), sum(words.values()), sep="\n")
    assert sum(words.values()) <= MOST_WORDS
