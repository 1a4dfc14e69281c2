"""`handrail demo --tools`: the tools alone, without a model: exact bytes, refusals and parallel edits."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from handrail.model import Result
    from handrail.pipeline.session import Session
    from handrail_demo.report import DemoReport

_DISHES = (
    "Carte du jour",
    "crème brûlée   6,50 €",
    "café au lait   3,20 €",
    "café noir      2,40 €",
    "thé vert       2,80 €",
)
_MENU = "".join(dish + "\r\n" for dish in _DISHES).encode("cp1252")
_THREADS = 20


def run(folder: Path, report: DemoReport) -> None:
    """Run every step in ``folder``, which must be empty."""
    from handrail.pipeline.session import Session
    from handrail.settings import Settings

    project = folder / "project"
    project.mkdir()
    with Session(project, settings=Settings(state=os.path.join(folder, "state"))) as session:
        _Steps(session, project, report).run()


class _Steps:
    """The steps of the demo; each one checks its own outcome."""

    def __init__(self, session: Session, project: Path, report: DemoReport) -> None:
        self._session = session
        self._project = project
        self._say, self._title, self._check = report.say, report.title, report.check
        self._diff = report.diff

    def run(self) -> None:
        self._say("Handrail's tools at work on a throwaway project.", "bold")
        self.read_old_encoding()
        self.refuse_edit_of_unread_file()
        self.edit_one_line()
        self.refuse_ambiguous_edit()
        self.make_all_edits_or_none()
        self.stay_inside_workspace()
        self.edit_in_parallel()

    # The steps.

    def read_old_encoding(self) -> None:
        self._title("Read a file in an old encoding (cp1252) with Windows line ends")
        (self._project / "menu.txt").write_bytes(_MENU)
        result = self._call("Read", file_path="menu.txt")
        self._check("the accents are read right", "crème brûlée   6,50 €" in result.text)
        self._check(
            f"the encoding was recognised: {result.data.get('encoding')}", result.data.get("encoding") == "cp1252"
        )

    def refuse_edit_of_unread_file(self) -> None:
        self._title("Edit a file that was not read: refused")
        file = self._project / "prices.txt"
        file.write_bytes(b"tea 2\n")
        result = self._call("Edit", file_path="prices.txt", old_string="2", new_string="3")
        self._check("refused, with the next step", _code(result) == "not_seen" and file.read_bytes() == b"tea 2\n")

    def edit_one_line(self) -> None:
        self._title("Edit one line of what was read: every byte outside the change stays")
        file, old, new = self._project / "menu.txt", "café noir      2,40 €", "café noir      2,60 €"
        before = file.read_bytes()
        result = self._call("Edit", file_path="menu.txt", old_string=old, new_string=new)
        after = file.read_bytes()
        self._diff(result.data.get("diff", ""))
        self._check("the line is changed", result.status == "ok")
        start = before.find(old.encode("cp1252"))
        end = start + len(old.encode("cp1252"))
        identical = after[:start] == before[:start] and after[end:] == before[end:]
        proof = f"outside the line, {start} bytes before it and {len(before) - end} after it are identical"
        self._check(proof, identical and after[start:end] == new.encode("cp1252"))
        ends = after.count(b"\r\n")
        self._check(f"all {ends} line ends are still CRLF", ends == after.count(b"\n") == before.count(b"\r\n") == 5)

    def refuse_ambiguous_edit(self) -> None:
        self._title("Edit a text that is there twice: refused, with the lines")
        file = self._project / "menu.txt"
        before = file.read_bytes()
        result = self._call("Edit", file_path="menu.txt", old_string="café", new_string="Kaffee")
        named = "lines 3, 4" in result.text
        self._check("refused, both lines named", _code(result) == "many_matches" and named)
        self._check("the file is untouched", file.read_bytes() == before)

    def make_all_edits_or_none(self) -> None:
        self._title("MultiEdit whose second edit fails: no edit is applied")
        file = self._project / "menu.txt"
        before = file.read_bytes()
        edits = [
            {"old_string": "thé vert", "new_string": "thé noir"},
            {"old_string": "chocolat", "new_string": "cacao"},
        ]
        result = self._call("MultiEdit", file_path="menu.txt", edits=edits)
        self._check("the failing edit is named", result.status == "error" and "edit 2 of 2" in result.text)
        self._check("the file is untouched", file.read_bytes() == before)

    def stay_inside_workspace(self) -> None:
        self._title("Leave the workspace by .. and by a link: denied")
        (self._project.parent / "secret.txt").write_bytes(b"the secret\n")
        (self._project / "door").symlink_to(self._project.parent / "secret.txt")
        for path in ("../secret.txt", "door"):
            result = self._call("Read", file_path=path)
            self._check("denied, nothing shown", result.status == "denied" and "the secret" not in result.text)

    def edit_in_parallel(self) -> None:
        self._title(f"{_THREADS} threads edit {_THREADS} lines of one file at once")
        file = self._project / "tally.txt"
        file.write_bytes(b"".join(b"line %02d: open\n" % number for number in range(_THREADS)))
        self._session.call("Read", {"file_path": "tally.txt"})

        def edit(number: int) -> Result:
            change = {"old_string": f"line {number:02}: open", "new_string": f"line {number:02}: done"}
            return self._session.call("Edit", {"file_path": "tally.txt", **change})

        with ThreadPoolExecutor(_THREADS) as pool:
            results = list(pool.map(edit, range(_THREADS)))
        done = sum(result.status in ("ok", "partial") for result in results)
        self._check(f"{done} edits were reported as done", done == _THREADS)
        expected = b"".join(b"line %02d: done\n" % number for number in range(_THREADS))
        self._check(f"{file.read_bytes().count(b'done')} are in the file", file.read_bytes() == expected)

    # Output.

    def _call(self, tool: str, **arguments: object) -> Result:
        result = self._session.call(tool, arguments)
        self._say(f"> {tool} " + " ".join(f"{name}={value!r}" for name, value in arguments.items()), "cyan")
        style = {"ok": "", "partial": "yellow", "error": "yellow", "denied": "magenta"}[result.status]
        self._say("\n".join("  " + row for row in result.text.split("\n")), style)
        return result


def _code(result: Result) -> str:
    return result.error.code if result.error else ""
