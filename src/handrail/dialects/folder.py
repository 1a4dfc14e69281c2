"""Read a dialect folder together with the folders that it extends.

`extends` inherits everything. Tables are merged key by key, any other value replaces the inherited one, and a tool
whose `id` changes starts from nothing. Descriptions, schemas and the prompt are looked up along the same chain. An
adapter (a Python file) is part of a dialect only if its folder belongs to an installed package: a folder that is given
by its path holds data, and no code of it runs.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from handrail.frozen import frozen
from handrail.json_types import JsonMapping

HERE = Path(__file__).parent
PACKAGE = HERE.parent.resolve()


class DialectError(ValueError):
    """A dialect that cannot be used; the text says why."""


class FolderPlace(NamedTuple):
    """Where a dialect is."""

    path: Path
    installed: bool = False
    """Whether the folder belongs to an installed package, so that its adapters may run."""


@frozen
class DialectFolder:
    """The contents of a dialect folder, with everything that it inherits."""

    path: Path
    table: JsonMapping
    """`tools.toml`, merged with that of the dialects below."""
    messages: Mapping[str, str]
    """Every sentence by its key, such as `errors.not_found`."""
    chain: tuple[Path, ...]
    """This folder and those it extends, nearest first."""
    sources: Mapping[str, tuple[Path, ...]]
    """For each tool, the folders that may hold its `NAME.md` and `NAME.json`, nearest first."""
    adapters: Mapping[str, Path]
    """For each tool that has an adapter, its file."""

    def file(self, tool: str, suffix: str) -> Path | None:
        """The description or schema of a tool: the nearest one on the chain."""
        return _find_file(self.sources.get(tool, ()), tool + suffix)

    def prompt(self) -> Path | None:
        """The file with the words for an agent, if there is one on the chain."""
        return _find_file(self.chain, "prompt.md")

    def policy(self) -> Path | None:
        """The file with rules for sessions, if there is one on the chain."""
        return _find_file(self.chain, "policy.toml")


def names() -> list[str]:
    """The dialects that come with Handrail."""
    return sorted(path.parent.name for path in HERE.glob("*/tools.toml"))


def find_folder(name: str, beside: Path | None = None) -> FolderPlace:
    """The folder of a dialect: a shipped one by name, a path (also relative to ``beside``), or an entry point."""
    if name in names():
        return FolderPlace(HERE / name, installed=True)
    for path in (Path(name), *([beside / name] if beside else [])):
        if os.path.isfile(path / "tools.toml"):
            return locate(path)
    from importlib.metadata import entry_points

    for entry in entry_points(group="handrail.dialects", name=name):
        return FolderPlace(Path(entry.load()), installed=True)
    raise DialectError(f"unknown dialect {name!r}; the dialects are {', '.join(names())}, or give the path of a folder")


def locate(path: Path, *, installed: bool = False) -> FolderPlace:
    """The place of a folder that is given by its path. A link to a shipped dialect is followed once, here."""
    real = path.resolve()
    return FolderPlace(real, installed=True) if is_shipped(real) else FolderPlace(path, installed)


def is_shipped(path: Path) -> bool:
    """Whether a folder comes with Handrail: a dialect, or the words of an integration."""
    return path.resolve().is_relative_to(PACKAGE)


def read_folder(place: FolderPlace, above: tuple[Path, ...] = ()) -> DialectFolder:
    """The dialect in ``place``, with everything it inherits; ``above`` are the folders that extend it."""
    path = place.path
    if path.resolve() in above:
        raise DialectError(f"{path / 'tools.toml'}: the dialect extends itself")
    above = (*above, path.resolve())
    own = read_toml(path / "tools.toml")
    file = path / "messages.toml"
    sentences = flatten(read_toml(file)) if file.exists() else {}
    base = read_folder(find_folder(str(own["extends"]), path), above) if "extends" in own else None
    if "words" in own or (base is None and path.resolve() != (HERE / "native").resolve()):
        words = read_folder(find_folder(str(own.get("words", "native")), path), above).messages
    else:
        words = base.messages if base else {}
    table = merge_tables(base.table, own) if base else own
    inherited = _read_tools(base.table) if base else {}
    sources: dict[str, tuple[Path, ...]] = dict.fromkeys(_read_tools(table), (path,))
    adapters: dict[str, Path] = {}
    for tool, folders in base.sources.items() if base else ():
        if tool not in _read_tools(own) or _extends_tool(inherited[tool], _read_tools(own)[tool]):
            sources[tool] = (path, *folders)
            if base and tool in base.adapters:
                adapters[tool] = base.adapters[tool]
    for tool, entry in _read_tools(own).items():
        if isinstance(entry, Mapping) and "adapter" in entry:
            adapters.pop(tool, None)
            if entry["adapter"]:
                adapters[tool] = _find_adapter(place, tool, entry["adapter"])
    chain = (path, *(base.chain if base else ()))
    return DialectFolder(path, table, {**words, **sentences}, chain, sources, adapters)


def _find_adapter(place: FolderPlace, tool: str, name: object) -> Path:
    """The adapter that a folder names for one of its tools; raises `DialectError` unless it may be used."""
    problem = find_adapter_problem(place, name)
    if problem:
        raise DialectError(f"{place.path / 'tools.toml'}: {tool}: {problem}")
    return place.path / str(name)


def find_adapter_problem(place: FolderPlace, name: object) -> str:
    """Why a folder may not have this adapter; empty if it may."""
    if not place.installed:
        return (
            "only dialects of installed packages have adapters, because an adapter is code: register the folder as an "
            "entry point in the group handrail.dialects"
        )
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*\.py", name, re.ASCII):
        return f"an adapter is a Python file in the folder of the dialect, such as read_file.py, not {name!r}"
    return "" if (place.path / name).is_file() else f"there is no adapter {name} in the folder of the dialect"


def merge_tables(base: JsonMapping, own: Mapping[str, object]) -> dict[str, object]:
    """A `tools.toml` over the one that it extends. Tools that it adds are offered, unless it has a `core` itself."""
    merged = _merge(base, {key: value for key, value in own.items() if key != "tools"})
    if "tools" in own and not isinstance(own["tools"], Mapping):
        return {**merged, "tools": own["tools"]}
    tools = dict(_read_tools(base))
    for name, entry in _read_tools(own).items():
        inherited = tools.get(name)
        tools[name] = _merge(inherited, entry) if inherited and _extends_tool(inherited, entry) else entry
    if "core" in base and "core" not in own:
        merged["core"] = [*base["core"], *(name for name in tools if name not in _read_tools(base))]
    return {**merged, "tools": tools}


def _extends_tool(inherited: object, entry: object) -> bool:
    """Whether an entry changes an inherited tool; one with another `id` is a tool of its own."""
    if not isinstance(inherited, Mapping) or not isinstance(entry, Mapping):
        return False
    return bool(entry.get("id", inherited.get("id")) == inherited.get("id"))


def _read_tools(table: Mapping[str, object]) -> JsonMapping:
    tools = table.get("tools", {})
    return tools if isinstance(tools, Mapping) else {}


def _merge(base: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    merged = dict(base)
    for key, value in own.items():
        inherited = merged.get(key)
        both = isinstance(inherited, Mapping) and isinstance(value, Mapping)
        merged[key] = _merge(inherited, value) if both else value  # type: ignore[arg-type]
    return merged


def read_toml(path: Path) -> dict[str, object]:
    """A file of TOML; raises `DialectError`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DialectError(f"{path}: {error}") from None


def flatten(table: JsonMapping, above: str = "") -> dict[str, str]:
    """Nested tables as one: `[errors] not_found` becomes `errors.not_found`."""
    flat: dict[str, str] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{above}{name}.")
        else:
            flat[above + name] = value
    return flat


def _find_file(folders: tuple[Path, ...], name: str) -> Path | None:
    return next((folder / name for folder in folders if (folder / name).exists()), None)
