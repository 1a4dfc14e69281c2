"""Message after message: asked for at the prompt, worked on, and the next one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from handrail.cli.chat.early import early_prompt
from handrail.cli.chat.interrupts import Leave, ended_in_order
from handrail.cli.chat.opening import Work
from handrail.cli.chat.screen import is_interactive, open_screen
from handrail.cli.chat.slash import COMMANDS, Slash, is_command
from handrail.cli.output import UsageError, on_terminal
from handrail.errors.extras import MissingExtra, needs
from handrail.text.display import escape, replace_surrogates

if TYPE_CHECKING:
    from handrail.agent.loop import Ending
    from handrail.cli.chat.plan import ChatPlan

_NAMED = re.compile(r"(?:^|(?<=\s))@(\S+)")
Ask = Callable[[], str]


def chat(plan: ChatPlan) -> int:
    """A chat, until the person leaves."""
    work = Work(plan, open_screen())
    try:
        with ended_in_order(work.stop):
            return _chat(work)
    except Leave as leave:
        return leave.code
    except KeyboardInterrupt:
        return 0
    finally:
        work.close()
        if work.conversation:
            work.screen.say(f"continue with: handrail chat --resume {work.conversation.id}", "dim")


def _chat(work: Work) -> int:
    slash = Slash(work)
    ask = _choose_asker(work, slash)
    while True:
        try:
            text = ask()
        except (EOFError, KeyboardInterrupt):
            work.session  # noqa: B018 - if it could not be opened, that is why the prompt has ended
            return 0
        if not text.strip():
            continue
        if is_command(text.strip()):
            if not slash.run(text.strip()):
                return 0
            continue
        message = "\n".join([*slash.notes, text, *named(text, work.plan.workspace)])
        slash.notes.clear()
        answer(work, message)


def answer(work: Work, text: str) -> Ending | None:
    """Work on one message; None if the model cannot be asked at all."""
    from handrail.agent.providers import ModelError

    work.restart()
    with work.interrupts, work.screen.running(work.meter.line, work.tail):
        try:
            agent = work.agent()
        except ModelError as error:
            ending, why = None, str(error)
        else:
            ending = agent.run(replace_surrogates(text), work.stopping)
            why = "" if ending.how == "done" else ending.text
            work.meter.used = agent.history.tokens
    if why:
        work.screen.say(why, "yellow" if ending and ending.how == "cancelled" else "red")
    return ending


def named(text: str, workspace: str) -> list[str]:
    """Return a remark for the model about each `@path` in a message: that it is the name of a file."""
    paths = dict.fromkeys(path.rstrip(".,;:!?)") for path in _NAMED.findall(text))
    there = [path for path in paths if path and os.path.lexists(os.path.join(workspace, path))]
    return [f"[@{path} is the name of a file or directory of the project: {path}]" for path in there]


def _choose_asker(work: Work, slash: Slash) -> Ask:
    """Where messages come from: the line editor on a terminal, else the lines of stdin."""
    if not is_interactive() or not on_terminal(sys.stdin):
        return _read_line
    plan = work.plan
    mode = f"{escape(plan.model)} · {escape(plan.workspace)} · {plan.mode} · /help"
    print(f"\x1b[2m{mode}\x1b[0m" if "NO_COLOR" not in os.environ else mode, flush=True)
    if plan.turns:
        print(f"(a conversation of {len(plan.turns)} turns goes on)", flush=True)
    with early_prompt():
        try:
            with needs("agent"):
                from handrail.cli.chat.completion import Files, Words
                from handrail.cli.chat.editor import LineEditor
        except MissingExtra as error:
            raise UsageError(str(error)) from None
        words = Words(COMMANDS, slash.choices, Files(lambda: work.ready))
        editor = LineEditor(os.path.join(plan.state, "chat-history"), words, work.meter.line)

    return lambda: editor.ask(lambda: work.start(editor.end))


def _read_line() -> str:
    """Read a message from a pipe: a line, or several if they end with a backslash."""
    lines: list[str] = []
    while True:
        line = sys.stdin.buffer.readline().decode("utf-8", "replace")
        if not line and not lines:
            raise EOFError
        line = line.removesuffix("\n")
        if not line.endswith("\\"):
            return "\n".join([*lines, line])
        lines.append(line.removesuffix("\\"))
