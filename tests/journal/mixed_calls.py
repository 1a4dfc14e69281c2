"""A process that does everything one does with a journal, in a random order, and prints each answer it got.

`work(root, name, count, seed)` makes ``count`` calls and prints `ok ID TOOL` for each that was answered `ok`, and
`undone SEQ` for each call that an undo took back. Between calls it looks at the log, at the page in the browser, and
has other processes open and close the same journal.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable
from pathlib import Path

from starlette.testclient import TestClient

from handrail import Session, Settings
from handrail.errors import JournalFailed, ToolError
from handrail.files.locks import state_directory
from handrail.journal.queries import JournalReader
from handrail.journal.store import get_default_path
from handrail.journal.undo import UnknownCall
from handrail.web.pages import make_app
from handrail.web.site import Site
from tests.command import handrail

SETTINGS = Settings(durable=False, sandbox="off", raise_bugs=True)


class MixedCalls:
    """One session, and the other ways in which its process uses the journal."""

    def __init__(self, root: Path, name: str, seed: int) -> None:
        self.root, self.name = root, name
        self.path = get_default_path(state_directory())
        self.random = random.Random(seed)
        self.session = Session(root, mode="full", settings=SETTINGS)
        self.page = TestClient(make_app(Site(self.path, SETTINGS)))
        self.call_count = 0

    def call(self, tool: str, arguments: dict[str, object]) -> None:
        """Make a call, and print that it was answered."""
        self.call_count += 1
        name = f"{self.name}-{self.call_count}"
        result = self.session.call(tool, arguments, id=name)
        missing = any(note.code == "journal" for note in result.notes)
        if result.ok:
            say(f"{'unrecorded' if missing else 'ok'} {name} {tool}")

    def pick_file(self) -> str:
        return f"{self.name.partition('.')[0]}-{self.random.randrange(3)}"

    def write(self) -> None:
        file = self.pick_file()
        self.read(file)
        self.call("Write", {"file_path": file, "content": f"{self.random.random()}\n" * 5})

    def read(self, file: str = "") -> None:
        self.call("Read", {"file_path": file or self.pick_file()})

    def search(self) -> None:
        self.call("Grep", {"pattern": "0.5", "path": "."})

    def run(self) -> None:
        self.call("Bash", {"command": f"echo {self.call_count} >> {self.pick_file()}"})

    def undo(self) -> None:
        with contextlib.suppress(UnknownCall, ToolError):  # nothing is left to undo, or another process is at it
            report = self.session.undo()
            if report.restored and not report.warning:
                say(f"undone {report.calls[0]} Undo")

    def preview_undo(self) -> None:
        with contextlib.suppress(UnknownCall, ToolError):
            self.session.undo(dry_run=True)

    def read_log(self) -> None:
        with contextlib.suppress(JournalFailed), JournalReader(self.path) as reader:
            reader.read_calls(limit=50)

    def verify(self) -> None:
        if os.path.exists(self.path):
            with JournalReader(self.path) as reader:
                broken = reader.verify()
            assert broken is None, broken

    def print_log(self) -> None:
        handrail("log", "-n", "20", cwd=self.root)

    def open_page(self) -> None:
        for address in ("/", "/statistics", f"/calls/{self.random.randrange(1, 50)}"):
            self.page.get(address)

    def open_and_close(self) -> None:
        """Another session of this process."""
        with Session(self.root, mode="full", settings=SETTINGS) as session:
            session.call("Read", {"file_path": self.pick_file()})

    def fork(self) -> None:
        """A child without a program of its own, whose sessions are those of this process."""
        self.call_count += 1
        name = f"{self.name}-{self.call_count}"
        child = os.fork()
        if child == 0:
            try:
                if self.session.call("Read", {"file_path": "."}, id=name):
                    os._exit(0)
            finally:
                os._exit(1)
        os.waitpid(child, 0)

    def start_process(self) -> None:
        """A process that opens the journal, and perhaps is the one that closes it last."""
        child = os.fork()
        if child == 0:
            try:
                handrail("call", "LS", '{"path": "."}', cwd=self.root)
                os._exit(0)
            finally:
                os._exit(1)
        os.waitpid(child, 0)


OPERATIONS: dict[Callable[[MixedCalls], None], int] = {
    MixedCalls.write: 30,
    MixedCalls.read: 20,
    MixedCalls.search: 3,
    MixedCalls.run: 3,
    MixedCalls.undo: 12,
    MixedCalls.preview_undo: 3,
    MixedCalls.read_log: 5,
    MixedCalls.verify: 2,
    MixedCalls.print_log: 2,
    MixedCalls.open_page: 2,
    MixedCalls.open_and_close: 4,
    MixedCalls.fork: 3,
    MixedCalls.start_process: 3,
}
"""What such a process does, and how often."""


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode("ascii"))


def work(root: str, name: str, count: int, seed: int) -> None:
    mixed = MixedCalls(Path(root), name, seed)
    while mixed.call_count < count:
        (operation,) = mixed.random.choices(list(OPERATIONS), list(OPERATIONS.values()))
        operation(mixed)
    mixed.session.close()
