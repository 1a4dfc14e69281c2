"""Count the cost of a conversation: tokens, money if prices are known, and how full the context window is."""

from __future__ import annotations

from dataclasses import dataclass

from handrail.agent.messages import Event, ModelReplied


@dataclass(slots=True)
class Meter:
    """Counts."""

    model: str
    window: int
    price_in: float | None = None
    price_out: float | None = None
    input: int = 0
    output: int = 0
    used: int = 0
    """Tokens of the current conversation."""
    is_estimated: bool = False
    """Whether the server did not count the tokens of some reply."""

    def notice(self, event: Event) -> None:
        if isinstance(event, ModelReplied):
            self.input += event.usage.input
            self.output += event.usage.output
            self.used = event.usage.input + event.usage.output
            self.is_estimated |= event.usage.is_estimated

    @property
    def cost(self) -> float | None:
        """None where no price is known."""
        if self.price_in is None and self.price_out is None:
            return None
        return (self.input * (self.price_in or 0.0) + self.output * (self.price_out or 0.0)) / 1e6

    def line(self) -> str:
        about = "about " if self.is_estimated else ""
        parts = [self.model.rpartition("/")[2], f"{about}{self.input:,} in, {self.output:,} out"]
        if (cost := self.cost) is not None:
            parts.append(f"cost {cost:.4f}" if cost < 1 else f"cost {cost:,.2f}")
        parts.append(f"{min(self.used / self.window, 1.0):.0%} of {self.window:,}")
        return " · ".join(parts)
