"""The examples of docs/integrations.md that need more than a script, found by their heading and run as they are."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from tests.forked import run_python
from tests.integrations.scripted import scripted

PAGE = Path(__file__).parents[2] / "docs" / "integrations.md"


def example(heading: str) -> str:
    part = PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"^```py\n(.*?)^```", part, re.DOTALL | re.MULTILINE)
    return str(code)


def run_example(heading: str, folder: Path, *replies: dict[str, Any]) -> str:
    """What the example prints, in a process of its own, with a server on loopback in place of the providers."""
    with scripted(*replies) as server:
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY"), "none")
        places = dict.fromkeys(("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_URL"), server.url)
        quiet = {"LANGSMITH_TRACING": "false", "HF_HUB_OFFLINE": "1"}
        done = run_python("-P", "-c", example(heading), cwd=folder, env={**os.environ, **keys, **places, **quiet})
    assert done.returncode == 0, done.stderr
    return done.stdout
