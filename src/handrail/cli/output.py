"""Output of commands: bytes for programs, escaped and coloured text for terminals, exceptions that end a command."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping

from handrail.approval.screen import Screen as Screen
from handrail.approval.screen import escape_for_terminal as escape_for_terminal
from handrail.approval.screen import on_terminal as on_terminal
from handrail.approval.screen import paint_diff as paint_diff
from handrail.cli.minimal import Stop as Stop
from handrail.cli.minimal import UsageError as UsageError
from handrail.cli.minimal import write as write
from handrail.text.display import replace_surrogates
from handrail.text.json_values import as_line as as_line


def is_interactive(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a person watches a terminal that can do more than print lines."""
    return on_terminal(sys.stdout) and environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


def warn(text: str) -> None:
    """A line for the person, on stderr."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            sys.stderr.buffer.write((escape_for_terminal(replace_surrogates(text)) + "\n").encode("utf-8"))
            sys.stderr.buffer.flush()


def as_document(value: object) -> str:
    """JSON for the reader at hand: indented on a terminal, on one line in a pipe."""
    if on_terminal(sys.stdout):
        return escape_for_terminal(replace_surrogates(json.dumps(value, indent=2, ensure_ascii=False))) + "\n"
    return as_line(value) + "\n"


def show_diff(diff: str) -> None:
    """A diff for the person, on stderr: in colours on a terminal, as it is elsewhere."""
    if not diff or sys.stderr is None:
        return
    text = Screen(sys.stderr).render(*paint_diff(diff)) if on_terminal(sys.stderr) else diff
    with contextlib.suppress(OSError):
        sys.stderr.buffer.write(text.encode("utf-8"))
        sys.stderr.buffer.flush()
