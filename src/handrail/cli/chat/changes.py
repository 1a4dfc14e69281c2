"""Query the journal for this conversation: its calls, the total diff, and the last change."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.journal.queries import CallRow, JournalReader
    from handrail.journal.undo import UndoReport
    from handrail.pipeline.session import Session


class NoChange(LookupError):
    """There is nothing to show or to undo; the text has the reason."""


@contextmanager
def _open_reader(session: Session) -> Iterator[JournalReader]:
    from handrail.journal import JournalFailed, NoJournal
    from handrail.journal.queries import JournalReader
    from handrail.journal.store import SqliteJournal

    if not isinstance(session.journal, SqliteJournal):
        raise NoChange(getattr(session.journal, "why", NoJournal.why))
    try:
        with JournalReader(session.journal.path) as reader:
            yield reader
    except JournalFailed as error:
        failure = session.journal.failure
        why = f"the journal cannot be opened: {failure}" if failure else str(error.facts.get("why", error))
        raise NoChange(escape(why)) from None


def list_calls(session: Session, most: int) -> list[CallRow]:
    """The last calls of this session, the newest last."""
    with _open_reader(session) as reader:
        return reader.read_calls(limit=most, session=session.origin.session)


def undo_last(session: Session) -> UndoReport:
    """Undo the newest change of this session that is not undone yet."""
    from handrail.errors import ToolError
    from handrail.journal import JournalFailed
    from handrail.journal.undo import CannotUndo
    from handrail.journal.undo_selection import UnknownCall

    try:
        return session.undo()
    except UnknownCall:
        raise NoChange("nothing to undo in this conversation; `handrail undo` can undo older changes") from None
    except CannotUndo as error:
        raise NoChange(str(error)) from None
    except JournalFailed as error:
        raise NoChange(f"nothing was undone: {error.facts.get('why', error)}") from None
    except ToolError as error:
        raise NoChange(f"nothing was undone: {escape(str(error))}") from None


def undo_calls(session: Session, ids: Sequence[str]) -> list[UndoReport]:
    """Undo the last calls of this session, which have these ids, as far as they changed files; the latest first.

    Some servers give the same id to several calls: of each id, as many of the latest calls are undone as it is given.
    """
    from handrail.errors import ToolError
    from handrail.journal import JournalFailed
    from handrail.journal.undo import CannotUndo
    from handrail.journal.undo_selection import iterate_changes

    with _open_reader(session) as reader:
        left, own = Counter(ids), set[int]()
        for row in reversed(reader.read_calls(session=session.origin.session)):
            if left[row.call_id or ""] > 0:
                left[row.call_id or ""] -= 1
                own.add(row.seq)
        numbers = [one.seq for one in iterate_changes(reader, session=session.origin.session) if one.seq in own]
    try:
        return [session.undo(call=number) for number in numbers]
    except (CannotUndo, JournalFailed, ToolError) as error:
        raise NoChange(f"not all changes were undone: {escape(str(error))}") from None


def make_net_diff(session: Session) -> str:
    """Return all changes of this session as one diff, from the first version of each file to the current one."""
    from handrail.journal.records import ABSENT, DIRECTORY, LINK

    first: dict[str, str] = {}
    with _open_reader(session) as reader:
        for row in reader.iterate_changing_calls(
            session=session.origin.session
        ):  # the newest first: what is oldest stays
            first.update((one.path, one.before) for one in reversed(reader.read_files(row.seq)))
        files = {digest for digest in first.values() if digest not in (ABSENT, DIRECTORY) and LINK not in digest}
        images = reader.read_images(list(files))
    parts = [_diff_file(path, digest, images, session) for path, digest in sorted(first.items())]
    return "".join(parts)


def _diff_file(path: str, digest: str, images: dict[str, bytes], session: Session) -> str:
    from handrail.journal.records import DIRECTORY
    from handrail.text.diff import compute_hunks, format_unified
    from handrail.text.document import Splice

    home = os.path.realpath(session.workspace.home)
    name = escape(os.path.relpath(path, home) if path.startswith(home + os.sep) else path)
    if digest and digest not in images:
        return "" if digest == DIRECTORY else f"{name}: the old contents are not stored as text\n"
    try:
        now = _read_contents(path)
    except OSError as error:
        return f"{name}: cannot be read: {error.strerror}\n"
    before = images[digest] if digest else None
    if before == now:
        return ""
    old, new = ((raw or b"").decode("utf-8", "replace") for raw in (before, now))
    if "\0" in old[:8192] + new[:8192]:
        return f"{name}: binary, {len(before or b'')} -> {len(now or b'')} bytes\n"
    changed = compute_hunks(old, [Splice(0, len(old), new)])
    return format_unified(name, changed, created=before is None, deleted=now is None)


def _read_contents(path: str) -> bytes | None:
    """Read the current contents; links are not followed, and pipes are not read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        return file.read()
