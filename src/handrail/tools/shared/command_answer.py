"""The answer to a command: the part of its output that is shown, what it changed, and what to know about its end."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict

from handrail.files.artefacts import ALIAS
from handrail.files.directory_index import MOST_DIRECTORIES
from handrail.frozen import frozen
from handrail.shell.command_host import CommandHost
from handrail.shell.effects.effects import Effects
from handrail.shell.followed_jobs import PutBack
from handrail.shell.network_gate import NOTHING_REFUSED
from handrail.shell.runner.explain_exit import find_unreachable
from handrail.shell.runner.output import WHOLE, OutputView, shorten
from handrail.shell.runner.process_tree import LeftoverProcess
from handrail.shell.runner.run import CommandEnd, Run
from handrail.shell.sandbox.confinement import is_inside
from handrail.shell.sandbox.mount_plan import OVERLAID
from handrail.text.display import escape
from handrail.tools.notes import (
    ChangesDropped,
    ChangesLeft,
    CommandCancelled,
    CommandTimedOut,
    LostOutput,
    NamedElsewhere,
    NeedsNetwork,
    NeedsPort,
    NoteFacts,
    NotSearched,
    OutsideHidden,
    ProtectedChanged,
    ProtectedPutBack,
    SecretsHidden,
    Survivors,
    Swept,
    TooMuchOutput,
)
from handrail.tools.shared.fold_output import LEAST, FoldedOutput, fold
from handrail.tools.tool import CommandDraft, Context, Outcome

if TYPE_CHECKING:
    from handrail.drafts.changes import FileSummary

_OUTSIDE = re.compile(r"[^\s'\"`:,;()<>\[\]/]*/[^\s'\"`:,;()<>\[\]]+")
"""A path in the output of a command, which may lead out of the workspace by itself or through a link."""
_MOST_PATHS = 200
_MOST_NAMED = 20
_MOST_CHARS = 190_000
"""Of output that could not be kept so much of the beginning and the end is shown."""


@frozen
class CommandFacts:
    """A command that ended, or goes on in the background. What does not apply is None."""

    command: str = ""
    call: str = ""
    job: str | None = None
    pid: int | None = None
    log: str | None = None
    boundary: str | None = None
    seconds: float | None = None
    exit_code: int | None = None
    """None if it is 0."""
    signal: str | None = None
    meaning: str | None = None
    interactive: str | None = None
    changed: str | None = None
    """Files that the model has read, and the command changed."""
    files: str | None = None
    """The files that the command created, changed and deleted, if it ran in a draft."""
    strays: str | None = None
    """Processes that the command left running."""
    output: str | None = None
    head: str | None = None
    """The beginning of output that is too long."""
    tail: str | None = None
    lines: int | None = None
    left_lines: int | None = None
    left_bytes: int | None = None
    folded: int | None = None
    """Lines on passing tests and progress that are left out."""


class ProcessData(TypedDict):
    pid: int
    command: str


class CommandFileData(TypedDict):
    path: str
    how: str
    added: int
    removed: int
    description: str


class ProtectedFile(TypedDict):
    path: str
    change: str


class CommandData(TypedDict, total=False):
    job: str
    pid: int
    log: str | None
    boundary: str
    seconds: float
    exit_code: int | None
    signal: str | None
    timed_out: bool
    cancelled: bool
    output_bytes: int
    truncated: bool
    strays: list[ProcessData]
    swept: list[ProcessData]
    changed: list[str]
    put_back: list[ProtectedFile]
    changes: list[CommandFileData]
    kept: bool
    draft: str
    irreversible: str


class OutputLimits(Protocol):
    """How much of a command's output an answer holds."""

    @property
    def head_chars(self) -> int: ...

    @property
    def tail_chars(self) -> int: ...

    @property
    def whole_chars(self) -> int: ...

    @property
    def failure_is_error(self) -> bool: ...

    @property
    def fold(self) -> bool: ...


class ShownOutput(NamedTuple):
    """The part of a command's output that an answer holds."""

    facts: CommandFacts
    size: int
    """The bytes that the command had written."""
    truncated: bool


def show_output(done: Run, limits: OutputLimits, command_host: CommandHost) -> ShownOutput:
    """The whole output if it is short, else its beginning and its end; passing tests and repetitions are folded."""
    if not limits.fold or done.pipes.bytes > WHOLE or not command_host.logs.can_reach(done.order.log):
        return describe_output(view_output(done, limits, command_host))
    whole = done.pipes.view(WHOLE, 0)
    folded = fold(whole.head) if whole.head.count("\n") >= LEAST else FoldedOutput(whole.head, 0)
    view = view_text(folded.text, whole.size, limits)
    shown = describe_output(view)
    facts = replace(shown.facts, folded=folded.left or None)
    return ShownOutput(facts, whole.size, truncated=shown.truncated or folded.left > 0)


def view_text(text: str, size: int, limits: OutputLimits) -> OutputView:
    """The whole text if the limits allow it, else its beginning and its end."""
    if len(text) <= limits.whole_chars:
        return OutputView(text, size=size)
    return shorten(text, limits.head_chars, limits.tail_chars, size)


def view_output(done: Run, limits: OutputLimits, command_host: CommandHost) -> OutputView:
    """The output that the limits allow to show."""
    if done.pipes.bytes <= WHOLE:
        view = done.pipes.view(limits.whole_chars, 0)
        if not view.truncated:
            return view
    return view_ends(done, limits, command_host)


def view_ends(done: Run, limits: OutputLimits, command_host: CommandHost) -> OutputView:
    """The beginning and the end of the output: as much as an answer can hold if the model could not read the rest."""
    log = command_host.logs.can_reach(done.order.log)
    return done.pipes.view(limits.head_chars, limits.tail_chars) if log else done.pipes.view(_MOST_CHARS, _MOST_CHARS)


def describe_output(view: OutputView) -> ShownOutput:
    """The output, or its beginning and end with the size of the part between them."""
    if not view.truncated:
        return ShownOutput(CommandFacts(output=view.head.rstrip("\n")), view.size, truncated=False)
    facts = CommandFacts(
        head=view.head.rstrip("\n"),
        tail=view.tail.strip("\n"),
        lines=count_lines(view),
        left_lines=view.omitted_lines,
        left_bytes=view.omitted_bytes,
    )
    return ShownOutput(facts, view.size, truncated=True)


def count_lines(view: OutputView) -> int | None:
    """The lines of the whole output, if they are known."""
    head, tail, left = view.head, view.tail, view.omitted_lines
    if left is None:
        return None
    return head.count("\n") + left - view.torn + tail.count("\n") + (not tail.endswith("\n"))


def describe_end(
    command: str,
    effects: Effects,
    ctx: Context[OutputLimits],
    host: CommandHost,
    shown: ShownOutput,
    ended: CommandEnd,
    seconds: float,
    changed: Sequence[str],
) -> Outcome[CommandFacts]:
    """The answer to a command that has ended. ``host``: where it ran; the session may be over."""
    draft = ctx.command.draft
    log = host.logs.get_name(ended.log) if shown.truncated or ended.strays else None
    if log:
        host.logs.retain(ended.log)
    else:
        host.logs.forget(ended.log)
    failed = ended.exit_code != 0
    restored = host.changes.take_put_back(ended.log)
    facts = replace(
        shown.facts,
        command=command,
        call=ctx.call_id,
        log=log,
        exit_code=ended.exit_code if failed else None,
        signal=ended.signal or None,
        meaning=ended.meaning or None,
        seconds=seconds,
        interactive=ended.interactive or None,
        changed=", ".join(changed) or None,
        files=_join_paths(_list_files(draft.files)) or None if draft and not draft.not_kept else None,
        strays=", ".join(_list_processes(ended.strays)) or None,
    )
    data = {
        "exit_code": ended.exit_code,
        "signal": ended.signal or None,
        "timed_out": ended.timed_out,
        "cancelled": ended.cancelled,
        "seconds": round(ended.duration, 3),
        "output_bytes": ended.output_bytes,
        "truncated": shown.truncated,
        "log": log,
        "strays": [{"pid": stray.pid, "command": stray.command} for stray in ended.strays],
        "swept": [{"pid": stray.pid, "command": stray.command} for stray in ended.swept],
        "changed": list(changed),
        "boundary": host.boundary.name,
        "put_back": [{"path": one.path, "change": one.change} for one in restored],
        **(_describe_draft(draft) if draft else {}),
    }
    notes = [
        *(_list_draft_notes(draft) if draft else ()),
        *_list_end_notes(ended, seconds, draft),
        *_list_place_notes(effects, host, failed),
        *_find_needed_network(command, effects, ctx, host, shown.facts, ended),
        *([NotSearched(most=MOST_DIRECTORIES)] if host.sandbox.unsearched else ()),
        *list_put_back(restored),
        *_list_process_notes(ended),
    ]
    kind = "timed_out" if ended.timed_out else "evicted" if facts.head is not None else "failed" if failed else "done"
    return Outcome(kind, facts, data, tuple(notes), failed=failed and ctx.limits.failure_is_error)


def _describe_draft(draft: CommandDraft) -> dict[str, object]:
    """The changes of a command in a draft, as data."""
    data: dict[str, object] = {
        "changes": [{name: getattr(one, name) for name in one.__slots__} for one in draft.files],
        "kept": not draft.not_kept,
    }
    if draft.left_in:
        data["draft"] = draft.left_in
    return data


def _list_draft_notes(draft: CommandDraft) -> Iterator[NoteFacts]:
    """Notes on changes that were not kept, and on how the others were."""
    if why := draft.not_kept:
        files, left = _join_paths(_list_files(draft.files)), draft.left_in
        facts = {"why": why, "files": files, "advice": draft.advice}
        yield ChangesLeft(**facts, draft=left) if left else ChangesDropped(**facts)
    yield from draft.notes


def _list_end_notes(ended: CommandEnd, seconds: float, draft: CommandDraft | None) -> Iterator[NoteFacts]:
    """Notes on a command that was ended, or whose output is not complete."""
    if ended.timed_out:
        yield CommandTimedOut(seconds=seconds, unseen=bool(draft and draft.files) or None)
    if ended.lost_bytes and not ended.overflowed:
        yield LostOutput(bytes=ended.lost_bytes)
    if ended.overflowed:
        yield TooMuchOutput(bytes=ended.output_bytes)
    if ended.cancelled:
        yield CommandCancelled()


def _list_place_notes(effects: Effects, host: CommandHost, failed: bool) -> Iterator[NoteFacts]:
    if failed and (place := host.find_artefacts(effects.script)):
        yield NamedElsewhere(name=ALIAS, place=place)


def _list_process_notes(ended: CommandEnd) -> Iterator[NoteFacts]:
    """Notes on processes that a command left, and that were ended or could not be."""
    if ended.swept:
        yield Swept(processes=", ".join(_list_processes(ended.swept)))
    if ended.survivors:
        yield Survivors(pids=", ".join(str(stray.pid) for stray in ended.survivors))


def _list_processes(strays: Sequence[LeftoverProcess]) -> list[str]:
    return [f"{stray.pid} ({stray.command[:60]})" for stray in strays]


def list_hidden(
    shown: CommandFacts, where: str, visible: Sequence[str] | None, command_host: CommandHost
) -> Iterator[NoteFacts]:
    """Notes on the files that a command may have failed without."""
    if path := _find_unseen(shown, where, visible):
        tree = escape(path if os.path.isdir(path) else os.path.dirname(path))
        rule = f"This rule shows all of {tree} to commands: allow Read(/{tree}/**)"
        yield OutsideHidden(path=escape(path), tree=tree, advice=rule)
    if names := [escape(name) for name in command_host.sandbox.take_hidden_names()]:
        yield SecretsHidden(paths=_join_paths(names), first=names[0])


def _find_unseen(shown: CommandFacts, where: str, visible: Sequence[str] | None) -> str:
    """A path in the output of a command that exists, and that the command could not see; empty if there is none."""
    if visible is None:
        return ""
    trees = [os.path.realpath(tree) for tree in (*visible, *OVERLAID)]
    output = "\n".join(text for text in (shown.output, shown.head, shown.tail) if text)
    for match in islice(_OUTSIDE.finditer(output), _MOST_PATHS):
        path = os.path.realpath(os.path.join(where, match[0]))
        if not any(is_inside(one, other) for tree in trees for one, other in ((path, tree), (tree, path))):
            with suppress(OSError):
                os.lstat(path)
                return path
    return ""


def _find_needed_network(
    command: str,
    effects: Effects,
    ctx: Context[OutputLimits],
    host: CommandHost,
    shown: CommandFacts,
    ended: CommandEnd,
) -> list[NoteFacts]:
    """Notes on hosts and ports that a command could not reach; when it is run again, the user is asked."""
    is_refused = host.sandbox.services.refused or ended.log in host.network.proxies
    refused = host.network.take_refused(ended.log) if is_refused else NOTHING_REFUSED
    if effects.tier == "read_only" or ctx.command.network.open:
        return []
    hosts = list(refused.hosts)
    output = "\n".join(text for text in (shown.output, shown.head, shown.tail) if text)
    known = None
    if ended.exit_code != 0 and host.network.offline and not hosts:
        known = find_unreachable(output)
        hosts += [known] if known else []
    notes: list[NoteFacts] = []
    if hosts or known is not None:
        notes.append(NeedsNetwork(host=", ".join(hosts) or None))
    if refused.ports:
        notes.append(NeedsPort(ports=", ".join(map(str, refused.ports))))
    if notes:
        ports = [f"localhost:{port}" for port in refused.ports]
        host.network.unreached[command] = " ".join([*hosts, *ports])
    return notes


def as_number(seconds: float) -> float | int:
    return int(seconds) if float(seconds).is_integer() else seconds


def list_put_back(restored: Sequence[PutBack], by: str = "The command") -> Iterator[NoteFacts]:
    """Notes on the protected files that a command changed."""
    for change in ("created", "changed", "deleted"):
        paths = [escape(one.path) for one in restored if one.change == change and not one.failed]
        if paths:
            yield ProtectedPutBack(change=change, paths=_join_paths(paths), by=by)
    failed = [f"{escape(one.path)} ({one.failed})" for one in restored if one.failed]
    if failed:
        yield ProtectedChanged(paths=_join_paths(failed), by=by)


def _list_files(files: Sequence[FileSummary]) -> list[str]:
    """The changes of a command, one text each; those inside of a git repository are counted together."""
    texts: list[str] = []
    repositories: dict[str, list[FileSummary]] = {}
    for one in files:
        above, inside, _ = f"/{one.path}/".partition("/.git/")
        if inside:
            repositories.setdefault(f"{above}/.git".lstrip("/"), []).append(one)
        else:
            texts.append(str(one))
    for path, parts in repositories.items():
        how = next((one.how for one in parts if one.path == path), "changed")
        texts.append(f"{how} {escape(path)}" + (f" ({len(parts)} paths)" if len(parts) > 1 else ""))
    return texts


def _join_paths(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMED
    return ", ".join(paths[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
