"""The composer: a line editor below the output of a chat that takes text while the agent works.

Enter sends, or queues while the agent works; Alt-Enter or a backslash at the end begins a new line; a paste keeps its
lines. Finished output is printed above it. The agent works in another thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import errno
import fcntl
import os
import signal
import struct
import termios
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import Application
from prompt_toolkit.application.run_in_terminal import in_terminal
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import ThreadedCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.key_binding.bindings.open_in_editor import load_open_in_editor_bindings
from prompt_toolkit.layout import Float, FloatContainer, HSplit, Layout, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.styles import Style
from prompt_toolkit.widgets import SearchToolbar

from handrail.cli.chat.first_prompt import PROMPT
from handrail.cli.chat.interrupts import Leave
from handrail.cli.chat.live_display import LiveScreen, fit_line
from handrail.cli.output import escape_for_terminal
from handrail.text.display import replace_surrogates

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from handrail.cli.chat.message_queue import MessageQueue

_STYLE = Style.from_dict({"prompt": "ansicyan bold", "status": "ansibrightblack", "queue": "ansiyellow", "live": ""})
_TICK = 0.12
_TWICE = 1.0
_GONE = (errno.EIO, errno.EBADF, errno.ENXIO, errno.EPIPE)
_QUIET = 0.5
"""A question appears after this many seconds without a key, so that a word being typed does not answer it."""
_BURST = 0.02
"""Keys that follow each other within so many seconds have come together; a key held down repeats more slowly."""
_PASTED_KEYS = 12
"""So many keys that have come together are a paste. A person types fewer of them while the screen is being drawn."""
_MENU_ROWS = 8
_SHOWN_QUEUE = 5


class _KeyBursts:
    """Tells a text that a terminal pastes without marking it from keys that a person types."""

    def __init__(self, app: Application[None]) -> None:
        self._app = app
        self._last_press = float("-inf")
        self._burst = 0
        self._more_waits = False
        app.key_processor.before_key_press += self._count_press
        app.key_processor.after_key_press += self._end_press

    def is_pasting(self) -> bool:
        """Whether this key is in the middle of a paste.

        More keys wait behind it, and all of them together are more than a person types ahead.
        """
        waiting = self._count_waiting()
        return waiting > 0 and self._burst + waiting >= _PASTED_KEYS

    def _count_press(self, _: object) -> None:
        """Count the keys that have come together, up to this one."""
        together = self._more_waits or time.monotonic() - self._last_press < _BURST
        self._burst = self._burst + 1 if together else 1

    def _end_press(self, _: object) -> None:
        self._last_press, self._more_waits = time.monotonic(), self._count_waiting() > 0

    def _count_waiting(self) -> int:
        """Keys that were read and not handled yet, and bytes that were not read yet."""
        try:
            unread = fcntl.ioctl(self._app.input.fileno(), termios.FIONREAD, bytes(4))
        except (OSError, ValueError, NotImplementedError):
            unread = bytes(4)
        return len(self._app.key_processor.input_queue) + int(struct.unpack("i", unread)[0])


class Composer(LiveScreen):
    """The screen of a chat at a terminal, and its input."""

    def __init__(
        self,
        out: TextIO,
        history: str,
        queue: MessageQueue,
        stop: Callable[[], None],
        *,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        super().__init__(out)
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))  # nobody else reads it
        self._queue = queue
        self._stop = stop
        self._status_idle: Callable[[], str] = str
        self.rewind: Callable[[], object] = lambda: None
        """Called for Esc Esc on an empty line."""
        self._pending: list[str] = []
        self._printing = self._suspended = False
        self._last_key = self._last_interrupt = float("-inf")
        self._parent = os.getppid()
        self._context = contextvars.copy_context()
        self._buffer = Buffer(multiline=True, history=FileHistory(history), complete_while_typing=True)
        self._app: Application[None] = Application(
            layout=self._make_layout(),
            key_bindings=merge_key_bindings([load_open_in_editor_bindings(), self._make_bindings()]),
            style=_STYLE,
            erase_when_done=True,
            input=input,
            # The position of the cursor is not asked for: the answer would arrive among the keys.
            output=output
            or Vt100_Output(
                out,
                lambda: Size(*reversed(self._size())),
                os.environ.get("TERM"),
                ColorDepth.from_env(),
                enable_cpr=False,
            ),
        )
        self._bursts = _KeyBursts(self._app)

    def attach(self, completer: Completer, status: Callable[[], str]) -> None:
        """Set the completions and the line of figures."""
        self._buffer.completer = ThreadedCompleter(completer)
        self._status_idle = status

    def run(self, began: Callable[[], None]) -> None:
        """Take messages until the person leaves; raises `Leave` if a signal ends the program."""

        def start() -> None:
            self._context = contextvars.copy_context()
            self._app.create_background_task(self._tick_forever())
            with contextlib.suppress(ValueError, RuntimeError):  # signals go to the main thread only
                loop = asyncio.get_running_loop()
                loop.add_signal_handler(signal.SIGINT, self._interrupt)
                for number in (signal.SIGTERM, signal.SIGHUP):
                    loop.add_signal_handler(number, self._end_by_signal, number)
            self._out.write("\r\x1b[K")
            self._out.flush()
            began()

        try:
            self._app.run(pre_run=start, handle_sigint=False)
        except EOFError:  # the terminal has gone
            self._stop()
        except OSError as error:  # it has gone while something was written
            if error.errno not in _GONE:
                raise
            self._stop()
        finally:
            self._save_unsent()
            with contextlib.suppress(OSError):
                self._flush_pending()

    def end(self) -> None:
        """End the input; may be called from any thread."""
        self._in_loop(self._exit)

    def prefill(self, text: str) -> None:
        """Put a text into the composer, if nothing is typed there; may be called from any thread."""

        def insert() -> None:
            if not self._buffer.text:
                self._buffer.insert_text(text)

        self._in_loop(insert)

    # The layout.

    def _make_layout(self) -> Layout:
        search = SearchToolbar()
        control = BufferControl(
            self._buffer, input_processors=[TabsProcessor(tabstop=4)], search_buffer_control=search.control
        )
        composer = Window(
            control,
            height=lambda: Dimension(min=_MENU_ROWS if self._buffer.complete_state else 1),
            get_line_prefix=lambda line, wrapped: [("class:prompt", "  " if line or wrapped else PROMPT)],
            wrap_lines=True,
            dont_extend_height=True,
        )
        above = Window(FormattedTextControl(self._format_above), dont_extend_height=True)
        below = Window(FormattedTextControl(self._format_below), height=1, style="class:status")
        menu = Float(CompletionsMenu(max_height=_MENU_ROWS - 1, scroll_offset=1), xcursor=True, ycursor=True)
        return Layout(FloatContainer(HSplit([above, composer, search, below, Window(dont_extend_height=True)]), [menu]))

    def _format_above(self) -> StyleAndTextTuples:
        wide, high = self._size()
        parts: StyleAndTextTuples = []
        if self._queue.working:
            with self._lock:
                rows = self.live_lines(wide, max(4, high - _MENU_ROWS - self._buffer.document.line_count))
            parts += [("class:live", f"{row}\n") for row in rows]
        waiting = self._queue.waiting
        for text in waiting[:_SHOWN_QUEUE]:
            line = " ".join(escape_for_terminal(replace_surrogates(text[:1000])).split())
            parts.append(("class:queue", fit_line(f"  ⋯ {line}", wide) + "\n"))
        if waiting:
            more = len(waiting) - _SHOWN_QUEUE
            held = "held: Enter sends them" if self._queue.held else "queued"
            text = f"  {f'and {more} more, ' if more > 0 else ''}{held}; ↑ edits the last"
            parts.append(("class:status", fit_line(text, wide) + "\n"))
        return [*parts[:-1], (parts[-1][0], parts[-1][1].rstrip("\n"))] if parts else [("", "")]

    def _format_below(self) -> StyleAndTextTuples:
        hint = " · Ctrl-C stops" if self._queue.working else ""
        return [("class:status", fit_line(f"  {self._status_idle()}{hint}", self._size()[0]))]

    # The keys.

    def _make_bindings(self) -> KeyBindings:
        keys = KeyBindings()
        buffer = self._buffer
        is_empty = Condition(lambda: not buffer.text)
        has_queue = Condition(lambda: bool(self._queue.waiting))

        @keys.add("enter")
        def enter(_: KeyPressEvent) -> None:
            self._enter()

        @keys.add("escape", "enter")
        def new_line(_: KeyPressEvent) -> None:
            buffer.insert_text("\n")

        @keys.add("tab")
        def complete(_: KeyPressEvent) -> None:
            self._complete()

        @keys.add("up", filter=is_empty & has_queue)
        def take_back(_: KeyPressEvent) -> None:
            buffer.insert_text(self._queue.take_back())

        @keys.add("c-c")
        def interrupt(_: KeyPressEvent) -> None:
            self._interrupt()

        @keys.add("c-d", filter=is_empty)
        def leave(_: KeyPressEvent) -> None:
            self._stop()
            self._exit()

        @keys.add("c-o")
        def unfold(_: KeyPressEvent) -> None:
            self.unfold()

        @keys.add("escape", "escape", filter=is_empty)
        def rewind(_: KeyPressEvent) -> None:
            self.rewind()

        @keys.add("c-z")
        def suspend(event: KeyPressEvent) -> None:
            event.app.suspend_to_background()

        buffer.on_text_changed += self._note_key
        return keys

    def _note_key(self, _: Buffer) -> None:
        self._last_key = time.monotonic()

    def _enter(self) -> None:
        buffer = self._buffer
        state = buffer.complete_state
        if state and state.current_completion:  # the menu is open, and something in it is chosen
            buffer.apply_completion(state.current_completion)
        elif self._bursts.is_pasting():
            buffer.insert_text("\n")
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif buffer.text.strip():
            self._send()
        else:
            buffer.reset()
            self._queue.release()

    def _complete(self) -> None:
        word = self._buffer.document.get_word_before_cursor(WORD=True)
        if self._bursts.is_pasting() or not word.startswith(("@", "/")):
            self._buffer.insert_text("\t")
        elif self._buffer.complete_state:
            self._buffer.complete_next()
        else:
            self._buffer.start_completion(insert_common_part=True)

    def _send(self) -> None:
        text = self._buffer.text
        if self._queue.add(text):
            self._buffer.append_to_history()
            self._buffer.reset()
        else:
            self.say("too many messages are waiting; this one was not sent", "yellow")

    def _interrupt(self) -> None:
        now = time.monotonic()
        again, self._last_interrupt = now - self._last_interrupt < _TWICE, now
        if self._queue.working:
            self._queue.hold()
            self._stop()
            if again:
                self._exit()
        elif self._buffer.text:
            self._buffer.append_to_history()  # ↑ brings it back
            self._buffer.reset()
        else:
            self._exit()

    def _end_by_signal(self, number: int) -> None:
        self._stop()
        self._exit(Leave(128 + number))

    def _exit(self, error: BaseException | None = None) -> None:
        if self._app.is_running and not self._app.is_done:
            if error:
                self._app.exit(exception=error)
            else:
                self._app.exit()

    def _save_unsent(self) -> None:
        """Keep what was not sent in the history of messages."""
        for text in (*self._queue.waiting, self._buffer.text):
            if text.strip():
                self._buffer.history.append_string(text)

    # Output from any thread.

    def _emit(self, text: str) -> None:
        with self._lock:
            self._pending.append(text)
            if self._printing:
                return
            self._printing = True
        if not self._in_loop(self._print_pending):
            self._flush_pending()

    def _in_loop(self, call: Callable[[], None]) -> bool:
        """Call something in the thread of the composer; False if it does not run."""
        loop = self._app.loop
        if loop is None:
            return False
        try:
            loop.call_soon_threadsafe(call, context=self._context.copy())
        except RuntimeError:  # it has just ended
            return False
        return True

    def _print_pending(self) -> None:
        """Print above the composer. The terminal stays in its mode, so that no key is lost."""
        if self._suspended:  # a question is open; printed when it is answered
            with self._lock:
                self._printing = False
            return
        self._app.renderer.erase()
        self._flush_pending()
        self._app.invalidate()

    def _flush_pending(self) -> None:
        with self._lock:
            text = "".join(self._pending)
            self._pending.clear()
            self._printing = False
        self._write(text)

    @contextlib.contextmanager
    def running(self, status: Callable[[], str], tail: Callable[[], list[str]]) -> Iterator[None]:  # noqa: ARG002
        with self._lock:
            self._tail = tail
        try:
            yield
        finally:
            self._end_run()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        with self._lock:
            self._flush()
        while (quiet := time.monotonic() - self._last_key) < _QUIET and self._app.is_running:
            time.sleep(_QUIET - quiet)
        entered, left = threading.Event(), threading.Event()
        if not self._in_loop(lambda: self._suspend(entered, left)):
            yield
            return
        entered.wait()
        try:
            yield
        finally:
            left.set()

    def _suspend(self, entered: threading.Event, left: threading.Event) -> None:
        async def suspend() -> None:
            try:
                async with in_terminal():
                    self._suspended = True
                    self._flush_pending()
                    entered.set()
                    await asyncio.get_running_loop().run_in_executor(None, left.wait)
                    self._flush_pending()
            finally:
                self._suspended = False
                entered.set()

        self._app.create_background_task(suspend())

    async def _tick_forever(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            if os.getppid() != self._parent:  # it was killed: nobody waits for this chat
                self._end_by_signal(signal.SIGHUP)
                return
            if self._queue.working:
                tail = self._tail()
                with self._lock:
                    self._last_tail = tail
                    self._frame += 1
                self._app.invalidate()
