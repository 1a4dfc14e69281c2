"""What a command is going to overwrite or delete, as far as that is proven: kept before it runs, so it can go back."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence

from handrail.journal import Journal, Kept, NoJournal, Opening, Origin
from handrail.nouns import Touch
from handrail.text.shown import shown
from handrail.tool import Remark
from handrail.trail import Trail
from handrail.workspace import Workspace

_MOST_FILES = 2_000
_MOST_BYTES = 64 << 20
_NAMED = 20


def keep(trail: Trail, journal: Journal, workspace: Workspace, origin: Origin) -> None:
    """Give the journal what a command is going to overwrite or delete; say what cannot be kept."""
    changing = any(touch.by_command and touch.action in ("write", "delete") for touch in trail.touches)
    if not changing or isinstance(journal, NoJournal):
        return
    roots = [os.path.realpath(root.path) for root in workspace.roots if root.writable]
    files, missed = kept(trail.touches, roots, os.path.realpath(workspace.home))
    if files:
        opening = Opening(trail.call, trail.touches, trail.verdict, files, origin)
        trail.token = journal.begin(opening, trail.token)
    if missed:
        trail.remarks.append(Remark("not_kept", {"paths": ", ".join(map(shown, missed[:_NAMED]))}))


def kept(touches: Sequence[Touch], roots: Sequence[str], home: str) -> tuple[list[Kept], list[str]]:
    """The files that the touches of a command would change, below ``roots``; and the paths that cannot be kept."""
    found: dict[str, Kept] = {}
    missed: list[str] = []
    room = _MOST_BYTES
    for touch in touches:
        if not touch.by_command or touch.action not in ("write", "delete"):
            continue
        for path in _files(touch, home):
            if path in found or not _below(path, roots):
                continue
            one = _read(path, room) if len(found) < _MOST_FILES else None
            if one is None:
                missed.append(path)
            else:
                found[path] = one
                room -= len(one.before or b"")
    return list(found.values()), missed


def _below(path: str, roots: Sequence[str]) -> bool:
    return any(path.startswith(root.rstrip("/") + "/") for root in roots)


def _itself(path: str) -> str:
    """The real place of a name: a link that is deleted goes itself, not what it leads to."""
    path = os.path.normpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _files(touch: Touch, home: str) -> Iterator[str]:
    """The files that a touch means: one, those that a pattern matches, or all that lies below a directory."""
    named = os.path.join(home, os.path.expanduser(touch.target))
    names = glob.iglob(named, include_hidden=True) if touch.glob else [named]
    for name in names:
        place = os.path.realpath(name) if touch.action == "write" else _itself(name)
        if os.path.islink(place) or not os.path.isdir(place):
            yield place
        elif touch.below:
            for directory, folders, files in os.walk(place):
                yield from (os.path.join(directory, file) for file in files)
                yield from (link for folder in folders if os.path.islink(link := os.path.join(directory, folder)))


def _read(path: str, room: int) -> Kept | None:
    """A file as it stands; None if it is none, or too large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return Kept(path, None)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > room:
            return None
        raw = file.read(room + 1)
    return Kept(path, raw, stat.S_IMODE(status.st_mode)) if len(raw) <= room else None
