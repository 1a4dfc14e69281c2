"""ApplyPatch: add, change, move and delete files by one patch, all or none."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Literal, NamedTuple, NotRequired, TypedDict

from handrail.errors import AmbiguousHunk, BadHunk, ChangedSince, NotRegular, ToolError, WouldOverwrite
from handrail.frozen import frozen
from handrail.model import FileAccess
from handrail.text import lines
from handrail.text.diff import Hunk, number_new_lines
from handrail.text.display import escape
from handrail.text.document import Splice, apply_splices, keep_endings, minimize
from handrail.text.matching.budget import limit_work
from handrail.text.matching.omission import is_prose_file
from handrail.text.patches.locate import Placed, locate_hunks
from handrail.text.patches.operations import FileOp
from handrail.text.patches.patch import parse_patch
from handrail.tools.arguments import Field
from handrail.tools.edit import note_changes
from handrail.tools.notes import NoteFacts
from handrail.tools.tool import Arguments, Context, Hints, Loaded, Outcome, Templates, Tool

_PREFIXES = ("a/", "b/")
"""Of git, before the paths of a diff."""


class Args(Arguments):
    patch: Annotated[str, Field(description="The whole patch, from *** Begin Patch to *** End Patch, or a diff")]
    overwrite: Annotated[bool, Field(description="Let Add and Move replace files that exist")] = False


@frozen
class Limits:
    """Limits that a dialect may set."""

    needs_reading: bool = True
    """Whether a file that is updated, moved, deleted or replaced must have been read through a tool."""
    snippet_lines: int = 40


@frozen
class FileChange:
    """One change of the patch."""

    kind: Literal["add", "update", "move", "delete", "same"]
    path: str
    source: str | None = None
    hunks: Sequence[Hunk] = ()
    rung: str = "exact"
    notes: tuple[NoteFacts, ...] = ()


@frozen
class Facts:
    done: Sequence[FileChange]
    count: int
    rows: Sequence[Sequence[tuple[int, str]]]
    """The changed lines of each file with their numbers; empty if there are too many."""


FileData = TypedDict(
    "FileData", {"path": str, "change": str, "added": int, "removed": int, "rung": str, "from": NotRequired[str]}
)


class Data(TypedDict):
    files: list[FileData]


def accesses(args: Args) -> list[FileAccess]:
    """The accesses that the patch names."""
    declared: list[FileAccess] = []
    ops = parse_patch(args.patch)
    for op in ops:
        if op.kind == "add":
            declared.append(FileAccess("write", op.path))
        elif op.kind == "delete":
            declared.append(FileAccess("delete", op.path, instead=_get_bare_path(op, ops)))
        elif op.move_to is None:
            bare = _get_bare_path(op, ops)
            declared += [FileAccess("read", op.path, instead=bare), FileAccess("write", op.path, instead=bare)]
        else:
            gone = FileAccess("delete", op.path, renamed=True)
            declared += [FileAccess("read", op.path), gone, FileAccess("write", op.move_to)]
    return declared


def _get_bare_path(op: FileOp, ops: Sequence[FileOp]) -> str:
    """The path of a file that must exist, without what may be a prefix of git; empty if there is none, or if the patch
    makes a file whose path has one: where that belongs, no existing file tells."""
    new_paths = [path for one in ops for path in ((one.path,) if one.kind == "add" else (one.move_to or "",))]
    if not op.path.startswith(_PREFIXES) or any(path.startswith(_PREFIXES) for path in new_paths):
        return ""
    return op.path[2:]


def run(args: Args, ctx: Context[Limits]) -> Outcome[Facts]:
    return apply_patch(args, ctx)


def apply_patch(args: Args, ctx: Context[Limits], *, add_overwrites: bool = False, base: str = "") -> Outcome[Facts]:
    """Stage the changes of a patch, whose paths start from ``base``.

    With ``add_overwrites``, Add replaces existing files even if the call does not ask for it.
    """
    ops = parse_patch(args.patch)
    done: list[FileChange] = []
    with limit_work(ctx.cancel):
        for op in ops:
            if ctx.is_instead(join_below(base, op.path)):
                op = replace(op, path=_get_bare_path(op, ops))
            if base:
                move_to = op.move_to if op.move_to is None else join_below(base, op.move_to)
                op = replace(op, path=join_below(base, op.path), move_to=move_to)
            try:
                if op.kind == "add":
                    done.append(_add(op, ctx, overwrite=args.overwrite or add_overwrites or op.rewrites))
                elif op.kind == "delete":
                    done.append(_delete(op, ctx, alone=len(ops) == 1))
                else:
                    done.append(_update(op, ctx, overwrite=args.overwrite))
            except ToolError as error:
                error.facts.setdefault("path", op.path)
                if len(ops) > 1:
                    error.wrap = "apply_patch.failed"
                    error.facts["files"] = len(ops)
                raise
    rows = [number_new_lines(one.hunks) for one in done]
    short = sum(map(len, rows)) <= ctx.limits.snippet_lines
    count = sum(one.kind != "same" for one in done)
    shown = [_shown_from(base, one) for one in done] if base else done
    facts = Facts(shown, count, rows if short else [[] for _ in done])
    notes = tuple(note for one in done for note in one.notes)
    return Outcome("done" if count else "unchanged", facts, Data(files=[file_data(one) for one in done]), notes)


def join_below(base: str, named: str) -> str:
    """A path as seen from the workspace; ``base`` is empty for the workspace itself."""
    return posixpath.normpath(posixpath.join(base, named)) if base else named


def _shown_from(base: str, change: FileChange) -> FileChange:
    """The same change, with its paths as the patch names them."""
    source = change.source and change.source.removeprefix(f"{base}/")
    return replace(change, path=change.path.removeprefix(f"{base}/"), source=source)


def _add(op: FileOp, ctx: Context[Limits], *, overwrite: bool) -> FileChange:
    content = "".join(line + "\n" for line in op.content)
    if op.final_newline is False:
        content = content.removesuffix("\n")
    over = _load_existing(op.path, overwrite, ctx)
    if over is None:
        return FileChange("add", op.path, hunks=ctx.stage(op.path, None, [Splice(0, 0, content)]).hunks)
    text = over.document.text
    change = minimize(text, 0, len(text), keep_endings(text, 0, len(text), content))
    return FileChange("update", op.path, hunks=ctx.stage(op.path, over, [change] if change else []).hunks)


def _load_existing(path: str, allowed: bool, ctx: Context[Limits]) -> Loaded | None:
    """The file that is in the way of a new one; raises unless it may be replaced."""
    if not ctx.exists(path):
        return None
    if not allowed:
        raise WouldOverwrite(path=path)
    return ctx.load(path, whole=True, unseen=not ctx.limits.needs_reading)


def _delete(op: FileOp, ctx: Context[Limits], *, alone: bool) -> FileChange:
    if ctx.subtrees.is_link(op.path):
        if not alone or op.hunks:  # a link is renamed and removed as a whole, which no other change can join
            raise NotRegular(path=op.path, kind="a link; delete it by a patch of its own")
        ctx.subtrees.stage(op.path, ctx.subtrees.read(op.path))
        return FileChange("delete", op.path)
    loaded = ctx.load(op.path, whole=True, unseen=not ctx.limits.needs_reading)
    if op.hunks:  # a unified diff says what is deleted: it must be that, and nothing else
        text = loaded.document.text
        if lines.to_feeds(apply_splices(text, locate_hunks(text, op.hunks).splices)).strip("\n"):
            raise BadHunk(number=len(op.hunks), rest=True)
    return FileChange("delete", op.path, hunks=ctx.remove(op.path, loaded).hunks)


def _update(op: FileOp, ctx: Context[Limits], *, overwrite: bool) -> FileChange:
    quoted = ["\n".join(hunk.old) for hunk in op.hunks] if op.move_to is None else []
    loaded = ctx.load(op.path, whole=not op.hunks, unseen=not ctx.limits.needs_reading, quoted=quoted)
    placed = _place_hunks(op, loaded, ctx)
    if op.move_to is not None:
        over = _load_existing(op.move_to, overwrite, ctx)
        staged = ctx.move(op.path, op.move_to, loaded, placed.splices, over)
        return FileChange("move", op.move_to, op.path, staged.hunks, placed.level, note_changes(op.path, loaded))
    staged = ctx.stage(op.path, loaded, placed.splices)
    kind: Literal["update", "same"] = "update" if staged.changes else "same"
    return FileChange(kind, op.path, None, staged.hunks, placed.level, note_changes(op.path, loaded))


def _place_hunks(op: FileOp, loaded: Loaded, ctx: Context[Limits]) -> Placed:
    if not op.hunks:
        return Placed([], "exact")
    locate = partial(locate_hunks, loaded.document.text, op.hunks, op.final_newline)
    try:
        try:
            return locate()
        except BadHunk as error:
            if not error.placeholder or not (is_prose_file(op.path) or ctx.is_sent_again()):
                raise
            return locate(omits=True)
    except (BadHunk, AmbiguousHunk):
        if loaded.described_changes is not None:
            raise ChangedSince(path=op.path, moved=loaded.described_changes) from None
        raise


def file_data(one: FileChange) -> FileData:
    """Data about a changed file, for programs."""
    added, removed = (sum(sign == mark for hunk in one.hunks for sign, _ in hunk.rows) for mark in "+-")
    data: FileData = {
        "path": one.path,
        "change": one.kind,
        "added": added,
        "removed": removed,
        "rung": one.rung,
    }
    if one.source:
        data["from"] = one.source
    return data


class PatchItem(NamedTuple):
    """The values of the template for one file."""

    path: str
    source: str
    how: str
    """How the hunks were matched, if not exactly."""
    snippet: str


class FailedPatch(NamedTuple):
    """The values of the template around the message for a file that failed."""

    files: int
    error: str


def render(outcome: Outcome[Facts], templates: Templates) -> str:
    facts = outcome.facts
    items: list[tuple[str, str]] = []
    for one, rows in zip(facts.done, facts.rows, strict=True):
        how = "" if one.rung == "exact" else one.rung.replace("_", " ")
        numbered = templates.number_lines(rows) if one.kind != "add" else ""
        item = PatchItem(one.path, escape(one.source) if one.source else "", how, numbered)
        items.append((one.kind, templates.fill(f"apply_patch.{one.kind}", item)))
    order = {"add": 0, "update": 1, "move": 1, "delete": 2, "same": 3}
    grouped = "\n".join(text for _, text in sorted(items, key=lambda item: order[item[0]]))
    listed = "\n".join(text for _, text in items)
    return templates.fill(f"apply_patch.{outcome.kind}", facts, items=listed, grouped=grouped)


TOOL = Tool(
    id="apply_patch",
    args=Args,
    limits=Limits,
    facts=Facts,
    data=Data,
    run=run,
    render=render,
    hints=Hints(destructive=True),
    accesses=accesses,
    rendered=("items", "grouped"),
    rows={**dict.fromkeys(("add", "update", "move", "delete", "same"), PatchItem), "failed": FailedPatch},
)
