"""How the demonstration tells what happens, and counts whether each step came out as told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.cli.output import painted, write

if TYPE_CHECKING:
    from handrail.cli.output import Screen


class Telling:
    """Titles, sentences, and checks: in colours where the screen has them."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.checks = 0
        self.wrong = 0

    def title(self, text: str) -> None:
        self.say("\n" + text, "bold")

    def told(self, what: str, came_true: bool) -> None:
        """One check; what it says must be true."""
        self.checks += 1
        self.wrong += not came_true
        self.say(f"  {'ok' if came_true else 'WRONG'}: {what}", "green" if came_true else "bold red")

    def say(self, text: str, style: str = "") -> None:
        write(self.screen.worded((text, style)))

    def piece(self, text: str, style: str = "") -> None:
        """Text that stays on its line."""
        write(self.screen.worded((text + "\n", style)).removesuffix("\n"))

    def diff(self, text: str) -> None:
        write(self.screen.worded(painted(text)))

    def end(self) -> bool:
        """The sum of it; whether all came out as told."""
        self.say("")
        if self.wrong:
            self.say(f"{self.wrong} of {self.checks} checks did not come out as told.", "bold red")
            return False
        self.say(f"All {self.checks} checks came out as told.", "bold green")
        return True
