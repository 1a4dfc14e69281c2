"""Commands that discard files run unasked in a draft, because an undo restores every file."""

from __future__ import annotations

from pathlib import Path

import pytest

from handrail.model import Question
from handrail.pipeline.session import Session
from handrail.settings import Settings
from tests.drafts.machine import require_drafts
from tests.drafts.trees import describe
from tests.pipeline.test_judged_changes import git

COMMANDS = [
    "git reset --hard",
    "git reset --hard HEAD~1",
    "git clean -fdx",
    "git checkout -f",
    "git stash -q && git stash drop -q",
    "git stash clear",
    "git gc -q --prune=now",
    "git reflog expire --expire=now --all",
    "git update-ref -d refs/heads/side",
    "git branch -D side",
    "find . -name '*.txt' -delete",
    "find . -mindepth 1 -not -path './.git*' -delete",
    "rm -rf *",
    "rm -rf ./*",
    'd="src"; rm -rf "$d"',
    'git commit -qam "$(cat message)"',
    'for f in *.txt; do rm "$f"; done',
]


@pytest.mark.parametrize("command", COMMANDS)
def test_it_runs_unasked_and_undo_restores_the_tree(tmp_path: Path, command: str) -> None:
    require_drafts()
    work = tmp_path / "work"
    (work / "src").mkdir(parents=True)
    git(work, "init", "-q", "-b", "main")
    git(work, "config", "user.name", "a")
    git(work, "config", "user.email", "a@b")
    for number in range(2):
        (work / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        git(work, "add", ".")
        git(work, "commit", "-qm", f"{number}")
    git(work, "branch", "side")
    for name in ("a.txt", "new.txt", "src/new.py", "message"):
        (work / name).write_text("not committed\n", encoding="utf-8")
    before = describe(str(work), times=False)
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    settings = Settings(durable=False, state=str(tmp_path / "state"), raise_bugs=True)
    with Session(work, settings=settings, mode="accept-edits", approve=refuse) as session:
        result = session.call("Bash", {"command": command})
        assert result.data["exit_code"] == 0 and result.data["kept"], result.text
        assert asked == []
        if command != "git stash clear":
            assert describe(str(work), times=False) != before
            report = session.undo()
            assert not (report.conflicts or report.missing or report.unknown)
    assert describe(str(work), times=False) == before
