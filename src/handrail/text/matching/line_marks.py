"""Marks that models copy into the lines of an edit: line numbers, signs of a diff or a quotation, colours, signs for
blanks and line ends, and tags or quotes around the whole text. Each function removes one kind from both texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import gcd

from handrail.text.matching.fold import ODD_BLANKS
from handrail.text.matching.habits import Repair, Spoil, choose_new, prefix_rows, undo_throughout, wrap
from handrail.text.matching.indentation import indent_of
from handrail.text.matching.omission import is_omission

# The gutters of our own dialects and of others: `12<tab>`, `12→`, `12 | `, `12: `. Where the blank behind a mark may be
# the gutter's or the line's, both are tried.
_BEHIND = (
    *(r"\t", "→", r" \| ", r"\| ", r"\|", " │ ", "│ ", "│", "┃ ", "┃", "║ ", "║", "⎸ ", "⎸", r":\t", ": ", ":"),
    *(r"\. ", r"\) ", "- ", "-", "> ", ">", "; ", ", ", "  ", " "),
)
_DIGITS = r"(\d{1,9})"
_GUTTERS = [re.compile(rf"^ *[Ll]?{_DIGITS}(?:{mark}|{mark.strip(' ')}$)") for mark in _BEHIND]
# grep marks the lines that match with a colon and those around them with a dash.
_GUTTERS += [re.compile(rf"^ *{_DIGITS}[:-]"), re.compile(rf"^[\w./\\][\w./\\-]*[:-]{_DIGITS}[:-]")]
_AROUND = (rf"\[{_DIGITS}\]", rf"\({_DIGITS}\)", rf"<{_DIGITS}>", rf"[Ll]ine {_DIGITS}:")
_GUTTERS += [re.compile(rf"^{mark}(?: |$)") for mark in _AROUND]
_NUMBER = re.compile(rf"\s*[Ll#(\[<]?{_DIGITS}(?:\W|$)")
_SPELLED_BLANK = re.compile(rf"[{ODD_BLANKS}]|&(?:nbsp|#)|\\[xu]|%[02]")
_PADDED_NUMBER = re.compile(r" +\d")
_LEAD = re.compile(r"^(?:[ \t·•␣␠∙→⇥»␉]|<TAB>|<tab>|\\t|\^I)+", re.MULTILINE)
_TAB_SIGN = re.compile(r"→ *|⇥|»|␉|<TAB>|<tab>|\\t|\^I")
_BLANK_SIGN = re.compile("[·•␣␠∙]")
_END_SIGN = re.compile(r"(?:\^M|\\r|[␍$↵¶⏎␊])$", re.MULTILINE)
_DOTS = re.compile(r"\s*(?:#|//|/\*|<!--|--|;|%|\.\.\.|…)")
_SPELLED = re.compile(r"%[0-9a-fA-F]{2}|&#?\w+;|\\")
_BREAK_FIRST = re.compile(r"^\\n", re.MULTILINE)
_COLOUR = re.compile("\x1b\\[[0-9;]*[mK]")
_QUOTATION = re.compile(r"> ?|\| ?|\+ ?")
_SIDE = (
    r"(?:old|new|search|replace|replacement|find|original|updated|before|after|parameter|snippet|file|document|content)"
    r"(?:_str|_string|_text|_code|_content)?"
)
"""Names of tags that are no part of a page: an element of HTML around a text may be what the edit changes."""
_BEFORE = re.compile("old|search|find|original|before")
_AFTER = re.compile("new|replace|updated|after")
_ATTRIBUTES = r"""(?:\s+[\w:.-]+=(?:"[^"<>\\]*"|'[^'<>\\]*'|[^\s"'<>\\]+))*\s*"""
_TAG = re.compile(rf"^\s*<({_SIDE}|code){_ATTRIBUTES}>[ \t]*\n(.*?)\n[ \t]*</\1>\s*$", re.DOTALL)
_INLINE_TAG = re.compile(rf"^\s*<({_SIDE}){_ATTRIBUTES}>(.*?)</\1>\s*$", re.DOTALL)
_CDATA = re.compile(r"^\s*<!\[CDATA\[\n()(.*?)\n\]\]>\s*$", re.DOTALL)
_INLINE_CDATA = re.compile(r"^\s*<!\[CDATA\[()(.*?)\]\]>\s*$", re.DOTALL)
_SEARCH = re.compile(r"^<{5,} *(\w*)[^\n]*\n(.*?)\n={7}\s*$", re.DOTALL)
_REPLACE = re.compile(r"^(?:={7}[ \t]*\n)?()(.*?)\n>{5,}[^\n]*\s*$", re.DOTALL)
_INLINE = (_INLINE_TAG, _INLINE_CDATA)
"""Without line breaks of their own."""
_WRAPPERS = ((_TAG, _TAG), (_CDATA, _CDATA), (_SEARCH, _REPLACE), *((one, one) for one in _INLINE))
_QUOTES = ('"""', "'''", "``", "`", '"', "'", "**")


def remove_gutter(old: str, new: str) -> list[Repair]:
    rows, others = old.split("\n"), new.split("\n")
    repairs = []
    filled = count_filled(old)
    last = next((row for row in reversed(rows) if row.strip()), "")
    for gutter in _GUTTERS:
        if not gutter.match(last):
            continue
        matches = [match for row in rows if (match := gutter.match(row))]
        numbers = [int(match[1]) for match in matches]
        # A text that is copied from its first letter on lacks the first number.
        first_bare = filled > 2 and len(numbers) == filled - 1 and not gutter.match(rows[0])
        if (
            not numbers
            or (len(numbers) < filled and not first_bare)
            or any(after - before != 1 for before, after in pairwise(numbers))
            or not _are_aligned(matches)
        ):
            continue
        bare, undone = ("\n".join(gutter.sub("", row) for row in text) for text in (rows, others))
        other_numbers = [int(match[1]) for row in others if (match := gutter.match(row))]
        if any(gutter.match(row) for row in bare.split("\n")) and not all(map(gutter.match, undone.split("\n"))):
            continue  # the file's own lines are numbered: which numbers are whose?
        # What the model added itself may have no number, and what it kept may have lost it.
        meant = choose_new(old, bare, new, undone) or [undone]
        if any(gutter.match(row) for row in {*rows} & {*others}):
            meant = [undone]  # a line kept with its number
        elif (
            other_numbers == [*range(numbers[0], numbers[0] + len(other_numbers))]
            and len(other_numbers) == count_filled(new)
            and len(meant) > 1
        ):
            meant = [undone]  # numbered from the same line on
        elif new in meant and not {*other_numbers}.isdisjoint(numbers):
            continue  # its own numbers would stay in the file
        elif meant == [undone] and other_numbers != sorted(other_numbers):
            continue
        prefixes = [match[0] if (match := gutter.match(row)) else "" for row in rows]
        spoil = prefix_rows(prefixes)
        if undone == new and _may_be_shifted(matches, bare, new):
            continue
        if _SPELLED_BLANK.match(bare) and any(row.strip() and not gutter.match(row) for row in others):
            continue  # a blank that is spelled may be the number's, and the line without a number tells nothing
        if undone == new and filled == 1 and bare[:1].isspace() and new[:1].strip():
            continue  # the new text may have been written from its first letter on
        if _is_cut_alike(matches, bare, new):
            meant = [one for one in meant if one != new]
        repairs += [Repair(bare, one, spoil) for one in meant if not _keeps_number(one, bare, numbers)]
    return repairs


def _keeps_number(text: str, bare: str, numbers: Sequence[int]) -> bool:
    """Whether a new line would come into the file with one of these numbers in front of it."""
    known = {*bare.split("\n")}
    return any(
        int(match[1]) in numbers for row in text.split("\n") if row not in known and (match := _NUMBER.match(row))
    )


def _may_be_shifted(matches: Sequence[re.Match[str]], bare: str, new: str) -> bool:
    """Whether the blanks before the numbers may be a shift that the new text, which has no numbers, has as well: all
    lines that it keeps are deeper, or no line of it is as deep as an old one, and by no more than these blanks."""
    lead = min(match.start(1) for match in matches)
    rows, others = ([row for row in text.split("\n") if row.strip()] for text in (bare, new))
    depths = {row.strip(): len(indent_of(row)) for row in rows}
    moves = {len(indent_of(row)) - depths[row.strip()] for row in others if row.strip() in depths}
    old, fresh = {*depths.values()}, {len(indent_of(row)) for row in others}
    if len(moves) == 1 and 0 < moves.pop() <= lead and min(fresh) > min(old):
        return True
    return old.isdisjoint(fresh) and any(0 < min(fresh) - depth <= lead for depth in old if fresh)


def _is_cut_alike(matches: Sequence[re.Match[str]], bare: str, new: str) -> bool:
    """Whether the first number lost the blanks before it, and the new text those of its first line."""
    is_cut = matches[0].start(1) == 0 < matches[-1].start(1)
    return is_cut and bare[:1].isspace() and not new[:1].isspace()


def _are_aligned(matches: Sequence[re.Match[str]]) -> bool:
    """Whether all numbers begin or end in one column; the first one may have lost the blanks before it."""
    spans = [match.span(1) for match in matches]
    others = spans[1:] or spans
    is_lost = spans[0][0] == 0 < others[0][0]
    checked = others if is_lost else spans
    return len({start for start, _ in checked}) == 1 or len({end for _, end in checked}) == 1


def remove_line_numbers(rows: Sequence[tuple[str, str]]) -> list[tuple[int, tuple[tuple[str, str], ...]]]:
    """The signed lines of a hunk without the line numbers of a listing, and the number of the first old line.

    The old lines are numbered one after the other; new lines have a number each, or none has.
    """
    old = [text for sign, text in rows if sign != "+" and text.strip()]
    new = [text for sign, text in rows if sign == "+" and text.strip()]
    variants = []
    for gutter in _GUTTERS:
        numbers = [int(match[1]) for text in old if (match := gutter.match(text))]
        added = sum(bool(gutter.match(text)) for text in new)
        if len(old) < 2 or len(numbers) < len(old) or added not in (0, len(new)):
            continue
        if any(after - before != 1 for before, after in pairwise(numbers)):
            continue
        if added and not _are_aligned([match for text in (*old, *new) if (match := gutter.match(text))]):
            continue  # some of these numbers may be the file's
        bare = tuple((sign, gutter.sub("", text)) for sign, text in rows)
        if not added and all(map(_PADDED_NUMBER.match, old)) and _may_have_gap(bare):
            continue
        still = [{bool(gutter.match(text)) for sign, text in bare if text.strip() and (sign == "+") is is_new}
                 for is_new in (False, True)]  # fmt: skip
        if added and True in still[0] and False in still[1]:
            continue  # the file's own lines are numbered: which numbers are whose?
        above = next(at for at, (_, text) in enumerate(one for one in rows if one[0] != "+") if text.strip())
        variants.append((numbers[0] - above, bare))
    return variants


def _may_have_gap(rows: Sequence[tuple[str, str]]) -> bool:
    """Whether the blank before a new line may belong to its sign: without it the line would be as deep as others."""
    old = {indent_of(text) for sign, text in rows if text.strip() and sign != "+"}
    new = {indent_of(text) for sign, text in rows if text.strip() and sign == "+"}
    step = gcd(*map(len, old)) or 2

    def may_be_sign(depth: str) -> bool:
        is_odd = len(depth) % 2 == 1 and not any(len(known) % 2 for known in old)
        is_off_grid = (len(depth) % step == 1 < step or is_odd) and depth not in old
        return depth[:1] == " " and (depth[1:] in old or depth[1:2] == "\t" or is_off_grid)

    return any(map(may_be_sign, new)) and (old.isdisjoint(new) or all(map(may_be_sign, new)))


def count_filled(text: str) -> int:
    return sum(bool(row.strip()) for row in text.split("\n"))


def remove_diff_signs(old: str, new: str) -> list[Repair]:
    """The lines of a diff: `-` and context in the old text, `+` and context in the new one, at times below a header."""
    heads = [text[: text.find("\n") + 1] if text.startswith("@@") else "" for text in (old, new)]
    sides = ((old[len(heads[0]) :], "-"), (new[len(heads[1]) :], "+"))
    context = [[row for row in text.split("\n") if row[:1] == " " and row.strip()] for text, _ in sides]
    if not all(_has_signs(text, sign) for text, sign in sides) or context[0] != context[1]:
        return []
    leads = [
        len(row[1:]) - len(row[1:].lstrip(" ")) for text, _ in sides for row in text.split("\n") if row[1:].strip()
    ]
    least = min(leads, default=0)
    widths = [2 if least == 1 else 1]  # with a blank behind each sign
    if least > 1 and all(_PADDED_NUMBER.match(row[1:]) for row in sides[0][0].split("\n")):
        widths = [1, 2]  # that blank may be the sign's, or a line number's
    return [_cut_signs(sides, heads[0], width) for width in widths]


def _cut_signs(sides: Sequence[tuple[str, str]], head: str, width: int) -> Repair:
    bare, undone = ("\n".join(row[width:] for row in text.split("\n")) for text, _ in sides)
    signs = prefix_rows([row[:width] for row in sides[0][0].split("\n")])
    return Repair(bare, undone, lambda bare: head + signs(bare))


def _has_signs(text: str, sign: str) -> bool:
    rows = text.split("\n")
    return all(row[:1] in ("", " ", sign) for row in rows) and any(row[:1] == sign for row in rows)


def remove_quotation(old: str, new: str) -> list[Repair]:
    """One sign before every line of both texts, such as Markdown's for a quotation."""
    match = _QUOTATION.match(old)
    sign = match[0] if match else ""
    rows, others = (text.removesuffix("\n").split("\n") for text in (old, new))
    if not sign or len(rows) < 2 or not all(row.startswith(sign) or row == sign.rstrip() for row in (*rows, *others)):
        return []

    def undo(text: str) -> str:
        return "\n".join(row[len(sign) :] for row in text.split("\n"))

    return [Repair(undo(old), undo(new), prefix_rows([row[: len(sign)] for row in old.split("\n")]))]


def remove_colours(old: str, new: str) -> list[Repair]:
    """The sequences that colour a text in a terminal."""

    def make_spoil(sent: str) -> Spoil:
        return lambda bare: sent if _COLOUR.sub("", sent) == bare else bare

    return undo_throughout(old, new, lambda text: _COLOUR.sub("", text), make_spoil)


def show_blanks(old: str, new: str) -> list[Repair]:
    """Signs that stand for the blanks of an indentation."""

    def undo(text: str) -> str:
        return _LEAD.sub(lambda match: _BLANK_SIGN.sub(" ", _TAB_SIGN.sub("\t", match[0])), text)

    def make_spoil(sent: str) -> Spoil:
        leads = "".join(_LEAD.findall(sent))
        tab, blank = _TAB_SIGN.search(leads), _BLANK_SIGN.search(leads)
        signs = {"\t": tab[0] if tab else "\t", " ": blank[0] if blank else " "}
        return lambda bare: _LEAD.sub(lambda match: "".join(signs.get(char, char) for char in match[0]), bare)

    return undo_throughout(old, new, undo, make_spoil)


def remove_end_signs(old: str, new: str) -> list[Repair]:
    """Signs that stand for the line ends of a file, or for their carriage returns."""

    def make_spoil(sent: str) -> Spoil:
        match = _END_SIGN.search(sent)
        sign = match[0] if match else ""
        close = "\n" if sign and sent.endswith(sign) else ""  # the end of the last line, shown by its sign alone
        return lambda bare: bare.replace("\n", sign + "\n").removesuffix(close)

    def undo(text: str) -> str:
        bare = _END_SIGN.sub("", text)
        return bare + "\n" if _END_SIGN.search(text.rpartition("\n")[2]) else bare

    bare, undone = undo(old), undo(new)
    if bare == old or (undone != new and make_spoil(new)(undone) != new):
        return []
    if any({*_END_SIGN.findall(text)} & {*_END_SIGN.findall(other)} for text, other in ((bare, old), (undone, new))):
        return []  # twice in a line: one of them stands for a blank line
    if _shows_blanks(undone) and not _shows_blanks(bare):
        return []  # what shows line ends shows tabs and blanks as well
    return [Repair(bare, undone, make_spoil(old))]


def _shows_blanks(text: str) -> bool:
    """Whether signs stand for the tabs or blanks that begin a line."""
    return any(lead.strip(" \t") for lead in _LEAD.findall(text))


def remove_wrapper(old: str, new: str) -> list[Repair]:
    """Tags and marks around both texts."""
    repairs = []
    for before, after in _WRAPPERS:
        match, other = before.match(old), after.match(new)
        if match and other and _AFTER.match(match[1]) and _BEFORE.match(other[1]):
            continue  # the two texts are exchanged
        if match and other and other[2] and (match[2][-1:] == "\n") == (other[2][-1] == "\n"):
            if before in _INLINE and indent_of(old.lstrip("\n")) and "\n" in other[2]:
                continue  # a shift of all lines, of which the tag hides that of the first
            end = "" if before in _INLINE else "\n"
            spoil = wrap(old[: match.start(2)], old[match.end(2) + len(end) :])
            repairs.append(Repair(match[2] + end, other[2] + end, spoil))
    return repairs


def remove_quotes(old: str, new: str) -> list[Repair]:
    """The same quotes around both texts, which have no other of that kind; or a line break written out at their end."""
    for mark in _QUOTES:
        bare, undone = (text[len(mark) : -len(mark)] for text in (old, new))
        if mark[0] not in bare + undone and (old, new) == (f"{mark}{bare}{mark}", f"{mark}{undone}{mark}"):
            if mark[0] in "\"'" and "\\" in undone and "\\" not in bare:
                return []  # a string, in which a backslash begins an escape
            if any("\n" in (text[:1], text[-1:]) for text in (bare, undone)):
                edges = [(text[:2].count("\n"), text[-2:].count("\n")) for text in (bare, undone)]
                if edges[0] != edges[1] or edges[0] != (1, 1):
                    return []  # whose are the blank lines?
                return [Repair(bare[1:-1], undone[1:-1], wrap(f"{mark}\n", f"\n{mark}"))]
            return [Repair(bare, undone, wrap(mark, mark))]
    is_ended = old.endswith("\\n") and new.endswith("\\n") and old.count("\\") == 1
    if is_ended and '\\"' not in new and not _BREAK_FIRST.search(new):
        return [Repair(old[:-2], new[:-2], wrap("", "\\n"))]
    return []


def _is_dots(row: str) -> bool:
    return is_omission(row) and bool(_DOTS.match(row))


def remove_outer_dots(old: str, new: str) -> list[Repair]:
    """The same omissions above or below all lines of both texts."""
    rows, others = (text.removesuffix("\n").split("\n") for text in (old, new))
    head = int(_is_dots(rows[0]) and rows[0] == others[0])
    tail = int(_is_dots(rows[-1]) and rows[-1] == others[-1])
    if not head + tail or min(len(rows), len(others)) <= head + tail:
        return []
    if any(_SPELLED.search(row) for row in (*rows[:head], *rows[len(rows) - tail :])):
        return []  # so the other lines are spelled in that way too
    edges = [(not text[head].strip(), not text[len(text) - tail - 1].strip()) for text in (rows, others)]
    if edges[0] != edges[1]:
        return []  # whose is the blank line?
    if any(_is_dots(text[head]) or _is_dots(text[len(text) - tail - 1]) for text in (rows, others)):
        return []  # which of them are the file's?
    bare, undone = ("\n".join(text[head : len(text) - tail]) + "\n" * tail for text in (rows, others))
    close = "\n" if old.endswith("\n") else ""
    if tail:
        return [Repair(bare, undone, wrap(f"{rows[0]}\n" * head, rows[-1] + close))]
    return [Repair(bare + close, undone + ("\n" if new.endswith("\n") else ""), wrap(f"{rows[0]}\n", ""))]
