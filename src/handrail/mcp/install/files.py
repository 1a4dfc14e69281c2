"""Change the configuration file of a client atomically, and remember the change for `--undo`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from handrail.files.commit import commit
from handrail.files.locks import Locks, state_directory
from handrail.files.recovery import recover
from handrail.files.versions import Change, Saving, Stored, hash_bytes, load
from handrail.mcp.install.json_file import Broken
from handrail.workspace import Root, WorkPath, Workspace

_MOST = 64 << 20
_WAIT = 30.0


class ClientFile:
    """One file, locked while it is open. If the path is a link, its target is changed."""

    def __init__(self, path: str) -> None:
        self.real = os.path.realpath(path)
        self._stack = contextlib.ExitStack()
        self._before: Stored | None = None
        self.text = ""

    def __enter__(self) -> ClientFile:
        with contextlib.ExitStack() as stack:
            self._missing = _missing_directories(self.real)
            top = os.path.dirname(self._missing[0] if self._missing else self.real)
            self._workspace = Workspace([Root(top)])
            stack.callback(self._workspace.close)
            locks = Locks(os.path.join(state_directory(), "locks"), recover, _WAIT)
            self._held = stack.enter_context(locks.hold([self.real]))
            self._path: WorkPath = self._workspace.resolve(self.real)
            if self._workspace.stat(self._path) is not None:
                self._before = load(self._workspace, self._path, _MOST)
                try:
                    self.text = self._before.raw.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise Broken(f"it is not UTF-8 (byte {error.start + 1})") from None
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def existed(self) -> bool:
        return self._before is not None

    @staticmethod
    def digest(text: str) -> str:
        return hash_bytes(text.encode("utf-8"))

    def write(self, text: str) -> list[str]:
        """Put new contents in place; returns the directories that were made for it, the outermost first."""
        missing = self._missing
        self._commit(text.encode("utf-8"))
        return missing

    def delete(self, directories: Sequence[str]) -> None:
        """Remove the file, and these directories if they are empty then."""
        self._commit(None)
        for directory in reversed(directories):
            with contextlib.suppress(OSError):
                os.rmdir(directory)

    def _commit(self, raw: bytes | None) -> None:
        commit(self._workspace, [Change(self._path, self._before, raw)], self._held, Saving())


def _missing_directories(path: str) -> list[str]:
    missing: list[str] = []
    above = os.path.dirname(path)
    while not os.path.isdir(above) and not os.path.lexists(above):
        missing.insert(0, above)
        above = os.path.dirname(above)
    return missing


class Records:
    """Records of the inserted texts for each file."""

    def __init__(self) -> None:
        self._path = os.path.join(state_directory(), "mcp-installs.json")
        self._fd = -1
        self._all: dict[str, Any] = {}

    def __enter__(self) -> Records:
        self._fd = os.open(self._path + ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        # A lost memory is no misfortune: entries are found by their name then.
        missing = contextlib.suppress(FileNotFoundError, ValueError, RecursionError)
        with missing, open(self._path, encoding="utf-8") as file:
            stored = json.load(file)
            self._all = stored if isinstance(stored, dict) else {}
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def get(self, path: str) -> dict[str, Any] | None:
        record = self._all.get(path)
        return record if isinstance(record, dict) else None

    def put(self, path: str, record: Mapping[str, Any]) -> None:
        self._all[path] = dict(record)
        self._save()

    def forget(self, path: str) -> None:
        if self._all.pop(path, None) is not None:
            self._save()

    def _save(self) -> None:
        temporary = self._path + ".new"
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(self._all, file, indent=1)
        os.replace(temporary, self._path)


def undo_text(text: str, record: Mapping[str, Any]) -> str | None:
    """The text as it was before an installation; None if it has changed since."""
    if hash_bytes(text.encode("utf-8")) != record.get("after"):
        return None
    result = text
    for step in reversed(record.get("steps") or [record.get("splices", [])]):
        for one in sorted(step, key=lambda splice: int(splice["start"])):
            # Positions are those of the text before the step: what stands before has been given back already.
            at = one["start"]
            assert result[at : at + len(one["new"])] == one["new"]
            result = result[:at] + one["old"] + result[at + len(one["new"]) :]
    return result
