"""The virtual command: a command line that is one patch and nothing else, applied in this process, without a shell."""

from __future__ import annotations

import posixpath
from dataclasses import replace
from functools import partial

from handrail.errors import BadPath, IsDirectory, NotFound
from handrail.model import FileAccess
from handrail.shell.patch_command import PatchCall, as_patch
from handrail.tools import apply_patch
from handrail.tools.tool import Context, Outcome


def find_patch(command: str) -> PatchCall | None:
    """The patch that a command is; None if it is any other command."""
    return as_patch(["bash", "-c", command])


def accesses(call: PatchCall, workdir: str) -> list[FileAccess]:
    """The accesses of a patch, and the directory that its paths start from."""
    base = _find_base(call, workdir)
    declared = apply_patch.accesses(_patch_arguments(call))
    if not base:
        return declared
    join = partial(apply_patch.join_below, base)
    inside = [replace(one, target=join(one.target), instead=one.instead and join(one.instead)) for one in declared]
    return [FileAccess("read", base), *inside]


def run(
    call: PatchCall, workdir: str, ctx: Context[apply_patch.Limits], *, add_overwrites: bool = False
) -> Outcome[apply_patch.Facts]:
    """Apply the patch; its paths start from the directory of the command."""
    base = _find_base(call, workdir)
    if base:
        _require_directory(base, ctx)
    return apply_patch.apply_patch(_patch_arguments(call), ctx, add_overwrites=add_overwrites, base=base)


def _patch_arguments(call: PatchCall) -> apply_patch.Args:
    return apply_patch.Args(patch=call.patch)


def _find_base(call: PatchCall, workdir: str) -> str:
    """The directory that the command runs in, as `cd` would understand it; empty for the workspace itself."""
    base = posixpath.normpath(posixpath.join(workdir, call.directory)) if workdir or call.directory else ""
    return "" if base == "." else base


def _require_directory(base: str, ctx: Context[apply_patch.Limits]) -> None:
    try:
        if ctx.exists(base):
            raise BadPath(path=base, why="it is not a directory")
    except IsDirectory:
        return
    raise NotFound(path=base)
