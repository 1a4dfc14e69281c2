"""BashOutput: what a background command has printed since it was last asked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any

from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Remark, Tool, Words

_PAUSE = 0.05


class Args(Arguments):
    job: Annotated[str | None, Field(description="The job")] = None
    filter: Annotated[str | None, Field(description="Regex for lines")] = None
    all: Annotated[bool, Field(description="From the beginning")] = False
    wait: Annotated[float, Field(ge=0, le=60, description="Seconds to wait for the end")] = 0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    head_chars: int = 5_000
    tail_chars: int = 15_000


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    terminal = ctx.terminal
    if args.job is None:
        jobs = [_about(job, terminal.called(job.run.order.log)) for job in terminal.jobs.list()]
        return Outcome("jobs" if jobs else "none", {"jobs": jobs}, {"jobs": jobs})
    job = terminal.jobs.get(args.job)
    until = time.monotonic() + args.wait
    while job.running and time.monotonic() < until and not (ctx.cancel and ctx.cancel.is_set()):
        time.sleep(_PAUSE)
    reading = terminal.jobs.read(args.job, limits.head_chars, limits.tail_chars, args.filter, args.all)
    about = _about(job, terminal.called(job.run.order.log))
    view = reading.view
    facts: dict[str, Any] = {
        **about,
        "head": view.head.rstrip("\n") or None,
        "tail": view.tail.rstrip("\n") or None,
        "left_lines": view.omitted_lines if view.truncated else None,
        "left_bytes": view.omitted_bytes or None,
        "matched": reading.matched,
    }
    data = {**about, "truncated": view.truncated, "matched": reading.matched, "output": view.text()}
    remarks = (Remark("job_more", {"job": job.id}),) if reading.more else ()
    return Outcome("output", facts, data, remarks)


def _about(job: Any, log: str) -> dict[str, Any]:
    ended = job.ended
    return {
        "job": job.id,
        "command": job.run.order.command,
        "running": job.running,
        "exit_code": ended.exit_code if ended else None,
        "signal": ended.signal or None if ended else None,
        "timed_out": ended.timed_out if ended else False,
        "log": log,
    }


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    if outcome.kind == "jobs":
        rows = [words.say("bash_output.job", **_said(job)) for job in facts["jobs"]]
        return words.say("bash_output.jobs", rows="\n".join(rows), notes=facts["notes"])
    return words.say(f"bash_output.{outcome.kind}", **_said(facts))


def _said(about: dict[str, Any]) -> dict[str, Any]:
    code = about.get("exit_code")
    return {**about, "ended": not about.get("running"), "exit_code": None if code is None else str(code)}


TOOL = Tool(id="bash_output", args=Args, limits=Limits, run=run, say=say, hints=Hints(read_only=True))
