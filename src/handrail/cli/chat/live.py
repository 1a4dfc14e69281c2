"""Show a run on a terminal: finished text is rendered, and a few lines below it are updated while it runs.

Only those last lines are redrawn, in one write each time, so that nothing flickers. They have the current paragraph,
the last output of commands, and a spinner.
"""

from __future__ import annotations

import contextlib
import io
import os
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from handrail.agent.messages import CallFinished, CallStarted, Event, ModelReplied, Retrying, TextDelta
from handrail.cli.chat.blocks import Blocks
from handrail.cli.chat.summary import MARKS, about, event_lines, outcome
from handrail.cli.output import paint_diff, safe
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.12
_MOST_DIFF = 60
_MOST_TAIL = 5


class LiveScreen:
    """A terminal."""

    def __init__(self, out: TextIO) -> None:
        self.shown: set[str] = set()
        self._out = out
        self._lock = threading.RLock()
        self._blocks = Blocks()
        self._calls: dict[str, tuple[str, float]] = {}
        self._asked_at: float | None = None
        self._rows = 0
        self._drawing = self._held = False
        self._frame = 0
        self._modes: list[Any] | None = None
        self._status: Callable[[], str] = str
        self._tail: Callable[[], list[str]] = list

    # What stands.

    def say(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._print(Text(safe(replace_surrogates(text)).rstrip("\n"), style))

    def diff(self, text: str) -> None:
        from rich.text import Text

        self._print(Text.assemble(*paint_diff(replace_surrogates(text))))

    def _print(self, what: RenderableType, *, fitted: bool = False) -> None:
        console, written = self._make_console()
        console.print(what, soft_wrap=not fitted)
        text = written.getvalue()
        with self._lock:
            self._write(self._erase_lines() + text + ("" if text.endswith("\n") else "\n"))

    def _print_markdown(self, block: str) -> None:
        from rich.markdown import Markdown

        # No links that only the terminal shows: the address is part of the text.
        self._print(Markdown(safe(replace_surrogates(block)), hyperlinks=False, code_theme="ansi_dark"), fitted=True)

    def _make_console(self) -> tuple[Console, io.StringIO]:
        from rich.console import Console

        written = io.StringIO()
        console = Console(file=written, force_terminal=True, width=self._size()[0], highlight=False, markup=False)
        return console, written

    def _size(self) -> tuple[int, int]:
        try:
            size = os.get_terminal_size(self._out.fileno())
        except OSError:
            return 80, 24
        return size.columns or 80, size.lines or 24

    # What happens.

    def waiting(self, on: bool) -> None:
        with self._lock:
            self._asked_at = time.monotonic() if on else None

    def notice(self, event: Event) -> None:
        with self._lock:
            if isinstance(event, TextDelta):
                for block in self._blocks.feed(event.text):
                    self._print_markdown(block)
            elif isinstance(event, ModelReplied):
                self._flush()
            elif isinstance(event, CallStarted):
                self._calls[event.call.id] = about(event.call), time.monotonic()
            elif isinstance(event, CallFinished):
                self._show_finished(event)
            else:
                if isinstance(event, Retrying):
                    self._flush()
                for text in event_lines(event):
                    self.say(text, "yellow")

    def _show_finished(self, event: CallFinished) -> None:
        from rich.text import Text

        self._calls.pop(event.call.id, None)
        mark, style = MARKS.get(event.status, ("-", ""))
        text = f" · {outcome(event)}"
        self._print(Text.assemble((f"{mark} ", style), (safe(about(event.call)), "bold"), (safe(text), "dim")))
        if event.diff and event.call.id not in self.shown:
            rows = event.diff.splitlines(keepends=True)
            self.diff("".join(rows[:_MOST_DIFF]))
            if len(rows) > _MOST_DIFF:
                self.say(f"... {len(rows) - _MOST_DIFF} more lines; /diff shows all", "dim")

    def _flush(self) -> None:
        left = self._blocks.finish()
        if left.strip():
            self._print_markdown(left)

    # What changes.

    @contextlib.contextmanager
    def running(self, status: Callable[[], str], tail: Callable[[], list[str]]) -> Iterator[None]:
        self._status, self._tail = status, tail
        over = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(over,), daemon=True, name="handrail-screen")
        with self._stop_echo():
            self._drawing = True
            ticker.start()
            try:
                yield
            finally:
                over.set()
                ticker.join()
                with self._lock:
                    self._drawing = False
                    self._calls.clear()
                    self._asked_at = None
                    self._flush()
                    self._write(self._erase_lines())

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        with self._lock:
            self._flush()
            self._write(self._erase_lines())
            self._held = True
        try:
            with self._restore_echo():
                yield
        finally:
            with self._lock:
                self._held = False

    def _tick(self, over: threading.Event) -> None:
        while not over.wait(_TICK):
            tail = self._tail()
            with self._lock:
                if self._drawing and not self._held:
                    self._draw(tail)

    def _draw(self, tail: Sequence[str]) -> None:
        from rich.cells import set_cell_size

        wide, high = self._size()
        self._frame = (self._frame + 1) % len(_FRAMES)
        open_text = safe(replace_surrogates(self._blocks.open)).expandtabs(4).strip("\n")
        rows = [part for line in open_text.split("\n") for part in textwrap.wrap(line, wide - 1) or [""]]
        rows = rows[-max(3, high - _MOST_TAIL - 6) :] if open_text else []
        now, lines = time.monotonic(), [*rows]
        lines += [f"  │ {line}" for line in tail[-_MOST_TAIL:]]
        doing = [f"{name} · {now - since:.0f} s" for name, since in self._calls.values()]
        if not doing:
            doing = [f"thinking · {now - self._asked_at:.0f} s" if self._asked_at else "working"]
        lines += [f"{_FRAMES[self._frame]} {one}" for one in doing[-3:]]
        lines.append(f"  {self._status()} · Ctrl-C stops")
        fitted = [set_cell_size(line, wide - 1).rstrip() for line in lines]
        self._write(self._move_home() + "\x1b[K\n".join(fitted) + "\x1b[J")
        self._rows = len(fitted)

    def _move_home(self) -> str:
        """To the beginning of the lines that change."""
        up = f"\x1b[{self._rows - 1}A" if self._rows > 1 else ""
        return f"\r{up}" if self._rows else ""

    def _erase_lines(self) -> str:
        text = self._move_home() + "\x1b[J" if self._rows else ""
        self._rows = 0
        return text

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone: the run ends by itself
            self._out.buffer.write(text.encode("utf-8", "replace"))
            self._out.buffer.flush()

    # What is typed meanwhile is kept for the next prompt, and not shown in the middle of this.

    @contextlib.contextmanager
    def _stop_echo(self) -> Iterator[None]:
        self._modes = modes = _own_modes()
        _set(modes, echo=False)
        try:
            yield
        finally:
            self._modes = None
            _set(modes, echo=True)

    @contextlib.contextmanager
    def _restore_echo(self) -> Iterator[None]:
        _set(self._modes, echo=True)
        try:
            yield
        finally:
            _set(self._modes, echo=False)


def _own_modes() -> list[Any] | None:
    """The modes of the terminal, if it is ours: one in the background must leave them alone, or it is stopped."""
    import termios

    try:
        return termios.tcgetattr(0) if os.tcgetpgrp(0) == os.getpgrp() else None
    except (OSError, termios.error):
        return None


def _set(modes: list[Any] | None, *, echo: bool) -> None:
    import termios

    if modes is None:
        return
    changed = list(modes)
    if not echo:
        changed[3] &= ~(termios.ECHO | termios.ECHONL)
    with contextlib.suppress(termios.error):
        termios.tcsetattr(0, termios.TCSANOW, changed)
