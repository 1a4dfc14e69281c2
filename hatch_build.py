"""Build hook: put the `specs.json` of every dialect into the wheel, or beside the sources of an editable install."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SpecsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Runs `handrail.mcp.build_specs` on the sources that are being built."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root) / "src"
        sys.path.insert(0, str(source))
        try:
            from handrail.mcp import build_specs

            if version == "editable":
                build_specs.build(source / "handrail" / "dialects", trusted=False)
                return
            self._built = tempfile.TemporaryDirectory()
            for path in build_specs.build(Path(self._built.name), trusted=True):
                name = f"handrail/dialects/{path.parent.name}/{path.name}"
                build_data["force_include"][str(path)] = name
        finally:
            sys.path.remove(str(source))
