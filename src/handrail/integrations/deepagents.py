"""deepagents: a backend whose files, and commands, go through a session. Needs the extra `deepagents`.

    agent = create_deep_agent(model, backend=backend(open_session("path/to/project")))

`/` is the workspace. Every operation is a call of the session, so that boundary, policy, approvals, locks and journal
hold for the agent's own file tools. A file must be read before it is overwritten or deleted. An edit does not need a
read: its old text must match exactly, which proves that the model knows it, and the backend reads the file.
"""

from __future__ import annotations

import base64
import mimetypes
import os
from pathlib import Path, PurePosixPath
from typing import Unpack

from handrail.errors import ToolError
from handrail.errors.extras import needs
from handrail.files.artefacts import ALIAS
from handrail.files.versions import load
from handrail.model import Approve, Result
from handrail.pipeline.async_calls import AsyncCalls
from handrail.pipeline.options import SessionOptions
from handrail.pipeline.session import Session
from handrail.wire.images import get_images

with needs("deepagents"):
    from deepagents.backends import CompositeBackend, StateBackend
    from deepagents.backends.protocol import (
        BackendProtocol,
        DeleteResult,
        EditResult,
        ExecuteResponse,
        FileData,
        FileDownloadResponse,
        FileInfo,
        FileUploadResponse,
        GlobResult,
        GrepMatch,
        GrepResult,
        LsResult,
        ReadResult,
        SandboxBackendProtocol,
        WriteResult,
    )

WORDS = str(Path(__file__).with_name("deepagents_words"))
"""The dialect in which the backend and its session talk."""
_KEPT = "/handrail_results"
"""The directory of the session's own long results: the framework uses the usual name."""
_IMAGES = (".png", ".jpeg", ".jpg", ".webp", ".gif", ".heic", ".heif")
_VIDEO = (".mp4", ".mpeg", ".mov", ".avi", ".flv", ".mpg", ".webm", ".wmv", ".3gpp", ".mkv")
_MEDIA = (*_IMAGES, *_VIDEO, ".wav", ".mp3", ".aiff", ".aac", ".ogg", ".flac", ".pdf", ".ppt", ".pptx")
"""Files that the framework takes for media by their names, whatever they hold."""
_MOST_BYTES = 50 << 20
_MOST_PREVIEW = 512_000
"""The largest binary file that is handed to a model, as the framework's own sandboxes have it."""
_ERRORS = {"not_found": "file_not_found", "is_directory": "is_directory", "bad_path": "invalid_path"}
_MOST_OUTPUT = 4 << 20
_NOT_RUN = 126
"""The exit code of a command that was not allowed to run, as shells have it."""


def open_session(
    root: str | os.PathLike[str] = ".", *, approve: Approve | None = None, **options: Unpack[SessionOptions]
) -> Session:
    """A session for a backend; ``options`` are those of `Session`, but for the dialect, which is the backend's."""
    options["dialect"] = WORDS
    return Session(root, approve=approve, **options)


def backend(session: Session, *, shell: bool = True) -> CompositeBackend:
    """Build a backend on ``session``; files that the framework offloads stay in its state, not in the workspace."""
    own = ("/large_tool_results/", "/conversation_history/")
    return CompositeBackend(
        (HandrailSandbox if shell else HandrailBackend)(session), {one: StateBackend() for one in own}
    )


class HandrailBackend(BackendProtocol):
    """The files of a session's workspace."""

    _real_paths = False
    """Whether paths are shown as they are in the file system, or with `/` for the workspace; both are understood."""

    def __init__(self, session: Session, *, relative_globs: bool = False) -> None:
        """``relative_globs``: paths of `glob` start at the directory that is searched, as in older versions."""
        if session.dialect.name != WORDS:
            raise ValueError("create the session of a backend with open_session(...), which uses its dialect")
        self._session = session
        self._relative_globs = relative_globs
        self._home = os.path.realpath(session.workspace.home)

    def ls(self, path: str) -> LsResult:
        result = self._call("ls", path=self._to_session_path(path))
        if not result.ok:
            return LsResult(error=_strip_prefix(result))
        return LsResult(
            entries=[self._describe_file(one["path"], one["type"] == "dir") for one in result.data["entries"]]
        )

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        if PurePosixPath(file_path).suffix.lower() in _MEDIA:
            return self._read_media(file_path)
        if limit <= 0:
            return ReadResult(file_data=FileData(content="", encoding="utf-8"), no_lines_requested=True)
        result = self._call("read_file", file_path=self._to_session_path(file_path), offset=max(offset, 0), limit=limit)
        if result.error and result.error.code == "binary_file":
            return self._read_media(file_path)
        if not result.ok:
            return ReadResult(error=_strip_prefix(result))
        data, text = result.data, FileData(content=result.text, encoding="utf-8")
        if "first" not in data:
            return ReadResult(file_data=text)
        following = data["last"] if data["truncated"] else None
        return ReadResult(
            file_data=text,
            total_lines=data["total_lines"],
            start_line=data["first"],
            end_line=data["last"],
            next_offset=following,
        )

    def _read_media(self, file_path: str) -> ReadResult:
        """A file that is not text: a picture brought to size if it keeps its kind, else the bytes as they are."""
        kind = mimetypes.guess_type(file_path)[0] or ""
        result = (
            self._call("view_file", file_path=self._to_session_path(file_path)) if kind.startswith("image/") else None
        )
        drawn = get_images(result) if result else []
        if len(drawn) == 1 and drawn[0]["mime_type"] == kind:
            return ReadResult(file_data=FileData(content=drawn[0]["base64"], encoding="base64"))
        raw = self._read_bytes(file_path)
        if isinstance(raw, Result):
            return ReadResult(error=_strip_prefix(raw))
        if len(raw) > _MOST_PREVIEW:
            most = f"Binary file exceeds maximum preview size of {_MOST_PREVIEW} bytes"
            return ReadResult(error=f"File '{file_path}': {most}")
        return ReadResult(file_data=FileData(content=base64.b64encode(raw).decode("ascii"), encoding="base64"))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        arguments: dict[str, object] = {"pattern": pattern, "path": self._to_session_path(path or "/"), "glob": glob}
        result = self._call("grep", **arguments, head_limit=max_count)
        if not result.ok:
            return GrepResult(error=_strip_prefix(result))
        hits = result.data["matches"]
        matches = [
            GrepMatch(path=self._to_framework_path(one["file"]), line=one["line"], text=one["text"]) for one in hits
        ]
        return GrepResult(matches=matches, truncated=result.data["truncated"] or result.status == "partial")

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        # There a bare name is looked for at every depth, and a leading slash means the directory that is searched.
        below = pattern.lstrip("/") if "/" in pattern else f"**/{pattern}"
        result = self._call("glob", pattern=below, path=self._to_session_path(path or "/"))
        if not result.ok:
            return GlobResult(error=_strip_prefix(result))
        matches = [self._describe_file(one) for one in result.data["paths"]]
        if self._relative_globs:
            start = self._describe_file(os.path.join(self._home, self._to_session_path(path or "/")))["path"]
            matches = [FileInfo(path=os.path.relpath(one["path"], start), is_dir=False) for one in matches]
        if result.data["truncated"]:
            return GlobResult(matches=matches, truncated=True, truncation_reason="budget")
        if result.notes:
            return GlobResult(matches=matches, truncated=True, truncation_reason="unreadable")
        return GlobResult(matches=matches)

    def write(self, file_path: str, content: str) -> WriteResult:
        result = self._call("write_file", file_path=self._to_session_path(file_path), content=content)
        return WriteResult(path=file_path) if result.ok else WriteResult(error=result.text)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        named = self._to_session_path(file_path)
        arguments = {"file_path": named, "old_string": old_string, "new_string": new_string, "replace_all": replace_all}
        result = self._call("edit_file", **arguments)
        if result.error and result.error.code == "not_seen":
            self._call("read_file", file_path=named, limit=1)
            result = self._call("edit_file", **arguments)
        return EditResult(path=file_path, occurrences=result.data["replaced"]) if result.ok else _fail_edit(result)

    def delete(self, file_path: str) -> DeleteResult:
        """One file; a directory is refused, and so is a file that was not read."""
        named = self._to_session_path(file_path)
        if "\n" in named or "\r" in named:
            return DeleteResult(error="Error: a file with a line break in its name cannot be deleted here")
        result = self._call("delete", patch=f"*** Begin Patch\n*** Delete File: {named}\n*** End Patch")
        return DeleteResult(path=file_path) if result.ok else DeleteResult(error=result.text)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [self._upload(path, content) for path, content in files]

    def _upload(self, path: str, content: bytes) -> FileUploadResponse:
        if not path.startswith("/"):
            return FileUploadResponse(path, "invalid_path")
        encoded = base64.b64encode(content).decode("ascii")
        result = self._call("upload_file", file_path=self._to_session_path(path), content=encoded)
        return FileUploadResponse(path, None if result.ok else _name_error(result))

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [self._download(path) for path in paths]

    def _download(self, path: str) -> FileDownloadResponse:
        if not path.startswith("/"):
            return FileDownloadResponse(path, error="invalid_path")
        raw = self._read_bytes(path)
        return (
            FileDownloadResponse(path, raw)
            if isinstance(raw, bytes)
            else FileDownloadResponse(path, error=_name_error(raw))
        )

    def _read_bytes(self, path: str) -> bytes | Result:
        """The whole file, once a read of it was judged and recorded; or why not."""
        named = self._to_session_path(path)
        result = self._call("read_file", file_path=named, limit=1)
        if not result.ok and (result.error is None or result.error.code != "binary_file"):
            return result
        workspace = self._session.workspace
        try:
            return load(workspace, workspace.resolve(named), _MOST_BYTES).raw
        except ToolError as error:
            return Result("read_file", "error", str(error))

    def _call(self, tool: str, **arguments: object) -> Result:
        return self._session.call(tool, arguments)

    def _to_session_path(self, path: str) -> str:
        """A path of the framework's as the session knows it; a real path, as commands show it, will do too."""
        if path == _KEPT or path.startswith(_KEPT + "/"):
            return ALIAS + path[len(_KEPT) :]
        roots = [os.path.realpath(root.path) for root in self._session.workspace.roots]
        if any(path == root or path.startswith(root + "/") for root in roots):
            return path
        return path.lstrip("/") or "."

    def _to_framework_path(self, path: str) -> str:
        if self._real_paths and not path.startswith(ALIAS + "/"):
            return os.path.join(self._home, path)
        if path == self._home or path.startswith(self._home + "/"):
            return path[len(self._home) :] or "/"
        return _KEPT + path[len(ALIAS) :] if path.startswith(ALIAS + "/") else path

    def _describe_file(self, path: str, directory: bool = False) -> FileInfo:
        shown = self._to_framework_path(path)
        return FileInfo(path=shown.rstrip("/") or "/", is_dir=directory)


class HandrailSandbox(HandrailBackend, SandboxBackendProtocol):
    """The same with commands, in the session's own boundary. Paths are shown as commands need them."""

    _real_paths = True

    @property
    def id(self) -> str:
        return f"handrail-{self._session.origin.session}"

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        return self._build_response(self._session.call("execute", {"command": command, "timeout": timeout or None}))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        """The same; a command whose task is cancelled is ended."""
        arguments = {"command": command, "timeout": timeout or None}
        return self._build_response(await AsyncCalls(self._session).call("execute", arguments))

    def _build_response(self, result: Result) -> ExecuteResponse:
        if not result.ok:
            return ExecuteResponse(result.text, _NOT_RUN)
        data, output = result.data, result.text
        if data["truncated"] and data["log"]:  # the framework keeps long output out of the conversation itself
            whole = self._read_bytes(self._to_framework_path(data["log"]))
            if isinstance(whole, bytes) and len(whole) <= _MOST_OUTPUT:
                return ExecuteResponse(whole.decode("utf-8", "replace"), data["exit_code"], False)
        if data["truncated"] and data["log"]:
            output += f"\n(all of it is in {self._to_framework_path(data['log'])})"
        return ExecuteResponse(output, data["exit_code"], data["truncated"])


def _name_error(result: Result) -> str:
    """Why a file could not be moved in or out, in the framework's words where it has one."""
    code = result.error.code if result.error else ""
    return "permission_denied" if result.status == "denied" else _ERRORS.get(code, result.text)


def _strip_prefix(result: Result) -> str:
    """Why a call failed, without the word that the framework puts before it."""
    return result.text.removeprefix("Error: ")


def _fail_edit(result: Result) -> EditResult:
    return EditResult(error=result.text)
