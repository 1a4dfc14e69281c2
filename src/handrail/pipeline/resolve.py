"""The declare and resolve steps: from typed arguments to accesses, and from names to paths of the workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from handrail import tools
from handrail.model import Access
from handrail.pipeline.call_state import Declared, Parsed, Resolved
from handrail.workspace import WorkPath, Workspace, itself

FILE_ACTIONS = ("read", "write", "delete")


def declare(parsed: Parsed) -> Declared:
    """Every access that the call will make; raises what is wrong with a patch or a command."""
    tool, accesses = parsed.tool, parsed.tool.declare(parsed.args)
    if not accesses and not tool.hints.read_only and parsed.entry.id not in tools.ids():
        accesses = (Access("call", parsed.entry.name),)  # a tool of the host's own is judged whatever it declares
    return Declared(parsed, accesses)


def resolve(declared: Declared, workspace: Workspace) -> Resolved:
    """The real path of every access; raises if the tool itself would leave the workspace.

    A path in a command may lie anywhere: policy and sandbox judge that.
    """
    files = [access for access in declared.accesses if access.action in FILE_ACTIONS and not access.by_command]
    paths = {access.target: workspace.resolve(access.target) for access in files}
    return Resolved(declared, tuple(_locate(access, paths, workspace) for access in declared.accesses), paths)


def _locate(access: Access, paths: Mapping[str, WorkPath], workspace: Workspace) -> Access:
    """The access with its real path."""
    if access.action not in FILE_ACTIONS:
        return replace(access, place=paths[access.place].real) if access.place in paths else access
    if not access.by_command:
        return replace(access, path=paths[access.target].real)
    home, target = os.path.realpath(workspace.home), workspace.expand_alias(access.target)
    named = os.path.join(home, os.path.expanduser(target))
    real = os.path.realpath(named)
    if access.action == "delete" and not access.below and os.path.islink(named):
        return replace(access, path=itself(named))
    if access.into and os.path.isdir(real):
        return replace(access, target=os.path.join(access.target, access.into), path=os.path.join(real, access.into))
    return replace(access, path=real)
