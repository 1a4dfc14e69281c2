"""`handrail try`: run a command in a draft, show what it changed, and keep or drop that."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from dataclasses import asdict
from shlex import join
from subprocess import DEVNULL

from handrail.approval.tty import ask_key
from handrail.cli.common import ProgramParser, add_workspace, open_local_session
from handrail.cli.keeping import describe_counts, keep_changes, print_diff
from handrail.cli.output import Stop, UsageError, as_document, warn, write
from handrail.drafts.layout import remove_temporaries
from handrail.drafts.three_way import saving_bases
from handrail.errors import NoSandbox
from handrail.model import Call
from handrail.pipeline.draft_changes import TRY, DraftChanges
from handrail.shell.runner.run import find_shell
from handrail.text.display import escape

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from subprocess import Popen

    from handrail.drafts.store import OpenDraft
    from handrail.pipeline.session import Session

_ABOUT = """\
Run a command in a draft of the workspace: it sees the files under their usual paths, and its changes go to a copy. Then
you see the changes, and keep or drop them. Until you keep them, the workspace is untouched.

Kept changes are recorded like those of any call: `handrail undo` takes them back. The command cannot write outside the
workspace, except to a private /tmp; what it does over the network cannot be undone.

Several words are a program and its arguments; a single one is a line for the shell."""

_EXAMPLES = """\
examples:
  handrail try -- make clean
  handrail try 'sed -i s/foo/bar/ src/*.py && make test'
  handrail try --drop -- ./migrate.sh          only see what it would change
  handrail try --keep --json -- npm run build

exit codes: those of the command; 125 the command could not be run or its changes could not be kept"""


def parser() -> argparse.ArgumentParser:
    parser = ProgramParser("try", _ABOUT, _EXAMPLES)
    parser.add_argument("words", metavar="COMMAND", nargs="*", default=[], help="the command, best after --")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--keep", action="store_true", help="keep the changes without asking")
    answer.add_argument("--drop", action="store_true", help="drop the changes without asking")
    parser.add_argument("--network", action="store_true", help="give the command the network")
    parser.add_argument("--json", action="store_true", help="print the changes as JSON; the command prints to stderr")
    add_workspace(parser, roots=False)
    return parser


def run(options: argparse.Namespace) -> int:
    options.words += options.command
    if not options.words:
        raise UsageError("give the command to run; see `handrail try --help`")
    if options.json and not (options.keep or options.drop):
        raise UsageError("--json needs --keep or --drop")
    options.dialect, options.root, options.read_root = "native", [], []
    with open_local_session(options, draft=True) as session:
        return _try(session, options)


def _try(session: Session, options: argparse.Namespace) -> int:
    try:
        host = session.services.command_host()
        draft = host.drafts.create()
    except NoSandbox as error:
        raise _Failed(f"there can be no draft here: {error}") from None
    if draft is None:
        raise _Failed(f"there can be no draft here: {host.drafts.why_none}")
    ran = False
    try:
        code = _run(session, draft, options)
        ran = True
        try:
            remove_temporaries(draft.directory.upper)
            changes = DraftChanges.observe(draft)
        except OSError as error:
            raise _Failed(f"the changes cannot be read: {error.strerror}") from None
        kept = False
        if changes.changes:
            if not options.json:
                _show(changes)
            kept = options.keep or (not options.drop and _ask())
            if kept:
                _keep(session, changes, _join_command(options.words), code)
        if options.json:
            write(as_document(_report(changes, code, kept)))
        else:
            write(_summarize(changes, kept))
        return code
    except BaseException:
        if ran and draft.is_open and draft.directory.state == "open":
            name = draft.leave()
            warn(f"the changes are in the draft {name}: `handrail draft diff {name}`, `handrail draft keep {name}`")
        raise
    finally:
        if draft.is_open:
            draft.drop()


class _Failed(Stop):
    """The command could not be run, or its changes could not be kept."""

    code = 125


def _join_command(words: list[str]) -> str:
    return words[0] if len(words) == 1 else join(words)


def _run(session: Session, draft: OpenDraft, options: argparse.Namespace) -> int:
    """Run the command on this terminal; returns its exit code."""
    words = options.words if len(options.words) > 1 else [find_shell(), "-c", options.words[0]]
    streams = [sys.stdin, sys.stderr if options.json else sys.stdout, sys.stderr]
    stdin, stdout, stderr = (DEVNULL if one is None else one.fileno() for one in streams)
    try:
        process = session.services.command_host().drafts.start(
            words,
            draft,
            "on" if options.network else None,
            cwd=os.path.realpath(options.workspace),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
        )
    except OSError as error:
        raise _Failed(f"{escape(words[0])} cannot be run: {error.strerror}") from None
    with saving_bases(draft.directory):
        return _wait(process)


def _wait(process: Popen[bytes]) -> int:
    """Wait for the command. An interrupt from the keyboard ends the command, not the question about its changes."""
    while True:
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except KeyboardInterrupt:
            process.send_signal(signal.SIGKILL)


def _show(changes: DraftChanges) -> None:
    for one in changes.summaries():
        write(f"{one}\n")
    write("\n")
    print_diff(changes.unified())
    write("\n")


def _ask() -> bool:
    key = ask_key("[k]eep [d]rop ", "kd")
    if not key:
        warn("the changes were dropped: there is no terminal to ask on (--keep keeps them)")
    return key == "k"


def _keep(session: Session, changes: DraftChanges, command: str, code: int) -> None:
    try:
        keep_changes(session, changes, Call(TRY, {"command": command}), code)
    except Stop as stop:
        raise _Failed(str(stop)) from None


def _report(changes: DraftChanges, code: int, kept: bool) -> dict[str, object]:
    return {
        "exit_code": code,
        "kept": kept,
        "changes": [asdict(one) for one in changes.summaries()],
        "diff": changes.unified(),
    }


def _summarize(changes: DraftChanges, kept: bool) -> str:
    if not changes.changes:
        return "nothing was changed\n"
    end = "kept; `handrail undo` takes it back" if kept else "dropped, the workspace is as before"
    return f"{describe_counts(changes)}: {end}\n"
