"""`handrail web`: a page in the browser: activity of all sessions, approvals and undo."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import webbrowser

from handrail.approval.attached_terminal import ApprovalServer
from handrail.cli.common import CommandParser, open_config
from handrail.cli.log import add_journal, choose_journal
from handrail.cli.output import Stop, UsageError, on_terminal, write
from handrail.cli.remote import connect_for_pages
from handrail.files.locks import state_directory
from handrail.text.display import escape
from handrail.web.access import HOST
from handrail.web.pages import make_app
from handrail.web.questions import Attendance, OpenQuestions
from handrail.web.remote_pages import PageAnswerer, RemotePages
from handrail.web.serve import serve
from handrail.web.site import Site
from handrail.wire.http_server import open_socket

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator


_ABOUT = """\
Open a page in your browser: what agents did in all your projects as it happens, each call with its diff, the questions
that wait for your answer, undo and redo, drafts, and figures.

The page is served on 127.0.0.1 only, and other users of this machine cannot open it. The token in its address is
exchanged for a cookie, and is in no file. Commands that a model runs cannot use the page on Linux. Questions of all
your processes are taken while a page is open in a browser; when the last one is closed, or Ctrl-C ends this command,
open questions are refused if nobody else is asked."""

_EXAMPLES = """\
examples:
  handrail web
  handrail web --port 8790 --no-open       only print the address, to open it elsewhere
  handrail --at ssh://host/path web        the page of another machine, in the browser of this one

exit codes: 0 ended by a signal, 1 cannot listen, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("web", _ABOUT, _EXAMPLES)
    parser.add_argument("--port", metavar="N", type=int, default=0, help="the port (default: any free one)")
    parser.add_argument("--no-open", action="store_true", help="print the address, and do not open it in a browser")
    add_journal(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    if not 0 <= options.port <= 65535:
        raise UsageError("--port must be between 0 and 65535")

    try:
        listener = open_socket(HOST, options.port)
    except OSError as error:
        raise Stop(f"cannot listen on 127.0.0.1:{options.port}: {error.strerror}") from None
    with contextlib.suppress(KeyboardInterrupt):
        if getattr(options, "at", ""):
            _serve_remote(options, listener)
        else:
            _serve(options, listener)
    return 0


@contextlib.contextmanager
def open_site(journal: str) -> Iterator[Site]:
    """The pages of this machine, which receive the questions of its processes; raises `Stop`."""
    config, attendance = open_config(), Attendance()
    try:
        state = state_directory(config.settings.state)
        server = ApprovalServer(state, None, "on the browser page", attendance.is_attended)
    except OSError as error:
        raise Stop(f"cannot listen at {escape(error.filename or '')}: {error.strerror}") from None
    with server:
        yield Site(journal, config.settings, config.roots, OpenQuestions(server, attendance), attendance)


@contextlib.contextmanager
def open_answerer() -> Iterator[PageAnswerer]:
    """The pages of this machine for another one, without a socket; raises `Stop`."""
    with open_site(choose_journal(argparse.Namespace(journal=None, shared=False))) as site:
        yield PageAnswerer(make_app(site), site.closing)


def _serve(options: argparse.Namespace, listener: socket.socket) -> None:
    with listener, open_site(choose_journal(options)) as site:
        serve(make_app(site), site.closing, listener, _choose_start(options))


def _serve_remote(options: argparse.Namespace, listener: socket.socket) -> None:
    """Serve the pages of another machine here."""
    closing = threading.Event()
    with listener, contextlib.closing(connect_for_pages(options.at)) as session:
        serve(RemotePages(session, closing), closing, listener, _choose_start(options))


def _choose_start(options: argparse.Namespace) -> Callable[[str], None]:
    """What to do with the address once the page is served."""

    def start(address: str) -> None:
        write(f"Open {address}\nCtrl-C ends it.\n")
        if not options.no_open and on_terminal(sys.stdout) and _has_desktop():
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    return start


def _has_desktop() -> bool:
    """Whether a browser can have a window. One inside the terminal would hide what is printed there."""
    remote = "SSH_CONNECTION" in os.environ
    return not remote and (sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()))
