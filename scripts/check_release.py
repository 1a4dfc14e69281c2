"""Check that everything names the version of a tag: `python scripts/check_release.py v0.3.0`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def find_problems(root: Path, version: str) -> list[str]:
    """Everything that does not fit a release of this version, in words."""
    package = re.search(r'__version__ = "(.*)"', (root / "src/handrail/version.py").read_text(encoding="utf-8"))
    problems = [] if package and package[1] == version else [f"src/handrail/version.py is not {version}"]
    if not re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$", _read(root, "CHANGELOG.md"), re.MULTILINE):
        problems.append(f"CHANGELOG.md has no part `## {version} (YYYY-MM-DD)`")
    server = json.loads(_read(root, "server.json"))
    if {server["version"], *(one["version"] for one in server["packages"])} != {version}:
        problems.append(f"server.json names another version than {version}")
    if "OWNER" in server["name"]:
        problems.append("server.json: OWNER stands for the account on GitHub that publishes")
    if f"mcp-name: {server['name']}" not in _read(root, "README.md"):
        problems.append(f"README.md needs the line <!-- mcp-name: {server['name']} -->")
    return problems


def _read(root: Path, name: str) -> str:
    return (root / name).read_text(encoding="utf-8")


def main(tag: str) -> int:
    problems = find_problems(ROOT, tag.removeprefix("v"))
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
