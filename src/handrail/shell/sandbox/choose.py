"""Which boundary is in force: the strongest that really works here, named and described in words a person can check.

`choose` never guesses: a layer counts once it has been started with the confinement that it is to enforce. Where none
works, it says so, or, if a boundary is required, fails.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, Unpack

from handrail.errors import NoSandbox
from handrail.programs import find_program
from handrail.shell.private_directory import PrivateDirectory
from handrail.shell.sandbox import Mode, Network
from handrail.shell.sandbox.confinement import Confinement, Protection
from handrail.shell.sandbox.environment import AGENT, NO_LOGINS, Logins, require_program, scrub_environment
from handrail.shell.sandbox.landlock_process import LandlockBoundary
from handrail.shell.sandbox.launcher_client import NoNamespaces
from handrail.shell.sandbox.namespaces import NamespaceBoundary
from handrail.shell.start_process import ProcessOptions, limit_processes, start_process
from handrail.system_calls import is_shortage


class Boundary(Protocol):
    """The limits of the file system and network that commands run in."""

    name: str
    description: str
    """One honest sentence: what it holds, and what it does not."""
    tmp: str
    """The private directory for temporary files; it goes when the boundary does."""
    namespaced: bool
    """Whether each command has a PID namespace of its own, which ends with it."""
    hides_own: bool
    """Whether commands cannot reach what Handrail keeps for itself."""
    supervises: bool
    """Whether this process makes the connections of commands to the loopback of this machine."""

    def spawn(
        self,
        args: Sequence[str],
        *,
        network: Network | None = None,
        protection: Protection = "nothing",
        logins: Logins = NO_LOGINS,
        visible: Sequence[str] | None = None,
        **how: Unpack[ProcessOptions],
    ) -> subprocess.Popen[bytes]:
        """Start a command inside, in the words of `subprocess.Popen`; without ``env`` it gets a scrubbed one.

        ``network``: replaces the level of the confinement for this command. ``protection``: the protected files that
        it finds read-only, where the boundary can mount. ``logins``: the credentials that it may use. ``visible``: the
        only trees that it sees beside its own, where the boundary can mount; None: all.
        """

    def serves(self, port: int) -> bool:
        """Whether a command serves a TCP port in a network that the next command shares."""

    def close(self) -> None: ...


class Unconfined:
    """No boundary at all. Commands can do what this user can do."""

    name = "none"
    namespaced = False
    hides_own = False
    supervises = False

    def __init__(self, confinement: Confinement, why: str) -> None:
        self.confinement = confinement
        self._private = PrivateDirectory()
        self.tmp = self._private.path
        self.description = f"Nothing confines commands: they can do what this user can do ({why})."
        self._shell = find_program("bash") or ""

    def serves(self, port: int) -> bool:  # noqa: ARG002 - this machine's network is the only one
        return False

    def spawn(
        self,
        args: Sequence[str],
        *,
        network: Network | None = None,  # noqa: ARG002 - nothing closes it here
        protection: Protection = "nothing",  # noqa: ARG002
        logins: Logins = NO_LOGINS,
        visible: Sequence[str] | None = None,  # noqa: ARG002
        **how: Unpack[ProcessOptions],
    ) -> subprocess.Popen[bytes]:
        env = how.get("env")
        given = dict(scrub_environment() if env is None else env)
        if logins.agent:
            given[AGENT] = logins.agent
        require_program(args[0], given)
        most = self.confinement.most_processes
        limited = limit_processes(args, self._shell, most) if most and self._shell else args
        how |= {"env": given}
        return start_process(limited, **how)

    def close(self) -> None:
        self._private.close()


_BOUNDARIES: Mapping[str, Callable[[Confinement], Boundary]] = {
    "namespaces": NamespaceBoundary,
    "landlock": LandlockBoundary,
}
_FIXES = {
    "namespaces": "allow user namespaces",
    "landlock": "Linux 6.2 or later, with landlock among the security modules that are switched on at boot (lsm=)",
}


def choose(mode: Mode, required: bool, confinement: Confinement) -> Boundary:
    """The strongest boundary of those asked for that works here; `NoSandbox` if one is required and none does."""
    why: list[str] = []
    for layer in _BOUNDARIES if mode == "auto" else () if mode == "off" else (mode,):
        try:
            boundary = _BOUNDARIES[layer](confinement)
        except OSError as error:
            if is_shortage(error):  # says nothing about the layer
                raise
            why.append(str(error))
            continue
        if why:
            boundary.description += f" Stronger sandboxes do not work here: {'; '.join(why)}."
        return boundary
    reason = "; ".join(why) or "switched off"
    if required:
        raise NoSandbox(mode=mode, why=reason)
    return Unconfined(confinement, reason)


class Layer(NamedTuple):
    """One kind of sandbox on this machine."""

    name: str
    works: bool
    why: str
    """What it holds, or why it does not start."""
    fix: str = ""


def try_layers() -> Iterator[Layer]:
    """Start each kind of sandbox around an empty directory."""
    for name, make in _BOUNDARIES.items():
        with tempfile.TemporaryDirectory(prefix="handrail-probe-") as folder:
            try:
                boundary = make(Confinement((folder,)))
            except OSError as error:
                fix = error.fix if isinstance(error, NoNamespaces) else ""
                yield Layer(name, False, str(error).removeprefix(f"{name}: "), fix or _FIXES[name])
            else:
                boundary.close()
                yield Layer(name, True, boundary.description.rstrip("."))
