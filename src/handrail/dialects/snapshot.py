"""What a model is told of the tools of each dialect, written down: `specs.json` in the dialect's folder.

A door that must answer before anything heavy is imported reads that file; and a change of a word that a model reads
shows in review. `python -m handrail.dialects.snapshot` writes the files, `--check` only says which are not current.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from handrail import dialects
from handrail.dialects import Dialect

FILE = "specs.json"
RENEW = "python -m handrail.dialects.snapshot"


def specs(dialect: Dialect) -> dict[str, Any]:
    """The tools of a dialect as plain JSON values."""
    tools = []
    for name, entry in dialect.entries.items():
        spec = dialect.spec(name)
        tools.append(
            {
                "name": name,
                "id": entry.id,
                "core": name in dialect.core,
                "hints": asdict(spec.hints),
                "description": spec.description,
                "inputSchema": spec.schema,
            }
        )
    return {"dialect": dialect.name, "tools": tools}


def text(dialect: Dialect) -> str:
    """What the file of a dialect holds."""
    return json.dumps(specs(dialect), ensure_ascii=False, indent=1) + "\n"


def stale(folder: Path = dialects.HERE) -> list[Path]:
    """The files below ``folder`` that are missing, or do not say what the tools say now."""
    found = []
    for name in dialects.names():
        path = folder / name / FILE
        if not path.is_file() or path.read_text(encoding="utf-8") != text(dialects.load(name)):
            found.append(path)
    return found


def main(words: Sequence[str], folder: Path = dialects.HERE) -> int:
    """Write the files that are not current, or with `--check` only name them; 1 if there was one to name."""
    old = stale(folder)
    if list(words) == ["--check"]:
        for path in old:
            sys.stderr.write(f"{path} is not current: run `{RENEW}`, and look at what changed\n")
        return 1 if old else 0
    if words:
        sys.stderr.write(f"usage: {RENEW} [--check]\n")
        return 2
    for path in old:
        path.write_text(text(dialects.load(path.parent.name)), encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
