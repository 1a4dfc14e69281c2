"""What a small call costs, and in which room of the house the time goes."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.editing import bare_write, contents, editor
from benchmarks.measure import Line, Scale, contest, slower
from handrail import Session, Settings

ROOMS = {
    "workspace.py": "boundary (paths, opening)",
    "kernel.py": "boundary (paths, opening)",
    "files/pages.py": "reading and splitting",
    "files/stored.py": "reading and hashing",
    "files/": "locks and the atomic write",
    "text/diff.py": "diff and snippet",
    "text/": "encoding, matching, splicing",
    "dialects/": "wording",
    "tools/": "the tool itself",
    "arguments.py": "arguments",
    "tool.py": "arguments",
    "tracker.py": "what was seen",
    "guard.py": "what was seen",
    "session.py": "the corridor",
}


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    data = contents(1000)
    (folder / "small.txt").write_bytes(data)
    with Session(folder, settings=Settings(state=str(folder / "state"), durable=False)) as session:

        def read() -> None:
            assert session.call("Read", {"file_path": "small.txt"}).status == "ok"

        read()
        turns = cycle([data, data])
        contestants = {
            "read": read,
            "edit": editor(session, "small.txt", 1000),
            "open": lambda: (folder / "small.txt").read_text(encoding="utf-8").split("\n"),
            "bare": lambda: bare_write(folder / "bare.txt", next(turns), durable=False),
        }
        times = contest(scale.rounds, contestants, each=scale.calls)
        yield slower("Read a file of 19 lines, against open, read, split", times["read"], times["open"])
        yield slower("Edit it without syncing, against a bare atomic write", times["edit"], times["bare"])
        for name, run in (("Read", read), ("Edit", editor(session, "small.txt", 1000))):
            parts = ", ".join(f"{room} {part:.0%}" for room, part in breakdown(run, scale.calls) if part >= 0.02)
            yield Line(f"Where a small {name} spends its time", parts)


def breakdown(run: Callable[[], object], calls: int) -> list[tuple[str, float]]:
    """The share of each room in the profile; what a room calls of Python's library is counted as the room's."""
    profile = cProfile.Profile()
    profile.enable()
    for _ in range(calls):
        run()
    profile.disable()
    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: dict[str, float] = {}
    for function, (_, _, own, _, callers) in stats.items():
        room = _room(function[0])
        if room or not callers:
            spent[room or "other"] = spent.get(room or "other", 0.0) + own
            continue
        for caller, (_, _, part, _) in callers.items():
            above = _room(caller[0]) or _above(caller, stats)
            spent[above] = spent.get(above, 0.0) + part
    total = sum(spent.values())
    return sorted(((room, part / total) for room, part in spent.items()), key=lambda item: -item[1])


def _above(function: tuple[str, int, str], stats: dict[Any, Any]) -> str:
    """The room that a function of the library works for: of all that call it, the one that calls it most."""
    seen = {function}
    while function in stats:
        callers = [caller for caller in stats[function][4] if caller not in seen]
        if not callers:
            break
        function = max(callers, key=lambda caller: stats[function][4][caller][3])
        seen.add(function)
        if room := _room(function[0]):
            return room
    return "other"


def _room(file: str) -> str:
    _, found, inner = file.replace("\\", "/").rpartition("/handrail/")
    if not found:
        return ""
    return next((room for start, room in ROOMS.items() if inner.startswith(start)), "other")
