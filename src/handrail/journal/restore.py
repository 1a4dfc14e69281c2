"""Give a file contents that the journal has kept, with the same locks and the same commit as any change.

A restore is recorded like a call, so it can be undone.
"""

from __future__ import annotations

from handrail.errors import ToolError
from handrail.files.commit import commit
from handrail.files.versions import Change, hash_bytes, load
from handrail.journal import PendingRecord, Record
from handrail.journal.queries import JournalReader
from handrail.journal.store import SqliteJournal
from handrail.journal.undo import UndoContext
from handrail.model import Access, Call, Failure, Result, Verdict

RESTORE = "Restore"
"""The name under which a restore is in the journal."""


class CannotRestore(LookupError):
    """The contents are not kept, or the path leads elsewhere now; the text says which."""


def restore_file(journal: SqliteJournal, context: UndoContext, path: str, digest: str) -> bool:
    """Give the file at ``path`` (absolute, links followed) the contents with this hash; False if it has them already.

    Raises `CannotRestore`, `JournalFailed`, and the errors of a commit. Then nothing is changed.
    """
    with JournalReader(journal.path) as reader:
        contents = reader.read_images([digest]).get(digest)
    if contents is None:
        raise CannotRestore("these contents are not kept, or no longer")
    workspace = context.workspace
    resolved = workspace.resolve(path)
    if resolved.real != path:
        raise CannotRestore("a link now points to another place")
    call = Call(RESTORE, {"file_path": path, "version": digest[:12]})
    accesses = (Access("write", path, path),)
    verdict = Verdict("allow", "restore", "requested by the user")
    with context.locks.hold([path]) as held:
        standing = load(workspace, resolved, context.most_bytes) if workspace.stat(resolved) else None
        if standing and hash_bytes(standing.raw) == digest:
            return False
        change = Change(resolved, standing, contents)
        token = journal.begin(PendingRecord(call, accesses, verdict, [change], context.origin))
        changes: tuple[Change, ...] = (change,)
        result = Result(RESTORE, "ok", f"restored {path}")
        try:
            commit(workspace, [change], held, context.saving)
        except ToolError as error:
            result = Result(RESTORE, "error", str(error), error=Failure(error.code, str(error)))
            changes = ()
            raise
        finally:
            journal.record(Record(call, accesses, verdict, changes, context.origin, result=result, token=token))
    return True
