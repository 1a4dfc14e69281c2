"""The two sides of the race: `attacker` swaps a directory for a link to outside, `victim` reads and writes through it.

`attacker INSIDE LINK` exchanges the two names as fast as it can until it is ended.
`victim ROOT WAY COUNT` makes COUNT reads and COUNT writes of `inside/notes.txt` and prints what came of them. WAY is
`openat2`, `walk` (the same without the kernel's help) or `naive` (look where the path leads, then open it by name).
`searcher ROOT ENGINE COUNT` makes COUNT searches and COUNT listings; ENGINE is `ripgrep`, `python` or `naive` (ripgrep
as it is).
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

from handrail import Session, Settings, system_calls
from handrail.search import ripgrep

NAME = "inside/notes.txt"
SECRET = "outside secret"
ONLY_OUTSIDE = "elsewhere"
"""In the name of a file that is nowhere in the workspace."""
_AT_FDCWD, _EXCHANGE = -100, 2


def attacker(inside: str, link: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    one, other = os.fsencode(inside), os.fsencode(link)
    print("ready", flush=True)
    while True:
        if libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, other, _EXCHANGE) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")


def victim(root: str, way: str, count: str) -> None:
    if way == "naive":
        print(json.dumps(naive(root, int(count))))
        return
    assert way == "walk" or system_calls.HAS_OPENAT2, "this kernel has no openat2"
    system_calls.HAS_OPENAT2 = way == "openat2"
    ends: Counter[str] = Counter()
    with Session(root, settings=Settings(durable=False, raise_bugs=True)) as session:
        for number in range(int(count)):
            read = session.call("Read", {"file_path": NAME})
            ends["read " + (read.error.code if read.error else "ok")] += 1
            ends["leaked"] += SECRET in read.text
            text = f"inside text {number}\n"
            if number % 4 == 3 and read.status == "ok":
                edit = {"file_path": NAME, "old_string": "inside", "new_string": "inside edited"}
                written = session.call("Edit", edit)
            else:
                written = session.call("Write", {"file_path": NAME, "content": text})
            ends["write " + (written.error.code if written.error else "ok")] += 1
            if number % 16 == 0:
                created = session.call("Write", {"file_path": f"inside/new-{number}.txt", "content": text})
                ends["create " + (created.error.code if created.error else "ok")] += 1
    print(json.dumps(ends))


MODES = ("content", "files_with_matches", "count")


def searcher(root: str, engine: str, count: str) -> None:
    ends: Counter[str] = Counter()
    if engine == "naive":
        program = ripgrep.find_program()
        assert program
        for _ in range(int(count)):
            done = subprocess.run([program, "outside|text", "."], cwd=root, stdout=subprocess.PIPE, check=False)
            ends["leaked"] += SECRET.encode() in done.stdout
        print(json.dumps(ends))
        return
    if engine == "python":
        os.environ["HANDRAIL_RG"] = ""
    with Session(root, settings=Settings(durable=False, raise_bugs=True)) as session:
        for number in range(int(count)):
            mode = MODES[number % len(MODES)]
            search = session.call("Grep", {"pattern": "outside|text", "output_mode": mode})
            listing = session.call("Glob", {"pattern": "**/*"})
            for name, result in (("search", search), ("list", listing)):
                ends[f"{name} {'inside' if 'notes.txt' in result.text else 'nothing'}"] += 1
                ends["leaked"] += SECRET in result.text or ONLY_OUTSIDE in result.text
    print(json.dumps(ends))


def naive(root: str, count: int) -> Counter[str]:
    """As many tools do it: resolve, compare with the root, open by name."""
    ends: Counter[str] = Counter()
    path, base = os.path.join(root, NAME), os.path.realpath(root) + os.sep
    for _ in range(count):
        try:
            if not os.path.realpath(path).startswith(base):
                ends["read refused"] += 1
                continue
            text = Path(path).read_text(encoding="utf-8")
        except OSError:  # swapped while it was being resolved
            ends["read failed"] += 1
            continue
        ends["leaked"] += SECRET in text
        ends["read ok"] += 1
    return ends


def end_with_parent() -> None:
    """The attacker must not outlive the test, however that ends."""
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "attacker":
        threading.Thread(target=end_with_parent, daemon=True).start()
        attacker(*sys.argv[2:])
    elif sys.argv[1] == "searcher":
        searcher(*sys.argv[2:])
    else:
        victim(*sys.argv[2:])
