"""Names for what was read from JSON: only whoever reads a value knows its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = dict[str, Any]
JsonMapping = Mapping[str, Any]
"""An object that nobody changes."""
