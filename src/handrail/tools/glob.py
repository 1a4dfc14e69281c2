"""Glob: files by the pattern of their paths, newest first."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Annotated

from handrail.errors import BadGlobPattern, SearchTimedOut
from handrail.model import Access
from handrail.search.receipt import Budget
from handrail.search.tree import SearchTree
from handrail.search.walk import Directory
from handrail.text.globs import BadGlob, compile_glob, fixed_part
from handrail.tools.arguments import Field
from handrail.tools.shared.coverage import passed_over
from handrail.tools.tool import Arguments, Context, Hints, Outcome, Remark, Tool, Words

_KEPT = 20_000


class Args(Arguments):
    pattern: Annotated[str, Field(min_length=1, max_length=4096, description="Such as **/*.py or src/*.{ts,tsx}")]
    path: Annotated[str, Field(description="Where the pattern starts")] = "."
    limit: Annotated[int | None, Field(ge=1, description="Most paths")] = None
    offset: Annotated[int, Field(ge=0, description="Paths to skip")] = 0
    include_hidden: Annotated[bool, Field(description="Dot files too")] = False
    include_ignored: Annotated[bool, Field(description="Ignored ones too")] = False
    ignore_case: Annotated[bool, Field(hidden=True)] = False
    """Only for dialects that have such a switch."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    paths: int = 100
    """Paths without `limit`."""
    most_paths: int = 1000
    seconds: float = 10.0
    visits: int | None = None
    """How many entries may be looked at."""
    timeout_is_error: bool = False
    skip: list[str] = field(default_factory=list)
    """Names that are left out like ignored ones."""
    absolute: bool = False
    """Whether paths are shown in full."""


def accesses(args: Args) -> list[Access]:
    """The directory that is looked through: of a pattern that begins with a slash, the part that is spelled out."""
    return [Access("read", _start(args)[0])]


def _start(args: Args) -> tuple[str, str]:
    if not args.pattern.startswith("/"):
        return args.path, args.pattern
    fixed = "/" + fixed_part(args.pattern.lstrip("/"))
    return fixed, posixpath.relpath(args.pattern, fixed) if fixed != "/" else args.pattern.lstrip("/")


_LETTERS = re.compile(r"(\\.)|\[(!|\^)?(\]?[^\]/]*)\]|(.)", re.DOTALL)


def _either_case(pattern: str) -> str:
    """A pattern that matches capital and small letters alike: `a` becomes `[aA]`, and `[a-z]` becomes `[a-zA-Z]`."""

    def folded(part: re.Match[str]) -> str:
        escaped, negated, inside, char = part.groups()
        if inside is not None:
            core = inside.strip("-")  # a dash at the edge is no range, and must not become one
            other = core.swapcase() if len(core.swapcase()) == len(core) else core
            both = core if other == core else core + other
            return f"[{negated or ''}{both}{'-' if core != inside else ''}]"
        if escaped or char.swapcase() == char or len(char.swapcase()) != 1:
            return part[0]
        return f"[{char}{char.swapcase()}]"

    return _LETTERS.sub(folded, pattern)


def run(args: Args, ctx: Context) -> Outcome:
    limits: Limits = ctx.limits
    start, pattern = _start(args)
    try:
        glob = compile_glob(_either_case(pattern) if args.ignore_case else pattern, args.include_hidden)
    except BadGlob as error:
        raise BadGlobPattern(pattern=args.pattern, why=str(error)) from None
    tree = ctx.tree(start)
    walk = tree.walk(Budget(limits.seconds, limits.visits))
    look = tree.look(hidden=args.include_hidden, ignored=args.include_ignored, skip=limits.skip)
    most = min(args.limit or limits.paths, limits.most_paths)
    needed = args.offset + most
    newest: list[tuple[int, str]] = []
    total = 0
    for here in walk.directories(look, glob):
        found = _found(here, tree)
        total += len(found)
        newest += zip([-mtime for mtime in here.mtimes(found)], [here.prefix + name for name in found], strict=True)
        if len(newest) > _KEPT + needed:  # only those that may be shown are kept
            newest = nsmallest(needed, newest)
    receipt = walk.receipt
    receipt.searched = total
    if receipt.stopped == "time_limit" and limits.timeout_is_error:
        raise SearchTimedOut(seconds=limits.seconds, pattern=args.pattern)
    newest.sort()
    page = [tree.named(path, limits.absolute) for _, path in newest[args.offset : needed]]
    left = total - args.offset - len(page)
    remarks = []
    if left > 0:
        following = args.offset + len(page)
        remarks.append(Remark("more_paths", {"next": following, "remaining": left, "total": total, "count": len(page)}))
    if receipt.stopped:
        remarks.append(
            Remark(receipt.stopped, {"seconds": limits.seconds, "visits": limits.visits, "count": walk.visited})
        )
    if receipt.unreadable:
        remarks.append(Remark("unreadable", {"count": receipt.unreadable}))
    data = {
        "paths": page,
        "total": total,
        "truncated": left > 0 or bool(receipt.stopped),
        "next_offset": args.offset + len(page) if left > 0 else None,
        "aborted_reason": receipt.stopped or ("count_limit" if left > 0 else None),
        "receipt": receipt.data(),
    }
    facts = {
        "pattern": args.pattern,
        "path": start,
        "paths": page,
        "total": total,
        "visited": walk.visited,
        "receipt": receipt,
        "deeper": "**/" + args.pattern if "/" not in args.pattern and "**" not in args.pattern else None,
    }
    return Outcome("page" if page else "past" if total else "empty", facts, data, tuple(remarks))


def _found(here: Directory, tree: SearchTree) -> Sequence[str]:
    """The files that match, and the links that stand for one."""
    if not here.links:
        return here.files
    return [*here.files, *(name for name in here.links if tree.behind(here.prefix + name) == "file")]


def say(outcome: Outcome, words: Words) -> str:
    facts = outcome.facts
    skipped = passed_over(facts["receipt"], words)
    stopped = facts["receipt"].stopped or None
    return words.say(
        f"glob.{outcome.kind}", **{**facts, "paths": "\n".join(facts["paths"]), "skipped": skipped, "stopped": stopped}
    )


TOOL = Tool(
    id="glob",
    args=Args,
    limits=Limits,
    run=run,
    say=say,
    hints=Hints(read_only=True, idempotent=True),
    accesses=accesses,
)
