"""What a small call costs, and in which part of the package the time goes."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.editing import bare_write, contents, editor
from benchmarks.measure import Line, Scale, contest, slower, within
from handrail import Session, Settings

PACKAGES = {
    "workspace.py": "boundary (paths, opening)",
    "system_calls.py": "boundary (paths, opening)",
    "files/pages.py": "reading and splitting",
    "files/versions.py": "reading and hashing",
    "files/": "locks and the atomic write",
    "text/diff.py": "diff and snippet",
    "text/": "encoding, matching, splicing",
    "dialects/": "rendering",
    "pipeline/render.py": "rendering",
    "tools/arguments.py": "arguments",
    "pipeline/parse.py": "arguments",
    "tools/": "the tool itself",
    "tracker.py": "what was seen",
    "policy/": "rules",
    "secrets/": "rules",
    "journal/": "the journal",
    "pipeline/": "the pipeline",
}


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    data = contents(1000)
    (folder / "small.txt").write_bytes(data)
    with Session(folder, settings=Settings(state=str(folder / "state"), durable=False)) as session:

        def read() -> None:
            assert session.call("Read", {"file_path": "small.txt"}).status == "ok"

        read()
        edit = editor(session, "small.txt", 1000)
        contestants = {
            "read": read,
            "edit": edit,
            "open": lambda: (folder / "small.txt").read_text(encoding="utf-8").split("\n"),
            "bare": lambda: bare_write(folder / "bare.txt", data, durable=False),
        }
        times = contest(scale.rounds, contestants, each=scale.calls)
        yield within(250e-6, "Read a file of 19 lines, against open, read, split", times["read"], times["open"])
        yield slower("Edit it without syncing, against a bare atomic write", times["edit"], times["bare"])
        for name, run in (("Read", read), ("Edit", edit)):
            parts = ", ".join(f"{package} {part:.0%}" for package, part in breakdown(run, scale.calls) if part >= 0.02)
            yield Line(f"Where a small {name} spends its time", parts)


def breakdown(run: Callable[[], object], calls: int) -> list[tuple[str, float]]:
    """The share of each package in the profile; what it calls of Python's library is counted as its own."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(calls):
        run()
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: dict[str, float] = {}
    for function, (_, _, own, _, callers) in stats.items():
        package = _package(function[0])
        if package or not callers:
            spent[package or "other"] = spent.get(package or "other", 0.0) + own
            continue
        for caller, (_, _, part, _) in callers.items():
            above = _package(caller[0]) or _above(caller, stats)
            spent[above] = spent.get(above, 0.0) + part
    total = sum(spent.values())
    return sorted(((package, part / total) for package, part in spent.items()), key=lambda item: -item[1])


def _above(function: tuple[str, int, str], stats: dict[Any, Any]) -> str:
    """The package that a function of the library works for: of all that call it, the one that calls it most."""
    seen = {function}
    while function in stats:
        callers = [caller for caller in stats[function][4] if caller not in seen]
        if not callers:
            break
        function = max(callers, key=lambda caller: stats[function][4][caller][3])
        seen.add(function)
        if package := _package(function[0]):
            return package
    return "other"


def _package(file: str) -> str:
    _, separator, inner = file.replace("\\", "/").rpartition("/handrail/")
    if not separator:
        return ""
    return next((package for start, package in PACKAGES.items() if inner.startswith(start)), "other")
