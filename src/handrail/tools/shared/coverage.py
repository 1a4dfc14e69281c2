"""The line at the end of a search or listing that says what it skipped, and which argument includes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail.tools.tool import Templates

if TYPE_CHECKING:
    from handrail.search.receipt import Receipt


def describe_skipped(receipt: Receipt, templates: Templates) -> str:
    """List the skipped parts of a search in one line; empty if nothing was skipped."""
    counts = {name: count for name, count in receipt.facts().items() if count}
    items = ", ".join(templates.fill(f"coverage.{name}", count=count) for name, count in counts.items())
    if receipt.uncounted:
        uncounted = templates.fill("coverage.uncounted", kinds=", ".join(receipt.uncounted))
        items = f"{items}; {uncounted}" if items else uncounted
    if not items:
        return ""
    kinds = {*counts, *receipt.uncounted}
    switches = [templates.fill(f"coverage.include_{name}") for name in ("ignored", "hidden") if name in kinds]
    return templates.fill("coverage.passed_over", items=items, switches=" / ".join(filter(None, switches)))
