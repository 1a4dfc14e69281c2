"""Message after message: from the composer of a terminal or the lines of stdin, to the agent."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from handrail.agent.providers import ModelError
from handrail.cli.chat.attachments import describe_named_files, load_pictures
from handrail.cli.chat.completion import Files, Words
from handrail.cli.chat.composer import Composer
from handrail.cli.chat.interrupts import Leave, ended_in_order
from handrail.cli.chat.message_queue import MessageQueue
from handrail.cli.chat.opening import Work
from handrail.cli.chat.resumed_turns import show_last_turns
from handrail.cli.chat.screen import open_screen
from handrail.cli.chat.slash import COMMANDS, Slash, is_command
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from handrail.agent.loop import Ending
    from handrail.cli.chat.plan import ChatPlan

_LONGEST_END = 10.0
"""Seconds that a stopped run gets to end before the program does."""


def chat_by_lines(plan: ChatPlan) -> int:
    """A chat without a terminal: messages are the lines of stdin."""
    work = Work(plan, open_screen())
    with _closing(work), ended_in_order(work.stop):
        try:
            _answer_lines(work)
        except (Leave, KeyboardInterrupt) as left:
            return getattr(left, "code", 0)
    return 0


@contextlib.contextmanager
def _closing(work: Work) -> Iterator[None]:
    try:
        yield
    finally:
        work.close()
        if work.conversation:
            work.screen.say(f"continue with: handrail chat --resume {work.conversation.id}", "dim")


def _answer_lines(work: Work) -> None:
    """Work on each line of stdin."""
    slash = Slash(work)
    while True:
        try:
            text = _read_line()
        except EOFError:
            work.session  # noqa: B018 - if it cannot be opened, that is an error also without a message
            return
        if not handle_message(work, slash, text):
            return


def handle_message(work: Work, slash: Slash, text: str) -> bool:
    """Work on a message or a command; False to quit."""
    if not text.strip():
        return True
    if is_command(text.strip()):
        return slash.run(text.strip())
    if text.startswith("!"):
        slash.run_command(text[1:])
        return True
    message = "\n".join([*slash.notes, text, *describe_named_files(text, work.plan.workspace)])
    slash.notes.clear()
    answer(work, message, load_pictures(text, work.plan.workspace))
    return True


def chat_at_terminal(plan: ChatPlan) -> int:
    """Messages come from the composer; the agent works on them in another thread."""
    queue = MessageQueue()
    composer = Composer(sys.stdout, os.path.join(plan.state, "chat-history"), queue, lambda: work.stop())
    work = Work(plan, composer)
    slash = Slash(work, composer.prefill)
    composer.rewind = lambda: queue.add("/rewind") and None
    composer.attach(Words(COMMANDS, slash.choices, Files(lambda: work.ready)), work.meter.line)
    worker = Worker(work, slash, queue, composer)
    code = 0
    with _closing(work):
        try:
            composer.run(worker.start)
        except Leave as leave:
            code = leave.code
        finally:
            worker.end()
    return code


class Worker:
    """The thread that works on the messages of a composer."""

    def __init__(self, work: Work, slash: Slash, queue: MessageQueue, composer: Composer) -> None:
        self._work, self._slash, self._queue, self._composer = work, slash, queue, composer
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="handrail-chat", daemon=True)

    def start(self) -> None:
        """Open the session and work on messages."""
        self._work.start(self._composer.end)
        self._thread.start()

    def end(self) -> None:
        """Wait until the current message has stopped; raises the fault that ended the thread."""
        self._queue.close()
        if self._thread.is_alive():
            self._thread.join(_LONGEST_END)
        if self._fault:
            raise self._fault
        self._work.session  # noqa: B018 - if it could not be opened, that is why the chat has ended

    def _run(self) -> None:
        try:
            show_last_turns(self._work)
            while (text := self._queue.take()) is not None:
                self._composer.show_message(text)
                if not handle_message(self._work, self._slash, text):
                    break
        except BaseException as fault:  # noqa: BLE001 - raised again in the main thread
            self._fault = fault
        finally:
            self._composer.end()


def answer(work: Work, text: str, images: Sequence[Mapping[str, object]] = ()) -> Ending | None:
    """Work on one message; None if the model cannot be asked at all."""
    work.restart()
    with work.interrupts, work.screen.running(work.meter.line, work.tail):
        try:
            agent = work.agent()
        except ModelError as error:
            ending, why = None, str(error)
        else:
            ending = agent.run(replace_surrogates(text), work.stopping, images)
            why = "" if ending.how == "done" else ending.text
            work.meter.used = agent.history.tokens
    if why:
        work.screen.say(why, "yellow" if ending and ending.how == "cancelled" else "red")
    return ending


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
