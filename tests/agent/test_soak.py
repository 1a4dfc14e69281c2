"""Five hundred turns of a chat in a real pseudo-terminal: memory stays flat, and the screen has no artefacts."""

# ruff: noqa: F811 - the fixture is the one of the other tests
from __future__ import annotations

from pathlib import Path

import pyte
import pytest

from handrail_demo.scripted_server import Line, Seen
from tests.agent.test_chat import Start, start  # noqa: F401 - a fixture
from tests.sizes import pick

TURNS = pick(5, 500)
TEXT = "Zeile {number}: **fett**, 日本語のテキスト, emoji 🎉👍, `code`.\n\n- eins\n- zwei\n\nEnde {number}."


def _memory(pid: int) -> int:
    """The resident memory of a process in kilobytes."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("wide", [40, 80, 200])
def test_many_turns_leave_memory_flat_and_the_screen_clean(start: Start, wide: int) -> None:
    def script(seen: Seen) -> Line:
        return Line(TEXT.format(number=seen.number))

    chat = start(script)
    chat.child.setwinsize(24, wide)
    screen = pyte.Screen(wide, 24)
    stream = pyte.Stream(screen)
    middle = 0
    for number in range(TURNS):
        chat.say(f"Frage {number} 日本 🎉")
        chat.sees(f"Ende {number}.")
        if number == TURNS // 2:
            middle = _memory(chat.child.pid)
    assert _memory(chat.child.pid) < middle * 1.25 + 20_000
    chat.say("/mode")
    chat.sees("mode ask; the modes are")
    chat.child.sendcontrol("d")
    chat.over()
    stream.feed(chat.raw)
    shown = "\n".join(line.rstrip() for line in screen.display)
    assert shown.count(f"Ende {TURNS - 1}.") == 1 and shown.count("Zeile") <= shown.count("Ende") + 1
    assert "Traceback" not in chat.plain and "⋯" not in shown
    assert len(chat.server.requests) == TURNS
