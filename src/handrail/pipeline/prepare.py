"""The steps before anything changes: parse, declare, resolve and judge.

Parse translates a call from the dialect's names to ours, and its arguments to typed ones: leniently where they are
unambiguous, and with every mistake reported at once. Declare and resolve turn them into accesses to real paths. Judge
asks the policy; from then on a preview is possible.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from handrail import tools
from handrail.dialects import Dialect
from handrail.errors import BadArguments, BadJson, NoSandbox, ReadOnlyRoot, ToolError
from handrail.files.versions import Change
from handrail.json_types import JsonMapping
from handrail.model import Access, CommandAccess, FileAccess, ToolAccess, Verdict
from handrail.pipeline.call_state import (
    Declared,
    Judged,
    Parsed,
    Received,
    Resolved,
    StagedChanges,
)
from handrail.pipeline.context import ToolContext
from handrail.pipeline.services import Services
from handrail.policy.paths import is_within
from handrail.text.display import escape
from handrail.workspace import WorkPath, Workspace, resolve_parent

if TYPE_CHECKING:
    from handrail.dialects import ToolEntry
    from handrail.dialects.templates import DialectTemplates
    from handrail.secrets.redaction import Redaction
    from handrail.tools.tool import Arguments

_NAME_OF_GIT = re.compile(
    r"/(?:\.git|HEAD|objects|refs|commondir|config|config\.worktree|hooks|info)(?:/|$)", re.IGNORECASE
)


def read_arguments(arguments: Mapping[str, object] | str | None) -> JsonMapping:
    """Arguments as a mapping; models and command lines also send them as a string of JSON."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError) as error:
            raise BadJson(why=str(error)) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise BadJson(why="the arguments are not an object")
    return arguments


def parse(received: Received, dialect: Dialect, redaction: Redaction | None, matching: str = "dialect") -> Parsed:
    """The tool and its typed arguments; raises `UnknownTool` or `BadArguments`.

    ``matching``: "ladder" makes edits forgiving where the dialect does not.
    """
    name = received.call.tool
    arguments = received.call.arguments
    entry, ours, unknown = dialect.translate(name, redaction.restore(arguments) if redaction else arguments)
    tool = dialect.tool(name)
    args = _parse_arguments(tool.args, ours, unknown, dialect, entry)
    limits = dialect.limits(name)
    if matching != "dialect" and getattr(limits, "matching", "forgiving") != "forgiving":
        limits = replace(limits, matching=matching)
    return Parsed(received, entry, tool, args, limits)


def _parse_arguments(
    args: type[Arguments], ours: Mapping[str, object], unknown: Sequence[str], dialect: Dialect, entry: ToolEntry
) -> Arguments:
    """The arguments as the tool takes them; raises `BadArguments` with all that is wrong, in the dialect's words."""
    schema, templates = dialect.spec(entry.name).schema, dialect.templates
    problems = [_report_unknown(name, list(schema["properties"]), templates) for name in unknown]
    for name in schema.get("required", ()):  # a dialect may need what the tool itself could do without
        inner = entry.rename.get(name, name)
        if inner not in ours and not args.declared()[inner].is_required:
            problems.append(f"{name}: {_report_missing(schema, [name], templates)}")
    try:
        parsed = args.parse(ours)
    except ValueError as error:
        from pydantic_core import ValidationError  # a ValueError; the tool has imported pydantic-core

        if not isinstance(error, ValidationError):
            raise
        theirs = {inner: outer for outer, inner in entry.rename.items()}
        for one in error.errors(include_url=False):
            place = [theirs.get(str(part), str(part)) for part in one["loc"]]
            problems.append(f"{_place(place)}: {_describe_problem(one, schema, place, templates)}")
    if problems:
        raise BadArguments(problems="\n".join(f"- {problem}" for problem in problems))
    return parsed


def _report_unknown(name: str, known: list[str], templates: DialectTemplates) -> str:
    import difflib  # slow to import, and only needed for mistakes

    near = difflib.get_close_matches(name, known, n=1)
    facts = {"near": near[0] if near else "", "others": ", ".join(known)}
    return f"{escape(name)}: {templates.fill('arguments.unknown', **facts)}"


def _place(parts: list[str]) -> str:
    if not parts:  # a rule about the arguments together
        return "arguments"
    return escape(parts[0]) + "".join(f"[{part}]" if part.isdigit() else f".{escape(part)}" for part in parts[1:])


def _find_schema(schema: JsonMapping, place: list[str]) -> Mapping[str, object]:
    """The part of a schema that speaks of one argument, also inside a list of objects."""
    for part in place:
        schema = schema.get("items", {}) if part.isdigit() else schema.get("properties", {}).get(part, {})
    return schema


def _report_missing(schema: Mapping[str, object], place: list[str], templates: DialectTemplates) -> str:
    argument = _find_schema(schema, place)
    return templates.fill("arguments.missing", what=argument.get("description"), kind=argument.get("type", "any"))


def _describe_problem(error: Any, schema: JsonMapping, place: list[str], templates: DialectTemplates) -> str:
    if error["type"] == "missing":
        return _report_missing(schema, place, templates)
    if error["type"] == "extra_forbidden":
        return templates.fill("arguments.extra")
    got = repr(error["input"])
    return templates.fill(
        "arguments.wrong",
        why=error["msg"][:1].lower() + error["msg"][1:],
        kind=_find_schema(schema, place).get("type"),
        got=got if len(got) <= 60 else got[:60] + "...",
    )


def declare(parsed: Parsed) -> Declared:
    """Every access that the call will make; raises what is wrong with a patch or a command."""
    tool, accesses = parsed.tool, parsed.tool.declare(parsed.args)
    if not accesses and not tool.hints.read_only and parsed.entry.id not in tools.list_ids():
        accesses = (ToolAccess(parsed.entry.name),)  # a tool of the host's own is judged whatever it declares
    return Declared(parsed, accesses)


def resolve(declared: Declared, workspace: Workspace, *, slash_is_workspace: bool = False) -> Resolved:
    """The real path of every access; raises if the tool itself would leave the workspace.

    A path in a command may lie anywhere: policy and sandbox judge that.
    """
    find = workspace.resolve_below_slash if slash_is_workspace else workspace.resolve
    accesses = declared.accesses
    moved = {access.target: other for access in accesses if (other := _find_instead(access, workspace))}
    if moved:
        renamed = ((access, moved.get(access.target)) for access in accesses)
        accesses = tuple(replace(access, target=other.named) if other else access for access, other in renamed)
    files = [access for access in accesses if isinstance(access, FileAccess) and not access.by_command]
    paths = {access.target: find(access.target) for access in files if access.action != "delete" or access.renamed}
    for access in files:
        if access.target not in paths:  # only deleted: a link itself, and not the file that it leads to
            target = access.target
            paths[target] = (
                workspace.resolve_below_slash(target, itself=True)
                if slash_is_workspace
                else workspace.resolve_itself(target)
            )
    located = tuple([_locate(access, paths, workspace) for access in accesses])
    return Resolved(declared, located, paths | {target: paths[other.named] for target, other in moved.items()})


def _find_instead(access: Access, workspace: Workspace) -> WorkPath | None:
    """The other path that an access names, if only that exists."""
    if not isinstance(access, FileAccess) or not access.instead:
        return None
    if workspace.stat(workspace.resolve(access.target)) is not None:
        return None
    other = workspace.resolve(access.instead)
    return other if workspace.stat(other) is not None else None


def _locate(access: Access, paths: Mapping[str, WorkPath], workspace: Workspace) -> Access:
    """The access with its real path."""
    if isinstance(access, CommandAccess):
        return replace(access, place=paths[access.place].real) if access.place in paths else access
    if not isinstance(access, FileAccess):
        return access
    if not access.by_command:
        return access.at(paths[access.target].real)
    home, target = os.path.realpath(workspace.home), workspace.expand_alias(access.target)
    named = os.path.join(home, os.path.expanduser(target))
    real = os.path.realpath(named)
    if access.action == "delete" and not access.below and os.path.islink(named):
        return replace(access, path=resolve_parent(named))
    return replace(access, path=real)


def judge(resolved: Resolved, services: Services) -> Judged:
    """The verdict on a call: allow, ask or deny. Raises `ReadOnlyRoot` for a change below a root that is only read."""
    for access in resolved.accesses:
        if access.action in ("write", "delete") and not access.by_command:
            root = resolved.paths[access.target].root
            if not root.writable:
                raise ReadOnlyRoot(path=access.target, root=root.path)
    if services.settings.drafts and resolved.previous.previous.tool.drafted:
        resolved = Resolved(resolved.previous, _defer(resolved, services), resolved.paths)
    verdict = services.approvals.verdict(resolved.accesses)

    shown: list[StagedChanges] = []  # computed once: the answer of a person binds to the changes that were shown

    def dry_run() -> StagedChanges:
        if not shown:
            shown.append(_run_dry(judged, services))
        return shown[0]

    judged = Judged(resolved, verdict, dry_run)
    return judged


def _run_dry(judged: Judged, services: Services) -> StagedChanges:
    """The changes that a call would make, as far as a run can say it."""
    if not judged.tool.repeatable:
        return StagedChanges((), (), ())
    with contextlib.closing(ToolContext(services, judged)) as context:
        judged.tool.run(judged.args, context)
    return context.staging.staged


def judge_contents(judged: Judged, services: Services) -> Judged:
    """Judge by what would be written, if files of git's own would change. Of a call that fails, paths alone count."""
    if judged.verdict.decision == "deny" or not _may_change_git(judged, services):
        return judged
    try:
        changes = judged.dry_run().changes
    except ToolError:
        return judged
    return replace(judged, verdict=judge_staged(judged, changes, services))


def _may_change_git(judged: Judged, services: Services) -> bool:
    """Whether a tool would change files with names that git uses in a repository."""
    written = judged.written_paths
    if not (written and any(map(_NAME_OF_GIT.search, written))):
        return False
    return judged.command is None and judged.tool.repeatable and hasattr(services.approvals.policy, "protects")


def judge_staged(judged: Judged, changes: Sequence[Change], services: Services) -> Verdict:
    """The verdict on a call that makes these changes."""
    if not _may_change_git(judged, services):
        return judged.verdict
    from handrail.pipeline.git_files import judge_git_files  # slow to import, and rarely needed

    return judge_git_files(judged.accesses, changes, services.approvals, os.path.realpath(services.workspace.home))


def _defer(resolved: Resolved, services: Services) -> tuple[Access, ...]:
    """The accesses of a command, marked as deferred where it will run in a draft and its changes are judged there."""
    parsed, accesses = resolved.previous.previous, resolved.accesses
    drafted = parsed.tool.drafted
    runs = any(isinstance(access, CommandAccess) for access in accesses)
    if not runs or drafted is None or not drafted(parsed.args):
        return accesses
    try:
        workspace = services.command_host().drafts.workspace
    except NoSandbox:  # the run says it
        return accesses
    if not workspace:
        return accesses
    return tuple(
        replace(access, deferred=True)
        if isinstance(access, CommandAccess)
        or (
            isinstance(access, FileAccess)
            and access.by_command
            and access.action != "read"
            and is_within(workspace, access.path)
        )
        else access
        for access in accesses
    )


def seek(judged: Judged, services: Services) -> Declared | None:
    """The accesses that a tool finds only by reading files, added to the others; None for a tool that needs none."""
    find = judged.tool.seek
    if not find or judged.verdict.decision == "deny":
        return None
    with contextlib.closing(ToolContext(services, judged)) as context:
        more = find(judged.args, context)
    return Declared(judged.parsed, (*judged.accesses, *more))
