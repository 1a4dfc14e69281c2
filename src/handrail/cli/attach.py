"""`handrail attach`: put Handrail's hooks into the agents people use."""

from __future__ import annotations

import argparse

from handrail.approval.tty import ask_key
from handrail.cli.attached_clients import attach, list_attachable, list_installed
from handrail.cli.common import CommandParser
from handrail.cli.output import Stop

_ABOUT = """\
Connect the agents you use to Handrail. They keep their own tools and questions: their commands run in drafts, their
edits are recorded, and `handrail undo` undoes both. Without a name, attach finds the agents on this machine and asks
once. `handrail detach` restores their configuration."""

_EXAMPLES = """\
examples:
  handrail attach              find the agents, and ask once
  handrail attach claude       connect Claude Code for all your projects
  handrail attach codex --required    its tools fail where undo is not possible
  handrail detach claude       disconnect it

exit codes: 0 done, 1 nothing was changed, 2 wrong usage"""


def parser(command: str = "attach") -> argparse.ArgumentParser:
    parser = CommandParser(command, _ABOUT, _EXAMPLES)
    nargs = "?" if command == "attach" else None
    parser.add_argument("agent", metavar="AGENT", nargs=nargs, help="the agent, such as claude")
    if command == "attach":
        about = "let commands and edits fail if Handrail's helper cannot be reached (otherwise they run without it)"
        parser.add_argument("--required", action="store_true", help=about)
    return parser


def run(options: argparse.Namespace) -> int:
    installed = list_installed()
    if options.agent:
        attach(options.agent, installed.get(options.agent), required=options.required)
        return 0
    if not installed:
        raise Stop("no agent is on the search path; name the one that you use")
    known = list_attachable()
    key = ask_key(f"Attach {' and '.join(known[name].name for name in installed)}? [y/n] ", "yn")
    if not key:
        raise Stop("there is no terminal to ask on; name the agent")
    if key != "y":
        raise Stop("nothing was changed")
    for name, program in installed.items():
        attach(name, program, required=options.required)
    return 0
