"""The virtual command `apply_patch`: is this command line one patch and nothing else?

Taken for a patch is only what a shell would run as one call of `apply_patch` with one fixed text: the text as an
argument, or a here-document, alone or behind `cd DIR &&`. Whatever else stands before, after or around it, and whatever
a shell would still expand, makes it an ordinary command (None).

The shape is read off the syntax tree of tree-sitter-bash. The body of a here-document is taken out first, by the rule
that shells follow, and the tree is that of the script without it: the grammar ends a body at an indented delimiter and
drops blanks at its beginning, and no text of a patch may decide what the command is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

NAMES = ("apply_patch", "applypatch")
SHELLS = ("bash", "sh", "zsh")
"""What may stand before `-c` and a script, where a command comes as a list of words."""
_FLAGS = ("-lc", "-c")
_ACTIVE = re.compile(rb"[\\$`]")
_OPENS = b"$`"
_EXPANDS = b"_{([@*#?-$!'\""
_SPECIAL_IN_WORDS = b"*?[]{}~!#^="
"""What some shell gives a meaning to in a bare word; `#` and `~` only at its beginning, but who needs them."""
_MOST_BEFORE = 500
"""More nodes than can stand before the here-document of a call that is taken."""


class PatchCall(NamedTuple):
    """A patch, and the directory that its paths start from: empty, or as it was given to `cd`."""

    patch: str
    directory: str


class _Expanded(Exception):
    """The text is not fixed: a shell would put something else in its place."""


def as_patch(argv: Sequence[str]) -> PatchCall | None:
    """The patch that a command line hands to `apply_patch`; None if it is any other command."""
    if any("\0" in part for part in argv):  # no command line holds one
        return None
    if len(argv) == 2 and argv[0] in NAMES:
        return PatchCall(argv[1], "")
    if len(argv) == 3 and argv[0].rpartition("/")[2] in SHELLS and argv[1] in _FLAGS:
        try:
            return _script(argv[2].encode("utf-8"))
        except (UnicodeEncodeError, _Expanded):
            return None
    return None


def _script(script: bytes) -> PatchCall | None:
    if not any(name.encode() in script for name in NAMES):  # nearly every command: not worth a parse
        return None
    tree = _parsed(script)
    opening = _first(tree, "heredoc_start") if b"<<" in script else None
    if opening is None:
        return _call(tree, script, None)
    found = _taken_out(script, opening)
    if found is None:
        return None
    body, rest = found
    tree = _parsed(rest)
    again = _first(tree, "heredoc_start")
    if again is None or again.start_byte != opening.start_byte:
        return None
    return _call(tree, rest, body)


def _parsed(script: bytes) -> Node:
    import tree_sitter_bash  # slow to import, and only needed where a script is looked at
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language())).parse(script).root_node


def _taken_out(script: bytes, opening: Node) -> tuple[bytes, bytes] | None:
    """The body of the here-document that begins there, and the script with an empty body."""
    name, quoted = _delimiter(opening.text or b"")
    head, feed, behind = script[opening.end_byte :].partition(b"\n")
    if not name or head.strip(b" \t") or not feed:
        return None
    tabs = opening.prev_sibling is not None and opening.prev_sibling.type == "<<-"
    body: list[bytes] = []
    rows = behind.split(b"\n")
    for number, row in enumerate(rows):
        line = row.lstrip(b"\t") if tabs else row
        if line == name:
            text = b"".join(row + b"\n" for row in body)
            rest = b"\n".join([script[: opening.end_byte], name, *rows[number + 1 :]])
            return (text if quoted else _unescaped(text, b"$`\\")), rest
        body.append(line)
    return None


def _delimiter(word: bytes) -> tuple[bytes, bool]:
    """The name that ends a here-document, and whether it is quoted; no name if it is not a plain one."""
    name, quoted = word, False
    if word[:1] == b"\\":
        name, quoted = word[1:], True
    elif len(word) > 2 and word[:1] == word[-1:] and word[:1] in (b"'", b'"'):
        name, quoted = word[1:-1], True
    plain = name.replace(b"_", b"a").replace(b"-", b"a").replace(b".", b"a")
    return (name, quoted) if plain.isalnum() else (b"", False)


def _unescaped(text: bytes, escapable: bytes) -> bytes:
    """What a shell makes of a text in which it expands variables; raises if it would put in anything of its own."""
    out: list[bytes] = []
    done = 0
    while found := _ACTIVE.search(text, done):
        at = found.start()
        char, following = text[at : at + 1], text[at + 1 : at + 2]
        out.append(text[done:at])
        if char == b"\\" and following == b"\n":  # two lines would become one: surely not what a patch means
            raise _Expanded
        if char == b"`" or (char == b"$" and (following.isalnum() or (following and following in _EXPANDS))):
            raise _Expanded
        escaped = char == b"\\" and following and following in escapable
        out.append(following if escaped else char)
        done = at + (2 if escaped else 1)
    out.append(text[done:])
    return b"".join(out)


def _first(tree: Node, kind: str) -> Node | None:
    """The first node of a kind, in the order of the text, among the few that can stand before it."""
    cursor = tree.walk()
    for _ in range(_MOST_BEFORE):
        if cursor.node is not None and cursor.node.type == kind:
            return cursor.node
        if not cursor.goto_first_child():
            while not cursor.goto_next_sibling():
                if not cursor.goto_parent():
                    return None
    return None


def _call(tree: Node, script: bytes, body: bytes | None) -> PatchCall | None:
    """The call, if the tree is exactly one of the shapes that are known."""
    if tree.has_error or tree.child_count != 1:
        return None
    statement = tree.children[0]
    if body is not None:
        if _kinds(statement) != ["command", "heredoc_redirect"] and _kinds(statement) != ["list", "heredoc_redirect"]:
            return None
        statement, redirect = statement.children
        if _kinds(redirect)[1:] != ["heredoc_start", "heredoc_body", "heredoc_end"]:
            return None
    directory = ""
    if statement.type == "list":
        if _kinds(statement) != ["command", "&&", "command"]:
            return None
        moves, _, statement = statement.children
        words = _words(moves)
        if words is None or len(words) != 2 or words[0] != "cd" or not words[1] or words[1].startswith("-"):
            return None
        directory = words[1]
    words = _words(statement)
    if words is None or words[0] not in NAMES or len(words) != (2 if body is None else 1):
        return None
    if not _only_blanks_between(tree, script):
        return None
    return PatchCall(words[1] if body is None else body.decode("utf-8"), directory)


def _kinds(node: Node) -> list[str]:
    """The children of a node; of one that has many, none: no shape that is known does."""
    return [child.type for child in node.children] if node.child_count < 9 else []


def _words(command: Node) -> list[str] | None:
    """The words of a simple command, its name as it is spelled, if there is no more than one argument."""
    if command.type != "command" or command.child_count > 2 or _kinds(command)[:1] != ["command_name"]:
        return None
    name, *arguments = command.children
    if _kinds(name) != ["word"]:
        return None
    return [(name.text or b"").decode("utf-8"), *(_word(node).decode("utf-8") for node in arguments)]


def _word(node: Node) -> bytes:
    """A word as the shell hands it on."""
    text = node.text or b""
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string" and all(child.type in ('"', "string_content") for child in node.children):
        return _unescaped(text[1:-1], b'$`"\\')
    if node.type == "concatenation":
        return b"".join(_word(child) for child in node.children)
    if node.type in ("word", "number"):
        return _bare(text)
    raise _Expanded


def _bare(text: bytes) -> bytes:
    """A word without quotes: a backslash takes the meaning from what follows it."""
    out = bytearray()
    at = 0
    while at < len(text):
        if text[at] == 0x5C:
            at += 1
            if text[at : at + 1] in (b"", b"\n"):
                raise _Expanded
        elif text[at] in _OPENS or text[at] in _SPECIAL_IN_WORDS:
            raise _Expanded
        out.append(text[at])
        at += 1
    return bytes(out)


def _only_blanks_between(tree: Node, script: bytes) -> bool:
    """Whether the tree accounts for everything but blanks and line breaks, as shells know them."""
    at = 0
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node.children and node.type != "string":
            waiting.extend(reversed(node.children))
            continue
        if script[at : node.start_byte].replace(b"\\\n", b"").strip(b" \t\n"):
            return False
        at = node.end_byte
    return not script[at:].replace(b"\\\n", b"").strip(b" \t\n")
