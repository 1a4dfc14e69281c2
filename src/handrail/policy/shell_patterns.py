"""List what a command reaches without naming it: matches of shell patterns, as bash expands them.

Each file that `cat *` matches is judged by its own name.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from itertools import islice

MOST_ENTRIES = 50_000
"""Matches that are looked at for one pattern; with more a person is asked."""
_LONGEST = 1_000
"""Characters of a pattern between slashes that are read; to read a class takes time with its length squared."""
_ESCAPED = re.compile(r"\\(.)")
_CLASS = re.compile(r"\[:|\[\.|\[=|(?<!\\)\[.*\\")


def expand(target: str, roots: Sequence[str], most: int = MOST_ENTRIES) -> tuple[list[str], bool]:
    """The existing paths that a pattern of the shell matches, and whether these are all."""
    first, _, below = target.partition("/")
    start = os.path.expanduser(first)
    if first and start == first:
        start, below = "".join(roots[:1]).rstrip("/"), target
    pattern = "/".join((glob.escape(start), *map(_translate, below.split("/"))))
    matches = list(islice(glob.iglob(pattern), most + 1))
    return sorted(matches[:most]), len(matches) <= most


def _translate(part: str) -> str:
    """A part of a shell pattern as `glob` takes it. One with a class that `glob` reads differently matches any text."""
    if len(part) > _LONGEST or _CLASS.search(part):
        return ".*" if part.startswith((".", "\\.")) else "*"
    return _ESCAPED.sub(lambda match: glob.escape(match[1]), part).replace("[^", "[!")
