"""The processes of the hammer: writers that go through a session, and strangers that know nothing of our locks.

`writer ROOT DIALECT WHO COUNT [naive]` edits its own lines of `f.txt`, one at a time, and prints what became of each.
`appender PATH STOP` adds unique lines at the end, in place. `renamer PATH STOP` reads the file, adds a unique line and
renames the result over it. Both go on until the file STOP is there, and print the lines they wrote.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path

from handrail import Session, Settings


def writer(root: str, dialect: str, who: str, count: str, naive: str = "") -> None:
    """Edits line after line; `naive` checks the contents and then renames, as many tools do."""
    path = Path(root, "f.txt")
    ends: dict[str, list[str]] = {}
    with Session(root, dialect=dialect, settings=Settings(durable=False, raise_bugs=True)) as session:
        session.call("Read", {"file_path": "f.txt" if dialect == "native" else str(path)})
        for number in range(int(count)):
            old, new = f"todo {who}-{number} end", f"done {who}-{number} end"
            if naive:
                ends.setdefault("ok" if replaced(path, old, new) else "changed_since", []).append(new)
                continue
            arguments = {"file_path": str(path), "old_string": old, "new_string": new}
            result = session.call("Edit", arguments)
            if result.error and result.error.code == "changed_since" and dialect == "claude":
                ends.setdefault("refused", []).append(new)
                session.call("Read", {"file_path": str(path)})
                result = session.call("Edit", arguments)
            ends.setdefault(result.error.code if result.error else "ok", []).append(new)
    print(json.dumps(ends))


def replaced(path: Path, old: str, new: str) -> bool:
    before = path.read_bytes()
    temp = path.with_name(f".naive-{os.getpid()}")
    temp.write_bytes(before.replace(old.encode("ascii"), new.encode("ascii")))
    if path.read_bytes() != before:
        return False
    temp.replace(path)
    return True


def appender(path: str, stop: str) -> None:
    tokens: list[str] = []
    while not os.path.exists(stop):
        token = f"appended {os.getpid()} {len(tokens)}\n"
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, token.encode("ascii"))
        os.close(fd)
        tokens.append(token)
        time.sleep(random.random() * 0.004)
    print(json.dumps(tokens))


def renamer(path: str, stop: str) -> None:
    tokens: list[str] = []
    temp = f"{path}.formatter"
    while not os.path.exists(stop):
        token = f"renamed {os.getpid()} {len(tokens)}\n"
        text = Path(path).read_bytes()
        Path(temp).write_bytes(text + token.encode("ascii"))
        os.replace(temp, path)
        tokens.append(token)
        time.sleep(random.random() * 0.004)
    print(json.dumps(tokens))


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"writer": writer, "appender": appender, "renamer": renamer}
    roles[sys.argv[1]](*sys.argv[2:])
