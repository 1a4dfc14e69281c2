"""Symbols of languages that are read with a grammar of tree-sitter: an optional part of the installation.

A grammar names what it finds; the same names mean the same in most of them, so that three lists do for all: what is a
symbol, what holds symbols, and what is only wrapped around them. Only the top of the tree is looked at: symbols of the
file, and of what stands there. A namespace is not counted as a level.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from importlib import import_module
from itertools import accumulate, islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node


def _split_kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


GRAMMARS = {
    **dict.fromkeys(("js", "mjs", "cjs", "jsx"), ("tree_sitter_javascript", "language")),
    **dict.fromkeys(("ts", "mts", "cts"), ("tree_sitter_typescript", "language_typescript")),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "go": ("tree_sitter_go", "language"),
    "rs": ("tree_sitter_rust", "language"),
    "java": ("tree_sitter_java", "language"),
    "c": ("tree_sitter_c", "language"),
    **dict.fromkeys(("h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "inl"), ("tree_sitter_cpp", "language")),
    "rb": ("tree_sitter_ruby", "language"),
    "cs": ("tree_sitter_c_sharp", "language"),
    "php": ("tree_sitter_php", "language_php"),
    **dict.fromkeys(("kt", "kts"), ("tree_sitter_kotlin", "language")),
    "swift": ("tree_sitter_swift", "language"),
    **dict.fromkeys(("scala", "sc"), ("tree_sitter_scala", "language")),
    "lua": ("tree_sitter_lua", "language"),
}
"""By the ending of a file name: the package, and the function in it that gives the grammar."""
_SYMBOLS = _split_kinds(
    """function_definition function_declaration generator_function_declaration function_item function_signature_item
    function_signature method method_definition method_declaration method_signature abstract_method_signature
    singleton_method constructor_declaration compact_constructor_declaration destructor_declaration
    secondary_constructor init_declaration deinit_declaration protocol_function_declaration operator_declaration
    conversion_operator_declaration delegate_declaration macro_definition preproc_function_def type_definition
    type_alias_declaration type_item type_spec type_alias typealias_declaration annotation_type_declaration
    given_definition"""
)
_HOLDERS = _split_kinds(
    """class class_declaration abstract_class_declaration class_definition class_specifier struct_specifier
    union_specifier enum_specifier interface_declaration enum_declaration record_declaration struct_declaration
    record_struct_declaration struct_item union_item enum_item trait_item impl_item trait_declaration trait_definition
    object_definition enum_definition object_declaration companion_object protocol_declaration
    singleton_class"""
)
_SPACES = _split_kinds(
    """namespace_definition namespace_declaration mod_item foreign_mod_item module internal_module"""
)
_WRAPPERS = _split_kinds(
    """export_statement template_declaration ambient_declaration lexical_declaration variable_declaration
    type_declaration expression_statement friend_declaration"""
)
"""Their first line is the symbol's, if there is but one."""
_DECORATED = _split_kinds("export_statement template_declaration")
_AROUND = _split_kinds(
    """ERROR program source_file translation_unit compilation_unit chunk preproc_if preproc_ifdef preproc_else
    preproc_elif preproc_elifdef linkage_specification declaration_list field_declaration_list class_body
    interface_body enum_body enum_class_body enum_body_declarations protocol_body template_body body_statement
    statement_block block compound_statement object_type file_scoped_namespace_declaration class_member_declarations
    block_body"""
)
_FUNCTIONS = _split_kinds(
    """arrow_function function_expression function generator_function class"""
)  # what a constant of JavaScript can stand for
_NODES = 500_000
_LABEL = 500


def find_symbols(text: str, ending: str, start: int, most: int) -> list[tuple[int, int, str, int]]:
    """First and last line, label and level; raises `ImportError` if the grammar is not there."""
    from tree_sitter import Language, Parser

    module, function = GRAMMARS[ending]
    grammar = Language(getattr(import_module(module), function)())
    raw = text.encode("utf-8", "replace")
    tree = Parser(grammar).parse(raw)
    source = _SourceLines(raw)
    items = (item for item in _find_symbols(tree.root_node, source) if item[1] >= start)
    return [
        (first, max(first, last := source.line(node.end_byte - 1)), source.label(named, last), level)
        for node, first, named, level in islice(items, most)
    ]


class _SourceLines:
    """Find the line of a byte. The nodes know it too, but asking them crashes in tree-sitter 0.26.0."""

    def __init__(self, raw: bytes) -> None:
        self._rows = raw.split(b"\n")
        self._ends = list(accumulate(len(row) + 1 for row in self._rows))

    def line(self, byte: int) -> int:
        return min(bisect_right(self._ends, max(0, byte)) + 1, len(self._rows))

    def label(self, named: int, last: int) -> str:
        """The line with the name; where the grammar names nothing, the first one that is no annotation."""
        rows = [row[:_LABEL].decode("utf-8", "ignore") for row in self._rows[named - 1 : min(last, named + 20)]]
        return next((row for row in rows if not row.lstrip().startswith(("@", "#[", "["))), rows[0])


class _NodeContext(NamedTuple):
    """Facts about a node that come from the nodes above it."""

    first: int = 0
    """The line in which a wrapper around it begins; 0: there is none."""
    level: int = 0
    depth: int = 2
    """How many levels there are left."""
    within: int = 0
    """The line of the symbol that it stands in: what is in that very line needs no line of its own."""


def _find_symbols(root: Node, source: _SourceLines) -> Iterator[tuple[Node, int, int, int]]:
    """Every symbol with the line it begins in, the line of its name and its level, in the order of the file."""
    left = _NODES
    waiting = [(root, _NodeContext())]
    while waiting and left:
        node, place = waiting.pop()
        left -= 1
        kind, named = node.type, 0
        begin = place.first or source.line(node.start_byte)
        holds, spaces = kind in _HOLDERS, kind in _SPACES
        if holds or spaces or kind in _SYMBOLS or (kind == "variable_declarator" and _is_function(node)):
            if (spaces or kind.endswith("_specifier")) and kind != "module" and not node.child_by_field_name("body"):
                continue  # only speaks of what is declared elsewhere
            named = source.line(_find_name(node))
            if named != place.within:
                yield node, begin, named, place.level
            if not (holds or spaces):
                continue
        if named:
            inside = _NodeContext(0, place.level + 1, place.depth - holds, named)
        elif kind in _WRAPPERS:
            alone = kind in _DECORATED or node.named_child_count == 1
            inside = place._replace(first=begin if alone else 0)
        elif kind in _AROUND:
            inside = place._replace(first=0)
        else:
            continue
        if inside.depth:
            waiting += [(child, inside) for child in reversed(node.named_children)]


def _is_function(node: Node) -> bool:
    value = node.child_by_field_name("value")
    return value is not None and value.type in _FUNCTIONS


def _find_name(node: Node) -> int:
    """Position of the name: annotations and templates may come before it."""
    for _ in range(20):
        deeper = node.child_by_field_name("name") or node.child_by_field_name("declarator")
        if deeper is None:
            break
        node = deeper
    return node.start_byte
