"""Undo the frames that models put around or into a patch, so that the parser sees the patch itself.

A fence, a here-document, a text written as JSON, padded markers, a missing first line; below `*** Update File:` the
header of a git diff and SEARCH/REPLACE blocks. The lines of the hunks are never touched. A frame that has no end raises
`BadPatch`: the patch is cut off.
"""

from __future__ import annotations

import json
import re

from handrail.errors import BadPatch
from handrail.frozen import frozen
from handrail.text.lines import count_equal_edges
from handrail.text.patches.operations import CUT_OFF

_BEGIN = re.compile(r"\*{3}\s*begin\s+patch(?:\s*\*+)?", re.IGNORECASE)
_END = re.compile(r"\*{3}\s*end\s+patch(?:\s*\*+)?", re.IGNORECASE)
_FENCE = re.compile(r"\s*(`{3,}|~{3,})[\w+.-]*\s*")
_HEREDOC = re.compile(r"\s*(?:\$ )?(?:apply_patch|applypatch|git apply|patch -p\d|cat)?\s*<<-?\s*(['\"]?)(\w+)\1\s*")
_MARK = re.compile(r"\*{3} ?(add|delete|update) {1,3}file ?:", re.IGNORECASE)
_MARKS = {"add": "*** Add File:", "delete": "*** Delete File:", "update": "*** Update File:"}
_UPDATE = "*** Update File:"
_GIT_HEADER = re.compile(r"diff --git |index [0-9a-f]+\.\.|--- |\+\+\+ |(?:old|new) mode \d")
_IN_JSON = re.compile(r"\*{3} Begin Patch\\n|\+{3} .*?\\n@@|<{5,9} ?SEARCH\\n")
_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*")
_MIDDLE = re.compile(r"={7}\s*")
"""A line of seven: more of them, or fewer, underline a heading."""
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")


@frozen
class UnwrappedPatch:
    """A patch without its frames."""

    text: str
    framed: bool = False
    """Whether a marker shows where it ends."""


def unwrap_patch(text: str) -> UnwrappedPatch:
    """The patch without its frames; the text itself where there are none. Raises `BadPatch` if a frame is not whole."""
    text, framed = _decode_json(text)
    rows = [row.removesuffix("\r") for row in text.split("\n")]
    start, end = _trim(rows)
    body = rows[start:end]
    for _ in range(2):  # a fence around a here-document, or the other way round
        inner = _remove_wrapper(body)
        framed = framed or inner is not body
        body = inner
    if not body:
        return UnwrappedPatch(text)
    if _MARK.match(body[0]) and _END.fullmatch(body[-1].strip()):
        body = ["*** Begin Patch", *body]  # which is missing
    if _BEGIN.fullmatch(body[0].strip()):
        body, framed = _repair_envelope(body), True
    else:
        _refuse_open_frame(body)
        if body[0].startswith("+++ ") and len(body) > 1 and body[1].startswith("@@"):
            old = re.sub(r"^b/", "a/", body[0][4:])
            body = [f"--- {old}", *body]
    if body == rows[start:end] and start == 0:
        return UnwrappedPatch(text, framed)
    last_break = "\n" if framed or end < len(rows) else ""
    return UnwrappedPatch("\n".join([*[""] * start, *body]) + last_break, framed)


def _decode_json(text: str) -> tuple[str, bool]:
    """The text of a JSON string, with or without its quotes, if it holds a whole patch in one line; and whether it has
    both quotes."""
    sent = text.strip()
    if "\n" in sent or not _IN_JSON.search(sent):
        return text, False
    has_quotes = sent.startswith('"')
    try:
        decoded = json.loads(sent if has_quotes else f'"{sent}"')
    except ValueError:
        return text, False
    return (decoded, has_quotes) if isinstance(decoded, str) else (text, False)


def _trim(rows: list[str]) -> tuple[int, int]:
    filled = [number for number, row in enumerate(rows) if row.strip()]
    return (filled[0], filled[-1] + 1) if filled else (0, 0)


def _remove_wrapper(rows: list[str]) -> list[str]:
    """The rows inside a fence or a here-document that goes around all of them."""
    if len(rows) < 3:
        return rows
    fence, heredoc = _FENCE.fullmatch(rows[0]), _HEREDOC.fullmatch(rows[0])
    closed = (fence and rows[-1].strip() == fence[1]) or (heredoc and rows[-1].strip() == heredoc[2])
    if not closed:
        return rows
    start, end = _trim(rows[1:-1])
    return rows[1:-1][start:end]


def _refuse_open_frame(rows: list[str]) -> None:
    """Raise `BadPatch` if a fence or a here-document begins above a diff: it does not end, or it was removed before."""
    for number, row in enumerate(rows, start=1):
        if row.startswith(("--- ", "diff --git ", "@@")):
            return
        if _FENCE.fullmatch(row) or _HEREDOC.fullmatch(row):
            raise BadPatch(line=number, why=f"{CUT_OFF}{row.strip()[:40]!r} has no end")


def _repair_envelope(rows: list[str]) -> list[str]:
    """Plain markers, and sections without headers of git."""
    rows = [_repair_mark(row) for row in _remove_padding(rows)]
    body = rows[1:-1]
    if not _END.fullmatch(rows[-1].strip()) or any(_END.fullmatch(row.strip()) for row in body):
        return ["*** Begin Patch", *rows[1:]]
    first = next((row for row in body if row.strip()), "")
    if first.startswith(("diff --git ", "--- ")):
        return body
    repaired, number = list[str](), 0
    while number < len(body):
        repaired.append(body[number])
        number += 1
        if repaired[-1].startswith(_UPDATE):
            number = _skip_git_header(body, number)
    return ["*** Begin Patch", *_convert_blocks(repaired), "*** End Patch"]


def _remove_padding(rows: list[str]) -> list[str]:
    """The rows without the blanks in front of the first marker: in front of all rows, or of the markers alone.

    Where the first section has such blanks, each marker has them: without, a row of a hunk may look like one.
    """
    section = next((row for row in rows[1:] if row.strip()), "")
    padding = max((row[: len(row) - len(row.lstrip())] for row in (rows[0], section)), key=len)
    if not padding or not _MARK.match(section.lstrip()):
        return rows
    everywhere = all(row.startswith(padding) for row in rows if row.strip())
    return [row[len(padding) :] if everywhere or row.startswith(padding + "***") else row for row in rows]


def _repair_mark(row: str) -> str:
    """The marker of a section as the grammar has it; any other row as it is."""
    mark = _MARK.match(row)
    if not mark:
        return row
    path = row[mark.end() :].strip()
    return f"{_MARKS[mark[1].lower()]} {path.removesuffix(' ***').rstrip()}"


def _skip_git_header(rows: list[str], start: int) -> int:
    """The number of the first row after a header of git, if there is one and a hunk follows."""
    number = start
    while number < len(rows) and _GIT_HEADER.match(rows[number]):
        number += 1
    return number if number < len(rows) and rows[number].startswith("@@") else start


def _convert_blocks(rows: list[str]) -> list[str]:
    """The same rows, with each complete SEARCH/REPLACE block as a hunk."""
    converted, number = list[str](), 0
    for start, row in enumerate(rows):
        if start < number or not _SEARCH.fullmatch(row):
            continue
        end = next((at for at in range(start + 1, len(rows)) if _REPLACE.fullmatch(rows[at])), None)
        if end is None:
            break  # and no later block has an end either
        middle = _find_divider(rows, start, end)
        converted += [*rows[number:start], "@@", *_sign_rows(rows[start + 1 : middle], rows[middle + 1 : end])]
        number = end + 1
    return converted + rows[number:]


def _find_divider(rows: list[str], start: int, end: int) -> int:
    """The line between the two texts of a block; raises `BadPatch` unless exactly one line can be it."""
    dividers = [at for at in range(start + 1, end) if _MIDDLE.fullmatch(rows[at])]
    if len(dividers) == 1 and not any(map(_SEARCH.fullmatch, rows[start + 1 : end])):
        return dividers[0]
    why = f"a block has one line of exactly seven '=' between its two texts, and this block has {len(dividers)} of them"
    raise BadPatch(line=start + 1, why=why)


def _sign_rows(old: list[str], new: list[str]) -> list[str]:
    """The rows of a hunk: what both texts begin and end with is context."""
    head, tail = count_equal_edges(old, new)
    removed, added = old[head : len(old) - tail], new[head : len(new) - tail]
    context = [f" {row}" for row in old]
    return [
        *context[:head],
        *(f"-{row}" for row in removed),
        *(f"+{row}" for row in added),
        *context[len(old) - tail :],
    ]
