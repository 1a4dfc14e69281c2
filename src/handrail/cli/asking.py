"""Asking a person at a terminal: the diff or the command in colours, and answers of one key.

What was typed before the question was there does not count as an answer. Without a terminal nobody is asked.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from handrail.cli.output import Screen, painted
from handrail.cli.tty import Tty
from handrail.text.diff import format_unified
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.model import Access
    from handrail.pipeline.context import Proposed
    from handrail.pipeline.prepared import Answer, Prepared

_MOST_LINES = 60
_TIERS = {"read_only": "only looks", "ordinary": "may change things", "destructive": "destroys"}
_HELP = """\
  y  yes, this once
  a  yes, and do not ask again for the same in this session
  A  yes, always: the rule that is shown is written down
  n  no; a reason can be given, which the model reads
  h  choose hunk by hunk
  e  change it first: the command, or the file as it would be, in $EDITOR
  v  show all of it
"""


class Display:
    """What a person is shown of a call that asks: why it does, and the diff or the command in colours."""

    def __init__(self, write: Callable[[str], object], screen: Screen) -> None:
        self._write = write
        self._screen = screen

    def say(self, text: str, style: str = "") -> None:
        self._write(self._screen.worded((text, style)))

    def diff(self, text: str) -> None:
        self._write(self._screen.worded(painted(text)))

    def show(self, prepared: Prepared, proposed: Sequence[Proposed], whole: bool = False) -> None:
        verdict = prepared.verdict
        self.say(f"\n{escape(prepared.call.tool)} asks", "bold yellow")
        self.say(f"{verdict.why}{f' ({verdict.source})' if verdict.source else ''}", "dim")
        for number, command in enumerate(_commands(prepared)):
            self._command(command, first=number == 0)
        for access in prepared.accesses:
            if access.by_command and access.action != "read":
                self.say(f"  {access.action}s {escape(access.target)}\n", "yellow")
        if proposed:
            diff = "".join(_diff(one) for one in proposed)
            rows = diff.splitlines(keepends=True)
            self.diff("".join(rows if whole else rows[:_MOST_LINES]))
            if len(rows) > _MOST_LINES and not whole:
                self.say(f"... {len(rows) - _MOST_LINES} more lines: v shows them\n", "dim")
        if verdict.allow:
            self.say("A would write down: " + "; ".join(verdict.allow.split("\n")), "dim")

    def _command(self, access: Access, first: bool) -> None:
        from handrail.pipeline.prepared import plainly

        if first:
            self.say(f"$ {plainly(access.target)}", "bold")
        why = "; ".join(part for part in (_TIERS.get(access.tier, ""), access.why, access.doubt) if part)
        if why:
            self.say(f"  {'' if first else plainly(access.target) + ': '}{why}\n", "dim")


class Asker:
    """The `approve` of a session at a terminal. Several calls at once are asked one after the other."""

    def __init__(self, tty: Tty, environ: Mapping[str, str] = os.environ) -> None:
        self._tty = tty
        self._environ = environ
        self._display = Display(tty.write, Screen(tty.out))
        self._lock = threading.Lock()

    def __call__(self, prepared: Prepared) -> Answer:
        with self._lock:
            return self._asked(prepared)

    def _asked(self, prepared: Prepared) -> Answer:
        from handrail.pipeline.prepared import Answer

        proposed = offered(prepared)
        keys = keys_for(prepared, proposed)
        self._display.show(prepared, proposed)
        while True:
            key = self._tty.key(question(keys))
            if key == "y":
                return Answer(True)
            if key in keys and key in "aA":
                return Answer(True, lasting="session" if key == "a" else "always")
            if key == "h" and key in keys:
                return Answer(True, hunks=self._chosen(proposed))
            if key == "e" and key in keys:
                answer = self._edited(prepared, proposed)
                if answer:
                    return answer
                self._display.say("nothing was changed\n", "dim")
            elif key == "v":
                self._display.show(prepared, proposed, whole=True)
            elif key in ("n", "\x04", "\x1b"):
                return Answer(False, self._tty.line("why not (the model reads it; Enter for no reason): "))
            else:
                self._display.say(_HELP, "dim")

    def _chosen(self, proposed: Sequence[Proposed]) -> dict[str, list[int]]:
        """Hunk by hunk: y, n, or d for no more of this file."""
        wanted: dict[str, list[int]] = {}
        for one in proposed:
            if not one.parts:
                continue
            wanted[one.path] = []
            for number, hunk in enumerate(one.hunks):
                self._display.diff(format_unified(escape(one.path), [hunk]))
                key = self._tty.key(f"hunk {number + 1} of {len(one.hunks)}: [y]es [n]o [d]one ")
                if key == "d":
                    break
                if key == "y":
                    wanted[one.path].append(number)
        return wanted

    def _edited(self, prepared: Prepared, proposed: Sequence[Proposed]) -> Answer | None:
        from handrail.pipeline.prepared import Answer

        found = _command_argument(prepared)
        if found:
            name, command = found
            new = self._in_editor(command, ".sh").removesuffix("\n")
            if not new.strip() or new == command:
                return None
            return Answer(True, arguments={**prepared.call.arguments, name: new})
        contents = {}
        for one in proposed:
            if one.text:
                new = self._in_editor(one.text, os.path.splitext(one.path)[1])
                if new != one.text:
                    contents[one.path] = new
        return Answer(True, contents=contents) if contents else None

    def _in_editor(self, text: str, suffix: str) -> str:
        """The text as the person leaves it in the editor of their choice."""
        import shlex

        editor = self._environ.get("VISUAL") or self._environ.get("EDITOR") or "vi"
        with tempfile.TemporaryDirectory(prefix="handrail-") as folder:
            path = os.path.join(folder, "proposed" + suffix)
            with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="") as file:
                file.write(text)
            try:
                words = [*shlex.split(editor), path]
                ended = subprocess.run(words, stdin=self._tty.fd, stdout=self._tty.fd, check=False)  # noqa: S603
            except OSError as error:
                self._display.say(f"{editor} cannot be started: {error.strerror}; set $EDITOR\n", "red")
                return text
            if ended.returncode:
                self._display.say(f"{editor} ended with {ended.returncode}: its changes are not taken\n", "red")
                return text
            with open(path, encoding="utf-8", errors="surrogatepass", newline="") as file:
                return file.read()


def _commands(prepared: Prepared) -> list[Access]:
    """What would be run: the whole command first, then its parts."""
    return [access for access in prepared.accesses if access.action == "run"]


def offered(prepared: Prepared) -> Sequence[Proposed]:
    """What would change, file by file; what a command changes is not known before."""
    return prepared.proposed() if not _commands(prepared) else ()


def question(keys: str) -> str:
    """The question with its answers of one key."""
    names = {"y": "es", "a": "ll session", "A": "lways", "n": "o", "h": "unks", "e": "dit", "v": "iew all"}
    return " ".join(f"[{key}]{names[key]}" for key in keys) + " [?] "


def keys_for(prepared: Prepared, proposed: Sequence[Proposed]) -> str:
    """The answers that make sense here."""
    keys = "ya" + ("A" if prepared.verdict.allow else "") + "n"
    if sum(len(one.hunks) for one in proposed if one.parts) > 1:
        keys += "h"
    if _command_argument(prepared) or any(one.text for one in proposed):
        keys += "e"
    return keys + ("v" if sum(_diff(one).count("\n") for one in proposed) > _MOST_LINES else "")


def _diff(one: Proposed) -> str:
    return format_unified(escape(one.path), one.hunks, created=one.before is None, deleted=one.after is None)


def _command_argument(prepared: Prepared) -> tuple[str, str] | None:
    """The argument that holds the command, under the dialect's name."""
    command: Any = getattr(prepared.args, "command", None)
    if not _commands(prepared) or not isinstance(command, str):
        return None
    return next(((name, command) for name, value in prepared.call.arguments.items() if _is(value, command)), None)


def _is(value: Any, command: str) -> bool:
    return value == command or (isinstance(value, list) and bool(value) and value[-1] == command)
