"""One line changed in small and big files, against a plain program that does the same."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import chain, count, pairwise
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


def list_steps(length: int) -> Iterator[tuple[str, str]]:
    """Changes of the line in the middle, one after the other; the file never holds the same bytes twice."""
    row = f"{length // 108:08d} the quick brown "
    return pairwise(row + word for word in chain(["fox"], (f"{number:03x}" for number in count())))


def editor(session: Session, name: str, length: int) -> Callable[[], None]:
    """A chain of edits through a session."""
    steps = list_steps(length)

    def edit() -> None:
        old, new = next(steps)
        result = session.call("Edit", {"file_path": name, "old_string": old, "new_string": new})
        assert result.status == "ok", result.text

    return edit


def plain_editor(path: Path, length: int, durable: bool) -> Callable[[], None]:
    """The same edits by read, replace and an atomic write."""
    steps = list_steps(length)

    def edit() -> None:
        old, new = (text.encode("ascii") for text in next(steps))
        data = path.read_bytes()
        assert data.count(old) == 1
        bare_write(path, data.replace(old, new), durable)

    return edit


def lines(folder: Path, scale: Scale) -> Iterator[Line]:
    for durable in (True, False):
        for length in scale.edits:
            ours, plain = folder / "ours.txt", folder / "plain.txt"
            for path in (ours, plain):
                path.write_bytes(contents(length))
            settings = Settings(state=str(folder / "state"), durable=durable)
            with Session(folder, settings=settings) as session:
                session.call("Read", {"file_path": "ours.txt", "limit": 5})
                rounds = scale.rounds * 3 if length <= ONE_MB else scale.few
                contestants = {
                    "ours": editor(session, "ours.txt", length),
                    "plain": plain_editor(plain, length, durable),
                }
                times = contest(rounds, contestants)
            assert ours.read_bytes() == plain.read_bytes()
            kind = "" if durable else " without syncing"
            most = 3 if not durable and length == ONE_MB else None
            what = f"Edit one line of {size(length)}{kind}, against plain read, replace and atomic write"
            yield slower(what, times["ours"], times["plain"], most, by_cpu=True)
            ours.unlink()
            plain.unlink()
