"""The processes of the journal's hammer.

`writer ROOT JOURNAL NAME COUNT` makes calls of all kinds and prints how many. `endless ROOT JOURNAL NAME` edits a file
until it is killed, and prints the number of each edit that was answered. `dies ROOT JOURNAL WHEN` writes `f` and is
killed right after the journal was told that the change begins (`begin`), or right before it is told the end (`end`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from handrail.journal import PendingRecord, Record, Token
from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired


def writer(root: str, path: str, name: str, count: str) -> None:
    journal = SqliteJournal(path)
    with Wired(Path(root), journal, name) as session:
        for number in range(int(count)):
            file = f"{name}-{number % 3}"
            session.call("Read", {"file_path": file})
            session.call("Write", {"file_path": file, "content": f"{number}\n"})
            assert session.both.warning == ""
    journal.close()


def endless(root: str, path: str, name: str) -> None:
    journal = SqliteJournal(path)
    number = 0
    with Wired(Path(root), journal, name) as session:
        while True:
            session.call("Read", {"file_path": name})
            session.call("Write", {"file_path": name, "content": f"{number}\n"})
            print(number, flush=True)
            number += 1


class Dying(SqliteJournal):
    when = ""

    def begin(self, pending: PendingRecord, token: Token | None = None) -> Token:
        result = super().begin(pending, token)
        if self.when == "begin":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def record(self, record: Record) -> str:
        if record.changes and self.when == "end":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().record(record)


def dies(root: str, path: str, when: str) -> None:
    journal = Dying(path)
    journal.when = when
    with Wired(Path(root), journal) as session:
        session.call("Read", {"file_path": "f"})
        session.call("Write", {"file_path": "f", "content": "after\n"})


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"writer": writer, "endless": endless, "dies": dies}
    roles[sys.argv[1]](*sys.argv[2:])
