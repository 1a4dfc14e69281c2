"""The services that all calls of a session share, and the command host that runs their commands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from handrail.dialects import Dialect
from handrail.files.artefacts import Artefacts
from handrail.files.locks import Locks
from handrail.files.pages import Indexes
from handrail.frozen import frozen
from handrail.model import NetworkAccess
from handrail.pipeline.approve import Approvals
from handrail.pipeline.finish import Recorder
from handrail.pipeline.refused_calls import RefusedCalls
from handrail.pipeline.search_view import SearchView
from handrail.policy import Policy
from handrail.settings import Settings
from handrail.tracker import Tracker
from handrail.workspace import Workspace

if TYPE_CHECKING:
    from handrail.drafts.store import OpenDraft
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.events import Events, OnEvent
    from handrail.policy.guards import OwnFiles
    from handrail.secrets.redaction import Redaction
    from handrail.shell.command_host import CommandHost
    from handrail.shell.followed_jobs import ChangeJudge
    from handrail.shell.git.tracked_files import TrackedFiles
    from handrail.tools.tool import DraftTools


@frozen
class Services:
    """Services that the steps of a call use besides its state."""

    settings: Settings
    dialect: Dialect
    workspace: Workspace
    tracker: Tracker
    redaction: Redaction | None
    """None where the settings hide nothing."""
    approvals: Approvals
    recorder: Recorder
    locks: Locks
    indexes: Indexes
    search: SearchView
    refused: RefusedCalls
    on_event: OnEvent | None
    """The session's own listener."""
    events: Callable[[], Events]
    """Imports the events when the first one is sent."""
    command_host: Callable[[], CommandHost]
    """Opens the command host when the first command runs."""
    accepting: Callable[[], AbstractContextManager[list[str]]]
    """Accepts what a call writes to protected files while jobs run; the list takes the paths."""
    tracked_files: Callable[[], TrackedFiles]
    """Imports them when they are first needed."""
    undo: Callable[..., UndoReport]
    """Takes back changes of this session."""
    open_draft_tools: Callable[[OpenDraft, int], DraftTools]
    """Opens the tools over the draft of a script."""
    redactions: list[Redaction]
    """All that hide secrets in answers: the settings' own, and one for each command that was lent secrets."""

    def shows_contents(self, path: str) -> bool:
        """Whether the contents of a file may be shown to the model: nothing and nobody keeps them from it."""
        readable: Callable[[str], bool] | None = getattr(self.approvals.policy, "readable", None)
        return readable is None or readable(path)

    def hide(self, text: str) -> str:
        """A text for the host or the model, with placeholders in the place of secrets."""
        for redaction in self.redactions:
            text = redaction.hide(text)
        return text


def open_command_host(
    settings: Settings,
    workspace: Workspace,
    artefacts: Artefacts,
    own: OwnFiles,
    current: Callable[[], Policy],
    state: str,
    tracked: TrackedFiles,
    judge: ChangeJudge,
) -> CommandHost:
    """The command host of a session. Commands cannot see Handrail's own files, nor files that the policy hides.

    ``current``: the policy in force.
    """
    from handrail.shell.command_host import CommandHost  # slow to import, and only needed for commands
    from handrail.shell.session_sandbox import HostOptions

    policy = current()
    options = HostOptions(
        settings.sandbox,
        settings.sandbox_required,
        settings.network,
        settings.keep_env,
        hidden=getattr(policy, "unreadable", None),
        searched_all=partial(getattr, policy, "searched_all", True),
        tracked=tracked,
        looks_secret=getattr(policy, "looks_secret", None),
        denied=getattr(policy, "denied_by_name", None),
        credentials=getattr(policy, "credentials", None),
        permits_port=lambda port: _permits_port(current(), port),
        allows_host=lambda host: bool(getattr(current(), "allows_host", lambda _: False)(host)),
        judge=judge,
        own=own.state,
        config=own.config,
        drafts=state if settings.drafts else "",
        state=state,
        most_processes=settings.most_processes,
    )
    return CommandHost(tuple(root.path for root in workspace.roots if root.writable), artefacts, options)


def _permits_port(policy: Policy, port: int) -> bool:
    """Whether commands may connect to a port of this machine without a question. A rule may name it in three ways."""
    verdicts = [policy.judge([NetworkAccess(f"{name}:{port}")]) for name in ("localhost", "127.0.0.1", "[::1]")]
    held = any(verdict.decision != "allow" and verdict.source for verdict in verdicts)
    return not held and any(verdict.decision == "allow" for verdict in verdicts)
