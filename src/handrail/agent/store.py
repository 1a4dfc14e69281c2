"""Store conversations: one file of JSON lines each, written turn by turn.

The first line describes the conversation; each further line is a turn, `{"replace": [...]}` after a compaction,
`{"model": ...}` or `{"mode": ...}` after a change of these, or `{"session": ...}`, the name of its calls in the
journal. A line that a crash cut off is skipped when the file is read. Only one program at a time can use a
conversation: it holds a lock on the file, which the system releases however the program ends.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence

from handrail.agent.messages import Turn, as_json, from_json
from handrail.frozen import frozen
from handrail.json_types import JsonObject

_MOST_BYTES = 512 << 20


class NoConversation(LookupError):
    """There is none by that id, it cannot be read, or another program is in it."""


@frozen
class Kept:
    """A conversation on disk."""

    id: str
    workspace: str
    model: str
    dialect: str
    when: float
    first: str
    """The user's first message."""
    session: str = ""
    """The session of its calls in the journal; empty if that is not known."""
    mode: str = ""
    """The approval mode in which it was left; empty if that is not known."""


class StoredConversation:
    """Writes one conversation down; raises `NoConversation` if somebody else does."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.id = os.path.basename(path).removesuffix(".jsonl")
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            raise NoConversation(f"conversation {self.id} is open in another program") from None

    def close(self) -> None:
        """Release the lock, so that another program can continue the conversation."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def add(self, turn: Turn) -> None:
        self._write(as_json(turn))

    def replace(self, turns: Sequence[Turn]) -> None:
        self._write({"replace": [as_json(turn) for turn in turns]})

    def set_model(self, model: str) -> None:
        """Continue with another model."""
        self._write({"model": model})

    def set_session(self, session: str) -> None:
        """Write down under which session the journal has the calls of this conversation."""
        self._write({"session": session})

    def set_mode(self, mode: str) -> None:
        """Write down the approval mode, so that `--continue` keeps it."""
        self._write({"mode": mode})

    def _write(self, value: dict[str, object]) -> None:
        raw = json.dumps(value, ensure_ascii=True).encode("ascii") + b"\n"
        while raw:
            raw = raw[os.write(self._fd, raw) :]
        os.fsync(self._fd)


class Store:
    """The conversations of a state directory."""

    def __init__(self, state: str) -> None:
        self._folder = os.path.join(state, "conversations")

    def new(self, workspace: str, model: str, dialect: str) -> StoredConversation:
        """A conversation that begins now."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        name = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(3).hex()}"
        conversation = StoredConversation(os.path.join(self._folder, f"{name}.jsonl"))
        conversation._write({"workspace": workspace, "model": model, "dialect": dialect, "when": time.time()})
        return conversation

    def load(self, id: str) -> tuple[StoredConversation, Kept, list[Turn]]:
        """Open a conversation to continue it; raises `NoConversation`."""
        names = [name for name in self._list_names() if name.startswith(id)]
        if len(names) != 1 or os.sep in id:
            what = "there is no conversation" if not names else f"{len(names)} conversations begin with"
            raise NoConversation(f"{what} {id}")
        path = os.path.join(self._folder, f"{names[0]}.jsonl")
        try:
            conversation = StoredConversation(path)
        except OSError as error:
            raise NoConversation(f"{path} cannot be opened: {error.strerror}") from None
        try:
            stored, turns = _read(path)
            _cut(path)
        except BaseException:
            conversation.close()
            raise
        return conversation, stored, turns

    def last(self, workspace: str) -> str:
        """The conversation of a workspace that was used last; raises `NoConversation`."""
        for stored in self.all():
            if stored.workspace == workspace and stored.first:
                return stored.id
        raise NoConversation(f"there is no conversation in {workspace} yet")

    def all(self) -> Iterator[Kept]:
        """List all conversations, the one that was used last first; unreadable ones are skipped."""
        paths = [os.path.join(self._folder, f"{name}.jsonl") for name in self._list_names()]
        for path in sorted(paths, key=_find_last_use, reverse=True):
            try:
                yield _read(path, most=2)[0]
            except NoConversation:
                continue

    def _list_names(self) -> list[str]:
        try:
            return [name.removesuffix(".jsonl") for name in os.listdir(self._folder) if name.endswith(".jsonl")]
        except FileNotFoundError:
            return []


def _find_last_use(path: str) -> int:
    """When a conversation was written to; the second in its id would not tell two that began together apart."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _cut(path: str) -> None:
    """Take away the rest of a line that a crash has left, so that the next one begins on its own."""
    with open(path, "rb+") as file:
        whole = 0
        for line in file:
            whole += len(line) if line.endswith(b"\n") else 0
        file.truncate(whole)


def _describe(id: str, about: JsonObject, turns: Sequence[Turn]) -> Kept:
    first = next((turn.text for turn in turns if turn.role == "user"), "")
    return Kept(
        id,
        str(about.get("workspace", "")),
        str(about.get("model", "")),
        str(about.get("dialect", "")),
        float(about.get("when", 0.0)),
        first,
        str(about.get("session", "")),
        str(about.get("mode", "")),
    )


def _read(path: str, most: int | None = None) -> tuple[Kept, list[Turn]]:
    turns: list[Turn] = []
    about: dict[str, object] = {}
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise NoConversation(f"{path} is too large to read")
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file):
                if most is not None and len(turns) >= most:
                    break
                if not line.endswith("\n"):  # cut off by a crash: it was not answered yet
                    break
                value = json.loads(line)
                if number == 0:
                    about = dict(value)
                elif "role" not in value and value.keys() & {"model", "session", "mode"}:
                    about |= value
                elif "replace" in value:
                    turns = [from_json(turn) for turn in value["replace"]]
                else:
                    turns.append(from_json(value))
        return _describe(os.path.basename(path).removesuffix(".jsonl"), about, turns), turns
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise NoConversation(f"{path} cannot be read: {error}") from None
