"""A search that was cancelled while it runs ends soon, and the next one is complete."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from handrail import Session

CALLS = [
    ("Grep", {"pattern": "needle"}),
    ("Grep", {"pattern": "needle", "output_mode": "count"}),
    ("Glob", {"pattern": "**/*.txt"}),
    ("LS", {"path": ".", "depth": 5}),
    ("Replace", {"pattern": "needle", "replacement": "pin", "dry_run": True}),
]


class SetLater(threading.Event):
    """Is set when it has been looked at this many times."""

    def __init__(self, looks: int) -> None:
        super().__init__()
        self._looks = looks

    def is_set(self) -> bool:
        self._looks -= 1
        return self._looks < 0


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
def test_a_search_that_was_cancelled_ends_and_leaves_the_next_one_complete(
    tool: str, arguments: dict[str, object], tmp_path: Path, make_session: Callable[..., Session]
) -> None:
    for n in range(12):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}" / "a.txt").write_text("needle\n", encoding="utf-8")
    expected = make_session(tmp_path).call(tool, arguments)
    session = make_session(tmp_path)
    ended = [session.call(tool, arguments, cancel=SetLater(looks)) for looks in range(8)]
    codes = [result.error.code if result.error else "" for result in ended]
    assert codes[0] == "cancelled" and codes.count("cancelled") > 1, codes
    assert all(result.text == expected.text for result in ended if not result.error)
    assert session.call(tool, arguments).text == expected.text
