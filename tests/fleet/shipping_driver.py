"""The processes of the tests of the shared journal.

`writer ROOT URL NAME COUNT` makes COUNT edits in a session that ships to URL, prints the number of each one that was
answered, and ends. `ship URL` ships what is there, and prints how much. With HANDRAIL_DIE set to `local` or `insert`
the process kills itself at that point: after the local commit and before anything is sent; or after the rows are in
the database and before that is written down locally.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from handrail import AllowAll, Session
from handrail.files.locks import state_directory
from handrail.journal.postgres import PostgresDatabase
from handrail.journal.shipping import LocalJournal, Shipment, ship_all
from handrail.journal.store import get_default_path
from handrail.settings.journal_address import JournalAddress


def writer(root: str, url: str, name: str, count: str) -> None:
    with Session(root, policy=AllowAll(), journal=url) as session:
        for number in range(int(count)):
            path = f"{name}-{number % 3}.txt"
            session.call("Read", {"file_path": path})
            assert session.call("Write", {"file_path": path, "content": f"{name} {number}\n"}).ok
            print(number, flush=True)


def ship(url: str) -> None:
    address = JournalAddress.parse(url)
    local = LocalJournal(get_default_path(state_directory(None)), address)
    print(ship_all(local, PostgresDatabase(address)), flush=True)


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    match os.environ.get("HANDRAIL_DIE"):
        case "local":
            Shipment.ship_next = _die  # type: ignore[method-assign,assignment]
        case "insert":
            LocalJournal.write_state = _die  # type: ignore[method-assign,assignment]
        case "rows":
            Shipment._put = _die  # type: ignore[method-assign,assignment]
    actions: dict[str, Callable[..., None]] = {"writer": writer, "ship": ship}
    actions[sys.argv[1]](*sys.argv[2:])
