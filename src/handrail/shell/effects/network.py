"""Whether a command uses the network: by nature, perhaps, or to fetch a tool that is not installed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from handrail.shell.effects.arguments import Arg
from handrail.shell.effects.git import git_goes_out, verb_of
from handrail.shell.effects.programs import PROGRAMS
from handrail.shell.effects.rows import Program

_SOCKET = re.compile(r"/dev/(?:tcp|udp)/.*")
_PYTHON_FLAGS = re.compile(r"-[bBdEhiIOPqsSuvVx]*")


class NetworkUse(NamedTuple):
    """Whether a command uses the network: by nature, perhaps, or to fetch a tool that is not installed."""

    kind: Literal["", "certain", "possible", "unless installed"] = ""
    tool: str = ""


_NO_NETWORK = NetworkUse()
_CERTAIN = NetworkUse("certain")
_POSSIBLE = NetworkUse("possible")
_STARTS_TOOL = {"npm": ("exec", "x"), "bun": ("x",), "uv": ("tool/run",)}
"""Verbs with which a package manager runs a tool of the project, and fetches one that is not installed."""


def network_use(base: str, args: Sequence[Arg]) -> NetworkUse:
    """Whether a command uses the network, as far as its name and words tell."""
    texts = [arg.text or "" for arg in args]
    if len(texts) == 1 and texts[0] in ("--version", "-V", "--help", "-h"):
        return _NO_NETWORK
    if base == "git":
        return _CERTAIN if git_goes_out(args) or verb_of(args)[0] is None else _NO_NETWORK
    row = PROGRAMS.get(base)
    if row is None:
        return _CERTAIN if any(map(is_socket, texts)) else _NO_NETWORK
    if row.network.startswith("~"):
        return _CERTAIN if any(re.fullmatch(row.network[1:], text) for text in texts) else _NO_NETWORK
    if row.network == "*":
        return _CERTAIN
    if row.role == "module":
        return _module(args)
    if row.role == "tool" and not row.network:
        return _tool(args)
    if not row.network and not row.fetches:
        return _CERTAIN if any(map(is_socket, texts)) else _NO_NETWORK
    return _by_verb(base, row, args)


def is_socket(path: str) -> bool:
    """Whether bash opens a connection for a redirection to this name."""
    return bool(_SOCKET.fullmatch(path))


def _by_verb(base: str, row: Program, args: Sequence[Arg]) -> NetworkUse:
    found: NetworkUse = _NO_NETWORK
    for verb, rest in _verbs(row, args):
        if verb is None:
            return _CERTAIN
        second = next((arg.text for arg in rest if not (arg.text or "").startswith("-")), None)
        if verb in row.network_verbs or any(_is_second(f"{verb}/", arg, row) for arg in rest):
            return _CERTAIN
        if verb in _STARTS_TOOL.get(base, ()):
            found = _tool(rest)
        elif f"{verb}/{second}" in _STARTS_TOOL.get(base, ()):
            found = _tool(rest[1:])
        elif verb in row.fetch_verbs:
            found = _POSSIBLE
    return found


def _is_second(start: str, arg: Arg, row: Program) -> bool:
    """Whether a word may be the second one of a verb that uses the network: options before it may have values."""
    if arg.text is None:
        return any(name.startswith(start) for name in row.network_verbs)
    return start + arg.text in row.network_verbs


def _verbs(row: Program, args: Sequence[Arg]) -> Iterator[tuple[str | None, Sequence[Arg]]]:
    """The words that may be the verb, each with the arguments behind it: behind an option that is not known, any."""
    at = 0
    sure = True
    verbs = 0
    while at < len(args) and (sure or at < len(args)):
        text = args[at].text
        at += 1
        if text is None:
            verbs += 1
            yield None, args[at:]
        elif text.startswith("-") and text != "-":
            name, sign, _ = text.lstrip("-").partition("=")
            kind = row.names.get(name) if text.startswith("--") else None
            if kind == "=" or (not text.startswith("--") and len(text) == 2 and name in row.takes):
                at += 0 if sign else 1
            elif kind is None and not (not text.startswith("--") and set(name) <= {*row.flags, *row.takes}):
                sure = False
            continue
        else:
            verbs += 1
            yield text, args[at:]
        if sure:
            return
    if not verbs:
        yield "-", ()


def _module(args: Sequence[Arg]) -> NetworkUse:
    """`python -m module`."""
    for at, arg in enumerate(args):
        text = arg.text
        if text is None:
            return _NO_NETWORK
        flags = _PYTHON_FLAGS.match(text)
        rest = text[flags.end() :] if flags else ""
        if rest.startswith("m"):
            module = rest[1:] or (args[at + 1].text if at + 1 < len(args) else "")
            behind = args[at + 1 :] if rest[1:] else args[at + 2 :]
            if module is None or (module in ("pip", "ensurepip") and not behind):
                return _CERTAIN
            return network_use(module, behind) if module in PROGRAMS else _NO_NETWORK
        if not flags or not text.startswith("-") or rest:
            return _NO_NETWORK
    return _NO_NETWORK


def _tool(args: Sequence[Arg]) -> NetworkUse:
    """`npx tool`: a tool that is not installed is fetched. Options may name another one."""
    for arg in args:
        text = arg.text
        if text is None:
            return _CERTAIN
        if text in ("--no-install", "--no", "--offline", "--bun", "-q", "--quiet", "--silent", "--"):
            continue
        if text.startswith("-"):
            return _CERTAIN
        row = PROGRAMS.get(text)
        if row is not None and row.does == "builds" and row.role != "tool":
            return _POSSIBLE
        return NetworkUse("unless installed", text) if re.fullmatch(r"[\w.-]+", text) else _CERTAIN
    return _NO_NETWORK
