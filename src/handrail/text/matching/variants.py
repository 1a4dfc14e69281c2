"""Variants of an edit whose old text is not in the file as written.

Models paste line numbers, wrap code in a fence, escape a string too often or write entities. Each step here undoes
one such habit in `old`, and in `new` if `new` has it too; up to two habits are undone together. A step counts only if
its repair, spoilt by the same habit again, is what was sent. The lines that both texts share show whether `new` has
the habit. If they do not, both variants are listed, and the edit is refused unless both lead to the same change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from handrail.text.matching.budget import spend
from handrail.text.matching.fold import LINE_SEPARATORS
from handrail.text.matching.habits import Repair
from handrail.text.matching.line_marks import (
    remove_colours,
    remove_diff_signs,
    remove_end_signs,
    remove_gutter,
    remove_outer_dots,
    remove_quotation,
    remove_quotes,
    remove_wrapper,
    show_blanks,
)
from handrail.text.matching.spellings import (
    decode_code_points,
    decode_entities,
    decode_percent,
    end_lines,
    make_normalize,
    make_replacer,
    make_unescape,
    unescape_markdown,
    unescape_twice,
)


@dataclass(frozen=True, slots=True)
class Variant:
    """A pair of texts, and the names of the habits that were undone."""

    names: tuple[str, ...]
    old: str
    new: str


_FENCE = re.compile(r"^\n*((`{3,}|~{3,})[^\n`]*)\n(?:(.*?)(\n))?\2[ \t]*\n*$", re.DOTALL)
_ORDER_MARK = "\ufeff"
_LINE = 12
"""Steps for a line that is looked at by itself."""


def list_variants(old: str, new: str) -> Iterator[list[Variant]]:
    """Yield the texts as they are, then all ways to undo one habit, then two."""
    last = [Variant((), old, new)]
    if _ORDER_MARK in old:
        last = [Variant(("byte order mark",), one.old, one.new) for one in _remove_order_marks(old, new)]
    seen = {(old, new)}
    yield last
    for _ in range(2):
        deeper = []
        for variant in last:
            steps = _count_steps(variant.old) + _count_steps(variant.new)
            for name, step, may_have in _STEPS:
                if not may_have(variant.old):
                    continue
                if variant.names == ("line numbers",) and name in ("line numbers", "quotation signs"):
                    continue  # a second number is the file's, and a bar behind a number is the number's
                spend(steps)
                for repair in step(variant.old, variant.new):
                    pair = (repair.old, repair.new)
                    if pair in seen or not repair.old.strip() or repair.is_unsure(variant.old, variant.new):
                        continue
                    if repair.is_inverse(variant.old):
                        seen.add(pair)
                        deeper.append(Variant((*variant.names, name), *pair))
        yield deeper
        last = deeper


def _remove_order_marks(old: str, new: str) -> list[Repair]:
    repair = Repair(old.replace(_ORDER_MARK, ""), new.replace(_ORDER_MARK, ""), str)
    moved = old.startswith(_ORDER_MARK) and _ORDER_MARK in new and not new.startswith(_ORDER_MARK)
    return [] if moved or repair.is_unsure(old, new) else [repair]


def _remove_fence(old: str, new: str) -> list[Repair]:
    match, other = _FENCE.match(old), _FENCE.match(new)
    if not match:
        return []
    body = (match[3] or "") + (match[4] or "")
    ends = len(body) - len(body.rstrip("\n"))
    start = match.end(1) + 1

    def spoil(bare: str) -> str:
        """The line breaks before the closing fence are the fence's."""
        return old[:start] + bare.rstrip("\n") + "\n" * ends + old[start + len(body) :]

    if new and not new.rstrip("\n").rpartition("\n")[2].strip():
        return []  # whose is the blank line at the end?
    if other and other[1] == match[1]:
        inner = (other[3] or "") + (other[4] or "")
        if (_count_fences(body, match[2]) - _count_fences(inner, match[2])) % 2:
            return []  # which of the fences is the file's?
        # A fence of the file's own inside of the pasted one: the new text may have lost the one or the other.
        lost = match[1] in body.split("\n") and match[1] not in inner.split("\n")
        return [Repair(body, one, spoil, is_closed=True) for one in ([inner, new] if lost else [inner])]
    if (other and other[1] not in body.split("\n")) or (not other and _has_fence(new, match[2])):
        return []
    new_ends = len(new) - len(new.rstrip("\n"))
    outer = len(old) - len(old.rstrip("\n"))
    surplus = ends - new_ends
    if surplus < 0 or min(outer, new_ends) > 1:
        return []  # whose are they?
    if surplus > 1:
        return [Repair(body, new, spoil, is_closed=True)]
    # The break before the closing fence is the fence's; but a blank line there may also be one that the edit removes.
    fresh = new if new_ends or not new else new + "\n"
    meant = Repair(body.rstrip("\n") + "\n" * max(new_ends, 1), fresh, spoil, is_closed=True)
    same_ending = body.rstrip("\n").rpartition("\n")[2] == new.rstrip("\n").rpartition("\n")[2]
    return [meant] if same_ending or not new_ends or not surplus else [meant, Repair(body, new, spoil, is_closed=True)]


def _count_fences(text: str, mark: str) -> int:
    return sum(row.lstrip().startswith(mark) for row in text.split("\n"))


def _has_fence(text: str, mark: str) -> bool:
    """Whether a line of a text is a fence, or a mark of code is around the text."""
    return any(row.startswith(mark) for row in text.split("\n")) or text[:1] == text.rstrip()[-1:] == "`"


def _count_steps(text: str) -> int:
    """The steps that it takes to go over a text: those of its characters, and more for each line."""
    return len(text) + _LINE * text.count("\n")


def _contains(*marks: str) -> Callable[[str], bool]:
    return lambda text: any(mark in text for mark in marks)


def _ends_in(*marks: str) -> Callable[[str], bool]:
    return lambda text: text.startswith(marks) or text.rstrip("\n").endswith(marks)


def _is_any(_: str) -> bool:
    return True


def _is_foreign(text: str) -> bool:
    return not text.isascii()


_ESCAPED = _contains("\\")
_LIGATURES = {"ffi": "ﬃ", "ffl": "ﬄ", "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ"}
_ARROWS = {"->": "→", "=>": "⇒", "<-": "←", ">=": "≥", "<=": "≤", "!=": "≠", "===": "≡"}
_DASHES = {"--": "—"}
SIGNS = {
    name: "".join(table.values())
    for name, table in (("ligatures", _LIGATURES), ("arrows", _ARROWS), ("long dashes", _DASHES))
}
"""The habits that write one sign for several characters, and these signs."""
_STEPS: tuple[tuple[str, Callable[[str, str], list[Repair]], Callable[[str], bool]], ...] = (
    ("code fence", _remove_fence, _contains("```", "~~~")),
    ("line numbers", remove_gutter, _is_any),
    ("diff signs", remove_diff_signs, _is_any),
    ("quotation signs", remove_quotation, lambda text: text[:1] in (">", "|", "+")),
    ("colours", remove_colours, _contains("\x1b[")),
    ("signs for blanks", show_blanks, _contains(*"·•␣␠∙→⇥»␉", "<TAB>", "<tab>", "\\t", "^I")),
    ("signs for line ends", remove_end_signs, _contains("^M", "\\r", *"␍$↵¶⏎␊")),
    ("line separators", end_lines, _contains(*LINE_SEPARATORS)),
    ("tags", remove_wrapper, _contains("<", "====")),
    ("quotes around", remove_quotes, _ends_in("`", '"', "'", "**", "\\n")),
    ("dots around", remove_outer_dots, _contains("...", "…")),
    ("entities", decode_entities, _contains("&")),
    ("code points", decode_code_points, _ESCAPED),
    ("codes of a URL", decode_percent, _contains("%")),
    ("composed characters", make_normalize("NFC"), _is_foreign),
    ("combining characters", make_normalize("NFD"), _is_foreign),
    ("ligatures", make_replacer(_LIGATURES), _is_foreign),
    ("arrows", make_replacer(_ARROWS), _is_foreign),
    ("long dashes", make_replacer(_DASHES), _contains("—")),
    ("escaped slashes", make_replacer({"/": "\\/"}), _contains("\\/")),
    ("doubled backslashes", make_replacer({"\\": "\\\\"}), _contains("\\\\")),
    ("doubled braces", make_replacer({"{": "{{", "}": "}}"}, together=True), _contains("{{", "}}")),
    ("doubled percent signs", make_replacer({"%": "%%"}), _contains("%%")),
    ("doubled quotes", make_replacer({"'": "''"}), _contains("''")),
    ("quotes of a shell", make_replacer({"'": "'\\''"}), _contains("'\\''")),
    ("escapes of a shell", make_replacer({"$": "\\$", "`": "\\`", '"': '\\"'}), _contains("\\$", "\\`")),
    ("escapes of Markdown", unescape_markdown, _ESCAPED),
    ("escapes, twice", unescape_twice, _ESCAPED),
    ("escapes", make_unescape("ntr\"'`\\"), _ESCAPED),
    ("escaped line breaks", make_unescape("n"), _ESCAPED),
    ("escaped tabs", make_unescape("t"), _ESCAPED),
    ("escaped quotes", make_unescape("\"'`"), _ESCAPED),
    ("escaped line breaks and tabs", make_unescape("nt"), _ESCAPED),
)
"""Each habit, the step that undoes it, and whether a text may have it at all: that is known at little cost."""
