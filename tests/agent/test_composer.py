"""The composer without a terminal: keys through a pipe, and the lines that it draws."""

from __future__ import annotations

import asyncio
import io
import re
import select
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import get_app
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.cells import cell_len

from handrail.agent.messages import CallFinished, CallStarted, ModelReplied, ReasoningDelta, TextDelta, ToolCall, Usage
from handrail.cli.chat.composer import Composer
from handrail.cli.chat.live_display import LiveScreen, fit_line
from handrail.cli.chat.message_queue import MessageQueue

Step = str | Callable[[], object]


class Typist:
    """Types into a composer, one step after the other, each when the one before was taken."""

    def __init__(self, folder: Path) -> None:
        self.history = folder / "history"
        self.queue = MessageQueue()
        self.stops = 0
        self.text = ""
        self.out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    def type(self, steps: Sequence[Step]) -> list[str]:
        """The messages that wait after these keys."""
        with create_pipe_input() as keys:

            def stop() -> None:
                self.stops += 1

            composer = Composer(self.out, str(self.history), self.queue, stop, input=keys, output=DummyOutput())

            async def drive() -> None:
                for step in steps:
                    if isinstance(step, str):
                        keys.send_text(step)
                    else:
                        step()
                    while select.select([keys.fileno()], [], [], 0)[0]:
                        await asyncio.sleep(0)
                    for _ in range(5):
                        await asyncio.sleep(0)
                self.text = composer._buffer.text
                composer._buffer.reset()
                composer.end()

            composer.run(lambda: (get_app().create_background_task(drive()), None)[1])
        return list(self.queue.waiting)


@pytest.fixture
def typist(tmp_path: Path) -> Typist:
    return Typist(tmp_path)


@pytest.mark.parametrize(
    ("steps", "messages"),
    [
        (["one", "\r", "two", "\r"], ["one", "two"]),
        (["a\x1b\rb", "\r"], ["a\nb"]),
        (["a\\", "\r", "b", "\r"], ["a\nb"]),
        (["  ", "\r"], []),
        (["\x1b[200~x\r\n\ty\r\n\x1b[201~", "\r"], ["x\n\ty\n"]),
        (["x\rif y:\r\tz \\\r\tw\r"], ["x\nif y:\n\tz \\\n\tw"]),  # a terminal that marks no paste
        (["a\tb", "\r"], ["a\tb"]),
        (["one", "\r", "two", "\r", "\x1b[A", " more", "\r"], ["one", "two more"]),
    ],
)
def test_keys_become_messages(typist: Typist, steps: list[str], messages: list[str]) -> None:
    assert typist.type(steps) == messages


def test_four_hundred_lines_of_an_unmarked_paste_are_one_message(typist: Typist) -> None:
    lines = [f"{number} {'x' * (number % 90)}" for number in range(400)]
    assert typist.type(["\r".join(lines), "\r"]) == ["\n".join(lines)]


@pytest.mark.parametrize("keys", ["\ry", "\r\r", " ok\rno", "\rgo\rand", "\r\t\r"])
def test_a_few_keys_typed_ahead_do_not_turn_enter_into_a_new_line(tmp_path: Path, keys: str) -> None:
    """A screen that is being drawn, or a slow connection, brings the keys of a fast typist together."""
    ends = []
    for steps in ([*keys], [keys]):
        typist = Typist(tmp_path)
        pause = partial(time.sleep, 0.03)
        ends.append((typist.type(["first", pause, *(step for one in steps for step in (one, pause))]), typist.text))
    assert ends[0] == ends[1] and "\n" not in ends[0][1]


def test_ctrl_c_stops_the_run_holds_the_queue_and_keeps_what_is_typed(typist: Typist) -> None:
    def begin() -> None:
        assert typist.queue.take() == "first"

    assert typist.type(["first", "\r", begin, "second", "\r", "half", "\x03"]) == ["second"]
    assert typist.stops == 1 and typist.queue.held and typist.text == "half"


def test_what_was_cleared_or_never_sent_is_in_the_history(typist: Typist) -> None:
    def begin() -> None:
        assert typist.queue.take() == "first"

    typist.type(["cleared", "\x03", "first", "\r", begin, "waiting", "\r"])
    saved = typist.history.read_text(encoding="utf-8")
    assert [line[1:] for line in saved.splitlines() if line.startswith("+")] == [
        "cleared",
        "first",
        "waiting",
        "waiting",
    ]


def test_a_held_queue_waits_and_a_new_message_goes_first() -> None:
    queue = MessageQueue()
    assert queue.add("a") and queue.add("b") and queue.take() == "a"
    queue.hold()
    assert queue.held and queue.add("now") and queue.waiting == ("now", "b") and queue.take() == "now"
    queue.release()
    assert queue.take() == "b" and queue.working
    queue.close()
    assert queue.take() is None and not queue.working


def test_a_queue_takes_no_more_than_a_hundred() -> None:
    queue = MessageQueue()
    assert [queue.add(str(number)) for number in range(101)] == [True] * 100 + [False]


class Memory(LiveScreen):
    """A screen of a certain width whose output can be read."""

    def __init__(self, wide: int) -> None:
        self.file = io.BytesIO()
        super().__init__(io.TextIOWrapper(self.file, encoding="utf-8"))
        self.wide = wide

    def _size(self) -> tuple[int, int]:
        return self.wide, 24

    @property
    def written(self) -> str:
        """What was printed, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.file.getvalue().decode("utf-8"))


CALL = ToolCall("1", "Bash", '{"command": "make"}')


@given(st.text(alphabet="a \n\t日本語🎉é\u200d\u0301", max_size=300), st.sampled_from([40, 80, 200]))
def test_lines_that_change_fit_at_every_width(text: str, wide: int) -> None:
    screen = Memory(wide)
    screen.notice(TextDelta(text))
    screen.notice(ReasoningDelta(text))
    screen._last_tail = [text.replace("\n", " ")] * 9
    screen.notice(CallStarted(CALL))
    lines = screen.live_lines(wide, 12)
    assert len(lines) <= 12 and all(cell_len(line) < wide and "\n" not in line for line in lines)
    assert cell_len(fit_line(text.replace("\n", " "), wide)) < max(wide, cell_len(text))


def test_of_a_commands_output_the_ends_stay_and_the_rest_can_be_unfolded() -> None:
    screen = Memory(80)
    text = "".join(f"row {number}\n" for number in range(50))
    screen.notice(CallFinished(CALL, "ok", text, 1.0, command=True, exit_code=0))
    assert "✓ Bash make" in screen.written and "row 3\n" in screen.written and "row 49" in screen.written
    assert "40 more lines" in screen.written and "row 20\n" not in screen.written
    screen.unfold()
    assert "row 20\n" in screen.written


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({"stopped": True}, "■ Bash make · stopped"),
        ({"exit_code": 2}, "✗ Bash make · exit 2"),
        ({"exit_code": 0}, "✓ Bash make · 1 line"),
    ],
)
def test_a_command_that_was_stopped_or_failed_has_no_tick(facts: dict[str, Any], shown: str) -> None:
    screen = Memory(80)
    screen.notice(CallFinished(CALL, "ok", "text", 1.0, command=True, **facts))
    assert shown in screen.written


def test_reasoning_is_folded_to_one_line_and_can_be_shown() -> None:
    screen = Memory(80)
    for piece in ("First I ", "look.\n", "Then I ", "decide.\n" * 20):
        screen.notice(ReasoningDelta(piece))
    assert any("decide." in line for line in screen.live_lines(80, 10)) and not screen.written
    screen.notice(TextDelta("Done."))
    screen.notice(ModelReplied("Done.", Usage(), 0.1))
    assert screen.written.count("\n") == 2 and "First I look. Then" in screen.written
    screen.unfold()
    assert screen.written.count("decide.") > 20


def test_own_texts_wrap_at_words() -> None:
    screen = Memory(40)
    text = "several words that are longer than the line of this terminal is wide"
    screen.say(text)
    assert all(len(line) <= 40 for line in screen.written.splitlines())
    assert screen.written.split() == text.split()
