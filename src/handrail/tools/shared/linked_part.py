"""Patterns whose first directories lead through a link: a search follows a link that the pattern spells out."""

from __future__ import annotations

import posixpath

from handrail.errors import NotFound
from handrail.model import FileAccess
from handrail.search.tree import SearchTree
from handrail.text.globs import get_fixed_part
from handrail.tools.tool import Context


def accesses(path: str, pattern: str) -> list[FileAccess]:
    """The directory that a pattern spells out, below the searched one."""
    fixed = get_fixed_part(pattern)
    return [FileAccess("read", posixpath.join(path, fixed))] if fixed else []


def follow(ctx: Context[object], tree: SearchTree, path: str, pattern: str) -> tuple[SearchTree, str] | None:
    """The tree behind the links that a pattern spells out, and the rest of the pattern; None if it spells none."""
    fixed = get_fixed_part(pattern)
    if not fixed or ctx.real(posixpath.join(path, fixed)) in (tree.real(fixed), f"/{fixed}"):
        return None
    try:
        behind = ctx.tree(posixpath.join(path, fixed))
    except NotFound:
        return None
    return None if behind.is_file else (behind, pattern.removeprefix(fixed).lstrip("/"))
