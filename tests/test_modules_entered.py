"""How many modules of ours one warm call of the default session enters: each is a place that a reader has to know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.command import TIMEOUT

_COUNT = """
import json, sys, threading
from handrail import Session

TEXTS = ("two", "2")

def edit(session, number):
    old, new = TEXTS[number % 2], TEXTS[(number + 1) % 2]
    return session.call("Edit", {"file_path": "a.txt", "old_string": old, "new_string": new})

def look(session, number):
    return session.call("Bash", {"command": "echo hello"})

def change(session, number):
    return session.call("Bash", {"command": f"touch new-{number}"})

def list_entered(session, call, number):
    modules = set()
    def note(frame, event, argument):
        if event == "call":
            modules.add(frame.f_globals.get("__name__", ""))
    threading.setprofile(note)
    sys.setprofile(note)
    assert call(session, number).ok
    sys.setprofile(None)
    threading.setprofile(None)
    return sorted(name for name in modules if name.split(".")[0] == "handrail")

def list_entered_warm(session, call):
    # The first calls load what later ones use. Of the rest, the middle one is an ordinary call.
    calls = sorted((list_entered(session, call, number) for number in range(13)), key=len)
    return calls[len(calls) // 2]

with Session(sys.argv[1]) as session:
    session.call("Read", {"file_path": "a.txt"})
    calls = {"Edit": edit, "echo": look, "touch": change}
    print(json.dumps({name: list_entered_warm(session, call) for name, call in calls.items()}))
"""


def test_a_warm_call_enters_few_modules(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    command = [sys.executable, "-c", _COUNT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=TIMEOUT, check=True)
    entered = json.loads(done.stdout)
    assert len(entered["Edit"]) <= 32, _describe(entered["Edit"])
    # Every command runs in a draft; the modules that keep and undo its changes come in where there are any.
    assert len(entered["echo"]) <= 55, _describe(entered["echo"])
    assert len(entered["touch"]) <= 63, _describe(entered["touch"])
    assert set(entered["echo"]) <= set(entered["touch"]), _describe(entered["echo"])


def _describe(modules: list[str]) -> str:
    return f"{len(modules)} modules: {' '.join(modules)}"
