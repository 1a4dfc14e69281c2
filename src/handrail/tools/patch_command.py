"""The virtual command: a command line that is one patch and nothing else, applied in this process, without a shell."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from handrail.errors import BadPath, Denied, IsDirectory, NotFound
from handrail.files.pages import TextFile
from handrail.nouns import Touch
from handrail.shell.parse import PatchCall, as_patch
from handrail.text.document import Splice
from handrail.tool import Arguments, Context, Hints, Loaded, Outcome, Staged, Tool, Words
from handrail.tools import apply_patch

_NO_SHELL = (
    'commands cannot be run here yet; the only one is apply_patch, as ["apply_patch", PATCH] or as'
    ' ["bash", "-lc", "apply_patch <<\'EOF\' ... EOF"], with nothing around it'
)


class Args(Arguments):
    command: Annotated[list[str], Field(description="The command and its arguments")]
    workdir: Annotated[str | None, Field(description="The directory to run it in")] = None
    timeout_ms: Annotated[int | None, Field(description="How long it may take; a patch takes no time")] = None


@dataclass(frozen=True, slots=True)
class Limits(apply_patch.Limits):
    """What a dialect may set: the same as for ApplyPatch."""


def touches(args: Args) -> list[Touch]:
    """What the patch touches, and the directory that its paths start from."""
    call = _patch(args)
    base = _base(args, call)
    inside = [Touch(touch.action, _below(base, touch.target)) for touch in apply_patch.touches(_handed(call))]
    return [Touch("read", base), *inside] if base else inside


def run(args: Args, ctx: Context) -> Outcome:
    call = _patch(args)
    base = _base(args, call)
    if not base:
        return apply_patch.run(_handed(call), ctx)
    _require_directory(base, ctx)
    outcome = apply_patch.run(_handed(call), _Below(base, ctx))
    for file in outcome.data["files"]:
        file.update({key: _below(base, file[key]) for key in ("path", "from") if key in file})
    return outcome


def _patch(args: Args) -> PatchCall:
    call = as_patch(args.command)
    if call is None:
        raise Denied(rule="no shell", why=_NO_SHELL)
    return call


def _handed(call: PatchCall) -> apply_patch.Args:
    return apply_patch.Args(patch=call.patch)


def _base(args: Args, call: PatchCall) -> str:
    """The directory that the command runs in, as `cd` would understand it; empty for the workspace itself."""
    base = posixpath.join(args.workdir or "", call.directory)
    return posixpath.normpath(base) if base else ""


def _below(base: str, named: str) -> str:
    return posixpath.normpath(posixpath.join(base, named))


def _require_directory(base: str, ctx: Context) -> None:
    try:
        if ctx.exists(base):
            raise BadPath(path=base, why="it is not a directory")
    except IsDirectory:
        return
    raise NotFound(path=base)


class _Below:
    """The context of a patch whose paths start from another directory: the same files, under longer names."""

    def __init__(self, base: str, ctx: Context) -> None:
        self._base = base
        self._ctx = ctx

    @property
    def limits(self) -> Any:
        return self._ctx.limits

    def _long(self, named: str) -> str:
        return _below(self._base, named)

    def open(self, named: str) -> TextFile:
        return self._ctx.open(self._long(named))

    def saw(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        self._ctx.saw(file, first, last)

    def exists(self, named: str) -> bool:
        return self._ctx.exists(self._long(named))

    def load(self, named: str, *, whole: bool = False, unseen: bool = False) -> Loaded:
        return self._ctx.load(self._long(named), whole=whole, unseen=unseen)

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        return self._ctx.stage(self._long(named), loaded, splices)

    def remove(self, named: str, loaded: Loaded) -> Staged:
        return self._ctx.remove(self._long(named), loaded)

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        return self._ctx.move(self._long(named), self._long(target), loaded, splices, over)


def say(outcome: Outcome, words: Words) -> str:
    return apply_patch.say(outcome, words)


TOOL = Tool(
    id="patch_command", args=Args, limits=Limits, run=run, say=say, hints=Hints(destructive=True), touches=touches
)
