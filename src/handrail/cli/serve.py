"""`handrail serve`: the tools of a workspace for a client on another machine, over stdin and stdout."""

from __future__ import annotations

import argparse
import os
from contextlib import ExitStack
from dataclasses import replace

from handrail.cli.common import (
    CommandParser,
    add_draft,
    add_mode,
    add_roots,
    list_roots,
    open_config,
    require_directories,
)
from handrail.cli.output import Stop, UsageError
from handrail.files.locks import state_directory
from handrail.mcp.stdio.channel import take_over_stdio
from handrail.pipeline.kept_answers import KeptAnswers
from handrail.pipeline.options import Setup
from handrail.pipeline.remote_server import RemoteServer
from handrail.pipeline.remote_values import read, read_restriction
from handrail.pipeline.session import Session
from handrail.remote.frames import FramePipe

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Callable

    from handrail.json_types import JsonMapping
    from handrail.model import Answer, Question
    from handrail.pipeline.remote_server import Pages

_ABOUT = """\
Serve the tools of a workspace to one client over stdin and stdout: `handrail.connect(URL)` and `handrail --at URL`
start this on the machine with the files. It ends with its client.

The rules of this machine hold, and --mode is the most that the client can have; the client's own rules and mode hold as
well, and the stricter verdict wins. Questions go to the client."""

_EXAMPLES = """\
examples:
  handrail serve --stdio path/to/project
  handrail --at ssh://host/path/to/project call Read file_path=README.md
  command="handrail serve --stdio /srv/app --mode read-only"        in authorized_keys: this key can do no more

exit codes: 0 when the client closes the connection, 2 wrong usage"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("serve", _ABOUT, _EXAMPLES)
    parser.add_argument("workspace", metavar="ROOT", help="the workspace")
    parser.add_argument("--stdio", action="store_true", required=True, help="talk over stdin and stdout")
    add_mode(parser)
    add_roots(parser)
    add_draft(parser)
    return parser


def run(options: argparse.Namespace) -> int:
    require_directories(options, "ROOT")
    state = state_directory(open_config().settings.state)
    try:
        pipe = FramePipe(*take_over_stdio())
    except OSError as error:
        raise UsageError(f"stdin and stdout must be open for the client: {error.strerror}") from None
    answers = KeptAnswers(os.path.join(state, "answers"))
    with ExitStack() as stack:
        open_pages = (lambda: _open_pages(stack)) if options.mode == "full" else None
        RemoteServer(pipe, lambda message, ask: _open_session(options, message, ask), answers, open_pages).run()
    return 0


def _open_pages(stack: ExitStack) -> Pages:
    """The pages of this machine, until the stack is closed; raises `ValueError` if they cannot be served."""
    from handrail.cli.web import open_answerer  # what the pages need is not in the bundle that is sent to a machine

    try:
        return stack.enter_context(open_answerer())
    except Stop as error:
        raise ValueError(str(error)) from None


def _open_session(
    options: argparse.Namespace, message: JsonMapping, ask: Callable[[Question], Answer] | None
) -> Session:
    """The session of a client; raises `ValueError`, `PolicyError` or `OSError`, which the client reports."""
    settings = open_config().settings
    if message.get("matching"):
        settings = replace(settings, matching=message["matching"])
    restriction = read(lambda value: read_restriction(value, options.workspace), message.get("restriction"))
    session = Session(
        options.workspace,
        dialect=str(message.get("dialect")),
        setup=Setup(offer=message.get("offer") or (), roots=list_roots(options)),
        settings=settings,
        mode=options.mode,
        approve=ask,
    )
    if restriction:
        session.restrict(restriction)
    return session
