"""Save before-images of the files that a command will overwrite or delete, so that undo can restore them.

New files of a `mv` or `cp -r` are predicted too, so that undo can remove them. Where they are not known, as for an
archive that is unpacked, the access gets a doubt, and undo reports it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from handrail.files.versions import MOST_SAVED_BYTES, MOST_SAVED_FILES
from handrail.journal import BeforeImage, MovedEntry, NoJournal
from handrail.journal.undo_drafts import read_image
from handrail.model import Access
from handrail.pipeline.call_state import Approved, Progress, Ran
from handrail.pipeline.finish import Recorder
from handrail.pipeline.services import Services
from handrail.policy.shell_patterns import ShellPatterns
from handrail.shell.effects.effects import find_effects
from handrail.text.display import escape
from handrail.tools.notes import NotKept
from handrail.workspace import Workspace, resolve_parent

_NAMED = 20
_OUTSIDE = "it is outside the workspace"
_NOT_KNOWN = "its new contents are not known in advance"
_NOT_KEPT = "not all of it could be saved"
_NO_DRAFT = "it runs in no draft"
_RUNS_ON = "it may run in the background"


def save_before_images(approved: Approved, recorder: Recorder, workspace: Workspace, progress: Progress) -> Approved:
    """Save the files that a command will overwrite or delete in the journal, and note those that cannot be saved."""
    journal = recorder.journal
    if isinstance(journal, NoJournal):
        return approved
    # Nobody can tell all that a command changes: where changes must be recorded, each that may change anything must be.
    required = getattr(journal, "required", False)
    if not required and not any(map(_changes_file, approved.accesses)):
        return approved
    roots = [os.path.realpath(root.path) for root in workspace.roots if root.writable]
    images = BeforeImages(roots, os.path.realpath(workspace.home))
    accesses = images.save(approved.accesses)
    if _may_run_on(approved):
        accesses = tuple(replace(one, doubt=_RUNS_ON) if _changes_file(one) else one for one in accesses)
    approved = replace(approved, accesses=accesses)
    if images.saved or required:
        recorder.begin(approved, list(images.saved.values()), progress)
    if images.missed:
        missed = NotKept(paths=", ".join(map(escape, images.missed[:_NAMED])))
        approved = replace(approved, notes=(*approved.notes, missed))
    return approved


def note_irreversible(ran: Ran, services: Services) -> Ran:
    """Say in the answer, and in the journal, that a command without a draft may have changed what nobody saved."""
    approved = ran.previous
    command = next((access for access in approved.accesses if access.action == "run"), None)
    if command is None or not approved.previous.tool.drafted or isinstance(services.recorder.journal, NoJournal):
        return ran
    is_job = _may_run_on(approved)
    if not is_job and find_effects(command.target).is_complete:
        return ran
    why = services.command_host().no_drafts or _NO_DRAFT
    return replace(ran, previous=replace(approved, irreversible=_RUNS_ON if is_job else why))


def _may_run_on(approved: Approved) -> bool:
    """Whether its command may change files after the answer."""
    judged = approved.previous
    return judged.tool.drafted is not None and not judged.tool.drafted(judged.args)


def _changes_file(access: Access) -> bool:
    return access.by_command and access.action in ("write", "delete")


@dataclass(slots=True)
class BeforeImages:
    """The files that a command may change, read before it runs."""

    roots: Sequence[str]
    home: str
    saved: dict[str, BeforeImage | MovedEntry] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    room: int = MOST_SAVED_BYTES
    _reach: ShellPatterns = field(default_factory=lambda: ShellPatterns(lambda _: True))

    def save(self, accesses: Sequence[Access]) -> tuple[Access, ...]:
        """Save the files of all accesses. An access that cannot be undone in full is returned with a doubt."""
        doubts = dict[int, str]()
        # Single files first: the contents of a whole directory must not use up their room.
        for at in sorted(range(len(accesses)), key=lambda at: accesses[at].below):
            if _changes_file(accesses[at]):
                doubts[at] = self._save(accesses[at], accesses)
        return tuple(
            replace(access, doubt=doubts[at]) if at in doubts else access for at, access in enumerate(accesses)
        )

    def _save(self, access: Access, accesses: Sequence[Access]) -> str:
        """Save the files of one access; returns a doubt if it cannot be undone in full."""
        names, doubt = self._list_names(access, accesses)
        known = len(self.missed)
        for name in names:
            place = os.path.realpath(name) if access.action == "write" else resolve_parent(name)
            if not self._is_inside(place):
                if not place.startswith("/dev/"):
                    doubt = doubt or _OUTSIDE
                continue
            if access.action == "write" and os.path.islink(resolve_parent(name)):
                self._add(resolve_parent(name))  # who writes may put a file in the place of the link
            for path in _with_all_below(place) if access.below else [place]:
                self._add(path)
        if access.action == "write" and access.below and access.how != "modes":
            doubt = doubt or self._save_destination(access, names, accesses)
        return doubt or (_NOT_KEPT if len(self.missed) > known else "")

    def _list_names(self, access: Access, accesses: Sequence[Access]) -> tuple[list[str], str]:
        """The paths that the access names, and a doubt if there may be more."""
        if not access.glob:
            return [os.path.join(self.home, os.path.expanduser(access.target))], ""
        matched, whole = self._matches(access.target)
        if access.action == "write":  # `sed -i.bak s/a/b/ *.py`: a new file beside each
            for other in accesses:
                ending = access.target.removeprefix(other.target)
                if other.glob and other.by_command and other.target and ending not in ("", access.target):
                    matched += [path + ending for path in self._matches(other.target)[0]]
        # A pattern that matches nothing stands for itself.
        literal = os.path.join(self.home, os.path.expanduser(re.sub(r"\\(.)", r"\1", access.target)))
        return matched or [literal], "" if whole else _NOT_KEPT

    def _matches(self, pattern: str) -> tuple[list[str], bool]:
        first, _, rest = pattern.partition("/")
        if pattern.startswith("~") and os.path.expanduser(first) != first:
            return self._reach.matches(os.path.expanduser(first), rest)
        return self._reach.matches("/" if pattern.startswith("/") else self.home, pattern)

    def _save_destination(self, access: Access, names: Sequence[str], accesses: Sequence[Access]) -> str:
        """Save the places where a moved or copied directory will put files; returns a doubt if they are unknown."""
        places = [os.path.realpath(name) for name in names]
        if all(os.path.lexists(place) and not os.path.isdir(place) for place in places):
            return ""  # a file that is overwritten
        if access.glob or not (sources := list(self._list_sources(access, accesses))):
            return _NOT_KNOWN
        for source in sources:
            named = access.into or not os.path.isdir(places[0])
            top = places[0] if named else os.path.join(places[0], os.path.basename(source))
            for inner in _with_all_below(source) if self._is_inside(source) or not os.path.isdir(source) else []:
                self._add(os.path.normpath(os.path.join(top, os.path.relpath(inner, source))))
            if os.path.isdir(source) and not self._is_inside(source):
                return _NOT_KNOWN
        return ""

    def _list_sources(self, access: Access, accesses: Sequence[Access]) -> Iterator[str]:
        for other in accesses:
            if not other.by_command or other.action == "write":
                continue
            named = os.path.join(self.home, os.path.expanduser(other.target))
            if access.into and not other.glob and os.path.basename(os.path.normpath(named)) == access.into:
                yield resolve_parent(named)
            elif not access.into and other.glob:
                yield from self._matches(other.target)[0] or [named]  # a pattern that matches nothing is a name

    def _is_inside(self, path: str) -> bool:
        return any(path.startswith(root.rstrip("/") + "/") for root in self.roots)

    def _add(self, path: str) -> None:
        if path in self.saved or path in self.missed:
            return
        one = read_image(path, self.room) if len(self.saved) < MOST_SAVED_FILES else None
        if one is None:
            self.missed.append(path)
        else:
            self.saved[path] = one
            self.room -= len((one.before if isinstance(one, BeforeImage) else one.entry.raw) or b"")


def _with_all_below(path: str) -> Iterator[str]:
    """A path, and if it is a directory, all that is in it; links are not followed."""
    yield path
    if not os.path.islink(path):
        for directory, folders, files in os.walk(path):
            yield from (os.path.join(directory, name) for name in (*folders, *files))
