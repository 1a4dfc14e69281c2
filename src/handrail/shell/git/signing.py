"""The agent by which git signs a commit or a tag, where the user's settings or the words of the command want that."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from handrail.shell.git.settings import TRUSTED, list_settings
from handrail.shell.sandbox.logins import AGENT, Logins

_SETTINGS = {
    **dict.fromkeys(("am", "cherry-pick", "commit", "merge", "pull", "rebase", "revert"), "commit.gpgsign"),
    "tag": "tag.gpgsign",
}
"""Verbs that may sign, each with its setting."""
_ASKS = ("-S", "--gpg-sign", "--sign")
_TAG_ASKS = ("-s", "-u", "--local-user")
_REFUSES = ("--no-gpg-sign", "--no-sign", "--abort")
_ON = ("", "true", "yes", "on", "1")
_RINGS = ("pubring.kbx", "pubring.gpg", "trustdb.gpg", "gpg.conf")


def find_agent(verb: str, words: Sequence[str], place: str) -> Logins | None:
    """The agent that signs for a git command, with the files that name the key. None: it signs nothing, or none runs.

    ``words``: of the command. ``place``: the directory that it runs in.
    """
    agents = list(_list_agents(os.environ)) if verb in _SETTINGS else []
    if not agents or any(word in _REFUSES for word in words):
        return None
    # A repository may neither want a signature nor choose the key.
    settings = {key: value for scope, key, value in list_settings(place)[1] if scope in TRUSTED}
    options = (*_ASKS, *_TAG_ASKS) if verb == "tag" else _ASKS
    asked = any(word.startswith(options) for word in words)
    if not asked and settings.get(_SETTINGS[verb], "false").lower() not in _ON:
        return None
    by_ssh = settings.get("gpg.format") == "ssh"
    agent = next((path for path in agents if (path == os.environ.get(AGENT)) == by_ssh), "")
    files = _list_ssh_files(settings) if by_ssh else (os.path.join(_find_home(os.environ), name) for name in _RINGS)
    return Logins(tuple(path for path in files if os.path.isfile(path)), agent) if agent else None


def _list_agents(environ: Mapping[str, str]) -> Iterator[str]:
    """The sockets of the agents that run. A restricted one of gpg's comes first: it signs, and gives no key away."""
    folders = (f"/run/user/{os.getuid()}/gnupg", _find_home(environ))
    ours = (f"{folder}/S.gpg-agent{more}" for more in (".extra", "") for folder in folders)
    for path in (*ours, environ.get(AGENT, "")):
        if path.startswith("/") and Path(path).is_socket():
            yield path


def _find_home(environ: Mapping[str, str]) -> str:
    return environ.get("GNUPGHOME") or os.path.expanduser("~/.gnupg")


def _list_ssh_files(settings: Mapping[str, str]) -> Iterator[str]:
    """The public half of the user's key; the private half stays hidden."""
    key = os.path.expanduser(settings.get("user.signingkey", ""))
    if key.startswith("/"):
        yield key if key.endswith(".pub") else f"{key}.pub"
