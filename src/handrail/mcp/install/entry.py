"""Write the server's entry into the configuration file of an MCP client, or remove it again.

The clients are described in `clients.toml`. Only the entry is added or removed; every other byte stays. A record in the
state directory (without the file's contents) allows undo to restore the exact bytes, and to delete a file that was
created for the entry. If the client has rewritten its file since, the entry is found and removed where it is now.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from handrail.frozen import frozen
from handrail.mcp.install import json_file, toml_file
from handrail.mcp.install.files import ClientFile, Records, undo_text
from handrail.mcp.install.json_file import Broken
from handrail.text.display import escape
from handrail.text.document import Splice

NAME = "handrail"


class InstallError(Exception):
    """Nothing was changed; the text says why."""


@frozen
class InstallReport:
    """The outcome in words: `out` goes to stdout, `aside` to stderr."""

    out: str
    aside: str = ""


@frozen
class ClientKind:
    """One client, as described in `clients.toml`."""

    name: str
    user: Sequence[str]
    project: Sequence[str]
    keys: Sequence[str]
    entry: Mapping[str, Any]
    default: str = "user"
    within: Mapping[str, Sequence[str]] = field(default_factory=dict)
    user_darwin: Sequence[str] = ()
    user_win32: Sequence[str] = ()
    root: str = ""
    newer: Mapping[str, Any] = field(default_factory=dict)
    note: Mapping[str, str] = field(default_factory=dict)

    def places(self, scope: str, project: str, environ: Mapping[str, str]) -> list[str]:
        """The paths where the client may keep its file."""
        if scope == "project":
            return [os.path.join(project, one) for one in self.project]
        for variable, names in self.within.items():
            if environ.get(variable):
                return [os.path.join(environ[variable], one) for one in names]
        home = environ.get("HOME") or os.path.expanduser("~")
        own = {"darwin": self.user_darwin, "win32": self.user_win32}.get(sys.platform)
        return [os.path.join(home, one.removeprefix("~/")) for one in own or self.user]


def clients() -> dict[str, ClientKind]:
    table = Path(__file__).with_name("clients.toml").read_text(encoding="utf-8")
    return {name: ClientKind(**facts) for name, facts in tomllib.loads(table).items()}


@dataclass(slots=True)
class ServerEntry:
    """The entry of this server in a client's file."""

    client: ClientKind
    scope: str
    path: str
    command: Sequence[str]

    def _layout(self, text: str) -> tuple[list[str], dict[str, Any]]:
        """The place of the entry and its contents."""
        keys, entry = self.client.keys, self.client.entry
        newer = self.client.newer
        if newer and not self._is_toml and json_file.find(json_file.parse(text), newer["keys"]):
            keys, entry = newer["keys"], newer["entry"]
        filled = {"{program}": self.command[0], "{arguments}": self.command[1:], "{command}": self.command}
        filled_entry = {key: filled.get(one, one) if isinstance(one, str) else one for key, one in entry.items()}
        return [*keys, NAME], {
            key: list(one) if isinstance(one, (list, tuple)) else one for key, one in filled_entry.items()
        }

    @property
    def _is_toml(self) -> bool:
        return self.path.endswith(".toml")

    def show(self) -> InstallReport:
        keys, entry = self._layout("")
        with contextlib.suppress(OSError, ValueError):  # the usual layout, if the file does not say
            keys, entry = self._layout(Path(self.path).read_text(encoding="utf-8"))
        file_format: Any = toml_file if self._is_toml else json_file
        (splice,) = file_format.put("", keys, entry)
        return InstallReport(splice.new, f"add this to {escape(self.path)} ({self.client.name})")

    def install(self) -> InstallReport:
        with ClientFile(self.path) as config, Records() as records:
            known = records.get(config.real)
            text = config.text
            base = undo_text(text, known) if known else None
            start = text if base is None else base  # an older entry of ours is replaced
            keys, entry = self._layout(start)
            self._require_ours(start, keys)
            splices = self._set_entry(start, keys, entry)
            new = _apply(start, splices)
            if new == text:
                return InstallReport(f"{self.client.name} is already configured: {escape(self.path)}\n")
            self._check(start, new, keys, entry)
            new_levels = _count_new_levels(self._data(start), keys)
            directories = config.write(new)
            remembered = known if known and base is None else None
            record = {
                "created": known["created"] if known else not config.existed,
                "directories": known["directories"] if known else directories,
                "made": remembered["made"] if remembered else new_levels,
                "splices": [] if remembered else [asdict(one) | {"old": start[one.start : one.end]} for one in splices],
                "after": "" if remembered else config.digest(new),
            }
            records.put(config.real, record)
        note = self.client.note.get(self.scope, "")
        return InstallReport(f"{self.client.name} is configured to use Handrail: {escape(self.path)}\n", note)

    def remove(self) -> InstallReport:
        with ClientFile(self.path) as config, Records() as records:
            known = records.get(config.real)
            text = config.text
            new = undo_text(text, known) if known else None
            created = bool(known and known["created"])
            if new is None:
                keys, _ = self._layout(text)
                self._require_ours(text, keys)
                new = _apply(text, self._take(text, keys, known["made"] if known else 0))
                if new == text:
                    records.forget(config.real)
                    return InstallReport(f"{self.client.name} has no entry for Handrail: {escape(self.path)}\n")
                self._check(text, new, keys, None)
            if created and new.strip().strip("\ufeff") in ("", "{}"):
                config.delete(known["directories"] if known else ())
                message = f"removed {escape(self.path)}, which was created for this\n"
            else:
                config.write(new)
                message = f"removed from {escape(self.path)}\n"
            records.forget(config.real)
        return InstallReport(message)

    def _set_entry(self, text: str, keys: list[str], entry: dict[str, Any]) -> list[Splice]:
        return toml_file.put(text, keys, entry) if self._is_toml else json_file.put(text, keys, entry)

    def _take(self, text: str, keys: list[str], new_levels: int) -> list[Splice]:
        return toml_file.take(text, keys) if self._is_toml else json_file.take(text, keys, new_levels)

    def _data(self, text: str) -> dict[str, Any]:
        if self._is_toml:
            return toml_file.parse(text)
        root = json_file.parse(text)
        return dict(root.value) if root else {}

    def _require_ours(self, text: str, keys: list[str]) -> None:
        """An entry of this name that starts something else is not ours to replace."""
        there = _value_at(self._data(text), keys)
        if there is not None and not _is_ours(there):
            raise Broken(f"it has a server named {NAME} that starts something else; rename or remove that one first")

    def _check(self, before: str, after: str, keys: list[str], entry: dict[str, Any] | None) -> None:
        """Require that the new file equals the old one except for the entry."""
        try:
            new = self._data(after)
        except Broken:
            new = {}
        if _value_at(new, keys) != entry or _remove_keys(new, keys) != _remove_keys(self._data(before), keys):
            raise Broken(f"{'.'.join(keys)} cannot be changed without changing other entries; edit the file yourself")


def _apply(text: str, splices: Sequence[Splice]) -> str:
    for one in sorted(splices, key=lambda splice: splice.start, reverse=True):
        text = text[: one.start] + one.new + text[one.end :]
    return text


def _value_at(data: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _remove_keys(data: Any, keys: Sequence[str]) -> Any:
    """The data without the value at these keys, and without objects that are empty then."""
    if not isinstance(data, dict) or not keys:
        return data
    left = {key: one for key, one in data.items() if key != keys[0]}
    inner = _remove_keys(data.get(keys[0]), keys[1:]) if len(keys) > 1 else None
    return left if inner in (None, {}) else left | {keys[0]: inner}


def _count_new_levels(data: Any, keys: Sequence[str]) -> int:
    """How many of the objects around the entry have to be created."""
    return sum(1 for count in range(1, len(keys)) if _value_at(data, keys[:count]) is None)


def _is_ours(entry: Any) -> bool:
    """Whether a server's entry starts `handrail mcp`."""
    try:
        words = json.loads(json.dumps([entry.get("command"), entry.get("args")]))
    except (AttributeError, TypeError, ValueError):
        return False
    flat = [str(one) for part in words for one in (part if isinstance(part, list) else [part])]
    named = [number for number, one in enumerate(flat) if os.path.basename(one) in (NAME, f"{NAME}.exe")]
    return any(flat[number + 1 : number + 2] == ["mcp"] for number in named)
