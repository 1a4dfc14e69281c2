"""The changes that a running tool has asked for; they are committed when its run is over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from handrail.errors import NotRegular, SameFile
from handrail.files.versions import Change
from handrail.pipeline.call_state import Proposed, StagedChanges
from handrail.workspace import WorkPath, Workspace

if TYPE_CHECKING:
    from handrail.text.diff import Hunk
    from handrail.text.line_tags import ShownTags


class Staging:
    """The changes of one call, in the order in which the tool asked for them."""

    def __init__(self, workspace: Workspace, paths: Mapping[str, WorkPath]) -> None:
        self.paths = paths
        self.changes: list[Change] = []
        self.hunks: list[list[Hunk]] = []
        self.proposed: list[Proposed] = []
        self.unread: set[str] = set()
        self.tags: dict[str, ShownTags] = {}
        self._workspace = workspace

    @property
    def staged(self) -> StagedChanges:
        return StagedChanges(self.changes, self.hunks, self.proposed, self.unread, self.tags)

    def add(self, change: Change, hunks: list[Hunk]) -> None:
        for other in self.changes:
            if other.path.real == change.path.real:  # one file under two names
                raise SameFile(path=change.path.named, other=other.path.named)
        self.changes.append(change)
        self.hunks.append(hunks)

    def resolve_link_itself(self, named: str) -> WorkPath:
        """Resolve a path to delete: a link itself, not its target."""
        path = self.paths[named]
        parent = self._workspace.resolve_below_slash(os.path.dirname(named.rstrip("/")) or ".")
        if os.path.join(parent.real, os.path.basename(named.rstrip("/"))) != path.real:
            raise NotRegular(path=named, kind="a link")
        return path
