"""Find the paths that the words of a command mention, for programs of which it is not known what they do with them.

`perl -pe 1 .env`, `openssl base64 -in .env`, `node -p 'readFileSync(".env")'`: whether a mention is a file that may not
be read, policy decides. A name that a program puts together when it runs is not found.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from handrail.model import Mention
from handrail.shell.effects.arguments import Arg, Places, join_path, make_argument
from handrail.shell.parser.script import HEREDOCS, Command, Word

_SEPARATORS = re.compile(r"[\s\"'`(){}\[\],;=:<>|&@\\]+")
_GLUED = re.compile(r"-[A-Za-z]+")
_LONGEST = 4096


def find_mentions(run: Command, args: Sequence[Arg], known: bool, places: Places) -> tuple[Mention, ...]:
    """The paths in the words of a command, seen from where the script starts.

    ``known``: the files that its fixed words name are listed already.
    """
    mentions: dict[Mention, None] = {}
    inputs = [item.target for item in run.redirections if item.operator in (*HEREDOCS, "<<<")]
    words = [*zip(run.words[1:], args, strict=True), *((word, make_argument(word)) for word in inputs)]
    if run.name and "/" in run.name:
        named = (one for one in _place(run.name, False, places) if one.kind == "path")
        mentions |= dict.fromkeys(one._replace(kind="program") for one in named)
    for word, arg in words:
        if arg.values is None:
            mentions |= dict.fromkeys(_find_computed(word))
        elif not known:
            for value in arg.values:
                texts = [value.text] if value.glob else _split(value.text)
                mentions |= dict.fromkeys(one for text in texts for one in _place(text, value.glob, places))
    return tuple(mentions)


def _split(word: str) -> list[str]:
    """A word, the parts of it that may be a path, and the text glued to the letters of an option."""
    parts = [word, *_SEPARATORS.split(word)]
    glued = _GLUED.match(word)
    if glued:
        parts += [word[end:] for end in range(2, glued.end() + 1)]
    return [part for part in parts if part and len(part) <= _LONGEST and "\0" not in part]


def _place(text: str, glob: bool, places: Places) -> Iterator[Mention]:
    """A path seen from where the script starts."""
    if not text.startswith(("/", "~")) and places is None:
        yield Mention(text.rpartition("/")[2], "name")
        return
    for place in sorted(places or (".",)):
        yield Mention(join_path(place, text), "pattern" if glob else "path")


def _find_computed(word: Word) -> Iterator[Mention]:
    """The last name of a word with a computed part in front (`$directory/.env`), and a path through `/proc`."""
    fixed = itertools.takewhile(lambda part: part.kind == "text", reversed(word.parts))
    _, slash, name = "".join(part.text for part in reversed(list(fixed))).rpartition("/")
    if slash and name.strip("."):
        yield Mention(name, "name")
    pattern = "".join(part.text if part.kind in ("text", "glob") else "*" for part in word.parts)
    if pattern.startswith("/proc/"):
        yield Mention(pattern, "pattern")
