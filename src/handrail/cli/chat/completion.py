"""Completions of the line editor: slash commands at the beginning, and files of the project after `@`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from handrail.cli.output import escape_for_terminal
from handrail.errors import ToolError
from handrail.pipeline.session import Session
from handrail.search.receipt import Budget
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from handrail.pipeline.any_session import AnySession

_NAMED = re.compile(r"(?:^|(?<=\s))@(\S*)$")
_MOST = 50
_FRESH = 3.0
_SECONDS, _VISITS = 1.0, 100_000


class Words(Completer):
    """The completer of a chat."""

    def __init__(
        self, commands: Mapping[str, str], choices: Callable[[str], Sequence[str]], files: Callable[[], Sequence[str]]
    ) -> None:
        self._commands = commands
        self._choices = choices
        self._files = files

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        text = document.text_before_cursor
        if text.startswith("/") and "\n" not in text:
            yield from self._complete_slash(text)
        elif match := _NAMED.search(text):
            for path in rank_paths(match[1], self._files()):
                yield Completion(path, start_position=-len(match[1]))

    def _complete_slash(self, text: str) -> Iterator[Completion]:
        name, space, rest = text[1:].partition(" ")
        if space:
            for word in self._choices(name):
                if word.startswith(rest):
                    yield Completion(word, start_position=-len(rest))
            return
        for word, about in self._commands.items():
            if word.startswith(name):
                yield Completion(f"/{word}", start_position=-len(text), display_meta=about)


def rank_paths(typed: str, paths: Iterable[str]) -> list[str]:
    """The paths that fit: those that begin so, then those whose name does, then those that hold it."""
    prefix = typed.casefold()

    def rank(path: str) -> int:
        folded = path.casefold()
        if folded.startswith(prefix):
            return 0
        return 1 if folded.rpartition("/")[2].startswith(prefix) else 2

    return sorted((path for path in paths if prefix in path.casefold()), key=lambda path: (rank(path), path))[:_MOST]


class Files:
    """The files of a workspace that a search would show, looked up again after a few seconds."""

    def __init__(self, session: Callable[[], AnySession | None]) -> None:
        self._session = session
        self._files: list[str] = []
        self._when = float("-inf")

    def __call__(self) -> list[str]:
        session = self._session()
        if session and time.monotonic() - self._when > _FRESH:
            self._files, self._when = list(_walk_files(session)), time.monotonic()
        return self._files


def _walk_files(session: AnySession) -> Iterator[str]:
    if not isinstance(session, Session):  # its files are on another machine
        return
    try:
        tree = session.search_tree()
        for here in tree.walk(Budget(_SECONDS, _VISITS)).directories(tree.look(hidden=False, ignored=False)):
            for name in (*here.files, *(f"{name}/" for name in here.dirs)):
                path = here.prefix + name
                if path == escape_for_terminal(replace_surrogates(path)) and not any(
                    map(str.isspace, path)
                ):  # what can be typed as one word
                    yield path
    except (ToolError, OSError):
        return
