"""Bash: run a command in the workspace, with a time limit."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypedDict, TypeVar

from handrail.errors import BadCommand, Dangerous, PatchNotAlone, TimeoutTooLong, ToolError, TooManyJobs
from handrail.files.artefacts import ALIAS
from handrail.files.directory_index import MOST_DIRECTORIES
from handrail.frozen import frozen
from handrail.model import Access
from handrail.shell.command_host import CommandHost, CommandOptions
from handrail.shell.effects.effects import Effects, find_effects
from handrail.shell.effects.refused_commands import find_danger
from handrail.shell.parser.parse import check_syntax, parse_script
from handrail.shell.parser.script import Script
from handrail.shell.patch_command import NAMES, SHELLS, PatchCall, as_patch
from handrail.shell.put_back import PutBack
from handrail.shell.runner.network_failure import find_unreachable
from handrail.shell.runner.output import WHOLE, OutputView
from handrail.shell.runner.run import CommandEnd, Run
from handrail.shell.sandbox.confinement import is_inside
from handrail.shell.sandbox.mount_plan import OVERLAID
from handrail.text.display import escape
from handrail.tools import apply_patch
from handrail.tools.arguments import AfterValidator, BeforeValidator, Field
from handrail.tools.notes import (
    ChangesDropped,
    ChangesLeft,
    CommandCancelled,
    CommandTimedOut,
    KeptRunning,
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
from handrail.tools.shared import git_call, network_call, patch_call, pattern_call
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

if TYPE_CHECKING:
    from handrail.drafts.changes import FileSummary

_PLACES = ("", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_UP = re.compile(r"(?:^|/)(?!\.\.?/)[^/]+/(?:\.?/)*\.\.(?:/|$)")
"""A way up behind a name, which may be a link."""
_OUTSIDE = re.compile(r"[^\s'\"`:,;()<>\[\]/]*/[^\s'\"`:,;()<>\[\]]+")
"""A path in the output of a command, which may lead out of the workspace by itself or through a link."""
_MOST_PATHS = 200
_MOST_NAMED = 20
_MOST_CHARS = 190_000
"""Of output that could not be kept so much of the beginning and the end is shown."""


def _join_words(command: object) -> object:
    """A command that is given as a list of words: what a shell is to run, or the words, quoted."""
    if not isinstance(command, list | tuple) or not all(isinstance(word, str) for word in command):
        return command
    name = command[0].rpartition("/")[2] if command else ""
    shell = name in SHELLS and command[0].removesuffix(name) in _PLACES and command[1:2] in (["-c"], ["-lc"])
    if len(command) == 3 and (shell or as_patch(command)):  # for a patch no shell is needed
        return command[2]
    return shlex.join(command)


def _require_command(command: str) -> str:
    if not command:
        from pydantic_core import PydanticKnownError  # slow to import

        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return command


class Args(Arguments):
    command: Annotated[
        str, BeforeValidator(_join_words), AfterValidator(_require_command), Field(description="The command to run")
    ]
    workdir: Annotated[str, Field(min_length=1, description="Working directory")] = "."
    timeout: Annotated[float | None, Field(gt=0, description="Seconds")] = None
    background: Annotated[bool, Field(description="Return at once; see BashOutput")] = False
    keep: Annotated[bool, Field(description="After timeout, continue in background")] = False
    secrets: Annotated[Sequence[str], Field(description="Hidden files it needs, such as .env; asks the user")] = ()

    @cached_property
    def patch(self) -> PatchCall | None:
        """The patch that this command is; None if it is any other command. Looked for once a call."""
        if self.background or not any(name in self.command for name in NAMES):  # nearly every command
            return None
        return patch_call.find_patch(self.command)

    @cached_property
    def effects(self) -> Effects:
        """What the command would do, as far as its words tell. What is refused everywhere raises."""
        return find_effects(_require_harmless(self.command))


@frozen
class Limits(apply_patch.Limits):
    """Limits that a dialect may set; those of ApplyPatch are for patches that are given as a command."""

    seconds: float = 120
    most_seconds: float = 3600
    head_chars: int = 20_000
    tail_chars: int = 20_000
    """Of longer output the beginning and the end are shown."""
    whole_chars: int = 80_000
    """Output up to this length is shown in full."""
    failure_is_error: bool = False
    """Whether a command that fails is a call that fails."""


L = TypeVar("L", bound=Limits)


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


Facts = CommandFacts | apply_patch.Facts


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


class Data(apply_patch.Data, total=False):
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


def accesses(args: Args) -> list[Access]:
    """A patch touches files. A command is run, each of its parts, and comes to files as far as that can be proven."""
    if args.patch:
        return patch_call.accesses(args.patch, args.workdir)
    effects = args.effects
    worst = next((one.why for one in effects.commands if one.tier == effects.tier), "")
    place = _place(args)
    whole = Access(
        "run",
        args.command,
        tier=effects.tier,
        why=worst,
        doubt="; ".join(effects.doubts),
        place=place,
        undoable=all(one.undoable for one in effects.commands if one.tier == "destructive"),
        mentions=tuple(
            name if name.kind == "name" else name._replace(path=_make_relative(args.workdir, name.path))
            for one in effects.commands
            for name in one.mentions
        ),
        script=effects.script,
    )
    parts = [
        Access(
            "run",
            one.text,
            tier=one.tier,
            why=one.why,
            doubt=one.doubt,
            place=place,
            undoable=one.undoable,
            script=one.script,
        )
        for one in effects.commands
    ]
    lent = set(map(posixpath.normpath, args.secrets))
    files = [
        Access(
            file.action,
            _make_relative(args.workdir, file.path),
            by_command=True,
            glob=file.glob,
            below=file.below,
            into=file.into,
            sees=file.sees,
            how=file.how,
            links=file.links,
            passed=file.passed,
        )
        for file in effects.files
        if file.action != "read" or _make_relative(args.workdir, file.path) not in lent
    ]
    several = parts if len(parts) > 1 else []
    out = network_call.declare(effects) if effects.network or effects.possible_network else []
    return [whole, *dict.fromkeys([*several, *files, *out]), Access("read", args.workdir), *_list_lent(args, place)]


def _list_lent(args: Args, place: str) -> list[Access]:
    """The hidden files that the command asks to see; last, so that any other question comes first."""
    every, script = ", ".join(map(escape, args.secrets)), args.effects.script
    return [
        Access("read", path, by_command=True, why=every, place=place, lent_to=args.command, script=script)
        for path in map(posixpath.normpath, args.secrets)
    ]


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """Accesses that only the files of the project tell: those of git."""
    if args.patch:
        return []
    again = [] if args.effects.tier == "read_only" else _ask_for_network(args, ctx)
    if args.effects.possible_network:
        again = [*again, *network_call.list_needed_ports(args.effects, ctx)]
    try:
        where = ctx.resolve_directory(args.workdir)
    except (ToolError, OSError):  # the run says it
        return [*again, *network_call.seek(args.effects, None, ctx)]
    if args.effects.tier == "read_only" and (name := _find_own_program(args, ctx, where)):
        why = f"{name} is a program of the workspace"
        again = [*again, Access("run", args.command, tier="ordinary", why=why, place=_place(args))]
    if not (args.effects.git or args.effects.network or args.effects.patterns):
        return again
    return [
        *again,
        *git_call.seek(args.effects, where, _place(args)),
        *pattern_call.seek(args.effects, where, _place(args)),
        *network_call.seek(args.effects, where, ctx),
    ]


def _find_own_program(args: Args, ctx: Context[L], where: str) -> str:
    """A program of the workspace by whose name a command seems to be one that only looks; empty if there is none."""
    names = {name for run in args.effects.script.runs for name in (run.name, *run.via) if name and "/" not in name}
    return next((name for name in sorted(names) if ctx.is_own_program(name, where)), "")


def _ask_for_network(args: Args, ctx: Context[Limits]) -> list[Access]:
    """The use of the network by a command that failed without it."""
    hosts = ctx.unreached_host(args.command)
    if hosts is None:
        return []
    ports = [host for host in hosts.split() if host.startswith("localhost:")]
    needed = [host for host in ports if ctx.needs_port(int(host.partition(":")[2]))]
    local = [Access("network", args.command, by_command=True, hosts=" ".join(needed), proven=True)] if needed else []
    beyond = " ".join(host for host in hosts.split() if host not in ports)
    if not beyond and ports:
        return local
    return [*local, Access("network", args.command, by_command=True, hosts=beyond)]


def _place(args: Args) -> str:
    """The directory that the command runs in, if that is not the workspace."""
    return "" if posixpath.normpath(args.workdir) == "." else args.workdir


def _make_relative(workdir: str, path: str) -> str:
    """A path of the command, seen from the workspace; one below a home stays as it is."""
    if path.startswith("~"):
        return path
    whole = path if workdir == "." else posixpath.join(workdir, path)
    # The kernel follows a link before it goes up: `link/..` is the directory above the one that the link leads to.
    return whole if _UP.search(whole) else posixpath.normpath(whole)


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.patch:
        return patch_call.run(args.patch, args.workdir, ctx)
    return run_command(args, ctx, show_output)


class ShownOutput(NamedTuple):
    """The part of a command's output that an answer holds."""

    facts: CommandFacts
    size: int
    """The bytes that the command had written."""
    truncated: bool


def run_command(
    args: Args, ctx: Context[L], show: Callable[[Run, L, CommandHost], ShownOutput]
) -> Outcome[CommandFacts]:
    """Run a command; ``show`` decides which part of its output the answer holds."""
    limits = ctx.limits
    seconds = limits.seconds if args.timeout is None else args.timeout
    if seconds > limits.most_seconds:
        raise TimeoutTooLong(timeout=_number(seconds), most=_number(limits.most_seconds))
    command_host, where = ctx.command_host, ctx.resolve_directory(args.workdir)
    name = ctx.call_id or "bash"
    reads = args.effects.tier == "read_only" and not args.effects.doubts and not _find_own_program(args, ctx, where)
    opened = ctx.network.open or (ctx.network.local and not command_host.has_loopback)
    logs_in = opened and (ctx.approved or not network_call.reads_beside(args.effects, where))
    options = CommandOptions(
        git=git_call.make_settings(args.effects, where) if args.effects.git else None,
        network=opened,
        programs=network_call.list_programs(args.effects) if logs_in else frozenset(),
        filtered=ctx.network.filtered,
        ports=ctx.network.ports,
        script=args.effects.script,
        approved=ctx.approved,
        reads=reads,
        git_settings=bool(args.effects.git) and git_call.writes_settings(args.effects),
        streams=ctx.streams,
        lent=ctx.lend_secrets() if args.secrets else (),
    )
    if command_host.boundary.namespaced:
        options = replace(options, visible=ctx.list_visible(reads, where if args.effects.git else ""))
    if ctx.draft:
        options = replace(options, draft=ctx.draft.open_draft, on_end=ctx.draft.settle)
    if args.background:
        job = command_host.start(args.command, where, name, True, args.timeout, options)
        log = command_host.name_log(job.run.order.log)
        facts = CommandFacts(job=job.id, pid=job.run.pid, log=log, boundary=command_host.boundary.name)
        data = {"job": job.id, "pid": job.run.pid, "log": log, "boundary": command_host.boundary.name}
        return Outcome("started", facts, data)
    watch = ctx.watch()
    time_limit = None if ctx.streams else seconds  # the agent that gave us its streams has its own limit
    done, ended = command_host.run(
        args.command, where, time_limit, name, ctx.cancel, args.keep, options, ctx.follow_output
    )
    if ended is None:
        shown = show(done, limits, command_host)
        try:
            job = command_host.jobs.keep(done, shown=shown.size)
        except TooManyJobs:
            ended = command_host.end(done)
        else:
            log = command_host.name_log(done.order.log)
            note = KeptRunning(job=job.id, pid=done.pid, log=log, seconds=_number(seconds))
            facts = replace(shown.facts, job=job.id, pid=done.pid, log=log, seconds=_number(seconds))
            data = {"job": job.id, "pid": done.pid, "log": log, "seconds": _number(seconds)}
            return Outcome("kept", facts, data, (note,))
    shown = show(done, limits, command_host)
    outcome = _describe_end(args, ctx, command_host, shown, ended, _number(seconds), watch())
    if ended.exit_code == 0:
        return outcome
    return replace(outcome, notes=(*outcome.notes, *_list_hidden(shown.facts, where, options, command_host)))


def _list_hidden(
    shown: CommandFacts, where: str, options: CommandOptions, command_host: CommandHost
) -> Iterator[NoteFacts]:
    """Notes on the files that a command may have failed without."""
    if path := _find_unseen(shown, where, options.visible):
        yield OutsideHidden(path=escape(path), tree=escape(path if os.path.isdir(path) else os.path.dirname(path)))
    if names := [escape(name) for name in command_host.take_hidden_names()]:
        yield SecretsHidden(paths=_join_paths(names), first=names[0])


def _number(seconds: float) -> float | int:
    return int(seconds) if float(seconds).is_integer() else seconds


def _require_harmless(command: str) -> Script:
    """The command, read. What is refused everywhere, and what is no command at all, raises."""
    if "\0" in command:
        raise BadCommand(why="it contains a NUL character", line=None, near=None)
    if not command.strip():
        raise BadCommand(why="it is empty", line=None, near=None)
    script = parse_script(command)
    if script.error is not None:
        fault = check_syntax(command)
        if fault is not None:
            raise BadCommand(why=fault.message, line=fault.line, near=fault.text or None)
    harm = find_danger(script)
    if harm:
        raise Dangerous(part=harm.text, why=harm.why)
    if any(command.name in NAMES and command.name not in script.functions for command in script.runs):
        raise PatchNotAlone
    return script


def show_output(done: Run, limits: Limits, command_host: CommandHost) -> ShownOutput:
    """The whole output if it is short, else its beginning and its end."""
    return describe_output(view_output(done, limits, command_host))


def view_output(done: Run, limits: Limits, command_host: CommandHost) -> OutputView:
    """The output that the limits allow to show."""
    if done.bytes <= WHOLE:
        view = done.view(limits.whole_chars, 0)
        if not view.truncated:
            return view
    return view_ends(done, limits, command_host)


def view_ends(done: Run, limits: Limits, command_host: CommandHost) -> OutputView:
    """The beginning and the end of the output: as much as an answer can hold if the model could not read the rest."""
    log = command_host.can_reach(done.order.log)
    return done.view(limits.head_chars, limits.tail_chars) if log else done.view(_MOST_CHARS, _MOST_CHARS)


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


def _describe_end(
    args: Args,
    ctx: Context[Limits],
    command_host: CommandHost,
    shown: ShownOutput,
    ended: CommandEnd,
    seconds: float,
    changed: Sequence[str],
) -> Outcome[CommandFacts]:
    truncated = shown.truncated
    log = command_host.name_log(ended.log) if truncated or ended.strays else None
    if log:
        command_host.retain(ended.log)
    else:
        command_host.forget(ended.log)
    failed = ended.exit_code != 0
    restored = command_host.put_back(ended.log)
    changes = ctx.draft.files if ctx.draft else ()
    facts = replace(
        shown.facts,
        command=args.command,
        call=ctx.call_id,
        log=log,
        exit_code=ended.exit_code if failed else None,
        signal=ended.signal or None,
        meaning=ended.meaning or None,
        seconds=seconds,
        interactive=ended.interactive or None,
        changed=", ".join(changed) or None,
        files=_join_paths(_list_files(changes)) or None if not (ctx.draft and ctx.draft.not_kept) else None,
        strays=", ".join(f"{stray.pid} ({stray.command[:60]})" for stray in ended.strays) or None,
    )
    data = {
        "exit_code": ended.exit_code,
        "signal": ended.signal or None,
        "timed_out": ended.timed_out,
        "cancelled": ended.cancelled,
        "seconds": round(ended.duration, 3),
        "output_bytes": ended.output_bytes,
        "truncated": truncated,
        "log": log,
        "strays": [{"pid": stray.pid, "command": stray.command} for stray in ended.strays],
        "swept": [{"pid": stray.pid, "command": stray.command} for stray in ended.swept],
        "changed": list(changed),
        "boundary": command_host.boundary.name,
        "put_back": [{"path": one.path, "change": one.change} for one in restored],
    }
    notes: list[NoteFacts] = []
    if ctx.draft:
        data["changes"] = [{name: getattr(one, name) for name in one.__slots__} for one in changes]
        data["kept"] = not ctx.draft.not_kept
        data |= {"draft": ctx.draft.left_in} if ctx.draft.left_in else {}
        if ctx.draft.advice:
            data["advice"] = ctx.draft.advice
        if ctx.draft.not_kept:
            why, files, left = ctx.draft.not_kept, _join_paths(_list_files(ctx.draft.files)), ctx.draft.left_in
            notes.append(
                ChangesLeft(why=why, files=files, draft=left) if left else ChangesDropped(why=why, files=files)
            )
    notes += ctx.draft.notes if ctx.draft else ()
    if ended.timed_out:
        notes.append(CommandTimedOut(seconds=seconds, unseen=bool(ctx.draft and ctx.draft.files) or None))
    if ended.lost_bytes and not ended.overflowed:
        notes.append(LostOutput(bytes=ended.lost_bytes))
    if ended.overflowed:
        notes.append(TooMuchOutput(bytes=ended.output_bytes))
    if ended.cancelled:
        notes.append(CommandCancelled())
    if failed and (place := command_host.elsewhere(args.effects.script)):
        notes.append(NamedElsewhere(name=ALIAS, place=place))
    notes += _find_needed_network(args, ctx, command_host, shown.facts, ended)
    if command_host.unsearched:
        notes.append(NotSearched(most=MOST_DIRECTORIES))
    notes += list_put_back(restored)
    if ended.swept:
        names = [f"{stray.pid} ({stray.command[:60]})" for stray in ended.swept]
        notes.append(Swept(processes=", ".join(names)))
    if ended.survivors:
        pids = ", ".join(str(stray.pid) for stray in ended.survivors)
        notes.append(Survivors(pids=pids))
    kind = "timed_out" if ended.timed_out else "evicted" if facts.head is not None else "failed" if failed else "done"
    return Outcome(kind, facts, data, tuple(notes), failed=failed and ctx.limits.failure_is_error)


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
    args: Args, ctx: Context[Limits], command_host: CommandHost, shown: CommandFacts, ended: CommandEnd
) -> list[NoteFacts]:
    """Notes on hosts and ports that a command could not reach; when it is run again, the user is asked."""
    refused = command_host.take_refused(ended.log)
    if args.effects.tier == "read_only" or ctx.network.open:
        return []
    hosts = list(refused.hosts)
    output = "\n".join(text for text in (shown.output, shown.head, shown.tail) if text)
    known = None
    if ended.exit_code != 0 and command_host.offline and not hosts:
        known = find_unreachable(output)
        hosts += [known] if known else []
    notes: list[NoteFacts] = []
    if hosts or known is not None:
        notes.append(NeedsNetwork(host=", ".join(hosts) or None))
    if refused.ports:
        notes.append(NeedsPort(ports=", ".join(map(str, refused.ports))))
    if notes:
        command_host.unreached[args.command] = " ".join([*hosts, *(f"localhost:{port}" for port in refused.ports)])
    return notes


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


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, apply_patch.Facts):
        return apply_patch.render(outcome.with_facts(facts), templates)
    output = facts.output if facts.head is None else templates.fill("bash.sample", facts)
    return templates.fill(f"bash.{outcome.kind}", facts, output=output)


TOOL = Tool(
    id="bash",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True, open_world=True),
    accesses=accesses,
    seek=seek,
    drafted=lambda args: not (args.background or args.keep),
)
