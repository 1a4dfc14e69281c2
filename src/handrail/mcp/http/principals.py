"""Authenticate HTTP clients and find their project: tokens, and the file that names several principals.

    # handrail mcp --http 127.0.0.1:8765 --principals principals.toml
    [[principal]]
    name = "ann"
    token_sha256 = "..."       # printf %s "$TOKEN" | sha256sum; or `token`, in a file that only its owner can read
    root = "/srv/ann"
    mode = "read-only"         # accept-edits if left out
    dialect = "claude"         # native if left out
    tools = ["Read", "Grep"]   # the core of the dialect if left out

Only digests are kept in memory, and all of them are compared on every request, each in constant time.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Sequence
from dataclasses import fields, replace

from handrail.frozen import frozen
from handrail.json_types import JsonObject
from handrail.policy.files import PolicyFile, parse
from handrail.policy.modes import MODES, Mode
from handrail.policy.paths import escape_glob
from handrail.text.display import escape

OWNER = "owner"
_TOKEN_FILE = "mcp-http-token"  # noqa: S105 - the name of a file
_SHORTEST = 16
_MOST_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


class BadPrincipals(ValueError):
    """Tokens or principals that cannot be used, and why."""


@frozen
class Principal:
    """A holder of a token, with root, mode, dialect and tools."""

    name: str
    digest: bytes
    root: str
    mode: Mode = "accept-edits"
    dialect: str = "native"
    tools: tuple[str, ...] = ()


class Principals:
    """All who may come in."""

    def __init__(self, known: Sequence[Principal], private: Sequence[str] = ()) -> None:
        self.known = tuple(known)
        self.private = tuple(private)
        """List files that no principal may read: the tokens, and the stored contents of all files."""

    def find(self, authorization: str) -> Principal | None:
        """Whose `Authorization` header this is."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = hash_token(token.strip())
        match = None
        for one in self.known:  # all of them, whichever it is: the time tells nothing
            if hmac.compare_digest(digest, one.digest):
                match = one
        return match


def hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def check_token(token: str, source: str) -> bytes:
    """The digest of a token that is fit to be one."""
    if len(token) < _SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise BadPrincipals(f"{source}: a token has at least {_SHORTEST} characters, printable ASCII without spaces")
    return hash_token(token)


def from_file(path: str) -> bytes:
    """The digest of the token in a file."""
    return check_token(_read_private(path).strip(), escape(path))


def load_own_token(state: str) -> tuple[bytes, str, str]:
    """The token of this machine's user: its digest, the file, and the token itself if it was made just now.

    ``state``: the state directory of the user's sessions, so that all of them keep their tools out of it.
    """
    path = os.path.join(state, _TOKEN_FILE)
    with contextlib.suppress(FileExistsError):
        token = secrets.token_urlsafe(32)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="ascii") as file:
            file.write(token + "\n")
        return hash_token(token), path, token
    return from_file(path), path, ""


def load(path: str, state: str) -> Principals:
    """The principals of a file; every mistake is named. ``state``: the state directory, where nobody may look."""
    try:
        table = tomllib.loads(_read(path))
    except tomllib.TOMLDecodeError as error:
        raise BadPrincipals(f"{escape(path)}: not valid TOML: {error}") from None
    rows = table.pop("principal", None)
    if table:
        raise BadPrincipals(f"{escape(path)}: it may hold only [[principal]] tables")
    if not isinstance(rows, list) or not rows:
        raise BadPrincipals(f"{escape(path)}: it needs at least one [[principal]] table")
    known = [_parse_principal(row, f"{escape(path)}: principal {number}") for number, row in enumerate(rows, 1)]
    if any("token" in row for row in rows):
        _read_private(path)
    for what, values in (("name", [one.name for one in known]), ("token", [one.digest for one in known])):
        if len(set(values)) < len(values):
            raise BadPrincipals(f"{escape(path)}: two principals have the same {what}")
    for inner in known:
        for outer in known:
            if inner.root != outer.root and inner.root.startswith(outer.root.rstrip(os.sep) + os.sep):
                raise BadPrincipals(
                    f"{escape(path)}: the root of {escape(inner.name)} is inside that of {escape(outer.name)}, "
                    "so they could reach each other's files"
                )
    stored = (os.path.join(state, name) for name in ("journal", _TOKEN_FILE))
    return Principals(known, [os.path.realpath(path), *stored])


def make_separating_rules(principal: Principal, principals: Principals) -> tuple[PolicyFile, ...]:
    """Return rules that keep the tools and commands of a principal out of the other roots and the shared files."""
    others = {one.root for one in principals.known} - {principal.root}
    paths = json.dumps([escape_glob(path) for path in (*sorted(others), *principals.private)])
    if paths == "[]":
        return ()
    table = f"""[[rules]]
action = ["read", "write", "delete"]
path = {paths}
tier = "deny"
why = "it belongs to another principal"
"""
    return (parse(table, "(principals)", "system"),)


def _parse_principal(row: JsonObject, where: str) -> Principal:
    values = dict(row)
    token, hashed = values.pop("token", None), values.pop("token_sha256", None)
    allowed = {one.name: str for one in fields(Principal)} | {"tools": list}
    del allowed["digest"]
    for key, value in values.items():
        if key not in allowed:
            raise BadPrincipals(
                f"{where}: unknown key {escape(key)}; the keys are token, token_sha256, {', '.join(allowed)}"
            )
        if not isinstance(value, allowed[key]):
            raise BadPrincipals(f"{where}: {key} is not {'a list' if allowed[key] is list else 'a string'}")
    if not values.get("name") or not values.get("root"):
        raise BadPrincipals(f"{where}: name and root are needed")
    if (token is None) == (hashed is None):
        raise BadPrincipals(f"{where}: either token or token_sha256 is needed")
    if hashed is not None and not (isinstance(hashed, str) and _DIGEST.fullmatch(hashed.lower())):
        raise BadPrincipals(f"{where}: token_sha256 is 64 hexadecimal digits")
    digest = bytes.fromhex(hashed) if hashed is not None else check_token(str(token), where)
    if values.get("mode", MODES[0]) not in MODES:
        raise BadPrincipals(f"{where}: mode is one of {', '.join(MODES)}")
    root = os.path.realpath(os.path.expanduser(values["root"]))
    if not os.path.isdir(root):
        raise BadPrincipals(f"{where}: root {escape(values['root'])} is not a directory")
    tools = tuple(values.pop("tools", ()))
    if not all(isinstance(name, str) for name in tools):
        raise BadPrincipals(f"{where}: tools is a list of names")
    return replace(Principal(**{**values, "digest": digest}), root=root, tools=tools)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise BadPrincipals(f"{escape(path)}: it is too large")
        return raw.decode("utf-8")
    except OSError as error:
        raise BadPrincipals(f"{escape(path)}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadPrincipals(f"{escape(path)}: it is not UTF-8") from None


def _read_private(path: str) -> str:
    """A file with a secret in it, if nobody else can read it."""
    text = _read(path)
    if stat.S_IMODE(os.stat(path).st_mode) & 0o077:
        raise BadPrincipals(f"{escape(path)}: other users can read this secret; run chmod 600 on it")
    return text
