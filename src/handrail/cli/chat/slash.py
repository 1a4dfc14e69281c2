"""The slash commands of a chat, which go to Handrail and not to the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from handrail.cli.chat.changes import NoChange, calls, net_diff, undo_last
from handrail.cli.chat.summary import MARKS
from handrail.cli.output import UsageError
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.cli.chat.opening import Work

COMMANDS = {
    "help": "show these commands and the keys",
    "tools": "list the tools of the model",
    "diff": "show all changes of this conversation",
    "undo": "undo the last change",
    "log": "list the last calls",
    "mode": "show or set the approval mode: /mode accept-edits",
    "model": "show or change the model, and keep the conversation: /model M",
    "compact": "compact the conversation now",
    "clear": "start a new conversation",
    "quit": "quit; the conversation is saved",
}
_KEYS = """\
Enter sends; Alt-Enter, or a backslash at the end of a line, starts a new line; pasted text keeps its lines.
@ names a file of the project and completes it. Ctrl-C stops a reply or a command, twice quits; Ctrl-D quits."""
_LAST = 20


def is_command(text: str) -> bool:
    """Whether a message is a command; a path such as /etc/hosts is none."""
    return text.startswith("/") and "/" not in text.split()[0][1:]


class Slash:
    """Run slash commands. Remarks for the model are collected in `notes` for the next message."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._say = work.screen.say
        self.notes: list[str] = []
        self._commands: dict[str, Callable[[str], None]] = {
            name: getattr(self, f"_{name}") for name in COMMANDS if name != "quit"
        }

    def run(self, text: str) -> bool:
        """Run a command; False to quit."""
        name, _, rest = text[1:].strip().partition(" ")
        if name in ("quit", "exit"):
            return False
        if name not in self._commands:
            near = get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean /{near[0]}?" if near else "/help lists them"
            self._say(f"unknown command /{escape(name)}; {hint}", "red")
            return True
        try:
            self._commands[name](rest.strip())
        except (NoChange, UsageError) as error:
            self._say(str(error), "yellow")
        return True

    def choices(self, name: str) -> Sequence[str]:
        """Return the completions of a command's argument."""
        if name == "mode":
            from handrail.policy.modes import MODES

            return MODES
        return (self._work.plan.model,) if name == "model" else ()

    def _help(self, _: str) -> None:
        self._say("\n".join(f"/{name:<9} {about}" for name, about in COMMANDS.items()))
        self._say(_KEYS, "dim")

    def _tools(self, _: str) -> None:
        from handrail.cli.tools import first_sentence

        session = self._work.session
        specs = session.specs()
        wide = max((len(spec.name) for spec in specs), default=0)
        self._say(f"dialect {escape(session.dialect.name)}", "bold")
        self._say("\n".join(f"{escape(spec.name):<{wide}}  {first_sentence(spec.description)}" for spec in specs))

    def _diff(self, _: str) -> None:
        diff = net_diff(self._work.session)
        if diff:
            self._work.screen.diff(diff)
        else:
            self._say("nothing has changed in this conversation", "dim")

    def _undo(self, _: str) -> None:
        report = undo_last(self._work.session)
        words = {"changed": "set back", "created": "brought back", "deleted": "removed again", "mode": "mode restored"}
        for one in report.restored:
            self._say(f"{words[one.how]}  {escape(one.path)}", "green")
        for conflict in report.conflicts:
            self._say(f"left alone  {escape(conflict.path)}: {conflict.why}", "yellow")
        for path in report.missing:
            self._say(f"not kept  {escape(path)}: its old contents are not in the journal", "red")
        if report.restored:
            paths = ", ".join(escape(one.path) for one in report.restored)
            self.notes.append(f"[The user undid the last change. Restored: {paths}]")

    def _log(self, _: str) -> None:
        rows = calls(self._work.session, _LAST)
        for row in rows:
            mark, style = MARKS.get(row.status, ("-", "yellow"))
            accessed = ", ".join(f"{action} {escape(target)}" for action, target, *_ in row.accesses)
            took = f"{row.duration / 1000:.2f} s" if row.duration is not None else ""
            self._say(f"{row.seq:>5} {mark} {escape(row.tool):<10} {took:>8}  {accessed[:100]}", style)
        self._say("`handrail show N` shows one in full" if rows else "no calls yet", "dim")

    def _mode(self, word: str) -> None:
        from handrail.policy.modes import MODES

        session = self._work.session
        if not word:
            self._say(f"mode {getattr(session.policy, 'mode', '-')}; the modes are {', '.join(MODES)}")
        elif word not in MODES:
            raise UsageError(f"unknown mode {escape(word)}; the modes are {', '.join(MODES)}")
        else:
            session.set_mode(word)
            self._say(f"mode {word}", "green")

    def _model(self, name: str) -> None:
        from handrail.agent.providers import ModelError, api_of, family
        from handrail.cli.chat.plan import require_reachable

        work = self._work
        if not name:
            self._say(f"model {escape(work.plan.model)}, API {work.plan.api}, dialect {escape(work.plan.dialect)}")
            return
        api = work.plan.options.api or api_of(name, os.environ)
        require_reachable(name, api, os.environ)
        try:
            work.change_model(name, api, work.plan.options.window or family(name).window)
        except ModelError as error:
            raise UsageError(str(error)) from None
        self._say(
            f"model {escape(name)}; the conversation and the tools ({escape(work.plan.dialect)}) are unchanged", "green"
        )

    def _compact(self, _: str) -> None:
        from handrail.agent.providers import Cancelled, ModelError

        agent = self._work.opened
        if agent is None:
            self._say("there is no conversation yet", "dim")
            return
        self._work.restart()
        try:
            with self._work.interrupts, self._work.screen.running(self._work.meter.line, self._work.tail):
                agent.compact(self._work.stopping)
        except (Cancelled, KeyboardInterrupt):
            self._say("stopped; the conversation is unchanged", "yellow")
        except ModelError as error:
            raise UsageError(str(error)) from None
        self._work.meter.used = agent.history.tokens

    def _clear(self, _: str) -> None:
        self._work.forget()
        self.notes.clear()
        self._say("new conversation; no file was changed", "green")
