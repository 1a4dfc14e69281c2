"""Paths of the workspace that a draft does not show: a layer of whiteouts between the workspace and the changes.

To a command in the draft a hidden path is not there. So it may create it, or delete a directory that holds it; the real
file stays, and `spare_hidden` takes such changes out of the draft before these are compared and kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Collection, Sequence

from handrail.drafts.compare import MARKS, is_whiteout
from handrail.drafts.layout import DraftDirectory, copy_owner, remove_tree
from handrail.drafts.store import DraftStore, OpenDraft
from handrail.frozen import frozen

_OPAQUE = f"{MARKS}opaque"


@frozen
class HidingLayer:
    """A layer that lies above the workspace in the views of drafts. It does not change while it is in use."""

    paths: tuple[str, ...]
    """The hidden paths, relative to the workspace; none inside another."""
    holder: OpenDraft
    """Its upper layer holds the whiteouts."""

    @classmethod
    def create(cls, store: DraftStore, paths: tuple[str, ...]) -> HidingLayer:
        """Raises `OSError`; then nothing may run."""
        holder = store.create(copies_foreign=False)
        try:
            folders: dict[str, None] = {}
            for path in paths:
                _make_whiteout(holder.directory, path, folders)
            # The topmost layer decides on the mode and the times of a directory.
            for directory in reversed(folders):
                _copy_metadata(holder.directory, directory)
            _copy_metadata(holder.directory, "")
        except BaseException:
            holder.drop()
            raise
        return cls(paths, holder)


def _make_whiteout(layer: DraftDirectory, path: str, folders: dict[str, None]) -> None:
    above = ""
    for part in path.split("/")[:-1]:
        above = f"{above}/{part}" if above else part
        if above not in folders:
            os.mkdir(os.path.join(layer.upper, above), 0o700)
            folders[above] = None
    os.mknod(os.path.join(layer.upper, path), stat.S_IFCHR | 0o600, 0)


def _copy_metadata(layer: DraftDirectory, path: str) -> None:
    """Give a directory of a layer the owner, the mode and the times that it has in the workspace."""
    original, copy = os.path.join(layer.info.workspace, path), os.path.join(layer.upper, path)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # gone just now: then it hides nothing
        copy_owner(os.stat(original, follow_symlinks=False), copy)
        shutil.copystat(original, copy, follow_symlinks=False)


def remove_copies(draft: DraftDirectory, hidden: Sequence[str]) -> None:
    """Take copies of hidden files out of a new draft; raises `OSError`."""
    for path in hidden:
        copy = os.path.join(draft.upper, path)
        if os.path.lexists(copy):
            _remove(copy)


def spare_hidden(draft: DraftDirectory, hidden: Sequence[str]) -> list[str]:
    """Take what a command did to hidden paths out of a draft; returns the paths where it did something.

    A directory that was deleted or replaced around a hidden path loses everything else. Raises `OSError`.
    """
    every = frozenset(hidden)
    return [touched for path in hidden if (touched := _spare(draft, path, every))]


def _spare(draft: DraftDirectory, path: str, hidden: Collection[str]) -> str:
    here, deleted = "", False
    for part in path.split("/"):
        here = f"{here}/{part}" if here else part
        entry = os.path.join(draft.upper, here)
        try:
            status = os.lstat(entry)
        except FileNotFoundError:
            break
        is_directory = stat.S_ISDIR(status.st_mode)
        if here == path:
            _remove(entry)
            return path if deleted or not is_whiteout(status) else ""
        if is_directory and _OPAQUE in os.listxattr(entry, follow_symlinks=False):
            os.removexattr(entry, _OPAQUE, follow_symlinks=False)
            deleted = True
        elif is_whiteout(status):
            os.unlink(entry)
            os.mkdir(entry, 0o700)
            deleted = True
        elif not is_directory:
            os.unlink(entry)  # a file in the place of the directory: it cannot be kept either
            return here
        else:
            continue
        _delete_others(draft, here, hidden)
        if not is_directory:
            _copy_metadata(draft, here)
    return path if deleted else ""


def _delete_others(draft: DraftDirectory, directory: str, hidden: Collection[str]) -> None:
    """Put a whiteout on each entry of a directory of the workspace that the draft neither has nor hides."""
    for name in os.listdir(os.path.join(draft.info.workspace, directory)):
        entry = os.path.join(draft.upper, directory, name)
        if f"{directory}/{name}" not in hidden and not os.path.lexists(entry):
            os.mknod(entry, stat.S_IFCHR | 0o600, 0)


def _remove(entry: str) -> None:
    if os.path.isdir(entry) and not os.path.islink(entry):
        remove_tree(entry)
    else:
        os.unlink(entry)
