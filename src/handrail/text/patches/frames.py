"""Undo the frames that models put around or into a patch, so that the parser sees the patch itself.

A fence, a here-document, a text written as JSON, padded markers, a missing first or last line, the header of a git diff
below `*** Update File:`, and SEARCH/REPLACE blocks. The lines of the hunks are never touched.
"""

from __future__ import annotations

import json
import re

from handrail.text.lines import count_equal_edges

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
_MIDDLE = re.compile(r"={5,9}\s*")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*")


def unwrap_patch(text: str) -> str:
    """The patch without its frames; the text itself where there are none."""
    text = _decode_json(text)
    rows = [row.removesuffix("\r") for row in text.split("\n")]
    start, end = _trim(rows)
    body = rows[start:end]
    for _ in range(2):  # a fence around a here-document, or the other way round
        body = _remove_wrapper(body)
    if not body:
        return text
    if _MARK.match(body[0]) and (_END.fullmatch(body[-1].strip()) or _ends_with_change(body)):
        body = ["*** Begin Patch", *body]  # which is missing
    if _BEGIN.fullmatch(body[0].strip()):
        body = _repair_envelope(body)
    elif any(map(_SEARCH.fullmatch, body)):
        body = _name_blocks(body)
    elif body[0].startswith("+++ ") and len(body) > 1 and body[1].startswith("@@"):
        old = re.sub(r"^b/", "a/", body[0][4:])
        body = [f"--- {old}", *body]
    if body == rows[start:end] and start == 0:
        return text
    return "\n".join([*[""] * start, *body]) + "\n"


def _decode_json(text: str) -> str:
    """The text of a JSON string, with or without its quotes, if it holds a whole patch in one line."""
    sent = text.strip()
    if "\n" in sent or not _IN_JSON.search(sent):
        return text
    quoted = sent if sent.startswith('"') else f'"{sent}"'
    try:
        decoded = json.loads(quoted)
    except ValueError:
        return text
    return decoded if isinstance(decoded, str) else text


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


def _repair_envelope(rows: list[str]) -> list[str]:
    """Plain markers, and sections without headers of git.

    An end that is missing is added below an update. Below a new file it stays away: the file may have been cut.
    """
    rows = [_repair_mark(row) for row in _remove_padding(rows)]
    if not _END.fullmatch(rows[-1].strip()) and _ends_with_change(rows):
        rows = [*rows, "*** End Patch"]
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
            start, number = number, _skip_git_header(body, number)
            repaired[-1] = _remove_git_prefix(repaired[-1], body[start:number])
    return ["*** Begin Patch", *_convert_blocks(repaired), "*** End Patch"]


def _remove_padding(rows: list[str]) -> list[str]:
    """The rows without the blanks in front of the first marker: in front of all rows, or of the markers alone."""
    padding = rows[0][: len(rows[0]) - len(rows[0].lstrip())]
    if not padding:
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


def _ends_with_change(rows: list[str]) -> bool:
    """Whether the last section is an update with a line that is added or removed."""
    starts = [number for number, row in enumerate(rows) if _MARK.match(row)]
    if not starts or any(_END.fullmatch(row.strip()) for row in rows) or not rows[starts[-1]].startswith(_UPDATE):
        return False
    return any(row[:1] in ("+", "-") for row in rows[starts[-1] + 1 :])


def _skip_git_header(rows: list[str], start: int) -> int:
    """The number of the first row after a header of git, if there is one and a hunk follows."""
    number = start
    while number < len(rows) and _GIT_HEADER.match(rows[number]):
        number += 1
    return number if number < len(rows) and rows[number].startswith("@@") else start


def _remove_git_prefix(mark: str, header: list[str]) -> str:
    """The marker with the name of the file alone, if the header of git below it shows that `a/` or `b/` is a prefix."""
    path = mark.removeprefix(_UPDATE).strip()
    name = path[2:] if path.startswith(("a/", "b/")) else ""
    names = [row[4:].split("\t")[0].rstrip() for row in header if row.startswith(("--- ", "+++ "))]
    shows = f"diff --git a/{name} b/{name}" in header or names == [f"a/{name}", f"b/{name}"]
    return f"{_UPDATE} {name}" if name and shows else mark


def _name_blocks(rows: list[str]) -> list[str]:
    """SEARCH/REPLACE blocks below the names of their files, as a patch; the rows themselves if a name is missing."""
    sections, path, named = list[str](), "", ""
    number = 0
    while number < len(rows):
        row = rows[number].strip()
        if _SEARCH.fullmatch(row):
            end = next((at for at in range(number, len(rows)) if _REPLACE.fullmatch(rows[at])), None)
            if not path or end is None:
                return rows
            if path != named:
                sections.append(f"{_UPDATE} {path}")
                named = path
            sections += rows[number : end + 1]
            number = end
        elif row and not _FENCE.fullmatch(row):
            path = row.removeprefix("#").strip().strip("`*: ")
            if " " in path:
                return rows  # a sentence, and no name of a file
        number += 1
    return ["*** Begin Patch", *_convert_blocks(sections), "*** End Patch"] if sections else rows


def _convert_blocks(rows: list[str]) -> list[str]:
    """The same rows, with each complete SEARCH/REPLACE block as a hunk."""
    converted, number = list[str](), 0
    for start, row in enumerate(rows):
        if start < number or not _SEARCH.fullmatch(row):
            continue
        middle = next((at for at in range(start + 1, len(rows)) if _MIDDLE.fullmatch(rows[at])), len(rows))
        end = next((at for at in range(middle, len(rows)) if _REPLACE.fullmatch(rows[at])), None)
        if end is None:
            break  # and no later block has an end either
        converted += [*rows[number:start], "@@", *_sign_rows(rows[start + 1 : middle], rows[middle + 1 : end])]
        number = end + 1
    return converted + rows[number:]


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
