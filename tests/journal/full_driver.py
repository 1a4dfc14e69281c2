"""A process in which no file may grow beyond some bytes: a disk that is full, for the journal.

`full_driver ROOT JOURNAL required|warn` prints, as JSON, how each of many writes and commands ended
and what was said of it.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

from handrail.journal.store import SqliteJournal
from tests.journal.wired import Wired


def main(root: str, path: str, how: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = SqliteJournal(path, required=how == "required")
    ends = []
    with Wired(Path(root), journal) as session:
        session.call("Write", {"file_path": "f", "content": "start"})
        Path(root, "g0").touch()
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
        for number in range(30):
            session.call("Read", {"file_path": "f"})
            content = f"{number} {os.urandom(10_000).hex()}"
            result = session.call("Write", {"file_path": "f", "content": content})
            stands = Path(root, "f").read_text(encoding="utf-8") == content
            ends.append([result.error.code if result.error else "ok", session.both.warning, stands])
            result = session.call("Bash", {"command": f"mv g{number} g{number + 1}"})
            stands = Path(root, f"g{number + 1}").exists()
            ends.append([result.error.code if result.error else "ok", session.both.warning, stands])
            Path(root, f"g{number}").rename(Path(root, f"g{number + 1}")) if not stands else None
    print(json.dumps(ends))


if __name__ == "__main__":
    main(*sys.argv[1:])
