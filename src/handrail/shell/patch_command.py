"""Recognise the virtual command `apply_patch`: is this command line one patch and nothing else?

A script counts as a patch only if a shell would run it as one call of `apply_patch` with one fixed text: an argument or
a here-document, alone or behind `cd DIR &&`. Anything before, after or around it, and anything that a shell would
still expand, makes it an ordinary command (None). The few shapes are matched from left to right, so no text of a patch
can decide what the command is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

NAMES = ("apply_patch", "applypatch")
SHELLS = ("bash", "sh", "zsh")
"""Programs that may stand before `-c` and a script, where a command comes as a list of words."""
_FLAGS = ("-lc", "-c")

_BLANK = r"(?:[ \t]|\\\n)"
_SPACE = r"(?:[ \t\n]|\\\n)*"
_CHANGES_DIRECTORY = re.compile(rf"cd{_BLANK}+")
_AND = re.compile(rf"{_BLANK}*&&{_SPACE}")
_CALL = re.compile(rf"(?:{'|'.join(NAMES)})(?={_BLANK}|<<)")
_HERE_DOCUMENT = re.compile(
    r"""<<(-?)[ \t]*(?:'([\w.-]+)'|"([\w.-]+)"|\\([\w.][\w.-]*)|([\w.][\w.-]*))[ \t]*\n""", re.ASCII
)
_WORD_PART = re.compile(
    r"""'([^']*)'|"([^"\\]*(?:\\.[^"\\]*)*)"|\\([^\n])|([^\s'"\\;&|<>()$`*?\[\]{}~!\#^=]+)""", re.DOTALL
)
"""A part of a word: in single quotes, in double quotes, an escaped character, or bare text that no shell expands."""
_ACTIVE = re.compile(r"[\\$`]")
_EXPANDS = re.compile(r"\$[0-9A-Za-z_{(\[@*#?\-$!'\"~=^+]|`")
"""Characters that bash, sh or zsh expands."""


class PatchCall(NamedTuple):
    """A patch, and the directory that its paths start from: empty, or as it was given to `cd`."""

    patch: str
    directory: str


class _Expanded(Exception):
    """The text is not fixed: a shell would put something else in its place."""


def as_patch(argv: Sequence[str]) -> PatchCall | None:
    """Return the patch that a command line hands to `apply_patch`; None for any other command."""
    if any("\0" in part for part in argv):  # no command line holds one
        return None
    if len(argv) == 2 and argv[0] in NAMES:
        return PatchCall(argv[1], "")
    if len(argv) == 3 and argv[0].rpartition("/")[2] in SHELLS and argv[1] in _FLAGS:
        try:
            argv[2].encode("utf-8")
            return _parse_script(argv[2])
        except (UnicodeEncodeError, _Expanded):
            return None
    return None


def _parse_script(script: str) -> PatchCall | None:
    at = _skip(script, 0, _SPACE)
    directory = ""
    if cd := _CHANGES_DIRECTORY.match(script, at):
        directory, at = _parse_word(script, cd.end())
        joint = _AND.match(script, at)
        if not directory or directory.startswith("-") or joint is None:
            return None
        at = joint.end()
    call = _CALL.match(script, at)
    if call is None:
        return None
    at = _skip(script, call.end(), f"{_BLANK}*")
    if script.startswith("<<", at):
        here = _HERE_DOCUMENT.match(script, at)
        body = None if here is None else _read_body(script, here)
        return None if body is None else PatchCall(body, directory)
    begin = at
    patch, at = _parse_word(script, begin)
    if at == begin or _skip(script, at, _SPACE) != len(script):
        return None
    return PatchCall(patch, directory)


def _skip(script: str, at: int, pattern: str) -> int:
    match = re.compile(pattern).match(script, at)
    return match.end() if match else at


def _read_body(script: str, here: re.Match[str]) -> str | None:
    """Return the text of the here-document; None if it does not end, or if a command follows it."""
    tabs, *names, bare = here.groups()
    delimiter = next(name for name in (*names, bare) if name)
    rows = script[here.end() :].split("\n")
    if tabs:
        rows = [row.lstrip("\t") for row in rows]
    if delimiter not in rows:
        return None
    end = rows.index(delimiter)
    if any(row.strip(" \t") for row in rows[end + 1 :]):
        return None
    body = "".join(f"{row}\n" for row in rows[:end])
    return _unescape(body, "$`\\") if bare else body


def _parse_word(script: str, at: int) -> tuple[str, int]:
    """Return the word that begins there, as the shell hands it on, and where it ends."""
    parts: list[str] = []
    while match := _WORD_PART.match(script, at):
        single, double, escaped, bare = match.groups()
        if double is not None:
            parts.append(_unescape(double, '$`"\\'))
        elif bare is not None:
            if not bare.isprintable():  # some shell or locale may take it for a blank
                raise _Expanded
            parts.append(bare)
        else:
            parts.append(single if single is not None else escaped)
        at = match.end()
    return "".join(parts), at


def _unescape(text: str, escapable: str) -> str:
    """Remove the backslashes as a shell does where it expands variables; raise if it would expand anything."""
    out: list[str] = []
    done = 0
    while active := _ACTIVE.search(text, done):
        at = active.start()
        following = text[at + 1 : at + 2]
        out.append(text[done:at])
        if active[0] == "\\" and following == "\n":  # two lines would become one: surely not what a patch means
            raise _Expanded
        if _EXPANDS.match(text, at):
            raise _Expanded
        is_escape = active[0] == "\\" and following != "" and following in escapable
        out.append(following if is_escape else active[0])
        done = at + (2 if is_escape else 1)
    out.append(text[done:])
    return "".join(out)
