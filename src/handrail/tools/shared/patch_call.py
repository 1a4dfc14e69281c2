"""The virtual command: a command line that is one patch and nothing else, applied in this process, without a shell."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from handrail.errors import BadPath, IsDirectory, NotFound
from handrail.files.pages import TextFile
from handrail.files.versions import Stored, Subtree
from handrail.model import Access, NetworkGrant
from handrail.search.tree import SearchTree
from handrail.shell.command_host import CommandHost
from handrail.shell.patch_command import PatchCall, as_patch
from handrail.shell.start_process import CommandStreams
from handrail.text.document import Splice
from handrail.text.line_tags import ShownTags
from handrail.tools import apply_patch
from handrail.tools.tool import CommandDraft, Context, Loaded, Outcome, RecalledTags, Staged

T = TypeVar("T")


def find_patch(command: str) -> PatchCall | None:
    """The patch that a command is; None if it is any other command."""
    return as_patch(["bash", "-c", command])


def accesses(call: PatchCall, workdir: str) -> list[Access]:
    """The accesses of a patch, and the directory that its paths start from."""
    base = _find_base(call, workdir)
    inside = [
        replace(
            access,
            target=_join_below(base, access.target),
            instead=_join_below(base, access.instead) if access.instead else "",
        )
        for access in apply_patch.accesses(_patch_arguments(call))
    ]
    return [Access("read", base), *inside] if base else inside


def run(
    call: PatchCall, workdir: str, ctx: Context[apply_patch.Limits], *, add_overwrites: bool = False
) -> Outcome[apply_patch.Facts]:
    """Apply the patch; its paths start from the directory of the command."""
    base = _find_base(call, workdir)
    if not base:
        return apply_patch.apply_patch(_patch_arguments(call), ctx, add_overwrites=add_overwrites)
    _require_directory(base, ctx)
    outcome = apply_patch.apply_patch(_patch_arguments(call), _ContextBelow(base, ctx), add_overwrites=add_overwrites)
    moved = [
        replace(one, path=_join_below(base, one.path), source=_join_below(base, one.source) if one.source else None)
        for one in outcome.facts.done
    ]
    return replace(outcome, data=apply_patch.Data(files=[apply_patch.file_data(one) for one in moved]))


def _patch_arguments(call: PatchCall) -> apply_patch.Args:
    return apply_patch.Args(patch=call.patch)


def _find_base(call: PatchCall, workdir: str) -> str:
    """The directory that the command runs in, as `cd` would understand it; empty for the workspace itself."""
    base = posixpath.normpath(posixpath.join(workdir, call.directory)) if workdir or call.directory else ""
    return "" if base == "." else base


def _join_below(base: str, named: str) -> str:
    return posixpath.normpath(posixpath.join(base, named))


def _require_directory(base: str, ctx: Context[apply_patch.Limits]) -> None:
    try:
        if ctx.exists(base):
            raise BadPath(path=base, why="it is not a directory")
    except IsDirectory:
        return
    raise NotFound(path=base)


class _ContextBelow:
    """The context of a patch whose paths start from another directory: the same files, under longer names."""

    def __init__(self, base: str, ctx: Context[apply_patch.Limits]) -> None:
        self._base = base
        self._ctx = ctx

    @property
    def limits(self) -> apply_patch.Limits:
        return self._ctx.limits

    @property
    def draft(self) -> CommandDraft | None:
        return self._ctx.draft

    @property
    def streams(self) -> CommandStreams | None:
        return self._ctx.streams

    @property
    def command_host(self) -> CommandHost:
        return self._ctx.command_host

    def is_own_program(self, name: str, where: str) -> bool:
        return self._ctx.is_own_program(name, where)

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        return self._ctx.trusts_fetch(service, addresses)

    def needs_port(self, port: int) -> bool:
        return self._ctx.needs_port(port)

    def lend_secrets(self) -> tuple[str, ...]:
        return self._ctx.lend_secrets()

    def list_visible(self, proven: bool, git: str = "") -> tuple[str, ...] | None:
        return self._ctx.list_visible(proven, git)

    def is_sent_again(self) -> bool:
        return self._ctx.is_sent_again()

    def unreached_host(self, command: str) -> str | None:
        return self._ctx.unreached_host(command)

    @property
    def network(self) -> NetworkGrant:
        return self._ctx.network

    @property
    def approved(self) -> bool:
        return self._ctx.approved

    @property
    def call_id(self) -> str:
        return self._ctx.call_id

    @property
    def cancel(self) -> threading.Event | None:
        return self._ctx.cancel

    def wait_for(self, awaitable: Awaitable[T]) -> T:
        return self._ctx.wait_for(awaitable)

    def report_progress(self, message: str, done: float | None = None, total: float | None = None) -> None:
        self._ctx.report_progress(message, done, total)

    def follow_output(self, log: str) -> None:
        self._ctx.follow_output(log)

    def real(self, named: str) -> str:
        return self._ctx.real(self._join_path(named))

    def is_instead(self, named: str) -> bool:
        return self._ctx.is_instead(self._join_path(named))

    def resolve_directory(self, named: str) -> str:
        return self._ctx.resolve_directory(self._join_path(named))

    def watch(self) -> Callable[[], list[str]]:
        return self._ctx.watch()

    def open_result(self, tree: SearchTree, inner: str) -> TextFile | None:
        return self._ctx.open_result(tree, inner)

    def show_tags(self, file: TextFile | Stored, first: int, last: int) -> None:
        self._ctx.show_tags(file, first, last)

    def recall_tags(self, loaded: Loaded) -> RecalledTags | None:
        return self._ctx.recall_tags(loaded)

    def keep_tags(self, loaded: Loaded, tags: ShownTags) -> None:
        self._ctx.keep_tags(loaded, tags)

    def _join_path(self, named: str) -> str:
        return _join_below(self._base, named)

    def open(self, named: str) -> TextFile:
        return self._ctx.open(self._join_path(named))

    def tree(self, named: str) -> SearchTree:
        return self._ctx.tree(self._join_path(named))

    def mark_seen(self, file: TextFile, first: int = 0, last: int = 0) -> None:
        self._ctx.mark_seen(file, first, last)

    def changed_since_read(self, file: TextFile) -> bool:
        return self._ctx.changed_since_read(file)

    def exists(self, named: str) -> bool:
        return self._ctx.exists(self._join_path(named))

    def load(self, named: str, *, whole: bool = False, unseen: bool = False, quoted: Sequence[str] = ()) -> Loaded:
        return self._ctx.load(self._join_path(named), whole=whole, unseen=unseen, quoted=quoted)

    def stage(self, named: str, loaded: Loaded | None, splices: Sequence[Splice]) -> Staged:
        return self._ctx.stage(self._join_path(named), loaded, splices)

    def stage_bytes(self, named: str, loaded: Loaded | None, raw: bytes) -> Staged:
        return self._ctx.stage_bytes(self._join_path(named), loaded, raw)

    def remove(self, named: str, loaded: Loaded) -> Staged:
        return self._ctx.remove(self._join_path(named), loaded)

    def is_link(self, named: str) -> bool:
        return self._ctx.is_link(self._join_path(named))

    def read_subtree(self, named: str) -> Subtree:
        return self._ctx.read_subtree(self._join_path(named))

    def stage_subtree(self, named: str, subtree: Subtree, to: str | None = None) -> None:
        self._ctx.stage_subtree(self._join_path(named), subtree, None if to is None else self._join_path(to))

    def move(
        self, named: str, target: str, loaded: Loaded, splices: Sequence[Splice], over: Loaded | None = None
    ) -> Staged:
        return self._ctx.move(self._join_path(named), self._join_path(target), loaded, splices, over)
