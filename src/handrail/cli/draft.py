"""`handrail draft`: named drafts of the workspace, for whole sessions and for any program."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

from handrail.cli.common import ProgramParser, add_workspace, find_state, open_session, require_directory
from handrail.cli.keeping import describe_counts, keep_changes, print_diff
from handrail.cli.output import Stop, UsageError, as_document, warn, write
from handrail.drafts import IN_DRAFT
from handrail.drafts.changes import ChangeReader, count_changes, describe_failure, diff_drafts
from handrail.drafts.compare import compare
from handrail.drafts.keep import DraftConflict
from handrail.drafts.store import DraftStore, check_name
from handrail.drafts.three_way import saving_bases
from handrail.drafts.view import enter_view
from handrail.fleet.workspaces import WHOLE_DRAFT, read_built
from handrail.json_types import JsonObject
from handrail.model import Call
from handrail.pipeline.draft_changes import DRAFT, DraftChanges, describe_conflicts
from handrail.pipeline.draft_process import open_draft
from handrail.pipeline.merging import resolve_conflicts
from handrail.pipeline.overlaps import group_by_worker
from handrail.shell.git.branches import NoBranch, make_branch
from handrail.shell.runner.run import find_shell
from handrail.text.diff import format_unified
from handrail.text.display import escape, replace_surrogates

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handrail.drafts.store import OpenDraft

_ABOUT = """\
Named drafts: copy-on-write views of the workspace that stay until you keep or drop them. Several agents can try several
ways on one project, each in its own draft; you compare them and keep one.

  start NAME [--count N]   create a draft, or N of them: NAME-1, NAME-2 and so on
  list                     the drafts of this workspace: which program changed what in each
  diff NAME [OTHER]        the changes of a draft as a diff, or how another draft differs from it
  run NAME -- COMMAND      run a program that sees the draft instead of the workspace
  shell NAME               a shell that sees the draft; it is created if there is none
  rebase NAME              merge what has changed in the workspace into the draft
  keep NAME [PATH ...]     apply its changes to the workspace, all or those of some paths
  resolve NAME [PATH ...]  resolve conflicts with other changes: --ours, --theirs, --merge or --tool
  to-branch NAME [BRANCH]  commit its changes to a new git branch, on top of HEAD
  drop NAME                delete it

RUN/NAME is the draft that a workspace of `handrail fleet` on this machine is.

`handrail chat`, `run`, `call`, `batch` and `mcp` take --draft NAME: all tools of that session see the draft. Its calls
are in a journal of the draft's own; what you keep is one call in the journal of the workspace, so that `handrail undo`
takes it back."""

_EXAMPLES = """\
examples:
  handrail draft start try --count 3
  handrail run "make the tests faster" --draft try-1
  handrail draft run try-2 -- make test
  handrail draft diff try-1
  handrail draft keep try-1 src docs/index.md
  handrail draft drop try-2

exit codes: 0 done, 1 it failed, 2 wrong usage; of `run` those of the program"""

_MOST_COUNT = 100
_MOST_LISTED = 5
"""Paths of one program in the list."""


def parser() -> argparse.ArgumentParser:
    parser = ProgramParser("draft", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "what",
        metavar="WHAT",
        type=lambda word: "start" if word == "new" else word,  # the earlier name
        choices=sorted(_ACTIONS),
        help=", ".join(_ACTIONS),
    )
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help="the draft")
    parser.add_argument(
        "paths", metavar="PATH", nargs="*", default=[], help="keep, resolve: only these paths; diff: the other draft"
    )
    for side, what in (
        ("ours", "the draft wins"),
        ("theirs", "the workspace wins: the draft's changes are dropped"),
        ("merge", "both, with markers around lines that overlap"),
        ("tool", "merge lines that overlap in git's merge.tool"),
    ):
        parser.add_argument(f"--{side}", dest="sides", action="append_const", const=side, help=f"resolve: {what}")
    parser.add_argument("--count", metavar="N", type=int, help="start: how many")
    parser.add_argument("--json", action="store_true", help="list and diff: print JSON")
    add_workspace(parser, roots=False)
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    if bool(options.name) == (options.what == "list") and "/" not in options.name:
        raise UsageError("draft list takes no name" if options.name else f"draft {options.what} needs the NAME")
    for given, allowed, what in (
        (options.paths, ("keep", "resolve", "diff", "to-branch"), "paths"),
        (options.command, ("run",), "a command after --"),
        (options.count is not None, ("start",), "--count"),
        (options.sides, ("resolve",), "a side"),
    ):
        if given and options.what not in allowed:
            raise UsageError(f"draft {options.what} does not take {what}, as draft {' or '.join(allowed)} does")
    if os.environ.get(IN_DRAFT):
        raise Stop("this is inside of a draft already; drafts are managed outside of it")
    if "/" in options.name:
        os.environ["HANDRAIL_STATE"], options.workspace = _find_in_fleet(options.name)
        os.chdir(options.workspace)
    return _ACTIONS[options.what](options)


def _find_in_fleet(name: str) -> tuple[str, str]:
    """The state directory and the source of RUN/NAME: a workspace of a fleet on this machine is a draft."""
    folder = os.path.join(find_state(), "fleet", name.replace("/", "/work/", 1))
    _, kind, source = read_built(os.path.join(folder, "built"))
    if kind != "draft":
        raise UsageError(f"there is no draft {escape(name)}: a fleet has built no such workspace here, or a copy")
    return os.path.join(folder, "state"), source


def _open_store(workspace: str) -> DraftStore:
    try:
        return DraftStore.open(find_state(), workspace)
    except OSError as error:
        raise Stop(f"there can be no draft here: {error.strerror}") from None


def _open_draft(store: DraftStore, name: str, *, shared: bool = False) -> OpenDraft:
    """Open a draft for this process alone, or ``shared`` with others that work in it."""
    try:
        return store.open_named(WHOLE_DRAFT if "/" in name else name, shared=shared)
    except FileNotFoundError:
        names = ", ".join(draft.info.name for draft in store.list_named())
        raise UsageError(
            f"there is no draft {escape(name)}; {f'there are {names}' if names else 'create one'}"
        ) from None
    except BlockingIOError:
        raise Stop(f"another process works in the draft {escape(name)}; end it first") from None


@contextlib.contextmanager
def _opened(options: argparse.Namespace, failure: str, name: str = "") -> Iterator[OpenDraft]:
    """A draft for this process alone: the one that is named, or another. ``failure``: what an `OSError` means here."""
    with contextlib.closing(_open_draft(_open_store(options.workspace), name or options.name)) as draft:
        try:
            yield draft
        except OSError as error:
            raise Stop(f"{failure}: {describe_failure(error)}") from None


def _create(options: argparse.Namespace) -> int:
    try:
        check_name(options.name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    count = options.count
    if count is not None and not 1 <= count <= _MOST_COUNT:
        raise UsageError(f"--count is from 1 to {_MOST_COUNT}")
    names = [options.name] if count is None else [f"{options.name}-{number}" for number in range(1, count + 1)]
    store = _open_store(options.workspace)
    taken = {draft.info.name for draft in store.list_named()} & set(names)
    if taken:
        raise UsageError(f"there is a draft {sorted(taken)[0]} already")
    for name in names:
        try:
            store.look_at_owners()
            store.create(name).close()
        except OSError as error:
            raise Stop(f"the draft {name} cannot be created: {error.strerror}") from None
        write(f"{name}\n")
    return 0


def _list(options: argparse.Namespace) -> int:
    rows: list[JsonObject] = []
    for draft in _open_store(options.workspace).list_named():
        age = max(0, time.time_ns() - draft.info.start) // 1_000_000_000
        row: JsonObject = {"name": draft.info.name, "seconds": age}
        rows.append(row)
        try:
            comparison = compare(draft)
            with ChangeReader(draft) as reader:
                changes = reader.list(comparison)
            row.update({"conflicts": len(comparison.conflicts), **dict[str, int](count_changes(changes).items())})
            row["by"] = group_by_worker(draft, [change.path for change in changes])
        except OSError as error:  # something is being changed in it just now, or may not be read
            row["error"] = describe_failure(error)
    if options.json:
        write(as_document(rows))
        return 0
    for row in rows:
        parts = [f"{row[how]} {how}" for how in ("created", "changed", "deleted") if row.get(how)]
        parts += [f"{row['conflicts']} conflict{'s' * (row['conflicts'] != 1)}"] if row.get("conflicts") else []
        problem = f"cannot be read: {row['error']}" if "error" in row else ""
        groups = [
            _list_some(paths) + (worker and f" by {escape(worker)}") for worker, paths in row.get("by", {}).items()
        ]
        what = problem or ", ".join(parts) or "no changes"
        write(f"{row['name']}  {what}{': ' if groups else ''}{'; '.join(groups)}\n")
    return 0


def _list_some(names: Sequence[str]) -> str:
    """The first of these names."""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    return ", ".join(map(escape, names[:_MOST_LISTED])) + more


def _show(options: argparse.Namespace) -> int:
    if options.paths:
        return _compare(options)
    with _opened(options, "the changes cannot be read") as draft:
        changes = DraftChanges.observe(draft)
        if options.json:
            write(as_document({"changes": [asdict(one) for one in changes.summaries()], "diff": changes.unified()}))
            return 0
        print_diff(changes.unified())
        for conflict in changes.comparison.conflicts:
            warn(f"conflict: {escape(conflict.path)}: {conflict.reason}")
    return 0


def _compare(options: argparse.Namespace) -> int:
    """How another draft differs from this one."""
    if len(options.paths) != 1 or options.name in options.paths or "/" in options.paths[0] or options.json:
        raise UsageError("give two different drafts of one workspace to compare, without --json")
    failure, parts = "the drafts cannot be read", []
    with _opened(options, failure) as one, _opened(options, failure, options.paths[0]) as other:
        for change, line in diff_drafts(one.directory, other.directory):
            header = {"created": change.before is None, "deleted": change.after is None}
            lines = format_unified(escape(change.path), line.hunks, **header)
            parts.append(lines or f"{escape(change.path)}: {line.description or 'differs'}\n")
    print_diff(replace_surrogates("".join(parts)))
    return 0


def _rebase(options: argparse.Namespace) -> int:
    """Merge what has changed in the workspace into the draft."""
    with _opened(options, "nothing was merged") as draft:
        try:
            _, merged = DraftChanges.observe(draft).merge()
        except DraftConflict as error:
            raise Stop(
                f"nothing was merged: {describe_conflicts(error)}\n"
                f"`handrail draft resolve {options.name}` resolves it with --ours, --theirs, --merge or --tool"
            ) from None
    rows = [
        f"{escape(path)}: {what}\n"
        for paths, what in ((merged.paths, "merged"), (merged.dropped, "dropped"))
        for path in paths
    ]
    write("".join(rows) or f"{options.name} is up to date\n")
    return 0


def _shell(options: argparse.Namespace) -> int:
    _create_missing(_open_store(options.workspace), options.name)
    return run_in_draft(options.name, options.workspace, [os.environ.get("SHELL") or find_shell()])


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise UsageError("give the command to run after --")
    return run_in_draft(options.name, options.workspace, options.command)


def _create_missing(store: DraftStore, name: str) -> None:
    """Create the draft of a name if there is none, as `Setup(draft=...)` does, and say so."""
    names = [draft.info.name for draft in store.list_named()]
    if name in names:
        return
    try:
        open_draft(store, name).close()
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        raise Stop(f"the draft {escape(name)} cannot be created: {error.strerror}") from None
    warn(f"created the draft {name}" + (f"; there are also {', '.join(names)}" if names else ""))


def run_again(name: str, workspace: str, words: Sequence[str]) -> int:
    """Run this command line again in a process that sees the draft, which is created if there is none.

    Returns its exit code.
    """
    _create_missing(_open_store(workspace), name)
    command = [sys.executable, "-P", "-m", "handrail.cli", *words]
    return run_in_draft(name, workspace, command, f"handrail {words[0]}")


def run_in_draft(name: str, workspace: str, command: Sequence[str], worker: str = "") -> int:
    """Run a program in a named draft; returns its exit code. ``worker``: its name for people."""
    draft = _open_draft(_open_store(workspace), name, shared=True)
    where = os.path.realpath(workspace)
    inside = os.path.realpath(os.getcwd())
    inside = inside if inside == where or inside.startswith(where.rstrip("/") + "/") else where

    def enter() -> None:
        enter_view(draft.directory)
        os.chdir(inside)

    try:
        draft.begin_view(worker or os.path.basename(command[0]))
        environment = {**os.environ, IN_DRAFT: draft.name}
        process = subprocess.Popen(command, preexec_fn=enter, env=environment)  # noqa: S603 - one thread
    except (OSError, subprocess.SubprocessError) as error:
        why = error.strerror if isinstance(error, OSError) else "its view of the draft cannot be mounted"
        raise Stop(f"{escape(command[0])} cannot be run in the draft: {why}") from None
    finally:
        handlers = [signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGQUIT)]
    try:
        with saving_bases(draft.directory):
            code = process.wait()
        return code if code >= 0 else 128 - code
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGQUIT), handlers, strict=True):
            signal.signal(number, handler)
        draft.close()


def _keep(options: argparse.Namespace) -> int:
    store = _open_store(options.workspace)
    tops = [os.path.relpath(os.path.realpath(path), store.workspace) for path in options.paths]
    with (
        _opened(options, "nothing was kept") as draft,
        DraftChanges.observe(draft).narrow(tops, store) as changes,
    ):
        if changes.changes or changes.comparison.conflicts:
            _keep_and_record(options, changes)
        elif tops:
            raise UsageError(
                f"the draft {escape(options.name)} has no changes of these paths alone; "
                "a repository and a database are kept as a whole"
            )
        else:
            write("nothing was changed\n")
    return 0


def _keep_and_record(options: argparse.Namespace, changes: DraftChanges) -> None:
    options.dialect, options.root, options.read_root = "native", [], []
    hint = (
        f"\n`handrail draft resolve {options.name}` resolves it with --ours, --theirs, --merge or --tool; "
        f"`handrail draft keep {options.name} PATH` keeps other paths"
    )
    with open_session(options) as session:
        kept = keep_changes(session, changes, Call(DRAFT, {"keep": options.name}), hint=hint)
    write(f"{describe_counts(kept)}: kept; `handrail undo` takes it back\n")
    if kept.draft.is_open:
        kept.draft.drop()


def _resolve(options: argparse.Namespace) -> int:
    """Resolve conflicts of a draft with the workspace, for all paths or some."""
    if len(options.sides or ()) != 1:
        raise UsageError("choose one of --ours, --theirs, --merge and --tool")
    with _opened(options, "nothing was resolved") as draft:
        tops = [os.path.relpath(os.path.realpath(path), draft.directory.info.workspace) for path in options.paths]
        try:
            resolved, left = resolve_conflicts(draft.directory, options.sides[0], tops or (".",))
        except DraftConflict as error:
            raise Stop(f"nothing was resolved: {describe_conflicts(error)}") from None
    uses_tool = options.sides[0] == "tool"
    what = "is not merged" if uses_tool else "has markers around both sides"
    for path in resolved:
        write(f"{escape(path)}{f': {what}' if path in left else ''}\n")
    if left and not uses_tool:
        editor = f"`handrail draft run {options.name} -- EDITOR PATH`"
        warn(f"remove the markers with {editor}; then keep the draft")
    if not resolved:
        write("there is no conflict\n")
    return 0


def _commit(options: argparse.Namespace) -> int:
    """Commit the changes of a draft to a new git branch. The draft stays."""
    if len(options.paths) > 1:
        raise UsageError("give one name of a branch")
    branch = options.paths[0] if options.paths else options.name
    with _opened(options, "no branch was made") as draft:
        directory = draft.directory
        with ChangeReader(directory) as reader:
            changes = reader.list(compare(directory))
        files = {
            change.path: os.path.join(directory.upper, change.path) if change.after else ""
            for change in changes
            if not change.is_directory and ".git" not in change.path.split("/")
        }
        if not files:
            raise Stop("there is nothing to commit")
        try:
            commit, count = make_branch(options.workspace, branch, f"Changes of the draft {options.name}", files)
        except NoBranch as error:
            raise Stop(f"no branch was made: {escape(str(error))}") from None
    write(f"{count} {'file' if count == 1 else 'files'} in {commit[:12]} on {escape(branch)}\n")
    return 0


def _drop(options: argparse.Namespace) -> int:
    draft = _open_draft(_open_store(options.workspace), options.name)
    draft.drop()
    write(f"{options.name} is dropped\n")
    return 0


_ACTIONS = {
    "start": _create,
    "list": _list,
    "diff": _show,
    "run": _run,
    "shell": _shell,
    "rebase": _rebase,
    "keep": _keep,
    "resolve": _resolve,
    "to-branch": _commit,
    "drop": _drop,
}
