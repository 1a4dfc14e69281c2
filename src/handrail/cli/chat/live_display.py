"""Show a run on a terminal: finished text is rendered, and a few lines below it are updated while it runs.

Only those last lines are redrawn, in one write each time, so that nothing flickers. They have the current paragraph,
the last output of commands, and a spinner. Long output and the model's reasoning are folded; `unfold` shows them.
"""

from __future__ import annotations

import contextlib
import io
import os
import termios
import textwrap
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from handrail.agent.messages import (
    CallFinished,
    CallStarted,
    Event,
    ModelReplied,
    ReasoningDelta,
    Retrying,
    TextDelta,
)
from handrail.cli.chat.blocks import Blocks
from handrail.cli.chat.diff_view import render_diff
from handrail.cli.chat.first_prompt import PROMPT
from handrail.cli.chat.summary import describe_call, describe_event, describe_outcome, fold_lines, mark_of
from handrail.cli.output import escape_for_terminal
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from rich.console import RenderableType

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK = 0.12
_MOST_DIFF = 60
_MOST_TAIL = 5
_MOST_REASONING = 3
_MOST_FOLDED = 20
_SHOWN_LINES = 12
_LONGEST_FOLDED = 1 << 20


class _ChangingLines:
    """The lines at the end of the screen that are drawn again and again; as escape sequences."""

    def __init__(self) -> None:
        self._count = 0

    def replace(self, lines: list[str]) -> str:
        text = self._move_home() + "\x1b[K\n".join(lines) + "\x1b[J"
        self._count = len(lines)
        return text

    def erase(self) -> str:
        text = self._move_home() + "\x1b[J" if self._count else ""
        self._count = 0
        return text

    def _move_home(self) -> str:
        up = f"\x1b[{self._count - 1}A" if self._count > 1 else ""
        return f"\r{up}" if self._count else ""


class _Echo:
    """What is typed while the agent works is kept for the next prompt, and not shown in the middle of its output."""

    def __init__(self) -> None:
        self._modes: list[object] | None = None

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        self._modes = modes = _own_modes()
        _set(modes, echo=False)
        try:
            yield
        finally:
            self._modes = None
            _set(modes, echo=True)

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        _set(self._modes, echo=True)
        try:
            yield
        finally:
            _set(self._modes, echo=False)


class LiveScreen:
    """A terminal."""

    def __init__(self, out: TextIO) -> None:
        self.shown: set[str] = set()
        self._out = out
        self._lock = threading.RLock()
        self._blocks = Blocks()
        self._reasoning: list[str] = []
        self._reasoned_since = 0.0
        self._folded: deque[tuple[str, str]] = deque(maxlen=_MOST_FOLDED)
        self._calls: dict[str, tuple[str, float]] = {}
        self._asked_at: float | None = None
        self._changing = _ChangingLines()
        self._drawing = self._held = False
        self._frame = 0
        self._echo = _Echo()
        self._status: Callable[[], str] = str
        self._tail: Callable[[], list[str]] = list
        self._last_tail: list[str] = []

    # What stands.

    def say(self, text: str, style: str = "") -> None:
        self._print(Text(escape_for_terminal(replace_surrogates(text)).rstrip("\n"), style), fitted=True)

    def show_message(self, text: str) -> None:
        """Print a message of the person, as it was sent."""
        lines = escape_for_terminal(replace_surrogates(text)).rstrip("\n").expandtabs(4).split("\n")
        more = len(lines) - _SHOWN_LINES
        shown = lines[:_SHOWN_LINES] + ([f"… {more} more lines"] if more > 0 else [])
        self._print(Text.assemble((PROMPT, "bold cyan"), ("\n  ".join(shown), "bold")))

    def diff(self, text: str) -> None:
        self._print(render_diff(text))

    def unfold(self) -> None:
        """Print the text that was folded last."""
        with self._lock:
            if not self._folded:
                self.say("nothing is folded", "dim")
                return
            title, text = self._folded.pop()
        shown = escape_for_terminal(replace_surrogates(text)).rstrip("\n").replace("\n", "\n  ")
        self._print(Text.assemble((f"{escape_for_terminal(title)}\n", "bold"), (f"  {shown}", "dim")))

    def _print(self, what: RenderableType, *, fitted: bool = False) -> None:
        console, written = self._make_console()
        console.print(what, soft_wrap=not fitted)
        text = written.getvalue()
        self._emit(text + ("" if text.endswith("\n") else "\n"))

    def _emit(self, text: str) -> None:
        """Write finished lines above those that change."""
        with self._lock:
            self._write(self._changing.erase() + text)

    def _print_markdown(self, block: str) -> None:
        # No links that only the terminal shows: the address is part of the text.
        self._print(
            Markdown(escape_for_terminal(replace_surrogates(block)), hyperlinks=False, code_theme="ansi_dark"),
            fitted=True,
        )

    def _make_console(self) -> tuple[Console, io.StringIO]:
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
            if isinstance(event, ReasoningDelta):
                if not self._reasoning:
                    self._reasoned_since = time.monotonic()
                self._reasoning.append(event.text)
                return
            if not isinstance(event, CallStarted):
                self._fold_reasoning()
            if isinstance(event, TextDelta):
                for block in self._blocks.feed(event.text):
                    self._print_markdown(block)
            elif isinstance(event, ModelReplied):
                self._flush()
            elif isinstance(event, CallStarted):
                self._calls[event.call.id] = describe_call(event.call), time.monotonic()
            elif isinstance(event, CallFinished):
                self._show_finished(event)
            else:
                if isinstance(event, Retrying):
                    self._flush()
                for text in describe_event(event):
                    self.say(text, "yellow")

    def _show_finished(self, event: CallFinished) -> None:
        self._calls.pop(event.call.id, None)
        mark, style = mark_of(event)
        text = f" · {describe_outcome(event)}"
        self._print(
            Text.assemble(
                (f"{mark} ", style),
                (escape_for_terminal(describe_call(event.call)), "bold"),
                (escape_for_terminal(text), "dim"),
            ),
            fitted=True,
        )
        if event.command:
            self._show_output(event)
        elif event.diff and event.call.id not in self.shown:
            self._print(render_diff(event.diff, _MOST_DIFF))
            more = event.diff.count("\n") - _MOST_DIFF
            if more > 0:
                self.say(f"... {more} more lines; /diff shows all", "dim")

    def _show_output(self, event: CallFinished) -> None:
        """Print the first and the last lines of what a command wrote; the rest can be unfolded."""
        lines, left = fold_lines(escape_for_terminal(replace_surrogates(event.text)).expandtabs(4))
        if left:
            self._fold(describe_call(event.call), event.text)
        if lines:
            wide = self._size()[0]
            self._print(Text("\n".join(fit_line(f"  │ {line}", wide) for line in lines), "dim"))

    def _fold(self, title: str, text: str) -> None:
        self._folded.append((title, text[:_LONGEST_FOLDED]))

    def _fold_reasoning(self) -> None:
        """Replace the model's reasoning by one line."""
        text = "".join(self._reasoning).strip()
        self._reasoning.clear()
        if not text:
            return
        seconds = time.monotonic() - self._reasoned_since
        self._fold("reasoning", text)
        first = " ".join(escape_for_terminal(replace_surrogates(text[:400])).replace("**", "").split())
        line = f"∴ thought for {seconds:.0f} s · Ctrl-O shows it · {first}"
        self._print(Text(fit_line(line, self._size()[0]), "dim italic"))

    def _flush(self) -> None:
        self._fold_reasoning()
        left = self._blocks.finish()
        if left.strip():
            self._print_markdown(left)

    # What changes.

    @contextlib.contextmanager
    def running(self, status: Callable[[], str], tail: Callable[[], list[str]]) -> Iterator[None]:
        self._status, self._tail = status, tail
        over = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(over,), daemon=True, name="handrail-screen")
        with self._echo.stopped():
            self._drawing = True
            ticker.start()
            try:
                yield
            finally:
                over.set()
                ticker.join()
                with self._lock:
                    self._drawing = False
                    self._end_run()
                    self._write(self._changing.erase())

    def _end_run(self) -> None:
        with self._lock:
            self._calls.clear()
            self._last_tail = []
            self._asked_at = None
            self._flush()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Draw nothing while a person is asked, whose time does not count for the running calls."""
        asked = time.monotonic()
        with self._lock:
            self._flush()
            self._write(self._changing.erase())
            self._held = True
        try:
            with self._echo.restored():
                yield
        finally:
            with self._lock:
                self._held = False
                thought = time.monotonic() - asked
                self._calls = {call: (name, since + thought) for call, (name, since) in self._calls.items()}

    def _tick(self, over: threading.Event) -> None:
        while not over.wait(_TICK):
            tail = self._tail()
            with self._lock:
                if self._drawing and not self._held:
                    self._last_tail = tail
                    self._frame += 1
                    self._draw()

    def live_lines(self, wide: int, high: int) -> list[str]:
        """The lines that change while the agent works, at most ``high`` of them."""
        now = time.monotonic()
        doing = [f"{name} · {now - since:.0f} s" for name, since in self._calls.values()]
        if not doing:
            doing = [f"thinking · {now - self._asked_at:.0f} s" if self._asked_at else "working"]
        below = [f"  │ {line}" for line in self._last_tail[-_MOST_TAIL:]]
        if self._reasoning and not self._calls:
            text = escape_for_terminal(replace_surrogates("".join(self._reasoning)[-2000:])).expandtabs(4)
            below += [f"  {row}" for row in _wrap(text, wide - 3)[-_MOST_REASONING:]]
        below += [f"{_FRAMES[self._frame % len(_FRAMES)]} {one}" for one in doing[-3:]]
        open_text = escape_for_terminal(replace_surrogates(self._blocks.open)).expandtabs(4).strip("\n")
        rows = _wrap(open_text, wide - 1)[-max(high - len(below), 3) :] if open_text else []
        return [fit_line(line, wide) for line in [*rows, *below]][-max(high, 1) :]

    def _draw(self) -> None:
        wide, high = self._size()
        lines = self.live_lines(wide, high - 2)
        lines.append(fit_line(f"  {self._status()} · Ctrl-C stops", wide))
        self._write(self._changing.replace(lines))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a terminal that has gone: the run ends by itself
            self._out.buffer.write(text.encode("utf-8", "replace"))
            self._out.buffer.flush()


def fit_line(line: str, wide: int) -> str:
    """A line that fits into a terminal of this width."""
    return line if cell_len(line) < wide else set_cell_size(line, max(wide - 2, 1)).rstrip() + "…"


def _wrap(text: str, wide: int) -> list[str]:
    return [part for line in text.split("\n") for part in textwrap.wrap(line, max(wide, 1)) or [""]]


def _own_modes() -> list[object] | None:
    """The modes of the terminal, if it is ours: one in the background must leave them alone, or it is stopped."""
    try:
        return termios.tcgetattr(0) if os.tcgetpgrp(0) == os.getpgrp() else None
    except (OSError, termios.error):
        return None


def _set(modes: list[Any] | None, *, echo: bool) -> None:
    if modes is None:
        return
    changed = list(modes)
    if not echo:
        changed[3] &= ~(termios.ECHO | termios.ECHONL)
    with contextlib.suppress(termios.error):
        termios.tcsetattr(0, termios.TCSANOW, changed)
