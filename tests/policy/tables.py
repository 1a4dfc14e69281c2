"""What the tests of the policy share: a policy from a text of rules, and touches in short."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from handrail.model import Access, Action, CommandAccess, FileAccess, NetworkAccess, ToolAccess
from handrail.policy.files import Origin, PolicyFile, parse
from handrail.policy.judge import Machine, RulePolicy
from handrail.workspace import Root


def rules(text: str, origin: Origin = "user", root: Path | None = None, *, trusted: bool = True) -> PolicyFile:
    return parse(text, f"{origin}.toml", origin, str(root or "/"), trusted=trusted)


def policy(
    root: Path, mode: Any = "ask", *files: PolicyFile, confined: bool = False, home: Path | None = None
) -> RulePolicy:
    return RulePolicy([Root(str(root))], mode, files, Machine(lambda: confined), str(home or root.parent / "home"))


def access(root: Path, action: Action, target: str, **more: Any) -> Access:
    """An access as the pipeline passes it on: a path, and the real path that it leads to."""
    if action == "run":
        return CommandAccess(target, **more)
    if action == "network":
        return NetworkAccess(target, **more)
    if action == "call":
        return ToolAccess(target)
    return FileAccess(action, target, str((root / target).resolve()), **more)


def decisions(judge: RulePolicy, accesses: Sequence[Access]) -> list[str]:
    return [judge.judge([access]).decision for access in accesses]
