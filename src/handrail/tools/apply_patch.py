"""ApplyPatch: files added, changed, moved and deleted by one patch, all or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from handrail.errors import AmbiguousHunk, BadHunk, ChangedSince, ToolError, WouldOverwrite
from handrail.model import Access
from handrail.text import lines
from handrail.text.diff import Hunk, number_new_lines
from handrail.text.display import escape
from handrail.text.document import Splice, apply_splices
from handrail.text.patches.locate import Placed, locate_hunks
from handrail.text.patches.operations import FileOp
from handrail.text.patches.patch import parse_patch
from handrail.text.splice import keep_endings, minimize
from handrail.tools.arguments import Field
from handrail.tools.edit import note_changes
from handrail.tools.notes import NoteFacts
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Templates, Tool


class Args(Arguments):
    patch: Annotated[str, Field(description="The whole patch, from *** Begin Patch to *** End Patch, or a diff")]
    overwrite: Annotated[bool, Field(description="Let Add and Move replace files that exist")] = False


@dataclass(frozen=True, slots=True)
class Limits:
    """What a dialect may set."""

    needs_reading: bool = True
    """Whether a file that is updated, moved, deleted or replaced must have been read through a tool."""
    add_overwrites: bool = False
    """Whether Add replaces a file that exists, without being told to."""
    snippet_lines: int = 40


@dataclass(frozen=True, slots=True)
class _Done:
    """What became of one file."""

    kind: str
    path: str
    source: str | None = None
    hunks: Sequence[Hunk] = ()
    rung: str = "exact"
    notes: tuple[NoteFacts, ...] = ()


def accesses(args: Args) -> list[Access]:
    """Read off the patch itself: what it does to which file."""
    found: list[Access] = []
    for op in parse_patch(args.patch):
        if op.kind == "add":
            found.append(Access("write", op.path))
        elif op.kind == "delete":
            found.append(Access("delete", op.path))
        elif op.move_to is None:
            found += [Access("read", op.path), Access("write", op.path)]
        else:
            found += [Access("read", op.path), Access("delete", op.path), Access("write", op.move_to)]
    return found


def run(args: Args, ctx: Context[Limits]) -> Outcome[dict[str, Any]]:
    ops = parse_patch(args.patch)
    done: list[_Done] = []
    steps = {"add": _add, "delete": _delete, "update": _update}
    for op in ops:
        try:
            done.append(steps[op.kind](op, args, ctx))
        except ToolError as error:
            error.facts.setdefault("path", op.path)
            if len(ops) > 1:
                error.wrap = "apply_patch.failed"
                error.facts["files"] = len(ops)
            raise
    rows = [number_new_lines(one.hunks) for one in done]
    short = sum(map(len, rows)) <= ctx.limits.snippet_lines
    facts: dict[str, Any] = {"done": done, "count": len(done), "rows": rows if short else [[] for _ in done]}
    notes = tuple(remark for one in done for remark in one.notes)
    facts["files"] = [_data(one) for one in done]
    return Outcome("done", facts, {"files": facts["files"]}, notes)


def _add(op: FileOp, args: Args, ctx: Context[Limits]) -> _Done:
    content = "".join(line + "\n" for line in op.content)
    if op.final_newline is False:
        content = content.removesuffix("\n")
    over = _over(op.path, args.overwrite or ctx.limits.add_overwrites, ctx)
    if over is None:
        return _Done("add", op.path, hunks=ctx.stage(op.path, None, [Splice(0, 0, content)]).hunks)
    text = over.document.text
    change = minimize(text, 0, len(text), keep_endings(text, 0, len(text), content))
    return _Done("update", op.path, hunks=ctx.stage(op.path, over, [change] if change else []).hunks)


def _over(path: str, allowed: bool, ctx: Context[Limits]) -> Loaded | None:
    """What stands where a file is to be put; raises unless it may be replaced."""
    if not ctx.exists(path):
        return None
    if not allowed:
        raise WouldOverwrite(path=path)
    return ctx.load(path, whole=True, unseen=not ctx.limits.needs_reading)


def _delete(op: FileOp, _: Args, ctx: Context[Limits]) -> _Done:
    loaded = ctx.load(op.path, whole=True, unseen=not ctx.limits.needs_reading)
    if op.hunks:  # a unified diff says what is deleted: it must be that, and nothing else
        text = loaded.document.text
        if lines.to_feeds(apply_splices(text, locate_hunks(text, op.hunks).splices)).strip("\n"):
            raise BadHunk(number=len(op.hunks), rest=True)
    return _Done("delete", op.path, hunks=ctx.remove(op.path, loaded).hunks)


def _update(op: FileOp, args: Args, ctx: Context[Limits]) -> _Done:
    loaded = ctx.load(op.path, whole=not op.hunks, unseen=not ctx.limits.needs_reading)
    made = _placed(op, loaded)
    if op.move_to is not None:
        over = _over(op.move_to, args.overwrite, ctx)
        staged = ctx.move(op.path, op.move_to, loaded, made.splices, over)
        return _Done("move", op.move_to, op.path, staged.hunks, made.level, note_changes(op.path, loaded))
    staged = ctx.stage(op.path, loaded, made.splices)
    if not staged.changes:
        raise BadHunk(number=len(op.hunks), same=True)
    return _Done("update", op.path, None, staged.hunks, made.level, note_changes(op.path, loaded))


def _placed(op: FileOp, loaded: Loaded) -> Placed:
    if not op.hunks:
        return Placed([], "exact")
    try:
        return locate_hunks(loaded.document.text, op.hunks, op.final_newline)
    except (BadHunk, AmbiguousHunk):
        if loaded.moved is not None:
            raise ChangedSince(path=op.path, moved=loaded.moved) from None
        raise


def _data(one: _Done) -> dict[str, Any]:
    added, removed = (sum(sign == wanted for hunk in one.hunks for sign, _ in hunk.rows) for wanted in "+-")
    data: dict[str, Any] = {"path": one.path, "change": one.kind, "added": added, "removed": removed, "rung": one.rung}
    return data | ({"from": one.source} if one.source else {})


def render(outcome: Outcome[dict[str, Any]], templates: Templates) -> str:
    items: list[tuple[str, str]] = []
    for one, rows in zip(outcome.facts["done"], outcome.facts["rows"], strict=True):
        how = "" if one.rung == "exact" else one.rung.replace("_", " ")
        source = escape(one.source) if one.source else ""
        numbered = templates.number_lines(rows) if one.kind != "add" else ""
        said = templates.fill(f"apply_patch.{one.kind}", path=one.path, source=source, how=how, snippet=numbered)
        items.append((one.kind, said))
    order = {"add": 0, "update": 1, "move": 1, "delete": 2}
    grouped = "\n".join(said for _, said in sorted(items, key=lambda item: order[item[0]]))
    listed = "\n".join(said for _, said in items)
    return templates.fill(f"apply_patch.{outcome.kind}", **outcome.facts, items=listed, grouped=grouped)


TOOL = Tool(
    id="apply_patch", args=Args, limits=Limits, run=run, render=render, hints=Hints(destructive=True), accesses=accesses
)
