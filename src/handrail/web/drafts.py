"""Named drafts on the page: list them, compare them with their workspace, keep or drop files and hunks of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from handrail.drafts.changes import ChangeReader, DraftChange, FileSummary, LineDiff, count_changes, describe_failure
from handrail.drafts.compare import compare
from handrail.drafts.keep import DraftConflict
from handrail.drafts.layout import DraftDirectory, read_clock
from handrail.drafts.split import is_below
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.files.locks import state_directory
from handrail.journal import JournalFailed, Origin
from handrail.journal.browse import list_sources
from handrail.journal.store import SqliteJournal
from handrail.model import Call
from handrail.pipeline.draft_changes import DRAFT, DraftChanges, describe_conflicts, keep_and_record
from handrail.pipeline.merging import Choice, FileConflict, read_conflicts, resolve_overlaps
from handrail.shell.git.merging import OverlapSides
from handrail.text.diff import format_hunk
from handrail.text.display import escape, replace_surrogates
from handrail.web.diffs import FileView, view_hunks
from handrail.web.site import Site

_MOST_LINES, _MOST_CHARS = 200, 2_000
"""That are shown of one side of an overlap."""


class DraftProblem(Exception):
    """Why a draft cannot be shown, kept or dropped, as a sentence."""


@dataclass(frozen=True, slots=True)
class DraftRow:
    """A draft in the list."""

    workspace: str
    name: str
    start: int
    changes: str
    conflicts: int


@dataclass(frozen=True, slots=True)
class ChangeView:
    """The change of one path, to be chosen as a whole or hunk by hunk."""

    summary: FileSummary
    view: FileView
    by_hunk: bool


@dataclass(frozen=True, slots=True)
class OverlapView:
    """Lines that the draft and the project have both changed."""

    line: int
    """Where they are in the draft."""
    sides: Sequence[tuple[str, str]]
    """The name and the lines of each."""


@dataclass(frozen=True, slots=True)
class DraftView:
    """A draft with its changes."""

    workspace: str
    name: str
    version: str
    """Differs once the draft or its workspace has changed: a choice holds for what was shown."""
    changes: list[ChangeView] = field(default_factory=list)
    conflicts: list[tuple[FileConflict, list[OverlapView]]] = field(default_factory=list)
    merging: list[str] = field(default_factory=list)
    """Files whose changes are merged with those of the project once they are kept."""


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """What a person has chosen on the page of a draft."""

    version: str
    """Of the draft that was shown."""
    numbers: Sequence[str] = ()
    """Of changes (`3`) and of their hunks (`3.0`)."""
    sides: Mapping[str, str] = field(default_factory=dict)
    """The side chosen for each overlap (`3.0`)."""

    def read_sides(self, conflicts: Sequence[FileConflict]) -> list[tuple[FileConflict, list[Choice]]]:
        """The conflicts for which sides were chosen; raises `DraftProblem` if some are missing."""
        chosen: list[tuple[FileConflict, list[Choice]]] = []
        for number, conflict in enumerate(conflicts):
            names = [f"{number}.{overlap}" for overlap in range(len(conflict.overlaps) or 1)]
            allowed: Sequence[Choice] = ("ours", "theirs", "both") if conflict.overlaps else ("ours", "theirs")
            sides = [side for name in names for side in allowed if self.sides.get(name) == side]
            if sides and len(sides) < len(names):
                raise DraftProblem(f"Choose a side for each overlap in {escape(conflict.path)}, or for none.")
            if sides:
                chosen.append((conflict, sides))
        if not chosen:
            raise DraftProblem("No side was chosen.")
        return chosen

    def read_hunks(self, changes: DraftChanges) -> dict[str, list[int]]:
        """The chosen hunks of each path of which not everything is chosen; none of them where nothing is."""
        hunks: dict[str, list[int]] = {}
        for number, change in enumerate(changes.changes):
            count = len(changes.diffs[number].hunks) if _is_by_hunk(changes, number) else 0
            chosen = [hunk for hunk in range(count) if f"{number}.{hunk}" in self.numbers]
            if len(chosen) < count or (not count and str(number) not in self.numbers):
                hunks[change.path] = chosen
        return hunks


def list_drafts(site: Site) -> list[DraftRow]:
    """The named drafts of the workspaces that are known here."""
    rows = []
    for workspace in _list_workspaces(site):
        with contextlib.suppress(OSError):  # there can be no drafts of this one
            rows += [_describe(draft) for draft in _open_store(site, workspace).list_named()]
    return rows


def view_draft(site: Site, workspace: str, name: str) -> DraftView:
    """The changes of a draft; raises `DraftProblem`."""
    with _observe(site, workspace, name) as (_, changes):
        unresolved = read_conflicts(changes.draft.directory, changes.comparison)
        paths = [one.path for one in unresolved]
        merging = [one.path for one in changes.comparison.conflicts if not is_below(paths, one.path)]
        views = [_view(changes, number, summary) for number, summary in enumerate(changes.summaries())]
        conflicts = [(one, list(_view_overlaps(one))) for one in unresolved]
        return DraftView(workspace, name, _read_version(changes), views, conflicts, merging)


def resolve(site: Site, workspace: str, name: str, choice: DraftChoice) -> None:
    """Give the draft the chosen sides where it and the project overlap. Raises `DraftProblem`."""
    store = _open_known(site, workspace)
    with _open_draft(store, name) as draft:
        time = read_clock(draft.directory.path)
        changes = DraftChanges.observe(draft)
        _require_shown(changes, choice)
        chosen = choice.read_sides(read_conflicts(draft.directory, changes.comparison))
        resolve_overlaps(draft.directory, chosen, time)


def keep_changes(site: Site, workspace: str, name: str, choice: DraftChoice) -> str:
    """Carry the chosen changes over into the workspace; the others stay. Raises `DraftProblem`."""
    with _observe(site, workspace, name) as (store, changes):
        chosen, hunks = _choose(changes, choice)
        if not hunks:
            return _keep(site, workspace, name, changes)
        with changes.split_off(chosen, store, hunks) as picked:
            return _keep(site, workspace, name, picked)


def drop_changes(site: Site, workspace: str, name: str, choice: DraftChoice) -> str:
    """Take the chosen changes out of the draft; the others stay in it. Raises `DraftProblem`."""
    with _observe(site, workspace, name) as (store, changes):
        chosen, hunks = _choose(changes, choice)
        changes.discard(chosen, store, hunks)
    return f"The chosen changes are dropped from the draft {name}."


def drop_draft(site: Site, workspace: str, name: str) -> str:
    """Delete a draft; raises `DraftProblem`."""
    with _open_draft(_open_known(site, workspace), name) as draft:
        draft.drop()
    return f"The draft {name} is dropped."


def _choose(changes: DraftChanges, choice: DraftChoice) -> tuple[list[DraftChange], dict[str, list[int]]]:
    """The changes of which something is chosen, and the hunks where not everything is; raises `DraftProblem`."""
    _require_shown(changes, choice)
    hunks = choice.read_hunks(changes)
    chosen = changes.choose(hunks)
    if not chosen:
        raise DraftProblem("Nothing was chosen that can be kept or dropped by itself.")
    return chosen, hunks


def _require_shown(changes: DraftChanges, choice: DraftChoice) -> None:
    if choice.version != _read_version(changes):
        raise DraftProblem("The draft or its project has changed since this page was shown. Look at it again.")


def _read_version(changes: DraftChanges) -> str:
    """A text that differs once an entry of the draft, or of the workspace below it, is another one."""
    entries = [
        (change.path, *(entry and entry.version for entry in (change.before, change.after)))
        for change in changes.changes
    ]
    return sha256(repr((entries, changes.comparison.conflicts)).encode("utf-8", "surrogateescape")).hexdigest()


def _is_by_hunk(changes: DraftChanges, number: int) -> bool:
    """Whether the hunks of a change can be chosen: it changes the lines of a file in several places."""
    change = changes.changes[number]
    types = {entry.type for entry in (change.before, change.after) if entry}
    return (
        number < len(changes.diffs)
        and len(changes.diffs[number].hunks) > 1
        and change.how == "changed"
        and types == {"file"}
    )


def _view(changes: DraftChanges, number: int, summary: FileSummary) -> ChangeView:
    diff = changes.diffs[number] if number < len(changes.diffs) else LineDiff()
    hunks = [replace_surrogates(format_hunk(hunk)) for hunk in diff.hunks]
    return ChangeView(summary, view_hunks(summary.path, hunks, ""), _is_by_hunk(changes, number))


def _view_overlaps(conflict: FileConflict) -> Iterator[OverlapView]:
    line = 1
    for part in conflict.parts:
        if isinstance(part, OverlapSides):
            sides = (("Draft", part.ours), ("Before", part.base), ("Project", part.theirs))
            has_base = conflict.sides and conflict.sides.base is not None
            yield OverlapView(line, [(side, _shorten(raw)) for side, raw in sides if side != "Before" or has_base])
        line += (part.ours if isinstance(part, OverlapSides) else part).count(b"\n")


def _shorten(raw: bytes) -> str:
    """Lines as text; only the first of many."""
    lines = raw.decode("utf-8", "replace").removesuffix("\n").split("\n")
    left = len(lines) - _MOST_LINES
    shown = "\n".join(line[:_MOST_CHARS] for line in lines[:_MOST_LINES])
    return f"{shown}\n... and {left} more lines" if left > 0 else shown


def _keep(site: Site, workspace: str, name: str, changes: DraftChanges) -> str:
    if not (changes.changes or changes.comparison.conflicts):
        raise DraftProblem("There is nothing to keep: the draft has no changes.")
    required = site.settings.journaling == "require"
    journal = SqliteJournal(
        site.own_journal,
        required=required,
        budget=site.settings.journal_bytes,
        most_calls=site.settings.journal_calls,
    )
    try:
        kept = keep_and_record(journal, Origin("web", "", workspace), changes, Call(DRAFT, {"keep": name}))
    except DraftConflict as error:
        lines = describe_conflicts(error)
        raise DraftProblem(f"Nothing was kept, because the workspace has changed meanwhile: {lines}") from None
    except JournalFailed as error:
        raise DraftProblem(f"Nothing was kept, because it cannot be recorded: {error.why}") from None
    finally:
        journal.close()
    if kept.changes.draft.is_open:
        kept.changes.draft.drop()
    counts = ", ".join(f"{count} {how}" for how, count in kept.changes.counts.items() if count)
    left = f" {len(kept.missed)} of these changes cannot be undone. {kept.warning}" * bool(kept.missed or kept.warning)
    merged = "".join(f" {line}." for line in kept.describe_merge())
    return f"Kept: {counts}. The call is in the timeline, and can be undone there.{merged}{left}"


def _describe(draft: DraftDirectory) -> DraftRow:
    try:
        comparison = compare(draft)
        with ChangeReader(draft) as reader:
            counts = count_changes(reader.list(comparison))
        changes = ", ".join(f"{count} {how}" for how, count in counts.items() if count) or "no changes"
        conflicts = len(comparison.conflicts)
    except OSError as error:  # something is being changed in it just now, or may not be read
        changes, conflicts = f"cannot be read: {describe_failure(error)}", 0
    return DraftRow(draft.info.workspace, draft.info.name, draft.info.start, changes, conflicts)


def _list_workspaces(site: Site) -> list[str]:
    """The workspaces of the newest calls, and those of drafts in the state directory."""
    with site.reader() as reader:
        names = dict.fromkeys(list_sources(reader).workspaces if reader else [])
    folder = os.path.join(state_directory(site.settings.state), "drafts")
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            with contextlib.suppress(OSError, ValueError, TypeError):
                names[DraftDirectory.open(os.path.join(folder, entry)).info.workspace] = None
    return sorted(name for name in names if os.path.isdir(name))


def _open_store(site: Site, workspace: str) -> DraftStore:
    return DraftStore.open(state_directory(site.settings.state), workspace)


def _open_known(site: Site, workspace: str) -> DraftStore:
    """The store of a workspace that is in the list; raises `DraftProblem`."""
    if workspace not in _list_workspaces(site):
        raise DraftProblem("This project is not known here.")
    try:
        return _open_store(site, workspace)
    except OSError as error:
        raise DraftProblem(f"There can be no draft of this project: {error.strerror}") from None


@contextlib.contextmanager
def _open_draft(store: DraftStore, name: str) -> Iterator[OpenDraft]:
    try:
        draft = store.open_named(name)
    except FileNotFoundError:
        raise DraftProblem("There is no such draft any more.") from None
    except BlockingIOError:
        raise DraftProblem("Another process works in this draft; end it first.") from None
    try:
        yield draft
    except OSError as error:
        raise DraftProblem(f"The draft cannot be used: {error.strerror}") from None
    finally:
        draft.close()


@contextlib.contextmanager
def _observe(site: Site, workspace: str, name: str) -> Iterator[tuple[DraftStore, DraftChanges]]:
    store = _open_known(site, workspace)
    with _open_draft(store, name) as draft:
        yield store, DraftChanges.observe(draft)
