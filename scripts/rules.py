"""What does each rule of matching buy? Every decision of text/matching and text/patches is switched off once.

    make rules
    python scripts/rules.py [--data FOLDER ...] [--generated N] [--seed N] [--only TEXT] [--tally]

A rule is an `if` that leaves a function or a loop or sets a value, a boolean result of a function, or a habit. All
cases are run once, which shows where each rule decides something. Then each rule is switched off (as if its condition
were false) and the cases in which it decided are run again. The table has a row for each rule: in how many cases it
decided, how many wrong files it prevents, how many right ones it makes, and how many right ones it costs. A rule with
three zeros buys nothing. Rules may back up each other, so delete them one at a time.

`--data` names folders with more cases (`rule_cases.py` says in which form). Judge by real edits first, then by families
of mistakes that people report, then by generated ones: these show wrong files, but do not justify a special case.
"""

from __future__ import annotations

import argparse
import ast
import importlib.machinery
import importlib.util
import multiprocessing
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from importlib.abc import MetaPathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rule_cases import Case

ROOT = Path(__file__).parents[1]
TEXT = ROOT / "src" / "handrail" / "text"
PACKAGES = ("handrail.text.matching.", "handrail.text.patches.")
SECONDS = 5.0
"""A case that takes longer, with a rule switched off, counts as broken."""
BROKEN = "broken"
ENDS = {ast.Raise: "raise", ast.Return: "return", ast.Continue: "continue", ast.Break: "break",
        ast.Assign: "set", ast.AugAssign: "set"}  # fmt: skip


class Rule(NamedTuple):
    """A decision in the code."""

    place: str
    kind: str
    text: str


rules: dict[str, Rule] = {}
decided: set[str] = set()
"""The rules that were true since this was last cleared."""
switched_off: set[str] = set()


def weigh(place: str, value: Any) -> Any:
    """The value of a condition, unless its rule is switched off."""
    if value:
        decided.add(place)
        if place in switched_off:
            return False
    return value


class _Instrument(ast.NodeTransformer):
    """Wraps each decision of a module into a call of `weigh`."""

    def __init__(self, path: Path) -> None:
        self._file = path.relative_to(TEXT)
        self._is_boolean = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer, self._is_boolean = self._is_boolean, bool(node.returns) and ast.unparse(node.returns).startswith("bool")
        self.generic_visit(node)
        self._is_boolean = outer
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        kind = ENDS.get(type(node.body[-1]))
        text = ast.unparse(node.test)
        self.generic_visit(node)
        if kind:
            node.test = self._wrap(node.test, kind, text)
        return node

    def visit_Return(self, node: ast.Return) -> ast.AST:
        if not self._is_boolean or node.value is None or isinstance(node.value, ast.Constant):
            return node
        text = ast.unparse(node.value)
        self.generic_visit(node)
        node.value = self._wrap(node.value, "is true", text)
        return node

    def _wrap(self, test: ast.expr, kind: str, text: str) -> ast.expr:
        place = f"{self._file}:{test.lineno}"
        place += f".{test.col_offset}" if place in rules else ""
        rules[place] = Rule(place, kind, text)
        call = ast.Call(ast.Name("_weigh_rule", ast.Load()), [ast.Constant(place), test], [])
        return ast.fix_missing_locations(ast.copy_location(call, test))


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        path = Path(self.get_filename(fullname))
        tree = _Instrument(path).visit(ast.parse(path.read_text(encoding="utf-8")))
        return compile(tree, str(path), "exec")

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["_weigh_rule"] = weigh
        super().exec_module(module)


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, _path: object, _target: object = None) -> importlib.machinery.ModuleSpec | None:
        file = TEXT.parents[1] / (name.replace(".", "/") + ".py")
        if not name.startswith(PACKAGES) or not file.exists():
            return None
        return importlib.util.spec_from_loader(name, _Loader(name, str(file)))


def wrap_habits() -> None:
    """Make a rule of each habit."""
    from handrail.text.matching import habits

    def wrap(habit: habits.Habit) -> habits.Habit:
        place = f"matching/habits.py:{habit.name}"
        rules[place] = Rule(place, "habit", habit.name)
        return replace(habit, undo=lambda pattern, text: habit.undo(pattern, text) if weigh(place, True) else text)

    habits.HABITS = tuple(map(wrap, habits.HABITS))


def run(case: Case) -> str:
    """The outcome of a case; `BROKEN` if it crashes or hangs."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return case.judge()
    except Exception:  # noqa: BLE001  # whatever a rule that is switched off may cause
        return BROKEN
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError


class _Ablation:
    """All cases, and where each rule decides."""

    def __init__(self, cases: Sequence[Case], most: int) -> None:
        self.cases, self._most = cases, most
        self.outcomes: list[str] = []
        self.places: dict[str, list[int]] = defaultdict(list)
        for number, case in enumerate(cases):
            decided.clear()
            self.outcomes.append(run(case))
            for place in decided:
                self.places[place].append(number)

    def tally(self) -> dict[str, Counter[str]]:
        table: dict[str, Counter[str]] = defaultdict(Counter)
        for case, outcome in zip(self.cases, self.outcomes, strict=True):
            table[case.source][outcome] += 1
        return table

    def switch_off(self, place: str) -> tuple[str, Counter[str]]:
        """What changes without a rule."""
        switched_off.add(place)
        numbers = self.places[place]
        step = max(1, -(-len(numbers) // self._most))
        changes = Counter[str]()
        for number in numbers[::step]:
            before, after = self.outcomes[number], run(self.cases[number])
            change = _name_change(before, after)
            if change:
                changes[change] += 1
                changes[f"{self.cases[number].source}: {change}"] += 1
        switched_off.clear()
        return place, changes


def _name_change(before: str, after: str) -> str:
    if before == after:
        return ""
    if after in ("wrong", BROKEN):
        return "prevents wrong" if after == "wrong" else "needed"
    return "makes right" if before == "right" else "costs right" if after == "right" else "causes wrong"


_COLUMNS = ("prevents wrong", "makes right", "costs right", "causes wrong", "needed")
_ablation: _Ablation


def _switch_off(place: str) -> tuple[str, Counter[str]]:
    return _ablation.switch_off(place)


def main() -> None:
    global _ablation
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", type=Path, default=[], help="folders with more cases")
    parser.add_argument("--generated", type=int, default=1000, help="cases of each generator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=200, help="cases that are run again for a rule")
    parser.add_argument("--only", default="", help="rules whose place has this text")
    parser.add_argument("--off", nargs="+", default=[], help="rules to switch off for good")
    parser.add_argument("--tally", action="store_true", help="run the cases and switch nothing off")
    parser.add_argument("--show", action="store_true", help="name the cases with a wrong outcome")
    asked = parser.parse_args()
    sys.meta_path.insert(0, _Finder())
    sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]
    signal.signal(signal.SIGALRM, _interrupt)
    from rule_cases import list_cases

    wrap_habits()
    switched_off.update(asked.off)
    _ablation = _Ablation(list_cases(asked.data, asked.generated, asked.seed), asked.most)
    for source, row in _ablation.tally().items():
        print(f"{source:12}", *(f"{name} {row[name]:6}" for name in ("right", "refused", "wrong", BROKEN)))
    if asked.show:
        bad = zip(_ablation.cases, _ablation.outcomes, strict=True)
        print(*(f"{outcome}: {case.name}" for case, outcome in bad if outcome in ("wrong", BROKEN)), sep="\n")
    if asked.tally:
        return
    with multiprocessing.get_context("fork").Pool() as pool:
        changes = dict(pool.imap_unordered(_switch_off, [place for place in _ablation.places if asked.only in place]))
    print("\t".join(["place", "kind", "decides", *_COLUMNS, "by source", "rule"]))
    for place, rule in rules.items():
        if asked.only in place:
            row = changes.get(place, Counter())
            sources = "; ".join(f"{name} {count}" for name, count in row.items() if ":" in name)
            counts = [len(_ablation.places[place]), *(row[name] for name in _COLUMNS)]
            print(*[place, rule.kind, *counts, sources, rule.text[:120]], sep="\t")


if __name__ == "__main__":
    main()
