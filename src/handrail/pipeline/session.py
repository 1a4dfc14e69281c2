"""The pipeline of a call, from a model's tool call to its result. The order of the steps is a security property.

    parse -> declare -> resolve -> judge       the call is prepared: nothing has changed yet, a preview exists
    approve -> run -> commit                   under locks only to commit; run again if a file changed meanwhile
    render -> record                           every call ends here, refusals and failures included

Each step takes the state that the step before it returns (`call_state.py`). Inside, failures are exceptions with
facts; outside, every call ends in a `Result`. They meet in this file only.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, Unpack

from handrail import dialects
from handrail.dialects import Dialect, Spec
from handrail.errors import (
    Bug,
    CallbackFailed,
    CallCancelled,
    ChangedSince,
    SessionOver,
    ToolError,
    ToolFailed,
    from_os,
)
from handrail.files.artefacts import ALIAS, Artefacts
from handrail.files.locks import Held, Intent, Locks, state_directory
from handrail.files.pages import Indexes
from handrail.files.versions import Saving, stamp_names
from handrail.journal import Journal, Origin
from handrail.model import Access, Approve, Call, CommandAccess, Result, Verdict
from handrail.pipeline.approve import Approvals
from handrail.pipeline.call_state import (
    Approved,
    CallClock,
    Declared,
    Done,
    Judged,
    NotAsShown,
    Progress,
    Ran,
    Received,
    Rendered,
)
from handrail.pipeline.context import ToolContext
from handrail.pipeline.finish import Recorder, ResultRenderer, SessionJournal
from handrail.pipeline.options import (
    check_callback,
    check_draft_options,
    check_options,
    load_redaction,
    load_rules,
    load_tools,
)
from handrail.pipeline.prepare import declare, judge, parse, read_arguments, resolve, seek
from handrail.pipeline.refused_calls import RefusedCalls
from handrail.pipeline.search_view import SearchView
from handrail.pipeline.services import Services, open_command_host
from handrail.policy import Policy
from handrail.policy.modes import DEFAULT_MODE, Mode
from handrail.settings import Settings, config_file
from handrail.tracker import Tracker
from handrail.workspace import Root, Workspace

if TYPE_CHECKING:
    from handrail.drafts.store import OpenDraft
    from handrail.files.versions import Change
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.checks import Checks
    from handrail.pipeline.draft_process import DraftProcess
    from handrail.pipeline.events import Events, OnEvent
    from handrail.pipeline.hooks import RuleHooks
    from handrail.pipeline.options import UndoOptions
    from handrail.pipeline.project import ProjectFacts
    from handrail.pipeline.session_draft import SessionDraft
    from handrail.policy.files import PolicyFile
    from handrail.policy.guards import OwnFiles
    from handrail.policy.judge import RulePolicy
    from handrail.policy.protected import FirstIgnores
    from handrail.policy.stricter import Restriction
    from handrail.search.tree import SearchTree
    from handrail.shell.command_host import CommandHost
    from handrail.shell.git.tracked_files import TrackedFiles
    from handrail.tools.tool import AnyTool, CommandDraft, DraftTools

ATTEMPTS = 20
_OVERTAKEN = 3
"""After this many attempts the locks are taken before the run."""


class Session:
    """A workspace, a dialect, and the files that the model has seen.

    Every interface opens its sessions here, with the same defaults: the user's `config.toml`, the rules of the user
    and of the trusted project, mode `accept-edits`, guarded secrets, and the user's journal. Opting out is explicit:

    - ``policy=AllowAll()``: no rules, no guarded secrets, no questions;
    - ``journal=None``: no record, so that nothing can be undone; ``"require"``: no change without a record;
      ``"postgresql://..."``: the user's journal is sent to a shared one as well;
    - ``settings=Settings(...)``: these, and the user's `config.toml` is not read.

    ``rules`` are added to those of the files. ``approve`` answers what the rules leave to a person; without it such
    calls are refused. ``on_event`` gets the start and the end of each call, progress and the live output of commands
    as objects; the logger `handrail` reports start and end. ``tools`` are functions of your own that the model may
    call. ``draft``: the name of a draft that all tools see in the place of the workspace; it is created if there is
    none. ``restriction``: a second mode and rules, which must allow each call too. Raises `ConfigError` or
    `PolicyError` for a mistake in a file, `ValueError` for a bad option, and `OSError` if there can be no draft.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        dialect: str | Dialect = "native",
        roots: Sequence[Root] = (),
        policy: Policy | None = None,
        mode: Mode | None = None,
        rules: Sequence[PolicyFile] = (),
        approve: Approve | None = None,
        journal: Journal | str | None = "auto",
        settings: Settings | None = None,
        on_event: OnEvent | None = None,
        tools: Sequence[AnyTool | Callable[..., object]] = (),
        draft: str | None = None,
        restriction: Restriction | None = None,
    ) -> None:
        check_options(root, dialect, roots, policy, mode, rules, approve, journal, settings)
        check_callback("on_event", on_event)
        if policy is not None and restriction is not None:
            raise ValueError("give either a policy, or a restriction of the rules and the mode")
        check_draft_options(draft, journal=journal, tools=tools)
        self._options = {
            "dialect": dialect if isinstance(dialect, str) else dialect.name,
            "roots": tuple(roots),
            "policy": policy,
            "mode": mode,
            "rules": tuple(rules),
            "journal": journal if journal in ("auto", "require", None) else "auto",
            "settings": settings,
            "restriction": restriction,
        }
        if settings is None:
            user = config_file.load(os.environ)
            settings, roots = user.settings, (*user.roots, *roots)
        self.settings = settings
        self.dialect = dialect if isinstance(dialect, Dialect) else dialects.load(dialect)
        if tools:
            self.dialect = self.dialect.with_tools(load_tools(tools))
        self._state = state = state_directory(settings.state)
        self._artefacts = Artefacts(os.path.join(state, "artefacts"), settings.artefact_bytes)
        artefacts = Root(self._artefacts.directory, writable=False, alias=ALIAS)
        self.workspace = self._open_workspace([Root(os.fspath(root)), *roots, artefacts])
        self.tracker = Tracker()
        self._has_own_policy = policy is not None
        self._restriction = restriction
        self._rules = () if policy is not None else (*load_rules(root, state), *rules)
        self.policy = self._build_policy(DEFAULT_MODE if mode is None else mode) if policy is None else policy
        redaction = load_redaction(settings)
        home = os.path.realpath(self.workspace.home)
        self.origin = Origin(os.urandom(4).hex(), self.dialect.name, home, redaction.hide if redaction else str)
        self._journal = SessionJournal(journal, state, settings)
        self._services = Services(
            settings=settings,
            dialect=self.dialect,
            workspace=self.workspace,
            tracker=self.tracker,
            redaction=redaction,
            redactions=[redaction] if redaction else [],
            approvals=Approvals(self.policy, approve, self.origin, self._judge_own_files),
            recorder=Recorder(self._journal, self.origin, self.dialect),
            locks=Locks(os.path.join(state, "locks"), _recover, settings.lock_seconds),
            indexes=Indexes(),
            search=SearchView(
                self.workspace,
                self.policy,
                lambda: self._own_files,
                state if settings.index else None,
            ),
            refused=RefusedCalls(state, home),
            on_event=on_event,
            events=lambda: self._events,
            command_host=self.command_host,
            accepting=self._accepting,
            tracked_files=lambda: self.tracked_files,
            undo=self.undo,
            open_draft_tools=self._open_draft_tools,
        )
        self._on_event = on_event
        self._approve = approve
        self._renderer = ResultRenderer(self.dialect, settings)
        self._command_host: CommandHost | None = None
        self._opening = threading.Lock()
        self._closed = False
        self._swept = threading.Event()
        self._draft_process = None if draft is None else self._start_in_draft(draft, approve)

    def _open_workspace(self, roots: Sequence[Root]) -> Workspace:
        """The files of this session; a session on files that are not only on the disk has another kind."""
        return Workspace(roots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def name_source(self, client: str, model: str = "") -> None:
        """Say which program, and which model, makes the next calls, for the journal."""
        self._services.recorder.name_source(client, model)

    def record_prompt(self, text: str) -> None:
        """Record a message of the person: `undo(turn=True)` undoes what came after the last one."""
        if self._draft_process:
            self._draft_process.request("record_prompt", text)
        else:
            self._services.recorder.record_prompt(text)

    def close(self) -> None:
        """End running commands and release the workspace. No call is possible afterwards."""
        with self._opening:
            self._closed = True
            command_host = self._command_host
        if self._draft_process:
            self._draft_process.close()
        if checks := self.__dict__.get("_checks"):  # unless no call has needed them
            checks.close()
        if command_host:
            command_host.close()
        self._services.search.close()
        self._journal.close()
        self._artefacts.close()
        self.workspace.close()

    @property
    def mode(self) -> Mode | None:
        """How much is allowed without asking; None for a session with its own policy."""
        return getattr(self.policy, "mode", None)

    @property
    def journal(self) -> Journal:
        """Where calls are recorded; the user's journal is opened when it is first needed."""
        return self._journal.open()

    def search_tree(self, path: str = ".") -> SearchTree:
        """A directory as the searches of this session see it."""
        return self._services.search.tree(self.workspace.resolve(path))

    def warm(self) -> None:
        """Import the first tool of the dialect now, so that the first call does not wait for it."""
        for name in self.dialect.core[:1]:
            self.dialect.spec(name)

    def specs(self) -> list[Spec]:
        """Return the tool definitions of the dialect."""
        return [self.dialect.spec(name) for name in self.dialect.entries]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str = "",
        cancel: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> Result:
        """One tool call, from start to end. Never raises for anything that a model did.

        Set ``cancel`` from another thread to interrupt the call; a running command is killed. ``on_event`` gets the
        events of this call.
        """
        # A host may pass on anything; a tool that does not exist is answered, not raised.
        return self.make_call(arguments, Received(Call(str(tool), {}, id), CallClock(), cancel, on_event))

    def make_call(self, arguments: Mapping[str, Any] | str | None, received: Received) -> Result:
        """One tool call, as `call` makes it; ``received`` has all but its arguments."""
        progress, tool = Progress(received), received.call.tool
        try:
            if self._draft_process:
                arguments = dict(arguments) if isinstance(arguments, Mapping) else arguments
                if received.guard:
                    received.guard.before_command(True)
                words = (tool, arguments, received.call.id)
                return self._draft_process.call(words, received.cancel, self._events, received.on_event)
            result = self._renderer.render_outcome(self._perform(self._receive(arguments, progress), progress))
        except (CallbackFailed, ToolFailed) as error:
            if self.settings.raise_bugs and isinstance(error, CallbackFailed) and error.__cause__:
                raise error.__cause__ from None
            result = self._renderer.render_failure(error, progress)
            return self._finish(result, progress, _format_traceback())
        except ToolError as error:
            self._services.refused.note(progress.received.call, error)
            result = self._renderer.render_failure(error, progress)
        except OSError as error:
            result = self._renderer.render_failure(from_os(error, path=error.filename or tool), progress)
        except Exception as error:
            if self.settings.raise_bugs:
                raise
            result = self._renderer.render_failure(Bug(what=f"{type(error).__name__}: {error}"), progress)
            return self._finish(result, progress, _format_traceback())
        return self._finish(result, progress)

    def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """Undo one call or several, or by default the last change of this session; see `UndoOptions`.

        Raises `UnknownCall` if there is no such call, `CannotUndo` if there is no journal or it cannot be opened, and
        the errors of a commit; then nothing is changed.
        """
        if self._draft_process:
            report: UndoReport = self._draft_process.request("undo", which)
            return report
        from handrail.journal.store import SqliteJournal
        from handrail.journal.undo import CannotUndo, UndoContext, undo

        if not isinstance(self.journal, SqliteJournal):
            raise CannotUndo("this session has no journal")
        only = "" if which.pop("any_session", False) else self.origin.session
        saving = Saving(self.settings.durable, self.settings.hard_links)
        context = UndoContext(self.workspace, self._services.locks, saving, self.settings.most_edit_bytes, self.origin)
        with self._accepting() as paths:
            report = undo(self.journal, context, only=only, **which)
            paths += (one.path for one in report.restored)
        return report

    def redo(self, *, any_session: bool = False, dry_run: bool = False) -> UndoReport:
        """Redo what the last undo of this session took back, unless something was changed after it.

        ``any_session``: the last undo in the workspace, whoever made it. Raises what `undo` raises.
        """
        return self.undo(redo=True, any_session=any_session, dry_run=dry_run)

    def recover(self) -> None:
        """End what processes that were killed have begun: each file is then the old one or the new one."""
        self._services.locks.sweep()

    def resume(self, session: str) -> None:
        """Record the next calls as those of this earlier session, whose process was cut off."""
        self.origin = replace(self.origin, session=session)
        self._services.recorder.resume(session)

    def describe_project(self) -> ProjectFacts:
        """The facts about the project that a model starts with."""
        from handrail.pipeline.project import read_project

        return read_project(self.workspace.home)

    def prepare(self, tool: str, arguments: Mapping[str, Any] | str | None = None) -> Judged:
        """A call as far as it goes without changing anything; raises `ToolError`."""
        received = Received(Call(tool, read_arguments(arguments)), CallClock())
        return self._prepare(received, Progress(received))

    def draft(self, name: str = "") -> SessionDraft[Session]:
        """A draft of the workspace with a session of its own: a new one, or the one of this name.

        Raises `OSError` if there can be no draft, and `ValueError` for a bad name.
        """
        from handrail.drafts.store import DraftStore
        from handrail.pipeline.session_draft import SessionDraft

        def open_session(draft: str) -> Session:
            options: dict[str, Any] = {**self._options, "mode": None if self._has_own_policy else self.mode}
            return type(self)(self.workspace.home, approve=self._approve, draft=draft, **options)

        store = DraftStore.open(self._state, self.workspace.home)
        return SessionDraft(store, name, open_session, lambda: self.journal, self.origin)

    def _start_in_draft(self, name: str, approve: Approve | None) -> DraftProcess:
        """Start the process that makes the calls of this session in a draft."""
        from handrail.drafts.store import DraftStore
        from handrail.pipeline.draft_process import DraftProcess, open_draft

        draft = open_draft(DraftStore.open(self._state, self.workspace.home), name)
        try:
            return DraftProcess(draft, {"root": self.workspace.home, **self._options}, approve)
        except BaseException:
            draft.close()
            raise

    def _open_draft_tools(self, draft: OpenDraft, call: int) -> DraftTools:
        """The tools of this session over a draft: for a script, whose changes are judged when it has ended.

        ``call``: the number of the script's call, below which its calls are recorded; 0 if it has none.
        """
        from handrail.journal.children import ChildJournal
        from handrail.journal.store import SqliteJournal
        from handrail.pipeline.script_tools import open_draft_tools

        journal: Journal | None = None
        if call and isinstance(self.journal, SqliteJournal):
            journal = ChildJournal(self.journal.path, call, self.origin.session)
        options = {"root": self.workspace.home, **self._options, "mode": self.mode, "journal": journal}
        return open_draft_tools(self.dialect, draft, options)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; rules and answers for the session stay."""
        if self._has_own_policy:
            raise TypeError("this session has its own policy, which has no modes")
        if self._draft_process:
            self._draft_process.request("set_mode", mode)
        self._follow(self._build_policy(mode))

    def restrict(self, restriction: Restriction) -> None:
        """Replace the restriction of this session; its own mode and rules stay."""
        if self._has_own_policy:
            raise TypeError("this session has its own policy, which cannot be restricted")
        if self._draft_process:
            self._draft_process.request("restrict", restriction)
        self._restriction = self._options["restriction"] = restriction
        self._follow(self._build_policy(self.mode or DEFAULT_MODE))

    def _follow(self, policy: Policy) -> None:
        self.policy = policy
        self._services.approvals.follow(policy)
        self._services.search.follow(policy)

    # The pipeline, step by step.

    def _receive(self, arguments: Mapping[str, Any] | str | None, progress: Progress) -> Received:
        received = progress.received
        if self._command_host:
            self._command_host.changes.check_jobs()
        hidden = self._hide_secrets(read_arguments(arguments))
        call = Call(received.call.tool, hidden, received.call.id)
        received = progress.reach(replace(received, call=call))
        if self._is_reported(received):
            self._events.report_start(received.call, received.on_event)
        return received

    def _is_reported(self, received: Received) -> bool:
        """Whether anybody gets the events of a call: a listener, or a reader of our debug records."""
        return self._on_event is not None or received.on_event is not None or _is_logging()

    def _hide_secrets(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        redaction = self._services.redaction
        return redaction.hide_arguments(arguments) if redaction is not None else arguments

    def _perform(self, received: Received, progress: Progress) -> Done:
        """Prepare, approve and run a call; start again if its effects no longer match what was shown."""
        services = self._services
        hooked: tuple[Call, tuple[Access, ...]] | None = None
        for _ in range(ATTEMPTS):
            judged = self._prepare(received, progress)
            if self._hooks and judged.verdict.decision != "deny" and hooked != (judged.call, judged.accesses):
                self._hooks.run_before(judged)
                hooked = judged.call, judged.accesses
            named = self._read_named_files(judged)
            approved = progress.reach(services.approvals.approve(judged))
            consent = approved.consent
            if consent and consent.answer.arguments is not None:
                rewritten = replace(received.call, arguments=self._hide_secrets(consent.answer.arguments))
                received = progress.reach(replace(received, call=rewritten, rewritten=consent.answer))
                continue
            if received.cancel and received.cancel.is_set():  # perhaps while the person was thinking
                raise CallCancelled
            # Meanwhile a link, a directory, the mode or a script may have changed.
            if consent and not judged.still_holds(self._prepare(received, progress)):
                continue
            if consent and self._read_named_files(judged) != named:
                continue
            try:
                done = run_and_commit(approved, services, progress)
            except NotAsShown:
                continue
            if consent:
                done = progress.reach(
                    replace(done, notes=services.approvals.remember(judged.accesses, judged.verdict, consent))
                )
            return done
        raise ChangedSince(path=progress.accesses[0].target if progress.accesses else "", moved="")

    def _read_named_files(self, judged: Judged) -> Mapping[str, object]:
        """The files that a command names, if a person is asked about it."""
        if judged.verdict.decision != "ask" or judged.command is None:
            return {}
        from handrail.pipeline.named_files import read_named_files

        return read_named_files(judged.accesses, self.workspace.home)

    def _prepare(self, received: Received, progress: Progress) -> Judged:
        """Take a call as far as it goes without changing anything."""
        services = self._services
        self._require_open()
        if not self._swept.is_set():
            services.locks.sweep()
            self._swept.set()
        matching = services.settings.matching
        declared = declare(progress.reach(parse(received, services.dialect, services.redaction, matching)))
        judged = self._judge(declared, progress)
        more = seek(judged, services)
        return self._judge(more, progress) if more else judged

    def _judge(self, declared: Declared, progress: Progress) -> Judged:
        slash = self._services.dialect.rules.slash_is_workspace
        resolved = progress.reach(resolve(progress.reach(declared), self.workspace, slash_is_workspace=slash))
        return progress.reach(judge(resolved, self._services))

    def _finish(self, result: Result, progress: Progress, traceback: str = "") -> Result:
        """Hide secrets in a result, give it the dialect's shape, and record it."""
        for redaction in self._services.redactions:
            result = redaction.result(result)
        if self._command_host and (restored := self._command_host.changes.take_put_back()):
            from handrail.tools.shared.command_answer import list_put_back  # only needed after a job or a hook

            result = self._renderer.add_block(result, list(list_put_back(restored, "A background job or a hook")))
        shaped = self.dialect.render(result, progress.received.call, self.workspace.home)
        result = self._services.recorder.record(Rendered(progress, shaped, result.data, traceback))
        if self._hooks:
            self._hooks.run_after(progress.received.call, progress.accesses, result)
        if self._checks:
            result = self._renderer.add_block(result, self._checks.take_notes())
            done = progress.find(Done)
            self._checks.note_changes(done.changes if done else (), _list_changed_files(result))
        if self._is_reported(progress.received):
            self._events.report_end(progress.received.call, result, progress.received.on_event)
        return result

    # Services that are made when they are first needed.

    def command_host(self) -> CommandHost:
        """The host of the commands; opened for the first one."""
        with self._opening:
            self._require_open()
            if self._command_host is None:
                from handrail.pipeline.job_changes import make_judge  # only needed for commands

                self._command_host = open_command_host(
                    self.settings,
                    self.workspace,
                    self._artefacts,
                    self._own_files,
                    self._find_policy,
                    self._state,
                    self.tracked_files,
                    make_judge(self._find_policy, self._services.recorder),
                )
            return self._command_host

    def _accepting(self) -> contextlib.AbstractContextManager[list[str]]:
        """Accept what is written to protected files meanwhile, by the paths that are added to the list."""
        return self._command_host.changes.accepting() if self._command_host else contextlib.nullcontext([])

    def _find_policy(self) -> Policy:
        """The policy in force, which changes with the mode."""
        return self.policy

    @cached_property
    def _events(self) -> Events:
        from handrail.pipeline.events import Events

        return Events(self._on_event)

    @cached_property
    def _hooks(self) -> RuleHooks | None:
        """The hooks of rule files that count; None if there are none."""
        hooks = [hook for file in self._rules if file.trusted for hook in file.hooks]
        if not hooks or self._closed:
            return None
        from handrail.pipeline.hooks import RuleHooks

        return RuleHooks(hooks, self.workspace, self.command_host)

    @cached_property
    def _checks(self) -> Checks | None:
        """The checks of rule files that count; None if there are none."""
        checks = [check for file in self._rules if file.trusted for check in file.checks]
        if not checks or self._closed:
            return None
        from handrail.pipeline.checks import Checks

        return Checks(checks, self.workspace.home, self.command_host, self._find_policy, self._services.hide)

    @cached_property
    def _own_files(self) -> OwnFiles:
        from handrail.policy.guards import OwnFiles

        roots = [root.path for root in self.workspace.roots if not root.alias]
        return OwnFiles.locate(self._state, self._artefacts.directory, roots, os.environ)

    def _judge_own_files(self, accesses: Sequence[Access]) -> Verdict | None:
        return self._own_files.judge(accesses, lambda: self.command_host().boundary.hides_own)

    def _build_policy(self, mode: Mode) -> Policy:
        """The rules of files and the built-in ones, in a mode; with a restriction both hold."""
        own = self._build_rules(mode, self._rules)
        if self._restriction is None:
            return own
        from handrail.policy.stricter import StricterPolicy  # only needed for remote sessions

        return StricterPolicy(own, self._build_rules(self._restriction.mode, self._restriction.rules))

    def _build_rules(self, mode: Mode, rules: Sequence[PolicyFile]) -> RulePolicy:
        from handrail.policy.judge import Machine, RulePolicy

        machine = Machine(
            confined=lambda: self.command_host().sandbox.confined,
            masked=lambda: self.command_host().sandbox.hides,
            offline=lambda: self.command_host().network.offline,
            loopback=lambda: self.settings.network != "off",
            filtered=lambda: self.command_host().network.filters,
        )
        roots, tracked = self.workspace.roots, self.tracked_files
        return RulePolicy(roots, mode, rules, machine, tracked=tracked, ignores=self._first_ignores)

    @cached_property
    def _first_ignores(self) -> FirstIgnores:
        """What git ignored when the session began."""
        from handrail.policy.protected import FirstIgnores

        return FirstIgnores([os.path.realpath(root.path) for root in self.workspace.roots if not root.alias])

    @cached_property
    def tracked_files(self) -> TrackedFiles:
        """Which files git tracks, and are no secrets by their names."""
        from handrail.shell.git.tracked_files import TrackedFiles

        return TrackedFiles(self._state)

    def _require_open(self) -> None:
        if self._closed:
            raise SessionOver


def _list_changed_files(result: Result) -> list[str]:
    """The files that a command in a draft has changed, below the workspace."""
    changes = result.data.get("changes")
    return [str(change["path"]) for change in changes] if isinstance(changes, list) else []


def _is_logging() -> bool:
    """Whether the host reads debug records of the logger `handrail`. One that never imported `logging` reads none."""
    if "logging" not in sys.modules:
        return False
    import logging  # waits for another thread that is importing it just now

    return logging.getLogger("handrail").isEnabledFor(logging.DEBUG)


def _recover(intent: Intent) -> None:
    from handrail.files.recovery import recover  # only needed after a kill

    recover(intent)


def _format_traceback() -> str:
    import traceback  # slow to import, and only needed for faults

    return traceback.format_exc()


def run_and_commit(approved: Approved, services: Services, progress: Progress) -> Done:
    """Run an approved call and commit its changes; again if another program changed the files meanwhile."""
    tool = approved.previous.tool
    if not approved.previous.written_paths or tool.commits:
        if approved.may_change_files or (tool.commits and tool.drafted):
            return _run_command(approved, services, progress)
        return _run_reading(approved, services, progress)
    repeatable = tool.repeatable
    attempts = ATTEMPTS if repeatable else 1
    for attempt in range(attempts):
        # Files that are written in place are locked for the run too.
        lock_first = attempt >= _OVERTAKEN or services.settings.hard_links == "through" or not repeatable
        try:
            return _attempt(approved, services, progress, lock_first)
        except ChangedSince as error:
            if error.moment != "commit" or attempt == attempts - 1:
                raise
    raise AssertionError("unreachable")


def _attempt(approved: Approved, services: Services, progress: Progress, lock_first: bool) -> Done:
    judged, locks = approved.previous, services.locks
    writes = judged.written_paths
    with contextlib.ExitStack() as stack:
        context = stack.enter_context(contextlib.closing(_open_context(approved, services)))
        held = stack.enter_context(locks.hold(writes)) if lock_first else None
        before = stamp_names(writes)
        try:
            ran = progress.reach(run(approved, context))
        except ToolError:
            # Perhaps it saw half of the changes of another call.
            if held or (stamp_names(writes) == before and locks.free(writes)):
                raise
            raise _report_overtaken(approved) from None
        if not held and ran.staged.changes:
            held = stack.enter_context(locks.hold(writes))
        if not lock_first and (stamp_names(writes) != before or not (held or locks.free(writes))):
            raise _report_overtaken(approved)
        return commit(ran, held, services, progress)


def _report_overtaken(approved: Approved) -> ChangedSince:
    return ChangedSince(path=approved.accesses[0].target, moment="commit")


def run(approved: Approved, context: ToolContext) -> Ran:
    """Run the tool. A change that it did not declare was neither judged nor locked: a fault of the tool."""
    judged = approved.previous
    parsed = judged.parsed
    if (guard := judged.received.guard) and (judged.command is not None or not parsed.tool.repeatable):
        guard.before_command(context.draft is not None)
    outcome = parsed.tool.run(parsed.args, context)
    staged = context.staged
    for change in staged.changes:
        if change.path.real not in judged.written_paths:
            raise AssertionError(f"a change of {change.path.named!r} was staged but not declared")
    return Ran(approved, outcome, staged)


def commit(ran: Ran, held: Held | None, services: Services, progress: Progress) -> Done:
    """Write the staged changes under the locks that are ``held``; raises `NotAsShown` if a person saw others."""
    approved, staged = ran.previous, ran.staged
    judged, tracker, settings = approved.previous, services.tracker, services.settings
    if approved.consent:
        approved.consent.require_same(staged.proposed)
    done = Done(ran, (), progress.token)
    data: dict[str, object] = {}
    if held and staged.changes:
        from handrail.files.commit import check_replaced  # slow to import, and only needed for changes
        from handrail.files.commit import commit as commit_files

        services.recorder.begin(approved, staged.changes, progress)
        retain = getattr(services.recorder.journal, "retain", None)  # a host's own journal has none
        saving = Saving(settings.durable, settings.hard_links, retain)
        services.workspace.call_before_close(check_replaced)
        with services.accepting() as paths:
            paths += (change.path.real for change in staged.changes)
            versions = commit_files(services.workspace, staged.changes, held, saving)
        done = progress.reach(Done(ran, tuple(staged.changes), progress.token))
        _note_contents(staged.changes, services)
        for change, hunks, version in zip(staged.changes, staged.hunks, versions, strict=True):
            real = change.path.real
            if real not in staged.unread:
                tracker.wrote(real, version, hunks, change.after, staged.tags.get(real))
            data.setdefault("mtime_ms", version.mtime_ns // 1_000_000)
    if judged.parsed.entry.forgets:
        tracker.forget(*judged.written_paths)
    data |= {"diff": staged.diff(), "applied": bool(staged.changes)}
    return progress.reach(Done(ran, done.changes, done.token, done.notes, data))


def _run_reading(approved: Approved, services: Services, progress: Progress) -> Done:
    """Run a call that changes no files."""
    context = _open_context(approved, services)
    try:
        ran = progress.reach(run(approved, context))
    finally:
        context.close()
    return progress.reach(Done(ran, (), progress.token))


def _run_command(approved: Approved, services: Services, progress: Progress) -> Done:
    """Run a call that may change files by a command: in a draft, or else without a promise of undo."""
    with contextlib.ExitStack() as stack:
        draft = None
        if services.settings.drafts:
            from handrail.pipeline.draft_changes import CallDraft  # only needed for commands

            draft = CallDraft.create(approved, services, progress)
        if draft:
            stack.callback(draft.close)
            approved = progress.reach(draft.approved)
        elif any(isinstance(access, CommandAccess) and access.deferred for access in approved.accesses):
            raise NotAsShown  # no draft can be created any more: judge the command by its words
        else:
            from handrail.pipeline.no_undo import begin_command, note_irreversible

            begin_command(approved, services.recorder, progress)
        context = stack.enter_context(contextlib.closing(_open_context(approved, services, draft)))
        ran = progress.reach(run(approved, context))
        if not draft:
            ran = progress.reach(note_irreversible(ran, services))
        data = {"diff": draft.diff} if draft else {}
        return progress.reach(Done(ran, (), progress.token, data=data))


def _open_context(
    approved: Approved,
    services: Services,
    draft: CommandDraft | None = None,
) -> ToolContext:
    return ToolContext(
        services,
        approved.previous,
        choice=approved.consent.choice if approved.consent else None,
        network=approved.network,
        approved=approved.by_person,
        draft=draft,
    )


def _note_contents(changes: Sequence[Change], services: Services) -> None:
    """What the model writes is no secret to it, unless it changed a file that is one."""
    is_secret: Callable[[str, bytes], bool] | None = getattr(services.approvals.policy, "looks_secret", None)
    for one in changes if is_secret else ():
        path, before = one.path.real, one.before.raw if one.before else None
        if one.after is None or one.moved_from or not is_secret or not is_secret(path, one.after):
            continue
        tracked = services.tracked_files()
        if before is None or not is_secret(path, before) or tracked.knows_contents(path, before):
            tracked.note_contents({path: one.after})
