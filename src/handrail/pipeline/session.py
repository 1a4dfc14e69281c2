"""The corridor: the one path of a call, from a model's words to the answer. The order below is a security property.

    undress -> parse -> declare -> resolve -> judge  ==  Prepared, nothing changed yet
    approve -> run (guarded) -> commit (locked) -> say -> bound -> record -> reply

Inside, failures are exceptions with facts; outside, every call ends in a `Result`. They meet in this file only.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from handrail import dialects, tools
from handrail.dialects import Dialect, Spec
from handrail.errors import Bug, Cancelled, ChangedSince, ReadOnlyRoot, SessionOver, ToolError, from_os
from handrail.files.artefacts import ALIAS, Artefacts
from handrail.files.changes import Saving
from handrail.files.commit import commit
from handrail.files.locks import Locks, state_directory
from handrail.files.pages import Indexes
from handrail.files.recovery import recover
from handrail.files.versions import stamps
from handrail.journal import Journal, Opening, Origin, Record
from handrail.model import Access, Approve, Call, Note, Result
from handrail.pipeline import parts
from handrail.pipeline.approve import Approvals, Unlike
from handrail.pipeline.before_images import keep
from handrail.pipeline.call_state import ON_FILES, Trail, locate, require_declared
from handrail.pipeline.context import Choice, ToolContext
from handrail.pipeline.parse import parse
from handrail.pipeline.prepared import Prepared, as_mapping, command_of, diff_of
from handrail.pipeline.render import Voice
from handrail.policy import Policy
from handrail.policy.secrets import DEFAULT_MODE, Mode
from handrail.secrets import redaction
from handrail.settings import Settings, config_file
from handrail.text.display import escape_lines
from handrail.tracker import Tracker
from handrail.workspace import Root, Workspace

if TYPE_CHECKING:
    from handrail.journal.undo import UndoReport
    from handrail.policy.files import PolicyFile
    from handrail.policy.own_files import OwnFiles
    from handrail.shell.terminal import Terminal
    from handrail.tools.tool import Arguments, Outcome, Tool

T = TypeVar("T")
_ATTEMPTS = 20
_OVERTAKEN = 3


class Session:
    """A workspace, a dialect, and what the model has seen so far.

    Every interface opens its sessions here, with the same defaults: the user's `config.toml`, the rules of the user
    and of the trusted project, mode `accept-edits`, guarded secrets, and the user's journal. Opting out is explicit:

    - ``policy=AllowAll()``: no rules, no guarded secrets, no questions;
    - ``journal=None``: no record, so that nothing can be undone; ``"require"``: no change without a record;
    - ``settings=Settings(...)``: these, and the user's `config.toml` is not read.

    ``rules`` are added to those of the files. ``approve`` answers what the rules leave to a person; without it such
    calls are refused. Raises `ConfigError` or `PolicyError` for a mistake in a file, `ValueError` for a bad option.
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
        journal: Journal | Literal["auto", "require"] | None = "auto",
        settings: Settings | None = None,
    ) -> None:
        parts.check_options(root, dialect, roots, policy, mode, rules, approve, journal, settings)
        if settings is None:
            user = config_file.load(os.environ)
            settings, roots = user.settings, (*user.roots, *roots)
        self.settings = settings
        self.dialect = dialect if isinstance(dialect, Dialect) else dialects.load(dialect)
        state = state_directory(settings.state)
        artefacts = Artefacts(os.path.join(state, "artefacts"), settings.artefact_bytes)
        kept = Root(artefacts.directory, writable=False, alias=ALIAS)
        self.workspace = Workspace([Root(os.fspath(root)), *roots, kept])
        self.tracker = Tracker()
        self._voice = Voice(self.dialect, settings)
        self._given_policy = policy is not None
        self._rules = () if policy is not None else (*parts.rules(root, state), *rules)
        mode = DEFAULT_MODE if mode is None else mode
        self.policy = parts.policy(self.workspace, mode, self._rules, self.terminal) if policy is None else policy
        self._redaction = redaction.load(settings, os.environ)
        home = os.path.realpath(self.workspace.home)
        self.origin = Origin(os.urandom(4).hex(), self.dialect.name, home, self._redaction.hide)
        self._journal = parts.JournalChoice(journal, state, settings)
        self._approvals = Approvals(
            self.policy, approve, self.origin, lambda accesses: self._own.judge(accesses, self._hides_own)
        )
        self._indexes = Indexes()
        self._eyes = parts.Eyes(self.workspace, self.policy, lambda: self._own)
        self._locks = Locks(os.path.join(state, "locks"), recover, self.settings.lock_seconds)
        self._artefacts = artefacts
        self._state = state
        self._terminal: Terminal | None = None
        self._opening = threading.Lock()
        self._closed = False
        self._swept = threading.Event()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what still runs, and let go of the workspace. No call is made afterwards."""
        with self._opening:
            self._closed = True
            terminal = self._terminal
        if terminal:
            terminal.close()
        self._journal.close()
        self._artefacts.close()
        self.workspace.close()

    @property
    def journal(self) -> Journal:
        """Where calls are recorded; the user's journal is opened when it is first needed."""
        return self._journal.get()

    def warm(self) -> None:
        """Import now what the first call would wait for: pydantic, and the tool that the dialect names first."""
        for name in self.dialect.core[:1]:
            self.dialect.spec(name)

    def specs(self) -> list[Spec]:
        """What the model is told: the tools of the dialect."""
        return [self.dialect.spec(name) for name in self.dialect.entries]

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        id: str = "",
        cancel: threading.Event | None = None,
    ) -> Result:
        """One tool call, from start to end. Never raises for anything that a model did.

        Who sets ``cancel`` from another thread gets an answer soon; a command is ended.
        """
        tool = str(tool)  # a host may pass on anything; a tool that does not exist is answered, not raised
        trail = Trail(Call(tool, {}, id), cancel)
        try:
            trail.call = Call(tool, self._redaction.given(as_mapping(arguments)), id)
            prepared, outcome = self._made(trail)
            result = self._voice.outcome(prepared.tool, outcome, trail)
        except ToolError as error:
            result = self._voice.failure(error, trail)
        except OSError as error:
            result = self._voice.failure(from_os(error, path=error.filename or tool), trail)
        except Exception as error:
            if self.settings.raise_bugs:
                raise
            import traceback  # slow to import, and only needed for faults of this program

            trail.traceback = traceback.format_exc()
            result = self._voice.failure(Bug(what=f"{type(error).__name__}: {error}"), trail)
        result = self._redaction.result(result)
        data = result.data
        result = self.dialect.rendered(result, trail.call, self.workspace.home)
        made, trace = tuple(trail.changes), trail.traceback
        failed = self.journal.record(
            Record(trail.call, trail.accesses, trail.verdict, result, made, trace, self.origin, trail.token, data)
        )
        if failed and all(note.code != "journal" for note in result.notes):
            note = Note("journal", self.dialect.words.say("notes.journal", why=failed))
            result = replace(result, notes=(*result.notes, note), status="partial" if result.ok else result.status)
        return result

    def undo(
        self,
        *,
        call: str | int | None = None,
        since: str | int | None = None,
        session: str | None = None,
        dry_run: bool = False,
    ) -> UndoReport:
        """Take back one ``call``, all ``since`` a call, or a ``session``'s; by default this workspace's last change.

        ``dry_run`` only reports what would be done. Raises `UnknownCall` if there is no such call, `CannotUndo` if
        there is no journal or it cannot be opened, and what a commit raises; then nothing is changed.
        """
        from handrail.journal.store import SqliteJournal
        from handrail.journal.undo import CannotUndo, Hands, undo

        if not isinstance(self.journal, SqliteJournal):
            raise CannotUndo("this session keeps no journal")
        saving = Saving(self.settings.durable, self.settings.hard_links)
        hands = Hands(self.workspace, self._locks, saving, self.settings.most_edit_bytes, self.origin)
        return undo(self.journal, hands, call=call, since=since, session=session, dry_run=dry_run)

    def prepare(self, tool: str, arguments: Mapping[str, Any] | str | None = None) -> Prepared:
        """A call as far as it goes without changing anything; raises `ToolError`."""
        return self._prepare(Trail(Call(tool, as_mapping(arguments))))

    def set_mode(self, mode: Mode) -> None:
        """Go on in another mode under the same rules; what a person has allowed for the session still holds."""
        if self._given_policy:
            raise TypeError("this session's policy was given by the host, and knows no modes")
        self.policy = parts.policy(self.workspace, mode, self._rules, self.terminal)
        self._approvals.follow(self.policy)
        self._eyes.follow(self.policy)

    # The corridor, step by step.

    def _made(self, trail: Trail) -> tuple[Prepared, Outcome]:
        """Prepared, approved and run; again from the start if what the person saw is not what would be done."""
        for _ in range(_ATTEMPTS):
            prepared = self._prepare(trail)
            trail.consent = consent = self._approvals.consent(prepared, trail.rewritten)
            if consent and consent.answer.arguments is not None:
                trail.call = replace(trail.call, arguments=self._redaction.given(consent.answer.arguments))
                trail.rewritten = consent.answer
                continue
            if trail.cancel and trail.cancel.is_set():  # perhaps while somebody was thinking
                raise Cancelled
            # While somebody was asked, a link, a directory, the mode may have become another one.
            if consent and not self._approvals.still_holds(prepared, self._prepare(trail)):
                continue
            try:
                outcome = self._run(prepared, trail)
            except Unlike:
                continue
            if consent:
                trail.remarks += self._approvals.remember(prepared, consent)
            return prepared, outcome
        raise ChangedSince(path=trail.accesses[0].target if trail.accesses else "", moved="")

    def _prepare(self, trail: Trail) -> Prepared:
        call = trail.call
        self._require_open()
        if not self._swept.is_set():
            self._locks.sweep()
            self._swept.set()
        entry, ours, unknown = self.dialect.undress(call.tool, self._redaction.restore(call.arguments))
        tool = tools.load(entry.id)
        trail.tool_id = entry.id
        args = parse(tool.args, ours, unknown, self.dialect.spec(call.tool), entry)
        prepared = self._judged(trail, tool, args, tool.declare(args))
        if tool.seek and prepared.verdict.decision != "deny":
            guard = self._guard(prepared, dry=True)
            try:
                found = tool.seek(args, guard)
            finally:
                guard.close()
            prepared = self._judged(trail, tool, args, [*prepared.accesses, *found])
        return prepared

    def _judged(self, trail: Trail, tool: Tool, args: Arguments, declared: Sequence[Access]) -> Prepared:
        """What the touches stand for, and whether they may be."""
        trail.accesses = tuple(declared)
        ours = [t for t in declared if t.action in ON_FILES and not t.by_command]
        paths = {access.target: self.workspace.resolve(access.target) for access in ours}
        trail.accesses = tuple(locate(access, paths, self.workspace) for access in declared)
        for access in ours:
            if access.action in ("write", "delete") and not paths[access.target].root.writable:
                raise ReadOnlyRoot(path=access.target, root=paths[access.target].root.path)
        trail.verdict = self._approvals.verdict(trail.accesses)
        limits = self.dialect.limits(trail.call.tool)
        prepared = Prepared(
            trail.call,
            tool,
            args,
            limits,
            trail.accesses,
            paths,
            trail.verdict,
            lambda: self._preview(prepared, once),
            lambda: () if command_of(prepared) else once().proposed,
            trail.cancel,
        )
        once = cache(lambda: self._proposed(prepared))  # what is shown is what the answer binds to
        return prepared

    def terminal(self) -> Terminal:
        """Where commands run; made when the first one does."""
        with self._opening:
            self._require_open()
            if self._terminal is None:
                self._terminal = parts.terminal(self.settings, self.workspace, self._artefacts, self._own, self.policy)
            return self._terminal

    @cached_property
    def _own(self) -> OwnFiles:
        return parts.own(self.workspace, self._artefacts, self._state)

    def _hides_own(self) -> bool:
        return self.terminal().hides_own

    def _require_open(self) -> None:
        if self._closed:
            raise SessionOver

    def _held(self, prepared: Prepared, work: Callable[[], T]) -> T:
        """Do ``work`` on files inside the boundary that holds commands, where that is asked for."""
        if not self.settings.confine_files:
            return work()
        actions = {access.action for access in prepared.accesses}
        if "run" in actions or actions.isdisjoint(ON_FILES):
            return work()
        return self.terminal().boundary.run(work)

    def _preview(self, prepared: Prepared, proposed: Callable[[], ToolContext]) -> str:
        command = command_of(prepared)
        if command is not None:  # what a command changes is known when it is done
            return f"$ {escape_lines(command)}\n"
        return diff_of(proposed())

    def _proposed(self, prepared: Prepared) -> ToolContext:
        """What a call would do to files, without doing it."""
        guard = self._guard(prepared, dry=True)
        try:
            prepared.tool.run(prepared.args, guard)
        finally:
            guard.close()
        return guard

    def _run(self, prepared: Prepared, trail: Trail) -> Outcome:
        changed = [t for t in prepared.accesses if t.action in ("write", "delete") and not t.by_command]
        writes = [prepared.paths[access.target].real for access in changed]
        if not writes:
            return self._once(prepared, trail)
        for attempt in range(_ATTEMPTS):
            # Computed without the lock, unless others were faster again and again, or files are written in place.
            first = attempt >= _OVERTAKEN or self.settings.hard_links == "through"
            try:
                return self._once(prepared, trail, writes, first)
            except ChangedSince as error:
                # Another call, or a program that knows nothing of our locks, wrote meanwhile: judge by what is there.
                if error.facts.get("moment") != "commit" or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _once(self, prepared: Prepared, trail: Trail, writes: Sequence[str] = (), lock_first: bool = False) -> Outcome:
        consent = trail.consent
        network = self._approvals.opens_network(prepared.accesses, consent)
        guard = self._guard(prepared, trail.cancel, False, consent.choice if consent else None, network)
        with contextlib.ExitStack() as stack:
            stack.callback(guard.close)
            if not writes:
                keep(trail, self.journal, self.workspace, self.origin)
                outcome = self._held(prepared, lambda: prepared.tool.run(prepared.args, guard))
                require_declared(guard.changes, writes)
                return outcome
            held = stack.enter_context(self._locks.hold(writes)) if lock_first else None
            before = stamps(writes)
            try:
                outcome = self._held(prepared, lambda: prepared.tool.run(prepared.args, guard))
            except ToolError:
                # Perhaps it saw half of what another call was doing.
                if held or (stamps(writes) == before and self._locks.free(writes)):
                    raise
                raise ChangedSince(path=trail.accesses[0].target, moment="commit") from None
            require_declared(guard.changes, writes)
            if not held and guard.changes:
                held = stack.enter_context(self._locks.hold(writes))
            if not lock_first and (stamps(writes) != before or not (held or self._locks.free(writes))):
                raise ChangedSince(path=trail.accesses[0].target, moment="commit")
            if consent:
                consent.require_same(guard)
            if held and guard.changes:
                saving = Saving(self.settings.durable, self.settings.hard_links)
                opening = Opening(trail.call, trail.accesses, trail.verdict, guard.changes, self.origin)
                trail.token = self.journal.begin(opening, trail.token)
                versions = self._held(prepared, lambda: commit(self.workspace, guard.changes, held, saving))
                trail.changes = guard.changes
                for change, hunks, version in zip(guard.changes, guard.hunks, versions, strict=True):
                    self.tracker.wrote(change.path.real, version, hunks, change.after)
                    outcome.data.setdefault("mtime_ms", version.mtime_ns // 1_000_000)
            if self.dialect.entry(prepared.call.tool).forgets:
                self.tracker.forget(*writes)
            outcome.data["diff"] = diff_of(guard)
            outcome.data.setdefault("applied", bool(guard.changes))
            return outcome

    def _guard(
        self,
        prepared: Prepared,
        cancel: threading.Event | None = None,
        dry: bool = False,
        choice: Choice | None = None,
        network: bool = False,
    ) -> ToolContext:
        return ToolContext(
            self.workspace,
            self.tracker,
            self._indexes,
            self.settings,
            self.dialect.rules,
            prepared.limits,
            prepared.paths,
            self._eyes.tree,
            self.terminal,
            prepared.call.id,
            cancel,
            dry,
            choice,
            network,
        )
