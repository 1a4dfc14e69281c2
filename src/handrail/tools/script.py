"""Script: a short Python program in which every tool is a function, run in a sandbox over a draft.

The program changes files only by calling tools, over a socket it inherits. Each call goes through the whole pipeline in
the draft of the script, so it sees what earlier calls wrote. When the program ends, its changes are judged together:
kept, shown to the user as one diff, or dropped.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
import threading
from collections import Counter
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from handrail.errors import NoSandbox, SessionOver, TimeoutTooLong
from handrail.frozen import frozen
from handrail.model import Access, CommandAccess, Result
from handrail.shell.command_host import CommandOptions
from handrail.shell.effects.effects import find_effects
from handrail.shell.effects.refused_commands import require_harmless
from handrail.tools import bash
from handrail.tools.arguments import Field
from handrail.tools.shared.call_lines import read_calls, refuse
from handrail.tools.shared.command_answer import CommandData, CommandFacts, as_number, describe_end, show_output
from handrail.tools.tool import Arguments, Context, DraftTools, Hints, Outcome, Templates, Tool

if TYPE_CHECKING:
    from io import BufferedRWPair

_MOST_CALLS = 500
_MOST_BYTES = 4 << 20
"""The most bytes of one call in a script."""
_CLIENT = Path(__file__).with_name("shared") / "script_client.py"


class Args(Arguments):
    code: Annotated[str, Field(min_length=1, description="The program; what it prints is the answer")]
    timeout: Annotated[float | None, Field(gt=0, description="Seconds")] = None


Limits = bash.Limits


@frozen
class Facts:
    """A script that has ended."""

    end: CommandFacts
    calls: str
    """How many calls it made of each tool, as text."""


class CallData(TypedDict):
    tool: str
    status: str
    chars: int


class Data(CommandData, total=False):
    calls: list[CallData]


def accesses(args: Args) -> list[Access]:
    """The program itself changes nothing. Its calls are judged one by one, and their changes once more at the end."""
    return [CommandAccess(args.code, tier="read_only", why="a script of tool calls")]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    limits, host = ctx.limits, ctx.command.host
    seconds = limits.seconds if args.timeout is None else args.timeout
    if seconds > limits.most_seconds:
        raise TimeoutTooLong(timeout=as_number(seconds), most=as_number(limits.most_seconds))
    calls: list[CallData] = []
    with ExitStack() as stack:
        own = host.drafts.create()  # what the program writes by itself is dropped
        if own is None:
            raise NoSandbox(mode="drafts", why=host.drafts.why_none)
        stack.callback(host.drafts.drop, own)
        ours, theirs = map(stack.enter_context, socket.socketpair())
        tools = stack.enter_context(closing(ctx.command.open_draft_tools()))
        command = _make_command(theirs.fileno())
        options = CommandOptions(draft=own, visible=ctx.command.list_visible(False), passed=(theirs.fileno(),))
        server = threading.Thread(target=_serve, args=(ours, args.code, tools, calls, ctx.cancel), daemon=True)
        server.start()
        place, name = own.directory.info.workspace, ctx.call_id or "script"
        done, ended = host.run(command, place, seconds, name, ctx.cancel, False, options)
        with suppress(OSError):
            ours.shutdown(socket.SHUT_RDWR)
        tools.close()  # this also ends a call that is still running
        server.join()
    assert ended is not None
    assert ctx.command.draft is not None
    ctx.command.draft.settle()
    shown, effects = show_output(done, limits, host), find_effects(require_harmless("true"))
    outcome = describe_end("script", effects, ctx, host, shown, ended, as_number(seconds), ())
    counts = Counter(call["tool"] for call in calls).items()
    facts = Facts(outcome.facts, ", ".join(f"{count} {tool}" for tool, count in counts) or "none")
    return Outcome(outcome.kind, facts, {**outcome.data, "calls": calls}, outcome.notes, failed=outcome.failed)


def _make_command(fd: int) -> str:
    words = [os.path.realpath(sys.executable), "-I", "-S", "-c", _CLIENT.read_text(encoding="utf-8"), str(fd)]
    return "exec " + shlex.join(words)


def _serve(
    connection: socket.socket, code: str, tools: DraftTools, calls: list[CallData], cancel: threading.Event | None
) -> None:
    """Answer the calls of a script until it ends."""
    known = {name for name, _ in tools.signatures.values()}

    def call(tool: str, arguments: dict[str, object]) -> Result:
        if tool not in known:
            return refuse(tool, "unknown_tool", "this is no tool of a script")
        if len(calls) >= _MOST_CALLS:
            return refuse(tool, "too_many_calls", f"a script may make {_MOST_CALLS} calls")
        result = tools.call(tool, arguments, cancel)
        calls.append(CallData(tool=tool, status=result.status, chars=len(result.full_text)))
        return result

    try:
        with connection.makefile("rwb") as stream:
            _send(stream, json.dumps({"code": code, "tools": tools.signatures}) + "\n")
            for line in read_calls(stream.readline, _MOST_BYTES):
                _send(stream, line if isinstance(line, str) else line.answer(call(line.tool, line.arguments)))
    except (OSError, SessionOver):  # the script has ended
        return


def _send(stream: BufferedRWPair, line: str) -> None:
    stream.write(line.encode("ascii"))
    stream.flush()


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    end = bash.render(outcome.with_facts(outcome.facts.end), templates)
    return templates.fill("script.ended", outcome.facts, end=end)


TOOL = Tool(
    id="script",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    accesses=accesses,
    hints=Hints(destructive=True),
    rendered=("end",),
    repeatable=False,
    commits=True,
    drafted=lambda _: True,
)
