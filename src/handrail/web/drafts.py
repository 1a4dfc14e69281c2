"""Named drafts on the page: list them, compare them with their workspace, keep all or some files, drop them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from handrail.drafts.changes import ChangeReader, FileSummary, count_changes
from handrail.drafts.compare import compare
from handrail.drafts.keep import DraftConflict
from handrail.drafts.layout import DraftDirectory
from handrail.drafts.split import choose
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.files.locks import state_directory
from handrail.journal import JournalFailed, Origin
from handrail.journal.browse import list_sources
from handrail.journal.store import SqliteJournal
from handrail.model import Call
from handrail.pipeline.draft_changes import DRAFT, DraftChanges, describe_conflicts, keep_and_record
from handrail.web.diffs import FileView, parse_diff
from handrail.web.site import Site


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
class DraftView:
    """A draft with its changes."""

    workspace: str
    name: str
    files: list[FileSummary] = field(default_factory=list)
    views: list[FileView] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


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
        conflicts = [f"{one.path}: {one.reason}" for one in changes.comparison.conflicts]
        return DraftView(workspace, name, list(changes.summaries()), parse_diff(changes.unified()), conflicts)


def keep_draft(site: Site, workspace: str, name: str, paths: Collection[str] | None = None) -> str:
    """Carry the changes over into the workspace, all or those of some paths; raises `DraftProblem`."""
    with _observe(site, workspace, name) as (store, changes):
        if paths is None or {change.path for change in changes.changes} <= set(paths):
            return _keep(site, workspace, name, changes)
        chosen = choose(changes.changes, lambda path: path in paths)
        if not chosen:
            raise DraftProblem("Nothing was chosen that can be kept by itself.")
        with changes.split_off(chosen, store) as picked:
            return _keep(site, workspace, name, picked)


def drop_draft(site: Site, workspace: str, name: str) -> str:
    """Delete a draft; raises `DraftProblem`."""
    with _open_draft(_open_known(site, workspace), name) as draft:
        draft.drop()
    return f"The draft {name} is dropped."


def _keep(site: Site, workspace: str, name: str, changes: DraftChanges) -> str:
    if not changes.changes:
        raise DraftProblem("There is nothing to keep: the draft has no changes.")
    required = site.settings.journaling == "require"
    journal = SqliteJournal(site.journal, required=required, budget=site.settings.journal_bytes)
    try:
        missed, warning = keep_and_record(journal, Origin("web", "", workspace), changes, Call(DRAFT, {"keep": name}))
    except DraftConflict as error:
        lines = "; ".join(describe_conflicts(error))
        raise DraftProblem(f"Nothing was kept, because the workspace has changed meanwhile: {lines}") from None
    except JournalFailed as error:
        raise DraftProblem(f"Nothing was kept, because it cannot be recorded: {error.why}") from None
    finally:
        journal.close()
    if changes.draft.is_open:
        changes.draft.drop()
    counts = ", ".join(f"{count} {how}" for how, count in changes.counts.items() if count)
    left = f" {len(missed)} of these changes cannot be undone. {warning}" if missed or warning else ""
    return f"Kept: {counts}. The call is in the activity, and can be undone there.{left}"


def _describe(draft: DraftDirectory) -> DraftRow:
    try:
        comparison = compare(draft)
        with ChangeReader(draft) as reader:
            counts = count_changes(reader.list(comparison))
        changes = ", ".join(f"{count} {how}" for how, count in counts.items() if count) or "no changes"
        conflicts = len(comparison.conflicts)
    except OSError:
        changes, conflicts = "something is being changed in it just now", 0
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
