"""Write docs/packages.md: the packages that each extra brings, their sizes and licences, from what is installed.

Run it in the development environment: `python docs/list_packages.py`. Sizes are those of the files on disk
without compiled bytecode.
"""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

EXTRAS = ("", "anthropic", "media", "index", "outline")
"""Not `fleet`: the development environment has no Ray."""
DOWNLOAD = """\
The first line downloads 15.6 MB on x86-64 and 13.5 MB on aarch64 (Python 3.13, November 2026)."""
"""Measured with `pip download` for each platform."""
_NAME = re.compile(r"[-_.]+")


def normalize(name: str) -> str:
    return _NAME.sub("-", name).lower()


def list_requirements(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """The packages that a package asks for with these extras, on this machine."""
    from packaging.requirements import Requirement

    requirements = []
    for line in metadata.requires(name) or []:
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""})):
            requirements.append((normalize(requirement.name), frozenset(requirement.extras)))
    return requirements


def collect(extra: str) -> set[str]:
    """Handrail with an extra, and everything below it."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [("handrail", frozenset({extra} if extra else set()))]
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting += list_requirements(*one)
    return {name for name, _ in seen} - {"handrail"}


def measure(name: str) -> int:
    """The bytes of a package on disk, without bytecode."""
    files = metadata.files(name) or []
    return sum(Path(str(file.locate())).stat().st_size for file in files if is_measured(Path(str(file.locate()))))


def is_measured(path: Path) -> bool:
    return path.suffix != ".pyc" and path.is_file()


def find_licence(name: str) -> str:
    about = metadata.metadata(name)
    if expression := about.get("License-Expression"):
        return expression
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if "License" in line]
    return ", ".join(classifiers) or (about.get("License") or "unknown").partition("\n")[0][:60]


def main() -> None:
    rows = []
    for extra in EXTRAS:
        names = collect(extra)
        size = sum(map(measure, names)) / 1e6
        rows.append(f"| {f'`handrail[{extra}]`' if extra else '`handrail`'} | {len(names)} | {size:.0f} MB |")
    licences = [
        f"| {name} | {metadata.version(name)} | {find_licence(name)} |"
        for name in sorted(set().union(*map(collect, EXTRAS)))
    ]
    page = "\n".join(
        [
            "# Packages",
            "",
            "What an installation brings besides Handrail, on Linux with Python 3.11 (`python docs/list_packages.py`).",
            "",
            "| Install | Packages | On disk |",
            "|---|---|---|",
            *rows,
            "",
            DOWNLOAD,
            "",
            "## Licences",
            "",
            "| Package | Version | Licence |",
            "|---|---|---|",
            *licences,
            "",
        ]
    )
    Path(__file__).with_name("packages.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
