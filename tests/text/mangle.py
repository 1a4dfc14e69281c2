"""What models do to the texts of an edit.

`python -m tests.text.mangle 20000 7` tries the matching with that many cases from that seed and prints, for each kind,
how many came out right, refused, wrong, or as another edit that the same two texts stand for. A wrong one is a file
that nobody asked for; `-v` shows them.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random

from handrail.errors import ToolError
from handrail.text.document import EditPlan
from handrail.text.matching.depths import find_misfits
from handrail.text.matching.find import plan_edit
from handrail.text.matching.indentation import find_indent_unit
from tests.text.edits import Case, clean_edit, feeds, lead_of, split
from tests.text.mangle_mistakes import MISTAKES
from tests.text.samples import SAMPLES, Sample, cjk, go, python, typescript

_OPPOSITES = (
    {"curly", "straight"},
    {"trailing blanks added", "trailing blanks lost"},
    {"every line followed by a blank one", "trailing blanks lost"},
    *({"blank lines lost", kind} for kind in ("tags around", "quotes around")),
    *({"carriage returns", kind} for kind in ("tags around", "fence", "crlf")),
)
"""Together they may leave old as it was, and only new mangled, or double its line ends: that is what is meant then."""
NEVER_ALONE = {
    *("crlf", "carriage returns", "first indent lost", "first indent lost, old only"),
    *("part of the first and last line", "cut in the last word"),
}
"""Alone these leave a text that is in the file by the letter."""
_SMALLEST, _LARGEST = 300, 60_000
"""Bytes of a real file that is edited."""
_TRIES = 400
"""How often one or two mistakes are made again, with other choices of their own, to get the same two texts."""


def make_case(
    rng: Random, kinds: Sequence[str] | None = None, shape: Callable[[Random], Sample] | None = None
) -> Case | None:
    """A file, an edit, and up to three mistakes; None where they do not apply to each other."""
    case = clean_edit(rng, (shape or rng.choice(SAMPLES))(rng))
    if case is None:
        return None
    chosen = rng.sample(list(MISTAKES), rng.choice([0, 1, 1, 1, 1, 2, 2, 3])) if kinds is None else kinds
    if any(pair <= set(chosen) for pair in _OPPOSITES):
        return None
    case = mangled(rng, case, chosen)
    if case is None or case.old == case.new or not case.old.strip():
        return None
    if case.kinds and (feeds(case.old) in feeds(case.sample.text) or _coincides(case)):
        return None  # what is there by the letter is meant by the letter
    return case


def make_literal_case(rng: Random) -> Case | None:
    """An edit of code whose old text is in the file by the letter, but without the indentation of its first line."""
    clean = clean_edit(rng, rng.choice([python, go, typescript, cjk])(rng))
    kind = rng.choice(["indent stripped", "first indent lost", "flat"])
    case = mangled(rng, clean, [kind]) if clean else None
    if clean is None or case is None or case.old == case.new or not case.old.strip() or case.old[0] == "\n":
        return None
    old, text = feeds(case.old), feeds(case.sample.text)
    filled = [row for row in old.split("\n") if row.strip()]
    if old not in text or "\n" + old in "\n" + text or _coincides(case) or (kind == "flat" and len(filled) > 1):
        return None
    if text[: text.index(old)].count("\n") != len(case.before):
        return None  # it is there by the letter, elsewhere
    rows = [row for row, _ in case.wanted]
    if find_misfits((), rows) or any(row.lstrip().startswith("- ") for row in rows):
        return None  # what was meant is no code itself, or an item of a list, which lines may belong to
    return replace(case, tolerances=case.tolerances | {"trail"})  # a blank line may lose its blanks too


def _coincides(case: Case) -> bool:
    """Whether a new line happens to have the words of an old one: who could tell it from that line, kept?"""
    there = split(case.sample.text)[len(case.before) :]
    old = {row.strip(): row.rstrip("\r\n") for row in there[: len(there) - len(case.after)] if row.strip()}
    fresh = [row.rstrip("\r\n") for row, is_new in case.wanted if is_new]
    return any(
        row.strip() in old and row not in (old[row.strip()], case.sample.unit + old[row.strip()]) for row in fresh
    )


def mangled(rng: Random, case: Case, kinds: Sequence[str]) -> Case | None:
    """An edit with these mistakes, always in the same order; None where one does not apply."""
    for kind in sorted(kinds, key=list(MISTAKES).index):
        spoilt = MISTAKES[kind](rng, case)
        if spoilt is None:
            return None
        case = replace(spoilt, kinds=(*case.kinds, kind))
    return case


def outcome(case: Case) -> tuple[str, EditPlan | ToolError, str]:
    """ "right", "refused", "otherwise" or "wrong", with the outcome and the new text."""
    try:
        plan = plan_edit(case.sample.text, case.old, case.new, prose=case.sample.prose)
    except ToolError as error:
        return "refused", error, case.sample.text
    result = spliced(case.sample.text, plan)
    verdict = "right" if case.judge(result) else "otherwise" if means(case, result) else "wrong"
    return verdict, plan, result


def means(case: Case, result: str) -> bool:
    """Whether the same two texts are those of an edit that makes ``result``, with fewer mistakes.

    The same are they byte for byte, but for blanks where one of those mistakes strews or drops them at random.

    One mistake may wipe out what another one left in old: a shift, and then all indentation of old lost. The pair of
    texts is then that of a model which made one mistake less and wants the shifted lines. No matcher can know of the
    first edit, and the second, which needs fewer mistakes, is the better reading: such a case asks for nothing. An
    edit that needs as many mistakes is no excuse: where two are as likely, a refusal is the only right answer. Nor is
    one at another place, or at more of them: all that the first edit leaves alone must be as it was.
    """
    rows, there = split(result), split(case.sample.text)
    head, tail = len(case.before), len(rows) - len(case.after)
    if tuple(rows[:head]) != case.before or tuple(rows[tail:]) != case.after or head > tail:
        return False
    old, new = _joined(there[head : len(there) - len(case.after)]), _joined(rows[head:tail])
    wanted = tuple((row, True) for row in rows[head:tail])
    rng = Random(case.old + case.new)
    for kinds in _fewer(case.kinds):
        for number in range(_TRIES):
            close = "\n" if number % 2 else ""
            other = Case(case.sample, old + close, new + close if new else "", case.before, wanted, case.after)
            spoilt = mangled(rng, other, kinds)
            if spoilt and all(_same(a, b, kinds) for a, b in ((spoilt.old, case.old), (spoilt.new, case.new))):
                return True
    return False


def _same(one: str, other: str, kinds: Sequence[str]) -> bool:
    """Whether two texts are the same, but for the lines that a mistake with blanks happens to hit."""
    inner, trail = "inner blanks" in kinds, bool({"trailing blanks added", "trailing blanks lost"}.intersection(kinds))
    if not inner and not trail:
        return one == other
    rows, others = one.split("\n"), other.split("\n")
    return len(rows) == len(others) and all(
        a == b
        or (trail and a.rstrip() == b.rstrip())
        or (inner and lead_of(a) == lead_of(b) and a.split() == b.split())
        for a, b in zip(rows, others, strict=True)
    )


def _joined(rows: Sequence[str]) -> str:
    return "\n".join(row.rstrip("\r\n") for row in rows)


def _fewer(kinds: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Any one other mistake; and if there were three, any two of which one was among them."""
    others = [kind for kind in MISTAKES if kind != "stale"]
    for count in range(1, len(kinds)):
        yield from (some for some in combinations(others, count) if count == 1 or not {*some}.isdisjoint(kinds))


def spliced(text: str, expected: EditPlan) -> str:
    for one in reversed(expected.splices):
        text = text[: one.start] + one.new + text[one.end :]
    return text


def describe(case: Case, expected: object) -> str:
    """A case in full, for whoever has to understand it."""
    parts = {"file": case.sample.text, "old": case.old, "new": case.new}
    parts["wanted"] = "a refusal" if case.refuse else "".join(row for row, _ in case.wanted)
    shown = [f"{name} (from line {len(case.before) + 1})" if name == "file" else name for name in parts]
    blocks = [f"--- {name}\n" + "\n".join(map(repr, feeds(text).split("\n")))
              for name, text in zip(shown, parts.values(), strict=True)]  # fmt: skip
    return "\n".join([f"=== {', '.join(case.kinds)}", *blocks, f"--- made\n{expected}"])


def read_samples(folders: Sequence[str]) -> list[Sample]:
    """Real files: those below the folders that are text, and neither tiny nor huge."""
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*") if path.is_file())
    samples = []
    for path in paths:
        if not _SMALLEST <= path.stat().st_size <= _LARGEST:
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            unit = find_indent_unit(split(text)) or "    "
            samples.append(Sample(text, unit, path.suffix in (".md", ".rst", ".txt", ".markdown")))
    return samples


def hammer(
    count: int, seed: int, show: bool = False, samples: Sequence[Sample] = (), kinds: Sequence[str] | None = None
) -> dict[str, Counter[str]]:
    table: dict[str, Counter[str]] = defaultdict(Counter)
    rng = Random(seed)
    shape = (lambda rng: rng.choice(samples)) if samples else None
    while count:
        case = make_case(rng, kinds and rng.sample(kinds, 1), shape)
        if case is None:
            continue
        count -= 1
        name = {0: "none", 1: "".join(case.kinds), 2: "two of them"}.get(len(case.kinds), "three of them")
        verdict, result, _ = outcome(case)
        table["stale" if case.refuse else name][verdict] += 1
        if show and verdict == "wrong":
            print(describe(case, result), "\n")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.text.mangle")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--files", nargs="+", default=(), help="folders of real files to edit, instead of made ones")
    parser.add_argument("--only", nargs="+", help="one of these mistakes in each edit")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the wrong ones")
    asked = parser.parse_args()
    table = hammer(asked.count, asked.seed, asked.verbose, read_samples(asked.files), asked.only)
    total: Counter[str] = sum(table.values(), Counter())
    for name, row in [*sorted(table.items()), ("all", total)]:
        print(f"{name:30}", *(f"{verdict} {row[verdict]:6}" for verdict in ("right", "refused", "otherwise", "wrong")))


if __name__ == "__main__":
    main()
