"""Characters that a model spells in another way: entities, code points, escapes, URLs, doubled and joined marks.

Each function undoes one such habit in both texts. A habit is undone only if the text has it throughout.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import unquote

from handrail.text.matching.budget import spend
from handrail.text.matching.fold import LINE_SEPARATORS, fold, squeeze
from handrail.text.matching.habits import Repair, Spoil, Undo, choose_new, undo_throughout

_ESCAPED_BACKSLASH = re.compile(r"\\\\[ntr]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "", '"': '"', "'": "'", "`": "`", "\\": "\\"}
_FAST = 20
"""Characters that cost one step to count."""
_HALF_DONE = re.compile(r"^\s*\\[nt]|\\r$", re.MULTILINE)
"""A line of code hardly ever begins with an escaped line break or tab, or ends with an escaped carriage return."""
_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});")
_BLANK_ENTITIES = re.compile(r"^(?:\s|&(?:nbsp|Tab|#0*(?:9|32|160)|#[xX]0*(?:9|20|[aA]0));)+", re.MULTILINE)
_ESCAPED_ENTITY = re.compile(r"&amp;((?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});\w\w+)")
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
_MARKUP = frozenset("<>&\"'")
_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_JSON_ESCAPE = re.compile(r"\\([ntr\"'`\\])")
_TWICE = re.compile(r"\\\\[ntr]|\\\\\\\"")
"""A line break, a tab or a quote that was escaped twice."""
_CODE_POINT = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\u\{[0-9a-fA-F]{1,6}\}"
    r"|\\U[0-9a-fA-F]{8}|\\x[0-9a-fA-F]{2}"
)
_HEX = re.compile(r"[0-9a-fA-F]{2,}|[0-9a-fA-F]")
_MARKDOWN = re.compile(r"\\([_*\[\]#~|.!+(){}<>-])")


def _make_undo_spelled(pattern: re.Pattern[str], decode: Undo) -> Undo:
    return lambda text: pattern.sub(lambda match: decode(match[0]), text)


def _make_spell(pattern: re.Pattern[str], decode: Undo, more: Mapping[str, str]) -> Callable[[str], Spoil]:
    """Spell each character as a text does; ``more`` are spelled so as well if one of them is."""

    def make_spoil(sent: str) -> Spoil:
        spelled = {decode(match[0]): match[0] for match in pattern.finditer(sent)}
        if not more.keys().isdisjoint(spelled):
            spelled = {**more, **spelled}
        either = re.compile("|".join(map(re.escape, sorted(spelled, key=len, reverse=True))) or r"(?!)")
        return lambda bare: either.sub(lambda match: spelled[match[0]], bare)

    return make_spoil


def decode_entities(old: str, new: str) -> list[Repair]:
    spelled = [{*map(html.unescape, _ENTITY.findall(text))} for text in (old, new)]
    if (_MARKUP.isdisjoint(spelled[0]) and not _MARKUP.isdisjoint(spelled[1])) or spelled[1] - spelled[0] - _MARKUP:
        return []  # these may be the file's own
    undo = _make_undo_spelled(_ENTITY, html.unescape)
    own = {squeeze(row) for bare in (undo(old), undo(undo(old))) for row in bare.split("\n")}
    own = {row for row in own if _ENTITY.search(row)}
    words = {match[1] for match in _ESCAPED_ENTITY.finditer(old)}
    if any(f"&{word}" in new and f"&amp;{word}" not in new for word in words):
        return []
    if not own.isdisjoint(map(squeeze, _BLANK_ENTITIES.sub("", new).split("\n"))):
        return []  # a line that both texts have is as the file has it: only blanks are spelled in the new text
    repairs = _undo_habit(old, new, undo, _make_spell(_ENTITY, html.unescape, _NAMED))
    return [one for one in repairs if one.new != new or not _keeps_entity(old, one)]


def _keeps_entity(old: str, repair: Repair) -> bool:
    """Whether the new text would bring an entity into the file that the old text has, and the file does not."""
    return any(entity in repair.new and entity not in repair.old for entity in {*_ENTITY.findall(old)})


def decode_code_points(old: str, new: str) -> list[Repair]:
    """Characters written as `\\uXXXX`."""

    def decode(spelled: str) -> str:
        codes = [int(code, 16) for code in _HEX.findall(spelled)]
        if max(codes) >= 0x110000:
            return spelled
        return "".join(map(chr, codes)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    return _undo_habit(old, new, _make_undo_spelled(_CODE_POINT, decode), _make_spell(_CODE_POINT, decode, {}))


def decode_percent(old: str, new: str) -> list[Repair]:
    """Characters written as in a URL."""

    def make_spoil(sent: str) -> Spoil:
        spelled = {char: code for match in _PERCENT.finditer(sent) for char, code in _pair_bytes(match[0])}
        return lambda bare: bare.translate({ord(char): code for char, code in spelled.items()})

    if "%0D" in (old + new).upper():
        return []
    return undo_throughout(old, new, lambda text: _PERCENT.sub(lambda match: unquote(match[0]), text), make_spoil)


def _pair_bytes(run: str) -> list[tuple[str, str]]:
    """The characters of a run of `%XX`, each with its own part of the run."""
    pairs, at = list[tuple[str, str]](), 0
    for char in unquote(run):
        length = 3 * len(char.encode("utf-8", "surrogatepass"))
        pairs.append((char, run[at : at + length]))
        at += length
    return pairs


def unescape_markdown(old: str, new: str) -> list[Repair]:
    """Marks with the backslash that Markdown needs before them."""

    def make_spoil(sent: str) -> Spoil:
        marks = {*_MARKDOWN.findall(sent)}
        return lambda bare: "".join("\\" + char if char in marks else char for char in bare)

    return undo_throughout(old, new, lambda text: _MARKDOWN.sub(r"\1", text), make_spoil)


def find_spelled(text: str) -> set[str]:
    """The characters of a text that are written as entities or code points, as they are written."""
    spelled = set(_ENTITY.findall(text)) if "&" in text else set[str]()
    return spelled.union(_CODE_POINT.findall(text)) if "\\" in text else spelled


def make_replacer(written: Mapping[str, str], together: bool = False) -> Callable[[str, str], list[Repair]]:
    """Undo a habit that writes the values of ``written`` for its keys, wherever they are; ``together``: for all of them
    if for one."""
    undo = re.compile("|".join(map(re.escape, sorted(written.values(), key=len, reverse=True))))
    again = re.compile("|".join(map(re.escape, sorted(written, key=len, reverse=True))))
    plain = {sent: key for key, sent in written.items()}

    def step(old: str, new: str) -> list[Repair]:
        used = {*written.values()} if together else {*undo.findall(old)}

        def spoil(bare: str) -> str:
            return again.sub(lambda match: written[match[0]] if written[match[0]] in used else match[0], bare)

        return undo_throughout(old, new, lambda text: undo.sub(lambda match: plain[match[0]], text), lambda _: spoil)

    return step


def end_lines(old: str, new: str) -> list[Repair]:
    """Line separators of Unicode in the place of line ends."""
    sign = next((char for char in LINE_SEPARATORS if char in old), "")
    if not sign or "\n" in old:
        return []
    return undo_throughout(
        old, new, lambda text: text.replace(sign, "\n"), lambda _: lambda bare: bare.replace("\n", sign)
    )


def unescape_twice(old: str, new: str) -> list[Repair]:
    """A text that was written as JSON twice."""

    def undo(text: str) -> str:
        for _ in range(2):
            text = _JSON_ESCAPE.sub(lambda match: _ESCAPES[match[1]], text)
        return text

    def make_spoil(sent: str) -> Spoil:
        close = "\n" if sent.endswith("\n") else ""
        feed = "\\\\r\\\\n" if "\\\\r\\\\n" in sent else "\\\\n"
        return lambda bare: _write_as_json(_write_as_json(bare.removesuffix(close))).replace("\\\\n", feed) + close

    return undo_throughout(old, new, undo, make_spoil) if _TWICE.search(old) else []


def _write_as_json(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def make_normalize(form: Literal["NFC", "NFD"]) -> Callable[[str, str], list[Repair]]:
    """Letters and their marks in one form, or in both of them."""

    def make_spoil(sent: str) -> Spoil:
        plain = unicodedata.normalize("NFD", sent)
        return lambda bare: sent if unicodedata.normalize("NFD", bare) == plain else bare

    return lambda old, new: undo_throughout(old, new, lambda text: unicodedata.normalize(form, text), make_spoil)


def make_unescape(marks: str) -> Callable[[str, str], list[Repair]]:
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

    def make_spoil(sent: str) -> Spoil:
        used = {*pattern.findall(sent)} | ({*'\\nt"'} if whole else set[str]())
        written = {ord(char): "\\" + mark for mark, char in _ESCAPES.items() if mark in used - {"r"}}
        close = "\n" if sent.endswith("\n") else ""
        feed = "\\r\\n" if "r" in used else "\\n"
        return lambda bare: bare.removesuffix(close).translate(written).replace("\\n", feed) + close

    def step(old: str, new: str) -> list[Repair]:
        if marks in ("n", "t", "nt") and any('\\"' in text and not _count_quotes(text) for text in (old, new)):
            return []  # then quotes are escaped too
        if not whole and _ESCAPED_BACKSLASH.search(new) and not _ESCAPED_BACKSLASH.search(old):
            return []  # then backslashes are escaped too
        if "t" in marks and not whole and "\\t" in undo(new):
            bare = undo(old)
            if "\\t" not in bare and any("\t" in row.strip() for row in bare.split("\n")):
                return []  # tabs inside of lines are escaped as well: is the one in a string the code's own?
        return _undo_habit(old, new, undo, make_spoil)

    return step


def _undo_habit(old: str, new: str, undo: Undo, make_spoil: Callable[[str], Spoil]) -> list[Repair]:
    """The texts without a habit that, where a text has it, it has throughout."""
    bare, undone = undo(old), undo(new)
    if bare == old:
        return []
    spoil = make_spoil(old)
    meant = choose_new(old, bare, new, undone)
    if meant == [new] and (_HALF_DONE.search(new) or (old.endswith("\\n") and new.endswith("\\n"))):
        return []
    if make_spoil(new)(undone) != new:
        return [Repair(bare, new, spoil)] if meant == [new] else []
    left = "\\\\" in undone and "\\\\" not in bare
    if left or ("\n" in bare and "\n" not in undone and "\\n" in undone):
        return []  # the new text was escaped in another way
    if meant == [undone] and "\\\\" not in old and _has_torn_string(undone) and not _has_torn_string(bare):
        return []  # this was an escape in a string of the code's own
    if len(meant) > 1 and undo(bare) == bare:
        meant = [undone]  # nothing of this kind is the file's own
    return [Repair(bare, one, spoil) for one in meant]


def _has_torn_string(text: str) -> bool:
    """Whether a string begins in one line and ends in another."""
    return any(_count_quotes(row.replace('"""', "")) % 2 for row in text.split("\n"))


def _count_quotes(text: str) -> int:
    text = fold(text)
    return text.count('"') - text.count('\\"')
