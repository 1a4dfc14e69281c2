"""Habits of models that spoil a text: line numbers, a fence, escapes, entities. Each is a row of data.

A habit says what it looks like, how it is undone, and how it spoils a text. It is undone in the old text only if the
repaired text, spoilt again, is exactly what was sent. The new text either has the habit throughout or not at all; the
lines it shares with the old text show which. One habit is undone at a time: two mistakes at once are refused.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from handrail.text.matching.budget import spend
from handrail.text.matching.fold import ODD_BLANKS

_LINE = 12
"""Steps for a line that is looked at by itself."""
Pattern = re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Variant:
    """A pair of texts, and the habit that was undone, if any."""

    names: tuple[str, ...]
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Habit:
    """``undo`` removes it from a text; ``spoil`` turns a repaired text into what was sent, if the habit did it."""

    name: str
    patterns: tuple[Pattern, ...]
    undo: Callable[[Pattern, str], str]
    spoil: Callable[[Pattern, str, str], str]
    added_lines_lack_it: bool = False
    """Whether lines that the model adds may come without it."""


_FENCES = re.compile(r"^\s*(?:```|~~~)", re.MULTILINE)


def _remove(pattern: Pattern, text: str) -> str:
    return pattern.sub("", text)


def _unwrap(pattern: Pattern, text: str) -> str:
    match = pattern.match(text)
    return match[1] if match else text


def _wrap(pattern: Pattern, bare: str, sent: str) -> str:
    match = pattern.match(sent)
    return sent[: match.start(1)] + bare + sent[match.end(1) :] if match else bare


def _prefix(pattern: Pattern, bare: str, sent: str) -> str:
    """Each line behind what was in front of it."""
    heads = [match[0] if (match := pattern.match(row)) else "" for row in sent.split("\n")]
    rows = bare.split("\n")
    return "\n".join(map(str.__add__, heads, rows)) if len(heads) == len(rows) else ""


def _number(pattern: Pattern, bare: str, sent: str) -> str:
    """Lines numbered one after the other, in one column; the first of several may lack its number."""
    rows = sent.split("\n")
    matches = [pattern.match(row) for row in rows]
    numbered = [match for match in matches if match]
    numbers = [int(match[1]) for match in numbered]
    missing = [at for at, row in enumerate(rows) if row.strip() and not matches[at]]
    columns = [
        match.span(1) for match in numbered[matches[0] is not None and numbered[0].start() == numbered[0].start(1) :]
    ]
    in_column = len({start for start, _ in columns}) < 2 or len({end for _, end in columns}) < 2
    counts_up = all(after - before == 1 for before, after in pairwise(numbers))
    is_whole = (not missing or (missing == [0] and len(numbers) > 1)) and not pattern.search(bare)
    return _prefix(pattern, bare, sent) if counts_up and in_column and is_whole else ""


def _sign(pattern: Pattern, bare: str, sent: str) -> str:
    """Lines of a diff: removed ones in one text or added ones in the other, and context."""
    signs = {row[0] for row in sent.split("\n") if row} - {" "}
    return _prefix(pattern, bare, sent) if len(signs) == 1 else ""


BLANK_SIGNS, _TAB_SIGNS = "·•␣␠∙", re.compile(rf"→[ {ODD_BLANKS}]*|⇥|»|␉|\\t|\^I|<TAB>")


def _read_blanks(pattern: Pattern, text: str) -> str:
    blanks = str.maketrans(BLANK_SIGNS, " " * len(BLANK_SIGNS))
    return pattern.sub(lambda match: _TAB_SIGNS.sub("\t", match[0]).translate(blanks), text)


def _show_blanks(pattern: Pattern, bare: str, sent: str) -> str:
    leads = "".join(pattern.findall(sent))
    tab = _TAB_SIGNS.search(leads)
    signs = {ord("\t"): tab[0] if tab else "\t", ord(" "): next((one for one in leads if one in BLANK_SIGNS), " ")}
    return re.sub(r"^[ \t]+", lambda match: match[0].translate(signs), bare, flags=re.MULTILINE)


def _read_ends(pattern: Pattern, text: str) -> str:
    """A sign at the end of the text is the end of its last line."""
    return pattern.sub("", text) + "\n" * bool(pattern.search(text.rpartition("\n")[2]))


def _show_ends(pattern: Pattern, bare: str, sent: str) -> str:
    sign = pattern.findall(sent)[0]
    return bare.replace("\n", sign + "\n").removesuffix("\n" if sent.endswith(sign) else "")


def _decode_entities(pattern: Pattern, text: str) -> str:
    return pattern.sub(lambda match: html.unescape(html.unescape(match[0])), text)


_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def _spell_entities(pattern: Pattern, bare: str, sent: str) -> str:
    spelled = {html.unescape(html.unescape(entity)): entity for entity in pattern.findall(sent)}
    spelled = spelled if _NAMED.keys().isdisjoint(spelled) else {**_NAMED, **spelled}
    return "".join(spelled.get(char, char) for char in bare)


def _decode_points(pattern: Pattern, text: str) -> str:
    def decode(match: re.Match[str]) -> str:
        codes = [int(code, 16) for code in re.findall(r"[0-9a-fA-F]{2,}", match[0])]
        return "".join(map(chr, codes)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return pattern.sub(decode, text)


def _spell_points(pattern: Pattern, bare: str, sent: str) -> str:
    spelled = {_decode_points(pattern, match[0]): match[0] for match in pattern.finditer(sent)}
    return "".join(spelled.get(char, char) for char in bare)


_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "`": "`", "\\": "\\", "/": "/"}


def _unescape(pattern: Pattern, text: str) -> str:
    return pattern.sub(lambda match: _ESCAPES[match[1]], text)


def _escape(pattern: Pattern, bare: str, sent: str) -> str:
    """Escape what was escaped; a whole text as JSON has it escapes quotes, tabs and backslashes as well."""
    used = {*pattern.findall(sent)}
    used |= {*'\\nt"'} if "\\\\" in pattern.pattern[2:] else {*()}
    close = "\n" if sent.endswith("\n") else ""
    written = {ord(char): "\\" + mark for mark, char in _ESCAPES.items() if mark in used - {"r"}}
    feed = "\\r\\n" if "r" in used else "\\n"
    return bare.removesuffix(close).translate(written).replace("\\n", feed) + close


_JSON = re.compile(r"\\([ntr\"'`\\])")


def _unescape_twice(_: Pattern, text: str) -> str:
    return _unescape(_JSON, _unescape(_JSON, text))


def _escape_twice(_: Pattern, bare: str, sent: str) -> str:
    close = "\n" if sent.endswith("\n") else ""
    return _escape(_JSON, _escape(_JSON, bare.removesuffix(close), ""), "") + close


def _decompose(_: Pattern, text: str, _sent: str = "") -> str:
    return unicodedata.normalize("NFD", text)


def _compose(_: Pattern, text: str, _sent: str = "") -> str:
    return unicodedata.normalize("NFC", text)


def _rows(*marks: str) -> tuple[Pattern, ...]:
    return tuple(re.compile(mark, re.MULTILINE) for mark in marks)


def _around(*marks: str) -> tuple[Pattern, ...]:
    return tuple(re.compile(mark, re.DOTALL) for mark in marks)


_FOREIGN = (re.compile(r"[^\x00-\x7f]"),)
# Where the blank behind a number may be the gutter's or the line's own, both are tried.
_SIGNS = (r"\|", "│", ":", r"\.", r"\)", "-", ">")
_MARKS = (r"\t", "→", r" \| ?", " │ ?", *(sign + blank for sign in _SIGNS for blank in (" ", "")), "  ", " ")
_GUTTERS = (
    *(rf"^ *[Ll]?(\d{{1,9}})(?:{mark}|{mark.strip(' ?')}$)" for mark in _MARKS),
    r"^[\w./\\][\w./\\-]*[:-](\d{1,9})[:-]",
    r"^ *(\d{1,9})[:-]",
    r"^\[(\d{1,9})\](?: |$)",
)
_SIDE = r"(?:old|new|search|replace|original|updated|parameter)(?:_str|_string|_text|_code)?"

_TAGS = (rf"\s*<{_SIDE}>[ \t]*\n(.*?\n)[ \t]*</{_SIDE}>\s*$", rf"<{_SIDE}>(.*)</{_SIDE}>\n?$")
_ENTITIES = r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]\w{1,30});", r"&amp;(?:#\d{1,7}|[A-Za-z]\w{1,30});"
_POINT = r"\\u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}"

HABITS = (
    Habit("code fence", _around(r"\n*(?:`{3,}|~{3,})[^\n`]*\n(.*?\n|)(?:`{3,}|~{3,})[ \t]*\n*$"), _unwrap, _wrap),
    Habit("tags", _around(*_TAGS), _unwrap, _wrap),
    Habit("line numbers", _rows(*_GUTTERS), _remove, _number, added_lines_lack_it=True),
    Habit("diff signs", _rows(r"^[-+ ]", r"^[-+ ] "), _remove, _sign),
    Habit("signs for blanks", _rows(rf"^(?:[ \t{BLANK_SIGNS}]|{_TAB_SIGNS.pattern})+"), _read_blanks, _show_blanks),
    Habit("signs for line ends", _rows(r"(?:\^M|\\r|[␍$↵¶⏎␊])$"), _read_ends, _show_ends),
    Habit("entities", _rows(*_ENTITIES), _decode_entities, _spell_entities),
    Habit("code points", _rows(_POINT), _decode_points, _spell_points),
    Habit("composed characters", _FOREIGN, _decompose, _compose),
    Habit("combining characters", _FOREIGN, _compose, _decompose),
    Habit("escaped slashes", _rows(r"\\(/)"), _unescape, _escape),
    Habit("escapes, twice", _rows(r"\\\\[ntr]|\\\\\\\""), _unescape_twice, _escape_twice),
    Habit("escapes", (_JSON,), _unescape, _escape),
    Habit("escaped line breaks", _rows(r"\\(n)"), _unescape, _escape),
    Habit("escaped quotes", _rows(r"\\([\"'`])"), _unescape, _escape),
)  # fmt: skip

OF_PARTS = {habit.name for habit in HABITS if habit.undo not in (_remove, _unwrap, _read_blanks, _read_ends)}
"""The habits that a part of a line may have; all others go with whole lines."""


def list_variants(old: str, new: str) -> Iterator[Variant]:
    """Yield every way to undo one habit in both texts."""
    steps = sum(len(text) + _LINE * text.count("\n") for text in (old, new))
    seen = {(old, new)}
    for habit in HABITS:
        for pattern in habit.patterns:
            if not pattern.search(old):
                continue
            spend(steps)
            bare = habit.undo(pattern, old)
            if bare == old or not bare.strip() or habit.spoil(pattern, bare, old) != old:
                continue
            for fresh in _choose_new(habit, pattern, (old, bare), new):
                if bare != fresh and (bare, fresh) not in seen:
                    seen.add((bare, fresh))
                    yield Variant((habit.name,), bare, fresh)


def _choose_new(habit: Habit, pattern: Pattern, olds: tuple[str, str], new: str) -> list[str]:
    """What the new text means: the lines that both texts have show whether it has the habit; if none does, it has it
    where undoing it can be undone."""
    undone = habit.undo(pattern, new)
    if new and olds[1].endswith("\n\n") and not undone.endswith("\n\n"):
        return []  # is the blank line at the end the habit's, or one that the edit removes?
    if habit.spoil is _wrap and _FENCES.search(olds[1]) and not _FENCES.search(undone):
        return []  # which of the two fences has the new text lost?
    if undone == new:
        return [] if habit.spoil is _wrap and olds[0].lstrip()[:3] in new else [new]
    rows, others, old, bare = ({row.strip() for row in text.split("\n")} - {""} for text in (new, undone, *olds))
    untouched, mended = not rows.isdisjoint(bare - old), not bare.isdisjoint(others - rows)
    if untouched and not (mended and habit.added_lines_lack_it):
        is_spoilt = habit.spoil in (_escape, _number, _show_ends) and any(map(pattern.search, rows - bare))
        return [] if mended or is_spoilt else [new]
    if not habit.added_lines_lack_it and habit.spoil(pattern, undone, new) != new:
        return []
    sent = set(olds[0].split("\n"))
    if habit.spoil is _sign and any(row[:1] in (" ", "-") and row not in sent for row in new.split("\n")):
        return []  # what is context or removed in one text is so in both
    return [] if _tears_string(undone) and not _tears_string(olds[1]) else [undone]


def _tears_string(text: str) -> bool:
    """Whether a string begins in one line and ends in another."""
    return any((row.count('"') - row.count('\\"') - row.count('"""')) % 2 for row in text.split("\n"))
