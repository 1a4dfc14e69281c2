"""Redaction: replace secrets by placeholders for the model, and restore them in its calls. Off unless configured.

A placeholder is the same for the same secret as long as the session lasts, and made with a key that nobody sees, so
that a guess at the secret cannot be checked by it. Text of a file that looks like a placeholder is itself replaced by
one: so each placeholder that a model sees means exactly one text, and a line with one can be edited.

Not covered: a secret that a limit has cut in two, or that a program prints in another form (base64, escaped).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from handrail.json_types import JsonMapping
from handrail.model import Access, Failure, Note, Result
from handrail.secrets.spans import DEEPEST, replace_spans

SHORTEST = 4
"""Shorter values are in every text: hiding them would hide nothing."""
_SHORTEST_IN_FILE = 8
_SHORTEST_LINE = 8
_TAG = 12
_MOST_BYTES = 1 << 20
_PLACEHOLDER = re.compile(r"⟦secret:([0-9a-f]{12,64})⟧")
_ASSIGNED = re.compile(r"\s*(?:export\s+)?[\w.-]+\s*=\s*(.*?)\s*")

_LENT = (  # the values in a file of any format: group 1
    re.compile(
        r"""^\s*(?:export\s+|-\s+)?(?:["']?[\w.-]+["']?\s*[=:]\s*)?["']?(.{8,}?)["']?,?(?:\s+#.*)?\s*$""", re.MULTILINE
    ),
    re.compile(r"""["']([^"'\n]{8,})["']"""),
    re.compile(r"""(?i:pass\w*|pwd|secret|token|key)["']?\s*[=:]\s*["']?([^\s"',]+)"""),
    re.compile(r"\bpassword\s+(\S+)"),
    re.compile(r"://[^\s/:@]*:([^\s/@]+)@"),
)


class Redaction:
    """The secrets of one session and their placeholders. Thread-safe."""

    def __init__(self, values: Iterable[str] = (), patterns: Sequence[str] = (), key: bytes | None = None) -> None:
        every = set(values)
        lines = {line.strip() for value in every if "\n" in value for line in value.split("\n")}
        long_enough = {value for value in every if len(value) >= SHORTEST}
        # A value of several lines is shown line by line, with numbers between them.
        long_enough |= {line for line in lines if len(line) >= _SHORTEST_LINE}
        self._patterns = [re.compile(pattern) for pattern in patterns]
        if long_enough:
            self._patterns.insert(0, re.compile("|".join(map(re.escape, sorted(long_enough, key=len, reverse=True)))))
        self._key = os.urandom(32) if key is None else key
        self._tags: dict[str, str] = {}
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._patterns)

    def hide(self, text: str) -> str:
        """The text with placeholders in the place of secrets."""
        if not self._patterns:
            return text
        return replace_spans(text, self._find_spans(text), self._make_placeholder)

    def _find_spans(self, text: str) -> Iterator[tuple[int, int]]:
        for pattern in self._patterns:
            for match in pattern.finditer(text):
                span = match.span(1) if pattern.groups and match[1] is not None else match.span()
                if span[0] < span[1]:
                    yield span
        if "⟦secret:" in text:
            yield from (match.span() for match in _PLACEHOLDER.finditer(text))

    def _make_placeholder(self, value: str) -> str:
        import hmac  # slow to import, and only needed where something is hidden

        digest = hmac.new(self._key, value.encode("utf-8", "surrogatepass"), "sha256").hexdigest()
        with self._lock:
            length = _TAG
            while self._tags.setdefault(digest[:length], value) != value:  # another one's, however unlikely
                length += 1
        return f"⟦secret:{digest[:length]}⟧"

    def restore(self, value: object, depth: int = 0) -> Any:
        """Restore the secrets in every string of the arguments; other text stays."""
        if not self._patterns or depth > DEEPEST:
            return value
        if isinstance(value, str):
            return _PLACEHOLDER.sub(self._restore_match, value) if "⟦secret:" in value else value
        if isinstance(value, Mapping):
            return {self._change_key(key, self.restore): self.restore(item, depth + 1) for key, item in value.items()}
        return [self.restore(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value

    def _change_key(self, key: object, change: Callable[[Any], Any]) -> object:
        return change(key) if isinstance(key, str) else key

    def _restore_match(self, match: re.Match[str]) -> str:
        with self._lock:
            return self._tags.get(match[1], match[0])

    def hidden(self, value: object, depth: int = 0) -> Any:
        """Plain JSON values without secrets."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self.hide(value)
        if depth > DEEPEST:
            return "[too deep]"
        if isinstance(value, Mapping):
            return {self._change_key(key, self.hidden): self.hidden(item, depth + 1) for key, item in value.items()}
        return [self.hidden(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value

    def hide_arguments(self, arguments: Mapping[str, object]) -> JsonMapping:
        """The arguments of a call as they may be shown and written down, whoever wrote a secret into them."""
        known: JsonMapping = self.hidden(self.restore(arguments))
        return known

    def result(self, result: Result) -> Result:
        """Redact a result: text, blocks, data, notes, error and accesses."""
        if not self._patterns:
            return result
        blocks = [self.hidden(block) if block.get("type") == "text" else block for block in result.blocks]
        return replace(
            result,
            text=self.hide(result.text),
            blocks=tuple(blocks),
            data=self.hidden(result.data),
            notes=tuple(Note(note.code, self.hide(note.text)) for note in result.notes),
            error=Failure(result.error.code, self.hide(result.error.message)) if result.error else None,
            accesses=self.accesses(result.accesses),
            advice=self.hide(result.advice),
        )

    def accesses(self, accesses: Iterable[Access]) -> tuple[Access, ...]:
        return tuple(map(self._hide_texts, accesses))

    def _hide_texts(self, access: Access) -> Access:
        texts = {name: getattr(access, name, "") for name in ("target", "path", "why", "doubt", "place")}
        hidden: Any = {name: self.hide(text) for name, text in texts.items() if text}
        return replace(access, **hidden)


class LentSecrets(Redaction):
    """Hides what hidden files hold that a command was lent. The model cannot use these values, so none is restored."""

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(value for path in paths for value in _list_lent_values(path))

    def _make_placeholder(self, _: str) -> str:
        return "[secret]"


def _list_lent_values(path: str) -> Iterator[str]:
    """Whatever may be secret in a file, or in all files of a directory."""
    if os.path.isdir(path):
        for here, _, names in os.walk(path):
            yield from (value for name in names for value in _list_lent_values(os.path.join(here, name)))
        return
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST_BYTES)
    except OSError:  # the command cannot read it either
        return
    yield text.strip()
    yield from (match[1] for pattern in _LENT for match in pattern.finditer(text))


class RedactionSettings(Protocol):
    """The settings for redaction."""

    @property
    def redact_values_from_env(self) -> Sequence[str]: ...
    @property
    def redact_files(self) -> Sequence[str]: ...
    @property
    def redact_patterns(self) -> Sequence[str]: ...


def load(settings: RedactionSettings, environ: Mapping[str, str]) -> Redaction:
    """Read the secrets named in the settings; raises `ValueError` for a short value or an unreadable file."""
    values: list[str] = []
    for name in settings.redact_values_from_env:
        value = environ.get(name, "")
        if 0 < len(value) < SHORTEST:
            raise ValueError(f"redact_values_from_env: {name} has {len(value)} characters, too few to be hidden")
        values.append(value)
    for path in settings.redact_files:
        values += _read_values(os.path.expanduser(path))
    return Redaction(values, settings.redact_patterns)


def _read_values(path: str) -> list[str]:
    """The values of a file with `NAME=value` lines; of any other file, the whole of it."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ValueError(f"redact_files: {path} cannot be read: {error.strerror}") from None
    rows = [row for row in text.split("\n") if row.strip() and not row.lstrip().startswith("#")]
    assignments = [_ASSIGNED.fullmatch(row) for row in rows]
    if not all(assignments):
        return [text.strip()]
    values = [match[1].strip("\"'") for match in assignments if match]
    return [value for value in values if len(value) >= _SHORTEST_IN_FILE]
