"""Decoding in a process of its own: a deadline, a limit of memory, and crashes that hurt nobody.

The child gets the open file as its standard input and the task as an argument. It answers with frames: a JSON object
and some bytes each. Frames that came before a deadline or a crash are good answers, so that finished pages are kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO, NamedTuple

from handrail.errors import IoError, MissingExtra, NoOutline, ToolError, from_os
from handrail.json_types import JsonObject
from handrail.media import BadImage, BadPages, BadPdf, MediaLimits

_SIZES = struct.Struct(">QQ")
_BOOT = (
    "import sys, json; task = json.loads(sys.argv[1]); sys.path[:] = task.pop('path'); "
    "from handrail.media.worker import main; main(task)"
)
_BUSY = 6
"""How many times as long as it computes a child may take by the clock, on a machine that is busy with other things."""
_ERRORS: dict[str, type[ToolError]] = {
    kind.code: kind for kind in (BadImage, BadPdf, BadPages, IoError, MissingExtra, NoOutline)
}


class WorkerFrame(NamedTuple):
    """A piece of the answer."""

    head: JsonObject
    raw: bytes


class WorkerAnswer(NamedTuple):
    """The output of the child, and how it ended."""

    frames: list[WorkerFrame]
    end: str
    """Empty if it came to its end, else `late` or `crashed`."""


def ask(task: str, source: int | bytes, size: int, limits: MediaLimits, **more: object) -> WorkerAnswer:
    """Have a task done on an open file, or on some bytes; raises the `ToolError` that it ended in."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise IoError(why="there is no Python interpreter beside this program to decode it with")
    arguments = {"name": task, "size": size, "limits": asdict(limits), "path": _search_path(), **more}
    try:
        # -I and -S: nothing of the environment or of the directory that we are in gets into the child.
        child = subprocess.Popen(  # noqa: S603 - our own interpreter, and no shell
            [sys.executable, "-I", "-S", "-c", _BOOT, json.dumps(arguments)],
            stdin=subprocess.PIPE if isinstance(source, bytes) else source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=os.sep,
        )
    except OSError as error:
        raise from_os(error) from None
    with child:
        try:
            patience = limits.seconds * _BUSY
            output, late = _listen(child, source if isinstance(source, bytes) else None, patience)
        finally:
            child.kill()  # does nothing to one that has ended; without it an interrupt would wait for the child
    frames = list(_read_frames(output))
    if frames and "error" in frames[-1].head:
        raise _ERRORS[frames[-1].head["error"]](**frames[-1].head["facts"])
    late = late or child.returncode == -signal.SIGXCPU  # its time may also be up by the kernel's clock
    return WorkerAnswer(frames, "late" if late else "crashed" if child.returncode else "")


def _listen(child: subprocess.Popen[bytes], data: bytes | None, seconds: float) -> tuple[bytes, bool]:
    try:
        return child.communicate(data, timeout=seconds)[0], False
    except subprocess.TimeoutExpired:
        child.kill()
        return child.communicate()[0], True


def _search_path() -> list[str]:
    """The import path for the child; no relative entries, because the current directory may be a workspace."""
    ours = str(Path(__file__).resolve().parents[2])
    return [ours, *(place for place in sys.path if os.path.isabs(place) and place != ours)]


def _read_frames(output: bytes) -> Iterator[WorkerFrame]:
    """The whole frames of an answer; the last one may have been cut off."""
    at = 0
    while at + _SIZES.size <= len(output):
        head, raw = _SIZES.unpack_from(output, at)
        start = at + _SIZES.size
        at = start + head + raw
        if at > len(output):
            return
        yield WorkerFrame(json.loads(output[start : start + head]), output[start + head : at])


def say(out: BinaryIO, head: JsonObject, raw: bytes = b"") -> None:
    """In the child: send a frame."""
    text = json.dumps(head).encode("ascii")
    out.write(_SIZES.pack(len(text), len(raw)) + text + raw)
    out.flush()


def confine(limits: MediaLimits) -> None:
    """In the child: drop privileges that a decoder does not need."""
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)  # may be ignored by whoever started us
    seconds = math.ceil(limits.seconds)  # of computing; ends the child also if its parent is no more
    for what, soft, hard in (
        (resource.RLIMIT_CPU, seconds, seconds + 1),  # at the hard limit the kernel kills, and nobody knows why
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # macOS knows no limit of address space
            resource.setrlimit(what, (soft, hard))
