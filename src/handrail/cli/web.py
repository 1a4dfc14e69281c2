"""`handrail web`: a page in the browser: activity of all sessions, approvals and undo. Needs the extra `web`."""

from __future__ import annotations

import argparse
import contextlib

from handrail.cli.common import CommandParser, open_config
from handrail.cli.log import add_journal, journal_path
from handrail.cli.output import Stop, UsageError, write
from handrail.errors.extras import MissingExtra, needs
from handrail.text.display import escape

_ABOUT = """\
Serve a page for your browser: what the tools do in all your sessions and projects as it happens, each call with its
diff, the questions that wait for your answer, undo, and statistics.

The page is served on 127.0.0.1 only. Open the address that is printed: the token in it is exchanged for a cookie, and
is in no file. Commands that a model runs cannot use the page on Linux. Questions of all your processes are taken while
a page is open in a browser; when the last one is closed, or Ctrl-C ends this command, open questions are refused if
nobody else is asked."""

_EXAMPLES = """\
examples:
  handrail web
  handrail web --port 8790

exit codes: 0 ended by a signal, 1 cannot listen, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("web", _ABOUT, _EXAMPLES)
    parser.add_argument("--port", metavar="N", type=int, default=0, help="the port (default: any free one)")
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    if not 0 <= options.port <= 65535:
        raise UsageError("--port must be between 0 and 65535")
    try:
        with needs("web"):
            import jinja2  # noqa: F401 - the extra, as a whole
            import pygments  # noqa: F401
            import starlette  # noqa: F401
            import uvicorn  # noqa: F401
    except MissingExtra as error:
        raise UsageError(str(error)) from None
    from handrail.approval.attached_terminal import ApprovalServer
    from handrail.files.locks import state_directory
    from handrail.web.questions import Attendance, OpenQuestions
    from handrail.web.serve import open_socket, serve
    from handrail.web.site import Site

    config = open_config()
    try:
        listener = open_socket(options.port)
    except OSError as error:
        raise Stop(f"cannot listen on 127.0.0.1:{options.port}: {error.strerror}") from None
    try:
        state, attendance = state_directory(config.settings.state), Attendance()
        server = ApprovalServer(state, None, "on the browser page", attendance.is_attended)
    except OSError as error:
        raise Stop(f"cannot listen at {escape(error.filename or '')}: {error.strerror}") from None
    with server, contextlib.suppress(KeyboardInterrupt):
        questions = OpenQuestions(server, attendance)
        site = Site(journal_path(options), config.settings, config.roots, questions, attendance)
        serve(site, listener, lambda address: write(f"Open {address}\nCtrl-C ends it.\n"))
    return 0
