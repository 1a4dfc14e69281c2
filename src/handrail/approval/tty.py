"""The terminal in front of a person: reads single keys and lines, whatever stdin and stdout are used for."""

from __future__ import annotations

import contextlib
import os
import signal
import termios
import tty as terminal_modes
from collections.abc import Iterator
from typing import TextIO


class Tty:
    """An open terminal."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.out: TextIO = os.fdopen(os.dup(fd), "w", encoding="utf-8", errors="backslashreplace")

    @classmethod
    def open(cls) -> Tty | None:
        """The terminal of this process; None if there is none."""
        try:
            tty = cls(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return None
        restore_terminal_signals()
        return tty

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.out.close()
        os.close(self.fd)

    def write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()

    def read(self, most: int) -> bytes:
        """Read typed bytes as soon as there are some; empty at the end of the input."""
        return os.read(self.fd, most)

    def key(self, prompt: str) -> str:
        """Read one key without Enter; Ctrl-C is a `KeyboardInterrupt`. Keys typed before do not count."""
        with self._read_single_keys():
            self.write(prompt)
            pressed = self.read(1)
            if pressed == b"\x1b":  # the rest of an arrow key is not an answer of its own
                self._forget()
        key = pressed.decode("latin-1") or "\x04"
        self.write((key if key.isprintable() else "") + "\n")
        return key

    def line(self, prompt: str) -> str:
        """A line, as the person has edited it; empty at the end of the input."""
        self.write(prompt)
        taken = bytearray()
        while not taken.endswith(b"\n"):
            more = self.read(4096)
            if not more:
                break
            taken += more
        return taken.decode("utf-8", "replace").strip()

    @contextlib.contextmanager
    def _read_single_keys(self) -> Iterator[None]:
        before = termios.tcgetattr(self.fd)
        terminal_modes.setcbreak(self.fd, termios.TCSAFLUSH)  # which forgets what was typed so far
        try:
            yield
        finally:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, before)

    def _forget(self) -> None:
        termios.tcflush(self.fd, termios.TCIFLUSH)


def ask_key(prompt: str, keys: str) -> str:
    """Ask at the terminal for one of these keys; Esc and Ctrl-D are answers too. Empty if there is none."""
    tty = Tty.open()
    if tty is None:
        return ""
    with contextlib.closing(tty):
        while (key := tty.key(prompt)) not in (*keys, "\x04", "\x1b"):
            pass
        return key


def restore_terminal_signals() -> None:
    """React to Ctrl-C, Ctrl-\\ and the end of the terminal again, if the parent process had them ignored."""
    with contextlib.suppress(AttributeError, ValueError):
        for number in (signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
