"""The parts of a session: rules, policy, journal, what searches may see, and where commands run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.artefacts import Artefacts
from handrail.journal import Journal, NoJournal
from handrail.nouns import Touch
from handrail.policy import Policy
from handrail.settings import Settings
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.policy.files import PolicyFile
    from handrail.policy.secrets import Mode
    from handrail.search.tree import Sight, Tree
    from handrail.search.walk import Listings
    from handrail.shell.terminal import Terminal


def policy(
    workspace: Workspace,
    mode: Mode,
    rules: Sequence[PolicyFile],
    terminal: Callable[[], Terminal],
) -> Policy:
    """The rules of files and the built-in ones, in a mode."""
    from handrail.policy.judge import RulePolicy

    return RulePolicy(workspace.roots, mode, rules, lambda: terminal().confined, masked=lambda: terminal().hides)


def rules(root: str | os.PathLike[str], state: str) -> tuple[PolicyFile, ...]:
    """The rules of the system, of the user and of the project; raises `PolicyError` for a mistake in one."""
    from handrail.policy.files import load

    return load(os.path.realpath(root), os.environ, state)


def journal(asked: Journal | str | None, state: str, settings: Settings) -> Journal:
    """The journal that a host asks for: its own, the user's ("auto" or "require"), or none."""
    if asked not in ("auto", "require"):
        if isinstance(asked, str):
            raise ValueError(f'journal is "auto", "require", None or a Journal, not {asked!r}')
        return asked or NoJournal()
    if asked == "auto" and settings.journaling == "off":
        return NoJournal()
    from handrail.journal.store import SqliteJournal, default_path  # slow to import, and only needed with a journal

    required = "require" in (asked, settings.journaling)
    return SqliteJournal(default_path(state), required=required, budget=settings.journal_bytes)


def sight(policy: Policy) -> Sight:
    """What a search may see: what policy would let be read."""
    from handrail.search.tree import Sight

    hides = getattr(policy, "hides", None)
    if hides is not None and not hides:
        return Sight()

    def readable(real: str) -> bool:
        return policy.judge((Touch("read", real, real),)).decision != "deny"

    return Sight(getattr(policy, "readable", readable), hides)


class Eyes:
    """Looks around in directories for one session; made ready, search room and all, when the first call does."""

    def __init__(self, workspace: Workspace, policy: Policy) -> None:
        self._workspace = workspace
        self._policy = policy
        self._listings: Listings | None = None
        self._sight: Sight | None = None
        self._lock = threading.Lock()

    def follow(self, policy: Policy) -> None:
        """See by another policy from now on."""
        with self._lock:
            self._policy, self._sight = policy, None

    def tree(self, path: WorkPath) -> Tree:
        from handrail.search.tree import Tree
        from handrail.search.walk import Listings

        with self._lock:
            self._listings = self._listings or Listings()
            self._sight = self._sight or sight(self._policy)
            return Tree(self._workspace, path, self._listings, self._sight)


def terminal(
    settings: Settings,
    workspace: Workspace,
    artefacts: Artefacts,
    state: str,
    unreadable: Callable[[int], Sequence[str]] | None,
) -> Terminal:
    """Where commands run; what is ``unreadable`` by policy is hidden from them, as far as the boundary can."""
    from handrail.shell.fencing.fence import MOST_MASKED, Limits  # slow to import, and only needed for commands
    from handrail.shell.terminal import Options, Terminal

    options = Options(
        settings.sandbox,
        settings.sandbox_required,
        settings.network,
        settings.keep_env,
        hidden=lambda: [state, *(unreadable(MOST_MASKED) if unreadable else ())],
        own=(state,),
        limits=Limits(processes=settings.most_processes),
    )
    return Terminal(tuple(root.path for root in workspace.roots if root.writable), artefacts, options)
