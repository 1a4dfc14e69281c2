"""FreshBash: Bash for models that expect one shell for all commands, and must be told that each has its own.

A shell that lives on would carry a directory and variables from one call into the next, unseen by the rules, which
judge a command by its own words. So nothing is carried over, and the answer says so where that matters.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from handrail.errors import BadArguments
from handrail.frozen import frozen
from handrail.model import Access
from handrail.tools import bash
from handrail.tools.arguments import Field
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Templates, Tool

_LASTING = ("cd", "pushd", "popd", "export", "source", ".", "alias", "declare", "shopt", "unset")
"""Words of a command that relies on a shell that lives on."""


class Args(Arguments):
    command: Annotated[str | None, Field(min_length=1, description="The command to run")] = None
    restart: Annotated[bool, Field(description="Does nothing: there is nothing to restart")] = False
    timeout: Annotated[float | None, Field(ge=0, description="Seconds; 0 is the default")] = None

    @cached_property
    def bash(self) -> bash.Args:
        """The arguments for Bash; raises `BadArguments` without a command."""
        if self.command is None:
            raise BadArguments(problems="- command: missing; give the command to run")
        return bash.Args(command=self.command, timeout=self.timeout or None)


@frozen
class Limits(bash.Limits):
    """The limits of Bash, which a dialect may set."""


@frozen
class RestartFacts:
    command: str | None
    """A command that was not run."""


@frozen
class RunFacts:
    ran: bash.Facts
    gone: str | None
    """Commands that have no effect on the next call, such as `cd`."""


Facts = RestartFacts | RunFacts


class Data(bash.Data, total=False):
    restarted: bool
    run: bool


def accesses(args: Args) -> list[Access]:
    """The accesses of Bash; a restart has none."""
    return [] if args.restart else bash.accesses(args.bash)


def seek(args: Args, ctx: Context[Limits]) -> list[Access]:
    """The accesses that Bash declares after a look at the files."""
    return [] if args.restart else bash.seek(args.bash, ctx)


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    if args.restart:
        return Outcome("restarted", RestartFacts(args.command), {"restarted": True, "run": False})
    outcome = bash.run(args.bash, ctx)
    names = [one.text.split(maxsplit=1)[0] for one in args.bash.effects.commands if one.text.strip()]
    gone = ", ".join(dict.fromkeys(name for name in names if name in _LASTING)) or None
    return outcome.with_facts(RunFacts(outcome.facts, gone))


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    if isinstance(facts, RestartFacts):
        return templates.fill("fresh_bash.restarted", facts)
    return templates.fill("fresh_bash.ran", facts, output=bash.render(outcome.with_facts(facts.ran), templates))


TOOL = Tool(
    id="fresh_bash",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True, open_world=True),
    accesses=accesses,
    seek=seek,
    rendered=("output",),
)
