"""The last part of `handrail demo`: a script that deletes and rewrites files runs in a draft, and is taken back."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.pipeline.session import Session
    from handrail_demo.report import DemoReport

_SCRIPT = """\
rm -r old
for file in *.txt; do sed -i 's/TODO/DONE/' "$file"; done
mkdir build && cat *.txt > build/all.txt
"""
_FILES = {
    "clean.sh": _SCRIPT,
    "plan.txt": "TODO: paint the fence\nbuy nails\n",
    "notes.txt": "nothing to do\n",
    "old/letter.txt": "keep me\n",
    "old/deep/photo.txt": "keep me too\n",
}


def run(folder: Path, report: DemoReport) -> None:
    """Run the steps in ``folder``, which must be empty. Where there can be no draft, the reason is shown."""
    from handrail.pipeline.session import Session
    from handrail.settings import Settings

    project = folder / "project"
    for name, text in _FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    report.title("5. Run a script that deletes and rewrites files, see its changes, and take them back")
    settings = Settings(state=os.path.join(folder, "state"))
    with Session(project, mode="accept-edits", settings=settings) as session:
        host = session.services.command_host()
        if not host.drafts.workspace:
            why = escape(host.drafts.why_none)
            report.say(f"  (left out: commands cannot run in drafts here, because {why})", "yellow")
            return
        _show_way_back(session, project, report)


def _show_way_back(session: Session, project: Path, report: DemoReport) -> None:
    before = _describe(project)
    report.say("> Bash command='sh clean.sh'", "cyan")
    result = session.call("Bash", {"command": "sh clean.sh"})
    report.say("\n".join("  " + row for row in result.text.split("\n")))
    report.diff(str(result.data.get("diff", "")))
    report.check("the script ran in a draft, and its changes were kept", bool(result.data.get("kept")))
    plan = (project / "plan.txt").read_text(encoding="utf-8")
    report.check("the files are deleted and rewritten", not (project / "old").exists() and plan.startswith("DONE"))
    report.say("> handrail undo", "cyan")
    session.undo()
    claim = "undo restored every file: the same contents, times and inodes"
    report.check(claim, _describe(project) == before)


def _describe(project: Path) -> dict[str, tuple[object, ...]]:
    """Every file and directory with its inode, mode, time of change and contents."""
    entries: dict[str, tuple[object, ...]] = {}
    for path in sorted([project, *project.rglob("*")]):
        status = path.stat()
        raw = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
        entries[os.path.relpath(path, project)] = status.st_ino, status.st_mode, status.st_mtime_ns, raw
    return entries
