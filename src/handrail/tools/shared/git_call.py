"""Git in a command: what its repository adds to the judgement, and the settings that it runs with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from handrail.model import Access, CommandAccess, FileAccess
from handrail.shell.effects.effects import Effects, GitRun
from handrail.shell.git.remotes import find_agent, may_run_programs
from handrail.shell.sandbox.environment import NO_LOGINS, Logins
from handrail.text.display import escape

_TELLS_SETTINGS = ("config", "var", "version")
"""Verbs that print settings and run no program; they show what is set, and not what overrides it."""


_CHANGES = frozenset(
    (
        *("add", "am", "apply", "branch", "checkout", "cherry-pick", "clean", "clone", "commit", "config", "fetch"),
        *("init", "merge", "mv", "pull", "push", "rebase", "remote", "reset", "restore", "revert", "rm"),
        *("sparse-checkout", "stash", "submodule", "switch", "tag", "worktree"),
    )
)
"""Verbs that change a repository or its work tree."""


class Agents(Protocol):
    """The part of a session that says where a command runs, and whether it can reach the agent of a key."""

    @property
    def runs_in_draft(self) -> bool:
        """Whether what the command changes is judged after it has run."""

    def reaches_agents(self) -> bool:
        """Whether a command can be given the socket of an agent."""


def seek(effects: Effects, where: str, session: Agents, place: str = "") -> list[Access]:
    """Git commands that look, and make git run a program of the repository, and those that sign. Nothing is changed.

    ``where`` is the directory that the line starts in, ``place`` its name, if that is not the workspace.
    """
    out: list[Access] = []
    for run, signer in _list_signers(effects, where):
        if session.reaches_agents():
            # The whole line could use the agent, so an answer holds for other lines only if git is alone in it.
            whose = f"git {run.verb}" if _list_changing_verbs(effects) else effects.script.source
            why = f"to sign with your key, through {escape(signer.agent)}"
            out.append(FileAccess("read", signer.agent, by_command=True, place=place, lent_to=whose, why=why))
    looks = effects.tier == "read_only" and not session.runs_in_draft
    for run in effects.git if looks else ():
        if run.verb not in _TELLS_SETTINGS and may_run_programs(_list_places(run, where), (run.verb,)):
            doubt = "the repository may make git run a program"
            out.append(CommandAccess(run.text, tier="ordinary", why=doubt, doubt=doubt, place=place))
    return list(dict.fromkeys(out))


def find_signer(effects: Effects, where: str, lent: Sequence[str]) -> Logins:
    """The agent that signs for a command line, if its socket was lent."""
    return next((signer for _, signer in _list_signers(effects, where) if signer.agent in lent), NO_LOGINS)


def _list_signers(effects: Effects, where: str) -> Iterator[tuple[GitRun, Logins]]:
    """The git commands that sign, each with its agent."""
    words = {one.text: one.words for one in effects.commands}
    for run in effects.git:
        places = [place for place in _list_places(run, where) if os.path.isdir(place)] if not run.looks else []
        if places and (signer := find_agent(run.verb, words.get(run.text, ()), places[0])):
            yield run, signer


def runs_plain(effects: Effects) -> bool:
    """Whether git runs with settings that switch off programs of a repository: the line only looks with git."""
    return effects.only_looks_with_git and not all(run.verb in _TELLS_SETTINGS for run in effects.git)


def _list_changing_verbs(effects: Effects) -> set[str]:
    """The verbs of the git commands in a line that change something; empty if anything else in it may."""
    if effects.unread or effects.doubts:
        return set()
    changing = [command.words for command in effects.commands if command.tier != "read_only"]
    verbs = {words[1] if words[:1] == ("git",) and len(words) > 1 else "" for words in changing}
    return verbs if verbs <= _CHANGES else set()


def _list_places(run: GitRun, where: str) -> list[str]:
    return [os.path.join(where, os.path.expanduser(place)) for place in sorted(run.places or ())]
