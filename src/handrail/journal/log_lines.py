"""The lines of a journal's logs, and the heads of the logs, as they are read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

GENESIS = "0" * 64
BLOCK = 160
"""Bytes of the counters in the file `numbers`, and of each head behind them."""
MOST = 1 << 62
"""Entries and calls have smaller numbers."""
_LINE = re.compile(rb"([0-9a-f]{64}) (\[.*\])", re.DOTALL)
_decode = json.JSONDecoder().raw_decode
_HEAD = re.compile(rb"\s*(\d+) ([0-9a-f]{64}) (\d+) (\d+)\s*\Z")
_NAME = re.compile(r"(\d{6,})\.log")


class ChainEntry(NamedTuple):
    """One entry of a chain: its place and its hash."""

    n: int
    hash: str


class Head(NamedTuple):
    """The newest entry of a log, the size of the log with it, and the highest number of a call in it."""

    n: int = 0
    hash: str = GENESIS
    size: int = 0
    seq: int = 0


class LogLine(NamedTuple):
    """A line of a log."""

    hash: str
    text: bytes
    """What the hash covers, besides the hash before it."""
    n: int
    seq: int
    stage: str
    content: Any


def get_logs_path(path: str) -> str:
    """Where the logs of the journal at ``path`` lie."""
    return path + ".logs"


def parse_line(raw: bytes) -> LogLine | None:
    """A line without its end; None if it is none of ours."""
    match = _LINE.fullmatch(raw)
    if not match:
        return None
    try:
        text = match[2].decode("ascii")
        (n, seq, stage, content), end = _decode(text)
    except (ValueError, TypeError, RecursionError):
        return None
    numbered = type(n) is type(seq) is int and max(n, seq) < MOST and end == len(text)
    known = numbered and type(stage) is str and isinstance(content, list)
    return LogLine(match[1].decode("ascii"), match[2], n, seq, stage, content) if known else None


def list_logs(directory: str) -> dict[int, str]:
    """The paths of the logs in a directory, by their numbers."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return {}
    paths = {int(match[1]): os.path.join(directory, name) for name in names if (match := _NAME.fullmatch(name))}
    return dict(sorted(paths.items()))


def get_log_path(directory: str, number: int) -> str:
    """Where the log of a number lies."""
    return os.path.join(directory, f"{number:06d}.log")


def parse_head(raw: bytes) -> Head:
    """A head as it is written; zeros if it is none."""
    match = _HEAD.match(raw)
    return Head(int(match[1]), match[2].decode("ascii"), int(match[3]), int(match[4])) if match else Head()


def read_heads(directory: str) -> dict[int, Head]:
    """The heads of all logs, as they are written down."""
    try:
        with open(os.path.join(directory, "numbers"), "rb") as file:
            raw = file.read()
    except FileNotFoundError:
        return {}
    heads = {place // BLOCK: parse_head(raw[place : place + BLOCK]) for place in range(BLOCK, len(raw), BLOCK)}
    return {number: head for number, head in heads.items() if head.n}


def read_lines(path: str, start: int = 0, size: int = MOST) -> Iterator[tuple[LogLine | None, int]]:
    """The lines of a log from byte ``start`` up to ``size``, and where each ends; None for one that is none of ours.

    A last line without an end is left out: its call was not answered, or its head says that it was.
    """
    with open(path, "rb") as file:
        file.seek(start)
        while start < size and (raw := file.readline()).endswith(b"\n"):
            start += len(raw)
            yield parse_line(raw[:-1]), start


def read_start(path: str) -> tuple[str, int]:
    """The id of a log, and when it began, in nanoseconds since 1970; empty and 0 if its first line is damaged."""
    line, _ = next(read_lines(path), (None, 0))
    try:
        return (str(line.content[0][1]), int(line.content[0][2])) if line and line.stage == "start" else ("", 0)
    except (IndexError, KeyError, TypeError, ValueError):
        return "", 0


def scan_head(path: str) -> Head:
    """The head of a log, from its lines."""
    head = Head()
    for line, end in read_lines(path):
        if line:
            head = Head(line.n, line.hash, end, max(head.seq, line.seq))
    return head
