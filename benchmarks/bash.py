"""Bash: what a command costs before and after it runs, what a flood of output costs, and how much memory that takes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.measure import Line, Scale, Times, contest, size, slower
from handrail import Session, Settings

FILES = 50_000
FLOOD = 2 << 30
MEMORY_MB = 40


def opened(root: Path, state: Path, sandbox: str) -> Session | None:
    """A session whose commands are held by that layer; None where it does not work."""
    required = sandbox != "off"
    settings = Settings(state=str(state), sandbox=sandbox, sandbox_required=required)  # type: ignore[arg-type]
    session = Session(root, mode="full", settings=settings)
    tried = session.call("Bash", {"command": "true"})
    if tried.error is None:
        return session
    session.close()
    return None


def call(session: Session, command: str) -> None:
    result = session.call("Bash", {"command": command, "timeout": 3600})
    assert result.error is None, result.text
    assert result.data["exit_code"] == 0, result.text


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    yield from _starts(folder, scale)
    yield _tree(folder, scale)
    yield from _flood(folder, scale)


def _starts(folder: Path, scale: Scale) -> Iterator[Line]:
    root = folder / "bash-starts"
    root.mkdir()

    with contextlib.ExitStack() as stack:
        contestants: dict[str, Callable[[], object]] = {
            "bash": lambda: subprocess.run(["bash", "-c", "true"], cwd=root, check=True)
        }
        for sandbox in ("off", "landlock", "namespaces"):
            session = opened(root, folder / "state", sandbox)
            if session is not None:
                stack.enter_context(session)
                contestants[sandbox] = partial(call, session, "true")
        times = contest(scale.rounds, contestants, each=max(5, scale.calls // 30))
    start = "against `subprocess.run` of the same"
    yield slower(f"`true` through Bash without a sandbox, {start}", times["off"], times["bash"], 2.5)
    for sandbox in ("landlock", "namespaces"):
        what = f"`true` through Bash held by {sandbox}, against the bare start of bash"
        if sandbox in times:
            yield slower(what, times[sandbox], times["bash"], 4)
        else:
            yield Line(f"{what}: {sandbox} does not work here", "not measured")


def _tree(folder: Path, scale: Scale) -> Line:
    small, large = folder / "bash-small", folder / "bash-large"
    files = max(50, FILES * scale.lines // Scale().lines)
    for root, count in ((small, 10), (large, files)):
        for number in range(count):
            if number % 50 == 0:
                (root / f"d{number % 7}" / f"d{number // 50}").mkdir(parents=True)
            (root / f"d{number // 50 * 50 % 7}" / f"d{number // 50}" / f"f{number}").touch()
    with contextlib.ExitStack() as stack:
        contestants: dict[str, Callable[[], object]] = {}
        for root in (small, large):
            settings = Settings(state=str(folder / "state"), sandbox="off")
            session = stack.enter_context(Session(root, mode="full", settings=settings))
            contestants[root.name] = partial(call, session, "true")
        times: dict[str, Times] = contest(scale.rounds, contestants, each=max(5, scale.calls // 30))
    what = f"`true` through Bash in a tree of {files:,} files, against a tree of 10"
    return slower(what, times[large.name], times[small.name], 1.15)


_OURS = """
import sys
from pathlib import Path
from benchmarks.bash import call, opened
from benchmarks.memory import grown
session = opened(Path(sys.argv[1]), Path(sys.argv[2]), "off")
print(grown(lambda: call(session, sys.argv[3])))
session.close()
"""


def _flood(folder: Path, scale: Scale) -> Iterator[Line]:
    root, state = folder / "bash-flood", folder / "bash-flood-state"
    root.mkdir()
    much = FLOOD * scale.lines // Scale().lines
    command, about = f"yes | head -c {much}", f"{size(much)} of output"
    session = opened(root, state, "off")
    assert session is not None

    def ours() -> None:
        call(session, command)
        for log in state.glob("artefacts/*/*"):
            os.unlink(log)

    def bare() -> None:
        subprocess.run(["bash", "-c", f"{command} > flood"], cwd=root, check=True)
        os.unlink(root / "flood")

    with session:
        times = contest(scale.few, {"ours": ours, "bare": bare})
    yield slower(f"{about} through Bash, against `cmd > file`", times["ours"], times["bare"], 1.25)
    grown = subprocess.run(
        [sys.executable, "-c", _OURS, str(root), str(state), command],
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
        cwd=Path(__file__).parent.parent,
    )
    memory = int(grown.stdout) / (1 << 20)
    what = f"Peak memory of {about} over an idle session"
    yield Line(what, f"{memory:.1f} MB", target=f"under {MEMORY_MB} MB", met=memory < MEMORY_MB)
