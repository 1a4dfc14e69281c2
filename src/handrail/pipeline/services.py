"""The services that all calls of a session share, and the command host that runs their commands."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Unpack

from handrail.dialects import Dialect
from handrail.drafts.neighbours import list_neighbours, list_places
from handrail.errors import SessionOver
from handrail.files.artefacts import Artefacts
from handrail.files.locks import Locks
from handrail.files.pages import Indexes
from handrail.files.recovery import recover
from handrail.files.versions import Saving
from handrail.journal import Origin
from handrail.journal.store import SqliteJournal
from handrail.model import Approve, NetworkAccess
from handrail.pipeline.approve import Approvals
from handrail.pipeline.events import Events
from handrail.pipeline.finish import Recorder, SessionJournal
from handrail.pipeline.hooks import RuleHooks
from handrail.pipeline.options import load_redaction
from handrail.pipeline.refused_calls import RefusedCalls
from handrail.pipeline.search_view import SearchView
from handrail.policy import Policy
from handrail.policy.guards import OwnFiles
from handrail.policy.judge import Machine, RulePolicy
from handrail.policy.modes import DEFAULT_MODE, Mode
from handrail.policy.protected import FirstIgnores
from handrail.policy.stricter import StricterPolicy
from handrail.settings import Settings
from handrail.shell.git.tracked_files import TrackedFiles
from handrail.tracker import Tracker
from handrail.workspace import Workspace

if TYPE_CHECKING:
    from handrail.drafts.store import OpenDraft
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.checks import Checks
    from handrail.pipeline.events import OnEvent
    from handrail.pipeline.options import SessionOptions, UndoOptions
    from handrail.policy.files import PolicyFile
    from handrail.policy.stricter import Restriction
    from handrail.shell.command_host import CommandHost
    from handrail.shell.followed_jobs import ChangeJudge
    from handrail.tools.notes import NoteFacts
    from handrail.tools.tool import DraftTools


class Services:
    """What the steps of a session's calls use besides the state of a call."""

    def __init__(
        self,
        settings: Settings,
        dialect: Dialect,
        workspace: Workspace,
        artefacts: Artefacts,
        state: str,
        rules: Sequence[PolicyFile],
        policy: Policy | None,
        mode: Mode,
        *,
        approve: Approve | None,
        journal: SessionJournal,
        on_event: OnEvent | None,
        options: SessionOptions,
    ) -> None:
        """``policy``: a host's own; None: the ``rules`` hold, in ``mode``."""
        self.settings = settings
        self.dialect = dialect
        self.workspace = workspace
        self.state = state
        self.rules = rules
        self.approve = approve
        self.on_event = on_event
        self.host: CommandHost | None = None
        """None until the first command."""
        self.tracker = Tracker()
        self.indexes = Indexes()
        self.redaction = load_redaction(settings)
        """None where the settings hide nothing."""
        self.redactions = [self.redaction] if self.redaction else []
        """All that hide secrets in answers: the settings' own, and one for each command that was lent secrets."""
        home = os.path.realpath(workspace.home)
        hide = self.redaction.hide if self.redaction else str
        self.origin = Origin(os.urandom(4).hex(), dialect.name, home, hide)
        self._artefacts = artefacts
        self._options = options
        self._journal = journal
        self._restriction: Restriction | None = None
        self._opening = threading.Lock()
        self.closed = False
        self.policy = self._build_policy(mode) if policy is None else policy
        self.has_own_policy = policy is not None
        self.recorder = Recorder(journal, self.origin, dialect)
        self.approvals = Approvals(self.policy, approve, self.origin, self)
        self.locks = Locks(os.path.join(state, "locks"), recover, settings.lock_seconds)
        self.refused = RefusedCalls(state, home)
        indexes = state if settings.index else None
        self.search = SearchView(workspace, self.policy, lambda: self.own_files, indexes)

    def describe_options(self) -> dict[str, object]:
        """The options with which another process opens a session like this; see `session.reopen`."""
        mode = None if self.has_own_policy else self.mode
        return {"root": self.workspace.home, **self._options, "mode": mode, "restriction": self._restriction}

    @property
    def mode(self) -> Mode | None:
        """How much is allowed without asking; None with a policy of the host's own."""
        return getattr(self.policy, "mode", None)

    def set_mode(self, mode: Mode) -> None:
        if self.has_own_policy:
            raise TypeError("this session has its own policy, which has no modes")
        self._follow(self._build_policy(mode))

    def restrict(self, restriction: Restriction) -> None:
        if self.has_own_policy:
            raise TypeError("this session has its own policy, which cannot be restricted")
        self._restriction = restriction
        self._follow(self._build_policy(self.mode or DEFAULT_MODE))

    def _follow(self, policy: Policy) -> None:
        self.policy = policy
        self.approvals.follow(policy)
        self.search.follow(policy)

    def _build_policy(self, mode: Mode) -> Policy:
        """The rules of files and the built-in ones, in a mode; with a restriction both hold."""
        own = self._build_rules(mode, self.rules)
        if self._restriction is None:
            return own
        return StricterPolicy(own, self._build_rules(self._restriction.mode, self._restriction.rules))

    def _build_rules(self, mode: Mode, rules: Sequence[PolicyFile]) -> RulePolicy:
        machine = Machine(
            namespaced=lambda: self.command_host().boundary.namespaced,
            masked=lambda: self.command_host().sandbox.hides,
            offline=lambda: self.command_host().network.offline,
            loopback=lambda: self.settings.network != "off",
            filtered=lambda: self.command_host().network.filters,
        )
        roots, tracked = self.workspace.roots, self.tracked_files
        return RulePolicy(roots, mode, rules, machine, tracked=tracked, ignores=self._first_ignores)

    def resume(self, session: str) -> None:
        """Record the next calls as those of this earlier session."""
        self.origin = replace(self.origin, session=session)
        self.recorder.resume(session)

    def shows_contents(self, path: str) -> bool:
        """Whether the contents of a file may be shown to the model: nothing and nobody keeps them from it."""
        readable: Callable[[str], bool] | None = getattr(self.policy, "readable", None)
        return readable is None or readable(path)

    def hide(self, text: str) -> str:
        """A text for the host or the model, with placeholders in the place of secrets."""
        for redaction in self.redactions:
            text = redaction.hide(text)
        return text

    def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """Undo calls, as `Session.undo` does."""
        from handrail.journal.undo import CannotUndo, UndoContext, undo

        journal, settings = self.recorder.journal, self.settings
        if not isinstance(journal, SqliteJournal):
            raise CannotUndo("this session has no journal")
        only = "" if which.pop("any_session", False) else self.origin.session
        saving = Saving(settings.durable, settings.hard_links)
        context = UndoContext(self.workspace, self.locks, saving, settings.most_edit_bytes, self.origin)
        with self.host.changes.accepting() if self.host else nullcontext([]) as paths:
            report = undo(journal, context, only=only, **which)
            paths += (one.path for one in report.restored)
        return report

    def open_draft_tools(self, draft: OpenDraft, call: int) -> DraftTools:
        """The tools of this session over a draft: for a script, whose changes are judged when it has ended.

        ``call``: the number of the script's call, below which its calls are recorded; 0 if it has none.
        """
        from handrail.journal.children import ChildJournal
        from handrail.pipeline.script_tools import open_draft_tools

        own, child = self.recorder.journal, None
        if call and isinstance(own, SqliteJournal):
            child = ChildJournal(own.path, call, self.origin.session)
        return open_draft_tools(self.dialect, draft, {**self.describe_options(), "journal": child})

    def find_overlaps(self, changes: Iterable[tuple[str, bytes, bytes]]) -> list[NoteFacts]:
        """Notes on changes of lines that were changed in other drafts, too: the paths, and the contents on both sides.

        To be called before the changes are made.
        """
        if not self.settings.drafts:
            return []
        home = self.origin.workspace
        notes: list[NoteFacts] = []
        for path, old, new in changes:
            relative = os.path.relpath(path, home)
            if drafts := list(list_neighbours(self._draft_places, home, relative)):
                from handrail.pipeline.overlaps import find_overlaps  # slow to import, and only needed here

                notes += find_overlaps(drafts, relative, old, new)
        return notes

    def close(self) -> None:
        """End running commands and release the workspace."""
        with self._opening:
            self.closed = True
        if checks := self.__dict__.get("checks"):  # unless no call has needed them
            checks.close()
        if self.host:
            self.host.close()
        self.search.close()
        self._journal.close()
        self._artefacts.close()
        self.workspace.close()

    # Made when they are first needed.

    def command_host(self) -> CommandHost:
        """The host of the commands; opened for the first one."""
        with self._opening:
            if self.closed:
                raise SessionOver
            if self.host is None:
                from handrail.pipeline.job_changes import make_judge  # only needed for commands

                judge = make_judge(lambda: self.policy, self.recorder)
                self.host = _open_command_host(self, self._artefacts, judge)
            return self.host

    @cached_property
    def _draft_places(self) -> list[str]:
        return list_places(self.state, self.origin.workspace)

    @cached_property
    def events(self) -> Events:
        return Events(self.on_event)

    @cached_property
    def hooks(self) -> RuleHooks | None:
        """The hooks of rule files that count; None if there are none."""
        hooks = [hook for file in self.rules if file.trusted for hook in file.hooks]
        if not hooks or self.closed:
            return None
        return RuleHooks(hooks, self.workspace, self.command_host)

    @cached_property
    def checks(self) -> Checks | None:
        """The checks of rule files that count; None if there are none."""
        checks = [check for file in self.rules if file.trusted for check in file.checks]
        if not checks or self.closed:
            return None
        from handrail.pipeline.checks import Checks

        return Checks(checks, self.workspace.home, self.command_host, lambda: self.policy, self.hide)

    @cached_property
    def own_files(self) -> OwnFiles:
        """Handrail's own files."""
        roots = [root.path for root in self.workspace.roots if not root.alias]
        return OwnFiles.locate(self.state, self._artefacts.directory, roots, os.environ)

    @cached_property
    def _first_ignores(self) -> FirstIgnores:
        """What git ignored when the session began."""
        return FirstIgnores([os.path.realpath(root.path) for root in self.workspace.roots if not root.alias])

    @cached_property
    def tracked_files(self) -> TrackedFiles:
        """Which files git tracks, and are no secrets by their names."""
        return TrackedFiles(self.state)


def _open_command_host(services: Services, artefacts: Artefacts, judge: ChangeJudge) -> CommandHost:
    """The command host of a session. Commands cannot see Handrail's own files, nor files that the policy hides."""
    from handrail.shell.command_host import CommandHost  # slow to import, and only needed for commands
    from handrail.shell.session_sandbox import HostOptions

    settings, state, policy = services.settings, services.state, services.policy
    options = HostOptions(
        settings.sandbox,
        settings.sandbox_required,
        settings.network,
        settings.keep_env,
        hidden=getattr(policy, "unreadable", None),
        searched_all=partial(getattr, policy, "searched_all", True),
        tracked=services.tracked_files,
        looks_secret=getattr(policy, "looks_secret", None),
        denied=getattr(policy, "denied_by_name", None),
        credentials=getattr(policy, "credentials", None),
        permits_port=lambda port: _permits_port(services.policy, port),
        allows_host=lambda host: bool(getattr(services.policy, "allows_host", lambda _: False)(host)),
        judge=judge,
        own=services.own_files.state,
        config=services.own_files.config,
        drafts=state if settings.drafts else "",
        state=state,
        most_processes=settings.most_processes,
    )
    return CommandHost(tuple(root.path for root in services.workspace.roots if root.writable), artefacts, options)


def _permits_port(policy: Policy, port: int) -> bool:
    """Whether commands may connect to a port of this machine without a question. A rule may name it in three ways."""
    verdicts = [policy.judge([NetworkAccess(f"{name}:{port}")]) for name in ("localhost", "127.0.0.1", "[::1]")]
    held = any(verdict.decision != "allow" and verdict.source for verdict in verdicts)
    return not held and any(verdict.decision == "allow" for verdict in verdicts)
