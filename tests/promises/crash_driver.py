"""A process that makes one real call at a time in a fresh child, with strace attached just before the call.

Reads jobs as JSON lines and answers each with a JSON line. The modules are loaded once, here; every child is forked,
opens its own session, makes its preparing calls, and only then is traced: the system calls that strace counts are
those of the one call under test, nothing of the start-up.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from handrail import AllowAll, Session, Settings
from handrail.model import as_json

END = "/handrail-end-of-call"
_PR_SET_PTRACER, _ANY = 0x59616D61, -1


def warm_up(state: str) -> None:
    """Load what is loaded on first use, so that it does not happen inside a traced call."""
    with tempfile.TemporaryDirectory() as root, Session(root, journal=None, settings=Settings(state=state)) as session:
        for tool, arguments in (
            ("Write", {"file_path": "a", "content": "one\n"}),
            ("Edit", {"file_path": "a", "old_string": "one", "new_string": "two"}),
            ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "two", "new_string": "six"}]}),
            ("Read", {"file_path": "a"}),
            ("Read", {"file_path": "missing"}),
        ):
            session.call(tool, arguments)


def child(job: dict[str, Any], go: int, answer: int) -> None:
    settings = Settings(state=job["state"], durable=job.get("durable", True))
    session = Session(job["root"], policy=AllowAll(), journal=None, settings=settings)
    for tool, arguments in job["before"]:
        session.call(tool, arguments)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANY, 0, 0, 0)
    os.write(answer, b"ready\n")
    os.read(go, 1)
    tool, arguments = job["call"]
    result = as_json(session.call(tool, arguments)) if tool != "naive" else naive(Path(job["root"]), **arguments)
    os.access(END, os.F_OK)
    os.write(answer, json.dumps(result).encode("ascii"))


def naive(root: Path, file_path: str, content: str) -> dict[str, Any]:
    """The control: open, empty, write."""
    try:
        (root / file_path).write_text(content, encoding="utf-8")
    except OSError as error:
        return {"status": "error", "text": str(error)}
    return {"status": "ok", "text": ""}


def attach(pid: int, options: list[str]) -> subprocess.Popen[str]:
    """strace on a process that waits; only when strace says that it is attached can no system call escape it."""
    strace = subprocess.Popen(["strace", "-f", "-p", str(pid), *options], stderr=subprocess.PIPE, text=True)
    assert strace.stderr
    line = strace.stderr.readline()
    if "attached" not in line:
        raise SystemExit(f"strace could not attach: {strace.args!r}: {line}")
    return strace


def run(job: dict[str, Any]) -> dict[str, Any]:
    go_read, go_write = os.pipe()
    answer_read, answer_write = os.pipe()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            child(job, go_read, answer_write)
            status = 0
        finally:
            os._exit(status)
    os.close(go_read)
    os.close(answer_write)
    os.read(answer_read, 6)
    strace = attach(pid, job["strace"]) if job.get("strace") else None
    os.write(go_write, b"x")
    _, status = os.waitpid(pid, 0)
    if strace:
        strace.communicate(timeout=600)
    os.close(go_write)
    with open(answer_read, "rb") as pipe:
        text = pipe.read()
    return {"exit": os.waitstatus_to_exitcode(status), "result": json.loads(text) if text else None}


def main() -> None:
    warm_up(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
