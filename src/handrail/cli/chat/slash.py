"""The slash commands of a chat, which go to Handrail and not to the model."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from handrail.agent.providers import Cancelled, ModelError, api_of, family
from handrail.cli.chat.changes import NoChange, list_calls, make_session_diff, undo_last
from handrail.cli.chat.export import export_conversation
from handrail.cli.chat.own_command import run_own_command
from handrail.cli.chat.plan import require_reachable
from handrail.cli.chat.rewind import list_points, require_point, rewind
from handrail.cli.chat.summary import MARKS
from handrail.cli.output import UsageError
from handrail.cli.tools import get_first_sentence
from handrail.cli.undo import describe_report
from handrail.policy.modes import MODES
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.agent.loop import Agent
    from handrail.cli.chat.opening import Work
    from handrail.journal.undo import UndoReport

COMMANDS = {
    "help": "show these commands and the keys",
    "tools": "list the tools of the model",
    "diff": "show all changes of this conversation",
    "undo": "undo the last change",
    "redo": "redo what the last undo took back",
    "rewind": "go back to before a message, files included: /rewind lists them, /rewind 1 takes the last",
    "export": "write the conversation to a file: /export notes.md or notes.html",
    "log": "list the last calls",
    "mode": "show or set the approval mode: /mode accept-edits",
    "model": "show or change the model, and keep the conversation: /model M",
    "compact": "compact the conversation now",
    "clear": "start a new conversation",
    "quit": "quit; the conversation is saved",
}
_KEYS = {
    "Enter": "send; Alt-Enter, or a backslash at the end, starts a new line",
    "@": "name a file of the project; a picture is sent along",
    "!": "run a command of your own: !make test; with !! the model sees it too",
    "Ctrl-C": "stop a reply or a command; twice quits, as does Ctrl-D",
    "Ctrl-O": "show the last folded text in full",
    "Esc Esc": "list the messages to rewind to",
}
_LAST = 20


def is_command(text: str) -> bool:
    """Whether a message is a command; a path such as /etc/hosts is none."""
    return text.startswith("/") and "/" not in text.split()[0][1:]


class Slash:
    """Run slash commands. Remarks for the model are collected in `notes` for the next message."""

    def __init__(self, work: Work, prefill: Callable[[str], None] = lambda _: None) -> None:
        self._work = work
        self._prefill = prefill
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
            return MODES
        return (self._work.plan.model,) if name == "model" else ()

    def _help(self, _: str) -> None:
        self._say("\n".join(f"/{name:<9} {about}" for name, about in COMMANDS.items()))
        self._say("\n".join(f"{key:<10} {about}" for key, about in _KEYS.items()), "dim")

    def _tools(self, _: str) -> None:
        session = self._work.session
        specs = session.specs()
        wide = max((len(spec.name) for spec in specs), default=0)
        self._say(f"dialect {escape(session.dialect.name)}", "bold")
        self._say("\n".join(f"{escape(spec.name):<{wide}}  {get_first_sentence(spec.description)}" for spec in specs))

    def _diff(self, _: str) -> None:
        diff = make_session_diff(self._work.session)
        if diff:
            self._work.screen.diff(diff)
        else:
            self._say("nothing has changed in this conversation", "dim")

    def run_command(self, text: str) -> None:
        """Run the person's own command; with a second `!` the model gets its output."""
        command = text.removeprefix("!").strip()
        if not command:
            self._say("give a command, as in !make test", "yellow")
            return
        work = self._work
        if work.plan.is_remote:
            self._say("commands of your own run on this machine, and the project is on another one", "yellow")
            return
        work.restart()
        try:
            with work.interrupts, work.screen.running(work.meter.line, work.tail):
                ended = run_own_command(command, work.plan.workspace, work.stopping)
        except OSError as error:
            self._say(f"the command cannot be started: {error.strerror}", "red")
            return
        self._say(ended.output.rstrip("\n") or "(no output)")
        shown = "the model will see it" if text.startswith("!") else "not shown to the model"
        self._say(f"exit {ended.code} · {shown}", "red" if ended.code else "dim")
        if text.startswith("!"):
            self.notes.append(ended.describe())

    def _rewind(self, word: str) -> None:
        agent = self._work.opened or (self._open_agent() if self._work.plan.turns else None)
        points = list_points(agent.history.turns) if agent else []
        if agent is None or not points:
            raise NoChange("there is no message of this chat to go back to")
        if not word:
            rows = [
                f"{n:>3}  {' '.join(escape(point.text[:400]).split())[:90]}" for n, point in enumerate(points[:20], 1)
            ]
            self._say("\n".join([*rows, "/rewind N goes back to before that message, conversation and files together"]))
            self._prefill("/rewind ")
            return
        point = require_point(points, word)
        self._report_undo(rewind(self._work.session, agent.history, point))
        self._work.meter.used = agent.history.tokens
        self.notes.clear()
        self._say(f"back to before: {' '.join(escape(point.text[:400]).split())[:90]}", "green")
        self._prefill(point.text.split("\n[@")[0])

    def _open_agent(self) -> Agent:
        try:
            return self._work.agent()
        except ModelError as error:
            raise NoChange(f"the conversation cannot be continued: {escape(str(error))}") from None

    def _export(self, name: str) -> None:
        agent = self._work.opened
        turns = agent.history.turns if agent else self._work.plan.turns
        if not turns:
            raise NoChange("there is no conversation yet")
        path = os.path.join(self._work.plan.directory, os.path.expanduser(name or "conversation.md"))
        try:
            with open(path, "x", encoding="utf-8", errors="replace") as file:
                file.write(export_conversation(turns, self._work.plan.model, html=path.endswith((".html", ".htm"))))
        except OSError as error:
            raise UsageError(f"{escape(path)} was not written: {error.strerror}") from None
        self._say(f"written to {escape(path)}", "green")

    def _undo(self, _: str, *, redo: bool = False) -> None:
        report = undo_last(self._work.session, redo=redo)
        self._report_undo(report)
        if report.restored:
            paths = ", ".join(escape(one.path) for one in report.restored)
            did = "redid what was undone last" if redo else "undid the last change"
            self.notes.append(f"[The user {did}. Restored: {paths}]")

    def _redo(self, _: str) -> None:
        self._undo("", redo=True)

    def _report_undo(self, report: UndoReport) -> None:
        for words, text, style in describe_report(report):
            self._say(f"{words}  {text}", style)

    def _log(self, _: str) -> None:
        rows = list_calls(self._work.session, _LAST)
        for row in rows:
            mark, style = MARKS.get(row.status, ("-", "yellow"))
            accessed = ", ".join(f"{action} {escape(target)}" for action, target, *_ in row.accesses)
            took = f"{row.duration / 1000:.2f} s" if row.duration is not None else ""
            self._say(f"{row.seq:>5} {mark} {escape(row.tool):<10} {took:>8}  {accessed[:100]}", style)
        self._say("`handrail log show N` shows one in full" if rows else "no calls yet", "dim")

    def _mode(self, word: str) -> None:
        session = self._work.session
        if not word:
            self._say(f"mode {session.mode or '-'}; the modes are {', '.join(MODES)}")
        elif word not in MODES:
            raise UsageError(f"unknown mode {escape(word)}; the modes are {', '.join(MODES)}")
        else:
            session.set_mode(word)
            self._work.remember_mode(word)
            self._say(f"mode {word}", "green")

    def _model(self, name: str) -> None:
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
