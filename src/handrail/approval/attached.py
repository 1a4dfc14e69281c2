"""The side that asks: everybody of this user who is attached for the workspace, and the first answer counts.

An approver says at once who it is, and gives a sign of life while its person thinks: one that is silent is not waited
for. Closing the connection takes the question back.
"""

from __future__ import annotations

import contextlib
import select
import threading
import time
from typing import Any

from handrail.approval import messages, unix_socket
from handrail.approval.unix_socket import Broken, Line
from handrail.pipeline.prepared import Answer, Prepared

GREETING = 2.0
"""Seconds in which an approver must have said who it is."""
SILENCE = 30.0
"""Seconds after which one that gives no sign of life has gone."""
_TICK = 0.1
"""How often it is looked whether the call is cancelled."""


def answer(state: str, workspace: str, prepared: Prepared) -> Answer | None:
    """What the first person says; None if there is nobody, or nobody any more, or the call is cancelled."""
    found = _attached(state, workspace)
    over = "whoever asked has gone"
    try:
        if not found:
            return None
        asked = messages.question(prepared, workspace)
        for line in [*found]:
            try:
                line.send({"ask": asked})
            except Broken:
                _drop(found, line)
        said = first(found, asked, prepared.cancel)
        over = "it was answered elsewhere" if said else "the call was cancelled"
        return said
    finally:
        for line in found:
            with contextlib.suppress(Broken):
                line.send({"over": over})
            line.close()


def _attached(state: str, workspace: str) -> list[Line]:
    """Those who want to be asked about this workspace."""
    found = []
    for connection in unix_socket.listening(state):
        line = Line(connection)
        try:
            unix_socket.require_apart(connection, answers=True)  # a command of a model's does not approve itself
            if not _wants(line.wait(GREETING), workspace):
                raise Broken
        except (Broken, TimeoutError):
            line.close()
        else:
            found.append(line)
    return found


def _wants(hello: dict[str, Any], workspace: str) -> bool:
    if hello.get("handrail") != unix_socket.VERSION:
        return False
    wanted = hello.get("workspace")
    if wanted is None:
        return True
    return isinstance(wanted, str) and (workspace == wanted or workspace.startswith(wanted.rstrip("/") + "/"))


def first(found: list[Line], asked: dict[str, Any], cancel: threading.Event | None) -> Answer | None:
    """The first answer; None if everybody has gone, or the call is cancelled. Who has gone is taken off the list."""
    heard = dict.fromkeys(found, time.monotonic())
    while found and not (cancel and cancel.is_set()):
        poll = select.poll()
        for line in found:
            poll.register(line, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(_TICK * 1000 if cancel else 1000)}
        for line in [*found]:
            try:
                if line.fileno() in ready:
                    said = line.wait(0)
                    heard[line] = time.monotonic()
                    if "answer" in said:
                        return messages.answered(said["answer"], asked)
                elif time.monotonic() - heard[line] > SILENCE:
                    raise Broken
            except TimeoutError:  # a part of a line
                heard[line] = time.monotonic()
            except Broken:
                _drop(found, line)
    return None


def _drop(found: list[Line], line: Line) -> None:
    found.remove(line)
    line.close()
