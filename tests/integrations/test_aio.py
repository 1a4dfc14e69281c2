"""The async door: calls in threads, cancelled cleanly, approvals in the caller's own loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest

from handrail import (
    Call,
    Question,
    RunContext,
    Session,
    SessionEvent,
    Settings,
    ToolFinished,
    ToolOutput,
    ToolProgress,
    ToolStarted,
)
from handrail.aio import AsyncSession
from handrail.integrations.common import CallOrder, RequestedCall, async_answer_calls
from handrail.journal import NoJournal, Record
from handrail.model import Answer
from handrail.pipeline import async_calls

READY = "touch started; sleep 600; touch ended"


class Ended(NoJournal):
    """Notes the calls that have come to their end: a record is the last thing that a call does."""

    def __init__(self) -> None:
        self.calls: list[Record] = []

    def record(self, record: Record) -> str:
        self.calls.append(record)
        return super().record(record)


async def until(path: Path) -> None:
    while not path.exists():
        await asyncio.sleep(0.01)


def test_calls_are_made_on_real_files_and_the_session_remembers_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one more\n", encoding="utf-8")

    async def main() -> None:
        async with AsyncSession(Session(tmp_path)) as session:
            edit = {"file_path": "a.txt", "old_string": "one", "new_string": "two"}
            refused = await session.call("Edit", edit)
            assert refused.error and refused.error.code == "not_seen"
            assert (await session.call("Read", '{"file_path": "a.txt"}', id="c1")).id == "c1"
            assert (await session.call("Edit", edit)).status == "ok"
            assert [spec.name for spec in await session.specs()] == [s.name for s in session.session.specs()]

    asyncio.run(main())
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "two more\n"


def test_the_loop_is_free_while_calls_run(tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with AsyncSession(Session(tmp_path)) as session:
            waiting = asyncio.create_task(
                session.call("Bash", {"command": "while ! test -e go; do sleep 0.01; done; echo went"})
            )
            await session.call("Write", {"file_path": "go", "content": ""})  # would never come to pass in a busy loop
            return [(await waiting).text]

    assert asyncio.run(main()) == ["went"]


@pytest.mark.usefixtures("without_drafts")
@pytest.mark.parametrize("times", [1, 3])
def test_a_cancelled_task_ends_its_command_before_it_is_done(tmp_path: Path, times: int) -> None:
    async def main() -> None:
        journal = Ended()
        async with AsyncSession(Session(tmp_path, journal=journal)) as session:
            task = asyncio.create_task(session.call("Bash", {"command": READY}))
            await until(tmp_path / "started")
            for _ in range(times):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [record.result.data["cancelled"] for record in journal.calls] == [True]
            assert (await session.call("LS", {"path": "."})).ok  # the session goes on

    asyncio.run(main())
    assert not (tmp_path / "ended").exists()


@pytest.mark.usefixtures("without_drafts")
def test_an_anyio_scope_that_is_cancelled_ends_the_call_too(tmp_path: Path) -> None:
    async def main() -> None:
        journal = Ended()
        async with AsyncSession(Session(tmp_path, journal=journal)) as session:
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: session.call("Bash", {"command": READY}))
                await until(tmp_path / "started")
                assert not journal.calls
                group.cancel_scope.cancel()
            assert [record.result.data["cancelled"] for record in journal.calls] == [True]

    asyncio.run(main())
    assert not (tmp_path / "ended").exists()


@pytest.mark.usefixtures("without_drafts")
def test_closing_ends_what_still_runs(tmp_path: Path) -> None:
    async def main() -> None:
        session = AsyncSession(Session(tmp_path))
        task = asyncio.create_task(session.call("Bash", {"command": READY}))
        await until(tmp_path / "started")
        await session.close()
        assert (await task).data["cancelled"]

    asyncio.run(main())


def test_an_async_approval_is_awaited_in_the_loop_of_the_caller(tmp_path: Path) -> None:
    loops: list[Any] = []

    async def approve(question: Question) -> bool:
        await asyncio.sleep(0)
        loops.append(asyncio.get_running_loop())
        return "yes.txt" in question.accesses[0].target

    async def main() -> None:
        async with AsyncSession.open(tmp_path, mode="ask", approve=approve) as session:
            done = await session.call("Write", {"file_path": "yes.txt", "content": "y"})
            refused = await session.call("Write", {"file_path": "no.txt", "content": "n"})
            assert (done.status, refused.status) == ("ok", "denied")
            assert loops == [asyncio.get_running_loop()] * 2

    asyncio.run(main())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["yes.txt"]


def test_a_plain_approval_works_and_the_session_may_be_used_without_a_loop(tmp_path: Path) -> None:
    async def approve(_: Question) -> Answer:
        return Answer(True)

    session = AsyncSession.open(tmp_path, mode="ask", approve=lambda _: True)
    assert asyncio.run(session.call("Write", {"file_path": "a", "content": ""})).ok
    asyncio.run(session.close())
    session = AsyncSession.open(tmp_path, mode="ask", approve=approve)
    assert session.session.call("Write", {"file_path": "b", "content": ""}).ok
    session.session.close()


def test_a_call_that_is_cancelled_while_a_person_is_asked_changes_nothing(tmp_path: Path) -> None:
    ended: list[str] = []

    async def main() -> None:
        asked = asyncio.Event()

        async def approve(_: Question) -> bool:
            asked.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("withdrawn")
            return True

        async with AsyncSession.open(tmp_path, mode="ask", approve=approve) as session:
            task = asyncio.create_task(session.call("Write", {"file_path": "a.txt", "content": "a"}))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
    assert ended == ["withdrawn"]
    assert not (tmp_path / "a.txt").exists()


def test_closing_does_not_wait_for_a_person_who_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def approve(_: Question) -> bool:
            asked.set()
            await asyncio.Event().wait()
            return True

        session = AsyncSession.open(tmp_path, mode="ask", approve=approve)
        task = asyncio.create_task(session.call("Write", {"file_path": "a.txt", "content": "a"}))
        await asked.wait()
        await session.close()
        assert (await task).status == "denied"

    asyncio.run(main())


def test_a_fault_of_this_program_reaches_the_caller_as_without_a_thread(tmp_path: Path) -> None:
    async def approve(_: Question) -> bool:
        raise ZeroDivisionError

    async def main() -> None:
        options: dict[str, Any] = {"mode": "ask", "settings": Settings(raise_bugs=True)}
        async with AsyncSession.open(tmp_path, approve=approve, **options) as session:
            with pytest.raises(ZeroDivisionError):
                await session.call("Write", {"file_path": "a.txt", "content": "a"})

    asyncio.run(main())


def test_a_person_who_is_asked_may_look_around_with_the_same_session(tmp_path: Path) -> None:
    asked: list[str] = []

    async def main() -> None:
        async def approve(question: Question) -> bool:
            asked.append(question.call.id)
            if question.call.id == "outer":  # a plain call inside the loop, which asks again
                return session.session.call("Write", {"file_path": "b.txt", "content": "b"}, id="inner").ok
            return True

        async with AsyncSession.open(tmp_path, mode="ask", approve=approve) as session:
            assert (await session.call("Write", {"file_path": "a.txt", "content": "a"}, id="outer")).ok

    asyncio.run(main())
    assert asked == ["outer", "inner"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_an_export_asks_in_the_loop_of_the_caller_too(tmp_path: Path) -> None:
    loops: list[Any] = []

    async def approve(_: Question) -> bool:
        loops.append(asyncio.get_running_loop())
        return True

    async def main() -> None:
        async with AsyncSession.open(tmp_path, mode="ask", approve=approve) as session:
            asked = [RequestedCall("Write", {"file_path": name, "content": ""}) for name in ("a", "b")]
            results = await async_answer_calls(session, asked, lambda ask: [ask], lambda _, results: results[0])
            assert [result.status for result in results] == ["ok", "ok"]
            assert loops == [asyncio.get_running_loop()] * 2

    asyncio.run(main())


def test_calls_that_only_read_have_their_turn_together_and_others_alone(tmp_path: Path) -> None:
    async def main(session: Session) -> list[str]:
        turns, collected, go = CallOrder(session), list[str](), asyncio.Event()

        async def call(tool: str, name: str, wait: bool = False) -> None:
            async with turns.turn(tool):
                collected.append(f"{name} begins")
                if wait:
                    await go.wait()
                collected.append(f"{name} ends")

        async with asyncio.TaskGroup() as group:
            group.create_task(call("Read", "first", wait=True))
            group.create_task(call("Grep", "second"))
            dropped = group.create_task(call("Edit", "dropped"))
            group.create_task(call("Edit", "third"))
            group.create_task(call("Read", "fourth"))
            for _ in range(5):
                await asyncio.sleep(0)
            dropped.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            collected.append("go")
            go.set()
        return collected

    with Session(tmp_path) as session:
        collected = asyncio.run(main(session))
    together = ["first begins", "second begins", "second ends", "go", "first ends"]
    assert collected == [*together, "third begins", "third ends", "fourth begins", "fourth ends"]


def test_a_stream_yields_the_events_of_a_call_and_ends_with_its_result(tmp_path: Path) -> None:
    async def main() -> list[SessionEvent]:
        events = list[SessionEvent]()
        async with AsyncSession.open(tmp_path) as session:
            command = "echo first; while ! test -e go; do sleep 0.01; done; echo last"
            async for event in session.stream("Bash", {"command": command}, id="7"):
                events.append(event)
                if isinstance(event, ToolOutput):
                    (tmp_path / "go").touch()
        return events

    events = asyncio.run(main())
    assert isinstance(events[0], ToolStarted) and isinstance(events[-1], ToolFinished)
    assert events[-1].result.text == "first\nlast" and events[-1].result.id == "7"
    assert "".join(event.text for event in events if isinstance(event, ToolOutput)) == "first\nlast\n"


def test_closing_a_stream_cancels_its_call(tmp_path: Path) -> None:
    async def main() -> None:
        journal = Ended()
        async with AsyncSession.open(tmp_path, journal=journal) as session:
            stream = session.stream("Bash", {"command": "echo begun; sleep 600"})
            async for event in stream:
                if isinstance(event, ToolOutput):
                    break
            await stream.aclose()
            assert [record.result.data["cancelled"] for record in journal.calls] == [True]
            assert (await session.call("LS", {"path": "."})).ok

    asyncio.run(main())


@pytest.mark.usefixtures("without_drafts")
def test_a_task_that_is_cancelled_in_a_stream_ends_the_command(tmp_path: Path) -> None:
    async def main() -> None:
        journal = Ended()
        async with AsyncSession.open(tmp_path, journal=journal) as session:

            async def iterate() -> None:
                async for _ in session.stream("Bash", {"command": READY}):
                    pass

            task = asyncio.create_task(iterate())
            await until(tmp_path / "started")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [record.result.data["cancelled"] for record in journal.calls] == [True]

    asyncio.run(main())


def test_a_reader_that_is_too_slow_misses_output_and_not_the_result(tmp_path: Path) -> None:
    async def main() -> list[SessionEvent]:
        events = list[SessionEvent]()

        async def count(ctx: RunContext) -> str:
            """Report a lot."""
            for number in range(2000):
                ctx.report_progress(str(number))
            return "counted"

        async with AsyncSession.open(tmp_path, tools=[count]) as session:
            async for event in session.stream("count"):
                events.append(event)
        return events

    events = asyncio.run(main())
    assert len(events) < 300 and isinstance(events[0], ToolStarted) and isinstance(events[-1], ToolFinished)
    assert events[-1].result.text == "counted"
    assert [event.message for event in events if isinstance(event, ToolProgress)][-1] == "1999"


def test_dropped_output_is_counted_in_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_calls, "_MOST_EVENTS", 2)
    call = Call("Bash", {})

    async def main() -> list[SessionEvent | None]:
        queue = async_calls._EventQueue(asyncio.get_running_loop())
        queue.put(ToolStarted(call))
        for text in ("one\n", "éé\n", "three\n"):
            queue.put(ToolOutput(call, text))
        queue.close()
        return [await queue.get() for _ in range(3)]

    assert asyncio.run(main()) == [ToolStarted(call), ToolOutput(call, "three\n", omitted=9), None]


def test_an_async_function_runs_in_the_loop_of_the_caller(tmp_path: Path) -> None:
    loops = list[object]()

    async def look() -> None:
        """Look at the loop."""
        loops.append(asyncio.get_running_loop())

    async def main() -> None:
        async with AsyncSession.open(tmp_path, tools=[look]) as session:
            assert (await session.call("look")).ok
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())
