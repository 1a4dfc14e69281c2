"""One line changed in small and big files, against a bare atomic write of the same bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from pathlib import Path

from benchmarks.measure import Line, Scale, contest, size, slower
from handrail import Session, Settings

ONE_MB = 1 << 20


def contents(length: int) -> bytes:
    """Numbered lines, exactly ``length`` bytes."""
    return b"".join(b"%08d the quick brown fox jumps over the lazy dog\n" % row for row in range(length // 54 + 1))[
        :length
    ]


def bare_write(path: Path, data: bytes, durable: bool) -> None:
    """The least that replaces a file in one act: a temporary file, written, synced, renamed, its directory synced."""
    temporary = f"{path}.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]
    if durable:
        os.fsync(fd)
    os.close(fd)
    os.rename(temporary, path)
    if durable:
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def editor(session: Session, name: str, length: int) -> Callable[[], None]:
    """A chain of edits of the line in the middle, to and fro."""
    row = f"{length // 108:08d} the quick brown "
    turns = cycle([("fox", "cat"), ("cat", "fox")])

    def edit() -> None:
        old, new = next(turns)
        result = session.call("Edit", {"file_path": name, "old_string": row + old, "new_string": row + new})
        assert result.status == "ok", result.text

    return edit


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    for durable in (True, False):
        for length in scale.edits:
            ours, bare = folder / "ours.txt", folder / "bare.txt"
            data = contents(length)
            ours.write_bytes(data)
            settings = Settings(state=str(folder / "state"), durable=durable)
            with Session(folder, settings=settings) as session:
                session.call("Read", {"file_path": "ours.txt", "limit": 5})
                rounds = scale.rounds * 3 if length <= ONE_MB else scale.few
                times = contest(
                    rounds,
                    {
                        "ours": editor(session, "ours.txt", length),
                        "bare": partial(bare_write, bare, data, durable),
                    },
                )
            assert len(data) == ours.stat().st_size
            kind = "" if durable else " without syncing"
            most = 3 if durable and length == ONE_MB else None
            what = f"Edit one line of {size(length)}{kind}, against a bare atomic write"
            yield slower(what, times["ours"], times["bare"], most)
            ours.unlink()
            bare.unlink()
