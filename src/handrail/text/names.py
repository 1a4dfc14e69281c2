"""Match a name against many expressions at once: most of them are a name, a beginning or an ending."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_ANY = r"(?:\.|\[\^/\])\*"
_SIMPLE = re.compile(rf"(?:\(\?=\[\^/\]\))?(?P<any>{_ANY})?(?P<text>(?:[^\\.^$*+?{{}}\[\]|()]|\\\W)+)(?P<more>{_ANY})?")
_ESCAPE = re.compile(r"\\(\W)")


_MOST_KEPT = 10_000


class _Answers(dict[str, bool]):
    """The answers for the last names. A tree repeats its names, and a lookup costs no call of Python code."""

    def __init__(self, find: Callable[[str], bool]) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, name: str) -> bool:
        if len(self) >= _MOST_KEPT:
            self.clear()
        answer = self[name] = self._find(name)
        return answer


class NameMatcher:
    """Matches whole names. Only what is neither a name, a beginning nor an ending is left to an expression."""

    __slots__ = ("_beginnings", "_endings", "_fold", "_names", "_others", "match")

    def __init__(self, bodies: Iterable[str], fold: bool = False) -> None:
        """``bodies``: expressions for a whole name, in which `.*` or `[^/]*` stands for a star; in lower case with
        ``fold``, to match letters in either case."""
        names: list[str] = []
        beginnings: list[str] = []
        endings: list[str] = []
        others: dict[str, None] = {}
        for body in bodies:
            simple = _SIMPLE.fullmatch(body)
            if simple is None or (simple["any"] and simple["more"]):
                others[body] = None
                continue
            text = _ESCAPE.sub(r"\1", simple["text"])
            (endings if simple["any"] else beginnings if simple["more"] else names).append(text)
        self._names = frozenset(names)
        self._beginnings = tuple(dict.fromkeys(beginnings))
        self._endings = tuple(dict.fromkeys(endings))
        self._others = re.compile(f"(?s:{'|'.join(others)})\\Z").match if others else None
        self._fold = fold
        self.match: Callable[[str], bool] = _Answers(self._find).__getitem__
        """Whether one of the expressions matches the whole name."""

    def __bool__(self) -> bool:
        return bool(self._names or self._beginnings or self._endings or self._others)

    def _find(self, name: str) -> bool:
        name = name.lower() if self._fold else name
        return (
            name in self._names
            or name.endswith(self._endings)
            or name.startswith(self._beginnings)
            or (self._others is not None and self._others(name) is not None)
        )
