"""A command that reads files by a name which only the file tools know, spelled with the real path instead.

Done only where nothing but the place of the file can change: every mention must be a whole word that a command which
only looks takes as a file to read. In a pattern, in a text that is printed or written, in a script for another program
the name stays as it is, since there it may become bytes of a file.
"""

from __future__ import annotations

import re

from handrail.shell.effects.arguments import make_arguments
from handrail.shell.effects.interpret import judge_program
from handrail.shell.parser.script import Command, Script, Word

_PLAIN = re.compile(r"/[A-Za-z0-9_./+-]+")
"""A path that means the same with and without quotes."""


def respell(script: Script, alias: str, real: str) -> str | None:
    """The script with ``real`` for ``alias``; None if that cannot be done without changing something else."""
    mentions = script.source.count(alias)
    if not mentions or script.error is not None or script.stopped or not _PLAIN.fullmatch(real):
        return None
    proven = sum(_count_files_read(command, alias) for command in script.commands if not command.via)
    return script.source.replace(alias, real) if proven == mentions else None


def _count_files_read(command: Command, alias: str) -> int:
    """How many words of this command are files below ``alias`` that it reads."""
    redirected = [
        each.target for each in command.redirections if each.operator == "<" and _is_below(each.target, alias)
    ]
    words = [word for word in command.words[1:] if _is_below(word, alias)]
    ruling = (
        judge_program(command.base, make_arguments(command.words[1:], {}, None)) if command.base and words else None
    )
    if ruling is None or ruling.tier != "read_only" or ruling.doubt:
        return len(redirected)
    read = [file.path for file in ruling.files if file.action == "read" and not file.glob]
    return len(redirected) + sum(read.count(word.fixed or "") == _count_word(words, word) for word in words)


def _count_word(words: list[Word], word: Word) -> int:
    return sum(other.fixed == word.fixed for other in words)


def _is_below(word: Word, alias: str) -> bool:
    text = word.fixed
    return text is not None and (text == alias or text.startswith(alias + "/")) and word.source.strip("'\"") == text
