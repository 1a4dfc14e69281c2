"""The facts that a template of a dialect may name, for `handrail dialects check`.

Failures, notes and tools declare their facts as typed fields; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import get_args

from handrail.dialects.templates import fact_names
from handrail.errors import ToolError, iterate_failures
from handrail.tools.notes import iterate_notes
from handrail.tools.tool import AnyTool

PIPELINE_DATA = frozenset({"diff", "applied", "mtime_ms", "content", "ok", "path"})
"""Data that the pipeline and the renderers add to that of the tool."""


@cache
def failures() -> Mapping[str, type[ToolError]]:
    """Every failure by its code."""
    return {kind.code: kind for kind in iterate_failures()}


@cache
def of_note(code: str) -> frozenset[str]:
    """The facts that the note of this code declares."""
    return next((note.names() for note in iterate_notes() if note.code == code), frozenset())


def of_data(tool: AnyTool) -> frozenset[str] | None:
    """The data that a tool declares, with that of the pipeline; None if it declares none."""
    if tool.data is None:
        return None
    return PIPELINE_DATA.union(*(vars(kind).get("__annotations__", ()) for kind in _list_bases(tool.data)))


def of_template(tool: AnyTool, name: str) -> frozenset[str] | None:
    """The facts that a template of a tool may use; None if the tool declares none."""
    if tool.facts is None:
        return None
    if name in tool.rows:
        return fact_names(tool.rows[name])
    kinds = get_args(tool.facts) if isinstance(tool.facts, UnionType) else (tool.facts,)
    facts = frozenset({"notes", *tool.rendered}).union(*map(fact_names, kinds))
    return facts | (of_data(tool) or PIPELINE_DATA) if name == "summary" else facts


def _list_bases(kind: type) -> tuple[type, ...]:
    """A `TypedDict` and those that it extends."""
    return (kind, *(base for above in getattr(kind, "__orig_bases__", ()) for base in _list_bases(above)))
