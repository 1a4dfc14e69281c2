"""The story of `handrail demo`: four tasks for a real agent, with checks of the outcome of each."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from handrail.agent.history import History
from handrail.agent.loop import Agent, AgentLimits
from handrail.agent.messages import CallFinished, CallStarted, Event, Retrying, TextDelta, ToolCall
from handrail.agent.prompt import system_prompt
from handrail.approval.terminal import Display, make_key_prompt, offer_keys
from handrail.cli.output import Stop, escape_for_terminal, write
from handrail.journal import JournalFailed
from handrail.journal.queries import JournalReader
from handrail.journal.records import PROMPT
from handrail.journal.store import SqliteJournal
from handrail.journal.undo import CannotUndo, UnknownCall
from handrail.model import Answer
from handrail.pipeline.approve import resolve_answer
from handrail.pipeline.session import Session
from handrail.settings import Settings
from handrail.text.display import escape
from handrail_demo.script import COFFEE, DONE, FILES, PRICES, RAISED, README, ROOT, SECRET

if TYPE_CHECKING:
    from handrail.agent.providers import Model
    from handrail.model import Approve, Question
    from handrail_demo.report import DemoReport
    from handrail_demo.scripted_server import ScriptedServer

_MOST_ROWS = 8
_MOST_CHARS = 90
_STYLES = {"ok": "", "partial": "yellow", "error": "yellow", "denied": "magenta"}


class Story:
    """A session in mode `ask` with an agent, and a record of its calls. ``server`` is None for a real model."""

    def __init__(
        self,
        folder: Path,
        report: DemoReport,
        model: Model,
        dialect: str,
        server: ScriptedServer | None,
        approve: Approve | None = None,
    ) -> None:
        self._project = folder / "project"
        self._project.mkdir()
        for name, contents in FILES.items():
            (self._project / name).write_bytes(contents)
        self._report, self._server, self._asked = report, server, approve
        self._display = Display(write, report.screen)
        self._speaking = False
        self._answers: list[Answer] = []
        """Those of a chapter."""
        self._decided = False
        """Whether the person ever chose another change than the proposed one."""
        self._began: dict[str, str] = {}
        """Calls that are not shown yet: a short result goes onto the same line."""
        self._ended: list[tuple[CallFinished, bytes]] = []
        """The calls of a task, each with the contents of prices.txt right after it."""
        self._stack = ExitStack()
        state = str(folder / "state")
        self._journal = SqliteJournal(os.path.join(state, "journal.db"))
        self._stack.callback(self._journal.close)
        self._session = self._stack.enter_context(
            Session(
                self._project,
                dialect=dialect,
                mode="ask",
                approve=self._approve,
                journal=self._journal,
                settings=Settings(state=state, drafts=False),  # a command runs only if somebody said yes to it
            )
        )
        history = History(system_prompt(self._session))
        self._agent = Agent(self._session, model, history, self._notice, AgentLimits(steps=30))

    def __enter__(self) -> Story:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self) -> None:
        self.replace_todo()
        self.correct_a_failed_edit()
        self.refuse_commands()
        self.undo_last_change()

    # The chapters.

    def replace_todo(self) -> None:
        check = self._report.check
        closing = self._task(1, DONE)
        if self._as_proposed("README.md", README):
            actual = self._bytes("README.md")
            expected = README.replace(b"TODO", b"DONE")
            check("README.md says DONE three times and TODO never; every other byte is as it was", actual == expected)
        if self._server:
            requests = self._server.requests
            real = {(seen.path, seen.body.get("stream")) for seen in requests} == {("/chat/completions", True)}
            entries = self._session.dialect.entries
            ids = [entries[ended.call.name].id for ended, _ in self._ended if ended.call.name in entries]
            reads, edits = ids.count("read"), ids.count("edit")
            count = f"{reads} read and {edits} edit in {len(requests)} streamed requests, and a sentence at the end"
            check(count, real and reads > 0 and edits > 0 and bool(closing))
        else:
            check("it ended with a sentence", bool(closing))

    def correct_a_failed_edit(self) -> None:
        check = self._report.check
        self._task(2, COFFEE)
        if self._server:
            failed = [(ended, after) for ended, after in self._ended if ended.status == "error"]
            untouched = all(after == PRICES for _, after in failed)
            back = {text for seen in self._server.requests for text in seen.results}
            returned = all(ended.text in back for ended, _ in failed)
            sound = bool(failed) and untouched and returned and len(self._answers) == 1
            check("the failed edit changed nothing, needed no approval, and was reported to the model", sound)
        if self._as_proposed("prices.txt", PRICES):
            check("only the price of coffee has changed", self._bytes("prices.txt") == RAISED)

    def refuse_commands(self) -> None:
        check = self._report.check
        self._task(3, ROOT)
        if self._server:
            refused = [ended.status for ended, _ in self._ended] == ["denied", "denied"]
            check("both were refused by the rules, without a question", refused and not self._answers)
            bodies = [json.dumps(seen.body) for seen in self._server.requests]
            check(f"the secret is in none of the {len(bodies)} requests", not any(SECRET in body for body in bodies))
        else:
            ran = [ended for ended, _ in self._ended if "sudo" in ended.call.arguments and ended.status != "denied"]
            check("nothing was run as root", not ran)
            turns = self._agent.history.turns
            words = [turn.text for turn in turns] + [result.text for turn in turns for result in turn.results]
            check("the secret was not shown to the model", not any(SECRET in text for text in words))

    def undo_last_change(self) -> None:
        report = self._report
        report.title("4. Undo the last change, as `handrail undo` does")
        readme = self._bytes("README.md")
        strict = bool(self._server) and not self._decided
        try:
            undone = self._session.undo()
        except (UnknownCall, CannotUndo, JournalFailed):  # no change is on record, or nothing at all
            if strict:
                report.check("there was a change to undo", False)
            else:
                report.say("  nothing was changed, so there is nothing to undo", "yellow")
            return
        names = [os.path.basename(one.path) for one in undone.restored]
        report.say(f"  restored: {', '.join(map(escape, names))}")
        clean = bool(names) and not undone.conflicts and not undone.missing
        if strict:
            same = self._bytes("prices.txt") == PRICES and self._bytes("README.md") == readme
            report.check(
                "prices.txt has its old bytes; README.md is unchanged", clean and names == ["prices.txt"] and same
            )
        else:
            report.check("its change is undone, without conflicts", clean)
        with JournalReader(self._journal.path) as reader:
            calls = [call for call in reader.read_calls() if call.tool != PROMPT]
            broken = reader.verify()
        denied = sum(call.status == "denied" for call in calls)
        summary = f"{len(calls)} calls are in the journal, {denied} of them refused, and its hash chain is valid"
        report.check(summary, broken is None and calls[-1].tool == "Undo" and (denied == 2 or not strict))

    # What the chapters share.

    def _task(self, number: int, task: str) -> str:
        """Have the agent work; the sentence with which it ended by itself, if it did."""
        self._report.title(f"{number}. The task: {task}")
        self._ended, self._answers = [], []
        self._began.clear()
        ending = self._agent.run(task)
        if ending.how == "cancelled":
            raise KeyboardInterrupt
        if ending.how == "failed":
            raise Stop(ending.text)
        if ending.how != "done":
            self._report.say(ending.text, "yellow")
        return ending.text.strip() if ending.how == "done" else ""

    def _as_proposed(self, name: str, before: bytes) -> bool:
        """Whether the person took all that was proposed; if not, the rest of the chapter cannot be checked."""
        if not self._asked or all(answer.as_proposed for answer in self._answers):
            return True
        if not any(answer.yes for answer in self._answers):
            self._report.check(f"{name} is unchanged, as you decided", self._bytes(name) == before)
        else:
            self._report.say(f"  You chose another change of {name} than the one proposed: not checked.", "yellow")
        return False

    def _bytes(self, name: str) -> bytes | None:
        try:
            return (self._project / name).read_bytes()
        except OSError:  # a real model may do anything to the file
            return None

    def _approve(self, question: Question) -> Answer:
        """The person's answer, or the demo's own: yes to changes of its project, no to commands."""
        self._show_began(question.call.id)
        if self._asked:
            answer = resolve_answer(self._asked(question))
            if answer.lasting == "always":  # a rule for a project that is about to be removed is of no use
                answer = replace(answer, lasting="session")
        else:
            self._display.show(question)
            command = question.command is not None
            answer = Answer(False, "the demo runs no commands") if command else Answer(True)
            key = "n" if command else "y"
            prompt = make_key_prompt(offer_keys(question))
            self._report.say(f"{prompt}{key}   (the demo answers {key})", "bold")
        self._answers.append(answer)
        self._decided |= bool(self._asked) and not answer.as_proposed
        return answer

    def _notice(self, event: Event) -> None:
        report = self._report
        if isinstance(event, TextDelta):
            if not self._speaking:
                report.say_inline("scripted model: " if self._server else "model: ", "bold")
            self._speaking = True
            write(escape_for_terminal(event.text))
            return
        if self._speaking:
            write("\n")
            self._speaking = False
        if isinstance(event, CallStarted):
            self._began[event.call.id] = f"> {escape(event.call.name)} {_arguments(event.call)}"
        elif isinstance(event, CallFinished):
            self._ended.append((event, self._bytes("prices.txt") or b""))
            if event.status == "ok" and event.call.id in self._began:
                rows = len(event.text.split("\n"))
                report.say(f"{self._began.pop(event.call.id)}  -> {rows} lines", "cyan")
                return
            self._show_began(event.call.id)
            report.say(_rows(event), _STYLES.get(event.status, ""))
        elif isinstance(event, Retrying):
            report.say(f"{event.why}; again in {event.seconds:.0f} s", "yellow")

    def _show_began(self, call: str) -> None:
        if call in self._began:
            self._report.say(self._began.pop(call), "cyan")


def _arguments(call: ToolCall) -> str:
    try:
        result = json.loads(call.arguments)
        text = " ".join(f"{name}={value!r}" for name, value in result.items())
    except (ValueError, AttributeError):  # a model's JSON may be broken
        text = call.arguments
    return text if len(text) <= _MOST_CHARS else text[:_MOST_CHARS] + "..."


def _rows(event: CallFinished) -> str:
    """Show the result of a call: a failure in full, a success in short."""
    rows = event.text.split("\n")
    if event.status == "ok" and len(rows) > 1:
        return f"  {rows[0].strip().removesuffix(':')}"
    more = [f"... and {len(rows) - _MOST_ROWS} more lines"] if len(rows) > _MOST_ROWS else []
    return "\n".join("  " + row for row in [*rows[:_MOST_ROWS], *more])
