"""Compare the shape of the code with its limits: cycles, layers, methods of a class, complexity, `Any`, late imports.

`make sizes` prints the table; `make check` fails if a figure is above its limit. pyproject.toml holds the limits.
`--small` lists modules that may join their only importer.
"""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FEW_LINES = 60


def read_modules() -> dict[str, ast.Module]:
    """The modules of the package by their dotted names."""
    modules = {}
    for path in sorted((SOURCE / "handrail").rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = ast.parse(path.read_text(encoding="utf-8"))
    return modules


def list_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports that can run: those inside functions too, but not those for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            for other in child.orelse:
                yield from list_imports(other)
        else:
            yield from list_imports(child)


def find_imported(modules: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Which modules of the package each module imports, when it is loaded or later."""
    imported: dict[str, set[str]] = {name: set() for name in modules}
    for name, module in modules.items():
        for node in list_imports(module):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            else:
                full = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
                targets = [full[one] if full[one] in modules else str(node.module) for one in full]
            imported[name].update(one for one in targets if one in modules and one != name)
    return imported


def find_cycle(imported: Mapping[str, set[str]]) -> str:
    """One cycle of imports, as an arrow from module to module; empty if there is none."""
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        return " -> ".join(error.args[1])
    return ""


def count_methods(modules: Mapping[str, ast.Module]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for name, module in modules.items():
        for node in ast.walk(module):
            if isinstance(node, ast.ClassDef):
                counts[f"{name}.{node.name}"] = sum(isinstance(one, _FUNCTIONS) for one in node.body)
    return counts


def count_any(modules: Mapping[str, ast.Module]) -> int:
    nodes = (node for module in modules.values() for node in ast.walk(module))
    return sum(isinstance(node, ast.Name) and node.id == "Any" for node in nodes)


def count_late_imports(modules: Mapping[str, ast.Module]) -> int:
    """Imports inside functions."""
    functions = (node for module in modules.values() for node in ast.walk(module) if isinstance(node, _FUNCTIONS))
    return len({id(one) for function in functions for one in list_imports(function)})


def measure_complexity(limit: int) -> dict[str, int]:
    """The functions above a complexity, as `path: function`, as ruff measures it; the parser's are left out."""
    ruff = shutil.which("ruff", path=sysconfig.get_path("scripts")) or "ruff"
    words = [ruff, "check", "--isolated", "--select", "C901", "--config", f"lint.mccabe.max-complexity={limit}"]
    run = subprocess.run([*words, "--output-format", "json", str(SOURCE)], capture_output=True, check=False)  # noqa: S603
    found = {}
    for one in json.loads(run.stdout):
        path = Path(one["filename"]).relative_to(SOURCE / "handrail").as_posix()
        words = one["message"].split()  # `name` is too complex (16 > 15)
        if not path.startswith("shell/parser/"):
            found[f"{path}: {words[0].strip('`')}"] = int(words[4].lstrip("("))
    return found


def list_small(modules: Mapping[str, ast.Module], imported: Mapping[str, set[str]]) -> Iterator[str]:
    """Modules of few lines that a single other module imports."""
    for name in modules:
        importers = [other for other, theirs in imported.items() if name in theirs]
        path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
        if len(importers) == 1 and path.exists():
            length = len(path.read_text(encoding="utf-8").splitlines())
            if length < _FEW_LINES:
                yield f"{length:4} {name}, imported by {importers[0]}"


class Report:
    """Prints what was measured, and remembers whether something is above its limit."""

    def __init__(self, quiet: bool) -> None:
        self._quiet = quiet
        self.failed = False

    def compare(self, what: str, count: int, limit: int) -> None:
        over = count > limit
        self.failed |= over
        if over or not self._quiet:
            print(f"{what:34} {count:5} of {limit:5}{'  over the limit' if over else ''}")

    def compare_named(self, what: str, counts: Mapping[str, int], limit: int) -> None:
        """Compare each count with the limit."""
        above = {name: count for name, count in counts.items() if count > limit}
        self.compare(f"{what} above {limit}", len(above), 0)
        for name, count in sorted(above.items()):
            print(f"  {name}: {count}")


def main() -> int:
    settings: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    limits = settings["handrail"]["limits"]
    modules = read_modules()
    imported = find_imported(modules)
    if sys.argv[1:] == ["--small"]:
        print("\n".join(list_small(modules, imported)))
        return 0
    report = Report(sys.argv[1:] == ["--quiet"])
    if cycle := find_cycle(imported):
        report.failed = True
        print(f"import cycle: {cycle}")
    elif sys.argv[1:] != ["--quiet"]:
        print("no import cycle")
    layers = [layer.split("|") for layer in settings["importlinter"]["contracts"][0]["layers"]]
    report.compare("levels", len(layers), limits["levels"])
    report.compare("packages and modules on them", sum(map(len, layers)), limits["units"])
    report.compare("`Any`", count_any(modules), limits["any"])
    report.compare("imports inside functions", count_late_imports(modules), limits["late-imports"])
    report.compare_named("classes with methods", count_methods(modules), limits["methods"])
    complexity = measure_complexity(limits["complexity"])
    report.compare_named("functions of a complexity", complexity, limits["complexity"])
    return report.failed


if __name__ == "__main__":
    raise SystemExit(main())
