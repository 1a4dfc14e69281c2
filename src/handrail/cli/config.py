"""`handrail config`: the settings with their values, origins and meanings; set, remove and check them."""

from __future__ import annotations

import argparse
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from handrail.cli.common import CommandParser, open_config
from handrail.cli.log import check_url
from handrail.cli.output import Screen, Stop, UsageError, as_document, write
from handrail.errors import ToolError
from handrail.files.configuration import BadConfiguration, ConfigurationFile
from handrail.json_types import JsonObject
from handrail.settings import AgentSettings, Settings, describe_fields
from handrail.settings.config_file import ConfigError, check, find_config, strip_none
from handrail.settings.journal_address import hide_password
from handrail.settings.toml_file import remove_value, set_value
from handrail.text.display import escape
from handrail.text.toml_lines import find_lines, write_value

_ABOUT = """\
Show every setting with its value, where the value comes from, and what it means; set or unset one; check the file.

Settings are yours and not a project's: they are kept in ~/.config/handrail/config.toml, or in the file that
$HANDRAIL_CONFIG names. Comments and the order of the file stay as they are."""

_EXAMPLES = """\
examples:
  handrail config                                 all settings
  handrail config get sandbox                     the value of one
  handrail config set hard_links split
  handrail config set keep_env CUDA_HOME,NODE_ENV  a list: separated by commas
  handrail config unset hard_links                back to the default
  handrail config check                           whether the file is valid

exit codes: 0 done, 1 the file cannot be written, 2 wrong usage, or a mistake in the file"""

_ENVIRONMENT = {"agent.model": "HANDRAIL_MODEL", "settings.state": "HANDRAIL_STATE"}
"""Settings that a variable sets too; for the model the variable comes first, for the state directory the file."""

_DATABASE = "settings.journal"
"""May contain a password, which is not shown."""


class SettingInForce(NamedTuple):
    """One setting as it is in force."""

    key: str
    value: object
    origin: str
    """`default`, the file with the line, or the environment variable."""
    default: object
    values: str
    """The valid values."""
    meaning: str


def parser() -> argparse.ArgumentParser:
    parser = CommandParser("config", _ABOUT, _EXAMPLES)
    parser.add_argument(
        "action", metavar="ACTION", nargs="?", default="list", help="list (default), get, set, unset, check or path"
    )
    parser.add_argument("words", metavar="KEY [VALUE]", nargs="*", default=[], help="for get, set and unset")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return parser


def run(options: argparse.Namespace) -> int:
    action, words = options.action, options.words
    if action not in _ACTIONS:
        raise UsageError(f"unknown action {escape(action)}; the actions are {', '.join(_ACTIONS)}")
    count, function = _ACTIONS[action]
    if len(words) != count:
        wanted = ("no further argument", "a KEY", "a KEY and a VALUE")[count]
        raise UsageError(f"{action} takes {wanted}; see `handrail config --help`")
    return function(*words, as_json=options.json)


def _list(*, as_json: bool) -> int:
    entries = _list_entries()
    if as_json:
        write(as_document({entry.key: _as_json(entry) for entry in entries}))
        return 0
    screen, table = Screen(sys.stdout), ""
    for entry in entries:
        above, _, name = entry.key.partition(".")
        if above != table:
            table = above
            write(screen.render((f"[{table}]", "bold")))
        style = "" if entry.origin == "default" else "green"
        write(screen.render((f"{name} = {show_value(entry.value)}", style), (f"   ({entry.origin})", "dim")))
        write(screen.render((f"    {entry.meaning}", "dim")))
        write(screen.render((f"    {entry.values}", "dim")))
    for root in open_config().roots:
        access = "read and write" if root.writable else "read-only"
        write(screen.render(("[[roots]] ", "bold"), (f"{escape(os.fspath(root.path))}   ({access})", "")))
    return 0


def _get(word: str, *, as_json: bool) -> int:
    key = _complete_key(word)
    entry = next(entry for entry in _list_entries() if entry.key == key)
    write(as_document(_as_json(entry)) if as_json else show_value(entry.value) + "\n")
    return 0


def _set(word: str, value: str, *, as_json: bool) -> int:
    key = _complete_key(word)
    table, name = key.split(".")
    if key == _DATABASE:
        check_url(value)
    return _change(lambda text: set_value(text, (table, name), _parse_word(key, value)), as_json)


def _unset(word: str, *, as_json: bool) -> int:
    keys = _complete_key(word).split(".")
    return _change(lambda text: remove_value(text, keys), as_json)


def _check(*, as_json: bool) -> int:
    path = open_config().path  # a mistake ends the command here, with its place
    if as_json:
        write(as_document({"path": path or None, "valid": True}))
    else:
        write(f"{escape(path)} is valid\n" if path else f"there is no configuration file; {_format_path()}\n")
    return 0


def _print_path(*, as_json: bool) -> int:
    write(as_document({"path": _find_config_path()}) if as_json else escape(_find_config_path()) + "\n")
    return 0


_ACTIONS: dict[str, tuple[int, Callable[..., int]]] = {
    "list": (0, _list),
    "get": (1, _get),
    "set": (2, _set),
    "unset": (1, _unset),
    "check": (0, _check),
    "path": (0, _print_path),
}


def _find_config_path() -> str:
    return find_config(os.environ)


def _format_path() -> str:
    return f"`handrail config set` would write {escape(_find_config_path())}"


def _list_kinds() -> dict[str, type[Settings] | type[AgentSettings]]:
    return {"settings": Settings, "agent": AgentSettings}


def _complete_key(word: str) -> str:
    """The key with its table; the table may be left out."""
    keys = [f"{table}.{field.name}" for table, kind in _list_kinds().items() for field in fields(kind)]
    matching = [key for key in keys if word in (key, key.partition(".")[2])]
    if matching:
        return matching[0]
    if word.split(".")[0].split("[")[0] == "roots":
        raise UsageError(f"roots are [[roots]] tables with path and writable; edit {escape(_find_config_path())}")

    names = [key.partition(".")[2] for key in keys]
    near = get_close_matches(word.rpartition(".")[2], names, n=1)
    hint = f"did you mean {near[0]}?" if near else "`handrail config` lists them"
    raise UsageError(f"there is no setting {escape(word)}; {hint}")


def _list_entries() -> list[SettingInForce]:
    """All settings as they are in force, in the order of the code."""
    config = open_config()
    lines: dict[Any, int] = {}
    if config.path:
        with open(config.path, encoding="utf-8") as file:
            lines = find_lines(file.read())
    entries = []
    for table, values in (("settings", config.settings), ("agent", config.agent)):
        kind = type(values)
        meanings, hints = describe_fields(kind), get_type_hints(kind)
        for field in fields(kind):
            key, value = f"{table}.{field.name}", getattr(values, field.name)
            line = lines.get((table, field.name))
            origin = f"{escape(config.path)}:{line}" if line else "default"
            variable = _ENVIRONMENT.get(key, "")
            if os.environ.get(variable) and (key == "agent.model" or not line):
                value, origin = os.environ[variable], f"${variable}"
            if key == _DATABASE and value:
                value = hide_password(value)
            entries.append(
                SettingInForce(
                    key, value, origin, field.default, describe_values(hints[field.name]), meanings[field.name]
                )
            )
    return entries


def describe_values(hint: object) -> str:
    """The valid values of a setting, as they are given here."""
    hint = strip_none(hint)
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    if hint in kinds:
        return kinds[hint]
    return "a list, separated by commas" if get_origin(hint) is tuple else f"one of {', '.join(get_args(hint))}"


def show_value(value: object) -> str:
    return "(not set)" if value is None else escape(write_value(value))


def _as_json(entry: SettingInForce) -> JsonObject:
    return {name: value for name, value in entry._asdict().items() if name != "key"}


def _parse_word(key: str, word: str) -> object:
    """A value from the command line; what does not fit the setting is refused when the new file is checked."""
    table, name = key.split(".")
    hint = strip_none(get_type_hints(_list_kinds()[table])[name])
    if get_origin(hint) is tuple and not word.lstrip().startswith("["):
        return [part.strip() for part in word.split(",") if part.strip()]
    if hint in (bool, int, float) or get_origin(hint) is tuple:
        try:
            return tomllib.loads(f"value = {word}")["value"]
        except ValueError:
            return word
    return word


def _change(edit: Callable[[str], str], as_json: bool) -> int:
    """Write the changed file, once it is known to be a valid configuration."""
    path = _find_config_path()
    try:
        with ConfigurationFile(path) as file:
            text = edit(file.text)
            check(path, text.encode("utf-8"))
            if text != file.text:
                file.write(text)
    except (ConfigError, BadConfiguration) as error:
        message = str(error)
        raise UsageError(message if message.startswith(escape(path)) else f"{escape(path)}: {message}") from None
    except ToolError as error:
        raise Stop(f"{escape(path)}: {escape(str(error))}") from None
    except OSError as error:
        raise Stop(f"{escape(path)}: {error.strerror}") from None
    return _check(as_json=as_json) if as_json else 0
