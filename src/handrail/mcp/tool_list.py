"""Read the tools that are offered from a built file, so that nothing heavy is imported.

`handrail.mcp.build_specs` builds `specs.json` for each shipped dialect. In a wheel it is final; beside the sources it
notes the time of its newest source. Where it is missing or out of date, and for dialects of users, the dialect is
loaded instead: slower, with the same answer.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from handrail.json_types import JsonObject


FILE = "specs.json"
_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_DIALECTS = os.path.join(_PACKAGE, "dialects")
_TOOLS = os.path.join(_PACKAGE, "tools")
_SOURCES = (".py", ".md", ".toml", ".json")


class NoSuchOffer(ValueError):
    """The requested dialect or tool does not exist; the text lists the existing ones."""


def list_specs(dialect: str, requested: Sequence[str] = ()) -> list[JsonObject]:
    """The tools of a dialect that a client is offered: its core, or those that are ``requested``; `all` means all."""
    known = read_built(dialect) or _load_specs(dialect)
    if not requested:
        return [spec for spec in known if spec["core"]]
    if "all" in requested:
        return known
    names = [spec["name"] for spec in known]
    if missing := [name for name in requested if name not in names]:
        raise NoSuchOffer(f"the dialect {dialect} has no tool {missing[0]!r}; it has {', '.join(names)}")
    return [spec for spec in known if spec["name"] in requested]


def read_built(dialect: str) -> list[JsonObject] | None:
    """The tools of a shipped dialect; None if there is no file, or it is older than its sources."""
    if os.path.basename(dialect) != dialect or not os.path.isdir(os.path.join(_DIALECTS, dialect)):
        return None
    try:
        with open(os.path.join(_DIALECTS, dialect, FILE), encoding="utf-8") as file:
            built = json.load(file)
        newest = built.get("newest_source")
        tools: list[dict[str, object]] = built["tools"]
        return tools if newest is None or newest == find_newest_source(dialect) else None
    except (OSError, ValueError, KeyError, AttributeError):  # not built, as in a fresh checkout
        return None


def find_newest_source(dialect: str) -> int:
    """When the newest file was changed that the specs of a shipped dialect are made from."""
    newest = 0
    for folder in (_TOOLS, os.path.join(_TOOLS, "shared"), _DIALECTS, os.path.join(_DIALECTS, dialect)):
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(_SOURCES) and entry.name != FILE:
                    newest = max(newest, entry.stat().st_mtime_ns)
    return newest


def _load_specs(dialect: str) -> list[JsonObject]:
    from handrail import dialects

    try:
        tools = dialects.load(dialect).plain_specs()
    except dialects.DialectError as error:
        raise NoSuchOffer(str(error)) from None
    except OSError as error:
        raise NoSuchOffer(f"the dialect {dialect!r} cannot be read: {error.strerror}") from None
    return json.loads(json.dumps(tools))  # type: ignore[no-any-return]
