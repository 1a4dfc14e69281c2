"""Variants of an edit whose old text is not in the file as written.

Models paste line numbers, wrap code in a fence, escape a string too often or write entities. Each step here undoes
one such habit in `old`, and in `new` if `new` has it too; up to two habits are undone together. The lines that both
texts share show whether `new` has the habit. If they do not, both variants are listed, and the edit is refused unless
both lead to the same change.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from handrail.text.matching.fold import fold
from handrail.text.matching.habits import Pairs, choose_new, undo_throughout
from handrail.text.matching.line_marks import (
    remove_diff_signs,
    remove_end_signs,
    remove_gutter,
    remove_wrapper,
    show_blanks,
)
from handrail.text.matching.work import spend


@dataclass(frozen=True, slots=True)
class Variant:
    """A pair of texts, and the names of the habits that were undone."""

    names: tuple[str, ...]
    old: str
    new: str


_FENCE = re.compile(r"^\n*((`{3,}|~{3,})[^\n`]*)\n(?:(.*?)(\n))?\2[ \t]*\n*$", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "`": "`", "\\": "\\"}
_FAST = 20
"""Characters that cost one step to count."""
_LINE = 12
"""Steps for a line that is looked at by itself."""
_HALF_DONE = re.compile(r"^\s*\\[nt]", re.MULTILINE)
"""A line of code hardly ever begins with an escaped line break or tab."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_JSON_ESCAPE = re.compile(r"\\([ntr\"'`\\])")
_TWICE = re.compile(r"\\\\[ntr]|\\\\\\\"")
"""A line break, a tab or a quote that was escaped twice."""
_CODE_POINT = re.compile(r"\\u([0-9a-fA-F]{4})|\\u\{([0-9a-fA-F]{1,6})\}|\\U([0-9a-fA-F]{8})|\\x([0-9a-fA-F]{2})")


def list_variants(old: str, new: str) -> Iterator[list[Variant]]:
    """Yield the texts as they are, then all ways to undo one habit, then two."""
    last = [Variant((), old, new)]
    seen = {(old, new)}
    yield last
    for _ in range(2):
        deeper = []
        for variant in last:
            steps = _count_steps(variant.old) + _count_steps(variant.new)
            for name, step, may_have in _STEPS:
                if not may_have(variant.old):
                    continue
                spend(steps)
                for pair in step(variant.old, variant.new):
                    if pair not in seen and pair[0].strip():
                        seen.add(pair)
                        deeper.append(Variant((*variant.names, name), *pair))
        yield deeper
        last = deeper


def _remove_fence(old: str, new: str) -> Pairs:
    match, other = _FENCE.match(old), _FENCE.match(new)
    if not match:
        return []
    body = (match[3] or "") + (match[4] or "")
    if new and not new.rstrip("\n").rpartition("\n")[2].strip():
        return []  # whose is the blank line at the end?
    if other and other[1] == match[1]:
        inner = (other[3] or "") + (other[4] or "")
        # A fence of the file's own inside of the pasted one: the new text may have lost the one or the other.
        lost = match[1] in body.split("\n") and match[1] not in inner.split("\n")
        return [(body, inner), (body, new)] if lost else [(body, inner)]
    if (other and other[1] not in body.split("\n")) or (not other and match[1] in new.split("\n")):
        return []
    ends = len(new) - len(new.rstrip("\n"))
    surplus = len(body) - len(body.rstrip("\n")) - ends
    if surplus not in (0, 1):
        return [(body, new)]
    # The break before the closing fence is the fence's; but a blank line there may also be one that the edit removes.
    pairs = [(body.rstrip("\n") + "\n" * max(ends, 1), new if ends or not new else new + "\n")]
    same_ending = body.rstrip("\n").rpartition("\n")[2] == new.rstrip("\n").rpartition("\n")[2]
    return pairs if same_ending or not ends or not surplus else [*pairs, (body, new)]


def _decode_entities(old: str, new: str) -> Pairs:
    def undo(text: str) -> str:
        return _ENTITY.sub(lambda match: html.unescape(match[0]), text)

    def consistent(text: str) -> bool:
        rest, characters = _ENTITY.sub("", text), {html.unescape(entity) for entity in _ENTITY.findall(text)}
        escaped = {"<", ">", "&"} if characters & {"<", ">", "&"} else set[str]()
        return not any(char in rest for char in escaped | characters)

    return _undo_habit(old, new, undo, consistent)


def _decode_code_points(old: str, new: str) -> Pairs:
    """Characters written as `\\uXXXX`."""

    def decode(match: re.Match[str]) -> str:
        code = int(match[1] or match[2] or match[3] or match[4], 16)
        return chr(code) if code < 0x110000 else match[0]

    def undo(text: str) -> str:
        return _CODE_POINT.sub(decode, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def consistent(text: str) -> bool:
        rest = _CODE_POINT.sub("", text)
        return not any(decode(match) in rest for match in _CODE_POINT.finditer(text))

    return _undo_habit(old, new, undo, consistent)


def _unescape_slashes(old: str, new: str) -> Pairs:
    """Every slash with a backslash before it, as some writers of JSON have it."""
    return undo_throughout(
        old, new, lambda text: text.replace("\\/", "/"), lambda text: text.count("/") == text.count("\\/")
    )


def _unescape_twice(old: str, new: str) -> Pairs:
    """A text that was written as JSON twice: the same text, written so, has to give exactly what was sent."""

    def undo(text: str) -> str:
        for _ in range(2):
            text = _JSON_ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)
        return text

    def is_written_twice(text: str) -> bool:
        sent = text.removesuffix("\n").replace("\\\\r", "")
        return _write_as_json(_write_as_json(undo(sent))) == sent

    if not _TWICE.search(old):
        return []
    return undo_throughout(old, new, undo, is_written_twice)


def _write_as_json(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _make_normalize(form: Literal["NFC", "NFD"]) -> Callable[[str, str], Pairs]:
    other: Literal["NFC", "NFD"] = "NFD" if form == "NFC" else "NFC"

    def undo(text: str) -> str:
        return unicodedata.normalize(form, text)

    def consistent(text: str) -> bool:
        return text in (undo(text), unicodedata.normalize(other, undo(text)))

    return lambda old, new: undo_throughout(old, new, undo, consistent)


def _make_unescape(marks: str) -> Callable[[str, str], Pairs]:
    """One level of backslashes too many, before these marks.

    With the backslash among them, the whole text is as JSON has it. Without, a `\\n` or `\\t` inside of a string is
    taken for the code's own.
    """
    whole = "\\" in marks
    pattern = re.compile(rf"\\([{re.escape(marks)}])")

    def undo(text: str) -> str:
        parts, last, row = [], 0, 0
        for match in pattern.finditer(text):
            row = max(row, text.rfind("\n", last, match.start()) + 1)
            spend((match.start() - row) // _FAST)
            if not whole and match[1] in "nt" and _count_quotes(text[row : match.start()]) % 2:
                continue
            parts += [text[last : match.start()], _ESCAPES[match[1]]]
            last = match.end()
            row = last if match[1] == "n" else row
        return "".join([*parts, text[last:]])

    def consistent(text: str) -> bool:
        rest = pattern.sub("", text).removesuffix("\n")
        if whole:
            return not any(char in rest for char in '\n\t"\\')  # written as JSON again, it is what was sent
        if marks in ("n", "t", "nt") and '\\"' in text and not _count_quotes(text):
            return False  # then quotes are escaped too
        return not any(_ESCAPES[mark] in rest for mark in set(pattern.findall(text)))

    return lambda old, new: _undo_habit(old, new, undo, consistent)


def _undo_habit(old: str, new: str, undo: Callable[[str], str], consistent: Callable[[str], bool]) -> Pairs:
    """The texts without a habit that, where a text has it, it has throughout."""
    bare, undone = undo(old), undo(new)
    if bare == old or not consistent(old):
        return []
    meant = choose_new(old, bare, new, undone)
    if meant == [new] and _HALF_DONE.search(new):
        return []
    if not consistent(new):
        return [(bare, new)] if meant == [new] else []
    if meant == [undone] and "\\\\" not in old and _has_torn_string(undone) and not _has_torn_string(bare):
        return []  # this was an escape in a string of the code's own
    if len(meant) > 1 and undo(bare) == bare:
        meant = [undone]  # nothing of this kind is the file's own
    return [(bare, one) for one in meant]


def _has_torn_string(text: str) -> bool:
    """Whether a string begins in one line and ends in another."""
    return any(_count_quotes(row.replace('"""', "")) % 2 for row in text.split("\n"))


def _count_quotes(text: str) -> int:
    text = fold(text)
    return text.count('"') - text.count('\\"')


def _count_steps(text: str) -> int:
    """The steps that it takes to go over a text: those of its characters, and more for each line."""
    return len(text) + _LINE * text.count("\n")


def _contains(*marks: str) -> Callable[[str], bool]:
    return lambda text: any(mark in text for mark in marks)


def _is_any(_: str) -> bool:
    return True


_ESCAPED = _contains("\\")
_STEPS: tuple[tuple[str, Callable[[str, str], Pairs], Callable[[str], bool]], ...] = (
    ("code fence", _remove_fence, _contains("```", "~~~")),
    ("line numbers", remove_gutter, _is_any),
    ("diff signs", remove_diff_signs, _is_any),
    ("signs for blanks", show_blanks, _contains(*"·•␣∙→⇥»", "<TAB>", "<tab>", "\\t")),
    ("signs for line ends", remove_end_signs, _contains("^M", "\\r", "␍")),
    ("tags", remove_wrapper, _contains("<", "====")),
    ("entities", _decode_entities, _contains("&")),
    ("code points", _decode_code_points, _ESCAPED),
    ("composed characters", _make_normalize("NFC"), lambda text: not text.isascii()),
    ("combining characters", _make_normalize("NFD"), lambda text: not text.isascii()),
    ("escaped slashes", _unescape_slashes, _contains("\\/")),
    ("escapes, twice", _unescape_twice, _ESCAPED),
    ("escapes", _make_unescape("ntr\"'`\\"), _ESCAPED),
    ("escaped line breaks", _make_unescape("n"), _ESCAPED),
    ("escaped tabs", _make_unescape("t"), _ESCAPED),
    ("escaped quotes", _make_unescape("\"'`"), _ESCAPED),
    ("escaped line breaks and tabs", _make_unescape("nt"), _ESCAPED),
)
"""Each habit, the step that undoes it, and whether a text may have it at all: that is known at little cost."""
