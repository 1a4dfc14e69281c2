"""Ask the person at a terminal: show the diff or the command in colours, and read an answer of one key.

Keys that were typed before the question was shown do not count as an answer.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

from handrail.approval.screen import Screen, paint_diff
from handrail.approval.tty import Tty
from handrail.model import Answer, CommandAccess, Question
from handrail.programs import resolve_words
from handrail.text.display import escape, escape_lines

_MOST_LINES = 60
_KEYS = {"y": "es", "a": "ll session", "A": "lways", "n": "o", "h": "unks", "e": "dit", "v": "iew all"}
_HELP = """\
  y  yes, this once
  a  yes, and do not ask again for the same in this session
  A  yes, always: save the rule shown above
  n  no; you can give a reason, which the model reads
  h  choose hunk by hunk
  e  edit the command or the new file in $EDITOR first
  v  show everything
"""


class Display:
    """Shows a question: why it is asked, and the diff or the command in colours."""

    def __init__(self, write: Callable[[str], object], screen: Screen) -> None:
        self._write = write
        self._screen = screen

    def print(self, text: str, style: str = "") -> None:
        self._write(self._screen.render((text, style)))

    def print_diff(self, text: str) -> None:
        self._write(self._screen.render(*paint_diff(text)))

    def show(self, question: Question, whole: bool = False) -> None:
        verdict = question.verdict
        self.print(f"\n{escape(question.call.tool)} asks", "bold yellow")
        self.print(f"{verdict.why}{f' ({verdict.source})' if verdict.source else ''}", "dim")
        commands = [access for access in question.accesses if isinstance(access, CommandAccess)]
        if commands:
            self.print(f"$ {escape_lines(question.command or commands[0].target)}", "bold")
        for number, command in enumerate(commands):
            self._explain(command, "" if number == 0 else f"{escape_lines(command.target)}: ")
        for access in question.accesses:
            if access.by_command and access.action != "read":
                verb = "uses the network:" if access.action == "network" else f"{access.action}s"
                self.print(f"  {verb} {escape(access.target)}\n", "yellow")
        if question.command is None or question.files:
            rows = question.preview().splitlines(keepends=True)
            self.print_diff("".join(rows if whole else rows[:_MOST_LINES]))
            if len(rows) > _MOST_LINES and not whole:
                self.print(f"... {len(rows) - _MOST_LINES} more lines: v shows them\n", "dim")
        for missing in question.shortened:
            self.print(f"NOT shown here: {escape(missing)}", "bold red")
        if verdict.allow:
            self.print("A would save: " + "; ".join(verdict.allow.split("\n")), "dim")

    def _explain(self, access: CommandAccess, name: str) -> None:
        """Say what stands out about a command, or a part of it."""
        if access.tier == "destructive" or access.doubt:
            destroys = "destroys" if access.tier == "destructive" else ""
            self.print(f"  {name}{'; '.join(filter(None, (destroys, access.why, access.doubt)))}\n", "dim")


class TerminalAsker:
    """The `approve` of a session at a terminal. Several calls at once are asked one after the other."""

    def __init__(self, tty: Tty, environ: Mapping[str, str] = os.environ) -> None:
        self._tty = tty
        self._environ = environ
        self._display = Display(tty.write, Screen(tty.out))
        self._lock = threading.Lock()

    def __call__(self, question: Question) -> Answer:
        with self._lock:
            return self._ask(question)

    def _ask(self, question: Question) -> Answer:
        keys = offer_keys(question)
        self._display.show(question)
        while True:
            key = self._tty.key(make_key_prompt(keys))
            if key == "y":
                return Answer(True)
            if key in keys and key in "aA":
                return Answer(True, lasting="session" if key == "a" else "always")
            if key == "h" and key in keys:
                return Answer(True, hunks=self._choose_hunks(question))
            if key == "e" and key in keys:
                answer = self._edit(question)
                if answer:
                    return answer
                self._display.print("nothing was changed\n", "dim")
            elif key == "v":
                self._display.show(question, whole=True)
            elif key in ("n", "\x04", "\x1b"):
                return Answer(False, self._tty.line("why not (the model reads it; Enter for no reason): "))
            else:
                self._display.print(_HELP, "dim")

    def _choose_hunks(self, question: Question) -> dict[str, list[int]]:
        """Hunk by hunk: y, n, or d for no more of this file."""
        hunks: dict[str, list[int]] = {}
        for file in question.files:
            if not file.selectable:
                continue
            hunks[file.path] = []
            for number, hunk in enumerate(file.hunks):
                self._display.print_diff(replace(file, hunks=(hunk,)).diff)
                key = self._tty.key(f"hunk {number + 1} of {len(file.hunks)}: [y]es [n]o [d]one ")
                if key == "d":
                    break
                if key == "y":
                    hunks[file.path].append(number)
        return hunks

    def _edit(self, question: Question) -> Answer | None:
        if question.command is not None:
            name, command = question.command_argument, question.command
            new = self._edit_text(command, ".sh").removesuffix("\n")
            if not new.strip() or new == command:
                return None
            return Answer(True, arguments={**question.call.arguments, name: new})
        contents = {}
        for file in question.files:
            if file.editable and file.after:
                new = self._edit_text(file.after, os.path.splitext(file.path)[1])
                if new != file.after:
                    contents[file.path] = new
        return Answer(True, contents=contents) if contents else None

    def _edit_text(self, text: str, suffix: str) -> str:
        """The text as the person leaves it in the editor of their choice."""
        editor = self._environ.get("VISUAL") or self._environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
            path = os.path.join(folder, "proposed" + suffix)
            with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                file.write(text)
            try:
                words = [*resolve_words(shlex.split(editor)), path]
                ended = subprocess.run(words, stdin=self._tty.fd, stdout=self._tty.fd, check=False)  # noqa: S603
            except OSError as error:
                self._display.print(f"{editor} cannot be started: {error.strerror}; set $EDITOR\n", "red")
                return text
            if ended.returncode:
                self._display.print(f"{editor} ended with {ended.returncode}: its changes are ignored\n", "red")
                return text
            with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
                return file.read()


def offer_keys(question: Question) -> str:
    """The answers that make sense for a question, one key each."""
    keys = "ya" + ("A" if question.verdict.allow else "") + "n"
    if sum(len(file.hunks) for file in question.files if file.selectable) > 1:
        keys += "h"
    if question.command_argument or any(file.editable for file in question.files):
        keys += "e"
    return keys + (
        "v" if (question.command is None or question.files) and question.preview().count("\n") > _MOST_LINES else ""
    )


def make_key_prompt(keys: str) -> str:
    """The line that a person answers with one key."""
    return " ".join(f"[{key}]{_KEYS[key]}" for key in keys) + " [?] "
