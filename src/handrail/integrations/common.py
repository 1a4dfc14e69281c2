"""Shared by all integrations: make the calls of one model reply, in the right order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from handrail.model import Result
from handrail.pipeline.any_session import AnySession
from handrail.pipeline.async_calls import AsyncCalls

GivenSession = AnySession | AsyncCalls
FrameworkCall = TypeVar("FrameworkCall")
Reply = TypeVar("Reply")


class RequestedCall(NamedTuple):
    """One tool call with the arguments of `Session.call`, which answers malformed JSON itself."""

    tool: str
    arguments: Mapping[str, object] | str | None
    id: str = ""


ToRequestedCalls = Callable[[FrameworkCall], Sequence[RequestedCall]]
"""Translates a framework's call; into several tool calls if it holds several commands."""
ToReply = Callable[[FrameworkCall, Sequence[Result]], Reply]


def sync_session(session: GivenSession) -> AnySession:
    return session.session if isinstance(session, AsyncCalls) else session


def async_session(session: GivenSession) -> AsyncCalls:
    return session if isinstance(session, AsyncCalls) else AsyncCalls(session)


class CallOrder:
    """Orders calls that arrive together: read-only calls run at the same time, any other call runs alone.

    A model may send two edits of one file in one reply, or an edit and the command that tests it, and expects them to
    be made in the order in which it wrote them.
    """

    def __init__(self, session: GivenSession) -> None:
        self._read_only = {spec.name for spec in sync_session(session).specs() if spec.hints.read_only}
        self._waiting: list[tuple[bool, asyncio.Event]] = []

    @asynccontextmanager
    async def turn(self, *tools: str) -> AsyncIterator[None]:
        alone = not self._read_only.issuperset(tools)
        mine = (alone, asyncio.Event())
        before = [done for was_alone, done in self._waiting if alone or was_alone]
        self._waiting.append(mine)
        try:
            for done in before:
                await done.wait()
            yield
        finally:
            self._waiting.remove(mine)
            mine[1].set()


def answer_calls(
    session: GivenSession,
    calls: Iterable[FrameworkCall],
    tool_calls: ToRequestedCalls[FrameworkCall],
    reply: ToReply[FrameworkCall, Reply],
) -> list[Reply]:
    """Make the calls of one message one after another and return the reply to each."""
    call = sync_session(session).call
    return [reply(one, [call(step.tool, step.arguments, id=step.id) for step in tool_calls(one)]) for one in calls]


async def async_answer_calls(
    session: GivenSession,
    calls: Iterable[FrameworkCall],
    tool_calls: ToRequestedCalls[FrameworkCall],
    reply: ToReply[FrameworkCall, Reply],
) -> list[Reply]:
    """Do the same without blocking the event loop; read-only calls are made at the same time."""
    order, ours = CallOrder(session), async_session(session)

    async def answer(one: FrameworkCall) -> Reply:
        steps = tool_calls(one)
        async with order.turn(*(step.tool for step in steps)):
            return reply(one, [await ours.call(step.tool, step.arguments, id=step.id) for step in steps])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(one)) for one in calls]
    return [task.result() for task in tasks]
