"""Whether a file that ripgrep found may be shown: policy, and hidden files that a filter for names let through."""

from __future__ import annotations

import os

from handrail import system_calls
from handrail.search.ignores import NAMES, Ignores, Rules, read
from handrail.search.query import Query
from handrail.search.tree import Tree

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


class Seen:
    """Asks about one path after the other; what directories say is kept."""

    def __init__(self, tree: Tree, query: Query) -> None:
        self._tree = tree
        self._query = query
        self._ignores: dict[str, Ignores] = {}
        self._allowed: dict[str, bool] = {}

    def shows(self, path: str, hidden: bool) -> bool:
        """Whether the file is shown; ``hidden``: ripgrep has left out hidden files itself."""
        if not hidden and not self._query.hidden and os.path.basename(path).startswith(".") and not self._called(path):
            return False
        readable = self._tree.sight.readable
        if readable is None:
            return True
        directory = os.path.dirname(path)
        if directory not in self._allowed:
            parts = directory.split("/") if directory else []
            above = ["/".join(parts[: end + 1]) for end in range(len(parts))]
            self._allowed[directory] = all(readable(self._tree.real(inner)) for inner in above)
        return self._allowed[directory] and readable(self._tree.real(path))

    def _called(self, path: str) -> bool:
        """Whether a line of an ignore file says that this hidden file is not to be ignored."""
        if self._query.ignored:
            return False
        prefix, name = path[: path.rfind("/") + 1], os.path.basename(path)
        return self._rules(prefix).verdicts(prefix, [name]).get(name) is False

    def _rules(self, prefix: str) -> Ignores:
        if prefix not in self._ignores:
            above = (
                self._rules(prefix[: prefix.rfind("/", 0, -1) + 1]) if prefix else Ignores(Rules(self._tree.above()))
            )
            own = tuple(Rules(lines) if (lines := self._lines(prefix + name)) else None for name in NAMES)
            self._ignores[prefix] = above.below(prefix, own)
        return self._ignores[prefix]

    def _lines(self, path: str) -> tuple[str, ...]:
        root, inner = self._tree.workspace.beneath(self._tree.path), self._tree.path.inner
        below = path if inner == "." else f"{inner}/{path}"
        return read(path, lambda: system_calls.open_beneath(root, below, _READ))
