"""The corridor: the one path of a call, from a model's words to the answer. The order below is a security property.

    undress -> parse -> declare -> resolve -> judge  ==  Prepared, nothing changed yet
    approve -> run (locked, guarded) -> commit -> say -> bound -> record -> reply

Inside, failures are exceptions with facts; outside, every call ends in a `Result`. They meet in this file only.
"""

from __future__ import annotations

import json
import os
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from handrail import dialects, tools
from handrail.arguments import parse
from handrail.bounds import bound
from handrail.dialects import Dialect, Spec
from handrail.errors import BadJson, Bug, ChangedSince, Denied, NeedsApproval, ReadOnlyRoot, Refusal, ToolError, from_os
from handrail.files.commit import Change, Saving, commit, recover
from handrail.files.locks import Locks, state_directory
from handrail.files.pages import Indexes
from handrail.guard import Guard
from handrail.journal import Journal, NoJournal, Record
from handrail.nouns import Call, Failure, Note, Result, Status, Touch, Verdict
from handrail.policy import Policy, WorkspacePolicy
from handrail.settings import Settings
from handrail.text.diff import unified
from handrail.text.shown import readable, shown
from handrail.tool import Arguments, Outcome, Tool
from handrail.tracker import Tracker
from handrail.workspace import Root, WorkPath, Workspace

_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that is understood, resolved and judged. Nothing has changed yet."""

    call: Call
    tool: Tool
    args: Arguments
    limits: Any
    touches: tuple[Touch, ...]
    paths: Mapping[str, WorkPath]
    verdict: Verdict
    preview: Callable[[], str]
    """A unified diff of what would change; raises what the run would raise."""


Approve = Callable[[Prepared], bool | Awaitable[bool]]


class Session:
    """A workspace, a dialect, and what the model has seen so far."""

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        dialect: str | Dialect = "native",
        roots: Sequence[Root] = (),
        policy: Policy | None = None,
        approve: Approve | None = None,
        journal: Journal | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.dialect = dialect if isinstance(dialect, Dialect) else dialects.load(dialect)
        self.workspace = Workspace([Root(os.fspath(root)), *roots])
        self.tracker = Tracker()
        self.policy = policy or WorkspacePolicy()
        self.journal = journal or NoJournal()
        self._approve = approve
        self._indexes = Indexes()
        directory = os.path.join(state_directory(self.settings.state), "locks")
        self._locks = Locks(directory, recover, self.settings.lock_seconds)
        self._swept = threading.Event()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.workspace.close()

    def specs(self) -> list[Spec]:
        """What the model is told: the tools of the dialect."""
        return [self.dialect.spec(name) for name in self.dialect.entries]

    def call(self, tool: str, arguments: Mapping[str, Any] | str | None = None, *, id: str = "") -> Result:
        """One tool call, from start to end. Never raises for anything that a model did."""
        started = time.perf_counter()
        trail = _Trail(Call(tool, {}, id))
        try:
            trail.call = Call(tool, _mapping(arguments), id)
            prepared = self._prepare(trail)
            self._approved(prepared)
            outcome = self._run(prepared, trail)
            result = self._said(prepared, outcome, trail)
        except ToolError as error:
            result = self._failed(error, trail)
        except OSError as error:
            result = self._failed(from_os(error, path=error.filename or tool), trail)
        except Exception as error:
            if self.settings.raise_bugs:
                raise
            trail.traceback = traceback.format_exc()
            result = self._failed(Bug(what=f"{type(error).__name__}: {error}"), trail)
        result = replace(result, time_ms=(time.perf_counter() - started) * 1000)
        self.journal.record(
            Record(trail.call, trail.touches, trail.verdict, result, tuple(trail.changes), trail.traceback)
        )
        return result

    def prepare(self, tool: str, arguments: Mapping[str, Any] | str | None = None) -> Prepared:
        """A call as far as it goes without changing anything; raises `ToolError`."""
        return self._prepare(_Trail(Call(tool, _mapping(arguments))))

    # The corridor, step by step.

    def _prepare(self, trail: _Trail) -> Prepared:
        call = trail.call
        if not self._swept.is_set():
            self._locks.sweep()
            self._swept.set()
        entry, ours, unknown = self.dialect.undress(call.tool, call.arguments)
        tool = tools.load(entry.id)
        trail.tool_id = entry.id
        args = parse(tool.args, ours, unknown, self.dialect.spec(call.tool), entry)
        declared = tool.declare(args)
        trail.touches = declared
        paths = {
            t.target: self.workspace.resolve(t.target) for t in declared if t.action in ("read", "write", "delete")
        }
        trail.touches = tuple(replace(t, path=paths[t.target].real) if t.target in paths else t for t in declared)
        for touch in declared:
            if touch.action in ("write", "delete") and not paths[touch.target].root.writable:
                raise ReadOnlyRoot(path=touch.target, root=paths[touch.target].root.path)
        trail.verdict = self.policy.judge(trail.touches)
        limits = self.dialect.limits(call.tool)
        prepared = Prepared(
            call, tool, args, limits, trail.touches, paths, trail.verdict, lambda: self._preview(prepared)
        )
        return prepared

    def _preview(self, prepared: Prepared) -> str:
        guard = self._guard(prepared, dry=True)
        try:
            prepared.tool.run(prepared.args, guard)
            return _diff(guard)
        finally:
            guard.close()

    def _approved(self, prepared: Prepared) -> None:
        verdict = prepared.verdict
        if verdict.decision == "deny":
            raise Denied(rule=verdict.rule, why=verdict.why)
        if verdict.decision == "ask":
            if self._approve is None:
                raise NeedsApproval(rule=verdict.rule, why=verdict.why)
            if not _answer(self._approve(prepared)):
                raise Denied(rule=verdict.rule, why=verdict.why)

    def _run(self, prepared: Prepared, trail: _Trail) -> Outcome:
        writes = [prepared.paths[t.target].real for t in prepared.touches if t.action in ("write", "delete")]
        if not writes:
            return self._once(prepared, trail)
        for attempt in range(_ATTEMPTS):
            try:
                return self._once(prepared, trail, writes)
            except ChangedSince as error:
                # A program that knows nothing of our locks wrote while we did: look again, and judge by what is there.
                if error.facts.get("moment") != "commit" or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _once(self, prepared: Prepared, trail: _Trail, writes: Sequence[str] = ()) -> Outcome:
        guard = self._guard(prepared)
        try:
            if not writes:
                outcome = prepared.tool.run(prepared.args, guard)
                _require_declared(guard.changes, writes)
                return outcome
            with self._locks.hold(writes) as held:
                outcome = prepared.tool.run(prepared.args, guard)
                _require_declared(guard.changes, writes)
                if guard.changes:
                    saving = Saving(self.settings.durable, self.settings.hard_links)
                    versions = commit(self.workspace, guard.changes, held, saving)
                    trail.changes = guard.changes
                    for change, hunks, version in zip(guard.changes, guard.hunks, versions, strict=True):
                        self.tracker.wrote(change.path.real, version, hunks, change.after)
                        outcome.data.setdefault("mtime_ms", version.mtime_ns // 1_000_000)
                outcome.data["diff"] = _diff(guard)
                return outcome
        finally:
            guard.close()

    def _guard(self, prepared: Prepared, dry: bool = False) -> Guard:
        rules, limits = self.dialect.rules, prepared.limits
        return Guard(self.workspace, self.tracker, self._indexes, self.settings, rules, limits, prepared.paths, dry)

    def _said(self, prepared: Prepared, outcome: Outcome, trail: _Trail) -> Result:
        words = self.dialect.words
        notes = [Note(r.code, words.say(f"notes.{r.code}", **r.facts)) for r in outcome.remarks]
        loud = [note.text for note in notes if note.code not in self.dialect.quiet and note.text]
        outcome.facts["notes"] = "".join("\n" + text for text in loud)
        text, left_out = bound(readable(prepared.tool.say(outcome, words)), self.settings.answer_chars)
        if left_out:
            notes.append(Note("answer_cut", words.say("notes.answer_cut", count=left_out)))
            text += "\n" + notes[-1].text
        data = {
            **outcome.data,
            **{new: outcome.data[old] for new, old in self.dialect.data_names.items() if old in outcome.data},
        }
        status: Status = "partial" if notes else "ok"
        return _result(trail, status, text, data=data, notes=tuple(notes))

    def _failed(self, error: ToolError, trail: _Trail) -> Result:
        error.facts.setdefault("tool", trail.call.tool)
        error.facts.setdefault("verb", trail.tool_id)
        error.facts.setdefault("path", trail.touches[0].target if trail.touches else "")
        try:
            text = readable(self.dialect.wording(error))
        except (LookupError, ValueError, TypeError) as fault:  # a template of the dialect's that cannot be filled
            if self.settings.raise_bugs:
                raise
            error = Bug(what=f"the message for {error.code} cannot be said: {fault!r}")
            text = str(error)
        status: Status = "denied" if isinstance(error, Refusal) else "error"
        return _result(trail, status, text, error=Failure(error.code, text))


class _Trail:
    """What is known of a call so far, for its result and its record, however it ends."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.tool_id = ""
        self.touches: tuple[Touch, ...] = ()
        self.verdict: Verdict | None = None
        self.changes: Sequence[Change] = ()
        self.traceback = ""


def _result(trail: _Trail, status: Status, text: str, **rest: Any) -> Result:
    block = {"type": "text", "text": text}
    return Result(trail.call.tool, status, text, (block,), touches=trail.touches, id=trail.call.id, **rest)


def _mapping(arguments: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    """Arguments as a mapping; models and command lines also send them as a string of JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadJson(why=str(error)) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadJson(why="the arguments are not an object")
    return arguments


def _require_declared(changes: Sequence[Change], writes: Sequence[str]) -> None:
    """What a tool did not declare was neither judged nor locked: a fault of the tool, and nothing is done."""
    for change in changes:
        if change.path.real not in writes:
            raise AssertionError(f"a change of {change.path.named!r} was staged, but not declared")


def _diff(guard: Guard) -> str:
    parts = (
        unified(shown(change.path.named), hunks, created=change.before is None, deleted=change.after is None)
        for change, hunks in zip(guard.changes, guard.hunks, strict=True)
    )
    return readable("".join(parts))


def _answer(answer: bool | Awaitable[bool]) -> bool:
    """A host's answer, given at once or awaited: in a loop of its own, since this thread may be inside one."""
    if not isinstance(answer, Awaitable):
        return answer
    import asyncio  # slow to import, and only needed here
    from concurrent.futures import ThreadPoolExecutor

    async def awaited() -> bool:
        return await answer

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(awaited())).result()
