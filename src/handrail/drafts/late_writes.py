"""Save what other programs wrote into a directory after a keep has deleted or replaced it.

A kept draft holds such a directory until it is removed itself. A program that has it open, or works in it, can still
create and write files there, where a deleted directory would have refused them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat

from handrail.drafts.compare import Step, walk_tree
from handrail.drafts.keep import read_kept, read_kept_at
from handrail.drafts.layout import DraftDirectory
from handrail.system_calls import DIRECTORY, READABLE_DIRECTORY, closing_fd, open_beneath


def save_late_writes(draft: DraftDirectory) -> None:
    """Move such files of a kept draft, which is about to be removed, into the workspace.

    Each gets a new name beside the path that was deleted. Raises `OSError`.
    """
    kept_at = read_kept_at(draft)
    with closing_fd(draft.open_workspace()) as root:
        for number, step in enumerate(read_kept(draft)):
            if step.before is None or not step.before.is_directory or not step.whole or step.action == "set":
                continue
            place = os.path.join(draft.old, str(number))
            if step.action == "replace":
                place = os.path.join(draft.stage, step.path)
            with contextlib.suppress(FileNotFoundError):  # the tree was put back
                _save_tree(root, place, step, kept_at)


def _save_tree(root: int, place: str, step: Step, kept_at: int) -> None:
    above, name = os.path.split(place)
    with closing_fd(os.open(above, READABLE_DIRECTORY)) as directory:
        for _, status, inner, last in walk_tree(directory, name, step.path):
            if status is None or not stat.S_ISREG(status.st_mode) or status.st_ctime_ns < kept_at:
                continue
            if status.st_nlink == 1:  # of other names, the contents are there as well
                _save_file(root, step.path, inner, last)


def _save_file(root: int, path: str, directory: int, name: str) -> None:
    """Move a file to the directory of ``path`` in the workspace, or to the nearest one above it that is there."""
    second = f"{name}.kept-{secrets.token_hex(4)}"
    while path:
        path = os.path.dirname(path)
        try:
            target = open_beneath(root, path, DIRECTORY) if path else os.dup(root)
        except OSError:
            continue
        with closing_fd(target):
            os.rename(name, second, src_dir_fd=directory, dst_dir_fd=target)
        return
