"""Which hosts are reached: by an address as it is given, or by a command, as far as its words tell.

A refusal holds for every host that a command mentions. An allowance holds only where all hosts are known: one plain
download of fixed words, and no option that could name another host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from handrail.model import Access
from handrail.policy.commands import plain_words, script_of
from handrail.policy.reasons import display_host

_URL = re.compile(r"(?:https?|ftp)://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?(?:[/?#][^\s{}\[\]\\]*)?")
_MENTIONED = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^\s/@'\"]*@)?(\[[0-9A-Fa-f:.]+\]|[^\s/:?#'\"\\]+)"
    r"|/dev/(?:tcp|udp)/([^/\s'\"]+)"
    r"|(?:[\w.-]+@)([\w.-]+)"
    r"|(?<![\w./@-])([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|localhost)(?=[:/?#\s'\"]|$)"
)
_MOST_MENTIONED = 1000


@dataclass(frozen=True, slots=True)
class _Program:
    """Options of a program that name no further host."""

    letters: str
    alone: frozenset[str]
    with_value: frozenset[str]


_PROGRAMS = {
    "curl": _Program(
        "sSfLiIvOkgG46",
        frozenset(("--silent", "--show-error", "--fail", "--location", "--head", "--remote-name", "--compressed")),
        frozenset(("-o", "-H", "-X", "-d", "-m", "-w", "--output", "--header", "--request", "--data", "--max-time")),
    ),
    "wget": _Program("qcvS46", frozenset(["-nv", "--quiet", "--continue"]), frozenset(["-O", "-P", "-T", "-t"])),
}


def mentioned_hosts(access: Access) -> Iterator[str]:
    """Every host that a refusal may be about, and the text itself."""
    yield display_host(access.target)
    if access.by_command:
        words = [word.fixed for run in script_of(access).runs for word in run.words]
        text = "\n".join([access.target, *(word for word in words if word)])
        for number, match in enumerate(_MENTIONED.finditer(text)):
            if number >= _MOST_MENTIONED:
                return
            yield next(filter(None, match.groups())).strip("[]")


def reached_hosts(access: Access) -> tuple[str, ...]:
    """All hosts that are reached; empty if they are not known."""
    if not access.by_command:
        return (display_host(access.target),)
    words = plain_words(script_of(access))
    program = _PROGRAMS.get(words[0]) if words else None
    if not words or program is None:
        return ()
    hosts: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if address := _URL.fullmatch(word):
            hosts.append(address[1].strip("[]"))
        elif word in program.with_value:
            if next(rest, None) is None:
                return ()
        elif word not in program.alone and not (word[:1] == "-" and word[1:] and set(word[1:]) <= set(program.letters)):
            return ()
    return tuple(dict.fromkeys(hosts))
