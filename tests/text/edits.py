"""Edits of one place in a file, as a careful engineer would send them, and how to judge what became of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from handrail.text.matching.fold import ODD_BLANKS, ZERO_WIDTH, fold, squeeze
from tests.text.samples import Sample


@dataclass(frozen=True)
class Case:
    """An edit as a model sends it, and the file that it should make (none: it must be refused)."""

    sample: Sample
    old: str
    new: str
    before: tuple[str, ...]
    """The lines of the file above the edited place; then those in its place and whether they are new; then below."""
    wanted: tuple[tuple[str, bool], ...]
    after: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    tolerances: frozenset[str] = field(default_factory=frozenset)
    refuse: bool = False

    def judge(self, result: str) -> bool:
        """Whether ``result`` is the file that was meant; what no tool can know of a new line is not asked."""
        rows = split(result)
        head, tail = len(self.before), len(rows) - len(self.after)
        if self.refuse or tuple(rows[:head]) != self.before or tuple(rows[tail:]) != self.after:
            return False
        there = rows[head:tail]
        return len(there) == len(self.wanted) and all(
            row == meant
            or ("trail" in self.tolerances and not (row + meant).strip())
            or (fresh and self._plain(row) == self._plain(meant))
            for row, (meant, fresh) in zip(there, self.wanted, strict=True)
        )

    def _plain(self, row: str) -> str:
        body, end = row.rstrip("\r\n"), row[len(row.rstrip("\r\n")) :]
        lead = body[: len(body) - len(body.lstrip(" \t"))]
        body = body[len(lead) :]
        body = fold(body) if "fold" in self.tolerances else body
        body = squeeze(body) if "squeeze" in self.tolerances else body
        body = _remove_blanks(body) if "blanks" in self.tolerances else body
        body = body.rstrip() if "trail" in self.tolerances else body
        return lead + body + end if body else end


def split(text: str) -> list[str]:
    return re.findall(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+", text)


def feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def clean_edit(rng: Random, sample: Sample) -> Case | None:
    """One place of a file changed: some lines of it, one or a few of them other ones afterwards."""
    rows = split(sample.text)
    bodies = [row.rstrip("\r\n") for row in rows]
    if len(rows) < 3:
        return None
    length = min(len(rows), rng.choice([1, 2, 3, 3, 4, 5, 6, 8, 12]))
    at = rng.randrange(len(rows) - length + 1)
    old = bodies[at : at + length]
    if not any(row.strip() for row in old):
        return None
    edited = _edited(rng, old, sample.unit)
    if [row for row, _ in edited] == old:
        return None
    ends = [row[len(body) :] for row, body in zip(rows, bodies, strict=True)]
    main = Counter(ends).most_common(1)[0][0] or "\n"
    wanted = [(row + main, fresh) for row, fresh in edited]
    if at + length == len(rows) and wanted:
        wanted[-1] = (edited[-1][0] + ends[-1], wanted[-1][1])
    whole = at + length < len(rows) or ends[-1]
    if not whole and (not edited or not edited[-1][0].strip() or not old[-1].strip()):
        return None
    close = (
        "\n" if whole and (rng.random() < 0.4 or not edited or not edited[-1][0].strip() or not old[-1].strip()) else ""
    )
    new = "\n".join(row for row, _ in edited)
    return Case(
        sample,
        "\n".join(old) + close,
        new + (close if edited else ""),
        tuple(rows[:at]),
        tuple(wanted),
        tuple(rows[at + length :]),
    )


def _edited(rng: Random, old: Sequence[str], unit: str) -> list[tuple[str, bool]]:
    """The lines after the edit, each with whether the edit made it."""
    rows = [(row, False) for row in old]
    filled = [number for number, row in enumerate(old) if row.strip()]
    at = rng.choice(filled)
    lead = lead_of(old[at])
    kinds = ["deeper", "wrap"] if _regular(lead, unit) and old[at].strip()[0].isalpha() else []
    kind = rng.choice([*kinds, "change", "change", "insert", "insert", "delete", "block", "two"])
    if kind in ("change", "two"):
        for one in {at, rng.choice(filled)} if kind == "two" else {at}:
            rows[one] = (_other(rng, old[one]), True)
    elif kind == "insert":
        fresh = [(lead + _fresh(rng), True) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.4 and _regular(lead, unit):
            fresh += [(lead + "if enabled:", True), (lead + unit + _fresh(rng), True)]
        rows[at + 1 : at + 1] = fresh
    elif kind == "delete":
        del rows[at : at + rng.randint(1, 2)]
    elif kind == "deeper":
        rows[at] = (unit + old[at], True)
    elif kind == "wrap":
        rows[at : at + 1] = [(lead + "if enabled:", True), (unit + old[at], True)]
    else:
        stop = min(len(old), at + rng.randint(1, 4))
        rows[at:stop] = [(lead + _fresh(rng), True) for _ in range(rng.randint(1, 4))]
    return rows


def _regular(lead: str, unit: str) -> bool:
    return not lead.replace(unit, "")


def lead_of(row: str) -> str:
    return row[: len(row) - len(row.lstrip(" \t"))]


def _fresh(rng: Random) -> str:
    name = rng.choice(["alpha", "beta", "gamma", "total", "limit"])
    return rng.choice(
        [
            f"{name} = {rng.randint(2, 99)}",
            f'print("{name}: it\'s done")',
            f"# {name} is set by the caller",
            f'log.info("{name}\\n\\tdone")',
            f"ok = {name} < 3 && {name} > 1",
            f"- {name}: first-rate",
            f"return {name}",
        ]
    )


def _other(rng: Random, row: str) -> str:
    words = re.findall(r"\w+", row)
    if not words:
        return row + " # changed"
    word = rng.choice(words)
    return re.sub(rf"\b{re.escape(word)}\b", word + rng.choice(["_new", "2", "s"]), row, count=1)


def _remove_blanks(text: str) -> str:
    """Without any blanks and characters of no width."""
    return "".join(text.translate(dict.fromkeys(map(ord, ODD_BLANKS + ZERO_WIDTH))).split())
