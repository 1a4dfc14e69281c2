"""Agent Client Protocol: a workspace that reads unsaved buffers of the editor and reports changes to it.

If the client supports `fs.readTextFile`, a file that is opened is compared with the client's buffer; if they differ,
the buffer counts, in the file's own encoding and line endings. If it supports `fs.writeTextFile` too, the client saves
such a buffer just before the file is changed (after rules and approval, under the lock), and gets the new text
afterwards, unless somebody typed meanwhile. The session still makes the change: atomic, checked and in the journal.
Searches and commands see the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import TimeoutError as TooLate
from typing import TypeVar, Unpack

from handrail.errors import BinaryFile, Busy, CannotEncode
from handrail.errors.extras import needs
from handrail.files.versions import read_all
from handrail.model import Approve
from handrail.pipeline.options import SessionOptions
from handrail.pipeline.session import Session
from handrail.text.document import decode_document, keep_endings, minimize
from handrail.workspace import Root, WorkPath, Workspace

with needs("acp"):
    from acp import Client, RequestError
    from acp.schema import ClientCapabilities

Found = TypeVar("Found")
_MOST_BYTES = 10 << 20
"""Larger files are not requested from the editor."""
_SECONDS = 10.0


class EditorClient:
    """The client's file system, asked from the thread of a call."""

    def __init__(self, client: Client, session_id: str, may: ClientCapabilities | None) -> None:
        files = may.fs if may else None
        self.reads = bool(files and files.read_text_file)
        self.writes = bool(files and files.write_text_file)
        self._client, self._session_id = client, session_id
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def text(self, path: str) -> str | None:
        """Return the client's text of a file, saved or not; None if it is not known."""
        if not self.reads:
            return None
        try:
            answer = self._ask_editor(self._client.read_text_file(session_id=self._session_id, path=path), path)
        except (RequestError, ConnectionError):
            return None
        return answer.content

    def write(self, path: str, text: str) -> None:
        """Let the client put this text into its buffer and on the disk."""
        self._ask_editor(self._client.write_text_file(session_id=self._session_id, path=path, content=text), path)

    def _ask_editor(self, question: Coroutine[object, object, Found], path: str) -> Found:
        if threading.get_ident() == self._thread:  # to wait here would stop the loop that is to answer
            question.close()
            raise RuntimeError("a blocking call was made in the event loop of the editor connection: use AsyncSession")
        waiting = asyncio.run_coroutine_threadsafe(question, self._loop)
        try:
            return waiting.result(_SECONDS)
        except TooLate:
            waiting.cancel()
            raise Busy(path=path, why="the editor does not answer") from None


class EditorWorkspace(Workspace):
    """A workspace in which an unsaved buffer replaces its file."""

    def __init__(self, roots: Sequence[Root], editor: EditorClient, legacy_encoding: str | None = None) -> None:
        super().__init__(roots)
        self._editor = editor
        self._legacy_encoding = legacy_encoding
        self._here = threading.local()

    def open_file(self, path: WorkPath) -> int:
        fd = super().open_file(path)
        if getattr(self._here, "changing", False):  # the file itself is wanted, with its mode and attributes
            return fd
        try:
            unsaved = self._find_unsaved(path, fd)
        except BaseException:
            os.close(fd)
            raise
        if unsaved is None:
            return fd
        os.close(fd)
        return _open_memory_file(unsaved[1])

    @contextlib.contextmanager
    def parent(self, path: WorkPath, create: bool = False, durable: bool = True) -> Iterator[tuple[int, str]]:
        """For a change: save the editor's buffer before it, and report the change to the editor afterwards."""
        with super().parent(path, create, durable) as (directory, name):
            outermost = not getattr(self._here, "changing", False)
            before = None if create else self._save(path)
            self._here.changing = True
            try:
                yield directory, name
            finally:
                if outermost:
                    self._here.changing = False
            self._tell(path, directory, name, {before} if before is not None else {None} if create else set())

    def _find_unsaved(self, path: WorkPath, fd: int) -> tuple[str, bytes] | None:
        """The text of a buffer that differs from the file, and the bytes that the file would have with it."""
        readable = self._editor.reads and not path.root.alias  # what is kept for the model is nothing that editors open
        raw = read_all(fd, _MOST_BYTES) if readable else None
        text = self._editor.text(_to_editor_path(path)) if raw is not None else None
        if raw is None or text is None:
            return None
        try:
            saved = decode_document(raw, self._legacy_encoding)
        except BinaryFile:
            return None
        if _lines(saved.text) == _lines(text.removeprefix("\ufeff")):
            return None
        text_to_write = text.removeprefix("\ufeff") if saved.codec.bom else text
        if "\r" not in text_to_write:
            text_to_write = keep_endings(saved.text, 0, len(saved.text), text_to_write)
        change = minimize(saved.text, 0, len(saved.text), text_to_write)
        try:
            return text, saved.splice([change] if change else [])
        except CannotEncode:  # the editor has to choose another encoding when it saves this
            return text, text.encode("utf-8", "replace")

    def _save(self, path: WorkPath) -> str | None:
        """Let the editor save its buffer; return its text then, None if it is not known."""
        with open(super().open_file(path), "rb", buffering=0) as file:
            unsaved = self._find_unsaved(path, file.fileno())
        if unsaved is None:
            return self._editor.text(_to_editor_path(path))
        why = "it has unsaved changes in the editor, which Handrail cannot save"
        if not self._editor.writes:
            raise Busy(path=path.named, why=why)
        try:
            self._editor.write(_to_editor_path(path), unsaved[0])
        except (RequestError, ConnectionError) as error:
            raise Busy(path=path.named, why=f"{why} ({error})") from None
        return unsaved[0]

    def _tell(self, path: WorkPath, directory: int, name: str, expected: set[str | None]) -> None:
        """Send the new text to the editor, unless its buffer is not ``expected``: then somebody typed there.

        The change is already on the disk, so a failure here loses nothing.
        """
        if not self._editor.writes or not self._editor.reads:
            return
        with contextlib.suppress(OSError, UnicodeDecodeError, RequestError, ConnectionError, Busy):
            raw, changed = _read_whole(directory, name)
            # Text that the editor might write in other bytes than these is left for it to read from the disk.
            if raw is None or raw.startswith(b"\xef\xbb\xbf") or b"\r" in raw or b"\0" in raw:
                return
            text = raw.decode("utf-8")
            now = self._editor.text(_to_editor_path(path))
            if now not in expected and (now is None or _lines(now) != text):
                return
            self._editor.write(_to_editor_path(path), text)
            if _read_whole(directory, name)[0] == raw:  # saved once more, but not changed: its time stays
                times = (changed.st_atime_ns, changed.st_mtime_ns)
                os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)


class EditorSession(Session):
    """A session on the files as the editor has them. Its calls are made in a thread, never in the loop itself."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        editor: EditorClient,
        approve: Approve | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        self._editor = editor
        super().__init__(root, approve=approve, **options)

    def _open_workspace(self, roots: Sequence[Root]) -> Workspace:
        return EditorWorkspace(roots, self._editor, self.settings.legacy_encoding)


def _to_editor_path(path: WorkPath) -> str:
    """The absolute path as the editor knows it: below the root that it named, which may be a link."""
    return os.path.normpath(os.path.join(path.root.path, path.inner))


def _read_whole(directory: int, name: str) -> tuple[bytes | None, os.stat_result]:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        return read_all(fd, _MOST_BYTES), os.fstat(fd)
    finally:
        os.close(fd)


def _open_memory_file(raw: bytes) -> int:
    """A file that has no name, open for reading."""
    with tempfile.TemporaryFile() if not hasattr(os, "memfd_create") else open(os.memfd_create("buffer"), "wb") as file:
        file.write(raw)
        file.flush()
        return os.dup(file.fileno())


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
