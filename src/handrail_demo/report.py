"""Print the steps of the demo and count its checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.cli.output import paint_diff, write

if TYPE_CHECKING:
    from handrail.cli.output import Screen


class DemoReport:
    """Writes titles, sentences and checks to the screen, in colour where it has colours."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.checks = 0
        self.failed = 0

    def title(self, text: str) -> None:
        self.say("\n" + text, "bold")

    def check(self, claim: str, holds: bool) -> None:
        """Print one check and count it."""
        self.checks += 1
        self.failed += not holds
        self.say(f"  {'ok' if holds else 'WRONG'}: {claim}", "green" if holds else "bold red")

    def say(self, text: str, style: str = "") -> None:
        write(self.screen.render((text, style)))

    def say_inline(self, text: str, style: str = "") -> None:
        """Write text without ending the line."""
        write(self.screen.render((text + "\n", style)).removesuffix("\n"))

    def diff(self, text: str) -> None:
        write(self.screen.render(*paint_diff(text)))

    def finish(self) -> bool:
        """Print the total; return whether every check passed."""
        self.say("")
        if self.failed:
            self.say(f"{self.failed} of {self.checks} checks failed.", "bold red")
            return False
        self.say(f"All {self.checks} checks passed.", "bold green")
        return True
