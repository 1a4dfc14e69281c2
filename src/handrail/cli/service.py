"""`handrail attach service`: the resident helper of attached agents."""

from __future__ import annotations

import argparse

from handrail.attach.service import AlreadyRunning, Service
from handrail.cli.common import CommandParser, find_state
from handrail.cli.output import Stop

_ABOUT = """\
Keep sessions warm for the agents that `handrail attach` has connected. Their hooks start this helper when they need it,
one per user, and it ends when no agent has used it for a while: there is no need to start it by hand."""

_EXAMPLES = """\
examples:
  handrail attach service --idle 60    end a minute after the last agent

exit codes: 0 nobody needs it any more, 1 another one is running"""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("attach service", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "--idle", metavar="SECONDS", type=float, default=600.0, help="end after this time without an agent"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    try:
        with Service(find_state(), options.idle) as service:
            service.serve()
    except AlreadyRunning:
        raise Stop("another helper is running") from None
    return 0
