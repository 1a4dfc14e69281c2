"""The use of the network by a command, as accesses: which hosts, and whether it only fetches from known ones."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Protocol

from handrail.model import NetworkAccess
from handrail.shell.effects.destinations import UNKNOWN, Destination
from handrail.shell.effects.effects import CommandEffect, Effects, GitRun
from handrail.shell.effects.hosts import Host
from handrail.shell.git.remotes import find_hosts, is_benign

_PLAIN_GIT = (
    *("add", "branch", "checkout", "cherry-pick", "commit", "merge", "rebase", "restore", "rev-parse", "stash"),
    *("status", "switch", "tag"),
)
"""Verbs of git that run nothing but hooks, filters and other programs of the repository's settings."""
_LOCAL = Destination(service="git")
"""A directory of this machine: the network is not needed."""
_HARMLESS_EXPORT = re.compile(r"export (?:GH_|GIT_|MAN)?PAGER=(?:cat|'cat'|\"cat\"|''|\"\")")


class FetchRules(Protocol):
    """The part of a session that decides about fetching."""

    def trusts_fetch(self, service: str, addresses: Sequence[str]) -> bool:
        """Whether a program is not the project's own, and git contacts only remotes from before the first command."""


class PortRules(Protocol):
    """The part of a session that decides about services of this machine."""

    def needs_port(self, port: int) -> bool:
        """Whether a port of this machine is served outside of the sandbox, and nobody has allowed it yet."""


def declare(effects: Effects) -> list[NetworkAccess]:
    """The uses of the network that the words of a command line tell."""
    by_words = [text for text in effects.network if not _needs_files(_goes(effects, text))]
    out = [_build_access(effects, text, _goes(effects, text)) for text in by_words]
    return out + [
        _build_access(effects, text, _goes(effects, text), possible=True) for text in effects.possible_network
    ]


def seek(effects: Effects, where: str | None, session: FetchRules) -> list[NetworkAccess]:
    """The uses of the network that only files tell: remotes of git.

    ``where``: the directory that the line starts in; None if there is none.
    """
    texts = [text for text in effects.network if _needs_files(_goes(effects, text))]
    if where is None:
        return [_build_access(effects, text, UNKNOWN) for text in texts]
    located = {text: _locate(effects, text, where) for text in texts}
    fetching = {text for text, goes in located.items() if goes.reads and _is_trusted(goes, session)}
    alone = _is_alone(effects, fetching, where)
    return [
        _build_access(effects, text, goes, possible=goes is _LOCAL, fetches=alone and text in fetching)
        for text, goes in located.items()
    ]


def list_programs(effects: Effects) -> frozenset[str]:
    """The programs of a command line that use the network."""
    uses = {*effects.network, *effects.possible_network}
    parts = [one.script for one in effects.commands if one.text in uses and one.script]
    return frozenset(run.base for script in parts for run in script.runs if run.base)


def reads_beside(effects: Effects, root: str) -> bool:
    """Whether a command line reads files outside of the workspace, or files that its words do not tell."""
    if effects.doubts or effects.unread:
        return True
    reads = [file.path for file in effects.files if file.action == "read"]
    return any(path.startswith("~") or not _is_below(os.path.join(root, path), root) for path in reads)


def _is_below(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return real == root or real.startswith(root.rstrip("/") + "/")


def list_needed_ports(effects: Effects, session: PortRules) -> list[NetworkAccess]:
    """The ports of this machine that a command names, and that are served outside of its sandbox."""
    uses = {text: goes for text in effects.possible_network if (goes := _goes(effects, text)).local}
    out: list[NetworkAccess] = []
    for text, goes in uses.items():
        hosts = [host for host in goes.hosts if host.port and session.needs_port(host.port)]
        if hosts:
            out.append(NetworkAccess(text, by_command=True, hosts=" ".join(map(str, hosts)), proven=True))
    return out


def list_unreached(command: str, hosts: str, session: PortRules) -> list[NetworkAccess]:
    """The use of the network by a command that failed without it. ``hosts``: those that it needed, if that is known."""
    ports = [host for host in hosts.split() if host.startswith("localhost:")]
    needed = [host for host in ports if session.needs_port(int(host.partition(":")[2]))]
    local = [NetworkAccess(command, by_command=True, hosts=" ".join(needed), proven=True)] if needed else []
    beyond = " ".join(host for host in hosts.split() if host not in ports)
    if not beyond and ports:
        return local
    return [*local, NetworkAccess(command, by_command=True, hosts=beyond)]


def _goes(effects: Effects, text: str) -> Destination:
    return effects.destinations.get(text, UNKNOWN)


def _needs_files(goes: Destination) -> bool:
    return goes.remote is not None or goes.reads


def _build_access(
    effects: Effects, text: str, goes: Destination, *, possible: bool = False, fetches: bool = False
) -> NetworkAccess:
    script = next((one.script for one in effects.commands if one.text == text), None)
    hosts = " ".join(map(str, goes.hosts))
    return NetworkAccess(
        text,
        by_command=True,
        possible=possible,
        hosts=hosts,
        proven=goes.certain,
        proxied=goes.by_http and bool(hosts),
        fetches=fetches,
        script=script,
    )


def _locate(effects: Effects, text: str, where: str) -> Destination:
    """A destination with the hosts of a remote of git, which its repository names."""
    goes = _goes(effects, text)
    if goes.remote is None:
        return goes
    runs = [run for run in effects.git if run.text == text]
    hosts: list[Host] = []
    addresses: list[str] = []
    benign = by_http = named = True
    for run in runs:
        use = find_hosts(
            _list_places(run, where), goes.remote, push=run.verb == "push", hooks=run.verb not in ("fetch", "ls-remote")
        )
        if use.local and len(runs) == 1:
            return _LOCAL
        if not use.hosts:
            return UNKNOWN
        hosts += use.hosts
        addresses += use.addresses
        benign = benign and use.benign
        by_http = by_http and use.by_http
        named = named and bool(use.addresses)
    reads = goes.reads and benign and named  # an address in the words may carry anything
    every = tuple(dict.fromkeys(hosts))
    return Destination(every, benign, None, reads, goes.service, tuple(addresses), by_http=by_http)


def _list_places(run: GitRun, where: str) -> list[str]:
    places = [os.path.join(where, os.path.expanduser(place)) for place in sorted(run.places or ())]
    return places if all(map(os.path.isdir, places)) else []


def _is_trusted(goes: Destination, session: FetchRules) -> bool:
    return bool(goes.hosts) and session.trusts_fetch(goes.service, goes.addresses)


def _is_alone(effects: Effects, fetching: set[str], where: str) -> bool:
    """Whether nothing else in the line could use the network that is opened for it."""
    if effects.doubts or effects.unread or not fetching:
        return False
    return all(
        one.text in fetching or one.tier == "read_only" or _runs_nothing(one, effects, where)
        for one in effects.commands
    )


def _runs_nothing(one: CommandEffect, effects: Effects, where: str) -> bool:
    """Whether a command that changes something runs no program but itself."""
    if _HARMLESS_EXPORT.fullmatch(one.text):
        return True
    runs = [run for run in effects.git if run.text == one.text]
    return bool(runs) and all(run.verb in _PLAIN_GIT and is_benign(_list_places(run, where)) for run in runs)
