"""Parse JSON-RPC messages of both generations of MCP, or return the error that the protocol defines.

With a handshake (up to 2025-11-25) version and capabilities are agreed once, by `initialize`. With an envelope
(2026-07-28) they are in `_meta` of every request. No I/O, and nothing heavy is imported.
"""

from __future__ import annotations

import json

from handrail.version import __version__

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping

    from handrail.json_types import JsonMapping, JsonObject

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE = ("2026-07-28",)

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
BUSY = -32000
HTTP_STATUS = {
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION), 400),
    METHOD_NOT_FOUND: 404,
}
"""The status of an HTTP response with such an error, in the envelope generation; others have 200."""

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
SERVER = {"name": "handrail", "title": "Handrail", "version": __version__}

_MOST_NAME = 100
_HALF = "\\ud"
"""How JSON in ASCII writes half a character; two of them may be a whole one."""

MOST_BYTES = 64 << 20
"""The longest frame that is read."""


def describe_server(root: str = "") -> str:
    """The instructions of the server, which clients give to their model."""
    where = (
        f"The workspace is {root}; relative paths start there. " if root else "Relative paths start in the workspace. "
    )
    return (
        where
        + "Use these tools for all work on its files and for commands, instead of other tools for files and for the "
        "shell: they check every call, record it, and let the user undo it."
    )


class ProtocolError(Exception):
    """A request that cannot be answered: the protocol's code, a sentence, and data where the protocol wants some."""

    def __init__(self, code: int, message: str, data: object = None, id: int | str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.id = id


class CannotOpen(Exception):
    """No session can be opened; the text says why, for a person."""


class Message:
    """A request (it has an id), a notification (it has none), or an answer to a request of ours (it has no method)."""

    __slots__ = ("answer", "error", "id", "method", "params")

    def __init__(
        self, id: int | str | None, method: str, params: dict[str, object], answer: object, error: object
    ) -> None:
        self.id = id
        self.method = method
        self.params = params
        self.answer = answer
        self.error = error


class ClientInfo:
    """The client of a request: its protocol version, generation and capabilities."""

    __slots__ = ("capabilities", "enveloped", "name", "version")

    def __init__(
        self, version: str, capabilities: Mapping[str, object], enveloped: bool = False, info: object = None
    ) -> None:
        """``info``: the client's own description of itself."""
        name = info.get("name") if isinstance(info, dict) else None
        self.name = name[:_MOST_NAME] if isinstance(name, str) else ""
        self.version = version
        self.capabilities = capabilities
        self.enveloped = enveloped

    @property
    def shows_forms(self) -> bool:
        """Whether a person can be asked through this client. An empty declaration means forms, as it did at first."""
        declared = self.capabilities.get("elicitation")
        return isinstance(declared, dict) and ("form" in declared or "url" not in declared)


def parse(line: bytes) -> Message:
    """One frame; raises `ProtocolError`, with the id of the request where it can be known."""
    try:
        value = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ProtocolError(PARSE_ERROR, f"the frame is not UTF-8 (byte {error.start + 1})") from None
    except RecursionError:
        raise ProtocolError(PARSE_ERROR, "the frame is nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(PARSE_ERROR, f"the frame is not JSON: {error}") from None
    if isinstance(value, list):
        raise ProtocolError(INVALID_REQUEST, "this protocol has no batches: send one object per line")
    if not isinstance(value, dict):
        raise ProtocolError(INVALID_REQUEST, "the frame is not an object")
    name = value.get("id")
    if "id" in value and (not isinstance(name, int | str) or isinstance(name, bool)):
        raise ProtocolError(INVALID_REQUEST, "the id is neither a string nor an integer")
    if value.get("jsonrpc") != "2.0":
        raise ProtocolError(INVALID_REQUEST, 'the message has no "jsonrpc": "2.0"', id=name)
    method = value.get("method")
    if method is None and name is not None and ("result" in value or "error" in value):
        return Message(name, "", {}, value.get("result"), value.get("error"))
    if not isinstance(method, str) or not method:
        raise ProtocolError(INVALID_REQUEST, "the message has no method", id=name)
    params = value.get("params", {})
    if not isinstance(params, dict):
        raise ProtocolError(INVALID_PARAMS, "params is not an object", id=name)
    return Message(name, method, params, None, None)


def get_meta(params: Mapping[str, object]) -> JsonMapping:
    """Return `_meta` of a request; empty if it is not an object."""
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def has_envelope(params: Mapping[str, object]) -> bool:
    """Whether a request belongs to the era without a handshake. The version alone tells, as nothing older sends it."""
    return VERSION_KEY in get_meta(params)


def read_client(params: Mapping[str, object]) -> ClientInfo:
    """Read the client from an envelope; raises `ProtocolError` if it is incomplete, or the version is not supported."""
    meta = get_meta(params)
    version, capabilities = meta.get(VERSION_KEY), meta.get(CAPABILITIES_KEY)
    if not isinstance(version, str):
        raise ProtocolError(INVALID_PARAMS, f"_meta must have {VERSION_KEY}, a string")
    if version not in ENVELOPE:
        raise refuse_version(version)
    if not isinstance(capabilities, dict):
        raise ProtocolError(INVALID_PARAMS, f"_meta must have {CAPABILITIES_KEY}, an object")
    return ClientInfo(version, capabilities, True, meta.get(CLIENT_KEY))


def refuse_version(version: str) -> ProtocolError:
    """The error for a version that is not supported."""
    data = {"supported": [*ENVELOPE, *HANDSHAKE], "requested": version}
    return ProtocolError(UNSUPPORTED_VERSION, f"the protocol version {version[:40]!r} is not supported", data)


def read_handshake(params: Mapping[str, object]) -> ClientInfo:
    """Read the client from `initialize`; a version that is not supported is answered with the latest that is."""
    version, capabilities = params.get("protocolVersion"), params.get("capabilities", {})
    if not isinstance(version, str):
        raise ProtocolError(INVALID_PARAMS, "initialize needs protocolVersion, a string")
    if not isinstance(capabilities, dict):
        raise ProtocolError(INVALID_PARAMS, "capabilities is not an object")
    known = version if version in HANDSHAKE else HANDSHAKE[-1]
    return ClientInfo(known, capabilities, info=params.get("clientInfo"))


def complete_result(result: JsonObject) -> dict[str, object]:
    """Complete a result for the envelope generation: its type and the server."""
    result.setdefault("resultType", "complete")
    result["_meta"] = {**result.get("_meta", {}), SERVER_KEY: SERVER}
    return result


def make_result_frame(id: int | str, result: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def make_fault_frame(id: int | str | None, fault: ProtocolError) -> dict[str, object]:
    error: dict[str, object] = {"code": fault.code, "message": fault.message}
    if fault.data is not None:
        error["data"] = fault.data
    return {"jsonrpc": "2.0", "id": id, "error": error}


def encode(message: Mapping[str, object]) -> bytes:
    """A message as one line, in ASCII: no reader in any locale takes a character for the end of a line."""
    text = json.dumps(message, allow_nan=False, separators=(",", ":"))
    if _HALF in text:
        text = json.dumps(replace_half_characters(message), separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def replace_half_characters(message: Mapping[str, object]) -> dict[str, object]:
    """A message in well-formed Unicode: half a character would make the whole of it unreadable for strict readers."""
    if _HALF not in json.dumps(message):
        return dict(message)
    from handrail.text.display import replace_surrogates

    clean: dict[str, object] = json.loads(replace_surrogates(json.dumps(message, ensure_ascii=False)))
    return clean


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")
