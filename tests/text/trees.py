"""Files of one language with a known structure: every line has a depth, and a text that no other line has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

UNITS = ("  ", "    ", "\t")
LANGUAGES = ("python", "braces", "yaml", "markdown")


@dataclass
class Node:
    """A line, the lines of its own below it, and the line that closes it, if the language has one."""

    text: str
    children: list[Node] = field(default_factory=list)
    closing: str = ""


@dataclass(frozen=True)
class Tree:
    language: str
    unit: str
    nodes: Sequence[Node]

    def rows(self, nodes: Sequence[Node] | None = None, depth: int = 0) -> list[tuple[int, str]]:
        """The lines of some nodes, each with its depth."""
        collected: list[tuple[int, str]] = []
        for node in self.nodes if nodes is None else nodes:
            collected.append((depth, node.text))
            collected += self.rows(node.children, depth + 1)
            collected += [(depth, node.closing)] if node.closing else []
        return collected

    def text(self, nodes: Sequence[Node] | None = None, depth: int = 0) -> str:
        return "".join(self.unit * level + row + "\n" for level, row in self.rows(nodes, depth))


class Grower:
    """Grows trees; no two lines of one tree are alike."""

    def __init__(self, rng: Random, language: str) -> None:
        self._rng, self._language = rng, language
        self._count = 100  # all numbers are as long: none is a part of another

    def tree(self, unit: str) -> Tree:
        return Tree(self._language, unit, [self.block(2) for _ in range(self._rng.randint(2, 4))])

    def leaf(self) -> Node:
        self._count += 1
        number = self._count
        forms = {
            "python": (f"value_{number} = load({number})", f"check_{number}(value)", f"total += part_{number}"),
            "braces": (f"let value{number} = load({number});", f"check{number}(value);", f"total += part{number};"),
            "yaml": (f"key-{number}: value {number}", f'name-{number}: "{number}"'),
            "markdown": (f"- item {number} of the list", f"- see part {number}"),
        }
        return Node(self._rng.choice(forms[self._language]))

    def block(self, most: int) -> Node:
        """A line with lines of its own, at most so many levels deep; the outermost is what starts a part of a file."""
        self._count += 1
        number, top = self._count, most == 2
        lines = {
            "python": (f"def part_{number}(value):" if top else f"if value > {number}:", ""),
            "braces": (f"function part{number}(value) {{" if top else f"if (value > {number}) {{", "}"),
            "yaml": (f"part-{number}:", ""),
            "markdown": (f"- part {number} of the list", ""),
        }
        text, closing = lines[self._language]
        node = Node(text, [self.leaf()], closing)
        for _ in range(self._rng.randint(1, 4)):
            deeper = most > 0 and self._rng.random() < 0.4
            node.children.append(self.block(most - 1) if deeper else self.leaf())
        return node
