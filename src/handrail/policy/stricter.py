"""Two sets of rules and modes for one session: each access must pass both, and the stricter verdict wins.

A remote session has those of the machine with the files and those of the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from handrail.frozen import frozen
from handrail.model import Access, NetworkAccess, Verdict
from handrail.policy.files import PolicyError, PolicyFile
from handrail.policy.judge import RulePolicy
from handrail.policy.modes import DEFAULT_MODE, Mode
from handrail.policy.paths import NameTest, is_within
from handrail.policy.rules import STRICT


@frozen
class Restriction:
    """A mode and rules that hold beside those of a session. They never allow more."""

    mode: Mode = DEFAULT_MODE
    rules: tuple[PolicyFile, ...] = ()


class StricterPolicy:
    """Judges by two policies of rules. All that one of them hides or protects is hidden or protected."""

    def __init__(self, first: RulePolicy, second: RulePolicy) -> None:
        self._first, self._both = first, (first, second)

    @property
    def mode(self) -> Mode:
        """The session's own mode."""
        return self._first.mode

    @property
    def hides(self) -> Sequence[str]:
        return tuple(dict.fromkeys(glob for one in self._both for glob in one.hides))

    def judge(self, accesses: Sequence[Access]) -> Verdict:
        return _choose(*(one.judge(accesses) for one in self._both))

    def verdict(self, access: Access) -> Verdict:
        """Judge one access."""
        return _choose(*(one.verdict(access) for one in self._both))

    def asking(self) -> AbstractContextManager[None]:
        return self._first.asking()

    def readable(self, path: str) -> bool:
        return all(one.readable(path) for one in self._both)

    def is_other_name(self, path: str) -> bool:
        return any(one.is_other_name(path) for one in self._both)

    def suspect_names(self, directory: str, has_ignore_file: bool) -> NameTest | None:
        tests = [test for one in self._both if (test := one.suspect_names(directory, has_ignore_file))]
        return (lambda name: any(test(name) for test in tests)) if tests else None

    def unreadable(self) -> list[str]:
        return list(dict.fromkeys(path for one in self._both for path in one.unreadable()))

    def looks_secret(self, path: str, source: str | bytes) -> bool:
        return self._first.looks_secret(path, source)

    @property
    def searched_all(self) -> bool:
        return all(one.searched_all for one in self._both)

    def protects(self, path: str, *, created: bool = False) -> bool:
        return any(one.protects(path, created=created) for one in self._both)

    def credentials(self) -> list[str]:
        return list(dict.fromkeys(path for one in self._both for path in one.credentials()))

    def visible_trees(self) -> list[str] | None:
        both = [trees for one in self._both if (trees := one.visible_trees()) is not None]
        if len(both) < 2:
            return both[0] if both else None
        first, second = both
        common = [one for one in first if any(is_within(other, one) for other in second)]
        return list(dict.fromkeys([*common, *(one for one in second if any(is_within(other, one) for other in first))]))

    def denied_by_name(self) -> list[str]:
        return list(dict.fromkeys(path for one in self._both for path in one.denied_by_name()))

    def filters(self, accesses: Sequence[Access]) -> bool:
        """Whether a command gets a proxy to allowed hosts alone: if one policy asks for it, and neither refuses."""
        out = [access for access in accesses if access.action == "network"]
        return any(one.filters(accesses) for one in self._both) and self.judge(out).decision == "allow"

    def allows_host(self, host: str) -> bool:
        named = any(one.allows_host(host) for one in self._both)
        return named and self.verdict(NetworkAccess(host)).decision == "allow"

    def remember(self, lines: Sequence[str], place: str = "") -> str:  # noqa: ARG002 - as the other policies have it
        """Raise `PolicyError`: a rule for good would have to be written down on both sides."""
        raise PolicyError(
            "an answer for good holds for this session only; write the rule into policy.toml on both sides"
        )


def _choose(one: Verdict, other: Verdict) -> Verdict:
    """The stricter verdict. Of two that allow it is the one without a rule, of two others it needs both rules."""
    if one.decision == other.decision == "allow":
        return other if one.source else one
    if STRICT[one.decision] != STRICT[other.decision]:
        return max(one, other, key=lambda verdict: STRICT[verdict.decision])
    lines = f"{one.allow}\n{other.allow}".split("\n") if one.allow and other.allow else []
    return replace(one, allow="\n".join(dict.fromkeys(lines)))
