"""Runs the commands of a session: chooses the sandbox, the environment and the log of each."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field, replace
from functools import partial
from typing import Unpack

from handrail.drafts import IN_DRAFT
from handrail.drafts.hidden_paths import HidingLayer, remove_copies
from handrail.drafts.store import DraftStore, NoDraft, OpenDraft
from handrail.errors import BadCommand
from handrail.files.artefacts import ALIAS, Artefacts
from handrail.files.per_workspace import make_private_home
from handrail.frozen import frozen
from handrail.programs import find_program, list_untrusted, make_search_path
from handrail.shell.draft_trial import try_draft
from handrail.shell.effects.respell import respell
from handrail.shell.followed_jobs import ChangeJudge, FollowedJobs
from handrail.shell.parser.parse import parse_script
from handrail.shell.parser.script import Script
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.put_back import PutBack
from handrail.shell.runner.jobs import Job, Jobs
from handrail.shell.runner.run import CommandEnd, CommandOrder, Reason, Run, Runs, find_shell
from handrail.shell.sandbox import Mode, Network
from handrail.shell.sandbox.choose import Boundary, choose
from handrail.shell.sandbox.confinement import (
    MOST_MASKED,
    Confinement,
    Protection,
    ResourceLimits,
    choose_maskable,
    drop_nested,
    is_inside,
    list_usual_protected,
)
from handrail.shell.sandbox.environment import find_search_path, keep_harmless, make_unattended, scrub_environment
from handrail.shell.sandbox.filter_proxy import FilterProxy
from handrail.shell.sandbox.git_exclude import GitExclude
from handrail.shell.sandbox.git_remotes import KnownRemotes
from handrail.shell.sandbox.git_settings import with_settings
from handrail.shell.sandbox.local_services import LocalServices, is_served
from handrail.shell.sandbox.logins import NO_LOGINS, Logins, find_logins, find_variables
from handrail.shell.sandbox.mount_aliases import find_all_names
from handrail.shell.sandbox.mount_plan import HOME, DraftLayers
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.shell.sandbox.tracked_files import TrackedFiles
from handrail.shell.start_process import CommandStreams, ProcessOptions, Spawn, start_process

_MOST_OWN_OUTPUT = 1 << 20
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
"""Reasons for which a draft cannot be created now, and perhaps later."""
_PAUSE = 30.0
"""Seconds until that is tried again."""
"""Bytes; a check or a hook that prints more is ended."""


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
    tracked: TrackedFiles | None = None
    """Tells which files are tracked, and is told what commands do to repositories."""
    has_secret_name: Callable[[str], bool] | None = None
    """Whether a path is hidden unless it is tracked."""
    looks_secret: Callable[[str, str], bool] | None = None
    """The same for a path and the place of its new contents: these may hold a secret as well."""
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
    log_bytes: int = 4 << 30
    limits: ResourceLimits = field(default_factory=ResourceLimits)


@frozen
class CommandOptions:
    """Options of one command, on top of those of the session."""

    git: Mapping[str, str] | None = None
    """Settings for a command that only looks with git: no repository can override them."""
    network: bool = False
    """The network, whatever the settings are."""
    programs: frozenset[str] = frozenset()
    """The programs in it that use the network, and may log in with their own credentials if that is open."""
    filtered: bool = False
    """It gets a proxy to the hosts that the rules allow."""
    ports: tuple[int, ...] = ()
    """The ports of this machine that were allowed for it."""
    script: Script | None = None
    """The parsed command."""
    approved: bool = False
    """A person has seen this command and allowed it: it may change protected files."""
    reads: bool = False
    """It is proven to change nothing."""
    draft: OpenDraft | None = None
    """The draft that it works in, instead of the workspace."""
    visible: tuple[str, ...] | None = None
    """The only trees that it sees beside its own, where a boundary can mount; None: all."""
    git_settings: bool = False
    """Nothing but git changes something, and git writes its settings: a branch to follow, a remote."""
    streams: CommandStreams | None = None
    """The streams, the environment and the script of a command that another agent runs."""
    on_end: Callable[[], None] | None = None
    """Called when it has ended."""
    lent: tuple[str, ...] = ()
    """Hidden paths that it sees."""


NOTHING_GIVEN = CommandOptions()


@frozen
class RefusedConnections:
    """What a command wanted to reach, and was not allowed to."""

    hosts: tuple[str, ...] = ()
    """Hosts that it asked its proxy for, each as `host:port`."""
    ports: tuple[int, ...] = ()
    """Ports of this machine that something outside of the sandbox serves."""


@frozen
class OwnCommandEnd:
    """How a command of the user's or the project's own ended: a check or a hook."""

    exit_code: int | None
    """None if a signal ended it."""
    reason: Reason
    """Why it was ended from here; empty if it was not."""
    output: str
    """The beginning of its output."""


class CommandHost:
    """The commands of one session. The boundary is made when the first command runs."""

    def __init__(self, roots: tuple[str, ...], artefacts: Artefacts, options: HostOptions) -> None:
        self._roots = roots
        self._artefacts = artefacts
        self._options = options
        self._lock = threading.Lock()
        self._closed = False
        self._boundary: Boundary | None = None
        self._runs = Runs()
        self._called: dict[str, str] = {}
        self._written: dict[str, Run] = {}
        self._spare: PrivateDirectory | None = None
        self._shell = ""
        self._followed: FollowedJobs | None = None
        self._put_back: dict[str, list[PutBack]] = {}
        self._services = LocalServices(options.permits_port)
        self._proxies: dict[str, FilterProxy] = {}
        self._hiding: HidingLayer | None = None
        self._git_exclude = GitExclude()
        self._has_listed = False
        self._named_in_answers: set[str] = set()
        """The hidden files that an answer has named."""
        self._starting = threading.local()
        """In the thread that starts a command: the paths that are hidden from it."""
        self._old_hiding: list[HidingLayer] = []
        """Layers that commands may still use."""
        self._changing: list[Run] = []
        """Commands in the background that may be changing repositories."""
        self.jobs = Jobs(self._runs)
        self._store: DraftStore | None = None
        self._paused: tuple[DraftStore, float] | None = None
        """The store while no draft can be created, and when that is tried again."""
        self._tried_drafts = False
        self._trying = threading.Lock()
        self._dropping: list[threading.Thread] = []
        self.no_drafts = "" if options.drafts else "drafts are switched off"
        """Why commands run in no draft; known once one was wanted."""
        self._remotes = KnownRemotes(roots, options.state)
        self.unreached: dict[str, str] = {}
        """Commands that failed without the network, each with the host that it could not reach, if that is known."""

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        """Whether a program is not the project's own, and git contacts only remotes from before the first command."""
        program = find_program(service)
        tmp = os.path.realpath(tempfile.gettempdir())
        names = (program, os.path.realpath(program)) if program else ()
        if any(is_inside(name, tmp) for name in names) or any(map(_may_help_git, list_untrusted())):
            return False
        return service == "gh" or (bool(addresses) and self._remotes.addresses.issuperset(addresses))

    def is_own_program(self, name: str, where: str) -> bool:
        """Whether a command in a directory finds a program of the workspace by this name."""
        roots = [os.path.realpath(root) for root in self._roots]
        for entry in find_search_path().split(os.pathsep):
            path = os.path.join(where, entry, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                names = (os.path.normpath(path), os.path.realpath(path))
                return any(is_inside(one, root) for one in names for root in roots)
        return False

    @property
    def boundary(self) -> Boundary:
        """The boundary of commands; raises `NoSandbox` if one is required and there is none."""
        with self._lock:
            if self._boundary is None:
                if self._closed:
                    raise _over()
                options = self._options
                own = (*options.own, *options.config)
                missing = self._create_missing(own)
                if options.judge:
                    real = [os.path.realpath(root) for root in self._roots]
                    left_out = frozenset(os.path.realpath(path) for path in own if path not in missing)
                    self._followed = FollowedJobs(real, options.judge, left_out, missing, self._place_removed)
                store = self._open_store()
                places = {store.path, store.layers_directory} if store else ()
                confinement = Confinement(
                    self._roots,
                    hidden=find_all_names(map(os.path.realpath, (*own, *places))),
                    drafts=store.layers_directory if store else "",
                    home=make_private_home(options.state, self._roots[0]) if options.state else "",
                    in_draft=bool(os.environ.get(IN_DRAFT)),
                    masked=self._list_masked if options.hidden else None,
                    denied=options.denied,
                    credentials=options.credentials,
                    aliases=((ALIAS, self._artefacts.directory),),
                    protected=(*list_usual_protected(self._roots), *missing),
                    guarded=self._followed.list_mounts if self._followed else None,
                    own=options.own,
                    network=options.network,
                    limits=options.limits,
                    services=self._services,
                )
                self._boundary = choose(options.sandbox, options.required, confinement)
                if isinstance(self._boundary, NamespaceBoundary):
                    self._store = store
                elif store:
                    self.no_drafts = "drafts need the sandbox that is called namespaces"
            return self._boundary

    def _try_store(self) -> DraftStore | None:
        """The store, if a command can run in a draft of this very workspace; else None, and `no_drafts` says why.

        That is tried when the first command may change files: a look at all files of a workspace takes its time.
        """
        boundary = self.boundary
        with self._trying:
            if self._paused and time.monotonic() >= self._paused[1]:
                self._store, self._paused, self.no_drafts = self._paused[0], None, ""
            if self._store and not self._tried_drafts:
                assert isinstance(boundary, NamespaceBoundary)
                try:
                    self._store.look_at_owners()
                    try_draft(self._store, boundary)
                    self._tried_drafts = True
                except OSError as error:
                    self._stop_drafts(error, error.strerror or str(error))
            return self._store

    def _stop_drafts(self, error: OSError, reason: str) -> None:
        """Create no more drafts, or none for some time if they only lack space or the like."""
        if self._store and error.errno in _PASSING:
            self._paused = self._store, time.monotonic() + _PAUSE
        self._store, self.no_drafts = None, reason

    @property
    def drafts_of(self) -> str:
        """The real path of the directory of which commands run in drafts; empty if they do not."""
        store = self._try_store()
        return store.workspace if store else ""

    def _open_store(self) -> DraftStore | None:
        """The place for drafts; None if there can be none."""
        if not self._options.drafts:
            return None
        try:
            if len(self._roots) != 1:
                raise NoDraft(0, "there is more than one directory to write to")
            return DraftStore.open(self._options.drafts, self._roots[0])
        except OSError as error:
            self.no_drafts = error.strerror or str(error)
            return None

    def create_draft(self) -> OpenDraft | None:
        """A new draft of the workspace; None if there can be none, and `no_drafts` says why."""
        store = self._try_store()
        if store is None:
            return None
        try:
            return store.create()
        except OSError as error:
            with self._trying:
                self._stop_drafts(error, f"a draft cannot be created: {error.strerror}")
            return None

    def drop_draft(self, draft: OpenDraft) -> None:
        """Delete a draft without waiting for it: to free the blocks of its directories takes some disks long."""
        thread = threading.Thread(target=_drop, args=(OpenDraft(draft.directory, draft.lock),))
        draft.lock = -1
        with self._lock:
            self._dropping = [*(one for one in self._dropping if one.is_alive()), thread]
            thread.start()

    def start_in_draft(
        self, args: Sequence[str], draft: OpenDraft, network: Network | None = None, **how: Unpack[ProcessOptions]
    ) -> subprocess.Popen[bytes]:
        """Start a program in a draft, in the words of `subprocess.Popen`. No file is protected from it."""
        assert isinstance(self.boundary, NamespaceBoundary)
        how.setdefault("env", scrub_environment(keep=self._options.keep_env))
        logins = Logins(all_files=network == "on")
        layers = DraftLayers(draft.directory.info.workspace, draft.name)
        return self.boundary.spawn(args, network=network, protection="nothing", logins=logins, draft=layers, **how)

    def _create_missing(self, own: Sequence[str]) -> list[str]:
        """Own places inside the workspace that a command could make before Handrail does; made here where possible."""
        roots = [os.path.realpath(root) for root in self._roots]
        for path in (path for path in own if any(is_inside(path, root) for root in roots)):
            with contextlib.suppress(OSError):  # a read-only disk: nobody else can make it either
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return [path for path in own if not os.path.lexists(path) and any(is_inside(path, root) for root in roots)]

    @property
    def confined(self) -> bool:
        """Whether a kernel boundary holds commands, and keeps Handrail's own files from them."""
        return self.boundary.name != "none" and self.hides_own

    @property
    def offline(self) -> bool:
        """Whether a kernel boundary holds commands, and cuts them off from the network."""
        return self.confined and self._options.network != "on"

    @property
    def has_loopback(self) -> bool:
        """Whether commands reach a loopback of their own."""
        return self._options.network == "loopback" and self.confined

    @property
    def filters(self) -> bool:
        """Whether commands can have a proxy that reaches the hosts which the rules allow, and no others."""
        return self.has_loopback and self.boundary.supervises

    def needs_port(self, port: int) -> bool:
        """Whether a port of this machine is served outside of the sandbox, and nobody has allowed it yet."""
        if not self.has_loopback or not self.boundary.supervises or self._services.allows(port):
            return False
        return not self.boundary.serves(port) and is_served("self", port)

    @property
    def hides_own(self) -> bool:
        """Whether no command can reach Handrail's own files."""
        return self.boundary.hides_own

    @property
    def hides(self) -> bool:
        """Whether commands cannot read what they are not to read, all of it."""
        if not self._options.hidden or not self.boundary.namespaced:
            return False
        if not self._has_listed:
            self._list_hidden()
        return self._options.searched_all()

    def take_hidden_names(self) -> list[str]:
        """The files of the workspace that commands cannot see; each is returned once in a session."""
        if not self.boundary.namespaced or not self._options.hidden:
            return []
        home = os.path.realpath(self._roots[0]) if self._roots else "/"
        names = [os.path.relpath(path, home) for path in self._list_inside() if not _is_empty_directory(path)]
        new = [name for name in names if name not in self._named_in_answers]
        self._named_in_answers.update(new)
        return new

    @property
    def unsearched(self) -> bool:
        """Whether the workspace has too many directories to search all for secrets."""
        return not self._options.searched_all()

    @property
    def too_many_entries(self) -> bool:
        """Whether the workspace is too large to follow what jobs change in it."""
        return bool(self._followed and self._followed.is_too_large)

    def run(
        self,
        command: str,
        cwd: str,
        timeout: float | None,
        name: str,
        cancel: threading.Event | None,
        keep: bool = False,
        given: CommandOptions = NOTHING_GIVEN,
        on_start: Callable[[str], None] | None = None,
    ) -> tuple[Run, CommandEnd | None]:
        """A command, until it ends; with ``keep`` it may go on when the time is up (None).

        ``on_start`` gets the path of its log.
        """
        level = _choose_protection(given, keep)
        changes = not given.draft and not given.reads
        followed = self._followed if self.boundary and changes else None
        if followed:
            followed.begin(for_undo=keep)
        if self._services.refused:  # by a job, meanwhile
            self._services.take_refused()
        if changes:
            self.begin_changes()
        try:
            run = self._begin(self._runs.start, command, cwd, name, given=given, protection=level)
        except BaseException:
            if changes:
                self.end_changes()
            if followed:
                followed.end()
            raise
        ended: CommandEnd | None = None
        try:
            if on_start:
                on_start(run.order.log)
            ended = run.wait(timeout, cancel, keep)
            if changes and ended is None:  # it goes on, and may still change them
                self._changing.append(run)
                changes = False
            if ended is not None and given.on_end:
                given.on_end()
        except BaseException:
            run.end("cancelled")
            raise
        finally:
            if followed and ended is None and run.running:
                self._watch(followed, run, command, given)
            elif followed:
                self._put_back[run.order.log] = followed.end(command if keep else "", approved=given.approved)
            if ended is not None and given.ports:
                self._services.withdraw(given.ports)
            if changes:
                self.end_changes()
        if ended is not None:
            self._runs.done(run)
        return run, ended

    def run_own(
        self,
        command: str,
        cwd: str,
        seconds: float,
        *,
        confined: bool = True,
        input: bytes = b"",
        cancel: threading.Event | None = None,
        draft: OpenDraft | None = None,
    ) -> OwnCommandEnd:
        """A check or a hook, until it ends: in the sandbox without the network, or else as the user's own program."""
        spawn: Spawn = start_process
        env: Mapping[str, str] = os.environ
        if confined:
            boundary = self.boundary
            env = make_unattended(scrub_environment(keep=self._options.keep_env))
            spawn = partial(boundary.spawn, network="off", protection="everything")
            layers = self._hide_paths(draft)
            if layers and isinstance(boundary, NamespaceBoundary):
                spawn = partial(boundary.spawn, network="off", draft=layers)
        self._shell = self._shell or find_shell()
        order = CommandOrder(
            command,
            self._elsewhere(),
            env,
            cwd,
            spawn,
            self._shell,
            namespaced=confined and self.boundary.namespaced,
            budget=_MOST_OWN_OUTPUT,
            input=input,
        )
        followed = self._followed if confined and not draft else None
        if followed:
            followed.begin(for_undo=False)
        try:
            return self._wait_for_own(order, seconds, cancel)
        finally:
            self._starting.hidden = None
            if followed:
                followed.restored += followed.end()

    def _wait_for_own(self, order: CommandOrder, seconds: float, cancel: threading.Event | None) -> OwnCommandEnd:
        try:
            run = self._runs.start(order)
        except RuntimeError:
            if self._closed:  # meanwhile, by another thread
                raise _over() from None
            raise
        try:
            ended = run.wait(seconds, cancel)
            assert ended is not None
            with open(order.log, "rb") as file:
                printed = file.read(_MOST_OWN_OUTPUT).decode("utf-8", "replace")
            return OwnCommandEnd(ended.exit_code, ended.reason, printed)
        finally:
            self._runs.done(run)
            with contextlib.suppress(OSError):
                os.unlink(order.log)

    def _place_removed(self, name: str) -> str:
        """A place for a protected file that is taken out of the workspace."""
        return self._artefacts.path(f"removed-{name}")[0]

    def put_back(self, log: str) -> list[PutBack]:
        """The protected files that the command with this log changed and that were put back. Returned once."""
        return self._make_relative(self._put_back.pop(log, []))

    def _make_relative(self, changes: Sequence[PutBack]) -> list[PutBack]:
        home = os.path.realpath(self._roots[0]) if self._roots else "/"
        return [
            replace(one, path=os.path.relpath(one.path, home)) if is_inside(one.path, home) else one for one in changes
        ]

    def take_refused(self, log: str) -> RefusedConnections:
        """The connections of the command with this log that were refused. Returned once, when it has ended."""
        ports = tuple(self._services.take_refused()) if self._services.refused else ()
        proxy = self._proxies.pop(log, None)
        if proxy:
            self._services.remove_proxy(proxy.address)
        return RefusedConnections(tuple(proxy.refused) if proxy else (), ports)

    def end(self, run: Run) -> CommandEnd:
        """The time of a command is up, and it cannot be kept."""
        ended = run.end("timeout")
        assert ended is not None
        self._runs.done(run)
        return ended

    def start(
        self,
        command: str,
        cwd: str,
        name: str,
        stdin: bool,
        timeout: float | None,
        given: CommandOptions = NOTHING_GIVEN,
    ) -> Job:
        """A command in the background."""
        started = list[Job]()

        def start(order: CommandOrder) -> Run:
            started.append(self.jobs.start(order, timeout))
            return started[0].run

        followed = self._followed if self.boundary and not given.reads else None
        if followed:
            followed.begin(for_undo=True)
        self.begin_changes()
        try:
            run = self._begin(start, command, cwd, name, stdin, given, _choose_protection(given, keep=True))
        except BaseException:
            self.end_changes()
            if followed:
                followed.end()
            raise
        self._changing.append(started[0].run)
        if followed:
            self._watch(followed, run, command, given)
        return started[0]

    def _watch(self, followed: FollowedJobs, run: Run, command: str, given: CommandOptions) -> None:
        followed.watch(run, command, given.approved, followed.list_mounts() if self.boundary.namespaced else [])

    def check_jobs(self) -> None:
        """Put back the protected files that jobs have changed."""
        if self._followed and self._followed.jobs:
            self._followed.check()

    def take_put_back(self) -> list[PutBack]:
        """The protected files of jobs that were put back since the last time."""
        if not self._followed or not self._followed.restored:
            return []
        done, self._followed.restored = self._followed.restored, []
        return self._make_relative(done)

    def accepting(self) -> AbstractContextManager[list[str]]:
        """Accept what the session's own tools write to protected files; the list takes their paths."""
        return self._followed.accepting() if self._followed else contextlib.nullcontext([])

    def _begin(
        self,
        start: Callable[[CommandOrder], Run],
        command: str,
        cwd: str,
        name: str,
        stdin: bool = False,
        given: CommandOptions = NOTHING_GIVEN,
        protection: Protection = "everything",
    ) -> Run:
        boundary, budget = self.boundary, self._options.log_bytes
        env = make_unattended(scrub_environment(keep=self._options.keep_env))
        if given.streams:
            env, command = keep_harmless(given.streams.env), given.streams.script
        if given.git is not None:
            env = with_settings(given.git, env)
            # Git runs grep, gpg and others in turn: those of the workspace come last.
            env["PATH"] = os.pathsep.join([make_search_path(), *list_untrusted()])
        self._shell = self._shell or find_shell()
        if ALIAS in command and not boundary.namespaced:
            script = given.script or parse_script(command)
            command = respell(script, ALIAS, self._artefacts.directory) or command
        network: Network | None = "on" if given.network else None
        if given.streams and given.streams.offline:
            given, network = replace(given, network=False, filtered=False, ports=()), "off"
        logins = find_logins(given.programs) if given.network else NO_LOGINS
        if given.network and given.approved:
            env |= find_variables(given.programs)
        proxy = self._add_proxy() if given.filtered and not given.network else None
        env |= proxy.environment() if proxy else {}
        if given.ports:
            self._services.grant(given.ports)
        level: Protection = "nothing" if given.approved else protection
        # What reads alone runs outside of drafts: nothing that an earlier command left in the home may steer it.
        visible = given.visible if given.visible is None or given.reads else (*given.visible, HOME)
        spawn = partial(boundary.spawn, network=network, protection=level, logins=logins, visible=visible)
        layers = self._hide_paths(given.draft, given.lent)
        if layers:
            read_only = tuple(given.streams.read_only) if given.streams else ()
            spawn = partial(spawn, draft=replace(layers, read_only=read_only))
        elif boundary.namespaced:
            env = self._git_exclude.add_to(env, self._list_inside(), boundary.tmp)
        order = CommandOrder(
            command, "", env, cwd, spawn, self._shell, stdin, boundary.namespaced, budget, streams=given.streams
        )
        try:
            try:
                real, called = self._artefacts.path(name)
                run = start(replace(order, log=real))
                self._called[real] = called
            except OSError as error:
                if not str(error.filename).startswith(self._artefacts.above):
                    raise
                # Artefacts cannot be kept now. The command runs all the same, and all that fits is shown.
                run = start(replace(order, log=self._elsewhere()))
        except RuntimeError:
            if self._closed:  # meanwhile, by another thread
                raise _over() from None
            raise
        finally:
            self._starting.hidden = None
        with self._lock:
            self._written[run.order.log] = run
        if proxy:
            self._proxies[run.order.log] = proxy
        return run

    def _add_proxy(self) -> FilterProxy | None:
        """A proxy for one command; None where there can be none."""
        allows = self._options.allows_host
        if allows is None or not self.filters:
            return None
        proxy = FilterProxy(allows)
        self._services.add_proxy(proxy.address, proxy.connect)
        return proxy

    def _list_masked(self) -> Sequence[str]:
        """The paths that the host hides, as far as they can be hidden; the rest is counted."""
        return choose_maskable(
            (path for path in self._list_hidden() if not self._is_tracked_by_link(path)),
            map(os.path.realpath, self._roots),
        )

    def _is_tracked_by_link(self, path: str) -> bool:
        """Whether a path is a link to a tracked file, which a mount would cover."""
        tracked = self._options.tracked
        return tracked is not None and os.path.islink(path) and tracked.is_tracked(os.path.realpath(path))

    def _list_hidden(self) -> Sequence[str]:
        """The hidden paths; those that were just listed for a command that starts now are not sought again."""
        listed: Sequence[str] | None = getattr(self._starting, "hidden", None)
        if listed is not None:
            return listed
        self._has_listed = True
        return self._options.hidden() if self._options.hidden else ()

    def _hide_paths(self, draft: OpenDraft | None, lent: Sequence[str] = ()) -> DraftLayers | None:
        """Have nothing run that sees a hidden path but for ``lent``: in a draft it is absent, elsewhere it is covered.

        Returns the layers of the draft. Raises `BadCommand` or `OSError` if something cannot be hidden.
        """
        boundary, tracked = self.boundary, self._options.tracked
        if tracked and not self._closed:
            self._end_changes()
            for root in self._roots[:1]:
                tracked.look(os.path.realpath(root))
        self._starting.hidden = None
        if boundary.namespaced:
            self._starting.hidden = [path for path in self._list_hidden() if path not in lent]
        drafted = draft if isinstance(boundary, NamespaceBoundary) else None
        layers = self._make_layers(drafted) if drafted else None
        if boundary.namespaced and layers is None and (count := len(self._list_masked())) > MOST_MASKED:
            why = f"{count} secrets would have to be hidden from it one by one, and at most {MOST_MASKED} can be"
            raise BadCommand(why=why, line=None, near=None)
        if tracked:
            tracked.note_start()
        return layers

    def _list_inside(self) -> list[str]:
        """The hidden paths in the workspace."""
        roots = [os.path.realpath(root) for root in self._roots]
        return drop_nested(path for path in self._list_hidden() if any(is_inside(path, root) for root in roots))

    def _make_layers(self, draft: OpenDraft) -> DraftLayers:
        workspace = draft.directory.info.workspace
        inside = (path for path in self._list_hidden() if path != workspace and is_inside(path, workspace))
        paths = tuple(os.path.relpath(path, workspace) for path in drop_nested(inside))
        with self._trying:
            if self._hiding is None or self._hiding.paths != paths:
                if self._hiding:
                    self._old_hiding.append(self._hiding)
                    self._hiding = None
                if paths and self._store:
                    self._hiding = HidingLayer.create(self._store, paths)
            hiding = self._hiding
        if paths and hiding is None:
            raise BadCommand(why="there can be no draft any more", line=None, near=None)
        if draft.hidden is None:
            remove_copies(draft.directory, paths)
            draft.hidden = paths
        return DraftLayers(workspace, draft.name, hiding.holder.name if hiding else "")

    def begin_changes(self, tops: Iterable[str] = ()) -> None:
        """From now on the repositories of the workspace may change by a command, until `end_changes`.

        ``tops``: directories that it makes a repository of.
        """
        if self._options.tracked:
            self._options.tracked.begin_changes(os.path.realpath(self._roots[0]) if self._roots else "/", tops)

    def end_changes(self) -> None:
        """The command has changed the repositories."""
        if self._options.tracked:
            self._options.tracked.end_changes()

    def _end_changes(self) -> None:
        """Of the commands in the background that have ended since the last look."""
        for run in [run for run in self._changing if run.ended is not None]:
            self._changing.remove(run)
            self.end_changes()

    def has_secret_name(self, path: str) -> bool:
        """Whether a path is hidden unless it is tracked."""
        named = self._options.has_secret_name
        return named is not None and named(path)

    def note_contents(self, files: Mapping[str, str]) -> None:
        """What a command leaves in files is no secret to the model: by path, where the contents can be read now."""
        looks_secret = self._options.looks_secret
        if self._options.tracked and looks_secret:
            known = {path: source for path, source in files.items() if looks_secret(path, source)}
            self._options.tracked.note_contents(known)

    def _elsewhere(self) -> str:
        with self._lock:
            if self._closed:
                raise _over()
            self._spare = self._spare or PrivateDirectory()
        return os.path.join(self._spare.path, secrets.token_hex(8))

    def elsewhere(self, script: Script) -> str | None:
        """The real place of the artefacts, if a command names them by what only the file tools know."""
        if ALIAS not in script.source or self.boundary.namespaced:
            return None
        real = self._artefacts.directory
        return None if respell(script, ALIAS, real) else real

    def name_log(self, log: str) -> str:
        """The name of a command's log in answers."""
        return self._called.get(log, log)

    def can_reach(self, log: str) -> bool:
        """Whether the session's own tools can open a log: it could be kept among the artefacts."""
        return log in self._called

    def forget(self, log: str) -> None:
        """A log that was shown in full is not kept."""
        with contextlib.suppress(OSError):
            os.unlink(log)
        self._called.pop(log, None)
        with self._lock:
            self._written.pop(log, None)

    def retain(self, log: str) -> None:
        """An answer names this log: it stays, and older ones go if there are too many bytes."""
        with self._lock:
            for path, run in list(self._written.items()):
                if run.ended is not None and run.silent:
                    del self._written[path]
            spared = {log, *self._written}
        self._artefacts.trim(spared)

    def close(self) -> None:
        """End every command, and everything that it started. May be called again."""
        with self._lock:
            over, self._closed = self._closed, True
        self._runs.close()
        if self._followed:
            self._followed.check()
        if over:
            return
        with self._lock:
            for thread in self._dropping:
                thread.join()
            if self._boundary:
                self._boundary.close()
            for layer in (*self._old_hiding, *([self._hiding] if self._hiding else [])):
                _drop(layer.holder)
            if self._spare:
                self._spare.close()


def _may_help_git(entry: str) -> bool:
    """Whether a directory on PATH has git, or a program that git runs while it fetches. A relative one may have any."""
    if not os.path.isabs(entry):
        return True
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        return any(name.startswith(("git", "gh", "ssh", "gpg")) for name in os.listdir(entry))
    return False


def _is_empty_directory(path: str) -> bool:
    try:
        return not os.listdir(path)
    except OSError:  # a file
        return False


def _drop(draft: OpenDraft) -> None:
    with contextlib.suppress(OSError):  # the next sweep of all drafts deletes the rest
        draft.drop()


def _choose_protection(given: CommandOptions, keep: bool) -> Protection:
    """Which protected files are read-only for a command. ``keep``: it may run on in the background."""
    if given.approved or given.draft:  # in a draft every change is judged before it is kept
        return "nothing"
    if keep and not given.reads:
        return "everything"
    return "nothing" if given.git_settings else "usual"


def _over() -> BadCommand:
    return BadCommand(why="the session has ended", line=None, near=None)
