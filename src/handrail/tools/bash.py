"""Bash: run a command in the workspace, with a time limit."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, TypeVar

from handrail.errors import TimeoutTooLong, ToolError, TooManyJobs
from handrail.frozen import frozen
from handrail.model import Access, CommandAccess, FileAccess
from handrail.shell.command_host import CommandHost, CommandOptions
from handrail.shell.effects.effects import Effects, find_effects
from handrail.shell.effects.refused_commands import require_harmless
from handrail.shell.patch_command import NAMES, SHELLS, PatchCall, as_patch
from handrail.shell.runner.run import Run
from handrail.text.display import escape
from handrail.tools import apply_patch
from handrail.tools.arguments import AfterValidator, BeforeValidator, Field
from handrail.tools.notes import KeptRunning
from handrail.tools.shared import git_call, network_call, patch_call
from handrail.tools.shared.command_answer import (
    CommandData,
    CommandFacts,
    ShownOutput,
    as_number,
    describe_end,
    list_hidden,
    show_output,
)
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

_PLACES = ("", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/")
_UP = re.compile(r"(?:^|/)(?!\.\.?/)[^/]+/(?:\.?/)*\.\.(?:/|$)")
"""`..` after a name that may be a link."""


def _join_words(command: object) -> object:
    """Turn a list of words into one command: the script given to `sh -c`, or the words, quoted."""
    if not isinstance(command, list | tuple) or not all(isinstance(word, str) for word in command):
        return command
    name = command[0].rpartition("/")[2] if command else ""
    shell = name in SHELLS and command[0].removesuffix(name) in _PLACES and command[1:2] in (["-c"], ["-lc"])
    if len(command) == 3 and (shell or as_patch(command)):  # a patch needs no shell
        return command[2]
    return shlex.join(command)


def _require_command(command: str) -> str:
    if not command:
        from pydantic_core import PydanticKnownError  # slow to import

        raise PydanticKnownError("string_too_short", {"min_length": 1})
    return command


class Args(Arguments):
    command: Annotated[
        str, BeforeValidator(_join_words), AfterValidator(_require_command), Field(description="The command")
    ]
    workdir: Annotated[str, Field(min_length=1, description="Working directory")] = "."
    timeout: Annotated[float | None, Field(gt=0, description="Seconds")] = None
    background: Annotated[bool, Field(description="Return at once; see BashOutput")] = False
    keep: Annotated[bool, Field(description="After timeout, continue in background")] = False
    secrets: Annotated[Sequence[str], Field(description="Hidden files it needs (.env); asks the user")] = ()

    @cached_property
    def patch(self) -> PatchCall | None:
        """The patch, if the command is one; looked for once per call."""
        if self.background or not any(name in self.command for name in NAMES):  # nearly every command
            return None
        return patch_call.find_patch(self.command)

    @cached_property
    def effects(self) -> Effects:
        """The effects of the command, as far as its text tells. Raises for commands refused everywhere."""
        return find_effects(require_harmless(self.command))


@frozen
class Limits(apply_patch.Limits):
    """Limits that a dialect may set. Those of ApplyPatch apply to patches sent as a command."""

    seconds: float = 120
    most_seconds: float = 3600
    head_chars: int = 5_000
    tail_chars: int = 5_000
    """The start and the end of longer output are shown."""
    whole_chars: int = 10_000
    """Output up to this length is shown in full."""
    fold: bool = True
    """Whether passing tests, progress and repeated lines are folded."""
    failure_is_error: bool = False
    """Whether the call fails if the command does."""


L = TypeVar("L", bound=Limits)


Facts = CommandFacts | apply_patch.Facts


class Data(apply_patch.Data, CommandData, total=False):
    pass


def accesses(args: Args) -> list[Access]:
    """For a patch, its files. For a command: the whole, each part, and the files it is known to use."""
    if args.patch:
        return [*patch_call.accesses(args.patch, args.workdir)]
    effects = args.effects
    worst = next((one.why for one in effects.commands if one.tier == effects.tier), "")
    place = _place(args)
    whole = CommandAccess(
        args.command,
        tier=effects.tier,
        why=worst,
        doubt="; ".join(effects.doubts),
        place=place,
        undoable=any(one.undoable for one in effects.commands),
        mentions=tuple(
            name if name.kind == "name" else name._replace(path=_make_relative(args.workdir, name.path))
            for one in effects.commands
            for name in one.mentions
        ),
        script=effects.script,
    )
    parts = [
        CommandAccess(
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
        FileAccess(
            file.action,
            _make_relative(args.workdir, file.path),
            by_command=True,
            glob=file.glob,
            below=file.below,
            sees=file.sees,
        )
        for file in effects.files
        if file.action != "read" or _make_relative(args.workdir, file.path) not in lent
    ]
    several = parts if len(parts) > 1 else []
    out = network_call.declare(effects) if effects.network or effects.possible_network else []
    rest: list[Access] = [*several, *files, *out]
    return [whole, *dict.fromkeys(rest), FileAccess("read", args.workdir), *_list_lent(args, place)]


def _list_lent(args: Args, place: str) -> list[Access]:
    """The hidden files the call asks for; declared last, so that any other question comes first."""
    why = f"to see {', '.join(map(escape, args.secrets))}, hidden as secret"
    return [
        FileAccess("read", path, by_command=True, why=why, place=place, lent_to=args.command)
        for path in map(posixpath.normpath, args.secrets)
    ]


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """Accesses found only by looking at the workspace, such as those of git."""
    if args.patch:
        return []
    again: list[Access] = []
    if args.effects.tier != "read_only" and (hosts := ctx.command.unreached_host(args.command)) is not None:
        again += network_call.list_unreached(args.command, hosts, ctx.command)
    if args.effects.possible_network:
        again = [*again, *network_call.list_needed_ports(args.effects, ctx.command)]
    try:
        where = ctx.resolve_directory(args.workdir)
    except (ToolError, OSError):  # `run` reports it
        return [*again, *network_call.seek(args.effects, None, ctx.command)]
    judged_later = ctx.command.runs_in_draft
    if not judged_later and args.effects.tier == "read_only" and (name := _find_own_program(args, ctx, where)):
        why = f"{name} is a program of the workspace"
        again = [*again, CommandAccess(args.command, tier="ordinary", why=why, place=_place(args))]
    if not (args.effects.git or args.effects.network):
        return again
    return [
        *again,
        *git_call.seek(args.effects, where, ctx.command, _place(args)),
        *network_call.seek(args.effects, where, ctx.command),
    ]


def _find_own_program(args: Args, ctx: Context[L], where: str) -> str:
    """A program of the workspace with the same name as a read-only program in the command; empty if none."""
    names = {name for run in args.effects.script.runs for name in (run.name, *run.via) if name and "/" not in name}
    return next((name for name in sorted(names) if ctx.command.is_own_program(name, where)), "")


def _place(args: Args) -> str:
    """The working directory; empty if it is the workspace."""
    return "" if posixpath.normpath(args.workdir) == "." else args.workdir


def _make_relative(workdir: str, path: str) -> str:
    """Make a path in the command relative to the workspace; a path that starts with `~` stays."""
    if path.startswith("~"):
        return path
    whole = path if workdir == "." else posixpath.join(workdir, path)
    # The kernel follows links before `..`: `link/..` is the parent of the target of the link.
    return whole if _UP.search(whole) else posixpath.normpath(whole)


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.patch:
        return patch_call.run(args.patch, args.workdir, ctx)
    return run_command(args, ctx, show_output)


def run_command(
    args: Args, ctx: Context[L], show: Callable[[Run, L, CommandHost], ShownOutput]
) -> Outcome[CommandFacts]:
    """Run a command. ``show`` chooses the part of the output to include in the answer."""
    limits, name = ctx.limits, ctx.call_id or "bash"
    seconds = limits.seconds if args.timeout is None else args.timeout
    if seconds > limits.most_seconds:
        raise TimeoutTooLong(timeout=as_number(seconds), most=as_number(limits.most_seconds))
    command = ctx.command
    host, where = command.host, ctx.resolve_directory(args.workdir)
    reads = args.effects.tier == "read_only" and not args.effects.doubts and not _find_own_program(args, ctx, where)
    opened = command.network.open or (command.network.local and not host.network.has_loopback)
    logs_in = opened and (command.approved or not network_call.reads_beside(args.effects, where))
    options = CommandOptions(
        plain_git=bool(args.effects.git) and git_call.runs_plain(args.effects),
        network=opened,
        programs=network_call.list_programs(args.effects) if logs_in else frozenset(),
        filtered=command.network.filtered,
        ports=command.network.ports,
        script=args.effects.script,
        approved=command.approved,
        reads=reads and not command.draft,
        streams=command.streams,
        visible=command.list_visible(reads, where if args.effects.git else "") if host.boundary.namespaced else None,
    )
    if lent := command.lend_secrets():
        options = replace(options, lent=lent, signer=git_call.find_signer(args.effects, where, lent))
    if command.draft:
        options = replace(options, draft=command.draft.open_draft, on_end=command.draft.settle)
    if args.background:
        job = host.start(args.command, where, name, True, args.timeout, options)
        log = host.logs.get_name(job.run.order.log)
        facts = CommandFacts(job=job.id, pid=job.run.pid, log=log, boundary=host.boundary.name)
        data = {"job": job.id, "pid": job.run.pid, "log": log, "boundary": host.boundary.name}
        return Outcome("started", facts, data)
    watch = ctx.watch()
    time_limit = None if command.streams else seconds  # the agent whose streams these are has its own time limit
    done, ended = host.run(args.command, where, time_limit, name, ctx.cancel, args.keep, options, command.follow_output)
    if ended is None:
        shown = show(done, limits, host)
        try:
            job = host.jobs.keep(done, shown=shown.size)
        except TooManyJobs:
            ended = host.end(done)
        else:
            log = host.logs.get_name(done.order.log)
            note = KeptRunning(job=job.id, pid=done.pid, log=log, seconds=as_number(seconds))
            facts = replace(shown.facts, job=job.id, pid=done.pid, log=log, seconds=as_number(seconds))
            data = {"job": job.id, "pid": done.pid, "log": log, "seconds": as_number(seconds)}
            return Outcome("kept", facts, data, (note,))
    shown = show(done, limits, host)
    outcome = describe_end(args.command, args.effects, ctx, host, shown, ended, as_number(seconds), watch())
    hidden = list_hidden(shown.facts, where, options.visible, host) if ended.exit_code != 0 else ()
    return replace(outcome, notes=(*outcome.notes, *hidden))


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
