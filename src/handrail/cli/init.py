"""`handrail init`: look at a project and this machine, and propose agents to attach, rules and checks."""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from handrail.cli import mcp_install
from handrail.cli.attached_clients import attach, list_attachable, list_attached, list_installed
from handrail.cli.common import CommandParser, add_workspace, find_state, open_config, require_directory
from handrail.cli.output import Screen, Stop, as_document, on_terminal, warn, write
from handrail.cli.project_commands import find_checks, find_commands
from handrail.mcp.install.entry import InstallError, load_clients
from handrail.policy import PROJECT
from handrail.policy.files import PolicyError, parse_rules, trust
from handrail.programs import find_on_path
from handrail.shell.sandbox.choose import choose
from handrail.shell.sandbox.confinement import Confinement
from handrail.shell.sandbox.installation import SEPARATE, find_installation
from handrail.text.display import escape
from handrail.text.toml_lines import write_value

if TYPE_CHECKING:
    from handrail.mcp.install.entry import ClientKind

_ABOUT = """\
Look at this project and this machine, and propose what makes the first day easy: agents to attach, rules for the test
and build commands that the project names, checks of edited files, and MCP for clients without hooks. Each proposal is
shown and asked about; nothing is written without a yes. At the end you read how to undo it.

Without a terminal, or with --dry-run, the proposals are only shown; --yes takes all of them."""

_EXAMPLES = """\
examples:
  handrail init
  handrail init -w path/to/project --dry-run
  handrail init --yes
  handrail init --undo        remove the rules that init has written, if nobody has changed them since

exit codes: 0 done, 1 something could not be written, 2 wrong usage"""

_HEAD = """\
# Rules of this project for Handrail (written by `handrail init`).
# Its deny rules hold at once; its allow rules and checks hold for whoever has run `handrail policy trust`.
"""


class Proposal(NamedTuple):
    """One change, shown before it is made."""

    name: str
    title: str
    details: tuple[str, ...]
    undo: str
    """The command that takes it back."""


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("init", _ABOUT, _EXAMPLES)
    add_workspace(parser, roots=False)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--yes", action="store_true", help="make all proposed changes without asking")
    either.add_argument("--dry-run", action="store_true", help="only show the proposals")
    either.add_argument("--undo", action="store_true", help="remove the rules that init has written")
    parser.add_argument("--json", action="store_true", help="print the proposals as JSON; nothing is written")
    return parser


def run(options: argparse.Namespace) -> int:
    require_directory("-w", options.workspace)
    root = os.path.realpath(options.workspace)
    if options.undo:
        return _undo(root)
    proposals = _find_proposals(root)
    if options.json:
        write(as_document({"proposals": [proposal._asdict() for proposal, _ in proposals]}))
        return 0
    screen = Screen(sys.stdout)
    if not proposals:
        write(_describe_nothing(root))
    asks = not options.yes and not options.dry_run and on_terminal(sys.stdin) and on_terminal(sys.stdout)
    done: list[Proposal] = []
    failed = False
    for proposal, make in proposals:
        write(screen.render((proposal.title, "bold")))
        write("".join(f"    {escape(line)}\n" for line in proposal.details))
        if options.yes or (asks and _answers_yes()):
            try:
                make()
            except (Stop, OSError) as error:
                warn(f"handrail init: {error}")
                failed = True
            else:
                done.append(proposal)
    if not asks and not options.yes and proposals:
        write(
            "\nNothing was written. `handrail init` at a terminal asks about each change; "
            "`handrail init --yes` makes all of them.\n"
        )
    if done:
        write(screen.render(("\nDone. To take it back:", "bold")))
        write("".join(f"    {proposal.undo}\n" for proposal in done))
    write(f"\n{_describe_sandbox(root)}\n")
    write(_recommend_environment(root))
    return 1 if failed else 0


def _describe_nothing(root: str) -> str:
    rules = f"{PROJECT} exists" if os.path.lexists(os.path.join(root, PROJECT)) else "no test or build command is known"
    return f"Nothing to propose: {rules}, and every client found here is connected.\n"


def _recommend_environment(root: str) -> str:
    """A line about Handrail in the environment of the project itself; empty if it is elsewhere."""
    inside = f"Handrail is installed inside this project, where the agent's commands run: {SEPARATE}.\n"
    return inside if find_installation((root,)) else ""


def _describe_sandbox(root: str) -> str:
    """Which boundary commands get in this project; `handrail doctor` says how to get a better one."""
    boundary = choose(open_config().settings.sandbox, False, Confinement((root,)))
    try:
        return f"Commands here: {escape(boundary.description)} `handrail doctor` shows what else works."
    finally:
        boundary.close()


def _answers_yes() -> bool:
    write("Do it? [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _find_proposals(root: str) -> list[tuple[Proposal, Callable[[], None]]]:
    proposals = _propose_attaching()
    if not os.path.lexists(os.path.join(root, PROJECT)):
        proposals += [proposal for proposal in (_propose_rules(root), _propose_checks(root)) if proposal]
    return proposals + _propose_clients()


def _propose_attaching() -> list[tuple[Proposal, Callable[[], None]]]:
    """Agents that are installed, and neither attached nor connected over MCP."""
    attached, known = list_attached(), list_attachable()
    return [
        (
            Proposal(
                f"attach {name}",
                f"Attach {known[name].name}: undo, rules and a record for what its own tools do",
                tuple(path for path, _ in known[name].list_attach_places(os.environ)),
                f"handrail detach {name}",
            ),
            partial(attach, name, program),
        )
        for name, program in list_installed().items()
        if name not in attached and not _is_connected(known[name])
    ]


def _propose_rules(root: str) -> tuple[Proposal, Callable[[], None]] | None:
    """Rules for the commands of the project, trusted for this user."""
    commands = find_commands(root)
    if not commands:
        return None
    rows = [f'  "allow Bash({command.pattern})",  # {command.source}\n' for command in commands]
    title = f"Write {PROJECT}: these commands of the project run without a question, with or without a sandbox"
    details = tuple(f"{command.pattern}   (from {command.source})" for command in commands)
    make = partial(_write_rules, root, f"rules = [\n{''.join(rows)}]\n")
    return Proposal("rules", title, details, "handrail init --undo"), make


def _propose_checks(root: str) -> tuple[Proposal, Callable[[], None]] | None:
    """Checks of edited files, which run in the sandbox."""
    checks = find_checks(root)
    if not checks:
        return None
    rows = [f"{write_value(check.glob)} = {write_value(check.command)}  # {check.source}\n" for check in checks]
    title = f"Write {PROJECT}: after edits these checks run in the background, and the model reads new problems"
    details = tuple(f"{check.glob}: {check.command}   (from {check.source})" for check in checks)
    make = partial(_write_rules, root, f"[checks]\n{''.join(rows)}")
    return Proposal("checks", title, details, "handrail init --undo"), make


def _write_rules(root: str, part: str) -> None:
    """Append ``part`` to the rules that this command has just written, or begin them, and trust the result."""
    path = os.path.join(root, PROJECT)
    try:
        with open(path, encoding="utf-8") as file:
            before = file.read()
    except FileNotFoundError:
        before = ""
    if before and _read_memory(root) != _hash(before):
        raise Stop(f"{escape(path)} has changed meanwhile; it was left as it is")
    text = (before or _HEAD) + part
    parse_rules(text, source=path, root=root)  # what cannot be read back is not written
    with open(path, "w" if before else "x", encoding="utf-8") as file:
        file.write(text)
    try:
        trust(root, find_state(), _hash(text))
    except PolicyError as error:
        raise Stop(str(error)) from None
    _remember(root, _hash(text))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _propose_clients() -> list[tuple[Proposal, Callable[[], None]]]:
    """The MCP clients that cannot be attached, are installed here and do not know Handrail yet."""
    proposals: list[tuple[Proposal, Callable[[], None]]] = []
    for name, client in load_clients().items():
        if client.attach or client.needs_root or not find_on_path(name) or _is_connected(client):
            continue
        paths = client.places("user", os.getcwd(), os.environ)
        title = f"Connect {client.name}: add the MCP server to its configuration"
        path = next((path for path in paths if os.path.exists(path)), paths[0])
        undo = f"handrail mcp install {name} --undo"
        proposals.append((Proposal(f"client {name}", title, (path,), undo), partial(_install, name)))
    return proposals


def _is_connected(client: ClientKind) -> bool:
    """Whether the client has our MCP server."""
    return any(_mentions_us(path) for path in client.places("user", os.getcwd(), os.environ))


def _mentions_us(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b'"handrail"' in (text := file.read(1 << 24)) or b"mcp_servers.handrail" in text
    except OSError:
        return False


def _install(name: str) -> None:
    try:
        report = mcp_install.run(mcp_install.parser().parse_args([name]))
    except InstallError as error:
        raise Stop(str(error)) from None
    write(report.out)
    if report.aside:
        warn(report.aside)


def _find_memory(root: str) -> str:
    """The file with the hash of the rules that init has written in this project."""
    return os.path.join(find_state(), "init", hashlib.sha256(os.fsencode(root)).hexdigest()[:32])


def _remember(root: str, digest: str) -> None:
    place = _find_memory(root)
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with open(place, "w", encoding="utf-8") as file:
        file.write(digest)


def _read_memory(root: str) -> str:
    """The hash of the rules that init has written; empty if it has written none."""
    try:
        with open(_find_memory(root), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def _undo(root: str) -> int:
    path = os.path.join(root, PROJECT)
    digest = _read_memory(root)
    if not digest:
        raise Stop(f"`handrail init` has written no rules in {escape(root)}; nothing was changed")
    try:
        with open(path, "rb") as file:
            same = hashlib.sha256(file.read()).hexdigest() == digest
    except FileNotFoundError:
        same = True
    if not same:
        raise Stop(
            f"{escape(path)} has changed since init wrote it, and was not removed; delete it yourself if you want to"
        )
    if os.path.lexists(path):
        os.unlink(path)
    os.unlink(_find_memory(root))
    write(f"removed: {escape(path)}\n")
    return 0
