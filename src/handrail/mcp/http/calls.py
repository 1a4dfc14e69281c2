"""Make the calls that arrive over HTTP, each in a worker thread; a call is cancelled when its client has gone.

A session serves one principal and one conversation; the call that runs in a worker thread is known by a context
variable, so that the question of an `ask` verdict goes to the client that made the call.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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
from handrail.pipeline.any_session import AnySession
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
        self._is_opened = False
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
        call = StreamedCall(self, ctx)
        with self.track(call):
            return await call.perform()

    def open_early(self) -> None:
        """Open a session on a thread, once: the first call is the slowest, and a client may not wait long for it."""
        if not self._is_opened:
            self._is_opened = True
            threading.Thread(target=self._open, name="handrail-open", daemon=True).start()

    def _open(self) -> None:
        with suppress(CannotOpen), self.sessions.use("") as session:  # the first call says why it cannot
            session.specs()  # imports every tool

    @property
    def accepts(self) -> bool:
        """Whether a call can begin now."""
        return not self._ending and not self.busy

    @contextmanager
    def track(self, call: HttpCall) -> Iterator[None]:
        """Count a call as running."""
        self.running.add(call)
        try:
            yield
        finally:
            self.running.discard(call)

    def stop(self) -> None:
        """End the running calls, and accept no new ones."""
        self._ending = True
        for call in self.running:
            call.leave()


def read_client(ctx: ServerRequestContext[Any, Any]) -> ClientInfo:
    """The client of a request that the SDK has let in."""
    declared, known = ctx.session.client_capabilities, ctx.session.client_params
    capabilities = declared.model_dump(by_alias=True, exclude_none=True) if declared else {}
    info = get_meta(ctx.params or {}).get(CLIENT_KEY) or (known.client_info.model_dump() if known else None)
    return ClientInfo(ctx.protocol_version, capabilities, ctx.protocol_version in MODERN_PROTOCOL_VERSIONS, info)


class HttpCall(ABC):
    """One running call."""

    def __init__(self, service: PrincipalService, sent: Mapping[str, Any], client: ClientInfo) -> None:
        """``sent``: the params of the request, as they came."""
        self.service = service
        self.sent = sent
        self.client = client
        self.meta = get_meta(sent)
        self.thread = get_conversation(self.meta)
        self.cancel = threading.Event()
        self.progress: CallProgress | None = None
        self.session: AnySession | None = None

    def leave(self) -> None:
        """Cancel the call, because nobody waits for its result. Called from the thread of the event loop."""
        self.cancel.set()

    def run(self) -> dict[str, Any]:
        """Make the call, in a worker thread; raises `Unanswered` if it ends because of a question."""
        before = _current.set(self)
        try:
            with self.service.sessions.use(self.thread) as session:
                return self._run_call(session)
        except CannotOpen as error:
            return mcp.build_failed_result(str(error), "no_session")
        finally:
            _current.reset(before)

    def _run_call(self, session: AnySession) -> dict[str, Any]:
        self.session = session
        session.name_source(self.client.name, read_model(self.meta))
        arguments = mcp.drop_client_arguments(self.sent.get("arguments"))
        listener = self.progress.take_event if self.progress else None
        result = session.call(self.sent["name"], arguments, cancel=self.cancel, on_event=listener)
        return mcp.call_result(result, self.service.structured)

    @abstractmethod
    def answer(self, question: Question) -> Answer:
        """In the worker thread: ask the person behind the client; raises `Unanswered` if the call ends without one."""


class StreamedCall(HttpCall):
    """A call that the SDK has let in, with a stream to its client for progress and questions."""

    def __init__(self, service: PrincipalService, ctx: ServerRequestContext[Any, Any]) -> None:
        super().__init__(service, ctx.params or {}, read_client(ctx))
        self.ctx = ctx
        self.gone = anyio.Event()
        self.fault: MCPError | None = None

    def leave(self) -> None:
        super().leave()
        self.gone.set()

    async def perform(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch)
            if self.meta.get("progressToken") is not None:
                self.progress = CallProgress(self.sent["name"])
                group.start_soon(self._report, self.progress)
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
            result = self.run()
        except elicitation.InputRequired as asked:
            result = asked.result()
        except elicitation.ForgedToken as forged:
            self.fault = MCPError(INVALID_PARAMS, str(forged))
            result = {}
        except elicitation.Withdrawn:
            result = mcp.build_failed_result("the call was cancelled while waiting for approval", "cancelled")
        return replace_half_characters(result)

    def answer(self, question: Question) -> Answer:
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
