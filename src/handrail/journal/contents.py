"""The old contents of files: each in a file that is named by their hash.

Equal contents are stored once. A file that a killed process left half written is not what its name says: it is written
again when these contents come again, and never given out. Contents are true copies: a secret in a file is in its copy
too, so they are readable by their owner only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable

from handrail.files.versions import hash_bytes

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Contents:
    """The contents beside the logs of a journal."""

    def __init__(self, logs: str) -> None:
        self._directory = os.path.join(logs, "contents")

    def get_path(self, digest: str) -> str:
        """Where the contents with this hash are, if they are stored."""
        return os.path.join(self._directory, digest[:2], digest[2:])

    def store(self, digest: str, raw: bytes) -> int:
        """Store contents; return how many bytes that adds. Raises `OSError`."""
        path = self.get_path(digest)
        try:
            fd = os.open(path, _FLAGS | os.O_EXCL, 0o600)
        except FileNotFoundError:
            for place in (self._directory, os.path.dirname(path)):
                os.makedirs(place, mode=0o700, exist_ok=True)
            return self.store(digest, raw)
        except FileExistsError:
            if self._read(path) == raw:
                os.utime(path)  # used just now: others go first
                return 0
            self._write(os.open(f"{path}.{os.getpid()}", _FLAGS | os.O_TRUNC, 0o600), f"{path}.{os.getpid()}", raw)
            os.replace(f"{path}.{os.getpid()}", path)
            return len(raw)
        self._write(fd, path, raw)
        return len(raw)

    def _write(self, fd: int, path: str, raw: bytes) -> None:
        try:
            left = memoryview(raw)
            while left:
                left = left[os.write(fd, left) :]
        except OSError:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def _read(self, path: str) -> bytes | None:
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def load(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Load the contents that are still stored and unchanged."""
        found = {digest: self._read(self.get_path(digest)) for digest in digests}
        return {digest: raw for digest, raw in found.items() if raw is not None and hash_bytes(raw) == digest}

    def measure(self) -> tuple[int, int]:
        """How many contents are stored, and their bytes."""
        sizes = [size for _, size, _ in self._list()]
        return len(sizes), sum(sizes)

    def trim(self, most: int, needed: Collection[str] = (), *, since: float = float("inf")) -> int:
        """Remove the contents that were not used for longest, down to ``most`` bytes; return what is left.

        None that are ``needed``, or were used after ``since``, are removed.
        """
        stored = sorted(self._list())
        left = sum(size for _, size, _ in stored)
        keep = {self.get_path(digest) for digest in needed}
        for used, size, path in stored:
            if left <= most or used > since:
                break
            if path not in keep:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                left -= size
        return left

    def _list(self) -> list[tuple[float, int, str]]:
        """When each was used last, its size, and its path."""
        found: list[tuple[float, int, str]] = []
        with contextlib.suppress(FileNotFoundError):
            for shard in os.scandir(self._directory):
                for one in os.scandir(shard.path):
                    with contextlib.suppress(FileNotFoundError):
                        status = one.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, one.path))
        return found
