"""A directory or file of the workspace to be searched, with the paths to show in answers."""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from handrail.errors import NotDirectory, NotFound, ToolError
from handrail.search import ignores
from handrail.search.listing import Listing
from handrail.search.receipt import Budget
from handrail.search.walk import Listings, VisibleNames, VisitedDirectory, Walk, WalkOptions
from handrail.text.display import escape
from handrail.workspace import WorkPath, Workspace

Kind = Literal["file", "dir", "link", "other"]
NameTest = Callable[[str], object]
"""A test for the names of a directory: `Visibility.readable` must be asked about those that pass."""
_MOST_TESTS = 50_000
_MOST_TOPS = 100


@dataclass(frozen=True)
class Visibility:
    """The files that policy allows a search to see."""

    readable: Callable[[str], bool] | None = None
    """Whether a real path may be seen; None: all may."""
    suspects: Callable[[str, bool], Callable[[str], object] | None] | None = None
    """For a real directory, and whether an ignore file of the policy may stand in it: a test that names pass which
    `readable` must be asked about; None: all may be seen. Its answers hold as long as this object is in use."""
    is_other_name: Callable[[str], bool] | None = None
    """Whether the file at a real path is one that may not be read, by another name on the disk. None: none is."""
    find_hides: Callable[[], Sequence[str] | None] = tuple
    """Finds `hides`."""
    asking: Callable[[], AbstractContextManager[None]] = nullcontext
    """Entered for many questions one after the other."""
    _tests: dict[str, dict[str, NameTest | None]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def hides(self) -> Sequence[str] | None:
        """Globs of what may not be read, so that no engine opens it. None: not known, each path must be asked about."""
        return self.find_hides()

    def tests_below(self, top: str) -> dict[str, NameTest | None]:
        """A cache for the tests of the directories below a real path: for as long as the answers of `suspects` hold."""
        if self.suspects is None:
            return {}
        known = self._tests.setdefault(top, {})
        if len(known) > _MOST_TESTS or len(self._tests) > _MOST_TOPS:
            self._tests.clear()
            known = self._tests[top] = {}
        return known


class SearchTree:
    """The directory or the single file at a path of the workspace."""

    def __init__(
        self,
        workspace: Workspace,
        path: WorkPath,
        listings: Listings,
        sight: Visibility,
        indexes: object | None = None,
    ) -> None:
        self.workspace = workspace
        self.path = path
        self.sight = sight
        self.indexes = indexes
        """The `SessionIndexes` of the session; None: no index is used."""
        self._listings = listings
        status = workspace.stat(path)
        if status is None:
            raise NotFound(path=path.named, nearest=workspace.nearest(path))
        self.is_file = not stat.S_ISDIR(status.st_mode)

    @property
    def is_large(self) -> bool:
        """Whether a search below this directory has shown, in this session, that it has too many names to list them."""
        return self.path.real in self._listings.large

    @is_large.setter
    def is_large(self, large: bool) -> None:
        assert large
        self._listings.large.add(self.path.real)

    @property
    def results(self) -> OrderedDict[Hashable, Any]:
        """Results of listings that the session remembers."""
        return self._listings.results

    def whole(self) -> SearchTree:
        """The whole root that this lies in."""
        if self.path.inner == ".":
            return self
        path = WorkPath(".", self._root, ".", self.path.root)
        return SearchTree(self.workspace, path, self._listings, self.sight, self.indexes)

    def walk(self, budget: Budget) -> Walk:
        """A walk through the directory; raises `NotDirectory`."""
        if self.is_file:
            raise NotDirectory(path=self.path.named)
        shown = VisibleNames(self._withhold, self.sight.suspects, self.sight.asking) if self.sight.readable else None
        return Walk(self.listing, self.path.inner, self.above(), shown, budget)

    @property
    def listing(self) -> Listing:
        """The listing of the root that this lies in."""
        return self._listings.of(self.workspace.beneath(self.path))

    def above(self) -> Sequence[str]:
        """The lines of ignore files that hold here, from the directories above."""
        return ignores.list_lines_above(self._root, os.path.dirname(self.path.real) if self.is_file else self.path.real)

    @cached_property
    def _root(self) -> str:
        """The real path of the root that this lies in."""
        return self.path.real if self.path.inner == "." else self.path.real[: -len(self.path.inner) - 1]

    def _withhold(self, inner: str, names: Iterable[str], has_ignore_file: bool) -> set[str]:
        """The names that may not be seen in a directory below the root."""
        directory = self._root if inner == "." else f"{self._root.rstrip('/')}/{inner}"
        suspicious = self.suspects(directory, has_ignore_file)
        if suspicious is None:
            return set()
        readable = self.sight.readable
        assert readable
        return {name for name in names if suspicious(name) and not readable(os.path.join(directory, name))}

    def suspects(self, directory: str, has_ignore_file: bool = True) -> Callable[[str], object] | None:
        """A test for the names in a real directory that `sight.readable` must be asked about; None: about none."""
        if self.sight.suspects:
            return self.sight.suspects(directory, has_ignore_file)
        return bool if self.sight.readable else None  # no name is empty

    def look(self, *, hidden: bool, ignored: bool, obey: bool = True, skip: Sequence[str] = ()) -> WalkOptions:
        """Options of a walk that starts here; inside `.git` it enters that directory."""
        return WalkOptions(hidden, ignored, obey, frozenset(skip), ".git" in self.path.real.split("/"))

    def real(self, inner: str) -> str:
        """The real path of something below."""
        return os.path.join(self.path.real, inner) if inner else self.path.real

    def named(self, inner: str = "", absolute: bool = False) -> str:
        """Return the path of an entry for an answer, in a form that can be given as a path again."""
        real, home = self.real(inner), self._home
        if absolute or not (real == home or real.startswith(home.rstrip("/") + "/")):
            return escape(self.workspace.to_display_path(real))
        return escape(real[len(home.rstrip("/")) + 1 :] if real != home else ".")

    @cached_property
    def _home(self) -> str:
        return os.path.realpath(self.workspace.home)

    def count_links(self, here: VisitedDirectory) -> int:
        """The links that a search passes over, as ripgrep counts them: without those that lead to a directory."""
        return sum(not os.path.isdir(self.real(here.prefix + link)) for link in here.links)

    def behind(self, link: str) -> Kind:
        """The kind of a link's target, if that is a visible file or directory of the workspace; else `link`."""
        try:
            path = self.workspace.resolve(self.real(link))
            status = self.workspace.stat(path)
        except (ToolError, OSError):
            return "link"
        if status is None or (self.sight.readable and not self.sight.readable(path.real)):
            return "link"
        return "dir" if stat.S_ISDIR(status.st_mode) else "file" if stat.S_ISREG(status.st_mode) else "link"
