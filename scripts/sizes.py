"""Count the statements of each package and compare them with the budgets in pyproject.toml.

`make sizes` prints the table; `make check` fails if a package is over its budget. Comments and docstrings are free. To
raise a budget, say why in docs/decisions/.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "handrail"


def count_statements(source: str) -> int:
    """The statements of a module, without docstrings."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    docstrings = [node for node in statements if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    return len(statements) - len(docstrings)


def count_packages() -> Counter[str]:
    """The statements of each package; modules beside the packages count as `modules`."""
    counts: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE).parts
        counts[place[0] if len(place) > 1 else "modules"] += count_statements(path.read_text(encoding="utf-8"))
    return counts


def main() -> int:
    budgets = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["handrail"]["budgets"]
    counts = count_packages()
    quiet = sys.argv[1:] == ["--quiet"]
    for name in sorted(counts, key=lambda name: -counts[name]):
        over = counts[name] > budgets.get(name, 0)
        if over or not quiet:
            print(f"{name:14} {counts[name]:6} of {budgets.get(name, 0):6}{'  over budget' if over else ''}")
    if not quiet:
        print(f"{'all':14} {counts.total():6} of {sum(budgets.values()):6}")
    return any(counts[name] > budgets.get(name, 0) for name in counts)


if __name__ == "__main__":
    raise SystemExit(main())
