"""Read the user's configuration, which every session uses unless its host passes settings.

    # $HANDRAIL_CONFIG, or ~/.config/handrail/config.toml
    [settings]                 # the fields of `handrail.Settings`
    hard_links = "split"
    [[roots]]                  # directories besides the workspace
    path = "~/notes"
    writable = true            # false if left out
    [agent]                    # the fields of `handrail.settings.AgentSettings`, for chat and run
    model = "gpt-5.2"
    price_in = 1.25            # of a million tokens

A missing file is fine. A mistake raises `ConfigError` with the file, the key and the valid values.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import field, fields
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from handrail.frozen import frozen
from handrail.json_types import JsonObject
from handrail.settings import AgentSettings, Settings
from handrail.text.display import escape
from handrail.workspace import Root

_MOST_BYTES = 1 << 20
_MOST_NUMBER = 1 << 53


class ConfigError(ValueError):
    """The configuration is not valid; the text has the file, the key and the valid values."""


@frozen
class Config:
    """The user's configuration."""

    settings: Settings = field(default_factory=Settings)
    roots: tuple[Root, ...] = ()
    path: str = ""
    """The file that it comes from; empty if there is none."""
    agent: AgentSettings = field(default_factory=AgentSettings)


def find_config(environ: Mapping[str, str]) -> str:
    """Where the configuration is looked for."""
    if path := environ.get("HANDRAIL_CONFIG"):
        return path
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):  # unset, or of no use: it would mean another place in every directory
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "handrail", "config.toml")


def load(environ: Mapping[str, str]) -> Config:
    """The configuration of whoever runs this; raises `ConfigError`."""
    path = find_config(environ)
    raw = _read(path)
    return Config() if raw is None else check(path, raw)


def check(path: str, raw: bytes) -> Config:
    """The configuration that the bytes of this file would give; raises `ConfigError`."""
    try:
        table = tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{escape(path)}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except ValueError as error:  # of TOML, or of a number with thousands of digits
        raise ConfigError(f"{escape(path)}: not valid TOML: {escape(str(error))}") from None
    except RecursionError:
        raise ConfigError(f"{escape(path)}: not usable TOML: it is nested too deeply") from None
    checked = _Checked(path)
    settings, roots, agent = checked.config(table)
    return Config(settings, roots, path, agent)


def _read(path: str) -> bytes | None:
    try:
        if stat.S_IFMT(os.stat(path).st_mode) not in (stat.S_IFREG, stat.S_IFCHR):  # /dev/null will do
            raise ConfigError(f"{escape(path)}: not a file; it must be a TOML file")
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{escape(path)}: cannot be read: {error.strerror}") from None
    if len(raw) > _MOST_BYTES:
        raise ConfigError(f"{escape(path)}: more than {_MOST_BYTES >> 20} MB; a configuration is a few lines of TOML")
    return raw


class _Checked:
    """Turns tables into settings and roots, and says exactly where something is wrong."""

    def __init__(self, path: str) -> None:
        self._path = path

    def wrong(self, key: str, what: str) -> ConfigError:
        return ConfigError(f"{escape(self._path)}: {escape(key)}: {what}")

    def config(self, table: Mapping[str, object]) -> tuple[Settings, tuple[Root, ...], AgentSettings]:
        self._check_keys("", table, ["settings", "roots", "agent"])
        roots = table.get("roots", [])
        if not isinstance(roots, list) or not all(isinstance(root, dict) for root in roots):
            raise self.wrong("roots", "must be tables, [[roots]] with path and writable")
        checked = tuple(self._read_root(f"roots[{n}]", root) for n, root in enumerate(roots))
        settings, agent = (
            self._read_fields("settings", table, Settings),
            self._read_fields("agent", table, AgentSettings),
        )
        try:
            return Settings(**settings), checked, AgentSettings(**agent)
        except ValueError as error:  # an encoding, a pattern or an address
            raise ConfigError(f"{escape(self._path)}: settings.{error}") from None

    def _check_keys(self, above: str, table: Mapping[str, object], known: list[str]) -> None:
        for key in table:
            if key not in known:
                from difflib import get_close_matches  # slow to import, and only needed for mistakes

                near = get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"the keys are {', '.join(known)}"
                raise self.wrong(above + key, f"unknown key; {hint}")

    def _read_fields(self, name: str, above: Mapping[str, object], kind: type[Settings | AgentSettings]) -> JsonObject:
        """A table whose keys are the fields of a class."""
        table = above.get(name, {})
        if not isinstance(table, dict):
            raise self.wrong(name, f"must be a table, [{name}], not {_name_kind(table)}")
        self._check_keys(f"{name}.", table, [known.name for known in fields(kind)])
        hints = get_type_hints(kind)
        return {key: self._read_value(f"{name}.{key}", value, strip_none(hints[key])) for key, value in table.items()}

    def _read_value(self, key: str, value: object, hint: object) -> Any:
        if hint is bool:
            if not isinstance(value, bool):
                raise self.wrong(key, f"must be true or false, not {_name_kind(value)}")
        elif hint in (int, float):
            return self._number(key, value, hint)
        elif get_origin(hint) is tuple:
            if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
                raise self.wrong(key, f"must be a list of non-empty strings, not {_name_kind(value)}")
            return tuple(self._read_path(key, item) if key == "settings.redact_files" else item for item in value)
        elif hint is str:
            if not isinstance(value, str) or not value:
                raise self.wrong(key, f"must be a non-empty string, not {_name_kind(value)}")
            return self._read_path(key, value) if key == "settings.state" else value
        elif value not in get_args(hint):
            choices = ", ".join(f'"{choice}"' for choice in get_args(hint))
            raise self.wrong(key, f"must be one of {choices}, not {_name_kind(value)}")
        return value

    def _number(self, key: str, value: Any, kind: type[int] | type[float]) -> int | float:
        fits = isinstance(value, int) or (kind is float and isinstance(value, float))
        if isinstance(value, bool) or not fits or not 0 <= value <= _MOST_NUMBER:
            sort = "a whole number" if kind is int else "a number"
            raise self.wrong(key, f"must be {sort} from 0 to {_MOST_NUMBER}, not {_name_kind(value)}")
        return kind(value)

    def _read_root(self, key: str, table: Mapping[str, object]) -> Root:
        self._check_keys(f"{key}.", table, ["path", "writable"])
        path, writable = table.get("path"), table.get("writable", False)
        if not isinstance(path, str) or not path:
            raise self.wrong(f"{key}.path", "must be the path of a directory")
        return Root(self._read_path(f"{key}.path", path), self._read_value(f"{key}.writable", writable, bool))

    def _read_path(self, key: str, value: str) -> str:
        path = os.path.expanduser(value)
        if not os.path.isabs(path) or "\0" in path:
            raise self.wrong(key, f"must be an absolute path, or start with ~/, not {_name_kind(value)}")
        return path


def strip_none(hint: object) -> object:
    """The type of a field that may also be left out."""
    rest = [one for one in get_args(hint) if one is not NoneType]
    return rest[0] if NoneType in get_args(hint) and len(rest) == 1 else hint


def _name_kind(value: object) -> str:
    if isinstance(value, str):
        return f'"{escape(value[:60])}"' if len(value) <= 60 else f'"{escape(value[:60])}..."'
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)[:60] if isinstance(value, int | float) else "a list" if isinstance(value, list) else "a table"
