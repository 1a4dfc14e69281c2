"""Other programs write to a workspace while a session works in it: none of their writes is lost.

The session edits, moves and replaces files, runs commands that rewrite them and their directories, and takes its calls
back. All of that leaves the lines that were in a file, so each line of another program must be somewhere at the end.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handrail import Session
from handrail.drafts.store import DraftStore, NoDraft
from handrail.journal.undo import CannotUndo, UnknownCall
from handrail.settings import Settings
from tests.sizes import pick

pytestmark = pytest.mark.slow  # starts many processes

DIRECTORIES = ("", "d", "d/e", "f/g/h")
NAMES = ("one.txt", "two.txt", "three.txt")
COMMANDS = (
    "for f in $(find . -name '*.txt'); do cp $f $f.n; echo line >> $f.n; mv $f.n $f; done",
    "for f in d/*.txt; do echo line >> $f; done",
    "cp -a d d.n && rm -rf d && mv d.n d",
    "mv f/g f/gg && mv f/gg f/g",
    "mkdir -p out; for i in 1 2 3; do echo $i > out/$i; done",
    "rm -rf out",
    "mv d other; mkdir d; mv other/* d/; rmdir other",
    "sed -i 's/line/LINE/' d/e/*.txt",
    "touch d/*.txt; chmod 600 f/g/h/one.txt; sleep 0.05",
)
WRITER = """
import os, random, sys, time
workspace, number, files = sys.argv[1], sys.argv[2], sys.argv[3:]
choice = random.Random(int(number))
count = 0
while os.path.exists(workspace + ".busy"):
    count += 1
    token = f"<{number}.{count}>"
    path = os.path.join(workspace, choice.choice(files))
    way = choice.random()
    try:
        if way < 0.7:
            with open(os.open(path, os.O_WRONLY | os.O_APPEND), "w") as file:
                time.sleep(choice.random() * 0.02 if choice.random() < 0.3 else 0)
                file.write(token + "\\n")
        else:
            new = os.path.join(os.path.dirname(path), f"new-{number}-{count}")
            if way > 0.85:
                os.mkdir(new)
                new += "/inner"
            with open(new, "x") as file:
                file.write(token + "\\n")
    except OSError:
        continue  # there is no such file or directory at the moment: nothing was written
    print(token, flush=True)
    time.sleep(choice.random() * 0.1)
"""


@contextlib.contextmanager
def write_meanwhile(workspace: Path, seed: int, log: Path) -> Iterator[None]:
    """Let three programs write to the workspace; the log gets what they wrote, a line each."""
    files = [os.path.join(directory, name) for directory in DIRECTORIES for name in NAMES]
    busy = Path(f"{workspace}.busy")
    busy.touch()
    with log.open("w", encoding="ascii") as output:
        command = [sys.executable, "-c", WRITER, str(workspace)]
        writers = [subprocess.Popen([*command, str(seed * 3 + one), *files], stdout=output) for one in range(3)]
        try:
            yield
        finally:
            busy.unlink()
            endings = [writer.wait(60) for writer in writers]
    assert endings == [0, 0, 0]


def do_something(session: Session, choice: random.Random) -> None:
    path = os.path.join(choice.choice(DIRECTORIES), choice.choice(NAMES))
    way = choice.random()
    if way < 0.25:
        with contextlib.suppress(UnknownCall, CannotUndo):
            session.undo()
    elif way < 0.7:
        session.call("Bash", {"command": choice.choice(COMMANDS)})
    elif way < 0.8:
        session.call("Read", {"file_path": path})
        session.call("Edit", {"file_path": path, "old_string": "start", "new_string": f"start {choice.random()}"})
    elif way < 0.9:
        session.call("Move", {"source_path": path, "target_path": f"{path}.moved"})
        session.call("Move", {"source_path": f"{path}.moved", "target_path": path})
    else:
        session.call("Replace", {"pattern": "line", "replacement": "LINE", "path": ".", "expected": 1})


def remove_kept_drafts(workspace: Path) -> None:
    """Leave nothing for an undo: what was written into a directory just after it was deleted comes back then."""
    with contextlib.suppress(NoDraft):
        DraftStore.open(os.environ["HANDRAIL_STATE"], str(workspace), budget=-1).create().drop()


def read_all(folder: Path) -> str:
    return "".join(path.read_text(encoding="ascii") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("seed", range(pick(2, 60)))
def test_no_write_of_another_program_is_lost(tmp_path: Path, seed: int) -> None:
    workspace, log = tmp_path / "workspace", tmp_path / "log"
    for directory in DIRECTORIES:
        (workspace / directory).mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (workspace / directory / name).write_text("start\n", encoding="ascii")
    choice = random.Random(seed)
    session = Session(workspace, mode="full", settings=Settings(durable=False))
    with session, write_meanwhile(workspace, seed, log):
        for _ in range(pick(40, 80)):
            do_something(session, choice)
    remove_kept_drafts(workspace)
    there = read_all(workspace)  # a session that ends has looked at the files that it replaced once more
    written = re.findall("<[^<>]+>", log.read_text(encoding="ascii"))
    assert written and not [token for token in written if token not in there]
