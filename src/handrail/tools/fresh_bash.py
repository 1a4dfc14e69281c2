"""FreshBash: Bash for models that expect one shell for all commands, and must be told that each has its own.

A shell that lives on would carry a directory and variables from one call into the next, unseen by the rules, which
judge a command by its own words. So nothing is carried over, and the answer says so where that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from handrail.errors import BadArguments
from handrail.model import Access
from handrail.shell.effects.effects import effects
from handrail.tools import bash
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

_LASTING = ("cd", "pushd", "popd", "export", "source", ".", "alias", "declare", "shopt", "unset")
"""What a command says when it counts on a shell that lives on."""


class Args(Arguments):
    command: Annotated[str | None, Field(min_length=1, description="What bash is to run")] = None
    restart: Annotated[bool, Field(description="Only say that there is nothing to restart")] = False
    timeout: Annotated[float | None, Field(ge=0, description="Seconds that it may take; 0: as usual")] = None


@dataclass(frozen=True, slots=True)
class Limits(bash.Limits):
    """What a dialect may set: what it may set for Bash."""


def _bash(args: Args) -> bash.Args:
    if args.command is None:
        raise BadArguments(problems="- command: missing; give what bash is to run")
    return bash.Args(command=args.command, timeout=args.timeout or None)


def accesses(args: Args) -> list[Access]:
    """What Bash would touch; a restart touches nothing."""
    return [] if args.restart else bash.accesses(_bash(args))


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """What Bash would look for."""
    return [] if args.restart else bash.seek(_bash(args), ctx)


def run(args: Args, ctx: Context[Limits]) -> Outcome[dict[str, Any]]:
    if args.restart:
        return Outcome("restarted", {"command": args.command}, {"restarted": True, "run": False})
    outcome = bash.run(_bash(args), ctx)
    words = [one.text.split(maxsplit=1)[0] for one in effects(args.command or "").commands if one.text.strip()]
    outcome.facts["gone"] = ", ".join(dict.fromkeys(word for word in words if word in _LASTING)) or None
    return outcome


def render(outcome: Outcome[dict[str, Any]], templates: Templates) -> str:
    if outcome.kind == "restarted":
        return templates.fill("fresh_bash.restarted", **outcome.facts)
    said = bash.render(outcome, templates)
    return templates.fill("fresh_bash.ran", said=said, gone=outcome.facts["gone"])


TOOL = Tool(
    id="fresh_bash",
    args=Args,
    limits=Limits,
    run=run,
    render=render,
    hints=Hints(destructive=True, open_world=True),
    accesses=accesses,
    seek=seek,
)
