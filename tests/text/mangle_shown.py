"""Still more mistakes: what other programs show instead of a text, and what they make of it on its way to the model.

An editor, a mail, a page, a word processor, a debugger or version control stands between the file and the model. Each
takes the two texts of an edit and gives them back mangled, or None where it does not apply.
"""

from __future__ import annotations

import json
import quopri
import re
from collections.abc import Callable
from dataclasses import replace
from random import Random

from handrail.text.matching.fold import squeeze
from tests.text.edits import Case, lead_of, split
from tests.text.mangle_rendered import Mistake, is_once


def _alike(change: Callable[[Random, str], str], both: float = 0.8) -> Mistake:
    """The same change of both texts, with the same choices, or of old alone."""

    def mistake(rng: Random, case: Case) -> Case | None:
        seed = rng.random()
        old = change(Random(seed), case.old)
        if old == case.old or not old.strip():
            return None
        return replace(case, old=old, new=change(Random(seed), case.new) if rng.random() < both else case.new)

    return mistake


def _all_rows(change: Callable[[Random, str], str], *, blank: bool = False, both: float = 0.8) -> Mistake:
    """The same change of each line; an ending behind the last one is no line."""

    def of_text(rng: Random, text: str) -> str:
        seed = rng.random()
        close = "\n" if text.endswith("\n") else ""
        rows = text.removesuffix("\n").split("\n") if text else []
        return "\n".join(change(Random(seed), row) if blank or row.strip() else row for row in rows) + close

    return _alike(of_text, both)


def _swap(*tables: dict[str, str], both: float = 0.8) -> Mistake:
    """Characters for others, by one of the tables."""

    def change(rng: Random, text: str) -> str:
        for plain, other in rng.choice(tables).items():
            text = text.replace(plain, other)
        return text

    return _alike(change, both)


def _prefix(*forms: str, blank: bool = True) -> Mistake:
    """Something before each line; `{}` counts the lines."""

    def change(rng: Random, text: str) -> str:
        form, first = rng.choice(forms), rng.randint(1, 90)
        close = "\n" if text.endswith("\n") else ""
        rows = text.removesuffix("\n").split("\n") if text else []
        return "\n".join(form.format(first + at) + row if blank or row.strip() else row
                         for at, row in enumerate(rows)) + close  # fmt: skip

    return _alike(change)


def _read_as(encoding: str) -> Mistake:
    """UTF-8 that was read in another encoding."""
    return _alike(lambda rng, text: text.encode().decode(encoding, "replace"))


def _around(*pairs: tuple[str, str]) -> Mistake:
    def change(rng: Random, text: str) -> str:
        head, tail = rng.choice(pairs)
        return head + text + ("" if text.endswith("\n") or not text else "\n") + tail if text else text

    return _alike(change)


def _lose_breaks(rng: Random, case: Case) -> Case | None:
    """All lines in one; two lines of the file show that it is a mistake."""
    glue = rng.choice([" ", "", "; "])
    there = split(case.sample.text)[len(case.before) :]
    if "\n" not in case.old.strip() or sum(bool(row.strip()) for row in there[: len(there) - len(case.after)]) < 2:
        return None
    old, new = (glue.join(row.strip() for row in text.split("\n")) for text in (case.old, case.new))
    return replace(case, old=old, new=new)


def _lose_blank_lines(rng: Random, case: Case) -> Case | None:
    """No blank lines between the others; those at an edge may be what the edit removes."""
    rows, others = (text.removesuffix("\n").split("\n") for text in (case.old, case.new))
    if not all(row.strip() for row in (rows[0], rows[-1], others[0], others[-1])) or all(map(str.strip, rows)):
        return None
    old, new = ("\n".join(filter(str.strip, text)) for text in (rows, others))
    close = "\n" if case.old.endswith("\n") else ""
    if "\n".join(map(squeeze, old.split("\n"))) in "\n".join(map(squeeze, split(case.sample.text))):
        return None  # that is in the file, elsewhere
    return replace(case, old=old + close, new=new + close)


def _double_breaks(rng: Random, case: Case) -> Case | None:
    """Each line is followed by a blank one; two lines of the file, which has them once, show that it is a mistake."""
    if not re.search(r"\w{3}[^\n]*\n[^\n]*\w{3}", case.old) or not is_once(case, case.old):
        return None
    end = rng.choice(["\n\n", "\r\r\n"])
    return replace(case, old=case.old.replace("\n", end), new=case.new.replace("\n", end))


def _sign_old_alone(rng: Random, case: Case) -> Case | None:
    """The signs of a diff in the old text alone."""
    sign = rng.choice(["-", "- "])
    close = "\n" if case.old.endswith("\n") else ""
    return replace(case, old="\n".join(sign + row for row in case.old.removesuffix("\n").split("\n")) + close)


def _sign_new_alone(rng: Random, case: Case) -> Case | None:
    """The old text is spoilt elsewhere, and the new text has the signs of a diff."""
    if not case.new or not re.search(r"\S +\S", case.old):
        return None
    rows = case.new.removesuffix("\n").split("\n")
    old = case.old.split("\n")
    close = "\n" if case.new.endswith("\n") else ""
    signed = "\n".join((" " if row in old else "+") + row for row in rows) + close
    return replace(case, old=re.sub(r"(\S) (\S)", r"\1  \2", case.old, count=1), new=signed)


def _prompt(rng: Random, text: str) -> str:
    """As an interpreter shows what was typed."""
    first, further = rng.choice([(">>> ", "... "), ("In [1]: ", "   ...: "), ("$ ", "> "), ("irb> ", "irb* ")])
    return "\n".join((further if at else first) + row for at, row in enumerate(text.split("\n"))) if text else text


def _as_list(rng: Random, text: str) -> str:
    """Each line as a string of a list."""
    write = rng.choice([repr, lambda row: json.dumps(row, ensure_ascii=False)])
    return ",\n".join(write(row) for row in text.split("\n")) if text else text


def _cut_off(rng: Random, case: Case) -> Case | None:
    """The lines that the edit keeps are cut where a terminal ends."""
    width, mark = 30, rng.choice(["…", "...", ">", "$", ""])
    kept = {*case.old.split("\n")} & {*case.new.split("\n")}
    old, new = (
        "\n".join(row[:width] + mark if row in kept and len(row) > width + 4 else row for row in text.split("\n"))
        for text in (case.old, case.new)
    )
    return None if old == case.old else replace(case, old=old, new=new)


def _quoted_printable(rng: Random, text: str) -> str:
    return quopri.encodestring(text.encode()).decode("ascii")


def _octal(rng: Random, text: str) -> str:
    return re.sub(r"[^\x00-\x7f]", lambda match: "".join(f"\\{byte:03o}" for byte in match[0].encode()), text)


def _hex_blanks(rng: Random, row: str) -> str:
    blank, tab = rng.choice([("\\x20", "\\x09"), ("\\u0020", "\\u0009"), ("&#32;", "&#9;"), ("%20", "%09")])
    return lead_of(row).replace(" ", blank).replace("\t", tab) + row.lstrip(" \t")


def _link(rng: Random, text: str) -> str:
    """Names that look like those of a host, as links."""
    return re.sub(r"\b([a-z]+\.[a-z]+)\b", r"[\1](http://\1)", text)


def _marked_word(rng: Random, row: str) -> str:
    """A word that a page highlights."""
    head, tail = rng.choice([("**", "**"), ("<b>", "</b>"), ('<span class="k">', "</span>"), ("<mark>", "</mark>")])
    return re.sub(r"[A-Za-z]{3,}", lambda match: head + match[0] + tail, row, count=1)


def _lookalikes(rng: Random, row: str) -> str:
    """A letter of another alphabet that looks the same."""
    return re.sub("[aeo]", lambda match: {"a": "а", "e": "е", "o": "о"}[match[0]], row, count=1)


def _stutter(rng: Random, row: str) -> str:
    """A word twice."""
    return re.sub(r"\b([A-Za-z]{3,})\b", r"\1 \1", row, count=1)


def _capital(rng: Random, row: str) -> str:
    """A capital at the beginning of each line."""
    return lead_of(row) + row.lstrip(" \t")[:1].upper() + row.lstrip(" \t")[1:]


def _scaled(by: int) -> Mistake:
    """The indentation some times as deep, whatever it consists of."""
    return _all_rows(lambda rng, row: lead_of(row) * by + row.lstrip(" \t"))


def _directed(rng: Random, row: str) -> str:
    """Marks of the direction of a text around each line."""
    head, tail = rng.choice([("\u202a", "\u202c"), ("\u2066", "\u2069"), ("\u200e", "\u200e")])
    return head + row + tail


SHOWN: dict[str, Mistake] = {
    "UTF-8 read as Latin-1": _read_as("latin-1"),
    "UTF-8 read as Windows-1252": _read_as("cp1252"),
    "breaks of a page": _swap({"\n": "<br>"}, {"\n": "<br/>"}, {"\n": "<br>\n"}, {"\n": "<br />\n"}),
    "pictures of control characters": _swap({"\n": "␊"}, {"\n": "␤", "\t": "␉"}, {"\n": "␊\n", "\t": "␉"}),
    "pictures of blanks": _swap({" ": "␠"}, {" ": "␣"}, {" ": "·"}),
    "every line followed by a blank one": _double_breaks,
    "other breaks": _swap({"\n": "\x0b"}, {"\n": "\x0c"}, {"\n": "\x1e"}),
    "breaks lost": _lose_breaks,
    "blank lines lost": _lose_blank_lines,
    "diff signs, old only": _sign_old_alone,
    "diff signs, new only": _sign_new_alone,
    "wide blanks": _all_rows(lambda rng, row: lead_of(row).replace(" ", "\u3000") + row.lstrip(" \t")),
    "blanks of a typesetter": _swap({" ": "\u2002"}, {" ": "\u2009"}, {" ": "\u202f"}, {"  ": "\u2003"}),
    "tabs expanded to columns": _all_rows(lambda rng, row: row.expandtabs(rng.choice([2, 4, 8]))),
    "indentation doubled": _scaled(2),
    "indentation tripled": _scaled(3),
    "entities of an indentation": _all_rows(
        lambda rng, row: lead_of(row).replace(" ", "&nbsp;").replace("\t", "&Tab;") + row.lstrip(" \t")
    ),
    "codes of an indentation": _all_rows(_hex_blanks),
    "bullets of a word processor": _all_rows(lambda rng, row: re.sub(r"^(\s*)[-*] ", r"\1• ", row)),
    "signs of a word processor": _swap({"(c)": "©", "1/2": "½", "<=": "≤", "--": "–"}, {"*": "×", "|": "∣", "~": "∼"}),
    "quotes of another language": _swap({'"': "«"}, {"'": "‹"}, {'"': "„"}, {"`": "‘"}, {"'": "´"}),
    "minus signs": _swap({"-": "−"}, {"-": "‑"}),
    "capitals": _all_rows(_capital),
    "word twice": _all_rows(_stutter),
    "letters of another alphabet": _all_rows(_lookalikes),
    "marks of direction": _all_rows(_directed, blank=True),
    "cut at the edge of a terminal": _cut_off,
    "prompts": _alike(_prompt),
    "here-document": _around(("cat > a.py <<'EOF'\n", "EOF"), ("<<EOF\n", "EOF\n")),
    "comment around": _around(("/*\n", "*/"), ('"""\n', '"""'), ("<!--\n", "-->"), ("#if 0\n", "#endif")),
    "strings of a list": _alike(_as_list),
    "rows of a table": _all_rows(lambda rng, row: f"| {row} |", blank=True),
    "blame": _prefix("3f2c1ab9 (Ann {:>3}) ", "^3f2c1ab (A. B. 2024-01-02 10:00:00 +0000 {}) ", "3f2c1ab9 "),
    "times": _prefix("[12:00:{:02}] ", "2024-01-02T10:00:{:02}Z ", "10:{:02}:07 INFO "),
    "name of the file": _prefix("src/a.py:", "a.py: ", "src/a.py-", "src/a.py\t"),
    "branches of a tree": _prefix("├── ", "│   ", "└─ "),
    "signs of a debugger": _prefix("   {} ", "=> ", "-> ", "→ ", "--> ", "{:>4} >> "),
    "quoted-printable": _alike(_quoted_printable),
    "octal codes": _alike(_octal),
    "links": _alike(_link),
    "highlighted words": _all_rows(_marked_word),
    "nul characters": _alike(lambda rng, text: "".join(char + "\0" for char in text)),
}  # fmt: skip
"""Mistakes of which many leave open what is meant: a refusal is the usual answer."""
