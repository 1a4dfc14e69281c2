"""The parts of a session: rules, policy, journal, what searches may see, and where commands run."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from handrail.dialects import Dialect, names
from handrail.files.artefacts import Artefacts
from handrail.journal import Journal, JournalFailed, NoJournal
from handrail.model import Access
from handrail.policy import Policy
from handrail.settings import Settings
from handrail.workspace import Root, WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.policy.files import PolicyFile
    from handrail.policy.own_files import OwnFiles
    from handrail.policy.secrets import Mode
    from handrail.search.tree import Sight, Tree
    from handrail.search.walk import Listings
    from handrail.shell.terminal import Terminal


def check_options(
    root: object,
    dialect: object,
    roots: object,
    policy: object,
    mode: object,
    rules: object,
    approve: object,
    journal: object,
    settings: object,
) -> None:
    """Check what a host gives to `Session` before anything is opened; raises `ValueError` that says what would do.

    A wrong type is found here and not in the first call: there it would look like a fault of Handrail's.
    """
    if policy is not None and (mode is not None or rules):
        raise ValueError("give either a policy, or a mode and rules: a policy of your own knows neither")
    if policy is not None and (isinstance(policy, type) or not callable(getattr(policy, "judge", None))):
        raise _wrong(
            "policy", "an object with a method judge(touches) that returns a Verdict, such as AllowAll()", policy
        )
    if approve is not None and not callable(approve):
        raise _wrong("approve", "a function that takes a Question and returns True, False or an Answer", approve)
    if settings is not None and not isinstance(settings, Settings):
        raise _wrong("settings", "a Settings object", settings)
    if not (journal is None or journal in ("auto", "require") or callable(getattr(journal, "record", None))):
        raise _wrong("journal", '"auto", "require", None or a Journal', journal)
    if not isinstance(dialect, str | Dialect):
        raise _wrong("dialect", f"a Dialect, the path of a folder, or one of {', '.join(names())}", dialect)
    if not isinstance(root, str | os.PathLike) or not os.path.isdir(root):
        raise _wrong("root", "the path of an existing directory", root)
    for one in _listed("roots", roots, "Root objects, such as Root('path', writable=False)"):
        if not isinstance(one, Root):
            raise _wrong("roots", "Root objects, such as Root('path', writable=False)", one)
    for one in _listed("rules", rules, "PolicyFile objects, as parse_rules(text) returns them"):
        from handrail.policy.files import PolicyFile

        if not isinstance(one, PolicyFile):
            raise _wrong("rules", "PolicyFile objects, as parse_rules(text) returns them", one)


def _listed(name: str, value: object, what: str) -> Iterable[object]:
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise _wrong(name, f"a list of {what}", value)
    return value


def _wrong(name: str, valid: str, value: object) -> ValueError:
    shown = repr(value)
    return ValueError(f"{name} must be {valid}, not {shown if len(shown) <= 300 else shown[:300] + '...'}")


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


class JournalChoice:
    """The journal that a host asks for: its own, the user's ("auto" or "require"), or none.

    The user's is opened when it is first needed, since SQLite is slow to import, and closed with the session. One that
    is required is opened at once; raises `JournalFailed` if that cannot be.
    """

    def __init__(self, asked: Journal | str | None, state: str, settings: Settings) -> None:
        self._required = "require" in (asked, settings.journaling)
        self._state, self._budget = state, settings.journal_bytes
        self._lock = threading.Lock()
        self._closed = False
        self._users = isinstance(asked, str) and (self._required or settings.journaling != "off")
        self._found = None if self._users else NoJournal() if asked is None or isinstance(asked, str) else asked
        if self._users and self._required:
            self.get()

    def get(self) -> Journal:
        with self._lock:
            if self._found is None:
                from handrail.journal.shared import open_journal
                from handrail.journal.store import default_path

                opened = open_journal(default_path(self._state), required=self._required, budget=self._budget)
                try:
                    if self._required:
                        opened.require()
                except JournalFailed:
                    opened.close()
                    raise
                if self._closed:  # a refusal after the end is still recorded, and nothing stays open for it
                    opened.close()
                self._found = opened
            return self._found

    def close(self) -> None:
        """Close the user's journal; one of the host's own stays open."""
        with self._lock:
            self._closed = True
            if self._users and self._found:
                self._found.close()


def sight(policy: Policy, own: OwnFiles | None = None) -> Sight:
    """What a search may see: what policy would let be read, and nothing that is Handrail's ``own``."""
    from handrail.search.tree import Sight

    if own and own.is_within:
        seen = sight(policy).readable
        return Sight(lambda real: own.shows(real) and (seen is None or seen(real)), None)
    hides = getattr(policy, "hides", None)
    if hides is not None and not hides:
        return Sight()

    def readable(real: str) -> bool:
        return policy.judge((Access("read", real, real),)).decision != "deny"

    return Sight(getattr(policy, "readable", readable), hides)


class Eyes:
    """Looks around in directories for one session; made ready, search room and all, when the first call does."""

    def __init__(self, workspace: Workspace, policy: Policy, own: Callable[[], OwnFiles]) -> None:
        self._workspace = workspace
        self._policy = policy
        self._own = own
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
            self._sight = self._sight or sight(self._policy, self._own())
            return Tree(self._workspace, path, self._listings, self._sight)


def own(workspace: Workspace, artefacts: Artefacts, state: str) -> OwnFiles:
    """The places that are Handrail's own, which no call may touch but for the artefacts of this session."""
    from handrail.policy.own_files import OwnFiles

    roots = [root.path for root in workspace.roots if not root.alias]
    return OwnFiles.found(state, artefacts.directory, roots, os.environ)


def terminal(
    settings: Settings,
    workspace: Workspace,
    artefacts: Artefacts,
    own: OwnFiles,
    policy: Policy,
) -> Terminal:
    """Where commands run; Handrail's own files, and what policy denies to read, are hidden from them."""
    from handrail.shell.sandbox.confinement import MOST_MASKED, Limits  # slow to import, and only needed for commands
    from handrail.shell.terminal import Options, Terminal

    unreadable = getattr(policy, "unreadable", None)
    options = Options(
        settings.sandbox,
        settings.sandbox_required,
        settings.network,
        settings.keep_env,
        hidden=(lambda: unreadable(MOST_MASKED)) if unreadable else None,
        denied=getattr(policy, "denied_by_name", None),
        own=own.state,
        config=own.config,
        limits=Limits(processes=settings.most_processes),
    )
    return Terminal(tuple(root.path for root in workspace.roots if root.writable), artefacts, options)
