"""From a text to the simple commands that are written in it: the grammar run to the end, or as far as it goes."""

from __future__ import annotations

from handrail.shell.parser.commands import Fault, Redirection, Script, Simple
from handrail.shell.parser.findings import Found, Here, Unread, Wrong
from handrail.shell.parser.grammar import Reader

MOST_CHARACTERS = 131_072
"""Linux takes no longer text as one argument of a command, and `bash -c` is one."""


def simples(found: Found) -> list[Simple]:
    """The commands that were found, finished."""
    out: list[Simple] = []
    for draft in found.drafts:
        redirections = []
        for redirect in draft.redirects:
            target = redirect.target.body if isinstance(redirect.target, Here) else redirect.target
            if target is not None:
                redirections.append(Redirection(redirect.operator, target, redirect.descriptor))
        out.append(Simple(tuple(draft.words), tuple(draft.assignments), tuple(redirections), draft.where, draft.within))
    return out


def read_text(text: str) -> tuple[Found, Fault | None]:
    """Read a script to its end, or as far as it can be read."""
    found = Found()
    if len(text) > MOST_CHARACTERS:
        found.doubt("the script is too long to be read")
        found.stopped = True
        return found, None
    if "\0" in text:
        return found, Fault(text.count("\n", 0, text.index("\0")) + 1, 0, "", "a NUL character")
    reader = Reader(text, found)
    try:
        reader.substituted("", "")
        if reader.pending:
            raise Unread("a here-document without its body")
    except Unread as stopped:
        found.doubt(str(stopped))
        found.stopped = True
    except Wrong as wrong:
        at = min(wrong.at, len(text))
        line = text.count("\n", 0, at) + 1
        start = text.rfind("\n", 0, at) + 1
        return found, Fault(line, at - start + 1, text[start:].split("\n", 1)[0][:200], wrong.message)
    return found, None


def shallow(text: str) -> Script:
    """A script with the commands that are written in it, and not yet with what those run."""
    found, error = read_text(text)
    commands = tuple(simples(found))
    return Script(text, commands, commands, tuple(found.functions), error, tuple(found.doubts), found.stopped)
