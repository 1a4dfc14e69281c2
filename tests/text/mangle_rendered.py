"""More mistakes: what a terminal, a shell, Markdown, XML or a font makes of a text, and slips in single lines.

Each takes the two texts of an edit and gives them back mangled, or None where it does not apply.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

from handrail.text.matching.fold import squeeze
from tests.text.edits import Case, lead_of, split

Mistake = Callable[[Random, Case], Case | None]


def _texts(change: Callable[[str], str], *tolerances: str, both: float = 0.8) -> Mistake:
    """The same change of both texts, or of old alone."""

    def mistake(rng: Random, case: Case) -> Case | None:
        old = change(case.old)
        if old == case.old:
            return None
        new = change(case.new) if rng.random() < both else case.new
        return replace(case, old=old, new=new, tolerances=case.tolerances | set(tolerances))

    return mistake


def change_rows(change: Callable[[str], str], *tolerances: str, both: float = 0.8, blank: bool = False) -> Mistake:
    def of_text(text: str) -> str:
        close = "\n" if text.endswith("\n") else ""
        rows = text.removesuffix("\n").split("\n") if text else []
        return "\n".join(change(row) if blank or row.strip() else row for row in rows) + close

    return _texts(of_text, *tolerances, both=both)


def _map(table: dict[str, str], *tolerances: str, both: float = 0.8) -> Mistake:
    def change(text: str) -> str:
        for plain, other in table.items():
            text = text.replace(plain, other)
        return text

    return _texts(change, *tolerances, both=both)


def _wrap(pairs: Sequence[tuple[str, str]], others: Sequence[tuple[str, str]] | None = None) -> Mistake:
    """Something before and behind each text."""

    def mistake(rng: Random, case: Case) -> Case | None:
        at = rng.randrange(len(pairs))
        (head, tail), (new_head, new_tail) = pairs[at], (others or pairs)[at]
        if not case.new:
            return None
        return replace(case, old=head + case.old + tail, new=new_head + case.new + new_tail)

    return mistake


def change_kept_row(change: Callable[[Random, str], str | None], *, kept: bool = True, refuse: bool = False) -> Mistake:
    """One line that the edit keeps, changed in both texts alike; or any line of old."""

    def mistake(rng: Random, case: Case) -> Case | None:
        old, new = case.old.split("\n"), case.new.split("\n")
        rows = [row for row in old if row.strip() and (not kept or (old.count(row) == new.count(row) == 1))]
        rows = [row for row in rows if change(rng, row) not in (None, row)]
        if not rows:
            return None
        row = rng.choice(rows)
        other = change(rng, row)
        if other is None or other == row or other in old:
            return None
        changed = "\n".join(other if one == row else one for one in old)
        if not is_new(case, changed):
            return None
        again = "\n".join(other if one == row else one for one in new)
        return replace(case, old=changed, new=again if kept else case.new, refuse=refuse or case.refuse)

    return mistake


def is_new(case: Case, old: str) -> bool:
    """Whether a text is not in the file, blanks and blank lines aside."""
    there, here = ("\n".join(filter(None, map(squeeze, rows))) for rows in (split(case.sample.text), old.split("\n")))
    return here not in there


def is_once(case: Case, old: str) -> bool:
    """Whether a text is in the file once, blanks and blank lines aside."""
    there, here = ("\n".join(filter(None, map(squeeze, rows))) for rows in (split(case.sample.text), old.split("\n")))
    return there.count(here) == 1


def _some_rows(change: Callable[[str], str]) -> Mistake:
    """Half of the lines, the same in both texts."""

    def mistake(rng: Random, case: Case) -> Case | None:
        shown = [row for row in case.old.split("\n") if row in case.sample.text and change(row) != row]
        leads = [{lead_of(row)[:1] for row in text.split("\n")} for text in (case.new, case.sample.text)]
        if not any(row.strip() for row in shown) or leads[0] - leads[1]:
            return None
        odd = {row for row in (case.old + "\n" + case.new).split("\n") if rng.random() < 0.5}
        old, new = (
            "\n".join(change(row) if row in odd and row.strip() else row for row in text.split("\n"))
            for text in (case.old, case.new)
        )
        return None if old == case.old else replace(case, old=old, new=new)

    return mistake


def _tab_lead(row: str) -> str:
    return lead_of(row).replace("    ", "\t") + row.lstrip(" \t")


def _row_indent_lost(which: str) -> Mistake:
    """The indentation of one line is lost: the last one's, or one in the middle."""

    def mistake(rng: Random, case: Case) -> Case | None:
        def lose(text: str) -> str:
            rows = text.removesuffix("\n").split("\n")
            if len(rows) < 3:
                return text
            at = len(rows) - 1 if which == "last" else len(rows) // 2
            rows[at] = rows[at].lstrip(" \t")
            return "\n".join(rows) + ("\n" if text.endswith("\n") else "")

        old, new = lose(case.old), lose(case.new)
        both = rng.random() < 0.5
        if old.split() != case.old.split() or [*filter(str.strip, old.split("\n"))] == [
            *filter(str.strip, case.old.split("\n"))
        ]:
            return None  # in a blank line it is no more than white space
        return None if old == case.old or (both and new == case.new) else replace(
            case, old=old, new=new if both else case.new)  # fmt: skip

    return mistake


def _first_deeper(rng: Random, case: Case) -> Case | None:
    extra = rng.choice([" ", "  ", "    "])
    if not case.new or not case.old.split("\n")[0].strip():
        return None
    return replace(case, old=extra + case.old, new=extra + case.new)


def _blank_runs(rng: Random, case: Case) -> Case | None:
    """Double blank lines collapsed."""
    old, new = (re.sub(r"\n[ \t]*\n([ \t]*\n)+", "\n\n", text) for text in (case.old, case.new))
    if old == case.old or new == case.new or not is_once(case, old):
        return None
    return replace(case, old=old, new=new)


def _joined_rows(rng: Random, case: Case) -> Case | None:
    """Two kept lines, one of which goes on in the other, written as one."""
    old = case.old.split("\n")
    pairs = [(a, b) for a, b in pairwise(old)
             if a.rstrip().endswith(("(", ",", "[", "{", "=")) and b.strip() and f"{a}\n{b}" in case.new]  # fmt: skip
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    whole = a.rstrip() + ("" if a.rstrip()[-1] in "([{" else " ") + b.strip()
    old_text, new_text = (text.replace(f"{a}\n{b}", whole) for text in (case.old, case.new))
    return replace(case, old=old_text, new=new_text) if is_new(case, old_text) else None


def _split_rows(rng: Random, case: Case) -> Case | None:
    """A long kept line, wrapped."""
    rows = [row for row in case.old.split("\n") if len(row) > 50 and case.new.split("\n").count(row) == 1]
    if not rows:
        return None
    row = rng.choice(rows)
    at = row.rfind(" ", 0, 40)
    if at <= len(lead_of(row)):
        return None
    wrapped = row[:at] + "\n" + lead_of(row) + row[at + 1 :]
    return replace(case, old=case.old.replace(row, wrapped), new=case.new.replace(row, wrapped))


def _doubled_row(rng: Random, case: Case) -> Case | None:
    """A line twice in old."""
    rows = case.old.split("\n")
    at = rng.randrange(len(rows))
    if len(rows) < 2 or not rows[at].strip():
        return None
    old = "\n".join([*rows[: at + 1], rows[at], *rows[at + 1 :]])
    return replace(case, old=old) if is_new(case, old) else None


def _swapped_rows(rng: Random, case: Case) -> Case | None:
    """Two kept lines in the other order, in both texts."""
    rows = case.old.split("\n")
    pairs = [(a, b) for a, b in pairwise(rows)
             if a.strip() and b.strip() and squeeze(a) != squeeze(b) and f"{a}\n{b}" in case.new]  # fmt: skip
    if not pairs:
        return None
    a, b = rng.choice(pairs)
    old, new = (text.replace(f"{a}\n{b}", f"{b}\n{a}") for text in (case.old, case.new))
    return replace(case, old=old, new=new) if is_new(case, old) else None


def _sibling_row(rng: Random, case: Case) -> Case | None:
    """The first line is one from elsewhere in the file, in both texts."""
    rows = case.old.split("\n")
    new = case.new.split("\n")
    others = [row.rstrip("\r\n") for row in split(case.sample.text) if row.strip() and squeeze(row) != squeeze(rows[0])]
    if len(rows) < 2 or not others or new[0] != rows[0] or not rows[0].strip():
        return None
    other = rng.choice(others)
    old = "\n".join([other, *rows[1:]])
    return replace(case, old=old, new="\n".join([other, *new[1:]])) if is_new(case, old) else None


def _dropped_row(rng: Random, case: Case) -> Case | None:
    """A kept line is missing in both texts."""
    rows, new = case.old.split("\n"), case.new.split("\n")
    inner = [
        row for row in case.old.rstrip().split("\n")[1:-1] if row.strip() and rows.count(row) == new.count(row) == 1
    ]
    if not inner:
        return None
    row = rng.choice(inner)
    old = "\n".join(one for one in rows if one != row)
    return replace(case, old=old, new="\n".join(one for one in new if one != row)) if is_new(case, old) else None


_GUTTERS = ("[{}] ", "#{} ", "{}┃ ", "Line {}: ", "<{}> ", "{:05d}\t", "{}\\t", "({}) ", "{:>5}  ", "{} ", "{}=",
            "{}║", "{:>4}⎸", "{:>3} > ", "{}:\t", "{} :", "*{}* ", "{},", "{}; ", "@{}: ")  # fmt: skip


def _odd_gutter(rng: Random, case: Case) -> Case | None:
    form, first = rng.choice(_GUTTERS), len(case.before) + 1
    if not case.new:
        return None

    def number(text: str) -> str:
        rows = text.removesuffix("\n").split("\n")
        numbered = [form.format(at) + row for at, row in enumerate(rows, first)]
        return "\n".join(numbered) + ("\n" if text.endswith("\n") else "")

    return replace(case, old=number(case.old), new=number(case.new) if rng.random() < 0.6 else case.new)


def _same_sign(rng: Random, case: Case) -> Case | None:
    sign = rng.choice(["-", "+", "- ", "+ ", "* ", "> ", ">", "| ", "$ ", ">>> ", "// ", "# ", "! "])
    old, new = ("\n".join(sign + row for row in text.split("\n")) for text in (case.old, case.new))
    return replace(case, old=old, new=new if rng.random() < 0.7 else case.new) if case.new else None


def _cat_a(rng: Random, case: Case) -> Case | None:
    """As `cat -A` shows it."""
    ends = rng.choice(["$", "↵", "¶", "⏎", "<br>", "\\n", " \\", "␊"])
    tabs = "^I" if ends == "$" else "\t"
    if "\n" not in case.old.strip("\n"):
        return None
    old, new = (text.replace("\t", tabs).replace("\n", ends + "\n") for text in (case.old, case.new))
    return replace(case, old=old, new=new if rng.random() < 0.7 else case.new)


def _pointer(rng: Random, row: str) -> str:
    return row + rng.choice(["  # <-- here", "  // <-- change this", " <--", "  /* HERE */"])


def _mixed_forms(rng: Random, case: Case) -> Case | None:
    """Some characters composed and some not, in one text."""

    def mix(text: str) -> str:
        return "".join(
            unicodedata.normalize("NFD", char) if number % 2 else unicodedata.normalize("NFC", char)
            for number, char in enumerate(unicodedata.normalize("NFC", text))
        )

    old, new = mix(case.old), mix(case.new)
    return None if old == case.old else replace(case, old=old, new=new)


def _part(rng: Random, case: Case) -> Case | None:
    """Copied from the middle of the first line to the middle of the last one."""
    old, new = case.old.rstrip("\n"), case.new.rstrip("\n")
    first, last = old.split("\n")[0], old.split("\n")[-1]
    head = re.match(r"\s*\w+\b", first)
    tail = re.search(r"\b\w+\W*$", last)
    if not head or not tail or "\n" not in old or not new.startswith(head[0]) or not new.endswith(tail[0]):
        return None
    if len(new) < len(head[0]) + len(tail[0]) or new == old or old != case.old or new != case.new:
        return None
    return replace(case, old=old[len(head[0]) : -len(tail[0])], new=new[len(head[0]) : -len(tail[0])])


def _inner_elision(rng: Random, row: str) -> str | None:
    match = re.search(r"\(([^()]{12,})\)", row)
    return row.replace(match[1], match[1][:3] + "..." + match[1][-3:]) if match else None


def _comment_lead(rng: Random, row: str) -> str | None:
    match = re.match(r"(\s*)(#|//|\*|--|;) +(?=\S)", row)
    return match[1] + row[match.end() :] if match else None


def _comma(rng: Random, row: str) -> str | None:
    return row[:-1] if row.endswith(",") else row + "," if re.search(r"[\w)\]\"']$", row) else None


def _semicolon(rng: Random, row: str) -> str | None:
    return row[:-1] if row.endswith(";") else row + ";" if re.search(r"[\w)]$", row) else None


def _quotes(rng: Random, row: str) -> str | None:
    return row.translate(str.maketrans("\"'", "'\"")) if re.search("[\"']", row) else None


def _case_of(rng: Random, row: str) -> str | None:
    words = [word for word in re.findall(r"[A-Za-z]{3,}", row) if word.swapcase() != word]
    return row.replace(words[0], words[0].swapcase(), 1) if words else None


def _digits(rng: Random, row: str) -> str | None:
    return re.sub(r"\d", lambda m: chr(0xFF10 + int(m[0])), row) if re.search(r"\d", row) else None


def _real_break(rng: Random, row: str) -> str | None:
    return row.replace("\\n", "\n", 1) if "\\n" in row else None


def _zero_width_word(text: str) -> str:
    return re.sub(r"(\w\w)(\w\w)", "\\1\u200b\\2", text, count=2)


def _soft_hyphens(text: str) -> str:
    return re.sub(r"([a-z]{3})([a-z]{3})", "\\1\u00ad\\2", text, count=3)


_WIDE = {char: chr(ord(char) + 0xFEE0) for char in "(),:;!?"}

RENDERED: dict[str, Mistake] = {
    "case of letters": change_kept_row(_case_of),
    "case of letters, old only": change_kept_row(_case_of, kept=False, refuse=True),
    "line from elsewhere": _sibling_row,
    "line dropped": _dropped_row,
    "line doubled": _doubled_row,
    "lines swapped": _swapped_rows,
    "lines joined": _joined_rows,
    "line wrapped": _split_rows,
    "elision in a line": change_kept_row(_inner_elision, refuse=True),
    "comment lead lost": change_kept_row(_comment_lead),
    "comma": change_kept_row(_comma),
    "semicolon": change_kept_row(_semicolon),
    "quotes swapped": change_kept_row(_quotes),
    "quotes swapped throughout": _texts(lambda text: text.translate(str.maketrans("\"'", "'\""))),
    "digits of another script": change_kept_row(_digits),
    "escape become a break": change_kept_row(_real_break),
    "pointer": change_kept_row(_pointer, kept=False),
    "tabs in some lines": _some_rows(_tab_lead),
    "tabs of eight": _some_rows(lambda row: row.replace("\t", "        ")),
    "last indent lost": _row_indent_lost("last"),
    "middle indent lost": _row_indent_lost("middle"),
    "first line deeper": _first_deeper,
    "blank lines collapsed": _blank_runs,
    "carriage returns": _map({"\n": "\r"}),
    "byte order mark": _wrap([("\ufeff", ""), ("\ufeff", "\ufeff")]),
    "zero width in words": change_rows(_zero_width_word),
    "soft hyphens": change_rows(_soft_hyphens),
    "full width": _map(_WIDE, "fold"),
    "ellipsis character": _map({"...": "…"}, "fold"),
    "dash for hyphen": _map({" - ": " — "}, "fold"),
    "forms mixed": _mixed_forms,
    "backslashes halved": _map({"\\\\": "\\"}),
    "backslashes lost": _map({"\\": ""}),
    "sign before lines": _same_sign,
    "quotes around": _wrap([('"', '"'), ("'", "'"), ('"""', '"""'), ("'''\n", "\n'''"), ("“", "”")]),
    "tags around": _wrap(
        [("<old>", "</old>"), ("<search>\n", "\n</search>"), ("<![CDATA[", "]]>"), ("<code>", "</code>"),
         ("<old_string>\n", "\n</old_string>"), ("<parameter name=\"old_string\">", "</parameter>")],
        [("<new>", "</new>"), ("<replace>\n", "\n</replace>"), ("<![CDATA[", "]]>"), ("<code>", "</code>"),
         ("<new_string>\n", "\n</new_string>"), ("<parameter name=\"new_string\">", "</parameter>")],
    ),
    "entities of quotes": _map({"'": "&apos;", '"': "&quot;"}),
    "other gutter": _odd_gutter,
    "as cat shows it": _cat_a,
    "part of the first and last line": _part,
    "blank before brackets": _map({"(": " ("}, "blanks"),
    "tabs inside": change_rows(lambda text: re.sub(r"(?<=\S) (?=\S)", "\t", text, count=2)),
}  # fmt: skip

SLIPS = frozenset(
    [
        *("case of letters", "case of letters, old only", "line from elsewhere", "line dropped", "line doubled"),
        *("lines swapped", "lines joined", "line wrapped", "elision in a line", "comment lead lost", "comma"),
        *("semicolon", "quotes swapped", "quotes swapped throughout", "digits of another script", "pointer"),
        *("escape become a break", "backslashes halved", "backslashes lost", "blank before brackets"),
        *("sign before lines", "other gutter", "as cat shows it", "quotes around", "first line deeper"),
        *("last indent lost", "middle indent lost", "tags around", "byte order mark", "tabs inside"),
    ]
)
"""Mistakes that lose or change code, or that leave open what they mean in many texts: a refusal is the usual answer."""
