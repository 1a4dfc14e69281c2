"""The line editor: Enter sends, Alt-Enter or a backslash at the end begins a new line, a paste keeps its lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style

from handrail.cli.chat.early import PROMPT

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

_STYLE = Style.from_dict({"bottom-toolbar": "noreverse fg:ansibrightblack", "prompt": "ansicyan bold"})


class LineEditor:
    """Asks for messages."""

    def __init__(self, history: str, completer: Completer, status: Callable[[], str]) -> None:
        os.close(os.open(history, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))  # nobody else reads it
        self._session: PromptSession[str] = PromptSession(
            [("class:prompt", PROMPT)],
            multiline=True,
            prompt_continuation=lambda width, number, soft: " " * width,  # noqa: ARG005 - the signature is fixed
            key_bindings=bindings(),
            history=FileHistory(history),
            completer=completer,
            complete_in_thread=True,
            complete_while_typing=True,
            reserve_space_for_menu=6,
            bottom_toolbar=lambda: [("class:bottom-toolbar", status())],
            style=_STYLE,
            enable_open_in_editor=True,
        )

    def ask(self, began: Callable[[], None] | None = None) -> str:
        """A message. Raises `KeyboardInterrupt` at Ctrl-C on an empty line, `EOFError` at Ctrl-D."""
        return self._session.prompt(pre_run=began)

    def end(self) -> None:
        """End the question that is open; may be called from any thread."""
        app = self._session.app
        if app.loop and app.is_running:
            app.loop.call_soon_threadsafe(lambda: app.exit(exception=EOFError()) if app.is_running else None)


def bindings() -> KeyBindings:
    """The keys that differ from the defaults."""
    keys = KeyBindings()

    @keys.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state and state.current_completion:  # the menu is open, and something in it is chosen
            buffer.apply_completion(state.current_completion)
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("c-c")
    def forget(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt(), style="class:aborting")

    return keys
