"""Build `specs.json` for each shipped dialect: its tools with descriptions and schemas, as plain JSON.

The MCP server answers its first requests from these files, before anything heavy is imported. They are built with the
wheel and by an editable install, and are not committed. `python -m handrail.mcp.build_specs` renews them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from handrail import dialects
from handrail.mcp.tool_list import FILE, find_newest_source


def build(folder: Path, *, trusted: bool) -> list[Path]:
    """Write NAME/specs.json below ``folder`` for every shipped dialect.

    Files of a wheel are ``trusted``: their sources never change. The others note the time of their newest source, so
    that a reader can tell when they are out of date.
    """
    written = []
    for name in dialects.names():
        document: dict[str, object] = {"dialect": name, "tools": dialects.load(name).plain_specs()}
        if not trusted:
            document["newest_source"] = find_newest_source(name)
        path = folder / name / FILE
        path.parent.mkdir(exist_ok=True)
        _replace(path, json.dumps(document, ensure_ascii=False, indent=1) + "\n")
        written.append(path)
    return written


def _replace(path: Path, text: str) -> None:
    """Write the file in one step: a server that starts now must not read half of it."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{FILE}.", dir=path.parent)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def main(words: Sequence[str], folder: Path = dialects.HERE) -> int:
    """Renew the files of the source tree."""
    if words:
        sys.stderr.write("usage: python -m handrail.mcp.build_specs\n")
        return 2
    build(folder, trusted=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
