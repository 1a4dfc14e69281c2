"""What the tests of approvals share: an edit of two places, far from each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from handrail import Question, Session
from handrail.model import Answer

Say = Callable[[Question], bool | Answer]

TWO = (("line 3\n", "THREE\n"), ("line 30\n", "THIRTY\n"))


def edit(session: Session, *pairs: tuple[str, str]) -> Any:
    session.call("Read", {"file_path": "a.txt"})
    edits = [{"old_string": old, "new_string": new} for old, new in pairs]
    return session.call("MultiEdit", {"file_path": "a.txt", "edits": edits})
