"""What the command of a call needs besides the files of the call: its host, its draft, and what was allowed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from handrail.errors import NoSandbox
from handrail.model import NO_NETWORK, CommandAccess, FileAccess
from handrail.pipeline.call_state import Approved, Judged
from handrail.pipeline.events import ToolOutput
from handrail.pipeline.live_output import OutputFollower
from handrail.pipeline.services import Services
from handrail.secrets.redaction import LentSecrets
from handrail.tools.tool import CommandDraft, DraftTools

if TYPE_CHECKING:
    from handrail.shell.command_host import CommandHost

_MAGIC = re.compile(r"[*?\[{\\]")


class CallCommands:
    """The `CommandContext` of one call."""

    def __init__(
        self,
        services: Services,
        judged: Judged,
        approved: Approved | None,
        draft: CommandDraft | None,
        report: Callable[[str], None],
    ) -> None:
        """``approved``: None for a preview, which runs no command. ``report`` tells the host about progress."""
        self.draft = draft
        self.network = approved.network if approved else NO_NETWORK
        self.approved = approved.by_person if approved else False
        self.streams = judged.received.streams
        self._services = services
        self._received = judged.received
        self._accesses = judged.accesses
        self._dry = approved is None
        self._report = report
        self._follower: OutputFollower | None = None

    def close(self) -> None:
        if self._follower:
            self._follower.close()

    @property
    def host(self) -> CommandHost:
        if self._dry:  # a preview must never run anything
            raise AssertionError("a preview runs no commands")
        return self._opened

    @property
    def _opened(self) -> CommandHost:
        return self._services.host or self._services.command_host()

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        return self._opened.network.trusts_fetch(service, addresses)

    @property
    def runs_in_draft(self) -> bool:
        return any(isinstance(one, CommandAccess) and one.deferred for one in self._accesses)

    def is_own_program(self, name: str, where: str) -> bool:
        return self._opened.sandbox.finds_own_program(name, where)

    def needs_port(self, port: int) -> bool:
        return self._opened.network.needs_port(port)

    def reaches_agents(self) -> bool:
        return self._opened.network.filters

    def unreached_host(self, command: str) -> str | None:
        return self._opened.network.unreached.get(command)

    def follow_output(self, log: str) -> None:
        if self._received.is_heard(self._services.on_event):
            call, listener = self._received.call, self._received.on_event
            hide, send = self._services.hide, self._services.events.send
            self._follower = OutputFollower(
                log,
                lambda text, omitted: send(ToolOutput(call, hide(text), omitted), listener),
                lambda: self._report("running"),
            )

    def lend_secrets(self) -> tuple[str, ...]:
        lent = [one for one in self._accesses if isinstance(one, FileAccess) and one.lent_to]
        if not lent:
            return ()
        paths = tuple(path for one in lent for path in (self._locate_read(one.target, one.glob), one.path))
        self._services.redactions.insert(0, LentSecrets(paths))
        return paths

    def list_visible(self, proven: bool, git: str = "") -> tuple[str, ...] | None:
        list_trees = getattr(self._services.approvals.policy, "visible_trees", None)
        trees: Sequence[str] | None = list_trees() if list_trees else None
        if trees is None:
            return None
        reads = [
            one for one in self._accesses if isinstance(one, FileAccess) and one.action == "read" and one.by_command
        ]
        named = [
            self._locate_read(one.target, one.glob) for one in reads if proven or one.sees not in ("names", "tracked")
        ]
        # What the words of unknown programs name: a person was asked about these too.
        mentions = [
            one
            for access in self._accesses
            if isinstance(access, CommandAccess) and self.approved
            for one in access.mentions
            if one.kind != "name"
        ]
        used = [self._locate_read(one.path, one.kind == "pattern") for one in mentions]
        if used or (proven and git):
            from handrail.shell.sandbox.visible import list_looked_at, list_named  # only needed for such commands

            named += [*list_named(used), *(list_looked_at(git) if proven and git else ())]
        return (*trees, *named)

    def _locate_read(self, target: str, glob: bool) -> str:
        """The path that a command reads, as it names it; of a pattern the directory that it begins in."""
        named = os.path.expanduser(self._services.workspace.expand_alias(target))
        if glob:
            named = os.path.dirname(_MAGIC.split(named, maxsplit=1)[0])
        return os.path.join(os.path.realpath(self._services.workspace.home), named)

    def open_draft_tools(self) -> DraftTools:
        if self.draft is None:
            raise NoSandbox(mode="drafts", why="scripts run in drafts alone, and this machine has none")
        return self._services.open_draft_tools(self.draft.open_draft, self.draft.begin())
