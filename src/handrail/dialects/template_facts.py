"""The facts that a template of a dialect may name, for `handrail dialects check`.

Notes declare their facts. Those of tools and errors are read from the source, generously: every name that a file passes
on anywhere counts for the templates that it fills.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from handrail import tools
from handrail.tools.notes import all_notes

_PACKAGE = Path(__file__).parent.parent
_ALWAYS = frozenset({"tool", "verb", "path"})
"""Told of every failure."""
_OUTCOME = frozenset({"notes", "path", "diff", "applied", "mtime_ms", "content", "ok", "error"})
"""Told of every answer, whatever the tool; `error` where a failure is wrapped in a sentence of the tool."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The names that a source file mentions, and the facts that it fills in."""

    mentions: frozenset[str]
    told: frozenset[str]
    imports: frozenset[str]
    codes: Mapping[str, str]
    """The failures that it defines: code and class."""


def _names(tree: ast.AST) -> Iterator[str]:
    """Everything that can become a fact: keys of tables, keyword arguments, fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            yield str(node.slice.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _source(path: Path) -> _Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    mentions, imports, codes = set[str](), set[str](), dict[str, str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            mentions.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            mentions.add(node.value)
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.ClassDef):
            codes |= dict.fromkeys(_code(node), node.name)
    return _Source(frozenset(mentions), frozenset(_names(tree)), frozenset(imports), codes)


def _code(kind: ast.ClassDef) -> Iterator[str]:
    for node in kind.body:
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "code"
            and isinstance(node.value, ast.Constant)
        ):
            yield str(node.value.value)


@cache
def _sources() -> Mapping[str, _Source]:
    """Every file below the interfaces, by its module."""
    found = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        parts = path.relative_to(_PACKAGE).with_suffix("").parts
        if parts[0] not in ("cli", "mcp", "integrations", "agent", "web"):
            found[".".join(("handrail", *parts))] = _source(path)
    return found


@cache
def codes() -> Mapping[str, str]:
    """Every failure: its code, and the name of its class."""
    return {code: name for source in _sources().values() for code, name in source.codes.items()}


@cache
def of_error(code: str) -> frozenset[str]:
    """Return the facts of a failure with this code."""
    name = codes()[code]
    told = [source.told for source in _sources().values() if name in source.mentions]
    return frozenset(_ALWAYS.union(*told))


@cache
def of_note(code: str) -> frozenset[str]:
    """The facts that the note of this code declares."""
    return next((note.names() for note in all_notes() if note.code == code), frozenset())


@cache
def of_tool(tool_id: str) -> frozenset[str]:
    """Return the facts in the results of a tool, from its file and the files it uses."""
    if tool_id not in tools.ids():  # of another package
        return frozenset()
    sources = _sources()
    waiting, seen = [f"handrail.tools.{tool_id}"], set[str]()
    while waiting:
        module = waiting.pop()
        if module in seen or module not in sources:
            continue
        seen.add(module)
        waiting += [
            other for other in sources[module].imports if other.startswith(("handrail.tools.", "handrail.search"))
        ]
    return frozenset(_OUTCOME.union(*(sources[module].told for module in seen)))
