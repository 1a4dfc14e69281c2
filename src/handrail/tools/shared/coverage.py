"""The line at the end of a search or listing that says what it passed over, and what would widen it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.tools.tool import Words

if TYPE_CHECKING:
    from handrail.search.receipt import Receipt


def passed_over(receipt: Receipt, words: Words) -> str:
    """What was not looked at, in one line; empty if nothing was passed over."""
    found = {name: count for name, count in receipt.facts().items() if count}
    if not found:
        return ""
    items = ", ".join(words.say(f"coverage.{name}", count=count) for name, count in found.items())
    switches = [words.say(f"coverage.include_{name}") for name in ("ignored", "hidden") if name in found]
    return words.say("coverage.passed_over", items=items, switches=" / ".join(filter(None, switches)))
