"""The sandbox of a session: the boundary around its commands, and the files it hides from them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from handrail.drafts import IN_DRAFT
from handrail.drafts.neighbours import list_own_places
from handrail.drafts.store import DraftStore, NoDraft
from handrail.errors import BadCommand
from handrail.files.artefacts import ALIAS, Artefacts
from handrail.files.per_workspace import make_private_home
from handrail.frozen import frozen
from handrail.shell.followed_jobs import ChangeJudge, FollowedJobs
from handrail.shell.git.tracked_files import TrackedFiles
from handrail.shell.sandbox import Mode, Network
from handrail.shell.sandbox.choose import Boundary, choose
from handrail.shell.sandbox.confinement import (
    MOST_MASKED,
    Confinement,
    choose_maskable,
    drop_nested,
    find_all_names,
    is_inside,
)
from handrail.shell.sandbox.environment import find_search_path
from handrail.shell.sandbox.local_services import LocalServices
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.system_calls import is_shortage


@frozen
class HostOptions:
    """Settings of a session for its commands."""

    sandbox: Mode = "auto"
    required: bool = False
    network: Network = "off"
    keep_env: tuple[str, ...] = ()
    hidden: Callable[[], Sequence[str]] | None = None
    """What commands may not read, asked for at each start: files, directories and links in real directories. A boundary
    that mounts holds them; elsewhere only what a command names is judged, by policy."""
    searched_all: Callable[[], bool] = lambda: True
    """Whether all directories of the workspace were searched for them."""
    tracked: TrackedFiles = field(default_factory=TrackedFiles)
    """Tells which files are tracked, and is told what commands do to repositories."""
    looks_secret: Callable[[str, str], bool] | None = None
    """Whether a path is hidden unless it is tracked, by its name or by its contents, which are at the second path."""
    denied: Callable[[], Sequence[str]] | None = None
    """Those of them that a rule names in full. Outside of the workspace Landlock hides these too."""
    credentials: Callable[[], Sequence[str]] | None = None
    """Secrets outside of the workspace, which a command sees only if its use of the network was approved."""
    permits_port: Callable[[int], bool] | None = None
    """Whether the policy lets commands reach a TCP port of this machine without a question; None: every port."""
    allows_host: Callable[[str], bool] | None = None
    """Whether a rule allows a host, given as `host:port`, for commands behind the filtering proxy."""
    judge: ChangeJudge | None = None
    """Judges what commands change in the workspace itself."""
    own: tuple[str, ...] = ()
    """Where Handrail keeps its state: not for commands."""
    config: tuple[str, ...] = ()
    """Where the user's settings and rules are: not for commands either."""
    drafts: str = ""
    """The state directory, if commands may run in drafts of the workspace."""
    state: str = ""
    """The state directory, if commands get a private home directory in it and remotes are recorded there."""
    most_processes: int | None = None


class HiddenFiles:
    """What commands may not read, listed once for each command that starts, and which of it a mount can cover."""

    def __init__(self, find: Callable[[], Sequence[str]] | None, tracked: TrackedFiles, roots: Sequence[str]) -> None:
        self._find = find
        self._tracked = tracked
        self._roots = roots
        self.has_listed = False
        self._starting = threading.local()
        """In the thread that starts a command: the paths that are hidden from it."""

    @contextlib.contextmanager
    def listed_once(self, lent: Sequence[str]) -> Iterator[None]:
        """List the paths once for the start of a command, without those that are lent to it."""
        self._starting.paths = None
        self._starting.paths = [path for path in self.list_paths() if path not in lent]
        try:
            yield
        finally:
            self._starting.paths = None

    def list_paths(self) -> Sequence[str]:
        """The hidden paths; while a command starts, those that were listed for it."""
        listed: Sequence[str] | None = getattr(self._starting, "paths", None)
        if listed is not None:
            return listed
        self.has_listed = True
        return self._find() if self._find else ()

    def list_inside(self, tree: str = "") -> list[str]:
        """The hidden paths below a tree, or in the workspace."""
        roots = [tree] if tree else self._roots
        hidden = (path for path in self.list_paths() if path != tree)
        return drop_nested(path for path in hidden if any(is_inside(path, root) for root in roots))

    def list_masked(self) -> Sequence[str]:
        """The hidden paths that a mount can cover."""
        return [path for path in self.list_paths() if not self._is_tracked_by_link(path)]

    def _is_tracked_by_link(self, path: str) -> bool:
        """Whether a path is a link to a tracked file, which a mount would cover."""
        return os.path.islink(path) and self._tracked.is_tracked(os.path.realpath(path))


class SessionSandbox:
    """The boundary of a session's commands, made when the first command runs, and what it hides."""

    def __init__(self, roots: tuple[str, ...], artefacts: Artefacts, options: HostOptions) -> None:
        self.roots = roots
        self._real_roots = [os.path.realpath(root) for root in roots]
        self.services = LocalServices(options.permits_port)
        self.followed: FollowedJobs | None = None
        """Follows what commands change in the workspace itself; known once there is a boundary."""
        self.store: DraftStore | None = None
        """The place for drafts, if the boundary can run commands in them; known once there is a boundary."""
        self.why_no_store = "" if options.drafts else "drafts are switched off"
        self.closed = False
        self._artefacts = artefacts
        self._options = options
        self._lock = threading.Lock()
        self._boundary: Boundary | None = None
        self.hidden_files = HiddenFiles(options.hidden, options.tracked, self._real_roots)
        self._named_in_answers: set[str] = set()
        """The hidden files that an answer has named."""

    @property
    def boundary(self) -> Boundary:
        """The boundary of commands; raises `NoSandbox` if one is required and there is none."""
        with self._lock:
            if self._boundary is None:
                self.require_open()
                self._boundary = self._make_boundary()
            return self._boundary

    def _make_boundary(self) -> Boundary:
        options = self._options
        own = (*options.own, *options.config)
        missing = self._create_missing(own)
        if options.judge:
            left_out = frozenset(os.path.realpath(path) for path in own if path not in missing)
            self.followed = FollowedJobs(self._real_roots, options.judge, left_out, missing, self._place_removed)
        store = self._open_store()
        places = {store.path, store.layers_directory} if store else list_own_places(options.state, self.roots[0])
        confinement = Confinement(
            self.roots,
            hidden=find_all_names(map(os.path.realpath, (*own, *places))),
            drafts=store.layers_directory if store else "",
            home=make_private_home(options.state, self.roots[0]) if options.state else "",
            in_draft=bool(os.environ.get(IN_DRAFT)),
            masked=self.hidden_files.list_masked if options.hidden else None,
            denied=options.denied,
            credentials=options.credentials,
            aliases=((ALIAS, self._artefacts.directory),),
            protected=self.followed.list_mounts if self.followed else None,
            own=options.own,
            network=options.network,
            most_processes=options.most_processes,
            services=self.services,
        )
        boundary = choose(options.sandbox, options.required, confinement)
        if isinstance(boundary, NamespaceBoundary):
            self.store = store
        elif store:
            self.why_no_store = "drafts need the sandbox that is called namespaces"
        return boundary

    def _open_store(self) -> DraftStore | None:
        if not self._options.drafts:
            return None
        try:
            if len(self.roots) != 1:
                raise NoDraft(0, "there is more than one directory to write to")
            return DraftStore.open(self._options.drafts, self.roots[0])
        except OSError as error:
            if is_shortage(error):
                raise
            self.why_no_store = error.strerror or str(error)
            return None

    def _create_missing(self, own: Sequence[str]) -> list[str]:
        """Own places inside the workspace that a command could make before Handrail does; made here where possible."""
        inside = [path for path in own if any(is_inside(path, root) for root in self._real_roots)]
        for path in inside:
            with contextlib.suppress(OSError):  # a read-only disk: nobody else can make it either
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return [path for path in inside if not os.path.lexists(path)]

    def _place_removed(self, name: str) -> str:
        """A place for a protected file that is taken out of the workspace."""
        return self._artefacts.path(f"removed-{name}")[0]

    @property
    def home(self) -> str:
        """The real path of the directory that commands start in."""
        return os.path.realpath(self.roots[0]) if self.roots else "/"

    @property
    def confined(self) -> bool:
        """Whether a kernel boundary holds commands, and keeps Handrail's own files from them."""
        return self.boundary.name != "none" and self.boundary.hides_own

    def finds_own_program(self, name: str, where: str) -> bool:
        """Whether a command in a directory finds a program of the workspace by this name."""
        for entry in find_search_path().split(os.pathsep):
            path = os.path.join(where, entry, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                names = (os.path.normpath(path), os.path.realpath(path))
                return any(is_inside(one, root) for one in names for root in self._real_roots)
        return False

    # Hidden files

    @property
    def hides(self) -> bool:
        """Whether commands cannot read what they are not to read, all of it."""
        if not self._options.hidden or not self.boundary.namespaced:
            return False
        if not self.hidden_files.has_listed:
            self.hidden_files.list_paths()
        return self._options.searched_all()

    @property
    def unsearched(self) -> bool:
        """Whether the workspace has too many directories to search all for secrets."""
        return not self._options.searched_all()

    def hiding(self, lent: Sequence[str] = ()) -> contextlib.AbstractContextManager[None]:
        """For the start of a command: list the hidden paths once, without those that are lent to it."""
        return self.hidden_files.listed_once(lent) if self.boundary.namespaced else contextlib.nullcontext()

    def require_maskable(self) -> None:
        """Raise `BadCommand` if a boundary that mounts would have to cover too many paths."""
        if not self.boundary.namespaced:
            return
        if (count := len(choose_maskable(self.hidden_files.list_masked(), self._real_roots))) > MOST_MASKED:
            why = f"{count} secrets would have to be hidden from it one by one, and at most {MOST_MASKED} can be"
            raise BadCommand(why=why, line=None, near=None)

    def take_hidden_names(self) -> list[str]:
        """The files of the workspace that commands cannot see; each is returned once in a session."""
        if not self.boundary.namespaced or not self._options.hidden:
            return []
        paths = (path for path in self.hidden_files.list_inside() if not _is_empty_directory(path))
        new = [name for path in paths if (name := os.path.relpath(path, self.home)) not in self._named_in_answers]
        self._named_in_answers.update(new)
        return new

    # The end

    def require_open(self) -> None:
        """Raise `BadCommand` if the session has ended."""
        if self.closed:
            raise BadCommand(why="the session has ended", line=None, near=None)

    def close(self) -> None:
        """End the processes of the boundary."""
        with self._lock:
            if self._boundary:
                self._boundary.close()


def _is_empty_directory(path: str) -> bool:
    try:
        return not os.listdir(path)
    except OSError:  # a file
        return False
