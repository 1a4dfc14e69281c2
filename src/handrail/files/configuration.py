"""Change a configuration file outside of any workspace: locked while it is open, and replaced atomically."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from handrail.files.commit import commit
from handrail.files.locks import Locks, state_directory
from handrail.files.recovery import recover
from handrail.files.versions import Change, Saving, Stored, hash_bytes, load
from handrail.workspace import Root, WorkPath, Workspace

_MOST = 64 << 20
_WAIT = 30.0


class BadConfiguration(ValueError):
    """A configuration that cannot be read, and why."""


class ConfigurationFile:
    """One file, locked while it is open. If the path is a link, its target is changed."""

    def __init__(self, path: str) -> None:
        self.real = os.path.realpath(path)
        self._stack = contextlib.ExitStack()
        self._before: Stored | None = None
        self.text = ""

    def __enter__(self) -> ConfigurationFile:
        with contextlib.ExitStack() as stack:
            self._missing = _find_missing_directories(self.real)
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
                    raise BadConfiguration(f"it is not UTF-8 (byte {error.start + 1})") from None
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


def _find_missing_directories(path: str) -> list[str]:
    missing: list[str] = []
    above = os.path.dirname(path)
    while not os.path.isdir(above) and not os.path.lexists(above):
        missing.insert(0, above)
        above = os.path.dirname(above)
    return missing
