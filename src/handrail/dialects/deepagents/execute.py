"""Bash that refuses some texts in any command, and shows a few lines of output that is too long."""

from __future__ import annotations

from dataclasses import field

from handrail.errors import Dangerous
from handrail.frozen import frozen
from handrail.shell.command_host import CommandHost
from handrail.shell.runner.run import Run
from handrail.tools import bash
from handrail.tools.shared import command_answer, patch_call
from handrail.tools.tool import Context, Outcome


@frozen
class Limits(bash.Limits):
    """Limits that a dialect may set."""

    needs_reading: bool = False
    head_chars: int = 20_000
    tail_chars: int = 20_000
    whole_chars: int = 80_000
    sample_lines: int = 5
    """Lines of the beginning and of the end that are shown of output that is too long."""
    blocked: list[str] = field(default_factory=lambda: ["rm -rf /", "sudo", "shutdown", "reboot", "> /dev/"])
    """Texts that no command may hold."""


def run(args: bash.Args, ctx: Context[Limits]) -> Outcome[bash.Facts]:
    if args.patch:
        return patch_call.run(args.patch, args.workdir, ctx)
    for text in ctx.limits.blocked:
        if text in args.command:
            raise Dangerous(part=text, why="no command may hold this")
    return bash.run_command(args, ctx, _show_sample)


def _show_sample(done: Run, limits: Limits, command_host: CommandHost) -> command_answer.ShownOutput:
    """The whole output if it is short, else some lines of its beginning and its end."""
    view = command_answer.view_output(done, limits, command_host)
    if not view.truncated:
        return command_answer.describe_output(view)
    first = view.head.removesuffix("\n").split("\n")[: limits.sample_lines]
    last = view.tail.removesuffix("\n").split("\n")[-limits.sample_lines :]
    head, tail = "\n".join(first), "\n".join(last)
    lines = command_answer.count_lines(view)
    facts = command_answer.CommandFacts(
        head=head.rstrip("\n"),
        tail=tail.strip("\n"),
        lines=lines,
        # Both halves of a line in the middle may be shown.
        left_lines=None if lines is None else max(0, lines - len(first) - len(last)),
        left_bytes=view.omitted_bytes + _size(view.head) + _size(view.tail) - _size(head) - _size(tail),
    )
    return command_answer.ShownOutput(facts, view.size, truncated=True)


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


TOOL = bash.TOOL.adapt(Limits, run, bash.render)
