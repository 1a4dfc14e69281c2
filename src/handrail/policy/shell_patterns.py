"""Find the files that a command reaches without naming them: matches of shell patterns, contents of directories.

A directory is read once, and again only if it has changed; the search is bounded, and an incomplete result says so.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from handrail.files.directory_index import DirectoryStamp, read_entries
from handrail.frozen import frozen
from handrail.policy.paths import FOREIGN

MOST_ENTRIES = 50_000
_MOST_KEPT = 20_000
_MAGIC = re.compile(r"[*?\[]")
_ODD = re.compile(r"""-|\s|.*(?:\s-|\s\Z|\s\.\.(?:\s|\Z)|['"\\])|\.\.\s""", re.DOTALL)
"""A name that is an option, or that `xargs` splits into an option, a path from the root or a way up."""


@frozen
class DirectoryEntries:
    """The entries of one directory."""

    stamp: DirectoryStamp
    files: tuple[str, ...]
    folders: tuple[str, ...]
    refused: tuple[str, ...]
    """The files and directories that may not be read."""
    links: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()
    """Names that are no plain words: as an argument one of them may be an option, or several words."""


@frozen
class PatternMatches:
    """The result of a search."""

    path: str = ""
    """The first path that may not be read; empty if there is none."""
    whole: bool = True
    """Whether all was looked at."""


@dataclass(slots=True)
class ShellPatterns:
    """Search for files that may not be read, by the policy's verdict on each path."""

    readable: Callable[[str], bool]
    most: int = MOST_ENTRIES
    _known: dict[str, DirectoryEntries] = field(default_factory=dict)

    def listing(self, directory: str) -> DirectoryEntries | None:
        """A directory; None if there is none, or it cannot be read (then no command of this user's can, either)."""
        try:
            stamp = DirectoryStamp.read(directory)
            known = self._known.get(directory)
            if known and known.stamp.still_holds(stamp):
                return known
            entries = sorted(read_entries(directory))
        except OSError:
            return None
        files = tuple(name for name, is_folder, _ in entries if not is_folder)
        folders = tuple(name for name, is_folder, _ in entries if is_folder)
        refused = tuple(name for name, _, is_link in entries if not self._shows(os.path.join(directory, name), is_link))
        if len(self._known) >= _MOST_KEPT:  # begun anew, and not emptied: another thread may be reading it
            self._known = {}
        links = tuple(name for name, _, is_link in entries if is_link)
        odd = tuple(name for name, _, _ in entries if _ODD.match(name))
        result = self._known[directory] = DirectoryEntries(stamp, files, folders, refused, links, odd)
        return result

    def _shows(self, path: str, is_link: bool) -> bool:
        return self.readable(path) and not (is_link and not self.readable(os.path.realpath(path)))

    def below(self, directory: str, *, hidden: bool = True) -> PatternMatches:
        """The first thing below a directory that may not be read, the nearest first."""
        first = next(self.all_below(directory, hidden=hidden), None)
        return first or PatternMatches()

    def all_below(self, directory: str, *, hidden: bool = True) -> Iterator[PatternMatches]:
        """Everything below a directory that may not be read; the last one says if the bound was met."""
        for here, listing in self._walk(directory, hidden=hidden):
            if listing is None:
                yield PatternMatches(whole=False)
                return
            for name in listing.refused:
                if hidden or not name.startswith("."):
                    yield PatternMatches(os.path.join(here, name))

    def _walk(
        self, directory: str, *, hidden: bool = True, enter: Callable[[str, str], bool] | None = None
    ) -> Iterator[tuple[str, DirectoryEntries | None]]:
        """A directory and those below it, the nearest first; the last one is None if the bound was met.

        ``enter``: gets each link with the path that it leads to, and decides whether to go on there.
        """
        left, waiting, seen = self.most, deque([directory]), {directory}
        while waiting:
            here = waiting.popleft()
            listing = self.listing(here)
            if listing is None:
                continue
            left -= len(listing.files) + len(listing.folders)
            yield here, listing
            if left < 0:
                yield here, None
                return
            refused = set(listing.refused)
            waiting.extend(
                os.path.join(here, name)
                for name in listing.folders
                if name not in FOREIGN and name not in refused and (hidden or not name.startswith("."))
            )
            for link in listing.links if enter else ():
                real = os.path.realpath(os.path.join(here, link))
                if enter and real not in seen and enter(os.path.join(here, link), real):
                    waiting.append(real)
                seen.add(real)

    def follow_links(self, directory: str, enter: Callable[[str, str], bool]) -> bool:
        """Follow the links below a directory; returns whether all were followed. ``enter`` is as in `_walk`."""
        return all(listing is not None for _, listing in self._walk(directory, enter=enter))

    def find_odd_name(self, directory: str, *, split: bool) -> str:
        """The first path below a directory that is no plain argument; ``split``: `xargs` splits it into words."""
        for here, listing in self._walk(directory):
            for name in listing.odd if listing else ():
                if split or name.startswith("-"):
                    return os.path.join(here, name)
        return ""

    def matches(self, start: str, pattern: str) -> tuple[list[str], bool]:
        """Expand a shell pattern below a directory; also returns whether the result is complete."""
        paths, left = [start], self.most
        for part in [part for part in pattern.split("/") if part]:
            if not _MAGIC.search(part.replace("\\", "")) or _is_fixed(part):
                name = re.sub(r"\\(.)", r"\1", part)
                paths = [os.path.normpath(os.path.join(place, name)) for place in paths]
                continue
            deeper: list[str] = []
            matcher = _make_matcher(part)
            for place in paths:
                listing = self.listing(place)
                if listing is None:
                    continue
                names = (*listing.files, *listing.folders)
                left -= len(names)
                if left < 0:
                    return deeper, False
                deeper += [
                    os.path.join(place, name)
                    for name in names
                    if matcher.match(name) and (part.startswith((".", "\\.")) or not name.startswith("."))
                ]
            paths = deeper
        return [path for path in paths if os.path.lexists(path)], True


def _is_fixed(part: str) -> bool:
    """Whether every sign in a part that could match others is escaped."""
    return not _MAGIC.search(re.sub(r"\\.", "", part))


def _make_matcher(part: str) -> re.Pattern[str]:
    """Compile one part of a shell pattern; a named character class matches any text."""
    if "[:" in part or "[." in part or "[=" in part:
        return re.compile("")
    plain = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] not in "]^!\\" else "?", part)
    return re.compile(fnmatch.translate(plain.replace("[^", "[!")))
