"""Run a function with a session in one workspace: what each worker of a fleet does."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from handrail.drafts.store import NoDraft
from handrail.errors import ToolError
from handrail.files.locks import state_directory
from handrail.fleet.workspaces import WHOLE_DRAFT, BuiltWorkspace, FleetWorkspace, build_workspace
from handrail.frozen import frozen
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.options import ConnectOptions
from handrail.pipeline.remote_session import RemoteSession
from handrail.pipeline.session_draft import SessionDraft
from handrail.policy.modes import DEFAULT_MODE

_MOST_CHARS = 4000
Work = Callable[[AnySession, FleetWorkspace], object]


@frozen
class FleetResult:
    """The end of the work in one workspace."""

    workspace: str
    value: Any = None
    """What the function returned."""
    error: str = ""
    """Why there is no value: the exception of the function, or why the workspace cannot be built."""
    built: str = ""
    """`draft`, `reflink` or `copy`, and `reopened` if an earlier worker has built it."""
    build_seconds: float = 0.0
    node: str = ""
    """The machine of the cluster that has the workspace, by its id in Ray."""

    @property
    def ok(self) -> bool:
        return not self.error


def find_base() -> str:
    """Where the workspaces of fleets are on this machine."""
    return os.path.join(state_directory(None), "fleet")


def list_server_words(
    workspace: FleetWorkspace, run: str, mode: str, *, beside: bool = False
) -> tuple[list[str], BuiltWorkspace]:
    """Build a workspace, or find it; returns the command of its server, and the cost. Raises `OSError`.

    ``beside``: serve the prepared copy under the draft instead; raises `NoDraft` if the workspace is a copy itself.
    """
    if beside:
        workspace = replace(workspace, after_restart="reopen")
    place = build_workspace(workspace, os.path.join(find_base(), run))
    words = [sys.executable, "-P", "-m", "handrail", "serve", "--stdio", "--mode", mode]
    if place.draft:
        words = ["env", f"HANDRAIL_STATE={place.state}", *words, *([] if beside else ["--draft", place.draft])]
    elif beside:
        place.opened.close()
        raise NoDraft(errno.ENOTSUP, "this workspace is a copy, not a draft", workspace.name)
    return [*words, "--", place.path], place


def open_session(workspace: FleetWorkspace, run: str, options: ConnectOptions) -> tuple[AnySession, FleetResult]:
    """A session in a workspace, with the cost of building it. Whoever opens it again repeats no finished call."""
    words, place = list_server_words(workspace, run, options.get("mode") or DEFAULT_MODE)
    options = {**options, "name": f"{run}/{workspace.name}/{place.attempt}"}
    session = _WorkspaceSession(words, options, place)
    return session, FleetResult(workspace.name, built=place.built, build_seconds=place.seconds)


def open_beside(workspace: FleetWorkspace, run: str, options: ConnectOptions) -> AnySession:
    """A session on the prepared copy of which a workspace is a draft."""
    words, place = list_server_words(workspace, run, options.get("mode") or DEFAULT_MODE, beside=True)
    return _WorkspaceSession(words, options, place)


@contextmanager
def open_draft(session: AnySession) -> Iterator[SessionDraft[AnySession]]:
    """The draft that a workspace is, by the session beside it, which is closed at the end."""
    with session, session.draft(WHOLE_DRAFT) as draft:
        yield draft


class _WorkspaceSession(RemoteSession):
    """A session in a workspace, which does not expire before it is closed."""

    def __init__(self, words: Sequence[str], options: ConnectOptions, place: BuiltWorkspace) -> None:
        with ExitStack() as stack:
            stack.enter_context(place.opened)
            super().__init__(words, options)
            self._opened = stack.pop_all()

    def close(self) -> None:
        super().close()
        self._opened.close()


def work_in(workspace: FleetWorkspace, work: Work, run: str, options: ConnectOptions) -> FleetResult:
    """Run a function in a workspace; raises what it raises. A workspace that cannot be opened is a result."""
    try:
        session, cost = open_session(workspace, run, options)
    except (OSError, ValueError, ToolError) as error:
        return FleetResult(workspace.name, error=f"cannot open the workspace: {error}"[:_MOST_CHARS])
    with session:
        return replace(cost, value=work(session, workspace), node=find_node())


def find_node() -> str:
    """The machine of the cluster that this process is on; empty outside of Ray."""
    ray: Any = sys.modules.get("ray")
    return str(ray.get_runtime_context().get_node_id()) if ray and ray.is_initialized() else ""
