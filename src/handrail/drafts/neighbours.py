"""Where drafts of a workspace lie, and which of them have changed a file: others may work on the same lines there.

Each edit looks for them, so nothing is imported until there is one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from handrail.drafts import IN_DRAFT, WORKERS

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.drafts.layout import DraftDirectory


def list_places(state: str, workspace: str) -> list[str]:
    """Where drafts of a workspace may lie, the best place first."""
    places = [os.path.join(os.path.realpath(state), "drafts")]
    above = workspace
    while (above := os.path.dirname(above)) != "/":
        places.append(os.path.join(above, f".handrail-drafts-{os.geteuid()}"))
    return places


def list_own_places(state: str, workspace: str) -> Iterator[str]:
    """The directories with the layers of the draft that this process sees, and of others; raises `OSError`."""
    from handrail.drafts.layout import DraftDirectory

    own = os.environ.get(IN_DRAFT, "")
    for place in list_places(state, workspace) if own else ():
        if os.path.isdir(os.path.join(place, own)):
            yield from {place, os.path.dirname(DraftDirectory.open(os.path.join(place, own)).info.layers)} - {""}


def list_neighbours(places: Iterable[str], workspace: str, path: str) -> Iterator[DraftDirectory]:
    """The named drafts that have changed a path of their workspace, without the one that this process sees."""
    own = os.environ.get(IN_DRAFT, "")
    for place in places:
        with contextlib.suppress(OSError):
            for name in os.listdir(place):
                key = name.removesuffix(WORKERS)
                if key not in (name, own):
                    yield from _open_if_changed(os.path.join(place, key), workspace, path)


def _open_if_changed(directory: str, workspace: str, path: str) -> Iterator[DraftDirectory]:
    from handrail.drafts.layout import DraftDirectory

    with contextlib.suppress(OSError, ValueError, TypeError):
        draft = DraftDirectory.open(directory)
        is_named = draft.info.workspace == workspace and draft.state == "open" and not draft.info.left
        if is_named and os.path.isfile(os.path.join(draft.upper, path)):
            yield draft


def read_side(draft: DraftDirectory, path: str, most: int) -> tuple[bytes | None, bytes, int]:
    """A file's base in a draft, if it is known, its contents there, and the time at which they were written.

    Raises `OSError`.
    """
    base = None
    with contextlib.suppress(FileNotFoundError), open(os.path.join(draft.bases, path), "rb") as file:
        base = file.read(most)
    with open(os.path.join(draft.upper, path), "rb") as file:
        return base, file.read(most), os.fstat(file.fileno()).st_ctime_ns
