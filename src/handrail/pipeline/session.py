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
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

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
from handrail.files.commit import check_replaced
from handrail.files.commit import commit as commit_files
from handrail.files.locks import Held, state_directory
from handrail.files.versions import Saving, stamp_names
from handrail.journal import Journal, Origin
from handrail.json_types import JsonMapping
from handrail.model import Access, Approve, Call, CommandAccess, Result
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
from handrail.pipeline.finish import ResultRenderer, SessionJournal
from handrail.pipeline.named_files import read_named_files
from handrail.pipeline.options import (
    Setup,
    check_draft_options,
    check_options,
    load_rules,
    load_tools,
)
from handrail.pipeline.prepare import (
    declare,
    judge,
    judge_contents,
    judge_staged,
    parse,
    read_arguments,
    resolve,
    seek,
)
from handrail.pipeline.project import read_project
from handrail.pipeline.services import Services
from handrail.policy import Policy
from handrail.policy.modes import DEFAULT_MODE, Mode
from handrail.settings import Settings, config_file
from handrail.workspace import Root, Workspace

if TYPE_CHECKING:
    from handrail.files.versions import Change
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.draft_process import DraftProcess
    from handrail.pipeline.events import OnEvent
    from handrail.pipeline.options import SessionOptions, UndoOptions
    from handrail.pipeline.project import ProjectFacts
    from handrail.pipeline.session_draft import SessionDraft
    from handrail.policy.stricter import Restriction
    from handrail.search.tree import SearchTree
    from handrail.tools.tool import AnyTool

ATTEMPTS = 20
_OVERTAKEN = 3
"""After this many attempts the locks are taken before the run."""
_USUAL = Setup()


class Session:
    """A workspace, a dialect, and the files that the model has seen.

    Every interface opens its sessions here, with the same defaults: the user's `config.toml`, the rules of the user
    and of the trusted project, mode `accept-edits`, guarded secrets, and the user's journal. Opting out is explicit:

    - ``policy=AllowAll()``: no rules, no guarded secrets, no questions;
    - ``journal=None``: no record, so that nothing can be undone; ``"require"``: no change without a record;
      ``"postgresql://..."``: the user's journal is sent to a shared one as well;
    - ``settings=Settings(...)``: these, and the user's `config.toml` is not read.

    ``approve`` answers what the rules leave to a person; without it such calls are refused. ``tools`` are functions of
    your own that the model may call. ``setup`` has what few programs need; see `Setup`. Raises `ConfigError` or
    `PolicyError` for a mistake in a file, `ValueError` for a bad option, and `OSError` if there can be no draft.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        dialect: str | Dialect = "native",
        policy: Policy | None = None,
        mode: Mode | None = None,
        approve: Approve | None = None,
        journal: Journal | str | None = "auto",
        settings: Settings | None = None,
        tools: Sequence[AnyTool | Callable[..., object]] = (),
        setup: Setup = _USUAL,
    ) -> None:
        check_options(root, dialect, policy, mode, approve, journal, settings, setup)
        check_draft_options(setup.draft, journal=journal, tools=tools)
        options: SessionOptions = {
            "dialect": dialect if isinstance(dialect, str) else dialect.name,
            "policy": policy,
            "journal": journal if journal in ("auto", "require", None) else "auto",
            "settings": settings,
            "setup": replace(setup, on_event=None, draft=None),
        }
        roots = setup.roots
        if settings is None:
            user = config_file.load(os.environ)
            settings, roots = user.settings, (*user.roots, *roots)
        self.settings = settings
        self.dialect = dialect if isinstance(dialect, Dialect) else dialects.load(dialect)
        if tools:
            self.dialect = self.dialect.with_tools(load_tools(tools))
        self.dialect = self.dialect.offering(setup.offer)
        state = state_directory(settings.state)
        artefacts = Artefacts(os.path.join(state, "artefacts"), settings.artefact_bytes)
        place = Root(artefacts.directory, writable=False, alias=ALIAS)
        self.workspace = self._open_workspace([Root(os.fspath(root)), *roots, place])
        kept = () if policy is not None else (*load_rules(root, state), *setup.rules)
        self.services = Services(
            settings,
            self.dialect,
            self.workspace,
            artefacts,
            state,
            kept,
            policy,
            DEFAULT_MODE if mode is None else mode,
            approve=approve,
            journal=SessionJournal(journal, state, settings),
            on_event=setup.on_event,
            options=options,
        )
        self.tracker = self.services.tracker
        self._pipeline = CallPipeline(self.services)
        self._calls: CallPipeline | CallsInDraft = self._pipeline
        if setup.draft is not None:
            self._calls = _start_in_draft(setup.draft, self._pipeline)

    def _open_workspace(self, roots: Sequence[Root]) -> Workspace:
        """The files of this session; a session on files that are not only on the disk has another kind."""
        return Workspace(roots)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def name_source(self, client: str, model: str = "") -> None:
        """Say which program, and which model, makes the next calls, for the journal."""
        self.services.recorder.name_source(client, model)

    def record_prompt(self, text: str) -> None:
        """Record a message of the person: `undo(turn=True)` undoes what came after the last one."""
        self._calls.record_prompt(text)

    def close(self) -> None:
        """End running commands and release the workspace. No call is possible afterwards."""
        self._calls.close()

    @property
    def origin(self) -> Origin:
        """Names this session in the journal."""
        return self.services.origin

    @property
    def policy(self) -> Policy:
        """The rules in force, which change with the mode."""
        return self.services.policy

    @property
    def mode(self) -> Mode | None:
        """How much is allowed without asking; None for a session with its own policy."""
        return self.services.mode

    @property
    def journal(self) -> Journal:
        """Where calls are recorded; the user's journal is opened when it is first needed."""
        return self.services.recorder.journal

    def search_tree(self, path: str = ".") -> SearchTree:
        """A directory as the searches of this session see it."""
        return self.services.search.tree(self.workspace.resolve(path))

    def warm(self) -> None:
        """Import the first tool of the dialect now, so that the first call does not wait for it."""
        for name in self.dialect.core[:1]:
            self.dialect.spec(name)

    def specs(self) -> list[Spec]:
        """Return the definitions of the tools that the model is offered."""
        return [self.dialect.spec(name) for name in self.dialect.core]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, object] | str | None = None,
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

    def make_call(self, arguments: Mapping[str, object] | str | None, received: Received) -> Result:
        """One tool call, as `call` makes it; ``received`` has all but its arguments."""
        return self._calls.make_call(arguments, received)

    def undo(self, **which: Unpack[UndoOptions]) -> UndoReport:
        """Undo one call or several, or by default the last change of this session; see `UndoOptions`.

        Raises `UnknownCall` if there is no such call, `CannotUndo` if there is no journal or it cannot be opened, and
        the errors of a commit; then nothing is changed.
        """
        return self._calls.undo(which)

    def redo(self, *, any_session: bool = False, dry_run: bool = False) -> UndoReport:
        """Redo what the last undo of this session took back, unless something was changed after it.

        ``any_session``: the last undo in the workspace, whoever made it. Raises what `undo` raises.
        """
        return self.undo(redo=True, any_session=any_session, dry_run=dry_run)

    def resume(self, session: str) -> None:
        """Record the next calls as those of this earlier session, whose process was cut off."""
        self.services.resume(session)

    def describe_project(self) -> ProjectFacts:
        """The facts about the project that a model starts with."""
        return read_project(self.workspace.home)

    def prepare(self, tool: str, arguments: Mapping[str, object] | str | None = None) -> Judged:
        """A call as far as it goes without changing anything; raises `ToolError`."""
        received = Received(Call(tool, read_arguments(arguments)), CallClock())
        return self._pipeline.prepare(received, Progress(received))

    def draft(self, name: str = "") -> SessionDraft[Session]:
        """A draft of the workspace with a session of its own: a new one, or the one of this name.

        Raises `OSError` if there can be no draft, and `ValueError` for a bad name.
        """
        from handrail.drafts.store import DraftStore
        from handrail.pipeline.session_draft import SessionDraft

        services = self.services
        store = DraftStore.open(services.state, self.workspace.home)
        open_session = partial(reopen, services.describe_options(), services.approve)
        return SessionDraft(store, name, open_session, lambda: self.journal, self.origin)

    def set_mode(self, mode: Mode) -> None:
        """Change the mode; rules and answers for the session stay."""
        self._calls.set_mode(mode)

    def restrict(self, restriction: Restriction) -> None:
        """Replace the restriction of this session, a second mode and rules; its own mode and rules stay."""
        self._calls.restrict(restriction)

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]:
        """The calls, with their arguments, whose commands still run in the background."""
        return self._calls.list_background_calls()


class CallPipeline:
    """The steps of a call, in their order."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._renderer = ResultRenderer(services.dialect, services.settings)
        self._background: dict[str, Call] = {}
        """The calls that have started background commands, by the names of these."""
        self._swept = threading.Event()

    def undo(self, which: UndoOptions) -> UndoReport:
        return self.services.undo(**which)

    def record_prompt(self, text: str) -> None:
        self.services.recorder.record_prompt(text)

    def set_mode(self, mode: Mode) -> None:
        self.services.set_mode(mode)

    def restrict(self, restriction: Restriction) -> None:
        self.services.restrict(restriction)

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]:
        jobs = self.services.host.jobs.list() if self.services.host else []
        return [(call.tool, call.arguments) for job in jobs if job.running and (call := self._background.get(job.id))]

    def close(self) -> None:
        self.services.close()

    def make_call(self, arguments: Mapping[str, object] | str | None, received: Received) -> Result:
        progress = Progress(received)

        def perform() -> Result:
            return self._renderer.render_outcome(self._perform(self._receive(arguments, progress), progress))

        result, traceback = self.attempt(perform, progress)
        return self.finish(result, progress, traceback or "")

    def attempt(self, perform: Callable[[], Result], progress: Progress) -> tuple[Result, str | None]:
        """The result of ``perform``, or of its failure with the traceback, which is empty if it is no fault."""
        settings, trace = self.services.settings, ""
        try:
            return perform(), None
        except (CallbackFailed, ToolFailed) as error:
            if settings.raise_bugs and isinstance(error, CallbackFailed) and error.__cause__:
                raise error.__cause__ from None
            failure: ToolError = error
            trace = traceback.format_exc()
        except ToolError as error:
            self.services.refused.note(progress.received.call, error)
            failure = error
        except OSError as error:
            failure = from_os(error, path=error.filename or progress.received.call.tool)
        except Exception as error:
            if settings.raise_bugs:
                raise
            failure, trace = Bug(what=f"{type(error).__name__}: {error}"), traceback.format_exc()
        return self._renderer.render_failure(failure, progress), trace

    def _receive(self, arguments: Mapping[str, object] | str | None, progress: Progress) -> Received:
        received = progress.received
        if self.services.host:
            self.services.host.changes.check_jobs()
        hidden = self._hide_secrets(read_arguments(arguments))
        received = progress.reach(received.with_arguments(hidden))
        if self._is_reported(received):
            self.services.events.report_start(received.call, received.on_event)
        return received

    def _is_reported(self, received: Received) -> bool:
        """Whether anybody gets the events of a call: a listener, or a reader of our debug records."""
        return received.is_heard(self.services.on_event) or _is_logging()

    def _hide_secrets(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        redaction = self.services.redaction
        return redaction.hide_arguments(arguments) if redaction is not None else arguments

    def _perform(self, received: Received, progress: Progress) -> Done:
        """Prepare, approve and run a call; start again if its effects no longer match what was shown."""
        services = self.services
        hooked: tuple[Call, tuple[Access, ...]] | None = None
        for _ in range(ATTEMPTS):
            judged = self.prepare(received, progress)
            if self.services.hooks and judged.verdict.decision != "deny" and hooked != (judged.call, judged.accesses):
                self.services.hooks.run_before(judged)
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
            if consent and not judged.still_holds(self.prepare(received, progress)):
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
        return read_named_files(judged.accesses, self.services.workspace.home)

    def prepare(self, received: Received, progress: Progress) -> Judged:
        """Take a call as far as it goes without changing anything."""
        services = self.services
        if services.closed:
            raise SessionOver
        if not self._swept.is_set():
            services.locks.sweep()
            self._swept.set()
        matching = services.settings.matching
        declared = declare(progress.reach(parse(received, services.dialect, services.redaction, matching)))
        judged = self._judge(declared, progress)
        more = seek(judged, services)
        judged = self._judge(more, progress) if more else judged
        return progress.reach(judge_contents(judged, services))

    def _judge(self, declared: Declared, progress: Progress) -> Judged:
        slash = self.services.dialect.rules.slash_is_workspace
        resolved = progress.reach(resolve(progress.reach(declared), self.services.workspace, slash_is_workspace=slash))
        return progress.reach(judge(resolved, self.services))

    def finish(self, result: Result, progress: Progress, traceback: str = "") -> Result:
        """Hide secrets in a result, give it the dialect's shape, and record it."""
        for redaction in self.services.redactions:
            result = redaction.result(result)
        if self.services.host and (restored := self.services.host.changes.take_put_back()):
            from handrail.tools.shared.command_answer import list_put_back  # only needed after a job or a hook

            result = self._renderer.add_block(result, list(list_put_back(restored, "A background job or a hook")))
        shaped = self.services.dialect.render(result, progress.received.call, self.services.workspace.home)
        if isinstance(result.data, dict) and "job" in result.data and "pid" in result.data:
            self._background[result.data["job"]] = progress.received.call
        result = self.services.recorder.record(Rendered(progress, shaped, result.data, traceback))
        if self.services.hooks:
            self.services.hooks.run_after(progress.received.call, progress.accesses, result)
        if self.services.checks:
            result = self._renderer.add_block(result, self.services.checks.take_notes())
            done = progress.find(Done)
            self.services.checks.note_changes(done.changes if done else (), _list_changed_files(result))
        if self._is_reported(progress.received):
            self.services.events.report_end(progress.received.call, result, progress.received.on_event)
        return result


class CallsInDraft:
    """The calls of a session that works in a draft: its process makes them."""

    def __init__(self, process: DraftProcess, pipeline: CallPipeline) -> None:
        """``pipeline``: that of the session, which reports what keeps a call from being made."""
        self._process = process
        self._pipeline = pipeline

    def make_call(self, arguments: Mapping[str, object] | str | None, received: Received) -> Result:
        progress, call = Progress(received), received.call
        sent = dict(arguments) if isinstance(arguments, Mapping) else arguments

        def perform() -> Result:
            if received.guard:
                received.guard.before_command(True)
            events = self._pipeline.services.events
            return self._process.call((call.tool, sent, call.id), received.cancel, events, received.on_event)

        result, failure = self._pipeline.attempt(perform, progress)
        return result if failure is None else self._pipeline.finish(result, progress, failure)

    def undo(self, which: UndoOptions) -> UndoReport:
        report: UndoReport = self._process.request("undo", which)
        return report

    def record_prompt(self, text: str) -> None:
        self._process.request("record_prompt", text)

    def set_mode(self, mode: Mode) -> None:
        self._process.request("set_mode", mode)
        self._pipeline.set_mode(mode)

    def restrict(self, restriction: Restriction) -> None:
        self._process.request("restrict", restriction)
        self._pipeline.restrict(restriction)

    def list_background_calls(self) -> list[tuple[str, JsonMapping]]:
        calls: list[tuple[str, JsonMapping]] = self._process.request("list_background_calls")
        return calls

    def close(self) -> None:
        self._process.close()
        self._pipeline.close()


def _start_in_draft(name: str, pipeline: CallPipeline) -> CallsInDraft:
    """Start the process that makes the calls of a session in a draft."""
    from handrail.drafts.store import DraftStore  # only needed for named drafts
    from handrail.pipeline.draft_process import DraftProcess, open_draft

    services = pipeline.services
    draft = open_draft(DraftStore.open(services.state, services.workspace.home), name)
    try:
        return CallsInDraft(DraftProcess(draft, services.describe_options(), services.approve), pipeline)
    except BaseException:
        draft.close()
        raise


def reopen(options: JsonMapping, approve: Approve | None, draft: str | None = None) -> Session:
    """Open a session again, with the options that `Services.describe_options` returned."""
    given = dict(options)
    restriction = given.pop("restriction")
    given["setup"] = replace(given["setup"], draft=draft)
    session = Session(approve=approve, **given)
    if restriction:
        session.restrict(restriction)
    return session


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


def run_and_commit(approved: Approved, services: Services, progress: Progress) -> Done:
    """Run an approved call and commit its changes; again if another program changed the files meanwhile."""
    tool = approved.previous.tool
    if not approved.previous.written_paths or tool.commits:
        if tool.drafted or approved.may_change_files:
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
        context = stack.enter_context(contextlib.closing(ToolContext(services, judged, approved)))
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
        guard.before_command(context.command.draft is not None)
    outcome = parsed.tool.run(parsed.args, context)
    staged = context.staging.staged
    for change in staged.changes:
        if change.path.real not in judged.written_paths:
            raise AssertionError(f"a change of {change.path.named!r} was staged but not declared")
    return Ran(approved, outcome, staged)


def commit(ran: Ran, held: Held | None, services: Services, progress: Progress) -> Done:
    """Write the staged changes under the locks that are ``held``.

    Raises `NotAsShown` if a person saw others, or others were judged.
    """
    approved, staged = ran.previous, ran.staged
    judged, tracker, settings = approved.previous, services.tracker, services.settings
    if approved.consent:
        approved.consent.require_same(staged.proposed)
    elif judge_staged(judged, staged.changes, services).decision != judged.verdict.decision:
        raise NotAsShown
    done = Done(ran, (), progress.token)
    data: dict[str, object] = {}
    if held and staged.changes:
        services.recorder.begin(approved, staged.changes, progress)
        retain = getattr(services.recorder.journal, "retain", None)  # a host's own journal has none
        saving = Saving(settings.durable, settings.hard_links, retain)
        services.workspace.call_before_close(check_replaced)
        with services.host.changes.accepting() if services.host else contextlib.nullcontext([]) as paths:
            paths += (change.path.real for change in staged.changes)
            versions = commit_files(services.workspace, staged.changes, held, saving)
        changed = ((one.path.real, one.before.raw, one.after) for one in staged.changes if one.before and one.after)
        notes = tuple(services.find_overlaps(changed))
        done = progress.reach(Done(ran, tuple(staged.changes), progress.token, notes))
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
    context = ToolContext(services, approved.previous, approved)
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
        context = stack.enter_context(contextlib.closing(ToolContext(services, approved.previous, approved, draft)))
        ran = progress.reach(run(approved, context))
        if not draft:
            ran = progress.reach(note_irreversible(ran, services))
        data = {"diff": draft.diff} if draft else {}
        return progress.reach(Done(ran, (), progress.token, data=data))


def _note_contents(changes: Sequence[Change], services: Services) -> None:
    """What the model writes is no secret to it, unless it changed a file that is one."""
    is_secret: Callable[[str, bytes], bool] | None = getattr(services.approvals.policy, "looks_secret", None)
    for one in changes if is_secret else ():
        path, before = one.path.real, one.before.raw if one.before else None
        if one.after is None or one.moved_from or not is_secret or not is_secret(path, one.after):
            continue
        tracked = services.tracked_files
        if before is None or not is_secret(path, before) or tracked.knows_contents(path, before):
            tracked.note_contents({path: one.after})
