"""Calls that came by HTTP: each in a worker thread, cancelled when nobody waits for it, asked about where that can be.

A session serves one principal and one conversation; the call that runs in it is known by a context variable, which
the worker thread inherits, so that the question of an `ask` verdict goes to the client that made the call.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import INVALID_PARAMS, CallToolRequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from handrail.mcp import asking, offer, wire
from handrail.mcp.http_principals import Principal
from handrail.mcp.protocol import Client, meta_of
from handrail.mcp.sessions import CannotOpen, Sessions
from handrail.prepared import Answer, Prepared
from handrail.session import Session

_TICK = 1.0
_THREADS = 32

_current: ContextVar[Call | None] = ContextVar("handrail_call", default=None)


def approve(prepared: Prepared) -> Answer:
    """What a session does with an `ask` verdict: the client of the call that runs is asked."""
    call = _current.get()
    if call is None:
        raise asking.refusal(prepared)
    return call.answer(prepared)


class Desk:
    """What one principal is offered, and what runs for it."""

    def __init__(self, principal: Principal, sessions: Sessions, seals: asking.Seals, structured: bool) -> None:
        self.principal = principal
        self.sessions = sessions
        self.seals = seals
        self.structured = structured
        self.tools = [wire.definition(spec) for spec in offer.specs(principal.dialect, principal.tools)]
        self.running: set[Call] = set()
        self.limiter = anyio.CapacityLimiter(_THREADS)

    async def call(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> dict[str, Any]:
        """A `tools/call`, from start to end; raises `MCPError` for a tool that is not offered."""
        if params.name not in {tool["name"] for tool in self.tools}:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        call = Call(self, ctx, params)
        self.running.add(call)
        try:
            return await call.made()
        finally:
            self.running.discard(call)

    def stop(self) -> None:
        """End what runs, soon."""
        for call in self.running:
            call.leave()


class Call:
    """One call under way."""

    def __init__(self, desk: Desk, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> None:
        self.desk = desk
        self.ctx = ctx
        self.params = params
        self.meta = meta_of({"_meta": dict((ctx.params or {}).get("_meta") or {})})
        declared = ctx.session.client_capabilities
        capabilities = declared.model_dump(by_alias=True, exclude_none=True) if declared else {}
        self.client = Client(ctx.protocol_version, capabilities, ctx.protocol_version in MODERN_PROTOCOL_VERSIONS)
        self.cancel = threading.Event()
        self.gone = anyio.Event()

    def leave(self) -> None:
        """Nobody waits for the answer any more; what runs ends soon. From the thread of the event loop."""
        self.cancel.set()
        self.gone.set()

    async def made(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            if self.meta.get("progressToken") is not None:
                group.start_soon(self._tell)
            _current.set(self)  # this task is the call's own, and the thread inherits it
            result = await anyio.to_thread.run_sync(self._run, limiter=self.desk.limiter)
            group.cancel_scope.cancel()
        return result

    async def _watch(self) -> None:
        # The thread cannot be cancelled, and is waited for: it is told, and ends soon.
        try:
            await anyio.sleep_forever()
        finally:
            self.leave()

    async def _tell(self) -> None:
        begun = time.monotonic()
        while True:
            await anyio.sleep(_TICK)
            seconds = round(time.monotonic() - begun, 1)
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self.ctx.session.report_progress(seconds, None, f"{self.params.name}: {seconds:.0f} s")

    def _run(self) -> dict[str, Any]:
        """In the worker thread."""
        try:
            with self.desk.sessions.use(self._thread()) as session:
                made = self._called(session)
        except CannotOpen as error:
            made = wire.failed_result(str(error), "no_session")
        except asking.InputRequired as asked:
            made = asked.result()
        except asking.Withdrawn:
            made = wire.failed_result("the call was cancelled while a person was asked", "cancelled")
        return sound(made)

    def _called(self, session: Session) -> dict[str, Any]:
        arguments = self.params.arguments or {}
        result = session.call(self.params.name, arguments, cancel=self.cancel)
        return wire.call_result(result, self.desk.structured)

    def _thread(self) -> str:
        """Which conversation this belongs to, where the client says so."""
        for name in ("threadId", "sessionId"):
            if isinstance(given := self.meta.get(name), str) and given:
                return f"{name}:{given[:200]}"
        return ""

    def answer(self, prepared: Prepared) -> Answer:
        """In the worker thread: what the person behind the client says; raises what ends the call without one."""
        if not self.client.shows_forms:
            raise asking.refusal(prepared)
        # A rule that is written down would hold for every principal of this server: the choice is not offered.
        prepared = replace(prepared, verdict=replace(prepared.verdict, allow=""))
        preview = asking.preview_of(prepared)
        question = asking.question(prepared, preview, self.client.version)
        said = (
            self._enveloped(prepared, preview, question) if self.client.enveloped else self._asked(prepared, question)
        )
        answer = asking.meaning(said)
        return replace(answer, lasting="session") if answer.lasting == "always" else answer

    def _enveloped(self, prepared: Prepared, preview: str, question: dict[str, Any]) -> Any:
        shown = (self.desk.principal.name, self._thread(), prepared.call.tool, dict(prepared.call.arguments), preview)
        sent = (self.ctx.params or {}).get("inputResponses")
        reply = sent.get(asking.KEY) if isinstance(sent, dict) else None
        if reply is not None and self.desk.seals.holds(self.params.request_state, *shown):
            return reply
        raise asking.InputRequired(question, self.desk.seals.seal(*shown))

    def _asked(self, prepared: Prepared, question: dict[str, Any]) -> Any:
        said = anyio.from_thread.run(self._elicited, question)
        if said is None:
            raise asking.Withdrawn
        if not said:
            raise asking.refusal(prepared)
        return said

    async def _elicited(self, question: dict[str, Any]) -> dict[str, Any] | None:
        """The client's answer; None if nobody waits any more, empty if the client cannot be asked after all."""
        said: dict[str, Any] | None = None

        async def give_up() -> None:
            await self.gone.wait()
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(give_up)
            try:
                reply = await self.ctx.session.elicit_form(
                    question["message"], question["requestedSchema"], self.ctx.request_id
                )
                said = reply.model_dump(by_alias=True, exclude_none=True)
            except (NoBackChannelError, MCPError):
                said = {}
            group.cancel_scope.cancel()
        return said


def sound(made: dict[str, Any]) -> dict[str, Any]:
    """A result in well-formed Unicode: half a character would make the whole answer unreadable."""
    if "\\ud" in json.dumps(made):
        from handrail.text.shown import readable

        made = json.loads(readable(json.dumps(made, ensure_ascii=False)))
    return made
