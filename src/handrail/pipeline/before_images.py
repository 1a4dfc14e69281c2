"""What a command is going to overwrite or delete, as far as that is proven: kept before it runs, so it can go back.

What it will put where nothing stands is foreseen too (`mv` and `cp -r` of a directory), so that it can be taken away
again. Where that is not known (an archive that is unpacked), the touch gets a doubt, and an undo tells of it.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from handrail.files.before_images import MOST_BYTES, MOST_FILES
from handrail.files.subtrees import Entry
from handrail.journal import Journal, Kept, NoJournal, Opening, Origin, Piece
from handrail.model import Touch
from handrail.pipeline.call_state import Trail
from handrail.policy.shell_patterns import Reach
from handrail.text.display import shown
from handrail.tools.tool import Remark
from handrail.workspace import Workspace, itself

_NAMED = 20
_OUTSIDE = "it lies outside of the workspace"
_NOT_KNOWN = "what it puts there is not known before"
_NOT_KEPT = "not all of it could be kept"


def keep(trail: Trail, journal: Journal, workspace: Workspace, origin: Origin) -> None:
    """Give the journal what a command is going to overwrite or delete; say what cannot be kept."""
    if isinstance(journal, NoJournal):
        return
    # Nobody can tell all that a command changes: where changes must be recorded, each that may change anything must be.
    required = getattr(journal, "required", False) and any(_may_change(touch) for touch in trail.touches)
    if not required and not any(_changes(touch) for touch in trail.touches):
        return
    roots = [os.path.realpath(root.path) for root in workspace.roots if root.writable]
    keeper = Keeper(roots, os.path.realpath(workspace.home))
    trail.touches = keeper.all(trail.touches)
    if keeper.found or required:
        opening = Opening(trail.call, trail.touches, trail.verdict, list(keeper.found.values()), origin)
        trail.token = journal.begin(opening, trail.token)
    if keeper.missed:
        trail.remarks.append(Remark("not_kept", {"paths": ", ".join(map(shown, keeper.missed[:_NAMED]))}))


def _may_change(touch: Touch) -> bool:
    return touch.action == "run" and (touch.tier != "read_only" or bool(touch.doubt))


def _changes(touch: Touch) -> bool:
    return touch.by_command and touch.action in ("write", "delete")


@dataclass(slots=True)
class Keeper:
    """Looks at what a command comes to, before it runs."""

    roots: Sequence[str]
    home: str
    found: dict[str, Kept | Piece] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    room: int = MOST_BYTES
    _reach: Reach = field(default_factory=lambda: Reach(lambda _: True))

    def all(self, touches: Sequence[Touch]) -> tuple[Touch, ...]:
        """Keep what the touches mean. A touch that cannot be taken back in full comes back with a doubt."""
        doubts = dict[int, str]()
        # Single files first: what a whole directory holds must not use up their room.
        for at in sorted(range(len(touches)), key=lambda at: touches[at].below):
            if _changes(touches[at]):
                doubts[at] = self._kept(touches[at], touches)
        return tuple(replace(touch, doubt=doubts[at]) if at in doubts else touch for at, touch in enumerate(touches))

    def _kept(self, touch: Touch, touches: Sequence[Touch]) -> str:
        """Keeps what one touch means; says what is not known of it."""
        names, doubt = self._names(touch, touches)
        known = len(self.missed)
        for name in names:
            place = os.path.realpath(name) if touch.action == "write" else itself(name)
            if not self._inside(place):
                if not place.startswith("/dev/"):
                    doubt = doubt or _OUTSIDE
                continue
            if touch.action == "write" and os.path.islink(itself(name)):
                self._add(itself(name))  # who writes may put a file in the place of the link
            for path in _with_all_below(place) if touch.below else [place]:
                self._add(path)
        if touch.action == "write" and touch.below:
            doubt = doubt or self._foreseen(touch, names, touches)
        return doubt or (_NOT_KEPT if len(self.missed) > known else "")

    def _names(self, touch: Touch, touches: Sequence[Touch]) -> tuple[list[str], str]:
        """What the touch names, and what is not known of that."""
        if not touch.glob:
            return [os.path.join(self.home, os.path.expanduser(touch.target))], ""
        matched, whole = self._matches(touch.target)
        if touch.action == "write":  # `sed -i.bak s/a/b/ *.py`: a new file beside each
            for other in touches:
                ending = touch.target.removeprefix(other.target)
                if other.glob and other.by_command and other.target and ending not in ("", touch.target):
                    matched += [path + ending for path in self._matches(other.target)[0]]
        # A pattern that matches nothing stands for itself.
        literal = os.path.join(self.home, os.path.expanduser(re.sub(r"\\(.)", r"\1", touch.target)))
        return matched or [literal], "" if whole else _NOT_KEPT

    def _matches(self, pattern: str) -> tuple[list[str], bool]:
        first, _, rest = pattern.partition("/")
        if pattern.startswith("~") and os.path.expanduser(first) != first:
            return self._reach.matches(os.path.expanduser(first), rest)
        return self._reach.matches("/" if pattern.startswith("/") else self.home, pattern)

    def _foreseen(self, touch: Touch, names: Sequence[str], touches: Sequence[Touch]) -> str:
        """Keep the places of what is moved or copied with all that is in it; says if it is not known what that is."""
        places = [os.path.realpath(name) for name in names]
        if all(os.path.lexists(place) and not os.path.isdir(place) for place in places):
            return ""  # a file that is overwritten
        if touch.glob or not (sources := list(self._sources(touch, touches))):
            return _NOT_KNOWN
        for source in sources:
            named = touch.into or not os.path.isdir(places[0])
            top = places[0] if named else os.path.join(places[0], os.path.basename(source))
            for inner in _with_all_below(source) if self._inside(source) or not os.path.isdir(source) else []:
                self._add(os.path.normpath(os.path.join(top, os.path.relpath(inner, source))))
            if os.path.isdir(source) and not self._inside(source):
                return _NOT_KNOWN
        return ""

    def _sources(self, touch: Touch, touches: Sequence[Touch]) -> Iterator[str]:
        for other in touches:
            if not other.by_command or other.action == "write":
                continue
            named = os.path.join(self.home, os.path.expanduser(other.target))
            if touch.into and not other.glob and os.path.basename(os.path.normpath(named)) == touch.into:
                yield itself(named)
            elif not touch.into and other.glob:
                yield from self._matches(other.target)[0] or [named]  # a pattern that matches nothing is a name

    def _inside(self, path: str) -> bool:
        return any(path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def _add(self, path: str) -> None:
        if path in self.found or path in self.missed:
            return
        one = _read(path, self.room) if len(self.found) < MOST_FILES else None
        if one is None:
            self.missed.append(path)
        else:
            self.found[path] = one
            self.room -= len((one.before if isinstance(one, Kept) else one.entry.raw) or b"")


def _with_all_below(path: str) -> Iterator[str]:
    """A path, and if it is a directory, all that is in it; links are not followed."""
    yield path
    if not os.path.islink(path):
        for directory, folders, files in os.walk(path):
            yield from (os.path.join(directory, name) for name in (*folders, *files))


def _read(path: str, room: int) -> Kept | Piece | None:
    """What stands at a path; None if it is of a kind that cannot be kept, or too large."""
    try:
        found = os.lstat(path)
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISLNK(found.st_mode):
            return Piece(path, Entry("", "link", mode, os.fsencode(os.readlink(path))), True, sure=False)
        if stat.S_ISDIR(found.st_mode):
            return Piece(path, Entry("", "directory", mode), True, sure=False)
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return Kept(path, None)
    except OSError:
        return None
    with open(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size > room:
            return None
        raw = file.read(room + 1)
    return Kept(path, raw, stat.S_IMODE(status.st_mode)) if len(raw) <= room else None
