"""`handrail approve`: answer the questions of other Handrail processes in this terminal."""

from __future__ import annotations

import argparse
import contextlib
import os
import select

from handrail.approval.attached_terminal import ApprovalServer
from handrail.approval.terminal import Display, TerminalAsker
from handrail.approval.tty import Tty
from handrail.cli.common import CommandParser, find_state, require_directory
from handrail.cli.output import Screen, Stop, UsageError
from handrail.model import Answer
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from handrail.approval.attached_terminal import IncomingQuestion

_ABOUT = """\
Answer the questions of other Handrail processes in this terminal: of an MCP server whose client cannot ask, of
`handrail batch`, or of a program that embeds Handrail. Each question shows the reason and the diff or the command, and
takes an answer of one key (? explains them).

Questions come from your own processes that work in DIR or below it, one at a time. If several terminals are attached,
the first answer counts. A question disappears if it is cancelled or its process ends. Parts that are too long to show
are listed in red. Without an attached terminal such a call is refused at once, and the model reads how to attach one.

Ctrl-C detaches: open questions are refused. Questions are not stored here; the journal of the asking process has the
call, the rule and the outcome (`handrail log`)."""

_EXAMPLES = """\
examples:
  handrail approve                          questions about this directory
  handrail approve -w path/to/project       questions about a project
  handrail approve --all                    questions of all your processes

exit codes: 0 detached, 1 cannot listen, 2 wrong usage"""


class _Over(Exception):
    """The question that is being shown need not be answered any more."""


class _Terminal(Tty):
    """A terminal at which waiting for a key ends when the question is over."""

    incoming: IncomingQuestion | None = None

    def read(self, most: int) -> bytes:
        if self.incoming:
            select.select([self.fd, self.incoming.fileno()], [], [])
            if self.incoming.over:
                raise _Over
        return super().read(most)


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("approve", _ABOUT, _EXAMPLES)
    about = "answer questions about this directory and everything below it (default: the current directory)"
    parser.add_argument("-w", "--workspace", metavar="DIR", default=".", help=about)
    parser.add_argument("--all", action="store_true", help="questions about all workspaces, not just DIR")
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    tty = _Terminal.open()
    if not isinstance(tty, _Terminal):
        raise UsageError("this command needs a terminal")

    workspace = None if options.all else os.path.realpath(options.workspace)
    with contextlib.closing(tty):
        try:
            server = ApprovalServer(find_state(), workspace)
        except OSError as error:
            raise Stop(f"cannot listen at {escape(error.filename or '')}: {error.strerror}") from None
        with server, contextlib.suppress(KeyboardInterrupt):
            _Loop(tty, server, workspace).run()
        with contextlib.suppress(OSError):
            tty.write("\ndetached\n")
    return 0


class _Loop:
    """Asks the person one question after the other."""

    def __init__(self, tty: _Terminal, server: ApprovalServer, workspace: str | None) -> None:
        self._tty = tty
        self._server = server
        self._workspace = workspace
        self._asker = TerminalAsker(tty)
        self._display = Display(tty.write, Screen(tty.out))

    def run(self) -> None:
        """Until Ctrl-C, or the end of the terminal."""
        about = f"about {escape(self._workspace)}" if self._workspace else "of all your processes"
        self._display.print(f"Waiting for questions {about}. Ctrl-C detaches.", "bold")
        while True:
            incoming = self._server.questions.get()
            with contextlib.closing(incoming):
                try:
                    self._take(incoming)
                except OSError:  # the terminal is gone
                    return

    def _take(self, incoming: IncomingQuestion) -> None:
        if incoming.over:
            return self._report_gone(incoming)
        self._tty.write("\a")  # the person may look elsewhere
        question = incoming.question
        waiting = self._server.questions.qsize()
        more = f"; {waiting} more waiting" if waiting else ""
        asking = escape(question.client) or f"process {incoming.pid}"
        self._display.print(f"\n{asking} in {escape(question.workspace)}{more}", "dim")
        self._tty.incoming = incoming
        try:
            answer = self._asker(question)
        except _Over:
            return self._report_gone(incoming)
        finally:
            self._tty.incoming = None
        return self._give(incoming, answer)

    def _give(self, incoming: IncomingQuestion, answer: Answer) -> None:
        try:
            accepted = incoming.answer(answer)
        except ValueError:
            self._display.print("The text is too long to send: the answer is no.", "red")
            accepted = incoming.answer(Answer(False, "the user's text was too long"))
        if accepted:
            word = "no" if not answer.yes else "yes" if answer.lasting == "once" else f"yes, {answer.lasting}"
            self._display.print(f"answered: {word}", "dim")
        else:
            self._report_gone(incoming)

    def _report_gone(self, incoming: IncomingQuestion) -> None:
        tool = escape(incoming.question.call.tool)
        self._display.print(
            f"\n{tool} no longer needs an answer: {incoming.over or 'the asking process has ended'}", "yellow"
        )
