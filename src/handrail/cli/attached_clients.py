"""The settings that attach an agent: made in its own configuration, and taken back byte for byte."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from handrail.attach import launcher
from handrail.attach.contracts import CONTRACTS
from handrail.cli import attach_skill
from handrail.cli.common import find_state
from handrail.cli.failures import explain_failures
from handrail.cli.output import Stop, UsageError, write
from handrail.files.configuration import BadConfiguration
from handrail.mcp.install.changes import FileSettings, Setting, get_value, read_data
from handrail.mcp.install.entry import ClientKind, load_clients
from handrail.programs import find_program
from handrail.text.display import escape

_PART = "attach"


def list_attachable() -> dict[str, ClientKind]:
    """The agents that can be attached, by name."""
    return {name: kind for name, kind in load_clients().items() if kind.attach}


def list_installed() -> dict[str, str]:
    """The attachable agents on this machine: their names and programs.

    Ask before you attach one: a program below a directory where settings were written counts as untrusted.
    """
    return {name: program for name in list_attachable() if (program := find_program(name))}


def list_attached() -> dict[str, ClientKind]:
    """The agents that have our hooks, by name."""
    return {name: kind for name, kind in list_attachable().items() if _is_attached(name, kind)}


def attach(name: str, program: str | None, *, required: bool = False) -> None:
    """Write the launcher and the settings of one agent and try it; raises `Stop` if a file cannot be changed.

    ``required``: whether the tools of attached agents fail when the helper cannot be reached.
    """
    from handrail.cli.attach_probe import probe  # a server of its own, which `list_attached` does not need

    client = _find_client(name)
    launcher.write(find_state(), required=required)
    files = _list_files(name, client)
    for file in files:
        with explain_failures(file.path, Stop):
            _require_free(file)
            file.check()
    for file in files:
        with explain_failures(file.path, Stop):
            is_new, _ = file.install()
            others = _list_other_hooks(file)
        write(f"{client.name} is {'attached' if is_new else 'already attached'}: {escape(file.path)}\n")
        for command in others:
            write(f"Another hook sees its commands: {escape(command)}. What it rewrites runs without Handrail.\n")
    attach_skill.install(client.find_skill_place(os.environ))
    tried = probe(program, client.probe, wraps=CONTRACTS[name].wraps)
    write(f"Test of {client.name}: {tried.detail}{f'; {tried.fix}' if tried.fix else ''}.\n")
    write(f"`handrail undo` undoes what it does; `handrail detach {name}` disconnects it.\n")


def detach(name: str) -> None:
    """Take the settings of one agent back; raises `Stop` if a file cannot be changed."""
    client = _find_client(name)
    attach_skill.remove(client.find_skill_place(os.environ))
    for file in reversed(_list_files(name, client)):  # the first has made the directories
        with explain_failures(file.path, Stop):
            was_there, is_gone = file.remove()
        where = escape(file.path)
        outcome = f"removed {where}, which was created for this" if is_gone else f"removed from {where}"
        write(f"{outcome if was_there else f'{client.name} is not attached: {where}'}\n")


def _find_client(name: str) -> ClientKind:
    known = list_attachable()
    if name not in known:
        raise UsageError(f"{escape(name)} cannot be attached; these can: {', '.join(known)}")
    return known[name]


def _is_attached(name: str, client: ClientKind) -> bool:
    try:
        return all(_has_settings(file) for file in _list_files(name, client))
    except (OSError, ValueError):
        return False


def _has_settings(file: FileSettings) -> bool:
    data = _read(file.path)
    for setting in file.settings(""):
        there = get_value(data, setting.keys)
        if not (all(one in (there or ()) for one in setting.add) if setting.add else there == setting.value):
            return False
    return True


def _list_files(name: str, client: ClientKind) -> list[FileSettings]:
    program = launcher.get_path(find_state())
    words = {
        "{launcher}": program,
        "{bash_env}": launcher.get_bash_path(find_state()),
        "{plugin}": f"file://{launcher.get_plugin_path(find_state())}",
        "{hook}": f"{shlex.quote(program)} hook {name}",
    }
    files = []
    for path, described in client.list_attach_places(os.environ):
        settings = [
            Setting(one["keys"], _fill(one.get("set"), words), _fill(one.get("add", []), words)) for one in described
        ]
        files.append(FileSettings(path, partial(_choose, settings), part=_PART))
    return files


def _choose(settings: Sequence[Setting], _text: str) -> Sequence[Setting]:
    """The same settings, whatever the file holds."""
    return settings


def _fill(value: object, words: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _fill(one, words) for key, one in value.items()}
    if isinstance(value, list):
        return [_fill(one, words) for one in value]
    return words.get(value, value) if isinstance(value, str) else value


def _read(path: str) -> dict[str, object]:
    with open(path, encoding="utf-8") as file:
        return read_data(path, file.read())


def _list_other_hooks(file: FileSettings) -> list[str]:
    """The hooks of others that run before commands, and may rewrite them."""
    ours = [one for setting in file.settings("") for one in setting.add]
    before = get_value(_read(file.path), ("hooks", "PreToolUse"))
    return [
        str(hook.get("command", hook.get("type")))
        for group in (before if isinstance(before, list) else ())
        if isinstance(group, dict) and group not in ours and _matches_bash(str(group.get("matcher") or ""))
        for hook in group.get("hooks", ())
    ]


def _matches_bash(matcher: str) -> bool:
    try:
        return matcher in ("", "*") or bool(re.fullmatch(matcher, "Bash"))
    except re.error:
        return True


def _require_free(file: FileSettings) -> None:
    """Raise if a text that we need to set has another value already."""
    data = _read(file.path) if os.path.exists(file.path) else {}
    for setting in file.settings(""):
        there = get_value(data, setting.keys)
        if isinstance(setting.value, str) and there not in (None, setting.value):
            raise BadConfiguration(f"{'.'.join(setting.keys)} is set already: {escape(str(there))}")
