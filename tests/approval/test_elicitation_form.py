"""The form that an MCP client shows: whatever its first line leaves out, the form holds, and says where to see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail import Session, Settings
from handrail.approval.elicitation import describe_change, make_form
from handrail.model import Question


@pytest.mark.parametrize(
    ("command", "is_cut"),
    [
        ("rm a.txt", False),
        ("rm a.txt " + "x" * 140, False),
        ("echo " + "x" * 300 + "; rm -rf src", True),
        ("rm " + " ".join(f"file-{number}" for number in range(60)), True),
        ("echo a\n" * 20 + "rm a.txt", True),
    ],
)
def test_a_line_that_is_cut_says_where_to_see_all_of_it(command: str, is_cut: bool, tmp_path: Path) -> None:
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    settings = Settings(state=str(tmp_path / "state"), sandbox="off", raise_bugs=True)
    (tmp_path / "work").mkdir()
    with Session(tmp_path / "work", mode="ask", settings=settings, approve=refuse) as session:
        session.call("Bash", {"command": command})
    form = make_form(asked[0], asked[0].preview(), "2025-11-25")
    head, _, rest = form["message"].partition("\n\n")
    assert head.startswith(describe_change(asked[0]))
    assert ("handrail approve" in head) == is_cut
    assert command.splitlines()[-1] in rest
