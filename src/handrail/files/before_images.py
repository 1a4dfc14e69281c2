"""How much of what a command overwrites or deletes is kept, so that an undo can restore it."""

from __future__ import annotations

MOST_FILES = 2_000
MOST_BYTES = 64 << 20
