"""The lines of a journal's logs, for tests that change them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from handrail.journal.log_lines import get_logs_path, list_logs, parse_line


def find_logs(journal: str) -> list[Path]:
    """The logs of a journal, the oldest first."""
    return [Path(path) for path in list_logs(get_logs_path(journal)).values()]


def edit_lines(log: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """Change the lines of a log."""
    log.write_bytes(b"".join(change(log.read_bytes().splitlines(keepends=True))))


def find_line(log: Path, seq: int, stage: str = "") -> int:
    """The place of the first line of a call."""
    for place, raw in enumerate(log.read_bytes().splitlines()):
        line = parse_line(raw)
        if line and line.seq == seq and line.stage.startswith(stage):
            return place
    raise AssertionError(seq)
