"""Run a function with a session in one workspace: what each worker of a fleet does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from handrail.errors import ToolError
from handrail.files.locks import state_directory
from handrail.fleet.workspaces import FleetWorkspace, build_workspace
from handrail.frozen import frozen
from handrail.pipeline.session import Session

_MOST_CHARS = 4000
Work = Callable[[Session, FleetWorkspace], Any]


@frozen
class FleetResult:
    """The end of the work in one workspace."""

    workspace: str
    value: Any = None
    """What the function returned."""
    error: str = ""
    """Why there is no value: the exception of the function, or why the workspace cannot be built."""
    built: str = ""
    """`copy` or `reflink`, and `reopened` if an earlier worker has built it."""
    build_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.error


def find_base() -> str:
    """Where the workspaces of fleets are on this machine."""
    return os.path.join(state_directory(None), "fleet")


def open_session(workspace: FleetWorkspace, run: str, options: Mapping[str, Any]) -> tuple[Session, FleetResult]:
    """A session in a workspace, with the cost of building it. Whoever opens it again repeats no finished call."""
    place = build_workspace(workspace, os.path.join(find_base(), run))
    mode = options.get("mode", "accept-edits")
    words = [sys.executable, "-P", "-m", "handrail", "serve", "--stdio", "--mode", mode, "--", place.path]
    session = Session.connect(words, **options, name=f"{run}/{workspace.name}/{place.attempt}")
    return session, FleetResult(workspace.name, built=place.built, build_seconds=place.seconds)


def work_in(workspace: FleetWorkspace, work: Work, run: str, options: Mapping[str, Any]) -> FleetResult:
    """Run a function in a workspace; raises what it raises. A workspace that cannot be opened is a result."""
    try:
        session, cost = open_session(workspace, run, options)
    except (OSError, ValueError, ToolError) as error:
        return FleetResult(workspace.name, error=f"cannot open the workspace: {error}"[:_MOST_CHARS])
    with session:
        return replace(cost, value=work(session, workspace))
