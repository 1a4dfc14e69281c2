"""Still more mistakes: texts that a model writes from memory, instead of copying them.

It exchanges or repeats texts, leaves out comments, accents and lines, or writes what is the same to it. Each takes the
two texts of an edit and gives them back mangled, or None where it does not apply.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from random import Random

from tests.text.edits import Case, feeds
from tests.text.mangle_rendered import Mistake, change_kept_row, change_rows, is_new, is_once


def _exchange(rng: Random, case: Case) -> Case | None:
    """The old text for the new one, and the other way round."""
    if not case.new.strip() or not is_new(case, case.new):
        return None
    return replace(case, old=case.new, new=case.old, refuse=True)


def _repeat(rng: Random, case: Case) -> Case | None:
    """The old text twice."""
    old = case.old.removesuffix("\n") + "\n" + case.old
    return replace(case, old=old) if is_new(case, old) else None


def _strip_accents(text: str) -> str:
    plain = (char for char in unicodedata.normalize("NFD", text) if not unicodedata.combining(char))
    return unicodedata.normalize("NFC", "".join(plain))


def _lose_comment(rng: Random, row: str) -> str | None:
    """The comment behind a line of code is left out."""
    match = re.search(r"(?<=\S)\s+(?:#|//|/\*) .*$", row)
    return row[: match.start()] if match else None


def _close_up(row: str) -> str:
    """No blanks around signs."""
    return re.sub(r"(?<=\w) ?([=<>+*:-]+) ?(?=\w)", r"\1", row)


def _space_out(row: str) -> str:
    """Blanks inside of brackets."""
    return re.sub(r"\((?=\w)", "( ", re.sub(r"(?<=\w)\)", " )", row))


def _name_above(rng: Random, case: Case) -> Case | None:
    """The name of the file above both texts, or above the old one."""
    head = rng.choice(["# src/a.py\n", "// src/a.ts\n", "src/a.py:\n", "File: a.py\n", "a.py\n\n", "<!-- a.md -->\n"])
    if not case.new:
        return None
    return replace(case, old=head + case.old, new=head + case.new if rng.random() < 0.7 else case.new)


def _skip_lines(rng: Random, case: Case) -> Case | None:
    """Some lines that the edit keeps are missing in both texts, without dots in their place."""
    rows = case.old.removesuffix("\n").split("\n")
    if len(rows) < 4:
        return None
    start = rng.randint(1, len(rows) - 3)
    block = "\n" + "\n".join(rows[start : rng.randint(start + 2, len(rows) - 1)]) + "\n"
    if case.old.count(block) != 1 or case.new.count(block) != 1 or not block.strip():
        return None
    old, new = (text.replace(block, "\n") for text in (case.old, case.new))
    return replace(case, old=old, new=new) if old != new and is_new(case, old) else None


def _swap_arguments(rng: Random, row: str) -> str | None:
    match = re.search(r"\((\w+), (\w+)", row)
    if not match or match[1] == match[2]:
        return None
    return row[: match.start()] + f"({match[2]}, {match[1]}" + row[match.end() :]


def _cut_word(rng: Random, case: Case) -> Case | None:
    """Both texts end inside the same word."""
    old, new = case.old.rstrip("\n"), case.new.rstrip("\n")
    word = re.search(r"\w{4,}$", old)
    if not word or not new.endswith(word[0]):
        return None
    length = rng.randint(1, 3)
    return replace(case, old=old[:-length], new=new[:-length])


def _complete_block(rng: Random, case: Case) -> Case | None:
    """A line behind the old text, as it usually follows, which is not there."""
    more = rng.choice(["    return None", "}", "pass", "});", "end", "</div>"])
    old = case.old.removesuffix("\n") + "\n" + more
    if feeds(case.sample.text).count(more) or not is_once(case, case.old):
        return None
    both = rng.random() < 0.5 and bool(case.new)
    return replace(case, old=old, new=case.new.removesuffix("\n") + "\n" + more if both else case.new)


RECALLED: dict[str, Mistake] = {
    "texts exchanged": _exchange,
    "old text twice": _repeat,
    "accents lost": change_rows(_strip_accents),
    "comment behind a line lost": change_kept_row(_lose_comment),
    "blanks around signs lost": change_rows(_close_up),
    "blanks inside of brackets": change_rows(_space_out),
    "name of the file above": _name_above,
    "lines skipped": _skip_lines,
    "arguments in another order": change_kept_row(_swap_arguments),
    "cut in the last word": _cut_word,
    "line behind that is not there": _complete_block,
}
"""Mistakes that lose or change code: a refusal is the usual answer."""
