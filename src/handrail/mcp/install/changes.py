"""Make some settings in one configuration file, and take them back byte for byte.

A record in the state directory (without the file's contents) holds the texts that were put in. If the file has been
rewritten since, each setting is found by its keys and removed where it is now.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from handrail.files.configuration import BadConfiguration, ConfigurationFile
from handrail.frozen import frozen
from handrail.json_types import JsonMapping
from handrail.mcp.install import json_file
from handrail.mcp.install.records import Records, undo_text
from handrail.settings import toml_file
from handrail.text.document import Splice, apply_splices


@frozen
class Setting:
    """One value in a configuration file, or texts that are added to a list there."""

    keys: Sequence[str]
    value: object = None
    add: Sequence[object] = ()

    def describe(self) -> str:
        """The setting in a few words, for a person."""
        name = ".".join(self.keys)
        return f"{name}: added {', '.join(map(str, self.add))}" if self.add else f"{name}: {self.value}"


Settings = Callable[[str], Sequence[Setting]]
"""The settings for a file with this text."""


def read_data(path: str, text: str) -> dict[str, object]:
    """The contents of a file as data."""
    if path.endswith(".toml"):
        return dict(toml_file.parse(text))
    root = json_file.parse(text)
    return dict(root.value) if root else {}


def print_settings(path: str, settings: Sequence[Setting]) -> str:
    """A file that holds these settings and nothing else."""
    if path.endswith(".yaml"):
        return _print_yaml(settings)
    text = ""
    for setting in settings:
        text = _change(path, text, setting, setting.add)
    return text


def _print_yaml(settings: Sequence[Setting]) -> str:
    """The settings as blocks of YAML; their values are written as JSON, which YAML includes."""
    lines: list[str] = []
    above: list[str] = []
    for setting in settings:
        for depth, key in enumerate(setting.keys[:-1]):
            if above[: depth + 1] != [*setting.keys[: depth + 1]]:
                lines.append(f"{'  ' * depth}{key}:")
        above = list(setting.keys)
        lines.append(f"{'  ' * (len(above) - 1)}{above[-1]}: {json.dumps(setting.value)}")
    return "\n".join(lines) + "\n"


@frozen
class FileSettings:
    """The settings of ours in one file."""

    path: str
    settings: Settings
    check_entry: Callable[[Mapping[str, object], Mapping[str, object] | None], None] | None = None
    """If the first setting is the entry of a server: raises `BadConfiguration` if the data holds an entry that is not
    ours; the second argument is the record of an older change."""
    part: str = ""
    """Tells these settings from others of ours in the same file."""

    def _name(self, config: ConfigurationFile) -> str:
        """The name of the record about these settings."""
        return f"{config.real}#{self.part}" if self.part else config.real

    def install(self) -> tuple[bool, Sequence[Setting]]:
        """Make the settings; whether the file was changed, and which settings it has now."""
        with ConfigurationFile(self.path) as config, Records() as records:
            known = records.get(self._name(config))
            base = undo_text(config.text, known) if known else None
            start = config.text if base is None else base  # older settings of ours are replaced
            settings = self.settings(start)
            if self.check_entry:
                self.check_entry(read_data(self.path, start), known if base is None else None)
            if known and base is None:
                start = self._drop_old_words(start, known, settings)
            new, steps, done = self._make(start, settings)
            if new == config.text:
                return False, settings
            older = known if known and base is None else None
            directories = config.write(new)
            record = {
                "created": known["created"] if known else not config.existed,
                "directories": known["directories"] if known else directories,
                "steps": [] if older else steps,
                "settings": [*(older.get("settings", []) if older else []), *done],
                "made": older.get("made", 0) if older else 0,
                "after": "" if older else config.digest(new),
            }
            records.put(self._name(config), record)
        return True, settings

    def check(self) -> None:
        """Raise what `install` would raise for the contents of the file, and change nothing."""
        with ConfigurationFile(self.path) as config, Records() as records:
            known = records.get(self._name(config))
            base = undo_text(config.text, known) if known else None
            self._make(config.text if base is None else base, self.settings(config.text))

    def remove(self) -> tuple[bool, bool]:
        """Take the settings back; whether there were any, and whether the file is gone now."""
        with ConfigurationFile(self.path) as config, Records() as records:
            known = records.get(self._name(config))
            new = undo_text(config.text, known) if known else None
            if new is None:
                new = self._take_back(config.text, known)
                if new == config.text:
                    records.forget(self._name(config))
                    return False, False
            gone = bool(known and known["created"]) and new.strip().strip("\ufeff") in ("", "{}")
            if gone:
                config.delete(known["directories"] if known else ())
            else:
                config.write(new)
            records.forget(self._name(config))
        return True, gone

    def _make(
        self, text: str, settings: Sequence[Setting]
    ) -> tuple[str, list[list[dict[str, object]]], list[dict[str, object]]]:
        """The new text, the splices of each step, and a record of each setting."""
        steps, done = [], []
        for setting in settings:
            data = read_data(self.path, text)
            there = get_value(data, setting.keys)
            missing = [one for one in setting.add if one not in (there if isinstance(there, list) else ())]
            if (setting.add and not missing) or (not setting.add and there is not None and there == setting.value):
                continue
            new = _change(self.path, text, setting, missing)
            value = [*(there or ()), *missing] if setting.add else setting.value
            self._require_only(text, new, setting.keys, value)
            steps.append([_find_difference(text, new)])
            old = {} if setting.add or there is None else {"old": there}
            levels = _count_new_levels(data, setting.keys)
            done.append({"keys": list(setting.keys), "add": missing, "levels": levels, "new": there is None, **old})
            text = new
        return text, steps, done

    def _drop_old_words(self, text: str, known: JsonMapping, settings: Sequence[Setting]) -> str:
        """The text without words that an older version added to a list and this one does not."""
        for one in known.get("settings", []):
            wanted = [word for setting in settings if list(setting.keys) == one["keys"] for word in setting.add]
            there = get_value(read_data(self.path, text), one["keys"])
            dropped = [word for word in one["add"] if word not in wanted]
            if wanted and isinstance(there, list) and any(word in there for word in dropped):
                left = [word for word in there if word not in dropped]
                text = _put(self.path, text, one["keys"], left)
        return text

    def _take_back(self, text: str, known: JsonMapping | None) -> str:
        """The text without the settings of ours, wherever they are now."""
        listed = list(known.get("settings", [])) if known else []
        entry = self.settings(text)[:1] if self.check_entry else []
        if entry and not any(one["keys"] == list(entry[0].keys) for one in listed):
            # An older version did not record it, or the records are lost.
            listed.insert(0, {"keys": list(entry[0].keys), "add": [], "levels": known.get("made", 0) if known else 0})
        if self.check_entry:
            self.check_entry(read_data(self.path, text), known)
        for one in reversed(listed):
            data = read_data(self.path, text)
            there = get_value(data, one["keys"])
            if there is None:
                continue
            left = [item for item in there if item not in one["add"]] if one["add"] and isinstance(there, list) else []
            value = left or one.get("old")
            if value is None and one["add"] and not one.get("new"):
                value = []  # the list was there, and empty
            if value is not None and isinstance(value, Mapping):
                value = None  # an older entry of ours is not put back into a file that has been rewritten
            if value is not None:
                new = _put(self.path, text, one["keys"], value)
            elif self.path.endswith(".toml"):
                new = toml_file.remove_value(text, one["keys"], one["levels"])
            else:
                new = apply_splices(text, json_file.take(text, one["keys"], one["levels"]))
            self._require_only(text, new, one["keys"], value)
            text = new
        return text

    def _require_only(self, before: str, after: str, keys: Sequence[str], value: object) -> None:
        """Require that the new file equals the old one except for one value."""
        try:
            new = read_data(self.path, after)
        except BadConfiguration:
            new = {}
        old = read_data(self.path, before)
        if get_value(new, keys) != value or _remove_keys(new, keys) != _remove_keys(old, keys):
            raise BadConfiguration(
                f"{'.'.join(keys)} cannot be changed without changing other entries; edit the file yourself"
            )


def _change(path: str, text: str, setting: Setting, missing: Sequence[object]) -> str:
    """The text with a setting."""
    if setting.add:
        return apply_splices(text, json_file.extend(text, setting.keys, missing))
    return _put(path, text, setting.keys, setting.value)


def _put(path: str, text: str, keys: Sequence[str], value: object) -> str:
    if path.endswith(".toml"):
        return toml_file.set_value(text, keys, value)
    return apply_splices(text, json_file.put(text, keys, value))


def _find_difference(old: str, new: str) -> dict[str, object]:
    """The one place where two texts differ, as a splice with the text that it replaces."""
    start = len(os.path.commonprefix([old, new]))  # noqa: RUF071 - these are no paths
    end = len(os.path.commonprefix([old[start:][::-1], new[start:][::-1]]))  # noqa: RUF071
    place = Splice(start, len(old) - end, new[start : len(new) - end])
    return {**asdict(place), "old": old[start : place.end]}


def get_value(data: object, keys: Sequence[str]) -> Any:
    """The value at the end of these keys; None if there is none."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return copy.copy(data)


def _remove_keys(data: object, keys: Sequence[str]) -> object:
    """The data without the value at these keys, and without objects that are empty then."""
    if not isinstance(data, dict) or not keys:
        return data
    left = {key: one for key, one in data.items() if key != keys[0]}
    inner = _remove_keys(data.get(keys[0]), keys[1:]) if len(keys) > 1 else None
    return left if inner in (None, {}) else left | {keys[0]: inner}


def _count_new_levels(data: object, keys: Sequence[str]) -> int:
    """How many of the objects around a value have to be created."""
    return sum(1 for count in range(1, len(keys)) if get_value(data, keys[:count]) is None)
