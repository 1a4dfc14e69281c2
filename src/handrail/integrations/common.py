"""What all exports share: the calls of one reply and their order, and the pictures of a result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

from handrail.aio import AsyncSession
from handrail.model import Result
from handrail.pipeline.session import Session

AnySession = Session | AsyncSession
Wanted = TypeVar("Wanted")
Reply = TypeVar("Reply")


class Ask(NamedTuple):
    """One call of a tool, as `Session.call` takes it; malformed JSON is answered there."""

    tool: str
    arguments: Mapping[str, Any] | str | None
    id: str = ""


Asks = Callable[[Wanted], Sequence[Ask]]
"""What a framework's call comes to; several for a call with several commands."""
Replies = Callable[[Wanted, Sequence[Result]], Reply]


def plain(session: AnySession) -> Session:
    return session.session if isinstance(session, AsyncSession) else session


def awaited(session: AnySession) -> AsyncSession:
    return session if isinstance(session, AsyncSession) else AsyncSession(session)


def pictures(result: Result) -> list[Mapping[str, Any]]:
    """What a result shows besides its text: blocks with `base64` and `mime_type`."""
    return [block for block in result.blocks if block["type"] == "image"]


def data_url(picture: Mapping[str, Any]) -> str:
    return f"data:{picture['mime_type']};base64,{picture['base64']}"


class Turns:
    """The order of calls that arrive together: those that only read run at once, any other one alone.

    A model may send two edits of one file in one reply, or an edit and the command that tests it, and means them in
    the order in which it wrote them.
    """

    def __init__(self, session: AnySession) -> None:
        self._reading = {spec.name for spec in plain(session).specs() if spec.hints.read_only}
        self._ahead: list[tuple[bool, asyncio.Event]] = []

    @asynccontextmanager
    async def turn(self, *tools: str) -> AsyncIterator[None]:
        alone = not self._reading.issuperset(tools)
        mine = (alone, asyncio.Event())
        before = [done for was_alone, done in self._ahead if alone or was_alone]
        self._ahead.append(mine)
        try:
            for done in before:
                await done.wait()
            yield
        finally:
            self._ahead.remove(mine)
            mine[1].set()


def answers(
    session: AnySession, wanted: Iterable[Wanted], asks: Asks[Wanted], reply: Replies[Wanted, Reply]
) -> list[Reply]:
    """The replies to the calls of one message, made one after another."""
    call = plain(session).call
    return [reply(one, [call(ask.tool, ask.arguments, id=ask.id) for ask in asks(one)]) for one in wanted]


async def async_answers(
    session: AnySession, wanted: Iterable[Wanted], asks: Asks[Wanted], reply: Replies[Wanted, Reply]
) -> list[Reply]:
    """The same without blocking the loop; calls that only read are made at the same time."""
    turns, ours = Turns(session), awaited(session)

    async def answered(one: Wanted) -> Reply:
        steps = asks(one)
        async with turns.turn(*(ask.tool for ask in steps)):
            return reply(one, [await ours.call(ask.tool, ask.arguments, id=ask.id) for ask in steps])

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answered(one)) for one in wanted]
    return [task.result() for task in tasks]
