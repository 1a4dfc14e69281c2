"""Runs the commands of a session: in the foreground, in the background, and those of the user and the project."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from handrail.drafts.store import OpenDraft
from handrail.errors import BadCommand
from handrail.files.artefacts import ALIAS, Artefacts
from handrail.frozen import frozen
from handrail.programs import list_untrusted, make_search_path
from handrail.shell.command_drafts import CommandDrafts
from handrail.shell.followed_jobs import PutBack
from handrail.shell.git.settings import with_plain_settings
from handrail.shell.network_gate import NetworkGate
from handrail.shell.parser.script import Script
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.runner.jobs import Job, Jobs
from handrail.shell.runner.run import CommandEnd, CommandOrder, Reason, Run, Runs, find_shell
from handrail.shell.sandbox import Network
from handrail.shell.sandbox.choose import Boundary
from handrail.shell.sandbox.confinement import Protection, is_inside
from handrail.shell.sandbox.environment import (
    NO_LOGINS,
    Logins,
    find_logins,
    find_variables,
    keep_harmless,
    make_unattended,
    scrub_environment,
)
from handrail.shell.sandbox.filter_proxy import FilterProxy
from handrail.shell.sandbox.mount_plan import HOME, DraftLayers
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.shell.session_sandbox import HostOptions, SessionSandbox
from handrail.shell.start_process import CommandStreams, Spawn, start_process

_MOST_OWN_OUTPUT = 1 << 20
"""Bytes; a check or a hook that prints more is ended."""


@frozen
class CommandOptions:
    """Options of one command, on top of those of the session."""

    plain_git: bool = False
    """It only looks with git, and git runs with settings that no repository can override."""
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
    streams: CommandStreams | None = None
    """The streams, the environment and the script of a command that another agent runs."""
    on_end: Callable[[], None] | None = None
    """Called when it has ended."""
    lent: tuple[str, ...] = ()
    """Hidden paths that it sees."""
    signer: Logins = NO_LOGINS
    """The agent by which its git signs."""
    passed: tuple[int, ...] = ()
    """Further descriptors that it inherits."""


NOTHING_GIVEN = CommandOptions()


@frozen
class OwnCommandEnd:
    """How a command of the user's or the project's own ended: a check or a hook."""

    exit_code: int | None
    """None if a signal ended it."""
    reason: Reason
    """Why it was ended from here; empty if it was not."""
    output: str
    """The beginning of its output."""


class CommandLogs:
    """The logs of a session's commands: among its artefacts, or elsewhere if there is no room."""

    def __init__(self, artefacts: Artefacts) -> None:
        self.artefacts = artefacts
        self._lock = threading.Lock()
        self._names: dict[str, str] = {}
        self._written: dict[str, Run] = {}
        self._spare: PrivateDirectory | None = None
        self._closed = False

    def start(self, start: Callable[[CommandOrder], Run], order: CommandOrder, name: str) -> Run:
        """Start a command with a log of its own."""
        try:
            log, shown = self.artefacts.path(name)
            run = start(replace(order, log=log))
            self._names[log] = shown
        except OSError as error:
            if not str(error.filename).startswith(self.artefacts.above):
                raise
            # Artefacts cannot be kept now. The command runs all the same, and all that fits is shown.
            run = start(replace(order, log=self.place_elsewhere()))
        with self._lock:
            self._written[run.order.log] = run
        return run

    def place_elsewhere(self) -> str:
        """A place for a log that no tool can open."""
        with self._lock:
            if self._closed:
                raise BadCommand(why="the session has ended", line=None, near=None)
            self._spare = self._spare or PrivateDirectory()
        return os.path.join(self._spare.path, secrets.token_hex(8))

    def get_name(self, log: str) -> str:
        """The name of a command's log in answers."""
        return self._names.get(log, log)

    def can_reach(self, log: str) -> bool:
        """Whether the session's own tools can open a log: it could be kept among the artefacts."""
        return log in self._names

    def forget(self, log: str) -> None:
        """A log that was shown in full is not kept."""
        with contextlib.suppress(OSError):
            os.unlink(log)
        self._names.pop(log, None)
        with self._lock:
            self._written.pop(log, None)

    def retain(self, log: str) -> None:
        """An answer names this log: it stays, and older ones go if there are too many bytes."""
        with self._lock:
            for path, run in list(self._written.items()):
                if run.ended is not None and run.silent:
                    del self._written[path]
            spared = {log, *self._written}
        self.artefacts.trim(spared)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._spare:
                self._spare.close()


class ChangesInPlace:
    """What commands change in the workspace itself: files, which are compared, and repositories."""

    def __init__(self, sandbox: SessionSandbox, options: HostOptions) -> None:
        self._sandbox = sandbox
        self._options = options
        self._put_back: dict[str, list[PutBack]] = {}
        self._changing: list[Run] = []
        """Commands in the background that may be changing repositories."""

    @property
    def too_many_entries(self) -> bool:
        """Whether the workspace is too large to follow what jobs change in it."""
        return bool(self._sandbox.followed and self._sandbox.followed.is_too_large)

    def begin(self, *, for_undo: bool) -> None:
        """A command starts that may change the workspace; then comes `cancel`, `end` or `go_on`."""
        if self._sandbox.boundary and (followed := self._sandbox.followed):
            followed.begin(for_undo=for_undo)
        self._options.tracked.begin_changes(self._sandbox.home)

    def cancel(self) -> None:
        """The command could not be started."""
        self._options.tracked.end_changes()
        if self._sandbox.followed:
            self._sandbox.followed.end()

    def end(self, run: Run, command: str, given: CommandOptions) -> None:
        """The command has ended. ``command``: its words, if its changes are to be recorded."""
        if self._sandbox.followed:
            self._put_back[run.order.log] = self._sandbox.followed.end(command, approved=given.approved)
        self._options.tracked.end_changes()

    def go_on(self, run: Run, command: str, given: CommandOptions) -> None:
        """The command runs on in the background."""
        self._changing.append(run)
        if followed := self._sandbox.followed:
            mounts = followed.list_mounts() if self._sandbox.boundary.namespaced else []
            followed.watch(run, command, given.approved, mounts)

    @contextlib.contextmanager
    def following_own(self) -> Iterator[None]:
        """Put back the protected files that a check or a hook changes meanwhile."""
        followed = self._sandbox.followed
        if followed:
            followed.begin(for_undo=False)
        try:
            yield
        finally:
            if followed:
                followed.restored += followed.end()

    def check_jobs(self) -> None:
        """Put back the protected files that jobs have changed."""
        if self._sandbox.followed and self._sandbox.followed.jobs:
            self._sandbox.followed.check()

    def take_put_back(self, log: str = "") -> list[PutBack]:
        """The protected files that the command with this log changed, or jobs did, and that were put back.

        Returned once.
        """
        followed = self._sandbox.followed
        if log:
            done = self._put_back.pop(log, [])
        elif followed:
            done, followed.restored = followed.restored, []
        else:
            done = []
        home = self._sandbox.home
        return [
            replace(one, path=os.path.relpath(one.path, home)) if is_inside(one.path, home) else one for one in done
        ]

    def accepting(self) -> AbstractContextManager[list[str]]:
        """Accept what the session's own tools write to protected files; the list takes their paths."""
        followed = self._sandbox.followed
        return followed.accepting() if followed and followed.users else contextlib.nullcontext([])

    def look_at_repositories(self) -> None:
        """See what commands in the background have done to repositories, before the next command starts."""
        tracked = self._options.tracked
        if self._sandbox.closed:
            return
        for run in [run for run in self._changing if run.ended is not None]:
            self._changing.remove(run)
            tracked.end_changes()
        if self._sandbox.roots:
            tracked.look(self._sandbox.home)

    def note_contents(self, files: Mapping[str, str]) -> None:
        """What a command leaves in files is no secret to the model: by path, where the contents can be read now."""
        looks_secret = self._options.looks_secret
        if looks_secret:
            known = {path: source for path, source in files.items() if looks_secret(path, source)}
            self._options.tracked.note_contents(known)


class CommandHost:
    """Starts the commands of one session, each with its sandbox, environment and log."""

    def __init__(self, roots: tuple[str, ...], artefacts: Artefacts, options: HostOptions) -> None:
        self._options = options
        self._runs = Runs()
        self._shell = find_shell()
        self.sandbox = SessionSandbox(roots, artefacts, options)
        self.drafts = CommandDrafts(self.sandbox, options.keep_env)
        self.network = NetworkGate(self.sandbox, options.network, options.allows_host, options.state)
        self.changes = ChangesInPlace(self.sandbox, options)
        self.logs = CommandLogs(artefacts)
        self.jobs = Jobs(self._runs)

    @property
    def boundary(self) -> Boundary:
        """The boundary of commands; raises `NoSandbox` if one is required and there is none."""
        return self.sandbox.boundary

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
        if self.sandbox.services.refused:  # by a job, meanwhile
            self.sandbox.services.take_refused()
        run = self._begin(self._runs.start, command, cwd, name, given=given, keep=keep)
        ended: CommandEnd | None = None
        try:
            if on_start:
                on_start(run.order.log)
            ended = run.wait(timeout, cancel, keep)
            if ended is not None and given.on_end:
                given.on_end()
        except BaseException:
            run.end("cancelled")
            raise
        finally:
            self._note_end(run, command, given, keep, ended)
        if ended is not None:
            self._runs.done(run)
        return run, ended

    def _note_end(self, run: Run, command: str, given: CommandOptions, keep: bool, ended: CommandEnd | None) -> None:
        if _works_in_place(given) and ended is None and run.running:
            self.changes.go_on(run, command, given)
        elif _works_in_place(given):
            self.changes.end(run, command if keep else "", given)
        if ended is not None and given.ports:
            self.sandbox.services.withdraw(given.ports)

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

        run = self._begin(start, command, cwd, name, stdin, given, keep=True)
        if _works_in_place(given):
            self.changes.go_on(run, command, given)
        return started[0]

    def end(self, run: Run) -> CommandEnd:
        """The time of a command is up, and it cannot be kept."""
        ended = run.end("timeout")
        assert ended is not None
        self._runs.done(run)
        return ended

    def _begin(
        self,
        start: Callable[[CommandOrder], Run],
        command: str,
        cwd: str,
        name: str,
        stdin: bool = False,
        given: CommandOptions = NOTHING_GIVEN,
        keep: bool = False,
    ) -> Run:
        in_place = _works_in_place(given)
        if in_place:
            self.changes.begin(for_undo=keep)
        try:
            return self._start(start, command, cwd, name, stdin, given, _choose_protection(given, keep))
        except BaseException:
            if in_place:
                self.changes.cancel()
            raise

    def _start(
        self,
        start: Callable[[CommandOrder], Run],
        command: str,
        cwd: str,
        name: str,
        stdin: bool,
        given: CommandOptions,
        protection: Protection,
    ) -> Run:
        self.sandbox.require_open()
        boundary = self.boundary
        if given.streams and given.streams.offline:
            given = replace(given, network=False, filtered=False, ports=())
        proxy = self.network.open_proxy() if given.filtered and not given.network else None
        env = self._make_environment(given, proxy)
        if given.streams:
            command = given.streams.script
        if given.ports:
            self.sandbox.services.grant(given.ports)
        with self._hiding(given.draft, given.lent) as layers:
            spawn = self._make_spawn(given, protection, layers)
            order = CommandOrder(
                command,
                "",
                env,
                cwd,
                spawn,
                self._shell,
                stdin,
                boundary.namespaced,
                streams=given.streams,
                passed=given.passed,
            )
            run = self.logs.start(start, order, name)
        if proxy:
            self.network.proxies[run.order.log] = proxy
        return run

    def _make_environment(self, given: CommandOptions, proxy: FilterProxy | None) -> Mapping[str, str]:
        env = keep_harmless(given.streams.env) if given.streams else self._make_own_environment()
        if given.plain_git:
            env = with_plain_settings(env)
            # Git runs grep, gpg and others in turn: those of the workspace come last.
            env["PATH"] = os.pathsep.join([make_search_path(), *list_untrusted()])
        if given.network and given.approved:
            env |= find_variables(given.programs)
        return env | proxy.environment() if proxy else env

    def _make_own_environment(self) -> dict[str, str]:
        env = make_unattended(scrub_environment(keep=self._options.keep_env))
        env.setdefault("SHELL", self._shell)  # without it, every bash looks up the user's
        return env

    def _make_spawn(self, given: CommandOptions, protection: Protection, layers: DraftLayers | None) -> Spawn:
        offline = given.streams is not None and given.streams.offline
        network: Network | None = "off" if offline else "on" if given.network else None
        logins = find_logins(given.programs) if given.network else NO_LOGINS
        if given.signer.agent:
            logins = Logins((*logins.files, *given.signer.files), given.signer.agent)
        # What reads alone runs outside of drafts: nothing that an earlier command left in the home may steer it.
        visible = given.visible if given.visible is None or given.reads else (*given.visible, HOME)
        spawn = partial(self.boundary.spawn, network=network, protection=protection, logins=logins, visible=visible)
        if layers is None:
            return spawn
        read_only = tuple(given.streams.read_only) if given.streams else ()
        return partial(spawn, draft=replace(layers, read_only=read_only))

    @contextlib.contextmanager
    def _hiding(self, draft: OpenDraft | None, lent: Sequence[str] = ()) -> Iterator[DraftLayers | None]:
        """Hide paths from what is started meanwhile, but for ``lent``: in a draft they are absent, elsewhere covered.

        Yields the layers of the draft. Raises `BadCommand` or `OSError` if something cannot be hidden.
        """
        self.changes.look_at_repositories()
        with self.sandbox.hiding(lent):
            layers = self.drafts.make_layers(draft) if draft and isinstance(self.boundary, NamespaceBoundary) else None
            if layers is None:
                self.sandbox.require_maskable()
            self._options.tracked.note_start()
            yield layers

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
        self.sandbox.require_open()
        order = CommandOrder(
            command,
            self.logs.place_elsewhere(),
            os.environ,
            cwd,
            start_process,
            self._shell,
            budget=_MOST_OWN_OUTPUT,
            input=input,
        )
        if not confined:
            return self._wait_for_own(order, seconds, cancel)
        boundary = self.boundary
        with self._hiding(draft) as layers, contextlib.nullcontext() if draft else self.changes.following_own():
            spawn = partial(boundary.spawn, network="off", protection="protected")
            if layers and isinstance(boundary, NamespaceBoundary):
                spawn = partial(boundary.spawn, network="off", draft=layers)
            env = self._make_own_environment()
            confined_order = replace(order, env=env, namespaced=boundary.namespaced, spawn=spawn)
            return self._wait_for_own(confined_order, seconds, cancel)

    def _wait_for_own(self, order: CommandOrder, seconds: float, cancel: threading.Event | None) -> OwnCommandEnd:
        try:
            ended = self._runs.run(order, seconds, cancel)
            with open(order.log, "rb") as file:
                printed = file.read(_MOST_OWN_OUTPUT).decode("utf-8", "replace")
            return OwnCommandEnd(ended.exit_code, ended.reason, printed)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(order.log)

    def find_artefacts(self, script: Script) -> str | None:
        """The real place of the artefacts, if a command names them by what only the file tools know."""
        return None if ALIAS not in script.source or self.boundary.namespaced else self.logs.artefacts.directory

    def close(self) -> None:
        """End every command, and everything that it started. May be called again."""
        over, self.sandbox.closed = self.sandbox.closed, True
        self._runs.close()
        if self.sandbox.followed:
            self.sandbox.followed.check()
        if over:
            return
        self.drafts.wait()
        self.sandbox.close()
        self.drafts.close()
        self.logs.close()


def _works_in_place(given: CommandOptions) -> bool:
    """Whether a command may change the workspace itself."""
    return not given.draft and not given.reads


def _choose_protection(given: CommandOptions, keep: bool) -> Protection:
    """Which files are read-only for a command. ``keep``: it may run on in the background."""
    if given.reads:  # should the proof be wrong, nothing is changed
        return "workspace"
    return "protected" if keep and not (given.approved or given.draft) else "nothing"  # all else is judged at its end
