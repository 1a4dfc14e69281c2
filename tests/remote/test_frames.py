"""Messages over a pipe: whole whatever the pipe does with them, bounded, and never in each other's way."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handrail.remote.frames import GREETING, FramePipe, PipeBroken


class Ends:
    """A pipe to read from and one to write to, with a `FramePipe` on each."""

    def __init__(self) -> None:
        source, self.sink = os.pipe()
        self.spare, out = os.pipe()
        self.taker = FramePipe(source, os.dup(self.sink))
        self.giver = FramePipe(os.dup(self.spare), self.sink)
        self.out = out

    def close(self) -> None:
        self.giver.close_sink()
        self.giver.close_source()
        self.taker.close_sink()
        self.taker.close_source()
        os.close(self.spare)
        os.close(self.out)


@pytest.fixture
def ends() -> Any:
    pair = Ends()
    yield pair
    pair.close()


def take_all(pipe: FramePipe, count: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    while len(messages) < count:
        message = pipe.take(30.0)
        if message is not None:
            messages.append(message)
    return messages


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=8), json_values, max_size=5), min_size=1, max_size=3))
def test_messages_arrive_as_they_were_sent(messages: list[dict[str, Any]]) -> None:
    pair = Ends()
    try:
        for message in messages:
            pair.giver.send(message)
        assert take_all(pair.taker, len(messages)) == messages
    finally:
        pair.close()


def test_a_small_message_passes_a_large_one(ends: Ends) -> None:
    large = {"text": "x" * (4 << 20)}
    sender = threading.Thread(target=ends.giver.send, args=(large,))
    sender.start()
    while (first := ends.taker.take(0.0)) is None and ends.taker._parts == {}:
        pass  # until a part of the large one has come
    assert first is None
    small = threading.Thread(target=ends.giver.send, args=({"small": True},))
    small.start()
    assert take_all(ends.taker, 2) == [{"small": True}, large]
    sender.join()
    small.join()


def test_what_a_login_shell_prints_is_skipped(ends: Ends) -> None:
    os.write(ends.sink, b"Welcome to host!\n\x1b[0m")
    ends.giver.greet()
    ends.giver.send({"n": 1})
    ends.taker.wait_for_greeting(30.0)
    assert take_all(ends.taker, 1) == [{"n": 1}]


def test_a_program_that_is_no_server_is_reported_with_its_words(ends: Ends) -> None:
    os.write(ends.sink, b"sh: handrail: not found\n")
    with pytest.raises(PipeBroken, match="not found"):
        ends.taker.wait_for_greeting(0.05)


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, GREETING * 4])
def test_bytes_that_are_no_frames_end_the_connection(ends: Ends, junk: bytes) -> None:
    os.write(ends.sink, junk)
    with pytest.raises(PipeBroken, match="protocol"):
        ends.taker.take(30.0)


def test_a_frame_that_is_no_object_ends_the_connection(ends: Ends) -> None:
    ends.giver.send([1])  # type: ignore[arg-type]
    with pytest.raises(PipeBroken, match="object"):
        ends.taker.take(30.0)


def test_a_heartbeat_never_waits_for_a_side_that_reads_nothing(ends: Ends) -> None:
    for _ in range(20_000):  # more than any pipe holds
        ends.giver.send_at_once({"do": "ping", "padding": "x" * 100})


def test_the_end_of_the_other_side_is_noticed(ends: Ends) -> None:
    ends.giver.close_sink()
    ends.taker.close_sink()
    with pytest.raises(PipeBroken, match="closed"):
        ends.taker.take(30.0)
