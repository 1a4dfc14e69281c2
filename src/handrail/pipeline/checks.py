"""Checks of edited files: commands of rule files that run in the background, and whose new problems are reported.

A check runs in the sandbox, without the network, and where possible in a draft of the workspace that is dropped later.
A run in a draft with the old contents of a file finds the problems that it had before its first edit; these are not
reported. A line of the output that names an edited file is a problem, and two problems are the same if they differ only
in their position. No call waits for a check: new problems come with a later result.
"""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from handrail.errors import ToolError
from handrail.files.versions import Change
from handrail.frozen import frozen
from handrail.model import CommandAccess
from handrail.policy import Policy
from handrail.policy.files import FileCheck
from handrail.text.display import escape
from handrail.tools.notes import CheckFailed, NewProblems, NoteFacts

if TYPE_CHECKING:
    from handrail.drafts.store import OpenDraft
    from handrail.shell.command_host import CommandHost, OwnCommandEnd

SECONDS = 120
_MOST_LINES = 10
_MOST_CHARS = 300
_MOST_FILES = 50
_MOST_OLD_BYTES = 4 << 20
_NOT_RUN = (126, 127)
_COLOURS = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
_POSITION = re.compile(r":\d+(?:[:-]\d+)*|\(\d+(?:,\d+)*\)")
_LINE_NUMBER = re.compile(r"\blines? \d+")


@frozen
class Edit:
    """An edit of one file."""

    path: str
    """Below the workspace."""
    before: bytes | None
    """The old contents; None if there was no such file."""


class _CheckState:
    """What is known about one check: the problems of each edited file, before and now."""

    def __init__(self, check: FileCheck) -> None:
        self.check = check
        self.pending: dict[str, Edit] = {}
        self.known: dict[str, Counter[str] | None] = {}
        """By path, the problems that were there before or were reported; None if nobody can tell."""
        self.current: dict[str, list[CheckLine]] = {}
        self.failed = ""
        """Why it could not be run; empty once that was reported."""
        self.reported_failures: set[str] = set()

    def fail(self, why: str) -> None:
        if why not in self.reported_failures:
            self.failed = why

    def take_new(self) -> tuple[list[str], bool]:
        """The lines of new problems, which then are known; and whether some of them may be older."""
        lines, unsure = list[str](), False
        for path, problems in self.current.items():
            known = self.known.get(path)
            new = find_new(problems, known or Counter())
            unsure = unsure or (known is None and bool(new))
            lines += new
            self.known[path] = Counter(problem.key for problem in problems)
        self.current = {}
        return lines, unsure


@frozen
class CheckLine:
    """One line of a check's output about an edited file."""

    line: str
    key: str
    """The line without its position."""


class Checks:
    """The checks of one session. At most one command runs at a time."""

    def __init__(
        self,
        checks: Sequence[FileCheck],
        home: str,
        command_host: Callable[[], CommandHost],
        policy: Callable[[], Policy],
        hide: Callable[[str], str],
    ) -> None:
        self._states = [_CheckState(check) for check in checks]
        self._home = os.path.realpath(home)
        self._command_host = command_host
        self._policy = policy
        self._hide = hide
        self._lock = threading.Lock()
        self._cancel = threading.Event()
        self._thread: threading.Thread | None = None

    def note_changes(self, changes: Iterable[Change], by_command: Iterable[str]) -> None:
        """Check the files of these changes, and those that a command has changed, if they were checked before."""
        edits = []
        for change in changes:
            path = os.path.relpath(change.path.real, self._home)
            if change.after is not None and change.subtree is None and not path.startswith("../"):
                edits.append(Edit(path, change.before.raw if change.before else None))
        again = list(by_command)
        with self._lock:
            for state in self._states:
                chosen = [edit for edit in edits if state.check.concerns(edit.path)]
                chosen += [Edit(path, None) for path in again if path in state.known]
                for edit in chosen[:_MOST_FILES]:
                    state.pending.setdefault(edit.path, edit)
            wanted = any(state.pending for state in self._states)
            if wanted and self._thread is None and not self._cancel.is_set():
                self._thread = threading.Thread(target=self._work, name="handrail-checks", daemon=True)
                self._thread.start()

    def take_notes(self) -> list[NoteFacts]:
        """The new problems since the last time, in at most ten lines; what does not fit comes the next time."""
        notes: list[NoteFacts] = []
        room = _MOST_LINES
        with self._lock:
            for state in self._states:
                if room > 1 and (note := self._describe(state, room)):
                    notes.append(note)
                    room -= 1 + str(vars(note).get("problems", "")).count("\n") + isinstance(note, NewProblems)
        return notes

    def _describe(self, state: _CheckState, room: int) -> NoteFacts | None:
        command = self._clean(state.check.command)
        if state.failed:
            why, state.failed = state.failed, ""
            state.reported_failures.add(why)
            return CheckFailed(command=command, why=self._clean(why))
        lines, unsure = state.take_new()
        if not lines:
            return None
        if len(lines) > room - 1:
            left = len(lines) - room + 2
            lines = [*lines[: room - 2], f"... and {left} more; run the check to see them all"]
        return NewProblems(command=command, problems="\n".join(map(self._clean, lines)), unsure=unsure or None)

    def _clean(self, line: str) -> str:
        return self._hide(escape(line[:_MOST_CHARS]))

    def close(self) -> None:
        """End a running check. No further one is started."""
        self._cancel.set()
        with self._lock:
            thread = self._thread
        if thread:
            thread.join()

    # In the background.

    def _work(self) -> None:
        while True:
            with self._lock:
                state = next((state for state in self._states if state.pending), None)
                if state is None or self._cancel.is_set():
                    self._thread = None
                    return
                edits, state.pending = state.pending, {}
            try:
                self._check(state, edits)
            except (OSError, ToolError) as error:  # no sandbox, no room: a session works without its checks
                with self._lock:
                    state.fail(f"it could not be run: {error}")

    def _check(self, state: _CheckState, edits: Mapping[str, Edit]) -> None:
        paths = list(edits)
        command = state.check.command.replace("{files}", " ".join(map(_quote, paths)))
        verdict = self._policy().judge([CommandAccess(command)])
        if verdict.decision == "deny":
            with self._lock:
                state.fail(f"it was not run: {verdict.why}")
            return
        unknown = {path: edit for path, edit in edits.items() if path not in state.known}
        known: dict[str, Counter[str] | None] = {}
        for path, edit in unknown.items():
            known[path] = Counter() if edit.before is None else None
        old = {path: edit.before for path, edit in unknown.items() if edit.before is not None}
        if old and sum(map(len, old.values())) <= _MOST_OLD_BYTES and not self._cancel.is_set():
            first = self._run(command, old)
            if first is not None and not _explain_failure(first):
                problems = find_problems(first.output, self._home, list(old))
                known |= {path: Counter(problem.key for problem in problems[path]) for path in old}
        if self._cancel.is_set():
            return
        ended = self._run(command, {})
        if ended is None or self._cancel.is_set():
            return
        current = find_problems(ended.output, self._home, paths)
        with self._lock:
            state.known |= known
            if failure := _explain_failure(ended):
                state.fail(failure)
            else:
                state.current |= current

    def _run(self, command: str, old: Mapping[str, bytes]) -> OwnCommandEnd | None:
        """Run a check, in a draft if there can be one; with ``old`` contents in it None if there can be none."""
        host = self._command_host()
        with _temporary_draft(host) as draft:
            if old:
                if draft is None:
                    return None
                from handrail.drafts.split import write_contents  # only needed here

                write_contents(draft.directory, old)
            return host.run_own(command, self._home, SECONDS, cancel=self._cancel, draft=draft)


@contextmanager
def _temporary_draft(host: CommandHost) -> Iterator[OpenDraft | None]:
    draft = host.drafts.create()
    try:
        yield draft
    finally:
        if draft:
            host.drafts.drop(draft)


def _explain_failure(ended: OwnCommandEnd) -> str:
    """Why the output of a check says nothing; empty if it does."""
    if ended.reason == "timeout":
        return f"it did not end within {SECONDS} s"
    if ended.reason == "output":
        return "it printed too much"
    if ended.exit_code is None:
        return "a signal ended it"
    if ended.exit_code in _NOT_RUN:
        return f"it could not be run: {ended.output.strip().partition(chr(10))[0]}"
    return ""


def find_problems(output: str, home: str, paths: Sequence[str]) -> dict[str, list[CheckLine]]:
    """The lines of a check's output that name one of these files, by file."""
    problems: dict[str, list[CheckLine]] = {path: [] for path in paths}
    names = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    named = re.compile(rf"(?<![\w./-])(?:\./|{re.escape(home)}/)?({names})(?![\w/-]|\.\w)")
    for raw in output.splitlines():
        line = _COLOURS.sub("", raw).strip()
        if match := named.search(line[:4096]):
            position = _POSITION.match(line, match.end())
            rest = line[position.end() if position else match.end() :]
            problems[match[1]].append(CheckLine(line, line[: match.start()] + _LINE_NUMBER.sub("line", rest)))
    return problems


def find_new(problems: Sequence[CheckLine], known: Counter[str]) -> list[str]:
    """The lines of the problems that are more than those that were known."""
    left = Counter(known)
    lines = []
    for problem in problems:
        if left[problem.key]:
            left[problem.key] -= 1
        else:
            lines.append(problem.line)
    return lines


def _quote(path: str) -> str:
    return shlex.quote(f"./{path}" if path.startswith("-") else path)
