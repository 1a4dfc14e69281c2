"""Handrail's own files and commands: not for a model, whatever the rules and the mode say.

The journal has old contents of files, secrets included; the configuration, the saved rules, the trust in projects and
the sockets of `handrail approve` decide what is allowed. If a sandbox hides these from commands, the kernel enforces
it. The words of a command are judged as well, because without a sandbox there is nothing else.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handrail.model import Access, Decision, Verdict
from handrail.policy.commands import script_of, skip_options
from handrail.policy.files import user_file
from handrail.policy.paths import is_within
from handrail.policy.reasons import stricter
from handrail.text.display import escape

if TYPE_CHECKING:
    from handrail.shell.parser.script import Script

_NAMES = (
    "journal",
    "artefacts",
    "locks",
    "approvers",
    "trust",
    "conversations",
    "mcp-http-token",
    "mcp-installs.json",
)
"""Names in the state directory, for a workspace inside it."""
_RULE = "Handrail's own files"
_COMMANDS: dict[tuple[str, ...], str] = {
    ("approve",): "only the user may answer Handrail's questions",
    ("policy", "trust"): "only the user may trust a project's policy",
}
_ASKED: dict[tuple[str, ...], str] = {
    ("undo",): "it undoes earlier calls",
    ("mcp", "install"): "it changes the configuration of other agents",
    ("mcp", "uninstall"): "it changes the configuration of other agents",
}
_MODULE = re.compile(r"handrail(\.cli)?(\.__main__)?")
_GLUED = re.compile(r"-[A-Za-z]*m(?=handrail)")
"""`python -mhandrail`: the option and its value in one word."""
_SEPARATORS = re.compile(r"/(?:\.?/)+")


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The paths of Handrail's own files."""

    state: tuple[str, ...]
    """Real paths: journal, artefacts of all sessions, locks, sockets, tokens."""
    config: tuple[str, ...]
    """Real paths: settings, rules, and saved answers."""
    kept: str
    """The artefacts of this session, which its calls may read, and the workspace and the boundary keep as they are."""
    names: tuple[str, ...]
    """How a command may spell one of these places."""
    is_within: bool
    """Whether some of the state lies inside the workspace, where the file tools could open it."""

    @classmethod
    def locate(cls, state: str, artefacts: str, roots: Sequence[str], environ: Mapping[str, str]) -> OwnFiles:
        """The places of this user, for a session on ``roots``."""
        configured = [os.path.dirname(user_file(environ))]
        if config := environ.get("HANDRAIL_CONFIG"):
            configured.append(os.path.abspath(config))
        real = [os.path.realpath(root) for root in roots]
        places = [os.path.realpath(state)]
        if any(is_within(places[0], root) for root in real):  # hiding all of it would hide the workspace
            places = [os.path.join(places[0], name) for name in _NAMES]
        settings = [os.path.realpath(path) for path in configured]
        settings = [path for path in settings if not any(is_within(path, root) for root in real)]
        spelled = dict.fromkeys(_list_spellings([*places, *settings, state, *configured], environ))
        within = any(is_within(root, place) for root in real for place in places)
        return cls(tuple(places), tuple(settings), os.path.realpath(artefacts), tuple(spelled), within)

    def shows(self, path: str) -> bool:
        """Whether a search may show a real path."""
        return is_within(self.kept, path) or not any(is_within(place, path) for place in self.state)

    def judge(self, accesses: Sequence[Access], hidden: Callable[[], bool]) -> Verdict | None:
        """Return the strictest verdict on the accesses; None if none of them is about these paths.

        ``hidden``: whether a sandbox hides them from commands.
        """
        worst: Verdict | None = None
        for access in accesses:
            verdict = self._command(access, hidden) if access.action == "run" else self._file(access, hidden)
            worst = stricter(worst, verdict) if worst else verdict
            if worst and worst.decision == "deny":
                break
        return worst

    def _file(self, access: Access, hidden: Callable[[], bool]) -> Verdict | None:
        path = access.path or access.target
        if access.action in ("network", "call") or is_within(self.kept, path):
            return None
        for place in (*self.state, *(self.config if access.by_command else ())):
            if is_within(place, path) or (access.glob and _matches(path, place)):
                return Verdict(
                    "deny", _RULE, f"{escape(access.target)} belongs to Handrail; tools and commands may not use it"
                )
            if access.below and is_within(path, place):
                if access.action != "read":
                    return Verdict("deny", _RULE, f"{escape(access.target)} contains Handrail's own files")
                if access.sees != "names" and not hidden():
                    return Verdict(
                        "ask", _RULE, f"{escape(access.target)} would be read with Handrail's own files in it"
                    )
        return None

    def _command(self, access: Access, hidden: Callable[[], bool]) -> Verdict | None:
        verdict = _judge_own_command(script_of(access))
        if verdict and verdict.decision == "deny":
            return verdict
        text = _SEPARATORS.sub("/", access.target.replace(self.kept, ""))
        if any(name in text for name in self.names) and not hidden():
            return Verdict("ask", _RULE, "it names a directory with Handrail's own files")
        return verdict


def _list_spellings(paths: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """Each path, and the part of it below the home directory, which may be written in several ways."""
    homes = {os.path.expanduser("~"), environ.get("HOME") or "/", os.path.realpath(os.path.expanduser("~"))} - {"/"}
    for path in paths:
        yield path
        for home in homes:
            if path != home and is_within(home, path):
                yield os.path.relpath(path, home)


def _matches(pattern: str, place: str) -> bool:
    """Whether a pattern of the shell may match a place, or something in it."""
    parts, names = pattern.strip("/").split("/"), place.strip("/").split("/")
    return len(parts) >= len(names) and all(map(fnmatch.fnmatchcase, names, parts))


def _judge_own_command(script: Script) -> Verdict | None:
    """Judge a script that runs Handrail's own commands; a computed word may be any of them."""
    worst: Verdict | None = None
    for run in script.runs:
        words = [word.fixed for word in run.words]
        for at, word in enumerate(words):
            if word is None or not _MODULE.fullmatch(os.path.basename(_GLUED.sub("", word))):
                continue
            for command, why in (*_COMMANDS.items(), *_ASKED.items()):
                sure, possible = {at + 1}, {at + 1}
                for name in command:
                    sure = {one + 1 for one in skip_options(words, sure) if words[one] == name}
                    possible = {one + 1 for one in skip_options(words, possible) if words[one] in (name, None)}
                if possible:
                    decision: Decision = "deny" if sure and command in _COMMANDS else "ask"
                    verdict = Verdict(decision, f"handrail {' '.join(command)}", why)
                    worst = stricter(worst, verdict) if worst else verdict
    return worst
