"""Which tools are offered: read from the file that comes with the dialect, so that nothing heavy is imported.

`specs.json` is what `python -m handrail.dialects.snapshot` writes. A dialect without it is loaded instead, which is
slower and says the same.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_SHIPPED = os.path.join(os.path.dirname(os.path.dirname(__file__)), "dialects")
_FILE = "specs.json"


class NoSuchOffer(ValueError):
    """The dialect or a tool that was asked for does not exist; the text says what does."""


def specs(dialect: str, wanted: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The tools of a dialect that a client is offered: its core, or those that are ``wanted``; `all` means all."""
    known = _known(dialect)
    if not wanted:
        return [spec for spec in known if spec["core"]]
    if "all" in wanted:
        return known
    names = [spec["name"] for spec in known]
    if missing := [name for name in wanted if name not in names]:
        raise NoSuchOffer(f"the dialect {dialect} has no tool {missing[0]!r}; it has {', '.join(names)}")
    return [spec for spec in known if spec["name"] in wanted]


def _known(dialect: str) -> list[dict[str, Any]]:
    shipped = os.path.basename(dialect) == dialect and os.path.isdir(os.path.join(_SHIPPED, dialect))
    folder = os.path.join(_SHIPPED, dialect) if shipped else dialect
    path = os.path.join(folder, _FILE)
    if os.path.isfile(path) and (shipped or not _outdated(folder)):
        with open(path, encoding="utf-8") as file:
            tools: list[dict[str, Any]] = json.load(file)["tools"]
            return tools
    return _loaded(dialect)


def _outdated(folder: str) -> bool:
    """Whether something in a user's folder was changed after the file was written."""
    with os.scandir(folder) as entries:
        times = {entry.name: entry.stat().st_mtime_ns for entry in entries}
    return any(time > times[_FILE] for time in times.values())


def _loaded(dialect: str) -> list[dict[str, Any]]:
    from handrail import dialects
    from handrail.dialects import snapshot

    try:
        tools: list[dict[str, Any]] = snapshot.specs(dialects.load(dialect))["tools"]
    except dialects.DialectError as error:
        raise NoSuchOffer(str(error)) from None
    except OSError as error:
        raise NoSuchOffer(f"the dialect {dialect!r} cannot be read: {error.strerror}") from None
    return json.loads(json.dumps(tools))  # type: ignore[no-any-return]
