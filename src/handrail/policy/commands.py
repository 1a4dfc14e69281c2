"""Commands that rules speak of: `git diff *`, word by word, one simple command at a time.

Refusing is wide and allowing is narrow here too. A refusal finds a command behind its wrappers, by whatever path it is
called, and with options in between (`git -C x push` is a `git push`). A flag of a refusal may stand anywhere
(`npm install x -g` is an `npm install -g`). An allowance holds for exactly the words that are
written, in a command that is fixed to the last word: no variable, no assignment in front, nothing wrapped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from handrail.model import Access

if TYPE_CHECKING:
    from handrail.shell.parser.script import Command, Script


_PLAIN = re.compile(r"[a-z][\w./-]*(?: [\w./@%+,:-]+)*", re.ASCII)
_KEYWORD = re.compile("if|then|else|elif|fi|case|esac|for|select|while|until|do|done|in|function|time|coproc")


class BadCommandPattern(ValueError):
    """An invalid command pattern, with the reason and the fix."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """Words that a command begins with; it must end there too, unless the pattern is open."""

    words: tuple[str, ...]
    open: bool

    def refuses(self, script: Script) -> bool:
        """Whether the script is, or runs, the command of the pattern."""
        return any(self._is(run) for run in script.runs)

    def allows(self, script: Script) -> bool:
        """Whether the script is certainly the command of the pattern."""
        words = plain_words(script, wrapped=not self.open)
        if words is None or words[: len(self.words)] != self.words:
            return False
        return self.open or len(words) == len(self.words)

    def _is(self, run: Command) -> bool:
        words = [word.fixed for word in run.words]
        if not words or self.words[0] not in (words[0], run.base):
            return False
        flags = [word for word in self.words[1:] if _is_flag(word)]
        if not all(any(_holds_flag(word or "", flag) for word in words[1:]) for flag in flags):
            return False
        places = {1}
        for expected in self.words[1:]:
            if expected not in flags:
                places = {at + 1 for at in skip_options(words, places) if words[at] == expected}
        if self.open or not places:
            return bool(places)
        return len(words) in places or (bool(flags) and len(words) == len(self.words))


def _is_flag(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != ""


def _holds_flag(word: str, flag: str) -> bool:
    """Whether a word is a flag, has it among its letters, or gives it a value."""
    if word == flag or word.startswith(flag + "="):
        return True
    short = len(flag) == 2 and word.startswith("-") and not word.startswith("--")
    return short and flag[1] in word[1:]


def skip_options(words: list[str | None], places: set[int]) -> set[int]:
    """Return the possible positions of the next word: options are skipped, with or without a value."""
    positions: set[int] = set()
    waiting = list(places)
    while waiting:
        at = waiting.pop()
        if at >= len(words) or at in positions:
            continue
        positions.add(at)
        if (words[at] or "").startswith("-"):
            waiting += [at + 1, at + 2]
    return positions


def parse_pattern(text: str) -> CommandPattern:
    """A pattern as it is written: words, and ` *` at the end for any further ones; raises `BadCommandPattern`."""
    body, star, _ = text.rpartition("*")
    is_open = bool(star) and text.endswith(" *")
    written = (body if is_open else text).strip(" ")
    if _PLAIN.fullmatch(written) and not _KEYWORD.fullmatch(written.partition(" ")[0]):  # not worth a parser
        return CommandPattern(tuple(written.split(" ")), is_open)
    words = plain_words(parse_command(written), wrapped=True)
    if is_open and not body.strip():
        raise BadCommandPattern("the pattern has no command; leave it out to match all commands")
    if words is None and "*" in written:
        first = text.partition("*")[0].strip()
        raise BadCommandPattern(f"`*` must be the last word and matches any further words: `{first} *`")
    if words is None:
        raise BadCommandPattern("it must be one command of fixed words, such as `git diff *`")
    return CommandPattern(words, is_open)


def plain_words(script: Script, *, wrapped: bool = False) -> tuple[str, ...] | None:
    """The words of a single command that is fixed and proven; None for any other.

    ``wrapped``: it may run another one, as `env` and `xargs` do.
    """
    if not script.proven or len(script.commands) != 1 or (len(script.runs) != 1 and not wrapped):
        return None
    only = script.commands[0]
    words = tuple(word.fixed for word in only.words)
    if not words or only.assignments or only.within:
        return None
    fixed = tuple(word for word in words if word is not None)
    return fixed if len(fixed) == len(words) else None


def script_of(access: Access) -> Script:
    """The parsed command of an access; parsed here if whoever declared the access did not."""
    from handrail.shell.parser.script import Script  # slow to import, and only needed for commands

    return access.script if isinstance(access.script, Script) else parse_command(access.target)


@lru_cache(256)
def parse_command(command: str) -> Script:
    """Parse a command of a rule, or of an access without its parsed command."""
    from handrail.shell.parser.parse import parse_script  # slow to import, and only needed for commands

    return parse_script(command)
