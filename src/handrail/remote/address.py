"""Turn the address of a remote workspace into the command that starts its server.

    ssh://[USER@]HOST[:PORT]/PATH            PATH is absolute; /~/PATH starts at the home directory
    docker://CONTAINER/PATH
    kubectl://NAMESPACE/POD/PATH             ?container=NAME where the pod has several

`?handrail=PROGRAM` names the program on the other side if it is not on its search path. Without it, Handrail is sent to
a machine that lacks it and has Python: `?python=PROGRAM` names that, if it is not `python3`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

from handrail.frozen import frozen

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:.]+")
_OPTIONS = {  # each scheme is called as the program that connects
    "ssh": {"handrail", "python"},
    "docker": {"handrail", "python"},
    "kubectl": {"handrail", "python", "container"},
}

HELPERS = tuple(_OPTIONS)


@frozen
class Target:
    """A server to start: the command, and the name that messages call it by."""

    argv: tuple[str, ...]
    name: str
    loader: tuple[str, ...] = ()
    """The command that takes Handrail over its stdin, where the first one is not installed; empty: there is none."""


def parse_address(address: str | Sequence[str], mode: str) -> Target:
    """The server of an address, or of the words of a command of your own; raises `ValueError` with the valid forms.

    ``mode`` is given to a server that an address starts; a command of your own says what it starts.
    """
    if not isinstance(address, str):
        words = tuple(address)
        if not words or not all(isinstance(word, str) and word for word in words):
            raise ValueError("a command for a remote workspace must be a list of words that are not empty")
        return Target(words, shlex.join(words)[:200])
    wrap, path, options = _parse(address)
    serve = ("serve", "--stdio", "--mode", mode, "--", path)
    if options.get("handrail"):
        return Target(wrap((options["handrail"], *serve)), address)
    loader = wrap((options.get("python") or "python3", "-I", "-c", _read_loader(), *serve))
    return Target(wrap(("handrail", *serve)), address, loader)


def make_command(address: str, words: Sequence[str], *, terminal: bool) -> tuple[str, ...]:
    """The command that runs ``handrail`` with these words in the workspace at an address; raises `ValueError`."""
    wrap, path, options = _parse(address, terminal)
    return wrap(("sh", "-c", 'cd -- "$0" && exec "$@"', path, options.get("handrail") or "handrail", *words))


def _parse(
    address: str, terminal: bool = False
) -> tuple[Callable[[Sequence[str]], tuple[str, ...]], str, dict[str, str]]:
    """What turns a command into one that runs on the other machine, the path there, and the options."""
    parts = urlsplit(address)
    if parts.scheme not in _OPTIONS or parts.fragment:
        raise _reject(address, f"the schemes are {', '.join(_OPTIONS)}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if unknown := options.keys() - _OPTIONS[parts.scheme]:
        raise _reject(address, f"unknown option {min(unknown)}; there are {', '.join(sorted(_OPTIONS[parts.scheme]))}")
    if "handrail" in options and "python" in options:
        raise _reject(address, "give either handrail, which is installed there, or python, to which it is sent")
    path = unquote(parts.path)
    place, name = (parts.netloc, "") if parts.scheme == "docker" else (parts.netloc, path.strip("/").split("/")[0])
    if parts.scheme == "kubectl":
        path = "/" + path.lstrip("/").partition("/")[2]
    if parts.scheme == "ssh":
        port = _port(address)
        path = _find_ssh_path(address, parts.username, parts.hostname, path)

        def wrap(words: Sequence[str]) -> tuple[str, ...]:
            number = ("-p", str(port)) if port else ()
            where = f"{parts.username}@{parts.hostname}" if parts.username else str(parts.hostname)
            return (
                "ssh",
                "-t" if terminal else "-T",
                "-o",
                "BatchMode=yes",
                *number,
                "--",
                where,
                shlex.join(["exec", *words]),
            )

    else:
        for one in (place, name or place, options.get("container") or place):
            if not _NAME.fullmatch(one):
                raise _reject(address, "names start with a letter or digit, and have letters, digits, - _ and .")
        if path in ("", "/") or "/~/" in path[:3]:
            raise _reject(address, "the path of the workspace is missing; it is absolute here")
        if parts.scheme == "docker":
            first: tuple[str, ...] = ("docker", "exec", "-it" if terminal else "-i", place)
        else:
            container = ("-c", options["container"]) if options.get("container") else ()
            first = ("kubectl", "exec", "-it" if terminal else "-i", "-n", place, name, *container, "--")

        def wrap(words: Sequence[str]) -> tuple[str, ...]:
            return (*first, *words)

    return wrap, path, options


def _read_loader() -> str:
    """The program that takes a bundle on the other machine."""
    with open(os.path.join(os.path.dirname(__file__), "loader.py"), encoding="utf-8") as file:
        return file.read()


def _find_ssh_path(address: str, user: str | None, host: str | None, path: str) -> str:
    """The path as the other machine takes it; raises `ValueError` for a host, a user or a path that cannot be."""
    if not host or not _HOST.fullmatch(host) or (user is not None and not _USER.fullmatch(user)):
        raise _reject(address, "a host and a user have letters, digits, - _ and . only")
    if path in ("", "/"):
        raise _reject(address, "the path of the workspace is missing")
    return path[3:] or "." if path.startswith("/~/") or path == "/~" else path


def _port(address: str) -> int | None:
    try:
        return urlsplit(address).port
    except ValueError:
        raise _reject(address, "the port is not a number below 65536") from None


def _reject(address: str, why: str) -> ValueError:
    forms = "ssh://[USER@]HOST[:PORT]/PATH, docker://CONTAINER/PATH or kubectl://NAMESPACE/POD/PATH"
    return ValueError(f"{address[:200]!r} is not the address of a remote workspace: {why}. Give {forms}")
