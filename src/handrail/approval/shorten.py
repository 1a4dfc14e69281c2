"""Bound the size of a question before it is sent to another process.

Long texts, diffs and lists are cut, and `Question.shortened` lists the missing parts. If not all hunks of a file are
sent, they cannot be chosen one by one; if the arguments of a command are not sent, it cannot be rewritten.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from handrail.model import Access, FileDiff, Question, Verdict

_MOST = 2_000_000
"""Characters of a question, all in all."""
_MOST_ACCESSES = 500
_MOST_FILES = 500
_MOST_TARGET = 100_000
_MOST_ARGUMENTS = 200_000
_MOST_TEXT = 1_000_000
"""Characters of a file that can still be changed in an editor."""


def shorten(question: Question) -> Question:
    """The same question, small enough to be sent."""
    return _Shortening(question.shortened).shorten(question)


class _Shortening:
    """The characters that are left, and the names of the parts that did not fit."""

    def __init__(self, shortened: Sequence[str]) -> None:
        self._left = _MOST
        self._shortened = [*shortened]

    def shorten(self, question: Question) -> Question:
        call = question.call
        accesses = self._shorten_accesses(question.accesses)
        arguments = self._shorten_arguments(call.arguments)
        command = question.command
        if command is not None:
            command = _cut(command, self._take(len(command), _MOST_TARGET))
        short = replace(
            question,
            call=replace(call, tool=self._cut(call.tool, 1000, "the tool's name"), arguments=arguments or {}),
            accesses=accesses,
            verdict=self._shorten_verdict(question.verdict),
            command=command,
            command_argument="" if arguments is None or command != question.command else question.command_argument,
            summary=_cut(question.summary, self._take(len(question.summary), _MOST_TARGET)),
        )
        files = self._shorten_files(question.files)
        return replace(short, files=files, shortened=tuple(self._shortened))

    def _take(self, chars: int, most: int) -> int:
        """As many of the wanted characters as there is room for."""
        taken = max(0, min(chars, most, self._left))
        self._left -= taken
        return taken

    def _cut(self, text: str, most: int, what: str) -> str:
        taken = self._take(len(text), most)
        if taken < len(text):
            self._shortened.append(f"{len(text) - taken} characters of {what}")
        return _cut(text, taken)

    def _shorten_accesses(self, accesses: Sequence[Access]) -> tuple[Access, ...]:
        if len(accesses) > _MOST_ACCESSES:
            self._shortened.append(f"{len(accesses) - _MOST_ACCESSES} of {len(accesses)} effects")
            accesses = sorted(accesses, key=lambda access: access.action == "read")  # reads are left out first
        return tuple(
            replace(access, target=self._cut(access.target, _MOST_TARGET, f"what it would {access.action}"))
            for access in accesses[:_MOST_ACCESSES]
        )

    def _shorten_arguments(self, arguments: Mapping[str, object]) -> dict[str, object] | None:
        """None if they are too long, or not JSON; they are only needed to rewrite a command."""
        try:
            size = len(json.dumps(dict(arguments), allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            return None
        if size > min(_MOST_ARGUMENTS, self._left):
            return None
        self._left -= size
        return dict(arguments)

    def _shorten_verdict(self, verdict: Verdict) -> Verdict:
        texts = (verdict.rule, verdict.why, verdict.source, verdict.allow)
        return Verdict(verdict.decision, *(self._cut(text, 20_000, "the rule") for text in texts))

    def _shorten_files(self, files: Sequence[FileDiff]) -> tuple[FileDiff, ...]:
        if len(files) > _MOST_FILES:
            self._shortened.append(f"{len(files) - _MOST_FILES} of {len(files)} files")
        short = [self._shorten_hunks(file) for file in files[:_MOST_FILES]]
        return tuple(self._shorten_texts(file) for file in short)  # after all diffs, which matter more

    def _shorten_hunks(self, file: FileDiff) -> FileDiff:
        path = self._cut(file.path, 10_000, "a name")
        sent: list[str] = []
        for hunk in file.hunks:
            if len(hunk) > self._left:
                self._left = 0  # nor is there room for any later one
                break
            self._left -= len(hunk)
            sent.append(hunk)
        missing = len(file.hunks) - len(sent)
        if missing:
            self._shortened.append(f"{missing} of {len(file.hunks)} hunks of {path}")
            sent.append(f"\\ {missing} more hunks not shown\n")
        whole = not missing and path == file.path
        description = (
            self._cut(file.description, _MOST_TARGET, f"the description of {path}") if file.description else ""
        )
        return replace(
            file,
            path=path,
            hunks=tuple(sent),
            description=description,
            selectable=file.selectable and whole,
            editable=file.editable and whole,
        )

    def _shorten_texts(self, file: FileDiff) -> FileDiff:
        after, before = self._shorten_text(file.after), self._shorten_text(file.before)
        return replace(file, before=before, after=after, editable=file.editable and after is not None)

    def _shorten_text(self, text: str | None) -> str | None:
        if text is None or len(text) > min(_MOST_TEXT, self._left):
            return None
        self._left -= len(text)
        return text


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} [{len(text) - most} characters more]"
