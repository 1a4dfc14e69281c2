"""Answer the requests of the protocol that are not calls: who we are, and which tools there are.

No I/O, and nothing heavy is imported: on stdio these are answered before the engine is there.
"""

from __future__ import annotations

from handrail.mcp import protocol
from handrail.mcp.protocol import ClientInfo, ProtocolError
from handrail.wire.mcp import FRESHNESS, build_definition

TYPE_CHECKING = False  # the name that type checkers know, without the cost of importing `typing`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handrail.json_types import JsonObject


class Offer:
    """What a server says of itself."""

    def __init__(self, specs: Sequence[JsonObject], root: str = "", *, structured: bool = False) -> None:
        self._tools = [build_definition(spec, structured) for spec in specs]
        self._names = [spec["name"] for spec in specs]
        self._about = protocol.describe_server(root)

    def greet(self, client: ClientInfo) -> dict[str, object]:
        """The result of `initialize`."""
        return {"protocolVersion": client.version, **self._introduce(), "serverInfo": protocol.SERVER}

    def answer(self, method: str, params: Mapping[str, object], client: ClientInfo | None) -> JsonObject | None:
        """The result; None for a call that can be made. Raises `ProtocolError`."""
        if method == "ping" and not (client and client.enveloped):
            return {}
        if method not in ("server/discover", "tools/list", "tools/call"):
            raise ProtocolError(protocol.METHOD_NOT_FOUND, f"unknown method {method[:80]!r}", {"method": method[:80]})
        if client is None or (method == "server/discover" and not client.enveloped):
            expected = f"send initialize first, or _meta with {protocol.VERSION_KEY} and {protocol.CAPABILITIES_KEY}"
            raise ProtocolError(protocol.INVALID_PARAMS, f"the protocol version is unknown: {expected}")
        if method == "tools/call":
            self._check_call(params)
            return None
        if method == "server/discover":
            spoken = [*protocol.ENVELOPE, *reversed(protocol.HANDSHAKE)]
            return protocol.complete_result({"supportedVersions": spoken, **self._introduce(), **FRESHNESS})
        if params.get("cursor") is not None:
            raise ProtocolError(protocol.INVALID_PARAMS, "the list has only one page: leave out cursor")
        listed = {"tools": self._tools}
        return protocol.complete_result({**listed, **FRESHNESS}) if client.enveloped else listed

    def _check_call(self, params: Mapping[str, object]) -> None:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise ProtocolError(protocol.INVALID_PARAMS, "tools/call needs name, a string")
        if name not in self._names:
            raise ProtocolError(
                protocol.INVALID_PARAMS, f"unknown tool {name[:80]!r}; the tools are {', '.join(self._names)}"
            )
        if arguments is not None and not isinstance(arguments, dict):
            raise ProtocolError(protocol.INVALID_PARAMS, "arguments is not an object")

    def _introduce(self) -> dict[str, object]:
        return {"capabilities": {"tools": {}}, "instructions": self._about}
