"""Secrets in the arguments of a call do not reach the rows of the journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handrail.journal.store import SqliteJournal
from tests.journal.lines import find_logs
from tests.journal.wired import Wired
from tests.secrets.test_masking import AMAZON, GITHUB, OPENAI


def test_no_secret_of_the_arguments_is_in_the_rows(
    wired: Callable[..., Wired], journal: SqliteJournal, project: Path
) -> None:
    session = wired()
    session.call("Write", {"file_path": "conf", "content": f"key = '{OPENAI}'\n"})
    session.call("Read", {"file_path": "conf"})
    session.call("Nothing", {"api_key": GITHUB, "file_path": AMAZON})
    session.call("Read", {"file_path": AMAZON})
    text = "".join(log.read_text(encoding="ascii") for log in find_logs(journal.path))
    assert "[masked:" in text
    for secret in (OPENAI, GITHUB, AMAZON):
        # A path is a resource and not an argument that is hidden: files and touches are found by it.
        assert secret not in text.replace(f"/{AMAZON}", "")
