"""Bash that shows the first bytes of its output, and treats a command that ran out of time as complete."""

from __future__ import annotations

import signal
from dataclasses import replace

from handrail.frozen import frozen
from handrail.shell.command_host import CommandHost
from handrail.shell.runner.output import WHOLE
from handrail.shell.runner.run import Run
from handrail.tools import bash
from handrail.tools.notes import CommandTimedOut
from handrail.tools.shared import command_answer, patch_call
from handrail.tools.tool import Context, Outcome


@frozen
class Limits(bash.Limits):
    """Limits that a dialect may set."""

    needs_reading: bool = False
    seconds: float = 30
    most_seconds: float = 30
    first_bytes: int = 8000
    """The part of the output that is shown, in bytes of UTF-8."""
    offload_bytes: int = 32_000
    """Of longer output the beginning and the end are shown, and the name of the file that holds all of it."""
    head_chars: int = 4000
    tail_chars: int = 4000


@frozen
class BeginningFacts(command_answer.CommandFacts):
    """The first bytes of the output."""

    cut: int | None = None
    """How many are shown, if that is not all."""


Facts = bash.Facts | BeginningFacts

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""Signals whose exit codes, 128 and the number, no program chooses for itself."""
_WHOLE_OUTPUT = "(完整输出已保存至 {log},可用 read_file 的 offset 与 limit 读取其余部分)"


def run(args: bash.Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.patch:
        return patch_call.run(args.patch, args.workdir, ctx)
    outcome = bash.run_command(args, ctx, _show_beginning)
    notes = tuple(note for note in outcome.notes if not isinstance(note, CommandTimedOut))
    log = outcome.data.get("log")
    facts = outcome.facts
    cut = isinstance(facts, BeginningFacts) and facts.cut
    blocks = ({"type": "text", "text": _WHOLE_OUTPUT.format(log=log)},) if cut and log else ()
    if isinstance(facts, command_answer.CommandFacts) and (number := _find_signal(facts)):
        facts = replace(facts, exit_code=None, signal=(signal.strsignal(number) or f"signal {number}").lower())
    return replace(outcome, facts=facts, notes=notes, blocks=(*outcome.blocks, *blocks))


def _find_signal(facts: command_answer.CommandFacts) -> int | None:
    """The signal that ended the command. A sandbox reports it as an exit code, as a shell does."""
    if facts.signal:
        return getattr(signal, facts.signal, None)
    number = (facts.exit_code or 0) - 128
    return number if number in _SIGNALS else None


def _show_beginning(done: Run, limits: Limits, command_host: CommandHost) -> command_answer.ShownOutput:
    is_long = done.pipes.bytes > limits.offload_bytes
    view = done.pipes.view(limits.first_bytes, 0) if done.pipes.bytes <= WHOLE or not is_long else None
    if view is None or (is_long and view.truncated):
        view = command_answer.view_ends(done, limits, command_host)
    if view.tail:
        return command_answer.describe_output(view)
    raw = view.head.encode("utf-8", "replace")
    cut = view.truncated or len(raw) > limits.first_bytes
    text = raw[: limits.first_bytes].decode("utf-8", "ignore")
    facts = BeginningFacts(output=text, cut=limits.first_bytes if cut else None)
    return command_answer.ShownOutput(facts, view.size, cut)


TOOL = bash.TOOL.adapt(Limits, run, bash.render, Facts)
