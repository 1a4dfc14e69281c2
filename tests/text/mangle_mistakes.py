"""The mistakes: each takes the two texts of an edit and gives them back mangled, or None where it does not apply."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from handrail.text.matching.fold import squeeze
from tests.text.edits import Case, lead_of, split
from tests.text.mangle_recalled import RECALLED
from tests.text.mangle_rendered import RENDERED, SLIPS, Mistake
from tests.text.mangle_shown import SHOWN


def _seen(mistake: Mistake) -> Mistake:
    """A mistake of indentation that shows in a line with text of old; in a blank one it is no more than white space."""

    def filled(text: str) -> list[str]:
        return [row for row in text.split("\n") if row.strip()]

    def seen(rng: Random, case: Case) -> Case | None:
        spoilt = mistake(rng, case)
        return spoilt if spoilt and filled(spoilt.old) != filled(case.old) else None

    return seen


def _rows(case: Case, change: Callable[[list[str]], list[str] | None], both: bool = True) -> Case | None:
    old = _each(case.old, change)
    new = _each(case.new, change) if both else case.new
    if old is None or new is None or old == case.old:
        return None
    return replace(case, old=old, new=new)


def _each(text: str, change: Callable[[list[str]], list[str] | None]) -> str | None:
    """The lines of a text changed; an ending behind the last one is no line."""
    if not text:
        return text
    close = "\n" if text.endswith("\n") else ""
    rows = change(text[: len(text) - len(close)].split("\n"))
    return None if rows is None else "\n".join(rows) + close


def _dedent(rows: list[str], by: int) -> list[str] | None:
    if any(row.strip() and len(lead_of(row)) < by for row in rows):
        return None
    return [row[by:] if row.strip() else row for row in rows]


def _strip(both: bool) -> Mistake:
    def mistake(rng: Random, case: Case) -> Case | None:
        filled = [row for row in case.old.split("\n") if row.strip()]
        least = min((len(lead_of(row)) for row in filled), default=0)
        return _rows(case, lambda rows: _dedent(rows, least), both) if least else None

    return mistake


def _shift(rng: Random, case: Case) -> Case | None:
    extra = rng.choice([*(" " * width for width in (1, 2, 3, 4, 6, 8, 12, 16)), "\t", "\t\t", "\t\t\t\t"])
    if "\t" in extra and not _shows_unit(case):
        return None  # what a tab of the new lines becomes is not to be seen in the file
    return _rows(case, lambda rows: [extra + row if row.strip() else row for row in rows])


def _first(both: bool) -> Mistake:
    def mistake(rng: Random, case: Case) -> Case | None:
        return _rows(case, lambda rows: [rows[0].lstrip(), *rows[1:]], both) if case.old[:1].strip() == "" else None

    return mistake


def _flat(both: bool) -> Mistake:
    return lambda rng, case: _rows(case, lambda rows: [row.lstrip() for row in rows], both)


def _to_spaces(rng: Random, case: Case) -> Case | None:
    width = rng.choice([2, 4, 8])
    return _rows(case, lambda rows: [lead_of(row).replace("\t", " " * width) + row.lstrip(" \t") for row in rows])


def _shows_unit(case: Case) -> bool:
    return any(lead_of(row) == case.sample.unit for row in split(case.sample.text))


def _to_tabs(rng: Random, case: Case) -> Case | None:
    if not _shows_unit(case):
        return None
    width = len(case.sample.unit) if case.sample.unit != "\t" else 4
    return _rows(case, lambda rows: [lead_of(row).replace(" " * width, "\t") + row.lstrip(" \t") for row in rows])


def _unit(rng: Random, case: Case) -> Case | None:
    was, now = rng.choice([("  ", "    "), ("    ", "  ")])
    if (
        not _shows_unit(case)
        or case.sample.unit != was
        or any(len(lead_of(row)) % len(was) for row in (case.old + case.new).split("\n"))
    ):
        return None
    return _rows(case, lambda rows: [lead_of(row).replace(was, now) + row.lstrip() for row in rows])


def _trail_added(rng: Random, case: Case) -> Case | None:
    odd = {row for row in case.old.split("\n") if rng.random() < 0.5}
    spoilt = _rows(case, lambda rows: [row + "  " if row in odd else row for row in rows], rng.random() < 0.7)
    return spoilt and replace(spoilt, tolerances=case.tolerances | {"trail"})


def _trail_lost(rng: Random, case: Case) -> Case | None:
    spoilt = _rows(case, lambda rows: [row.rstrip() for row in rows], rng.random() < 0.7)
    return spoilt and replace(spoilt, tolerances=case.tolerances | {"trail"})


def _crlf(rng: Random, case: Case) -> Case | None:
    return replace(case, old=case.old.replace("\n", "\r\n"), new=case.new.replace("\n", "\r\n"))


def _blank_edges(rng: Random, case: Case) -> Case | None:
    head, tail = rng.choice([("\n", ""), ("", "\n"), ("\n", "\n"), ("\n\n", "\n")])
    both = rng.random() < 0.6
    above, below = "".join(case.before[-1:]), "".join(case.after[:1])
    if not both and ((head and not above.strip()) or (tail and not below.strip())):
        return None  # a blank line that is there goes if it is in old only
    return replace(case, old=head + case.old + tail, new=head + case.new + tail if both else case.new)


def _final(rng: Random, case: Case) -> Case | None:
    """The final newline on one side only."""
    if not case.new or not case.old.rstrip("\n") or case.new.endswith("\n\n") or case.old.endswith("\n\n"):
        return None
    if case.old.endswith("\n"):
        return replace(case, new=case.new.removesuffix("\n")) if case.new.strip() and rng.random() < 0.5 else None
    return replace(case, old=case.old + "\n")


def _inner(rng: Random, case: Case) -> Case | None:
    odd = {row for row in case.old.split("\n") if rng.random() < 0.5}
    change = lambda rows: [lead_of(row) + row.lstrip().replace(" ", "  ", 1) if row in odd else row for row in rows]  # noqa: E731
    spoilt = _rows(case, change, rng.random() < 0.7)
    return spoilt and replace(spoilt, tolerances=case.tolerances | {"squeeze", "trail"})


def _mapped(table: dict[str, str], both: float = 0.7) -> Mistake:
    def mistake(rng: Random, case: Case) -> Case | None:
        change = str.maketrans(table)
        old = case.old.translate(change)
        if old == case.old:
            return None
        new = case.new.translate(change) if rng.random() < both else case.new
        return replace(case, old=old, new=new, tolerances=case.tolerances | {"fold"})

    return mistake


_CURLY = {'"': "”", "'": "’", "-": "–"}
_STRAIGHT = {"“": '"', "”": '"', "’": "'", "‘": "'", "—": "-", "–": "-", "，": ",", "。": ".", "：": ":", "\u00a0": " "}


def _zero_width(rng: Random, case: Case) -> Case | None:
    return replace(case, old=case.old.replace(" ", " \u200b", 1)) if " " in case.old.strip() else None


_GUTTER_FORMS = ("{:>6}\t", "{:>6}→", "{:>4} | ", "{}: ", "{}:", "{}|", "{}| ", "{}. ", "{}-",
                 "L{}: ", "{:04}: ", "{}│ ", "{}) ", "{}>", "src/a.py:{}:")  # fmt: skip


def _gutter(rng: Random, case: Case) -> Case | None:
    form, first = rng.choice(_GUTTER_FORMS), len(case.before) + 1
    old = case.old.split("\n")
    numbers = {row: number for number, row in enumerate(old, first) if old.count(row) == 1}
    new, how = case.new.split("\n"), rng.choice(["renumbered", "kept", "bare"])
    if how == "renumbered":
        new = [form.format(number) + row for number, row in enumerate(new, first)]
    elif how == "kept":
        new = [form.format(numbers[row]) + row if row in numbers else row for row in new]
    last = old.pop() if case.old.endswith("\n") else None
    old = [form.format(number) + row for number, row in enumerate(old, first)] + ([""] if last is not None else [])
    if case.new.endswith("\n") and how != "bare":
        new[-1] = ""
    return replace(case, old="\n".join(old), new="\n".join(new) if case.new else "")


def _gutter_but_first(rng: Random, case: Case) -> Case | None:
    """Numbered lines copied from the first letter on, so that the first number is missing."""
    form, first = rng.choice(["{:>6}\t", "{:>6}→"]), len(case.before) + 1

    def number(rows: list[str]) -> list[str] | None:
        if len(rows) < 3 or not all(row.strip() for row in rows):
            return None
        return [rows[0], *(form.format(number) + row for number, row in enumerate(rows[1:], first + 1))]

    return _rows(case, number) if case.new else None


def _diff_signs(rng: Random, case: Case) -> Case | None:
    old, new = case.old.split("\n"), case.new.split("\n")
    if not case.new or case.old.endswith("\n") or case.new.endswith("\n"):
        return None
    kept = {row for row in old if row in new} if rng.random() < 0.5 else set[str]()
    if kept.issuperset(old) or kept.issuperset(new):
        return None
    signed = (
        "\n".join((" " if row in kept else sign) + row for row in rows) for rows, sign in ((old, "-"), (new, "+"))
    )
    return replace(case, old=next(signed), new=next(signed))


def _signed_blanks(rng: Random, case: Case) -> Case | None:
    return _rows(
        case, lambda rows: [lead_of(row).replace(" ", "·").replace("\t", "→") + row.lstrip(" \t") for row in rows]
    )


def _signed_ends(rng: Random, case: Case) -> Case | None:
    sign = rng.choice(["^M", "␍", "\\r"])
    if "\n" not in case.old.rstrip("\n"):
        return None
    return replace(case, old=case.old.replace("\n", sign + "\n"), new=case.new.replace("\n", sign + "\n"))


def _code_points(rng: Random, case: Case) -> Case | None:
    old, new = (re.sub(r"[^\x00-\x7f]", lambda match: f"\\u{ord(match[0]):04x}", text) for text in (case.old, case.new))
    return None if old == case.old or any(ord(char) > 0xFFFF for char in case.old + case.new) else replace(
        case, old=old, new=new if rng.random() < 0.7 else case.new)  # fmt: skip


def _hex_entities(rng: Random, case: Case) -> Case | None:
    form = rng.choice(["&#{};", "&#x{:x};", "&#x{:X};"])
    old, new = (re.sub("[<>&\"']", lambda match: form.format(ord(match[0])), text) for text in (case.old, case.new))
    return None if old == case.old else replace(case, old=old, new=new)


def _escaped_twice(rng: Random, case: Case) -> Case | None:
    def twice(text: str) -> str:
        return json.dumps(json.dumps(text, ensure_ascii=False)[1:-1], ensure_ascii=False)[1:-1]

    old = twice(case.old)
    return None if "\n" not in case.old.strip("\n") else replace(case, old=old, new=twice(case.new))


def _blank_line(lost: bool) -> Mistake:
    """A blank line between two kept lines is missing in both texts, or one too many is there."""

    def mistake(rng: Random, case: Case) -> Case | None:
        old, new = case.old.split("\n"), case.new.split("\n")
        width = 3 if lost else 2
        spots = [
            (i, j)
            for i in range(len(old) - width + 1)
            for j in range(len(new) - width + 1)
            if old[i : i + width] == new[j : j + width]
            and [bool(row.strip()) for row in old[i : i + width]] == ([True, False, True] if lost else [True, True])
        ]
        if not spots:
            return None
        i, j = rng.choice(spots)
        if old.count(old[i]) > 1 or new.count(old[i]) > 1 or old.count(old[i + width - 1]) > 1:
            return None
        fresh = [] if lost else [""]
        stop = width - 1
        mangled = [*old[: i + 1], *fresh, *old[i + stop :]]
        if "\n".join(map(squeeze, mangled)).strip("\n") in "\n".join(map(squeeze, split(case.sample.text))):
            return None  # that is in the file, elsewhere
        return replace(case, old="\n".join(mangled),
                       new="\n".join([*new[: j + 1], *fresh, *new[j + stop :]]))  # fmt: skip

    return mistake


def _fence(rng: Random, case: Case) -> Case | None:
    mark = rng.choice(["```", "```python", "~~~", "```go title=x"])
    close = mark[:3] + rng.choice(["", "\n"])
    wrap = lambda text: f"{mark}\n{text}{'' if text.endswith(chr(10)) or not text else chr(10)}{close}"  # noqa: E731
    new = wrap(case.new) if rng.random() < 0.6 else case.new
    return replace(case, old=wrap(case.old), new=new)


def _escaped(marks: str, both: float = 0.6) -> Mistake:
    """One level of JSON escaping too many, whole or of some characters."""

    def escape(text: str) -> str:
        if marks == "all":
            return json.dumps(text, ensure_ascii=False)[1:-1]
        return "".join({"\n": "\\n", "\t": "\\t", '"': '\\"'}[char] if char in marks else char for char in text)

    def mistake(rng: Random, case: Case) -> Case | None:
        old = escape(case.old)
        if old == case.old:
            return None
        return replace(case, old=old, new=escape(case.new) if rng.random() < both else case.new)

    return mistake


def _html(rng: Random, case: Case) -> Case | None:
    quote = rng.random() < 0.5
    old = html.escape(case.old, quote)
    if old == case.old:
        return None
    return replace(case, old=old, new=html.escape(case.new, quote) if rng.random() < 0.6 else case.new)


def _elided(rng: Random, case: Case) -> Case | None:
    """The middle of a run of kept lines left out in both texts."""
    old, new = case.old.split("\n"), case.new.split("\n")
    head = next((n for n, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
    tail = next((n for n, (a, b) in enumerate(zip(old[::-1], new[::-1], strict=False)) if a != b), 0)
    mark = rng.choice(["...", "# ...", "// ... existing code ...", "    ..."])
    if head >= 4:
        cut = slice(1, head - 1)
        return replace(case, old="\n".join([*old[: cut.start], mark, *old[cut.stop :]]),
                       new="\n".join([*new[: cut.start], mark, *new[cut.stop :]]))  # fmt: skip
    if tail >= 4:
        keep = rng.randint(1, tail - 2)
        return replace(case, old="\n".join([*old[: len(old) - tail + 1], mark, *old[len(old) - keep :]]),
                       new="\n".join([*new[: len(new) - tail + 1], mark, *new[len(new) - keep :]]))  # fmt: skip
    return None


def _word(rng: Random, case: Case) -> Case | None:
    """Another word in one comment that the edit keeps."""
    kept = [row for row in case.old.split("\n") if row in case.new.split("\n") and row.strip()[:2] in ("# ", "//")]
    words = [word for row in kept for word in row.split()[1:] if word.isalpha() and len(word) > 3]
    if not words:
        return None
    row = next(row for row in kept if words[0] in row)
    other = row.replace(words[0], rng.choice(["given", "certain", "whole"]), 1)
    change = lambda rows: [other if one == row else one for one in rows]  # noqa: E731
    return _rows(case, change)


def _stale(rng: Random, case: Case) -> Case | None:
    """Code in old_string that is not in the file: a digit, a name or an operator is another one."""
    rows = case.old.split("\n")
    spots = [n for n, row in enumerate(rows) if re.search(r"\d|==|<|\+|\w\(", row)]
    if not spots:
        return None
    at = rng.choice(spots)
    others = {"==": "!=", "<": ">", "+": "-"}
    changed = re.sub(r"\d|==|<|\+|\w(?=\()", lambda match: others.get(match[0], "7"), rows[at], count=1)
    if changed == rows[at]:
        return None
    old = [*rows[:at], changed, *rows[at + 1 :]]
    new = [changed if row == rows[at] else row for row in case.new.split("\n")]
    there, wanted = ([squeeze(row) for row in text] for text in (split(case.sample.text), old))
    if "\n".join(wanted).strip("\n") in "\n".join(there):
        return None  # that is in the file, elsewhere
    return replace(case, old="\n".join(old), new="\n".join(new), refuse=True)


MISTAKES: dict[str, Mistake] = {
    "stale": _stale,
    **RECALLED,  # first, while the lines are those of the file
    **{kind: RENDERED[kind] for kind in RENDERED if kind in SLIPS},
    **SHOWN,
    "indent stripped": _seen(_strip(both=True)),
    "indent stripped, old only": _seen(_strip(both=False)),
    "indent shifted": _seen(_shift),
    "first indent lost": _seen(_first(both=True)),
    "first indent lost, old only": _seen(_first(both=False)),
    "flat": _seen(_flat(both=True)),
    "flat, old only": _seen(_flat(both=False)),
    "tabs to spaces": _seen(_to_spaces),
    "spaces to tabs": _seen(_to_tabs),
    "other unit": _seen(_unit),
    "trailing blanks added": _trail_added,
    "trailing blanks lost": _trail_lost,
    "crlf": _crlf,
    "blank edges": _blank_edges,
    "final newline": _final,
    "inner blanks": _inner,
    "curly": _mapped(_CURLY),
    "straight": _mapped(_STRAIGHT),
    "nbsp": _mapped({" ": "\u00a0"}),
    "zero width": _zero_width,
    "gutter": _gutter,
    "gutter, first line bare": _gutter_but_first,
    "diff signs": _diff_signs,
    "signs for blanks": _seen(_signed_blanks),
    "signs for line ends": _signed_ends,
    "blank line lost": _blank_line(lost=True),
    "blank line added": _blank_line(lost=False),
    "fence": _fence,
    "escaped": _escaped("all"),
    "escaped breaks": _escaped("\n"),
    "escaped quotes": _escaped('"'),
    "escaped tabs": _escaped("\t"),
    "escaped twice": _escaped_twice,
    "code points": _code_points,
    "entities": _html,
    "hex entities": _hex_entities,
    "elided": _elided,
    "another word": _word,
    **RENDERED,
}
