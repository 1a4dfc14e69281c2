"""A client on a terminal of its own, in tmux: what its screen shows, and keys that are typed."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

_SECONDS = 120
_PATIENCE = 15
"""Seconds after which a key counts as lost."""
COLUMNS, ROWS = 120, 50


class Terminal:
    """A program that runs in tmux."""

    def __init__(self, socket: str) -> None:
        self._tmux = ["tmux", "-S", socket, "-f", "/dev/null"]

    def start(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> None:
        variables = [f"{name}={value}" for name, value in environment.items()]
        size = ["-x", str(COLUMNS), "-y", str(ROWS)]
        self._run("new-session", "-d", *size, "-c", str(cwd), "env", "-i", *variables, *command)
        self._run("set-option", "remain-on-exit", "on")

    def read_screen(self) -> str:
        """The lines of the screen."""
        return self._run("capture-pane", "-p", "-t", "0")

    def has_ended(self) -> bool:
        """Whether the program has left its terminal; tmux may take longer to notice its end."""
        return self._run("display-message", "-p", "-t", "0", "#{pane_dead}").strip() == "1"

    def wait(self, condition: str | Callable[[str], object]) -> str:
        """The screen, as soon as it shows a text or meets a condition."""
        is_met = _as_condition(condition)
        until = time.monotonic() + _SECONDS
        while not is_met(screen := self.read_screen()):
            assert time.monotonic() < until, f"the screen does not show {condition!r}:\n{screen}"
            time.sleep(0.1)
        return screen

    def press(self, key: str, until: str | Callable[[str], object]) -> None:
        """Press a key, by its name in tmux, until the screen shows a text or meets a condition.

        It is pressed again after a while only: a program that is drawing its screen may lose a key.
        """
        is_met = _as_condition(until)
        self._repeat(lambda: self._run("send-keys", "-t", "0", key), is_met)

    def type(self, text: str) -> None:
        """Type a text until it is on the screen."""
        self._repeat(lambda: self._run("send-keys", "-t", "0", "-l", text), lambda screen: text in screen)

    def _repeat(self, act: Callable[[], object], is_met: Callable[[str], object]) -> None:
        until = time.monotonic() + _SECONDS
        while not is_met(screen := self.read_screen()):
            assert time.monotonic() < until, f"the screen does not change as expected:\n{screen}"
            act()
            again = time.monotonic() + _PATIENCE
            while not is_met(self.read_screen()) and time.monotonic() < again:
                time.sleep(0.1)

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str) -> str:
        environment = {**os.environ, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        done = subprocess.run([*self._tmux, *words], capture_output=True, encoding="utf-8", env=environment, check=True)
        return done.stdout


def _as_condition(wanted: str | Callable[[str], object]) -> Callable[[str], object]:
    return wanted if callable(wanted) else lambda screen: wanted in screen


def has_tmux() -> bool:
    return shutil.which("tmux") is not None


@contextlib.contextmanager
def open_terminal() -> Iterator[Terminal]:
    """A terminal in which nothing runs yet; what runs in it ends with it."""
    with tempfile.TemporaryDirectory(prefix="tmux-") as folder:
        terminal = Terminal(str(Path(folder, "socket")))
        try:
            yield terminal
        finally:
            terminal.close()


class ClaudeScreen:
    """Keys of Claude Code."""

    ready = "auto mode on"
    shown_lines = 3
    """Lines of a question that are on the screen."""

    def answer(self, terminal: Terminal, label: str) -> None:
        """Choose an answer."""
        terminal.wait("Allow it?: ▸ not set")
        terminal.press("Right", "❯ ◯ Yes")
        terminal.press("Down", f"❯ ◯ {label}")
        terminal.press("Enter", f"✔ Allow it?: {label}")
        self._accept(terminal)

    def give_reason(self, terminal: Terminal, reason: str) -> None:
        terminal.wait("Why not?: Type something")
        terminal.type(reason)
        terminal.press("Enter", "❯ Accept")
        self._accept(terminal)

    def _accept(self, terminal: Terminal) -> None:
        terminal.press("Enter", lambda screen: "❯ Accept" not in screen)


class CodexScreen:
    """Keys of Codex."""

    ready = "Ask Codex to do anything"
    shown_lines = 12

    def answer(self, terminal: Terminal, label: str) -> None:
        """Choose an answer."""
        terminal.wait("› 1. Yes")
        terminal.press("Down", lambda screen: any(line.strip().endswith(f". {label}") for line in _marked(screen)))
        terminal.press("Enter", lambda screen: "Allow it?" not in screen)

    def give_reason(self, terminal: Terminal, reason: str) -> None:
        terminal.wait("› Type your answer")
        terminal.type(reason)
        terminal.press("Enter", lambda screen: "Why not?" not in screen)


def _marked(screen: str) -> list[str]:
    return [line for line in screen.splitlines() if line.strip().startswith("›")]


Screen = ClaudeScreen | CodexScreen
SCREENS: dict[str, Screen] = {"claude": ClaudeScreen(), "codex": CodexScreen()}
