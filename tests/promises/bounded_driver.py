"""One session in a process of its own: makes the calls given as JSON, prints each answer and the peak of memory.

`bounded_driver.py ROOT CALLS` with CALLS = [[tool, arguments], ...]. The first line printed is the peak before any
call on the file, with every module loaded; the last one is the peak at the end.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from pathlib import Path

from handrail import Session, Settings


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    if sys.platform == "linux":  # getrusage would also count what the process that started us held
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def grow(path: str, stop: threading.Event) -> None:
    with open(path, "ab", buffering=0) as file:
        while not stop.is_set():
            file.write(b"one more line\n" * 1000)


def main(root: str, calls: str, growing: str = "") -> None:
    small = Path(root, "idle.txt")
    small.write_text("idle\n", encoding="utf-8")
    session = Session(root, settings=Settings(durable=False, raise_bugs=True))
    for tool, arguments in (
        ("Read", {"file_path": "idle.txt"}),
        ("Edit", {"file_path": "idle.txt", "old_string": "idle", "new_string": "busy"}),
        ("Write", {"file_path": "idle.txt", "content": "idle\n"}),
    ):
        session.call(tool, arguments)
    print(json.dumps({"peak": peak()}), flush=True)
    stop = threading.Event()
    if growing:
        threading.Thread(target=grow, args=(os.path.join(root, growing), stop), daemon=True).start()
    for tool, arguments in json.loads(calls):
        result = session.call(tool, arguments)
        code = result.error.code if result.error else ""
        print(json.dumps({"status": result.status, "code": code, "text": result.text[:3000], "data": result.data}))
    stop.set()
    print(json.dumps({"peak": peak()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
