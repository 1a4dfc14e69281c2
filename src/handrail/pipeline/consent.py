"""The changes that a call proposes, and the consent of a person who was shown them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from handrail.model import Answer
from handrail.text.diff import Hunk
from handrail.text.display import escape
from handrail.text.document import Splice
from handrail.text.partial_change import keep_hunks, replace_text
from handrail.tools.notes import NoteFacts, PartlyApproved, WrittenOtherwise


@dataclass(frozen=True, slots=True)
class Proposed:
    """The proposed change of one file."""

    path: str
    """As the model named it."""
    before: bytes | None
    """None: the file is created."""
    after: bytes | None
    """None: the file is deleted."""
    hunks: Sequence[Hunk]
    text: str = ""
    """The new text, for a person to edit; empty if it cannot be edited."""
    parts: bool = False
    """Whether single hunks can be chosen: not where a file is created, moved or deleted."""
    description: str = ""
    """Shown where there are no lines to compare: a directory, a binary file."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A person's choice among the proposed changes."""

    hunks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By path, the numbers (from 0) of the wanted hunks; a path that is missing is wanted whole."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """By path, the text that the person wrote instead."""

    def of(self, path: str, text: str, splices: Sequence[Splice]) -> Sequence[Splice]:
        """Return the chosen part of a change."""
        if path in self.contents:
            return replace_text(text, self.contents[path])
        return keep_hunks(text, splices, self.hunks[path]) if path in self.hunks else splices


class NotAsShown(Exception):
    """The call would now make other changes than the person was shown."""


@dataclass(frozen=True, slots=True)
class Consent:
    """A person's yes, and the changes it was given for."""

    answer: Answer
    shown: Sequence[Proposed] | None
    """None where nothing could be shown in advance: a command."""

    @property
    def choice(self) -> Choice | None:
        """The part of the changes that the person wants; None: all of them."""
        hunks, contents = self.answer.hunks, self.answer.contents
        return None if hunks is None and contents is None else Choice(hunks or {}, contents or {})

    def require_same(self, proposed: Sequence[Proposed]) -> None:
        """Raise `NotAsShown` if the run proposes other bytes than the preview did."""
        if self.shown is not None and _bytes(self.shown) != _bytes(proposed):
            raise NotAsShown

    def notes(self) -> list[NoteFacts]:
        """Notes for the model about the answer."""
        notes: list[NoteFacts] = []
        wanted = total = 0
        for one in self.shown or ():
            numbers = range(len(one.hunks))
            chosen = (self.answer.hunks or {}).get(one.path, numbers) if one.parts else numbers
            total += len(numbers)
            wanted += len(set(chosen) & set(numbers))
        if wanted < total:
            notes.append(PartlyApproved(wanted=wanted, total=total))
        if self.answer.contents:
            notes.append(WrittenOtherwise(paths=", ".join(map(escape, self.answer.contents))))
        return notes


def _bytes(proposed: Sequence[Proposed]) -> list[tuple[str, bytes | None, bytes | None]]:
    return [(one.path, one.before, one.after) for one in proposed]
