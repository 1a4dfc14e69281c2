"""What models do to patches: a file, a patch of one to three places of it in one of three languages, and mistakes.

`python -m tests.text.mangle_patches 20000 7` tries that many cases from that seed and prints how many came out right,
refused or wrong for each mistake; `-v` shows the wrong ones.
"""

from __future__ import annotations

import argparse
import html
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from random import Random

from handrail.errors import ToolError
from handrail.text.document import apply_splices
from handrail.text.matching.budget import limit_work
from handrail.text.patches.locate import locate_hunks
from handrail.text.patches.patch import parse_patch
from tests.text.edits import Case, clean_edit, feeds, lead_of, split
from tests.text.samples import SAMPLES, Sample

PATH = "src/a.py"
ROOT = "/work space/"
"""Where the workspace is, for absolute paths."""
Signed = tuple[str, str]


@dataclass(frozen=True)
class Hunk:
    """Signed rows, and the number of the first of them in the file."""

    rows: tuple[Signed, ...]
    line: int


@dataclass(frozen=True)
class PatchCase:
    """A patch as a model writes it, and the file that it should make."""

    sample: Sample
    hunks: tuple[Hunk, ...]
    wanted: str
    language: str
    path: str = PATH
    numbers: Callable[[int], int] = int
    """The line or count that a header has instead of the right one."""
    sections: bool = False
    """Whether each hunk has a section of its own."""
    kinds: tuple[str, ...] = ()
    text: str = ""


def make_hunks(rng: Random, sample: Sample) -> tuple[tuple[Hunk, ...], str] | None:
    """Changes of one to three places that do not touch each other, with context, and the file that they make."""
    rows = split(sample.text)
    edits = [clean_edit(rng, sample) for _ in range(rng.choice([1, 1, 2, 3]))]
    places: list[Case] = []
    for case in sorted((case for case in edits if case), key=lambda case: len(case.before)):
        if not places or len(case.before) > len(rows) - len(places[-1].after):
            places.append(case)
    if not places:
        return None
    hunks, result, done = list[Hunk](), list[str](), 0
    for number, case in enumerate(places):
        start, stop = len(case.before), len(rows) - len(case.after)
        room = len(places[number + 1].before) if number + 1 < len(places) else len(rows)
        head, tail = rng.randint(0, min(3, start - done)), rng.randint(0, min(3, max(0, room - stop)))
        lines = [(" ", row) for row in rows[start - head : start]]
        lines += _sign(rows[start:stop], [row for row, _ in case.wanted])
        lines += [(" ", row) for row in rows[stop : stop + tail]]
        hunks.append(Hunk(tuple((sign, row.rstrip("\r\n")) for sign, row in lines), start - head + 1))
        result += [*rows[done:start], *(row for row, _ in case.wanted)]
        done = stop
    return tuple(hunks), "".join([*result, *rows[done:]])


def _sign(old: Sequence[str], new: Sequence[str]) -> list[Signed]:
    """The rows of a change; what both begin and end with is context."""
    head = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    rest, others = old[head:], new[head:]
    tail = next(
        (n for n, (a, b) in enumerate(zip(rest[::-1], others[::-1], strict=False)) if a != b),
        min(len(rest), len(others)),
    )
    return [
        *((" ", row) for row in old[:head]),
        *(("-", row) for row in rest[: len(rest) - tail]),
        *(("+", row) for row in others[: len(others) - tail]),
        *((" ", row) for row in rest[len(rest) - tail :]),
    ]


def render(case: PatchCase) -> str:
    """The text of a patch in its language."""
    if case.language == "envelope":
        rows = list[str]()
        for number, hunk in enumerate(case.hunks):
            rows += [f"*** Update File: {case.path}"] if case.sections or not number else []
            rows += ["@@", *(sign + text for sign, text in hunk.rows)]
        return "\n".join(["*** Begin Patch", *rows, "*** End Patch", ""])
    if case.language == "unified":
        rows = list[str]()
        for number, hunk in enumerate(case.hunks):
            if case.sections or not number:
                rows += [f"--- a/{case.path}", f"+++ b/{case.path}"]
            old, new = (case.numbers(sum(sign != mark for sign, _ in hunk.rows)) for mark in "+-")
            rows += [f"@@ -{case.numbers(hunk.line)},{old} +{case.numbers(hunk.line)},{new} @@"]
            rows += [sign + text for sign, text in hunk.rows]
        return "\n".join([*rows, ""])
    blocks = ["*** Begin Patch"]
    for number, hunk in enumerate(case.hunks):
        blocks += [f"*** Update File: {case.path}"] if case.sections or not number else []
        sides = [[text for sign, text in hunk.rows if sign != mark] for mark in "+-"]
        blocks += ["<<<<<<< SEARCH", *sides[0], "=======", *sides[1], ">>>>>>> REPLACE"]
    return "\n".join([*blocks, "*** End Patch", ""])


Mistake = Callable[[Random, PatchCase], PatchCase | None]


def _rows(change: Callable[[Random, str, str], str]) -> Mistake:
    """The same change of every row of every hunk."""

    def mistake(rng: Random, case: PatchCase) -> PatchCase | None:
        seed = rng.random()
        hunks = tuple(
            replace(hunk, rows=tuple((sign, change(Random(seed), sign, text)) for sign, text in hunk.rows))
            for hunk in case.hunks
        )
        for hunk, other in zip(hunks, case.hunks, strict=True):
            shown = [[row for row in one.rows if row[0] != "+"] for one in (hunk, other)]
            if hunk != other and shown[0] == shown[1]:
                return None  # what is sent is what is meant
        return None if hunks == case.hunks else replace(case, hunks=hunks)

    return mistake


def _context(change: Callable[[str], str]) -> Mistake:
    return _rows(lambda rng, sign, text: change(text) if sign == " " else text)


def _where_unit_shows(mistake: Mistake) -> Mistake:
    """Only where the file has a line one level deep: else it does not show what a tab of the new lines stands for."""

    def limited(rng: Random, case: PatchCase) -> PatchCase | None:
        leads = map(lead_of, split(case.sample.text))
        return mistake(rng, case) if case.sample.unit in leads else None

    return limited


def _lose_context_indent(rng: Random, case: PatchCase) -> PatchCase | None:
    """Context without its indentation, beside changed lines that have theirs. Where all old lines were at one depth and
    none is indented any more, the patch is that of a model which shifted all lines, the new ones too."""
    spoilt = _context(lambda text: text.lstrip() if text.strip() else text)(rng, case)
    if spoilt is None:
        return None
    for hunk, other in zip(spoilt.hunks, case.hunks, strict=True):
        depths, before = ({lead_of(text) for sign, text in one.rows if sign != "+" and text.strip()}
                          for one in (hunk, other))  # fmt: skip
        if hunk != other and depths == {""} and len(before) == 1:
            return None
    return spoilt


def _lose_indent(rng: Random, case: PatchCase) -> PatchCase | None:
    """No line is indented. A new line that is less deep than all old lines of its hunk is that of a patch in which it
    is as deep as they are: the line that shows more was left out."""
    for hunk in case.hunks:
        old, new = (
            [len(lead_of(text)) for sign, text in hunk.rows if text.strip() and (sign == "+") is is_new]
            for is_new in (False, True)
        )
        if old and new and min(new) < min(old):
            return None
    return _rows(lambda rng, sign, text: text.lstrip() if text.strip() else text)(rng, case)


def _number_rows(rng: Random, case: PatchCase) -> PatchCase | None:
    form = rng.choice(["{:>6}\t", "{}: ", "{:>4} | ", "{:>6}→"])
    hunks = list[Hunk]()
    for hunk in case.hunks:
        line, rows = hunk.line, list[Signed]()
        for sign, text in hunk.rows:
            rows.append((sign, form.format(line) + text if sign != "+" else text))
            line += sign != "+"
        hunks.append(replace(hunk, rows=tuple(rows)))
    return replace(case, hunks=tuple(hunks))


def _stale(rng: Random, case: PatchCase) -> PatchCase | None:
    """A letter of a line that should be there is another one."""
    at = rng.randrange(len(case.hunks))
    rows = list(case.hunks[at].rows)
    spots = [n for n, (sign, text) in enumerate(rows) if sign != "+" and re.search("[a-z]", text)]
    if not spots:
        return None
    spot = rng.choice(spots)
    rows[spot] = (rows[spot][0], re.sub("[a-z]", "q", rows[spot][1], count=1))
    hunks = [*case.hunks[:at], replace(case.hunks[at], rows=tuple(rows)), *case.hunks[at + 1 :]]
    return replace(case, hunks=tuple(hunks), wanted="")


def _less_context(rng: Random, case: PatchCase) -> PatchCase | None:
    """Context that is left out at one edge of a hunk."""

    def cut(hunk: Hunk) -> Hunk:
        rows = list(hunk.rows)
        dropped = 0
        while len(rows) > 1 and rows[0][0] == " " and rng.random() < 0.7:
            rows.pop(0)
            dropped += 1
        while len(rows) > 1 and rows[-1][0] == " " and rng.random() < 0.7:
            rows.pop()
        return Hunk(tuple(rows), hunk.line + dropped)

    hunks = tuple(map(cut, case.hunks))
    return None if hunks == case.hunks else replace(case, hunks=hunks)


def _hunk(change: Callable[[Random, Hunk], Hunk | None]) -> Mistake:
    """A change of one hunk."""

    def mistake(rng: Random, case: PatchCase) -> PatchCase | None:
        at = rng.randrange(len(case.hunks))
        hunk = change(rng, case.hunks[at])
        if hunk is None or hunk == case.hunks[at] or _is_there_by_words(hunk, case):
            return None
        return replace(case, hunks=(*case.hunks[:at], hunk, *case.hunks[at + 1 :]))

    return mistake


def _is_there_by_words(hunk: Hunk, case: PatchCase) -> bool:
    """Whether the old lines of a hunk that lacks some are in the file, blanks aside: then they are what is meant."""
    old, *others = ([text.strip() for sign, text in one.rows if sign != "+"] for one in (hunk, *case.hunks))
    there = [row.strip() for row in split(case.sample.text)]
    return old not in others and any(there[at : at + len(old)] == old for at in range(len(there)))


def _context_as_change(rng: Random, hunk: Hunk) -> Hunk | None:
    """Lines of context that are removed and added again."""
    part = rng.choice([1.0, 0.5])
    rows = list[Signed]()
    for sign, text in hunk.rows:
        rows += [("-", text), ("+", text)] if sign == " " and rng.random() < part else [(sign, text)]
    return replace(hunk, rows=tuple(rows))


def _added_first(rng: Random, hunk: Hunk) -> Hunk | None:
    """The added lines of a change above the removed ones."""
    rows, run = list[Signed](), list[Signed]()
    for row in [*hunk.rows, (" ", "")]:
        if row[0] != " ":
            run.append(row)
            continue
        rows += [*(one for one in run if one[0] == "+"), *(one for one in run if one[0] == "-"), row]
        run = []
    return replace(hunk, rows=tuple(rows[:-1]))


def _swap_context(rng: Random, hunk: Hunk) -> Hunk | None:
    """Two lines of context in the other order."""
    rows = list(hunk.rows)
    words = [text.strip() if sign == " " else "" for sign, text in rows]
    spots = [n for n, (one, other) in enumerate(pairwise(words)) if one and other and one != other]
    if not spots:
        return None
    at = rng.choice(spots)
    rows[at : at + 2] = rows[at + 1], rows[at]
    return replace(hunk, rows=tuple(rows))


def _drop_context(is_dropped: Callable[[str], bool]) -> Callable[[Random, Hunk], Hunk | None]:
    """A line of context between others is missing."""

    def change(rng: Random, hunk: Hunk) -> Hunk | None:
        spots = [n for n, (sign, text) in enumerate(hunk.rows[1:-1], 1) if sign == " " and is_dropped(text)]
        at = rng.choice(spots) if spots else len(hunk.rows)
        return replace(hunk, rows=hunk.rows[:at] + hunk.rows[at + 1 :])

    return change


def _elide_context(rng: Random, hunk: Hunk) -> Hunk | None:
    """Dots for lines of context."""
    spots = [n for n, (sign, _) in enumerate(hunk.rows[1:-1], 1) if sign == " "]
    if not spots:
        return None
    at = rng.choice(spots)
    return replace(hunk, rows=(*hunk.rows[:at], (" ", rng.choice(["...", "    ...", "# ..."])), *hunk.rows[at + 1 :]))


def _reverse_hunks(rng: Random, case: PatchCase) -> PatchCase | None:
    return replace(case, hunks=case.hunks[::-1]) if len(case.hunks) > 1 else None


def _name_in_header(rng: Random, text: str) -> str:
    """The line of another block behind the numbers or the signs of a header."""
    name = rng.choice(["def load(self) -> int:", "function item() {", "class Other:", "## The total", "func main() {"])
    return re.sub(r"^@@.*$", lambda match: f"{match[0]} {name}", text, flags=re.MULTILINE)


def _text(change: Callable[[Random, str], str], *languages: str) -> Mistake:
    """A change of the whole text."""

    def mistake(rng: Random, case: PatchCase) -> PatchCase | None:
        text = change(rng, case.text)
        if text == case.text or (languages and case.language not in languages):
            return None
        return replace(case, text=text)

    return mistake


def _set(**values: object) -> Mistake:
    return lambda rng, case: replace(case, **values)  # type: ignore[arg-type]  # names and values of its own fields


def _wrong_numbers(rng: Random, case: PatchCase) -> PatchCase | None:
    by = rng.choice([-2, -1, 1, 3, 40])
    return replace(case, numbers=lambda number: max(1, number + by)) if case.language == "unified" else None


def _pad_marks(rng: Random, text: str) -> str:
    blanks = rng.choice([" ", "  ", "    "])
    return re.sub(r"^\*\*\*", blanks + "***", text, flags=re.MULTILINE)


_FRAMES = ("```\n{}```\n", "```diff\n{}```\n", "~~~\n{}~~~", "apply_patch <<'EOF'\n{}EOF\n", "\n\n{}\n\n")
_MARKS = r"^(\*\*\* .*|<<<<<<< SEARCH|=======|>>>>>>> REPLACE|--- a/.*|\+\+\+ b/.*|@@.*)$"

OF_HUNKS: dict[str, Mistake] = {
    "less context": _less_context,
    "stale": _stale,
    "trailing blanks lost": _rows(lambda rng, sign, text: text.rstrip() if sign != "+" else text),
    "trailing blanks of context": _context(lambda text: text + "  " if text.strip() else text),
    "indentation of context lost": _lose_context_indent,
    "indentation lost": _lose_indent,
    "shifted": _rows(lambda rng, sign, text: rng.choice(["  ", "    ", "\t"]) + text if text.strip() else text),
    "tabs for spaces": _where_unit_shows(
        _rows(lambda rng, sign, text: lead_of(text).replace("    ", "\t") + text.lstrip(" \t"))
    ),
    "curly": _context(lambda text: text.replace('"', "”").replace("'", "’")),
    "context removed and added": _hunk(_context_as_change),
    "added lines first": _hunk(_added_first),
    "context swapped": _hunk(_swap_context),
    "line of context dropped": _hunk(_drop_context(lambda text: bool(text.strip()))),
    "blank line of context dropped": _hunk(_drop_context(lambda text: not text.strip())),
    "dots for context": _hunk(_elide_context),
    "line numbers": _number_rows,
    "hunks in another order": _reverse_hunks,
    "tabs expanded": _where_unit_shows(_rows(lambda rng, sign, text: text.expandtabs(rng.choice([2, 4, 8])))),
    "entities": _rows(lambda rng, sign, text: html.escape(text)),
    "two sections": _set(sections=True),
    "absolute path": _set(path=ROOT + PATH),
    "dot before the path": _set(path="./" + PATH),
    "prefix of git": _set(path="a/" + PATH),
    "wrong numbers": _wrong_numbers,
}
OF_TEXT: dict[str, Mistake] = {
    "signs of context lost": _text(lambda rng, text: re.sub(r"^ (?=\S)", "", text, flags=re.MULTILINE)),
    "blank context without sign": _text(lambda rng, text: re.sub(r"^ $", "", text, flags=re.MULTILINE)),
    "blank behind signs": _text(
        lambda rng, text: re.sub(r"^([ +-])(?!-- |\+\+ )", r"\1 ", text, flags=re.MULTILINE), "envelope", "unified"
    ),
    "padded marks": _text(_pad_marks, "envelope", "blocks"),
    "stars behind marks": _text(lambda rng, text: re.sub(r"(Begin|End) Patch", r"\1 Patch ***", text)),
    "case of marks": _text(lambda rng, text: text.replace("Update File:", "update file:"), "envelope", "blocks"),
    "no end": _text(lambda rng, text: text.replace("*** End Patch\n", "")),
    "no beginning": _text(lambda rng, text: text.replace("*** Begin Patch\n", "")),
    "quotes around the path": _text(
        lambda rng, text: re.sub(
            r"^(\*\*\* Update File: |)(\S*src/a\.py)$", rng.choice(["\\1`\\2`", '\\1"\\2"']), text, flags=re.MULTILINE
        )
    ),
    "blanks behind marks": _text(lambda rng, text: re.sub(_MARKS, r"\1  ", text, flags=re.MULTILINE)),
    "frame": _text(lambda rng, text: rng.choice(_FRAMES).format(text)),
    "crlf": _text(lambda rng, text: text.replace("\n", "\r\n")),
    "header of git": _text(
        lambda rng, text: text.replace(
            f"--- a/{PATH}", f"diff --git a/{PATH} b/{PATH}\nindex 1..2 100644\n--- a/{PATH}", 1
        ),
        "unified",
    ),
    "diff in an envelope": _text(lambda rng, text: f"*** Begin Patch\n{text}*** End Patch\n", "unified"),
    "name in the header": _text(_name_in_header, "envelope", "unified"),
    "as JSON": _text(lambda rng, text: json.dumps(text)),
    "text behind": _text(lambda rng, text: text + "\nThis changes the file.\n"),
    "no final newline": _text(lambda rng, text: text.removesuffix("\n")),
}
MISTAKES = [*OF_HUNKS, *OF_TEXT]
_OPPOSITES = (
    {"indentation of context lost", "shifted"},
    {"stale", "dots for context"},
    {"line of context dropped", "dots for context"},  # what is left is the patch of another edit
)
"""Together they are a shift alone, of new lines that are one level deeper; or dots for the line that is stale."""


def make_case(rng: Random, kinds: Sequence[str] | None = None, language: str | None = None) -> PatchCase | None:
    """A file, a patch and up to two mistakes; None where they do not apply to each other."""
    sample = rng.choice(SAMPLES)(rng)
    drawn = make_hunks(rng, sample)
    chosen = rng.sample(MISTAKES, rng.choice([0, 1, 2, 2, 2])) if kinds is None else kinds
    if (
        drawn is None
        or any(set(chosen) >= pair for pair in _OPPOSITES)
        or "\n" not in sample.text
        or drawn[1] == sample.text
    ):
        return None
    case = PatchCase(sample, *drawn, language or rng.choice(["envelope", "unified", "blocks"]))
    for kind in sorted(chosen, key=MISTAKES.index):
        case = replace(case, text=render(case)) if kind in OF_TEXT and not case.text else case
        spoilt = (OF_TEXT | OF_HUNKS)[kind](rng, case)
        if spoilt is None:
            return None
        case = replace(spoilt, kinds=(*case.kinds, kind))
        hunks = sorted(case.hunks, key=lambda hunk: hunk.line)
        if any(map(_is_void, hunks)) or any(map(_is_literal, hunks, drawn[0], repeat(sample))):
            return None  # and what a further mistake does to it, such as numbers in the old lines alone, is no change
    if case.kinds and any(_is_elsewhere(hunk, sample) for hunk in case.hunks):
        return None
    return case if case.text else replace(case, text=render(case))


def _is_void(hunk: Hunk) -> bool:
    """Whether a mistake left nothing of the change."""
    old, new = ([text for sign, text in hunk.rows if sign == mark] for mark in "-+")
    return old == new


def _is_literal(hunk: Hunk, meant: Hunk, sample: Sample) -> bool:
    """Whether the old lines are in their place by the letter, and the new ones are others than they were at first: two
    mistakes made up for each other, and what is sent is what is meant."""
    old = [text for sign, text in hunk.rows if sign != "+"]
    rows = [row.rstrip("\r\n") for row in split(sample.text)][hunk.line - 1 :]
    sides = [[[text for sign, text in one.rows if sign in signs] for one in (hunk, meant)] for signs in ("+", " +")]
    return rows[: len(old)] == old and all(new != wanted for new, wanted in sides)


def _is_elsewhere(hunk: Hunk, sample: Sample) -> bool:
    """Whether the lines to find are none, or are at another place too, by the letter but for blanks at line ends: that
    is nearer than what a mistake made of them at their own place."""
    old = [text.rstrip() for sign, text in hunk.rows if sign != "+"]
    rows = [row.rstrip() for row in split(sample.text)]
    return any(rows[at : at + len(old)] == old for at in range(len(rows)) if at != hunk.line - 1)


def apply(case: PatchCase) -> str:
    """The file that the patch makes; raises `ToolError`."""
    text = case.sample.text
    with limit_work():
        for op in parse_patch(case.text):
            path = op.path.removeprefix(ROOT).removeprefix("./").removeprefix("a/")
            if path != PATH or op.kind != "update" or op.move_to:
                raise AssertionError(f"{op.kind} {op.path}")
            text = apply_splices(text, locate_hunks(text, op.hunks, op.final_newline).splices)
    return text


def judge(case: PatchCase) -> tuple[str, object]:
    """ "right", "refused" or "wrong", with what came out."""
    try:
        result = apply(case)
    except ToolError as error:
        return "refused", error
    if result == case.sample.text and all(_is_there(hunk, case.sample) for hunk in case.hunks):
        return "refused", result  # the file has the new lines already, so the patch looks as if it had been applied
    return "right" if _plain(result) == _plain(case.wanted) else "wrong", result


def _is_there(hunk: Hunk, sample: Sample) -> bool:
    """Whether the lines that a hunk makes are in the file."""
    new = "".join(text + "\n" for sign, text in hunk.rows if sign != "-")
    return "\n" + new in "\n" + feeds(sample.text) + "\n"


def _plain(text: str) -> str:
    """The lines of a file, without blanks at the end of those that may have got or lost some."""
    return "\n".join(row.rstrip() for row in feeds(text).rstrip("\n").split("\n"))


def describe(case: PatchCase, result: object) -> str:
    parts = {"file": case.sample.text, "patch": case.text, "wanted": case.wanted, "made": str(result)}
    blocks = [f"--- {name}\n" + "\n".join(map(repr, feeds(text).split("\n"))) for name, text in parts.items()]
    return "\n".join([f"=== {case.language}: {', '.join(case.kinds)}", *blocks])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.text.mangle_patches")
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("-v", "--verbose", action="store_true", help="show the wrong ones")
    asked = parser.parse_args()
    table: dict[str, Counter[str]] = defaultdict(Counter)
    rng, left = Random(asked.seed), asked.count
    while left:
        case = make_case(rng)
        if case is None:
            continue
        left -= 1
        verdict, result = judge(case)
        table[{0: "none", 1: "".join(case.kinds)}.get(len(case.kinds), "two of them")][verdict] += 1
        if asked.verbose and verdict == "wrong":
            print(describe(case, result), "\n", flush=True)
    total: Counter[str] = sum(table.values(), Counter())
    for name, row in [*sorted(table.items()), ("all", total)]:
        print(f"{name:30}", *(f"{verdict} {row[verdict]:6}" for verdict in ("right", "refused", "wrong")))


if __name__ == "__main__":
    main()
