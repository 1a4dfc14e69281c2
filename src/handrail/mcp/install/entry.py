"""The settings that connect an MCP client to this server: its entry, and what the client does with its own tools.

The clients are described in `clients.toml`. `changes.py` makes the settings in their files and takes them back.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from handrail.files.configuration import BadConfiguration
from handrail.frozen import frozen
from handrail.json_types import JsonMapping
from handrail.mcp.install import json_file
from handrail.mcp.install.changes import FileSettings, Setting, get_value, print_settings
from handrail.text.display import escape

NAME = "handrail"
_ADDRESS_KEYS = ("url", "httpUrl", "serverUrl", "uri")


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
    keys: Sequence[str]
    entry: Mapping[str, object]
    project: Sequence[str] = ()
    default: str = "user"
    within: Mapping[str, Sequence[str]] = field(default_factory=dict)
    user_darwin: Sequence[str] = ()
    user_win32: Sequence[str] = ()
    root: str = ""
    needs_root: bool = False
    newer: JsonMapping = field(default_factory=dict)
    note: Mapping[str, str] = field(default_factory=dict)
    http: Mapping[str, object] = field(default_factory=dict)
    settings: JsonMapping = field(default_factory=dict)
    only: Sequence[JsonMapping] = ()
    allow: Sequence[Mapping[str, object]] = ()
    allow_entry: Mapping[str, object] = field(default_factory=dict)
    attach: Sequence[JsonMapping] = ()
    skill: JsonMapping = field(default_factory=dict)
    probe: Mapping[str, object] = field(default_factory=dict)

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

    def settings_place(self, scope: str, project: str, environ: Mapping[str, str]) -> str:
        """The path of the client's other file, for its tools and permissions; empty if it has only one."""
        if not self.settings:
            return ""
        return ClientKind(self.name, keys=(), entry={}, **self.settings).places(scope, project, environ)[0]

    def list_attach_places(self, environ: Mapping[str, str]) -> list[tuple[str, Sequence[JsonMapping]]]:
        """The files that attach the client's own tools, each with the settings in it."""
        return [(self._find_place(one, environ), one["make"]) for one in self.attach]

    def find_skill_place(self, environ: Mapping[str, str]) -> str:
        """Where the client looks for the skill."""
        return self._find_place(self.skill, environ)

    def _find_place(self, facts: JsonMapping, environ: Mapping[str, str]) -> str:
        """The user's file that `user` and `within` of these facts name."""
        return ClientKind(self.name, facts["user"], (), {}, within=facts.get("within", {})).places("user", "", environ)[
            0
        ]


def load_clients() -> dict[str, ClientKind]:
    table = Path(__file__).with_name("clients.toml").read_text(encoding="utf-8")
    return {name: ClientKind(**facts) for name, facts in tomllib.loads(table).items()}


def choose_place(places: Sequence[str]) -> str:
    """The file of the client that exists, or the first in a directory that exists, or the first."""
    directory = next((one for one in places if os.path.isdir(os.path.dirname(one))), places[0])
    return next((one for one in places if os.path.exists(one)), directory)


@dataclass(slots=True)
class ServerEntry:
    """The entry of this server in a client's file, and the settings that go with it."""

    client: ClientKind
    scope: str
    path: str
    command: Sequence[str]
    settings_path: str = ""
    """The client's other file."""
    only: bool = False
    """Whether the client's own file and shell tools are turned off."""
    allow: bool = False
    """Whether the client runs our tools without a question of its own."""
    tools: Sequence[str] = ()
    url: str = ""
    """The address of the HTTP server; empty for a server that the client starts."""
    token: str = ""

    @property
    def _by_hand(self) -> bool:
        """Whether a person has to change the file: Handrail edits JSON and TOML only."""
        return self.path.endswith(".yaml")

    def _find_layout(self, text: str) -> Setting:
        """The place of the entry and its contents."""
        keys, entry = self.client.keys, self.client.entry
        newer = self.client.newer
        if newer and self.path.endswith((".json", ".jsonc")) and json_file.find(json_file.parse(text), newer["keys"]):
            keys, entry = newer["keys"], newer["entry"]
        entry = self.client.http if self.url else entry
        return Setting(
            [*keys, NAME], {key: self._fill(one) for key, one in {**entry, **self._allow_in_entry()}.items()}
        )

    def _allow_in_entry(self) -> Mapping[str, object]:
        return self.client.allow_entry if self.allow else {}

    def _fill(self, value: object) -> object:
        if isinstance(value, dict):
            return {key: self._fill(one) for key, one in value.items()}
        if isinstance(value, str):
            value = value.replace("{token}", self.token).replace("{url}", self.url)
        words = {
            "{program}": self.command[0],
            "{arguments}": list(self.command[1:]),
            "{command}": list(self.command),
            "{tools}": list(self.tools),
        }
        return words.get(value, value) if isinstance(value, str) else value

    def _list_more_settings(self) -> list[Setting]:
        wanted = [*(self.client.only if self.only else ()), *(self.client.allow if self.allow else ())]
        return [self._make_setting(one) for one in wanted]

    def _make_setting(self, described: JsonMapping) -> Setting:
        add = [
            item.replace("{tool}", tool)
            for item in described.get("add", ())
            for tool in (self.tools if "{tool}" in item else [""])
        ]
        return Setting(described["keys"], described.get("set"), add)

    def _list_files(self) -> list[FileSettings]:
        """The files of the client, that with the entry first."""
        more = self._list_more_settings()
        inside = [] if self.settings_path else more
        files = [FileSettings(self.path, lambda text: [self._find_layout(text), *inside], self._require_ours)]
        if self.settings_path:
            files.append(FileSettings(self.settings_path, lambda _: more))
        return files

    def show(self) -> InstallReport:
        entry = self._find_layout("")
        with contextlib.suppress(OSError, ValueError):  # the usual layout, if the file does not say
            entry = self._find_layout(Path(self.path).read_text(encoding="utf-8"))
        more = self._list_more_settings()
        out = print_settings(self.path, [entry, *([] if self.settings_path else more)])
        aside = f"add this to {escape(self.path)} ({self.client.name})"
        if more and self.settings_path:
            out += print_settings(self.settings_path, more)
            aside += f"; the second part to {escape(self.settings_path)}"
        return InstallReport(out, aside)

    def install(self) -> InstallReport:
        if self._by_hand:
            return self.show()
        entry_file, *others = self._list_files()
        for other in others:
            try:
                other.check()
            except BadConfiguration as error:
                raise InstallError(f"{escape(other.path)} was not changed: {error}") from None
        changed, _ = entry_file.install()
        where = escape(self.path)
        outcome = f"is configured to use Handrail: {where}" if changed else f"is already configured: {where}"
        lines = [f"{self.client.name} {outcome}"]
        for other in others:
            if self._list_more_settings():
                changed = other.install()[0] or changed
            elif other.remove()[0]:  # an earlier installation had some
                lines.append(f"removed the settings of an earlier installation: {escape(other.path)}")
        if more := self._list_more_settings():
            lines += [f"in {escape(self.settings_path or self.path)}:", *(f"  {one.describe()}" for one in more)]
        lines += [f"in its entry: {key} = {json.dumps(value)}" for key, value in self._make_entry().items()]
        lines += self._list_hints()
        return InstallReport("\n".join(lines) + "\n", self.client.note.get(self.scope, ""))

    def _make_entry(self) -> dict[str, object]:
        return {key: self._fill(one) for key, one in self._allow_in_entry().items()}

    def _list_hints(self) -> list[str]:
        """What a person may want besides, or cannot have with this client."""
        hints = []
        if self.only and not self.client.only:
            hints.append(f"No setting of {self.client.name} is known that turns its own tools off.")
        elif not self.only and self.client.only:
            undo = "; `handrail attach` gives them undo" if self.client.attach else ""
            hints.append(f"{self.client.name} keeps its own file and shell tools. --only turns them off{undo}.")
        if self.allow and not (self.client.allow or self.client.allow_entry):
            hints.append(f"No setting of {self.client.name} is known that lets our tools run without its own question.")
        elif not self.allow and (self.client.allow or self.client.allow_entry):
            hints.append("It may ask about our tools itself; --allow leaves the questions to Handrail.")
        return hints

    def remove(self) -> InstallReport:
        if self._by_hand:
            return InstallReport("", f"remove {'.'.join([*self.client.keys, NAME])} from {escape(self.path)} yourself")
        entry_file, *others = self._list_files()
        was_there, gone = entry_file.remove()
        where = escape(self.path)
        if gone:
            lines = [f"removed {where}, which was created for this"]
        elif was_there:
            lines = [f"removed from {where}"]
        else:
            lines = [f"{self.client.name} has no entry for Handrail: {where}"]
        for other in others:
            was_there, gone = other.remove()
            if was_there:
                lines.append(f"removed {'' if gone else 'from '}{escape(other.path)}")
        return InstallReport("\n".join(lines) + "\n")

    def _require_ours(self, data: Mapping[str, object], known: Mapping[str, object] | None) -> None:
        """An entry of this name that starts something else is not ours to replace."""
        for keys in (self.client.keys, self.client.newer.get("keys", self.client.keys)):
            there = get_value(data, [*keys, NAME])
            if there is not None and not known and not _is_ours(there, self.url):
                raise BadConfiguration(
                    f"it has a server named {NAME} that starts something else; rename or remove that one first"
                )


def _is_ours(entry: object, url: str) -> bool:
    """Whether a server's entry starts `handrail mcp`, or has the address of this server."""
    if not isinstance(entry, dict):
        return False
    if url and any(entry.get(key) == url for key in _ADDRESS_KEYS):
        return True
    words = [entry.get("command", entry.get("cmd")), entry.get("args")]
    flat = [str(one) for part in words for one in (part if isinstance(part, list) else [part])]
    named = [number for number, one in enumerate(flat) if os.path.basename(one) in (NAME, f"{NAME}.exe")]
    return any(flat[number + 1 : number + 2] == ["mcp"] for number in named)
