"""Remember what was written into the configuration files of clients, for `--undo`."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping

from handrail.files.locks import state_directory
from handrail.files.versions import hash_bytes
from handrail.json_types import JsonMapping, JsonObject


class Records:
    """Records of the inserted texts for each file."""

    def __init__(self) -> None:
        self._path = os.path.join(state_directory(), "mcp-installs.json")
        self._fd = -1
        self._all: dict[str, object] = {}

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

    def get(self, path: str) -> JsonObject | None:
        record = self._all.get(path)
        return record if isinstance(record, dict) else None

    def put(self, path: str, record: Mapping[str, object]) -> None:
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


def undo_text(text: str, record: JsonMapping) -> str | None:
    """The text as it was before an installation; None if it has changed since."""
    if hash_bytes(text.encode("utf-8")) != record.get("after"):
        return None
    result = text
    for step in reversed(record.get("steps") or [record.get("splices", [])]):
        for one in sorted(step, key=lambda splice: int(splice["start"])):
            # Positions are those of the text before the step: what comes before has been given back already.
            at = one["start"]
            assert result[at : at + len(one["new"])] == one["new"]
            result = result[:at] + one["old"] + result[at + len(one["new"]) :]
    return result
