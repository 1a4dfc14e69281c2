"""List what a command reaches without naming it: matches of shell patterns, as bash expands them.

Each file that `cat *` matches is judged by its own name.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Sequence

MOST_ENTRIES = 50_000
"""Entries that are looked at for one pattern; with more a person is asked."""
_MAGIC = re.compile(r"[*?\[]")


def expand(target: str, roots: Sequence[str], most: int = MOST_ENTRIES) -> tuple[list[str], bool]:
    """The existing paths that a pattern of the shell matches, and whether these are all."""
    first, _, rest = target.partition("/")
    home = os.path.expanduser(first) if target.startswith("~") else first
    paths = [home if home != first else "/" if target.startswith("/") or not roots else roots[0]]
    for part in [part for part in (rest if home != first else target).split("/") if part]:
        if not _MAGIC.search(re.sub(r"\\.", "", part)):
            name = re.sub(r"\\(.)", r"\1", part)
            paths = [os.path.normpath(os.path.join(place, name)) for place in paths]
            continue
        deeper: list[str] = []
        matcher = _make_matcher(part)
        for place in paths:
            try:
                names = os.listdir(place)
            except OSError:  # no command of this user can list it, either
                continue
            most -= len(names)
            if most < 0:
                return deeper, False
            hidden = part.startswith((".", "\\."))
            matching = (name for name in names if matcher.match(name) and (hidden or not name.startswith(".")))
            deeper += sorted(os.path.join(place, name) for name in matching)
        paths = deeper
    return [path for path in paths if os.path.lexists(path)], True


def _make_matcher(part: str) -> re.Pattern[str]:
    """Compile one part of a shell pattern; a named character class matches any text."""
    if "[:" in part or "[." in part or "[=" in part:
        return re.compile("")
    plain = re.sub(r"\\(.)", lambda match: f"[{match[1]}]" if match[1] not in "]^!\\" else "?", part)
    return re.compile(fnmatch.translate(plain.replace("[^", "[!")))
