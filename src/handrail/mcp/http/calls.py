"""Make the calls that arrive over HTTP, each in a worker thread; a call is cancelled when its client has gone.

A session serves one principal and one conversation; the call that runs in it is known by a context variable, which
the worker thread inherits, so that the question of an `ask` verdict goes to the client that made the call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
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

from handrail.approval import elicitation
from handrail.approval.answer_tokens import AnswerTokens
from handrail.approval.ask_attached import Approvers
from handrail.mcp import tool_list
from handrail.mcp.http.principals import Principal
from handrail.mcp.progress import CallProgress
from handrail.mcp.protocol import BUSY, CLIENT_KEY, ClientInfo, get_meta, replace_half_characters
from handrail.mcp.sessions import CannotOpen, Sessions, get_conversation, read_model
from handrail.model import Answer, Question
from handrail.pipeline.session import Session
from handrail.wire import mcp

_TICK = 1.0
_ANSWERED_TICK = 0.1
"""Seconds between two looks at whether a question was answered elsewhere."""
_THREADS = 32

_current: ContextVar[HttpCall | None] = ContextVar("handrail_call", default=None)


def approve(question: Question) -> Answer:
    """The `approve` of every session: asks the client of the call that runs."""
    call = _current.get()
    assert call is not None
    return call.answer(question)


class PrincipalService:
    """The tools, sessions and running calls of one principal."""

    def __init__(
        self, principal: Principal, sessions: Sessions, tokens: AnswerTokens, structured: bool, most_calls: int
    ) -> None:
        self.principal = principal
        self.sessions = sessions
        self.tokens = tokens
        self.structured = structured
        self.tools = [mcp.build_definition(spec) for spec in tool_list.list_specs(principal.dialect, principal.tools)]
        self.running: set[HttpCall] = set()
        self._most_calls = most_calls
        self._ending = False
        self.limiter = anyio.CapacityLimiter(_THREADS)

    @property
    def busy(self) -> bool:
        """Whether so much runs, or waits to, that no more is taken."""
        return len(self.running) >= self._most_calls

    async def call(self, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> dict[str, Any]:
        """A `tools/call`, from start to end; raises `MCPError` for one that cannot be made."""
        if params.name not in {tool["name"] for tool in self.tools}:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        if self._ending:
            raise MCPError(BUSY, "the server is shutting down")
        if self.busy:
            raise MCPError(BUSY, "too many calls at once; send it again when some have been answered")
        call = HttpCall(self, ctx, params)
        self.running.add(call)
        try:
            return await call.perform()
        finally:
            self.running.discard(call)

    def stop(self) -> None:
        """End the running calls, and accept no new ones."""
        self._ending = True
        for call in self.running:
            call.leave()


class HttpCall:
    """One running call."""

    def __init__(
        self, service: PrincipalService, ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams
    ) -> None:
        self.service = service
        self.ctx = ctx
        self.params = params
        self.sent: Mapping[str, Any] = ctx.params or {}
        self.meta = get_meta(self.sent)
        self.thread = get_conversation(self.meta)
        declared = ctx.session.client_capabilities
        capabilities = declared.model_dump(by_alias=True, exclude_none=True) if declared else {}
        known = ctx.session.client_params
        info = self.meta.get(CLIENT_KEY) or (known.client_info.model_dump() if known else None)
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.client = ClientInfo(ctx.protocol_version, capabilities, modern, info)
        self.cancel = threading.Event()
        self.gone = anyio.Event()
        self.fault: MCPError | None = None
        self.session: Session | None = None
        self.progress: CallProgress | None = None

    def leave(self) -> None:
        """Cancel the call, because nobody waits for its result. Called from the thread of the event loop."""
        self.cancel.set()
        self.gone.set()

    async def perform(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            if self.meta.get("progressToken") is not None:
                self.progress = CallProgress(self.params.name)
                group.start_soon(self._report, self.progress)
            _current.set(self)  # this task is the call's own, and the thread inherits it
            result = await anyio.to_thread.run_sync(self._run, limiter=self.service.limiter)
            group.cancel_scope.cancel()
        if self.fault:  # raised here, for a group of tasks would wrap it
            raise self.fault
        return result

    async def _watch(self) -> None:
        # The thread cannot be cancelled, and is waited for: it is told, and ends soon.
        try:
            await anyio.sleep_forever()
        finally:
            self.leave()

    async def _report(self, progress: CallProgress) -> None:
        while True:
            await anyio.sleep(_TICK)
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await self.ctx.session.report_progress(progress.seconds, None, progress.describe())

    def _run(self) -> dict[str, Any]:
        """In the worker thread."""
        try:
            with self.service.sessions.use(self.thread) as session:
                result = self._run_call(session)
        except CannotOpen as error:
            result = mcp.build_failed_result(str(error), "no_session")
        except elicitation.InputRequired as asked:
            result = asked.result()
        except elicitation.ForgedToken as forged:
            self.fault = MCPError(INVALID_PARAMS, str(forged))
            result = {}
        except elicitation.Withdrawn:
            result = mcp.build_failed_result("the call was cancelled while waiting for approval", "cancelled")
        return replace_half_characters(result)

    def _run_call(self, session: Session) -> dict[str, Any]:
        self.session = session
        session.name_source(self.client.name, read_model(self.meta))
        arguments = mcp.drop_client_arguments(self.params.arguments)
        listener = self.progress.take_event if self.progress else None
        result = session.call(self.params.name, arguments, cancel=self.cancel, on_event=listener)
        return mcp.call_result(result, self.service.structured)

    def answer(self, question: Question) -> Answer:
        """In the worker thread: ask the person behind the client; raises `Unanswered` if the call ends without one."""
        assert self.session
        ask = elicitation.Elicitation(
            self.client.version,
            self.client.shows_forms,
            self.client.enveloped,
            self.sent,
            (self.service.principal.name, self.thread),
            self._send,
            Approvers.of(self.session, always=False),
            self.service.tokens,
            always=False,  # a rule that is written down would hold for every principal of this server
        )
        return ask(replace(question, client=self.service.principal.name))

    def _send(self, form: Mapping[str, Any], elsewhere: threading.Event) -> Any:
        reply = anyio.from_thread.run(self._elicit, form, elsewhere)
        if reply is None:
            raise elicitation.Withdrawn
        if not reply:
            raise elicitation.CannotAsk
        return reply

    async def _elicit(self, form: Mapping[str, Any], elsewhere: threading.Event) -> dict[str, Any] | None:
        """The client's reply; None if nobody waits any more, empty if the client cannot be asked after all."""
        result: dict[str, Any] | None = None

        async def give_up() -> None:
            while not elsewhere.is_set() and not self.gone.is_set():
                await anyio.sleep(_ANSWERED_TICK)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(give_up)
            try:
                reply = await self.ctx.session.elicit_form(
                    form["message"], form["requestedSchema"], self.ctx.request_id
                )
                result = reply.model_dump(by_alias=True, exclude_none=True)
            except (NoBackChannelError, MCPError):
                result = {}
            group.cancel_scope.cancel()
        return result
