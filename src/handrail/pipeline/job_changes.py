"""Judge and record what background jobs changed, as the changes of a draft are judged and recorded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from handrail.drafts.changes import DraftChange
from handrail.journal import NoJournal, PendingRecord, Record
from handrail.journal.records import JOB
from handrail.model import Call, CommandAccess, Result, Verdict
from handrail.pipeline.before_images import save_old_states, unsaved_access
from handrail.pipeline.finish import Recorder
from handrail.policy import Policy
from handrail.shell.followed_jobs import ChangeJudge
from handrail.shell.git.internals import ChangedContents, judge_repositories


def make_judge(current: Callable[[], Policy], recorder: Recorder) -> ChangeJudge:
    """A judge of jobs. ``current``: the policy in force."""
    return ChangeJudge(
        lambda path: _protects(current(), path),
        lambda root, changes, contents: _list_refused(current(), root, changes, contents),
        lambda *job: _record(recorder, *job),
    )


def _protects(policy: Policy, path: str, *, created: bool = False) -> bool:
    protects: Callable[..., bool] | None = getattr(policy, "protects", None)
    return protects is not None and protects(path, created=created)


def _list_refused(policy: Policy, root: str, changes: Sequence[DraftChange], contents: ChangedContents) -> set[str]:
    """The changed paths that nobody has allowed. Git's everyday work inside a repository is none of them."""
    if not hasattr(policy, "protects"):
        return set()
    in_git = judge_repositories(changes, contents, root)
    new = {change.path for change in changes if change.before is None and "/" not in change.path}
    others = (change.path for change in changes if change.path not in in_git.everyday)
    return {
        path
        for path in others
        if path in in_git.unusual or _protects(policy, os.path.join(root, path), created=path.partition("/")[0] in new)
    }


def _record(
    recorder: Recorder, command: str, root: str, changes: Sequence[DraftChange], contents: ChangedContents
) -> None:
    """Record the changes as a call of their own, which an undo can name. Repositories are left as they are."""
    journal = recorder.journal
    if isinstance(journal, NoJournal):
        return
    tops = {change.path: f"/{change.path}/".partition("/.git/") for change in changes}
    images, missed = save_old_states(contents, root, [one for one in changes if not tops[one.path][1]], root)
    repositories = {f"{top}/.git".lstrip("/"): None for top, inside, _ in tops.values() if inside}
    call = Call(JOB, {"command": command})
    unsaved = (unsaved_access(root, path) for path in (*missed, *repositories))
    accesses = (CommandAccess(command), *unsaved)
    verdict = Verdict("allow", "job", "a background job has ended")
    token = journal.begin(PendingRecord(call, accesses, verdict, images, recorder.origin))
    text = "\n".join(f"{change.how} {change.path}" for change in changes[:100])
    journal.record(Record(call, accesses, verdict, origin=recorder.origin, result=Result(JOB, "ok", text), token=token))
